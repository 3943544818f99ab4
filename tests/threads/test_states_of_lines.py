"""What `thread()` tells of a state: LangGraph computes it from the line that was read."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import asks, says
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES

import agentgraph as ag
from agentgraph.graph.strict_serializer import UnreadSnapshot, listing
from agentgraph.journal.line_view import LineView
from agentgraph.journal.saved import COPIED, Saved

STEPS = 110
"""So many that the history is stored whole in between."""
CONFIG: Any = {"configurable": {"thread_id": "t"}}
Act = Callable[[ag.Runner], object]


def counted(ctx: ag.Context) -> Any:
    yield f"Draft {len(ctx.messages)}."
    yield ag.SetValues(count=ctx.values.get("count", 0) + 1)


def tree() -> ag.Agent:
    loop = ag.loop("l", [ag.function_agent("a", counted)], max_iterations=STEPS)
    return ag.sequential("s", [loop, ag.parallel("p", [says("b"), asks("boss")]), says("c")])


def begun(runner: ag.Runner) -> None:
    runner.graph.update_state(CONFIG, {"messages": [HumanMessage("Before.")], "values": {"count": 5}})


def run(runner: ag.Runner) -> None:
    runner.invoke("Go.", thread_id="t")


def saved_at_exit(runner: ag.Runner) -> None:
    runner.graph.invoke({"messages": [HumanMessage("Go.")]}, CONFIG, durability="exit")


def answered(runner: ag.Runner) -> None:
    [*runner.resume("t", "yes")]


def edited(runner: ag.Runner) -> None:
    first = runner.thread("t").messages[0]
    changed = HumanMessage("Go on.", id=first.id)
    runner.graph.update_state(CONFIG, {"messages": [changed], "values": {"count": -1}})


def emptied(runner: ag.Runner) -> None:
    removal = [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("Anew.")]
    runner.graph.update_state(CONFIG, {"messages": removal})


def rewound(runner: ag.Runner) -> None:
    [*runner.rewind("t", f"s/l[{STEPS - 20}]/a")]


def dropped(runner: ag.Runner) -> None:
    [*runner.run("Another.", thread_id="t", drop_pending=True)]


def forked(runner: ag.Runner) -> None:
    every = [*runner.graph.get_state_history(CONFIG)]
    runner.graph.update_state(every[STEPS // 2].config, {"values": {"count": 7}})


FIRST: dict[str, tuple[Act, ...]] = {
    "edited before": (begun, run),
    "saved at its end": (saved_at_exit,),
    "saved at its end, then run": (saved_at_exit, dropped),
}
LATER: dict[str, tuple[Act, ...]] = {
    "paused": (),
    "ended": (answered,),
    "edited": (edited,),
    "emptied": (emptied,),
    "rewound": (rewound,),
    "dropped": (dropped, edited),
    "forked": (forked,),
    "saved at its end": (saved_at_exit, dropped),
    "all": (edited, dropped, rewound, emptied, forked),
}


@pytest.fixture(scope="module")
def a_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a thread that has run, and asks."""
    path = tmp_path_factory.mktemp("run") / "a.db"
    with ag.sqlite_saver(path) as saver:
        run(ag.Runner(tree(), checkpointer=saver))
    return path


def has_the_state_of_langgraph(runner: ag.Runner) -> bool:
    """Return whether `thread()` has the messages and the values that LangGraph has."""
    state = runner.graph.get_state(CONFIG).values
    thread = runner.thread("t")
    return ([*thread.messages], dict(thread.values)) == (state["messages"], state["values"])


@pytest.mark.parametrize("acts", LATER)
def test_a_thread_has_the_state_that_langgraph_has(tmp_path: Path, a_file: Path, acts: str) -> None:
    with ag.sqlite_saver(shutil.copy(a_file, tmp_path)) as saver:
        runner = ag.Runner(tree(), checkpointer=saver)
        for act in LATER[acts]:
            act(runner)
        assert has_the_state_of_langgraph(runner)


@pytest.mark.parametrize("acts", FIRST)
def test_however_it_began(tmp_path: Path, acts: str) -> None:
    with ag.sqlite_saver(tmp_path / "a.db") as saver:
        runner = ag.Runner(tree(), checkpointer=saver)
        for act in FIRST[acts]:
            act(runner)
        assert has_the_state_of_langgraph(runner)


def test_in_memory() -> None:
    runner = ag.Runner(tree(), checkpointer=InMemorySaver())
    for act in (begun, run, *LATER["all"]):
        act(runner)
    assert has_the_state_of_langgraph(runner)


def test_on_an_event_loop() -> None:
    async def both() -> tuple[Any, Any]:
        runner = ag.Runner(tree(), checkpointer=InMemorySaver())
        await runner.ainvoke("Go.", thread_id="t")
        return await runner.athread("t"), await runner.graph.aget_state(CONFIG)

    thread, state = asyncio.run(both())
    assert ([*thread.messages], dict(thread.values)) == (state.values["messages"], {"count": STEPS})


def test_each_message_is_decoded_once(a_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ag.sqlite_saver(a_file) as saver:
        runner = ag.Runner(tree(), checkpointer=saver)
        decoded: list[int] = []
        plain = type(saver.serde).loads_typed

        def loads(self: Any, data: Any) -> Any:
            decoded.append(len(data[1]))
            return plain(self, data)

        monkeypatch.setattr(type(saver.serde), "loads_typed", loads)
        [*runner.events("t")]
        of_events = sum(decoded)
        decoded.clear()
        runner.thread("t")
    assert sum(decoded) < of_events * 1.1


@pytest.mark.parametrize(
    "changed", [{}, {"source": "input"}, {"source": "update"}, {COPIED: []}, {"step": 99}]
)
def test_a_snapshot_counts_where_a_step_before_it_did_not_end(a_file: Path, changed: Any) -> None:
    with ag.sqlite_saver(a_file) as saver, listing():
        line = [Saved(*each) for each in saver.list({"configurable": {**CONFIG["configurable"]}})]
    head, *before = [each for each in line if not each.namespace]
    before[-3] = before[-3]._replace(metadata={**before[-3].metadata, **changed})
    view = LineView(head, before)
    history = view.get_delta_channel_history(config=head.config, channels=["messages"])["messages"]
    assert isinstance(history.get("seed"), UnreadSnapshot) == bool(changed)

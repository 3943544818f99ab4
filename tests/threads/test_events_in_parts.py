"""The events of a long thread come as they are read, and are those that a whole reading has."""

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import asks, chat, fails, says
from helpers.databases import Databases, asaver_at, saver_at
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

import agentgraph as ag
from agentgraph.journal import event_parts
from agentgraph.journal.replay import events_on
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}
Act = Callable[[ag.Runner], object]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def works(ctx: ag.Context) -> Any:
    yield ag.Custom("Working.")
    yield f"Draft {len(ctx.messages)}."
    yield ag.SetValues(count=ctx.values.get("count", 0) + 1, items=[1, 2])


def adds() -> ag.Agent:
    script = (calls(call("add", a=1, b=2), call("add", a=3, b=4)), "Both.")
    return chat("adds", *script, *script, *script, *script, tools=[add])


def looped(*agents: ag.Agent, name: str = "l") -> ag.Agent:
    return ag.loop(name, [*agents], max_iterations=3)


TREES: dict[str, Callable[[], ag.Agent]] = {
    "function": lambda: looped(ag.function_agent("works", works), says("critic")),
    "chat": lambda: ag.sequential("s", [adds(), says("after")]),
    "parallel": lambda: looped(ag.parallel("p", [says("a"), ag.function_agent("works", works)])),
    "items": lambda: ag.sequential(
        "s", [ag.function_agent("works", works), ag.each("e", says("item"), over="items")]
    ),
    "exit": lambda: looped(says("a"), ag.function_agent("out", lambda ctx: ag.BreakLoop())),
}
"""Trees whose threads are read in parts."""
OTHERS: dict[str, Callable[[], ag.Agent]] = {
    "lanes": lambda: ag.parallel("p", [looped(says("a")), looped(says("b"), name="m")]),
    "question": lambda: ag.sequential("s", [says("a"), asks("boss"), says("b")]),
    "failure": lambda: ag.sequential("s", [says("a"), fails("b"), says("c")]),
    "transfers": lambda: ag.swarm(
        "team", [ag.function_agent("x", lambda ctx: ag.TransferTo("y")), says("y")]
    ),
}
"""Trees whose threads are read whole."""


def run(runner: ag.Runner) -> None:
    taken(runner.run("Go.", thread_id="t", drop_pending=True))


def left(runner: ag.Runner) -> None:
    stream = runner.run("Go.", thread_id="t", drop_pending=True)
    next(iter(stream))
    stream.close()


def resumed(runner: ag.Runner) -> None:
    answers = {each.id: "yes" for each in runner.pending("t")}
    taken(runner.resume("t", *([answers] if answers else ())))


def rewound(runner: ag.Runner) -> None:
    taken(runner.rewind("t", runner.visits("t")[0].address))


def edited(runner: ag.Runner) -> None:
    runner.graph.update_state(CONFIG, {"messages": [HumanMessage("More.")]})


def copied(runner: ag.Runner) -> None:
    runner.copy("t", "u")
    runner.delete("t")
    runner.copy("u", "t")


def saved_at_exit(runner: ag.Runner) -> None:
    runner.graph.invoke({"messages": [HumanMessage("Go.")]}, CONFIG, durability="exit")


PLAIN: dict[str, tuple[Act, ...]] = {"run": (run,), "turns": (run, run, run), "copied": (run, copied)}
ACTS: dict[str, tuple[Act, ...]] = {
    "left": (run, left, resumed, run),
    "rewound": (run, run, rewound, run),
    "edited": (run, edited, run),
    "saved at its end": (run, saved_at_exit, run),
}


def taken(events: Iterator[ag.AgentEvent]) -> None:
    """Take events until a failure."""
    try:
        for _ in events:
            pass
    except ValueError:
        pass


async def whole(saver: Any) -> list[ag.AgentEvent]:
    """Return the events of a thread that is read whole."""
    return [*await events_on(saver)]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have short threads read in short parts, and return how many events each part had."""
    found: list[int] = []

    async def counted(*args: Any) -> event_parts.Part:
        part = await plain(*args)
        found.append(len(part.events))
        return part

    plain = event_parts.replayed_next
    monkeypatch.setattr(event_parts, "LONG", 1)
    monkeypatch.setattr(event_parts, "PART", 2)
    monkeypatch.setattr(event_parts, "replayed_next", counted)
    monkeypatch.setattr("agentgraph.threads.runner.replayed_next", counted)
    return found


@pytest.mark.parametrize("acts", [*PLAIN, *ACTS])
@pytest.mark.parametrize("tree", [*TREES, *OTHERS])
def test_they_are_those_of_a_whole_reading(
    tmp_path: Path, parts: list[int], tree: str, acts: str
) -> None:
    with ag.sqlite_saver(tmp_path / "a.db") as saver:
        runner = ag.Runner({**TREES, **OTHERS}[tree](), checkpointer=saver)
        for act in {**PLAIN, **ACTS}[acts]:
            act(runner)
        events = [*runner.events("t")]
        assert events == runner.engine.read(whole, "t")
    if tree in TREES and acts in PLAIN:
        assert len(parts) > 1
        assert sum(parts) == len(events) > 0


def test_those_of_a_run_that_goes_on_are_left_out(tmp_path: Path, parts: list[int]) -> None:
    with ag.sqlite_saver(tmp_path / "a.db") as saver:
        runner = ag.Runner(looped(says("a"), says("b")), checkpointer=saver)
        run(runner)
        before = [*runner.events("t")]
        for act in (run, rewound, left):
            events = runner.events("t")
            first = next(events)
            act(runner)
            assert [first, *events] == before
            before = [*runner.events("t")]


def test_a_thread_that_is_deleted_meanwhile_is_unknown(tmp_path: Path, parts: list[int]) -> None:
    with ag.sqlite_saver(tmp_path / "a.db") as saver:
        runner = ag.Runner(looped(says("a"), says("b")), checkpointer=saver)
        run(runner)
        events = runner.events("t")
        next(events)
        runner.delete("t")
        with pytest.raises(ag.UnknownThreadError):
            next(iter([*events]))


def test_what_another_tree_ran_is_told_as_it_was(tmp_path: Path, parts: list[int]) -> None:
    with ag.sqlite_saver(tmp_path / "a.db") as saver:
        trees = (ag.sequential("s", [says(each) for each in names]) for names in ("ab", "zab"))
        runners = [ag.Runner(tree, checkpointer=saver) for tree in trees]
        for runner in (runners[0], runners[1], runners[0]):
            run(runner)
            assert [*runner.events("t")] == runner.engine.read(whole, "t")
    assert parts != []


@pytest.mark.parametrize("place", ["a file", "a database"])
def test_it_is_the_same_on_an_event_loop(
    tmp_path: Path, request: pytest.FixtureRequest, parts: list[int], place: str
) -> None:
    def where() -> Path | str:
        databases: Databases = request.getfixturevalue("databases")
        return databases.make()

    async def read(at: Path | str) -> list[ag.AgentEvent]:
        async with asaver_at(at) as saver:
            runner = ag.Runner(TREES["function"](), checkpointer=saver)
            return [event async for event in runner.aevents("t")]

    at = tmp_path / "a.db" if place == "a file" else where()
    with saver_at(at) as saver:
        runner = ag.Runner(TREES["function"](), checkpointer=saver)
        run(runner)
        events = runner.engine.read(whole, "t")
        assert [*runner.events("t")] == events
    assert len(parts) > 1
    assert asyncio.run(read(at)) == events
    assert sum(parts) == 2 * len(events)


def test_the_first_one_comes_at_once_and_little_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[None] = []
    plain = SqliteSaver.list

    def counted(*args: Any, **bounds: Any) -> Any:
        for each in plain(*args, **bounds):
            listed.append(None)
            yield each

    monkeypatch.setattr(SqliteSaver, "list", counted)
    with ag.sqlite_saver(tmp_path / "a.db") as saver:
        tree = ag.loop("l", [says("a", "Draft.")], max_iterations=event_parts.LONG)
        runner = ag.Runner(tree, checkpointer=saver)
        run(runner)
        events = runner.events("t")
        assert next(events).text == "Draft."
        assert len(listed) <= 2 * event_parts.PART
        assert len([*events]) == event_parts.LONG - 1
        assert len(listed) == event_parts.LONG + 2
        gc.collect()
        tracemalloc.start()
        kept = [*runner.events("t")]
        gc.collect()
        held, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (most - held) / len(kept) < 2_000

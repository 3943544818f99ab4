"""What was yielded is saved before the next step, however late a saver saves: no kill loses it.

The programs here kill themselves where they are run; imported, they give their tree to the test.
"""

import asyncio
import runpy
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, collect, failing, fresh, read, unvoided
from helpers.commands import Commands
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag


class LateSaver(InMemorySaver):
    """Saves what nodes write late, and counts how much of it is open when a step is saved."""

    def __init__(self) -> None:
        super().__init__()
        self.open = 0
        self.open_at_steps: list[int] = []

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        self.open += 1
        time.sleep(0.02)
        super().put_writes(*args, **kwargs)
        self.open -= 1

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        self.open += 1
        await asyncio.sleep(0.02)
        await super().aput_writes(*args, **kwargs)
        self.open -= 1

    def put(self, *args: Any, **kwargs: Any) -> Any:
        self.open_at_steps.append(self.open)
        return super().put(*args, **kwargs)


def test_notes_are_saved_before_the_next_step(drive: Drive) -> None:
    agents = [ag.function_agent(name, lambda ctx: get_stream_writer()({"n": 1})) for name in "abc"]
    saver = LateSaver()
    runner = ag.Runner(ag.loop("l", agents, max_iterations=2), checkpointer=saver)
    assert len(list(drive.run(runner, "Go.", thread_id="t"))) == 6
    assert len(saver.open_at_steps) > 6
    assert not any(saver.open_at_steps)


class FullSaver(InMemorySaver):
    """Fails once, when the result of a task is saved that holds the text "two"."""

    is_full = True

    def put_writes(self, config: Any, writes: Any, *args: Any) -> None:
        if self.is_full and writes[0][0] == "__return__" and "two" in repr(writes[0][1]):
            self.is_full = False
            raise OSError("disk full")
        super().put_writes(config, writes, *args)


def test_messages_of_a_graph_that_cannot_be_saved_are_void(drive: Drive) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("one", lambda state: {"messages": [AIMessage("one", id="1")]})
    builder.add_node("two", lambda state: {"messages": [AIMessage("two", id="2")]})
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    runner = ag.Runner(ag.graph_agent("g", builder.compile()), checkpointer=FullSaver())
    events, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.SaverError)
    assert str(error.__cause__) == "disk full"
    events += drive.resume(runner, "t")
    assert [each.text for each in unvoided(events) if each.message] == ["one", "two"]
    assert list(runner.events("t")) == unvoided(events)


UNDOES = """
import asyncio, os, signal, sys
import agentgraph as ag

is_killed = __name__ == "__main__"


def fails(ctx) -> str:
    if is_killed:
        raise ValueError("down")
    return "mended"


def undo(ctx) -> str:
    if is_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    return "undone"


does = ag.step(ag.function_agent("a", lambda ctx: "a"), compensate=ag.function_agent("u", undo))
tree = ag.workflow("w", [does, ag.step(ag.function_agent("b", fails), depends_on=["a"])])


def late(put):
    def putting(config, writes, task_id, task_path=None):
        if "metadata" in config and writes[0][0] == "__return__":  # LangGraph's own comes too late
            return asyncio.sleep(0) if sys.argv[1] == "async" else None
        return put(config, writes, task_id)

    return putting


async def arun():
    async with ag.async_sqlite_saver("t.db") as saver:
        saver.aput_writes = late(saver.aput_writes)
        async for event in ag.Runner(tree, checkpointer=saver).arun("Go.", thread_id="t"):
            pass


if is_killed and sys.argv[1] == "async":
    asyncio.run(arun())
elif is_killed:
    with ag.sqlite_saver("t.db") as saver:
        saver.put_writes = late(saver.put_writes)
        list(ag.Runner(tree, checkpointer=saver).run("Go.", thread_id="t"))
"""


def test_a_step_that_failed_is_not_tried_again_once_others_are_undone(
    program: Commands, tmp_path: Path, drive: Drive
) -> None:
    path = tmp_path / "undoes.py"
    path.write_text(UNDOES)
    assert program(str(path), "sync" if drive is Sync else "async").code == -9
    tree = runpy.run_path(str(path))["tree"]
    events: list[ag.AgentEvent] = []
    with pytest.raises(ag.StepFailedError, match=r"the step 'b' failed: .* undone: a"):
        collect(events, drive, tmp_path / "t.db", tree, "resume", "t")
    texts = [event.text for event in events]
    assert "undone" in texts
    assert "mended" not in texts


DRAFTS = """
import json, os, signal, sys, time
from pathlib import Path
import agentgraph as ag

is_killed = __name__ == "__main__"


def draft(ctx):
    yield "draft"
    if is_killed:
        while b"draft" not in Path(".out").read_bytes():  # until it was read
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    yield "done"


def say(ctx) -> str:  # so that the edges after it are fixed
    return ctx.address


a, v, z = (ag.function_agent(name, say) for name in "avz")
asks = ag.human("h", "Go on?")
alone, beside = [
    ag.sequential("s", [a, first, ag.function_agent("g", draft), z])
    for first in (asks, ag.parallel("w", [asks, v]))
]

if is_killed:
    with ag.sqlite_saver("t.db") as saver:
        runner = ag.Runner(globals()[sys.argv[1]], checkpointer=saver)
        for event in runner.resume("t"):
            print(json.dumps(event.to_dict()), flush=True)
"""


@pytest.mark.parametrize("waits", ["alone", "beside"])
def test_a_step_that_is_killed_after_an_edit_is_void(
    program: Commands, tmp_path: Path, waits: str
) -> None:
    """LangGraph goes on after what ran last, and not where the edited state says that it is."""
    path, db = tmp_path / "drafts.py", tmp_path / "t.db"
    path.write_text(DRAFTS)
    tree = runpy.run_path(str(path))[waits]
    with ag.sqlite_saver(db) as saver:
        runner = ag.Runner(tree, checkpointer=saver)
        list(runner.run("Go.", thread_id="t"))
        list(runner.run("Again.", thread_id="t", drop_pending=True))
        history = runner.graph.get_state_history({"configurable": {"thread_id": "t"}})
        before_input = next(state.config for state in history if state.next == ("__start__",))
        runner.graph.update_state(before_input, {"values": {"edited": True}})
    ended = program(str(path), waits)
    assert ended.code == -9, ended.err
    killed = read(ended.lines)
    assert [event.text for event in killed if event.message] == ["draft"]
    events = unvoided([*killed, *fresh(Sync, db, tree, "resume", "t")])
    assert [event.text for event in events] == ["draft", "done", "s/z"]
    assert fresh(Sync, db, tree, "events", "t")[-3:] == events

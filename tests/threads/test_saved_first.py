"""What is told is saved before what comes next, however late a saver saves: no kill loses it."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Commands
from helpers import Drive, standing
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag


class LateSaver(InMemorySaver):
    """Saves what nodes write late, and counts how much of it is open where a step is saved."""

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


def counts(ctx: ag.Context) -> None:
    get_stream_writer()({"n": 1})


def test_what_is_no_message_is_saved_before_the_step_behind_it(drive: Drive) -> None:
    agents = [ag.function_agent(name, counts) for name in "abc"]
    runner = ag.Runner(ag.loop("l", agents, max_iterations=2), checkpointer=(saver := LateSaver()))
    assert len(list(drive.run(runner, "Go.", thread_id="t"))) == 6
    assert len(saver.open_at_steps) > 6
    assert not any(saver.open_at_steps)


UNDOES = """
import asyncio, os, signal, sys
import agentgraph as ag

_, mode, method = sys.argv


def fails(ctx) -> str:
    if method == "resume":
        return "mended"
    raise ValueError("down")


def undo(ctx) -> str:
    if method == "run":
        os.kill(os.getpid(), signal.SIGKILL)
    return "undone"


def late(put):
    def putting(config, writes, task_id, task_path=None):
        if task_path is not None and writes[0][0] == "__return__":  # LangGraph's own comes too late
            return asyncio.sleep(0) if mode == "async" else None
        return put(config, writes, task_id)

    return putting


does = ag.step(ag.function_agent("a", lambda ctx: "a"), compensate=ag.function_agent("u", undo))
tree = ag.workflow("w", [does, ag.step(ag.function_agent("b", fails), depends_on=["a"])])
given = {"thread_id": "t"} if method == "resume" else {"messages": "Go.", "thread_id": "t"}


async def go():
    async with ag.async_sqlite_saver("t.db") as saver:
        saver.aput_writes = late(saver.aput_writes)
        async for event in getattr(ag.Runner(tree, checkpointer=saver), f"a{method}")(**given):
            print(event.error or event.text, flush=True)


if mode == "async":
    asyncio.run(go())
else:
    with ag.sqlite_saver("t.db") as saver:
        saver.put_writes = late(saver.put_writes)
        for event in getattr(ag.Runner(tree, checkpointer=saver), method)(**given):
            print(event.error or event.text, flush=True)
"""


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_step_that_failed_is_not_tried_again_once_others_are_undone(
    program: Commands, tmp_path: Path, mode: str
) -> None:
    (tmp_path / "undoes.py").write_text(UNDOES)
    assert program(str(tmp_path / "undoes.py"), mode, "run").code == -9
    resumed = program(str(tmp_path / "undoes.py"), mode, "resume")
    assert "undone" in resumed.lines
    assert "mended" not in resumed.lines
    assert "StepFailedError" in resumed.lines[-1]


class FullSaver(InMemorySaver):
    """Fails once, where what a task hands back is saved for the first time that says "two"."""

    is_full = True

    def put_writes(self, config: Any, writes: Any, *args: Any) -> None:
        if self.is_full and writes[0][0] == "__return__" and "two" in repr(writes[0][1]):
            self.is_full = False
            raise OSError("disk full")
        super().put_writes(config, writes, *args)


def test_what_a_graph_said_is_void_if_it_cannot_be_saved(drive: Drive) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("one", lambda state: {"messages": [AIMessage("one", id="1")]})
    builder.add_node("two", lambda state: {"messages": [AIMessage("two", id="2")]})
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    runner = ag.Runner(ag.graph_agent("g", builder.compile()), checkpointer=FullSaver())
    told: list[ag.AgentEvent] = []
    with pytest.raises(OSError, match="disk full"):
        told.extend(drive.run(runner, "Go.", thread_id="t"))
    told += drive.resume(runner, "t")
    assert [each.text for each in standing(told) if each.message] == ["one", "two"]
    assert list(runner.events("t")) == standing(told)

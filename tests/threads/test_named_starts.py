"""`start` with the name of a turn: a call in the background that is safe to repeat."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers import says
from helpers.commands import wait_until
from helpers.databases import Databases

import agentgraph as ag
from agentgraph.threads.rewinds.rewinding import RewindArguments


class Desk:
    """A tree with a gate, a failure and a question, on one thread, and what ran."""

    def __init__(self, runner: type[ag.Runner], **options: Any) -> None:
        self.ran, self.fails, self.gate = list[str](), False, threading.Event()
        self.gate.set()
        tree = ag.sequential("s", [ag.function_agent("a", self._work), ag.human("boss", "Sure?")])
        self.runner = runner(tree, **options)

    def _work(self, ctx: ag.Context) -> str:
        self.ran.append(ctx.messages[-1].text)
        assert self.gate.wait(30)
        if self.fails:
            raise ValueError("no paper")
        return "A."


async def started(desk: Desk, is_async: bool, *args: Any, **options: Any) -> str:
    """Start a run, and wait for its end."""
    if is_async:
        await desk.runner.astart(*args, thread_id="t", **options)
        return await desk.runner.await_("t")
    desk.runner.start(*args, thread_id="t", **options)
    return desk.runner.wait("t")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("place", ["memory", "file", "database"])
def test_a_named_turn_begins_once(
    is_async: bool, place: str, tmp_path: Path, databases: Databases
) -> None:
    at = {"memory": lambda: None, "file": lambda: tmp_path / "t.db", "database": databases.make}

    async def repeated() -> None:
        desk = Desk(ag.Runner, checkpointer=at[place]())
        desk.fails = True
        assert await started(desk, is_async, "One.", turn_id="one") == "failed"
        desk.fails = False
        for _ in range(2):
            assert await started(desk, is_async, "One.", turn_id="one") == "paused"
        assert desk.ran == ["One.", "One."]
        (question,) = await desk.runner.apending("t")
        answers = {question.id: "Yes."}
        for _ in range(2):
            status = await started(desk, is_async, "One.", turn_id="one", answers=answers)
            assert status == "done"
        assert await started(desk, is_async, "Two.", turn_id="two") == "paused"
        assert desk.ran == ["One.", "One.", "Two."]
        assert await started(desk, is_async, "One.", turn_id="one") == "paused"
        with pytest.raises(ag.ThreadError, match="has begun with other messages"):
            await started(desk, is_async, "Three.", turn_id="two")
        await desk.runner.aclose()

    asyncio.run(repeated())


def test_a_named_turn_that_is_active_or_was_stopped_is_left_alone() -> None:
    desk = Desk(ag.Runner)
    desk.gate.clear()
    with desk.runner as runner:
        runner.start("One.", thread_id="t", turn_id="one")
        with pytest.raises(ag.ThreadBusyError):
            runner.start("One.", thread_id="t", turn_id="one")
        wait_until(lambda: desk.ran)
        runner.stop("t")
        desk.gate.set()
        assert runner.wait("t") == "stopped"
        runner.start("One.", thread_id="t", turn_id="one")
        assert runner.wait("t") == "stopped"
        runner.start(thread_id="t")
        assert runner.wait("t") == "paused"
        assert desk.ran == ["One."]


@pytest.mark.parametrize("call", ["start", "advance"])
def test_a_process_that_dies_before_the_first_step_of_a_named_turn_loses_nothing(
    call: str, tmp_path: Path
) -> None:
    """The file is copied while the turn waits for its place: a kill would leave it so."""
    desk = Desk(ag.Runner, checkpointer=tmp_path / "t.db", max_running=1)
    desk.gate.clear()
    with desk.runner as runner:
        runner.start("One.", thread_id="first")
        wait_until(lambda: desk.ran)
        runner.start("Two.", thread_id="t", turn_id="one")
        runner.steer("t", "Be brief.")
        files = (closing(sqlite3.connect(tmp_path / name)) for name in ("t.db", "copy.db"))
        with next(files) as source, next(files) as copy:
            source.backup(copy)
        desk.gate.set()
    later = Desk(ag.Runner, checkpointer=tmp_path / "copy.db")
    with later.runner as runner:
        assert runner.thread("t").status == "new"
        if call == "advance":
            runner.advance("t", "Two.", turn_id="one")
        else:
            runner.start("Two.", thread_id="t", turn_id="one")
        assert runner.wait("t") == "paused"
        (turn,) = runner.thread("t").turns
        assert sorted(each.text for each in turn.messages) == ["Be brief.", "Two."]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"messages": "Go."},
            "turn_id='one' names a turn of a thread, and a repeated call would begin",
        ),
        (
            {"thread_id": "t", "at": "a"},
            "turn_id='one' is for a turn that begins or continues; leave at=",
        ),
        ({"thread_id": "t", "at": RewindArguments("a")}, "leave at= and drop_pending= out"),
        (
            {"messages": "Go.", "thread_id": "t", "drop_pending": True},
            "leave at= and drop_pending= out",
        ),
        (
            {"messages": "Go.", "thread_id": "t", "while_running": "queue"},
            "while_running='queue' with turn_id= could send messages of a turn twice; leave one",
        ),
        ({"thread_id": "t", "values": {"a": 1}}, "values of a named turn belong to its messages"),
        ({"thread_id": "t", "answers": "yes"}, "answers='yes' names no question"),
        ({"thread_id": "t"}, "the turn 'one' has not begun; pass its messages"),
    ],
)
def test_what_is_not_safe_to_repeat_is_refused(options: dict[str, Any], fault: str) -> None:
    runner = ag.Runner(says("a"))
    with pytest.raises(ag.AgentGraphError, match=fault):
        runner.start(turn_id="one", **options)
    with pytest.raises(ag.AgentGraphError, match=fault):
        asyncio.run(runner.astart(turn_id="one", **options))
    assert runner.threads() == []

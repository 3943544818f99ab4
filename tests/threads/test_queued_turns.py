"""Inputs for a thread that is busy: refused, queued for turns of their own, or sent to its run."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from helpers import asks, fails, texts
from helpers.commands import Commands, wait_until

import agentgraph as ag
from agentgraph.graph.sync_async import run_calls
from agentgraph.journal.requests import is_waited_for, requests
from agentgraph.testing import ScriptedChatModel

pytestmark = pytest.mark.by_turns("saver")


def repeats() -> ag.Agent:
    """Return an agent that says what the user said last."""
    return ag.function_agent("a", lambda ctx: ctx.messages[-1].text)


def waiting(runner: ag.Runner, thread_id: str = "t") -> int:
    """Return how many callers wait for a turn on a thread."""
    thread = runner.engine.thread(thread_id)
    every = run_calls(requests(thread))
    return sum(run_calls(is_waited_for(thread, each)) for each in every)


def turns(runner: ag.Runner, thread_id: str = "t") -> list[list[str]]:
    """Return what the user said in each turn."""
    return [[each.text for each in turn.messages] for turn in runner.thread(thread_id).turns]


class Caller:
    """A caller in a thread of its own, and what it was told."""

    def __init__(self, events: Iterator[ag.AgentEvent]) -> None:
        self.told: list[str] = []
        self.failed: list[BaseException] = []
        self._events = events
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            self.told += [each.text or each.kind for each in self._events]
        except BaseException as error:
            self.failed.append(error)

    def end(self) -> list[str]:
        self._thread.join(30)
        assert not self._thread.is_alive(), "the caller does not end"
        if self.failed:
            raise self.failed[0]
        return self.told


def test_a_busy_thread_refuses_unless_it_is_told_otherwise(saver: Any) -> None:
    with ag.Runner(repeats(), checkpointer=saver) as runner:
        run = runner.run("Go.", thread_id="t", while_running="queue")  # it is free
        for option in ({}, {"while_running": "refuse"}):
            with pytest.raises(ag.ThreadBusyError):
                runner.run("No.", thread_id="t", **option)
        with pytest.raises(ag.AgentGraphError, match="while_running='later' is unknown"):
            runner.run("No.", thread_id="t", while_running="later")  # type: ignore[arg-type]
        assert [each.text for each in run] == ["Go."]
        assert turns(runner) == [["Go."]]


def test_queued_inputs_have_turns_of_their_own_in_their_order(saver: Any) -> None:
    with ag.Runner(repeats(), checkpointer=saver) as runner:
        run = runner.run("0", thread_id="t")
        callers = []
        for number in range(1, 5):
            queued = runner.run(str(number), thread_id="t", while_running="queue")
            assert waiting(runner) == number
            callers.append(Caller(queued))
        assert texts(runner.thread("t").queued) == [f"human: {n}" for n in range(1, 5)]
        list(run)
        assert [caller.end() for caller in callers] == [["1"], ["2"], ["3"], ["4"]]
        assert turns(runner) == [[str(number)] for number in range(5)]
        assert not runner.thread("t").queued


def test_async_inputs_have_turns_of_their_own_in_their_order(saver: Any) -> None:
    async def queued(runner: ag.Runner) -> None:
        async def call(run: ag.AsyncRun) -> list[str]:
            return [each.text async for each in run]

        run = await runner.arun("0", thread_id="t")
        tasks = []
        for number in range(1, 5):
            later = await runner.arun(str(number), thread_id="t", while_running="queue")
            tasks.append(asyncio.create_task(call(later)))
        assert await call(run) == ["0"]
        assert await asyncio.gather(*tasks) == [["1"], ["2"], ["3"], ["4"]]

    with ag.Runner(repeats(), checkpointer=saver) as runner:
        asyncio.run(queued(runner))
        assert turns(runner) == [[str(number)] for number in range(5)]


def test_a_later_caller_does_not_overtake_one_that_waits(saver: Any) -> None:
    """Also where the thread is free at that moment."""
    with ag.Runner(repeats(), checkpointer=saver) as runner:
        run = runner.run("0", thread_id="t")
        first = runner.run("1", thread_id="t", while_running="queue")  # nobody reads it yet
        list(run)
        second = Caller(runner.run("2", thread_id="t", while_running="queue"))
        assert [each.text for each in first] == ["1"]
        assert second.end() == ["2"]
        assert turns(runner) == [["0"], ["1"], ["2"]]


PROGRAM = """
import sys
import agentgraph as ag

agent = ag.function_agent("a", lambda ctx: ctx.messages[-1].text)
with ag.Runner(agent, checkpointer="threads.db") as runner:
    run = runner.run(sys.argv[1], thread_id="t", while_running="queue")
    print("waits", flush=True)
    print([event.text for event in run], flush=True)
"""


def test_callers_in_other_processes_wait_in_line(program: Commands) -> None:
    (program.folder / "caller.py").write_text(PROGRAM)
    with ag.Runner(repeats(), checkpointer=program.folder / "threads.db") as runner:
        run = runner.run("0", thread_id="t")
        first = Caller(runner.run("1", thread_id="t", while_running="queue"))
        other = program.start("caller.py", "2")
        wait_until(lambda: waiting(runner) == 2)
        last = Caller(runner.run("3", thread_id="t", while_running="queue"))
        list(run)
        assert (first.end(), last.end()) == (["1"], ["3"])
        assert other.wait().lines == ["waits", "['2']"]
        assert turns(runner) == [["0"], ["1"], ["2"], ["3"]]


def test_a_caller_that_is_killed_leaves_its_input_to_the_next_turn(program: Commands) -> None:
    (program.folder / "caller.py").write_text(PROGRAM)
    with ag.Runner(repeats(), checkpointer=program.folder / "threads.db") as runner:
        run = runner.run("0", thread_id="t")
        other = program.start("caller.py", "1")
        wait_until(lambda: waiting(runner) == 1)
        live = Caller(runner.run("2", thread_id="t", while_running="queue"))
        wait_until(lambda: waiting(runner) == 2)
        other.signal(signal.SIGKILL)
        other.wait_for_code()
        assert waiting(runner) == 1
        assert texts(runner.thread("t").queued) == ["human: 1", "human: 2"]
        list(run)
        assert live.end() == ["2"]
        assert turns(runner) == [["0"], ["1", "2"]]
        assert not runner.thread("t").queued


@pytest.mark.parametrize("closes", [True, False], ids=["closed", "dropped"])
def test_a_caller_that_leaves_the_line_leaves_its_input(closes: bool, saver: Any) -> None:
    with ag.Runner(repeats(), checkpointer=saver) as runner:
        run = runner.run("0", thread_id="t")
        queued: Any = runner.run("1", thread_id="t", while_running="queue")
        if closes:
            queued.close()
        del queued
        assert waiting(runner) == 0
        assert texts(runner.thread("t").queued) == ["human: 1"]
        list(run)
        assert [each.text for each in runner.run("2", thread_id="t", while_running="queue")] == ["2"]
        assert turns(runner) == [["0"], ["1", "2"]]


def test_a_caller_in_line_is_closed_by_another_thread(saver: Any) -> None:
    with ag.Runner(repeats(), checkpointer=saver) as runner:
        run = runner.run("0", thread_id="t")
        queued = runner.run("1", thread_id="t", while_running="queue")
        caller = Caller(queued)
        queued.close()
        assert caller.end() == []
        assert [each.text for each in run] == ["0"]
        assert texts(runner.thread("t").queued) == ["human: 1"]


ENDS: dict[str, tuple[Callable[[], ag.Agent], type[Exception], str]] = {
    "paused": (lambda: asks("x"), ag.PendingInterruptError, "has paused, and waits for answers"),
    "failed": (lambda: fails("x"), ag.ThreadError, "has failed; the message stays queued"),
}


@pytest.mark.parametrize("status", ENDS)
def test_behind_a_turn_that_does_not_end_an_input_stays_queued(status: str, saver: Any) -> None:
    make, error, message = ENDS[status]
    tree = ag.sequential("s", [make(), repeats()])
    with ag.Runner(tree, checkpointer=saver) as runner:
        run = runner.run("0", thread_id="t")
        caller = Caller(runner.run("1", thread_id="t", while_running="queue"))
        with pytest.raises(ValueError) if status == "failed" else nullcontext():  # noqa: PT011
            list(run)
        with pytest.raises(error, match=message):
            caller.end()
        assert runner.thread("t").status == status
        assert texts(runner.thread("t").queued) == ["human: 1"]
        list(runner.resume("t", *(["yes"] if status == "paused" else [])))
        assert texts(runner.thread("t").queued) == ["human: 1"]
        list(runner.run("2", thread_id="t"))
        assert turns(runner) == [["0"], ["1", "2"]]


def test_an_input_that_drops_questions_does_so_when_its_turn_comes(saver: Any) -> None:
    tree = ag.sequential("s", [asks("x"), repeats()])
    with ag.Runner(tree, checkpointer=saver) as runner:
        run = runner.run("0", thread_id="t")
        caller = Caller(runner.run("1", thread_id="t", while_running="queue", drop_pending=True))
        list(run)
        caller.end()
        assert turns(runner) == [["0"], ["1"]]


def test_values_that_cannot_be_saved_are_refused_at_the_call(tmp_path: Path) -> None:
    with ag.Runner(repeats(), checkpointer=tmp_path / "threads.db") as runner:
        run = runner.run("0", thread_id="t")
        with pytest.raises(ag.AgentGraphError, match=r"the value 'x', .* cannot be saved"):
            runner.run("1", thread_id="t", values={"x": object()}, while_running="queue")
        assert waiting(runner) == 0
        assert not runner.thread("t").queued
        list(run)


def test_an_input_with_values_waits_and_is_not_sent(saver: Any) -> None:
    tree = ag.function_agent("a", lambda ctx: f"{ctx.values.get('x')}")
    with ag.Runner(tree, checkpointer=saver) as runner:
        run = runner.run("0", thread_id="t")
        with pytest.raises(ag.AgentGraphError, match="values= cannot be sent to an active run"):
            runner.run("1", thread_id="t", values={"x": 1}, while_running="steer")
        caller = Caller(runner.run("1", thread_id="t", values={"x": 1}, while_running="queue"))
        list(run)
        assert caller.end() == ["1"]


def test_an_input_that_is_sent_is_read_by_the_run_and_followed(saver: Any) -> None:
    model = ScriptedChatModel(responses=["b"])
    callers: list[Caller] = []

    def fn(ctx: ag.Context) -> str:
        callers.append(Caller(runner.run("1", thread_id="t", while_running="steer")))
        wait_until(lambda: runner.thread("t").queued)
        return "a"

    tree = ag.sequential("s", [ag.function_agent("a", fn), ag.chat_agent("b", model)])
    with ag.Runner(tree, checkpointer=saver) as runner:
        list(runner.run("0", thread_id="t"))
        assert callers[0].end()[-2:] == ["1", "b"]
        assert texts(model.inputs[0])[-1] == "human: 1"
        assert turns(runner) == [["0"]]


@pytest.mark.parametrize("number", [1, 3])
def test_inputs_that_a_run_does_not_read_begin_one_turn(number: int, saver: Any) -> None:
    with ag.Runner(repeats(), checkpointer=saver) as runner:
        for time in range(5):
            run = runner.run("0", thread_id=f"t{time}")
            callers = [
                Caller(runner.run(str(n + 1), thread_id=f"t{time}", while_running="steer"))
                for n in range(number)
            ]
            wait_until(lambda: len(runner.thread(f"t{time}").queued) == number)  # noqa: B023
            list(run)
            for caller in callers:
                caller.end()
            first, *later = turns(runner, f"t{time}")
            assert first == ["0"]
            assert sorted(each for turn in later for each in turn) == [
                str(n + 1) for n in range(number)
            ]
            assert all(later)


def test_an_input_that_another_turn_has_read_begins_no_turn(saver: Any) -> None:
    """The caller finds it unread, and somebody begins and ends a turn with it before he does."""
    with ag.Runner(repeats(), checkpointer=saver) as runner:
        run = runner.run("0", thread_id="t")
        sent = runner.run("1", thread_id="t", while_running="steer")
        list(run)
        list(runner.run("2", thread_id="t"))
        assert turns(runner) == [["0"], ["1", "2"]]
        list(sent)
        assert turns(runner) == [["0"], ["1", "2"]]

"""Answers of `start` to a thread with an active run: that run takes them, or they resume the thread."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from answering_process import branches
from helpers import says
from helpers.answering import Work, question_in
from helpers.commands import wait_until
from helpers.drives import Sync
from helpers.forking import Forker
from langgraph.types import Command

import agentgraph as ag
from agentgraph.window.calls import Window

STEER: dict[str, Any] = {"while_running": "steer"}


class Desk:
    """A tree with a branch that asks, and one that runs until it is told to end."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    @property
    def tree(self) -> ag.Agent:
        async def slow(ctx: ag.Context) -> str:
            while not self.may_end.is_set():
                await asyncio.sleep(0.01)
            return "slow"

        asks = ag.sequential("asks", [ag.human("boss", "Print it?"), says("then", "Then.")])
        return ag.parallel("p", [ag.function_agent("slow", slow), asks])


@asynccontextmanager
async def asked(desk: Desk, place: Any) -> AsyncIterator[tuple[ag.Runner, str]]:
    """Start a run in the background, and wait for its question."""
    async with ag.Runner(desk.tree, checkpointer=place) as runner:
        await runner.astart("Go.", thread_id="t")
        async for event in runner.afollow("t"):
            if event.action and event.action.interrupted:
                yield runner, event.action.interrupted.id
                return
    raise AssertionError("nothing was asked")


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return None if request.param == "memory" else tmp_path / "t.db"


def test_an_active_run_takes_the_answers(place: Any) -> None:
    desk = Desk()

    async def main() -> None:
        async with asked(desk, place) as (runner, question):
            with pytest.raises(ag.InvalidAnswerError, match="has no JSON form"):
                await runner.astart(thread_id="t", answers={question: object()}, **STEER)
            with pytest.raises(ag.AgentGraphError, match="leave them out, or resume when it has ended"):
                await runner.astart(thread_id="t", answers={question: 1}, values={"a": 1}, **STEER)
            with pytest.raises(ag.AgentGraphError, match="await aanswer"):
                runner.start(thread_id="t", answers={question: "yes"}, **STEER)
            assert await runner.astart(thread_id="t", answers={question: "yes"}, **STEER) == "t"
            with pytest.raises(ag.UnknownInterruptError):
                await runner.astart(thread_id="t", answers={question: "no"}, **STEER)
            desk.may_end.set()
            assert await runner.await_("t") == "done"
            assert sorted([e.text async for e in runner.aevents("t") if e.text]) == [
                *("Then.", "slow", "yes"),
            ]

    asyncio.run(main())


def test_a_consumer_of_the_answers_has_what_follows(place: Any) -> None:
    desk = Desk()

    async def main() -> None:
        async with asked(desk, place) as (runner, question):
            run = runner.arun(Command(resume={question: "yes"}), thread_id="t", **STEER)
            assert (await anext(run)).text == "yes"
            desk.may_end.set()
            assert {each.text async for each in run} == {"Then.", "slow"}

    asyncio.run(main())


def at_rest(runner: ag.Runner) -> None:
    runner.start(thread_id="t", answers="yes", **STEER)


def as_it_pauses(runner: ag.Runner) -> None:
    """Answer the question of the root while the consumer of the run has not read its end."""
    run = runner.run("More.", thread_id="t", drop_pending=True)
    question = next(each for each in run if each.action and each.action.interrupted)
    assert question.action is not None
    assert question.action.interrupted is not None
    runner.start(thread_id="t", answers={question.action.interrupted.id: "yes"}, **STEER)
    assert [*run] == []


@pytest.mark.parametrize("answers", [at_rest, as_it_pauses])
def test_answers_that_no_run_takes_resume_the_thread(
    answers: Callable[[ag.Runner], None], place: Any
) -> None:
    tree = ag.sequential("s", [ag.human("boss", "Print it?"), says("then", "Then.")])
    with ag.Runner(tree, checkpointer=place) as runner:
        runner.invoke("Go.", thread_id="t")
        answers(runner)
        wait_until(lambda: runner.is_idle)
        assert runner.thread("t").status == "done"
        assert [each.text for each in runner.events("t")][-2:] == ["yes", "Then."]


def test_the_window_shows_each_question_of_a_branch_inside_a_branch(place: Any) -> None:
    work = Work(Sync)
    tree = ag.parallel("p", [work.slow(), ag.parallel("in", [work.slow("inner"), work.asker(times=3)])])
    with ag.Runner(tree, checkpointer=place) as runner:
        window = Window(runner, "the tests")
        runner.start("Go.", thread_id="t")
        for event in runner.follow("t"):
            if asked := question_in(event):
                wait_until(lambda asked=asked: [each.id for each in runner.pending("t")] == [asked.id])
                assert [each["id"] for each in window.thread("t")["pending"]] == [asked.id]
                window.answer("t", {asked.id: "yes"})
                assert asked.id not in [each["id"] for each in window.thread("t")["pending"]]
        assert window.thread("t")["status"] == "done"


def test_answers_that_a_killed_run_of_another_process_has_not_taken_resume_the_thread(
    forker: Forker, tmp_path: Path
) -> None:
    at, other = str(tmp_path / "t.db"), forker.of("answering_process")
    with ag.Runner(branches(lambda: "slow"), checkpointer=at) as runner:
        process = other.start(folder=str(tmp_path), place=at, thread="t", hangs=True)
        wait_until((tmp_path / "t.db").exists)
        wait_until(lambda: runner.thread("t").pending)
        os.kill(process, signal.SIGSTOP)  # it takes nothing any more
        runner.start(thread_id="t", answers="yes", **STEER)
        assert runner.thread("t").status == "running"
        os.kill(process, signal.SIGKILL)
        assert other.wait() == -signal.SIGKILL
        wait_until(lambda: runner.is_idle)
        assert runner.thread("t").status == "done"
        assert sorted(e.text for e in runner.events("t") if e.text) == ["Then.", "slow", "yes"]

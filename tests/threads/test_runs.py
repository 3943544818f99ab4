"""Runs that are closed, cancelled or refused; see also `crash/test_leaving.py`."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from helpers import Async, asks, failing, lines, says, texts_of, unvoided, yields

import agentgraph as ag


async def turns() -> None:
    """Let the event loop turn often enough for a cancellation to be delivered."""
    for _ in range(50):
        await asyncio.sleep(0)


class Slow:
    """A tree with a function that waits in its thread, and counts how often it ended."""

    def __init__(self) -> None:
        self.inside, self.may_end, self.ended = threading.Event(), threading.Event(), 0
        both = ag.parallel("both", [ag.function_agent("slow", self.wait), says("quick")])
        self.runner = ag.Runner(ag.sequential("s", [both, says("last")]))

    def wait(self, ctx: ag.Context) -> str:
        self.inside.set()
        assert self.may_end.wait(20)
        self.ended += 1
        return "slow"

    async def begun(self) -> None:
        assert await asyncio.to_thread(self.inside.wait, 20)

    async def end(self) -> None:
        await turns()
        self.may_end.set()

    async def check(self) -> None:
        """Check that a resume waits for the function, and does not run it again."""
        assert (await texts_of(self.runner.aresume("t")))[-1] == "last"
        assert self.ended == 1


def test_a_function_in_a_thread_is_awaited_and_kept_when_anyio_cancels_a_run() -> None:
    """Web frameworks on anyio cancel again and again until it takes effect."""
    slow = Slow()

    async def cancel(scope: anyio.CancelScope) -> None:
        await slow.begun()
        scope.cancel()
        await slow.end()

    async def whole() -> None:
        with anyio.CancelScope() as scope:
            cancelling = asyncio.create_task(cancel(scope))
            await texts_of(slow.runner.arun("Go.", thread_id="t"))
        assert scope.cancelled_caught
        await cancelling
        await slow.check()

    asyncio.run(whole())


def test_a_resume_waits_for_a_run_that_was_dropped() -> None:
    slow = Slow()

    async def whole() -> None:
        run = slow.runner.arun("Go.", thread_id="t")
        await anext(run)
        await slow.begun()
        del run
        ending = asyncio.create_task(slow.end())
        await slow.check()
        await ending

    asyncio.run(whole())


def test_a_second_cancel_does_not_wait_for_a_thread() -> None:
    slow = Slow()

    async def whole() -> None:
        reading = asyncio.create_task(texts_of(slow.runner.arun("Go.", thread_id="t")))
        await slow.begun()
        reading.cancel()
        await turns()
        assert not reading.done()
        reading.cancel()
        await asyncio.wait({reading}, timeout=10)
        assert reading.cancelled()
        slow.may_end.set()

    asyncio.run(whole())


def test_a_branch_that_fails_cancels_the_coroutines_of_the_others() -> None:
    begun, tries = asyncio.Event(), [ValueError("no")]

    async def waits(ctx: ag.Context) -> str:
        if tries:
            begun.set()
            await asyncio.Event().wait()
        return "waited"

    async def fails_once(ctx: ag.Context) -> str:
        if tries:
            await begun.wait()
            raise tries.pop()
        return "better"

    both = [ag.function_agent("a", waits), ag.function_agent("b", fails_once)]
    runner = ag.Runner(ag.parallel("p", both))

    async def whole() -> list[str]:
        with pytest.raises(ValueError, match="no"):
            await texts_of(runner.arun("Go.", thread_id="t"))
        return sorted(await texts_of(runner.aresume("t")))

    assert asyncio.run(whole()) == ["better", "waited"]


LIMIT = 2000


class Endless:
    """Two loops that run side by side until they may end."""

    def __init__(self, *others: ag.Agent) -> None:
        self.addresses: list[str] = []
        self.may_end = False
        loops = [
            ag.loop(
                f"l{i}", [ag.function_agent(f"a{i}", self.step)], max_iterations=None, until=self.ended
            )
            for i in range(2)
        ]
        self.runner = ag.Runner(ag.parallel("p", [*loops, *others]))

    def step(self, ctx: ag.Context) -> str:
        self.addresses.append(ctx.address)
        return "x"

    def ended(self, ctx: ag.Context) -> bool:
        return self.may_end or len(self.addresses) > LIMIT

    def check(self, *, repeated: int = 0) -> None:
        """Check that the run stopped by itself, and that what is resumed does not begin anew."""
        before = len(self.addresses)
        assert before < LIMIT
        self.may_end = True
        list(self.runner.resume("t"))
        assert before < len(self.addresses) <= before + 4
        assert len(self.addresses) - len(set(self.addresses)) <= repeated


def test_branches_stop_after_their_step_when_a_sync_run_is_closed() -> None:
    endless = Endless()
    run = endless.runner.run("Go.", thread_id="t")
    next(run)
    run.close()
    endless.check()


def test_branches_stop_after_their_step_when_an_async_run_is_closed() -> None:
    endless = Endless()

    async def leave() -> None:
        async with endless.runner.arun("Go.", thread_id="t") as run:
            await anext(run)

    asyncio.run(leave())
    endless.check(repeated=2)


def test_branches_stop_after_their_step_when_another_one_fails() -> None:
    failed: list[int] = []

    def fails_once(ctx: ag.Context) -> str:
        if not failed:
            failed.append(1)
            raise ValueError("no")
        return "better"

    endless = Endless(ag.function_agent("f", fails_once))
    events, _ = failing(endless.runner.run("Go.", thread_id="t"), ValueError)
    assert [event.address for event in events if event.error] == ["p/f"]
    endless.check()


def test_a_step_that_ends_while_its_run_is_closed_is_emitted_again_but_does_not_run_again() -> None:
    runner = ag.Runner(ag.sequential("s", [yields("a", ["one"], ["two"]), says("b")]))
    with runner.run("Go.", thread_id="t") as run:
        assert next(run).text == "one"
    assert lines(runner.resume("t")) == ["s: [discarded]", "s/a: one", "s/b: b"]


@pytest.mark.parametrize(
    ("begin", "error"),
    [
        (lambda runner: runner.arun("Go.", thread_id="waits"), ag.PendingInterruptError),
        (lambda runner: runner.arun(3, thread_id="new"), ag.AgentGraphError),
        (lambda runner: runner.aresume("none"), ag.UnknownThreadError),
        (lambda runner: runner.aresume("waits", {"0" * 32: 1}), ag.UnknownInterruptError),
        (lambda runner: runner.aevents("none"), ag.UnknownThreadError),
    ],
    ids=["a turn while a question is pending", "input", "resume", "an answer", "events"],
)
def test_what_run_refuses_at_the_call_arun_refuses_when_it_is_awaited(
    begin: Callable[[ag.Runner], Any], error: type[Exception]
) -> None:
    runner = ag.Runner(asks("boss"))
    list(runner.run("Go.", thread_id="waits"))

    async def awaiting() -> None:
        with pytest.raises(error):
            await begin(runner)
        assert await texts_of(await runner.aresume("waits", "yes")) == ["yes"]

    asyncio.run(awaiting())


def test_an_async_run_may_be_closed_before_its_first_event_and_after_its_last() -> None:
    ran: list[str] = []
    runner = ag.Runner(ag.function_agent("a", lambda ctx: ran.append("a") or "a"))  # type: ignore[func-returns-value]

    async def whole() -> None:
        async with runner.arun("Go.", thread_id="t"):
            assert not ran
        async with runner.arun("Go.", thread_id="t") as run:
            assert await texts_of(run) == ["a"]
        await run.aclose()
        assert await texts_of(run) == []
        assert await texts_of(runner.arun("Go.", thread_id="t")) == ["a"]

    asyncio.run(whole())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # LangGraph's own
@pytest.mark.parametrize("in_branch", [False, True], ids=["in the root", "in a branch"])
def test_words_of_a_run_whose_event_loop_ended_are_voided(in_branch: bool) -> None:
    calls: list[int] = []

    async def fn(ctx: ag.Context) -> AsyncIterator[str]:
        yield "One."
        calls.append(1)
        if len(calls) == 1:
            await asyncio.Event().wait()
        yield "Two."

    writer = ag.function_agent("writer", fn)
    runner = ag.Runner(ag.parallel("both", [writer, says("other")]) if in_branch else writer)
    runs, heard = list[ag.AsyncRun](), list[ag.AgentEvent]()

    async def left() -> None:
        runs.append(runner.arun("Go.", thread_id="t"))
        async for event in runs[0]:
            heard.append(event)
            if event.text == "One.":
                return

    asyncio.run(left())
    assert runner.thread("t").status == "stopped"
    heard += Async.resume(runner, "t")
    assert sorted(event.text for event in unvoided(heard)) == sorted(
        ["One.", "Two.", *(["other"] if in_branch else [])]
    )
    assert unvoided(heard) == list(runner.events("t"))


def test_a_run_that_was_never_read_says_so() -> None:
    runner = ag.Runner(says("a"))
    run = runner.run("Go.", thread_id="t")
    assert repr(run) == "<Run of thread 't': nothing has run; iterate over it to run it>"
    assert [event.text for event in run] == ["a"]
    assert repr(run) == "<Run of thread 't'>"
    hint = "nothing has run; iterate over it with `async for` to run it"

    async def main() -> None:
        again = runner.arun("Go.", thread_id="t")
        assert repr(again) == f"<AsyncRun of thread 't': {hint}>"
        await again.aclose()
        assert repr(again) == "<AsyncRun of thread 't'>"

    asyncio.run(main())

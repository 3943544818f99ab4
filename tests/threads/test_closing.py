"""Runs that other code closes than the one that reads them; see also `crash/test_leaving.py`."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from helpers import asks, says, texts_of, unvoided
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag


class Gated:
    """A tree with a function that waits in its step, which then may do something to its run.

    Attributes:
        done: How often the function has ended.
        run: The run, once it was begun.
    """

    def __init__(self, act: Callable[["Gated"], Any] | None = None, *, in_branch: bool = False) -> None:
        self.inside, self.may_end, self.done = threading.Event(), threading.Event(), 0
        self.act, self.run = act, Any
        slow: ag.Agent = ag.function_agent("slow", self.wait)
        if in_branch:
            slow = ag.parallel("both", [slow, says("quick")])
        self.runner = ag.Runner(ag.sequential("s", [says("first"), slow, says("last")]))

    def wait(self, ctx: ag.Context) -> str:
        self.inside.set()
        if self.act is None:
            assert self.may_end.wait(20)
        elif not self.done:
            self.act(self)
        self.done += 1
        return "slow"

    def begin(self) -> Any:
        self.run = self.runner.run("Go.", thread_id="t")
        return self.run

    def check(self) -> None:
        """Check that a resume ends the thread, and does not run the function again."""
        list(self.runner.resume("t"))
        assert self.done == 1
        assert self.runner.thread("t").status == "done"


class Beside:
    """Calls a function in a thread of its own."""

    def __init__(self, fn: Callable[[], Any]) -> None:
        self.result: Any = None
        self.raised: BaseException | None = None
        self._thread = threading.Thread(target=self._call, args=(fn,), daemon=True)
        self._thread.start()

    def _call(self, fn: Callable[[], Any]) -> None:
        try:
            self.result = fn()
        except BaseException as error:
            self.raised = error

    def ended(self, seconds: float = 20) -> Any:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "it hangs"
        if self.raised is not None:
            raise self.raised
        return self.result

    @property
    def is_waiting(self) -> bool:
        self._thread.join(0.05)
        return self._thread.is_alive()


@pytest.mark.parametrize("in_branch", [False, True], ids=["in the root", "in a branch"])
def test_a_run_that_another_thread_closes_ends_after_its_step_and_is_locked_until_then(
    in_branch: bool,
) -> None:
    gated = Gated(in_branch=in_branch)
    reader = Beside(lambda: [event.text for event in gated.begin()])
    assert gated.inside.wait(20)
    closer = Beside(gated.run.close)
    assert closer.is_waiting
    resumed = Beside(lambda: list(gated.runner.resume("t")))
    assert resumed.is_waiting, "the thread is free while its run goes on"
    gated.may_end.set()
    closer.ended()
    assert reader.ended()[:1] == ["first"]
    assert resumed.ended()[-1].text == "last"
    gated.check()


def test_a_run_whose_coroutine_two_threads_cancel_at_once_just_ends() -> None:
    inside, may_go_on, tries = threading.Event(), threading.Event(), list[str]()

    async def slow(ctx: ag.Context) -> str:
        tries.append("once")
        if len(tries) == 1:
            inside.set()
            assert may_go_on.wait(20)  # until both have cancelled it: neither is taken for other code
            await asyncio.sleep(20)
        return "slow"

    runner = ag.Runner(ag.sequential("s", [ag.function_agent("slow", slow), says("last")]))
    run = runner.run("Go.", thread_id="t")
    reader = Beside(lambda: list(run))
    assert inside.wait(20)
    closers = [Beside(run.close) for _ in range(2)]
    assert all(closer.is_waiting for closer in closers)
    may_go_on.set()
    assert [closer.ended() for closer in closers] == [None, None]
    assert reader.ended() == []
    assert [event.text for event in runner.resume("t")][-2:] == ["slow", "last"]


def test_two_threads_do_not_ask_for_an_event_at_the_same_time() -> None:
    gated = Gated()
    reader = Beside(lambda: [event.text for event in gated.begin()])
    assert gated.inside.wait(20)
    with pytest.raises(ag.AgentGraphError, match="is being asked for already"):
        next(gated.run)
    gated.may_end.set()
    assert reader.ended() == ["first", "slow", "last"]


def test_two_tasks_do_not_ask_for_an_event_at_the_same_time() -> None:
    async def whole() -> list[str]:
        entered, may_end = asyncio.Event(), asyncio.Event()

        async def slow(ctx: ag.Context) -> str:
            entered.set()
            await may_end.wait()
            return "slow"

        run = await ag.Runner(ag.function_agent("slow", slow)).arun("Go.")
        reader = asyncio.ensure_future(texts_of(run))
        await entered.wait()
        with pytest.raises(ag.AgentGraphError, match="is being asked for already"):
            await anext(run)
        may_end.set()
        return await reader

    assert asyncio.run(whole()) == ["slow"]


def closes_itself(gated: Gated) -> None:
    gated.run.close()


def runs_a_runner_that_closes_it(gated: Gated) -> None:
    ag.Runner(ag.function_agent("inner", lambda ctx: gated.run.close() or "x")).invoke("Go.")


def resumes_itself(gated: Gated) -> None:
    gated.run.close()
    with pytest.raises(ag.ThreadBusyError):
        gated.runner.resume("t")


def reads_itself(gated: Gated) -> None:
    with pytest.raises(ag.AgentGraphError, match="is being asked for already"):
        next(gated.run)
    gated.run.close()


def is_interrupted(gated: Gated) -> None:
    """Have a signal handler close the run while the main thread waits for an event."""
    before = signal.signal(signal.SIGUSR1, lambda *_: gated.run.close())
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("in_branch", [False, True], ids=["in the root", "in a branch"])
@pytest.mark.parametrize(
    "act",
    [closes_itself, runs_a_runner_that_closes_it, resumes_itself, reads_itself],
)
def test_a_run_that_its_own_code_closes_ends_after_the_step(act: Any, in_branch: bool) -> None:
    gated = Gated(act, in_branch=in_branch)
    reader = Beside(lambda: [event.text for event in gated.begin()])
    assert "last" not in reader.ended()
    gated.check()


def test_a_run_that_a_signal_handler_closes_ends_after_the_step() -> None:
    gated = Gated(is_interrupted)
    assert "last" not in [event.text for event in gated.begin()]
    gated.check()


def test_a_run_that_the_garbage_collector_finds_keeps_what_it_interrupted() -> None:
    gated = Gated(in_branch=True)

    class Holder:
        pass

    holder: Any = Holder()
    holder.itself, holder.run = holder, gated.begin()
    assert [next(holder.run).text, next(holder.run).text] == ["first", "quick"]
    assert gated.inside.wait(20)
    gated.run = None
    del holder
    threading.Timer(0.2, gated.may_end.set).start()
    gc.collect()  # it may wait for the function
    gated.check()
    assert gated.may_end.is_set()


def test_an_async_run_that_its_own_code_closes_ends() -> None:
    runs: list[ag.AsyncRun] = []
    ended: list[str] = []

    async def fn(ctx: ag.Context) -> str:
        if not ended:
            ended.append("once")
            await runs[0].aclose()
        return "slow"

    async def whole() -> list[str]:
        runner = ag.Runner(
            ag.sequential("s", [says("first"), ag.function_agent("a", fn), says("last")])
        )
        runs.append(runner.arun("Go.", thread_id="t"))
        heard = await asyncio.wait_for(texts_of(runs[0]), 20)
        assert "last" not in heard
        return await texts_of(runner.aresume("t"))

    assert asyncio.run(whole())[-1] == "last"


class SlowSaver(InMemorySaver):
    """Needs a moment to read."""

    async def aget_tuple(self, config: Any) -> Any:
        await asyncio.sleep(0.01)
        return await super().aget_tuple(config)

    async def alist(self, *args: Any, **bounds: Any) -> Any:
        await asyncio.sleep(0.01)
        async for each in super().alist(*args, **bounds):
            yield each


async def closes_on_this_loop(run: Any) -> None:
    await run.aclose()


async def closes_on_another_loop(run: Any) -> None:
    await asyncio.to_thread(asyncio.run, run.aclose())


@pytest.mark.parametrize("close", [closes_on_this_loop, closes_on_another_loop])
@pytest.mark.parametrize("method", ["arun", "aresume", "aevents"])
def test_an_async_run_that_is_closed_while_it_is_admitted_does_not_begin(
    method: str, close: Any
) -> None:
    ran: list[str] = []

    async def whole() -> list[str]:
        tree = ag.sequential("s", [asks("boss"), ag.function_agent("a", lambda ctx: ran.append("a"))])
        runner = ag.Runner(tree, checkpointer=SlowSaver())
        if method != "arun":
            await runner.ainvoke("Go.", thread_id="t")
        given = {"arun": {"messages": "Go."}, "aresume": {"answers": "yes"}, "aevents": {}}[method]
        run = getattr(runner, method)(thread_id="t", **given)
        reader = asyncio.ensure_future(texts_of(run))
        await asyncio.sleep(0)
        with pytest.raises(ag.AgentGraphError, match="is being asked for already"):
            await anext(run)
        await close(run)
        heard = await reader
        if method == "arun":
            assert (await runner.athread("t")).status == "new"
        else:  # neither busy, nor answered
            assert len(await runner.apending("t")) == 1
            await texts_of(runner.aresume("t", "no"))
            assert ran == ["a"]
        return heard

    assert asyncio.run(whole()) == []


def test_an_async_run_that_is_closed_before_it_is_awaited_does_not_begin() -> None:
    async def whole() -> list[str]:
        runner = ag.Runner(says("a"))
        run = runner.arun("Go.", thread_id="t")
        await run.aclose()
        assert await run is run
        assert (await runner.athread("t")).status == "new"
        return await texts_of(run)

    assert asyncio.run(whole()) == []


def test_who_waits_for_a_thread_and_is_cancelled_leaves_it_to_others() -> None:
    gated = Gated()

    async def whole() -> list[str]:
        run = gated.runner.arun("Go.", thread_id="t")
        await anext(run)
        asking = asyncio.ensure_future(texts_of(run))
        assert await asyncio.to_thread(gated.inside.wait, 20)
        closing = asyncio.ensure_future(run.aclose())
        waiting = asyncio.ensure_future(texts_of(gated.runner.aresume("t")))
        for _ in range(20):
            await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        gated.may_end.set()
        await closing
        assert await asking == []
        return await asyncio.wait_for(texts_of(gated.runner.aresume("t")), 20)

    assert asyncio.run(whole())[-1] == "last"
    assert gated.done == 1


LEFT = """
import agentgraph as ag

agents = [ag.function_agent(name, lambda ctx: "Hm.") for name in "abc"]
runner = ag.Runner(ag.sequential("s", agents))
left = [runner.run("Go.", thread_id=str(number), stream=True) for number in range(12)]
for run in left:
    next(run)
raise ValueError("as told")
"""


def test_a_program_ends_whose_loop_over_a_run_raised() -> None:
    """Threads of LangGraph's stream would wait for ever, which Python waits for at the end."""
    ended = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, "ValueError: as told")


def test_what_is_discarded_after_a_run_was_closed_is_told_by_the_next_one() -> None:
    """The first branch has won when the caller leaves, who has read a word of the other one."""

    async def whole() -> None:
        won, said = asyncio.Event(), asyncio.Event()

        async def slow(ctx: ag.Context) -> Any:
            yield "a word"
            said.set()
            await asyncio.sleep(20)

        async def quick(ctx: ag.Context) -> str:
            await said.wait()
            won.set()
            return "quick"

        agents = [ag.function_agent(fn.__name__, fn) for fn in (slow, quick)]
        runner = ag.Runner(
            ag.sequential("s", [ag.parallel("p", agents, on_error="first"), says("last")])
        )
        run = runner.arun("Go.", thread_id="t")
        heard = [await anext(run)]
        assert await asyncio.wait_for(won.wait(), 20)
        await run.aclose()
        heard += [event async for event in runner.aresume("t")]
        assert unvoided(heard) == list(runner.events("t"))
        assert [each.text for each in unvoided(heard)] == ["quick", "last"]

    asyncio.run(whole())

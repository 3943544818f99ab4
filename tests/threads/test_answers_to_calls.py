"""Answers to a call of `ctx.run` while others of its function run, and functions that pause."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from helpers.answering import PATIENCE, Running, Steps, Work, answering, gathering, question_in
from helpers.drives import Async, Sync
from langgraph.errors import NodeTimeoutError

import agentgraph as ag
from agentgraph.graph.nodes.parked_calls import ParkedCalls

TIMES_OUT: list[bool] = []
"""Not empty in the runs in which a function stops to await its call."""
Function = Callable[[ag.Context], str | Coroutine[Any, Any, str]]


@pytest.fixture(params=["sync in memory", "async in a file"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Running:
    is_sync = request.param.startswith("sync")
    return Running(
        ag.human("boss", "?"), Sync if is_sync else Async, None if is_sync else tmp_path / "t.db"
    )


def saved(asked: threading.Event) -> Callable[[ag.AgentEvent], Steps]:
    """Return a handler that sets an event as soon as a question is saved."""

    def on(event: ag.AgentEvent) -> Steps:
        if question_in(event):
            end = time.monotonic() + PATIENCE
            while not (yield ("pending",)):
                assert time.monotonic() < end, "the question is not saved"
            asked.set()

    return on


async def waits_for_the_call(ctx: ag.Context) -> str:
    has_answer = asyncio.Event()

    async def asks() -> str:
        reply = await ctx.run("boss", "x")
        has_answer.set()
        return str(reply)

    async def other() -> str:
        await ctx.run("quick", "y")
        await has_answer.wait()
        return str(await ctx.run("quick", "z"))

    return " ".join(await asyncio.gather(asks(), other()))


def waits_for_its_lock(ctx: ag.Context) -> str:
    lock, has_lock = threading.Lock(), threading.Event()

    def asks() -> str:
        with lock:
            has_lock.set()
            return str(ctx.run("boss", "x", key="boss"))

    def other() -> str:
        has_lock.wait()
        ctx.run("quick", "y", key="first")
        with lock:
            return str(ctx.run("quick", "z", key="last"))

    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(each) for each in (asks, other)]
        return " ".join(each.result() for each in both)


async def works_by_itself(ctx: ag.Context) -> str:
    """Work for a minute, unless the answer is there before."""
    call = asyncio.ensure_future(ctx.run("boss", "x"))
    own = asyncio.ensure_future(asyncio.sleep(60))
    try:
        await asyncio.wait([own, call], return_when=asyncio.FIRST_COMPLETED)
        return f"{await call} quick"
    finally:
        own.cancel()


async def times_out(ctx: ag.Context) -> str:
    """Stop to await the call, but for when its answer is there."""
    call = asyncio.ensure_future(ctx.run("boss", "x"))
    reply = await ctx.run("waits", "until it asks")
    TIMES_OUT and call.cancel()
    try:
        return f"{await call} {reply}"
    except asyncio.CancelledError:
        return f"It took too long, {await ctx.run('quick', 'y')}"


async def returns_before(ctx: ag.Context) -> str:
    call = asyncio.ensure_future(ctx.run("boss", "x"))
    reply = await ctx.run("waits", "until it asks")
    return f"never {reply}" if TIMES_OUT else f"{await call} {reply}"


async def fails_before(ctx: ag.Context) -> str:
    call = asyncio.ensure_future(ctx.run("boss", "x"))
    reply = await ctx.run("waits", "until it asks")
    if TIMES_OUT:
        raise ValueError("never")
    return f"{await call} {reply}"


@pytest.mark.parametrize(
    "fn",
    [
        *(waits_for_the_call, waits_for_its_lock, works_by_itself),
        *(times_out, returns_before, fails_before),
    ],
)
def test_a_function_whose_other_calls_have_ended_pauses(running: Running, fn: Function) -> None:
    asked = threading.Event()
    TIMES_OUT.append(True)

    def waits(ctx: ag.Context) -> str:
        assert asked.wait(PATIENCE)
        return "quick"

    quick = ag.function_agent("quick", lambda ctx: "quick")
    agents = [ag.human("boss", "?"), quick, ag.function_agent("waits", waits)]
    running.tree = ag.function_agent("f", fn, agents=agents)
    running.run("Go.", thread_id="t", on=saved(asked))
    assert [each.address.partition("(")[0] for each in running.pending()] == ["f/boss"]
    TIMES_OUT.clear()
    assert running.call("resume", "t", "yes")[-1].text == "yes quick"


def test_a_function_makes_further_calls_while_one_waits(running: Running) -> None:
    async def fn(ctx: ag.Context) -> str:
        async def others() -> str:
            replies = [await ctx.run("quick", "y"), await ctx.run("quick", "z")]
            return " ".join([*replies, await ctx.run("slow", "w")])

        return " ".join(await asyncio.gather(ctx.run("a", "x"), others()))

    work, both = Work(running.drive), {"f/a(0)", "f/quick(2)"}
    quick = ag.function_agent("quick", lambda ctx: "quick")
    running.tree = ag.function_agent("f", fn, agents=[work.asker(times=1), quick, work.slow()])

    def on(event: ag.AgentEvent) -> Steps:
        both.discard(event.address)
        if not both:
            both.add("answered")
            yield "answer", {"f/a(0)": "yes"}

    events = running.run("Go.", thread_id="t", on=on)
    assert (events[-1].text, running.events()) == ("a: yes quick quick slow ended", events)


def test_a_call_that_waits_gives_up_its_place(running: Running) -> None:
    answered = threading.Event()

    def waits(ctx: ag.Context) -> str:
        assert answered.wait(PATIENCE)
        return "waited"

    work = Work(running.drive)
    running.tree = gathering(work.asker(times=1), ag.function_agent("waits", waits))

    def on(event: ag.AgentEvent) -> Steps:
        yield from answering()(event)
        answered.set()

    events = running.run("Go.", thread_id="t", on=on, config={"max_concurrency": 1})
    assert [each.address for each in events] == ["g/a(0)", "g/waits(1)", "g/a(0)", "g"]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_failure_while_a_call_waits_is_reported_once(
    running: Running, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it ends the function, its call runs again after the answer; if it comes too late, it does not.

    It comes too late once the function has stopped to await the call that waits.
    """
    asked, waits, paused, ran = threading.Event(), threading.Event(), threading.Event(), list[str]()
    answered = ParkedCalls.answered

    def waiting(calls: ParkedCalls, questions: set[str]) -> Any:
        waits.set()
        return answered(calls, questions)

    monkeypatch.setattr(ParkedCalls, "answered", waiting)

    def shaky(ctx: ag.Context) -> str:
        ran.append(ctx.address)
        assert (paused if is_late else asked).wait(PATIENCE)
        if len(ran) == 1:
            raise ValueError("shaky failed")
        return "works"

    async def fn(ctx: ag.Context) -> str:
        both = [asyncio.ensure_future(ctx.run(name, "x")) for name in ("shaky", "boss")]
        if is_late and not paused.is_set():
            await asyncio.to_thread(waits.wait, PATIENCE)
            both[1].cancel()
        try:
            return " ".join(await asyncio.gather(*both))
        finally:
            paused.set()

    agents = [ag.human("boss", "?"), ag.function_agent("shaky", shaky)]
    running.tree = ag.function_agent("f", fn, agents=agents)
    running.run("Go.", thread_id="t", on=saved(asked))
    assert [each.address for each in running.pending()] == ["f/boss(1)"]
    with pytest.raises(ValueError, match="shaky failed") if is_late else nullcontext():
        running.call("resume", "t", "yes")
    assert ran == ["f/shaky(0)"] * (1 if is_late else 2)
    if is_late:
        running.call("resume", "t")
    events = running.events()
    errors = [(each.address, each.error) for each in events if each.error]
    assert errors == [("f/shaky(0)", "ValueError('shaky failed')")]
    assert events[-1].text == "works yes"


def test_the_timeout_of_a_function_ends_its_calls_while_one_waits() -> None:
    begun = list[str]()

    async def endless(ctx: ag.Context) -> str:
        begun.append(ctx.address)
        await asyncio.Event().wait()
        return "never"

    async def fn(ctx: ag.Context) -> str:
        return " ".join(await asyncio.gather(ctx.run("boss", "x"), ctx.run("endless", "y")))

    agents = [ag.human("boss", "?"), ag.function_agent("endless", endless)]
    runner = ag.Runner(ag.function_agent("f", fn, agents=agents, timeout=0.2))

    async def main() -> None:
        for number in range(1, 3):
            with pytest.raises(NodeTimeoutError):
                await runner.ainvoke("Go." if number == 1 else None, thread_id="t")
            assert [each.address for each in await runner.apending("t")] == ["f/boss(0)"]
            assert begun == ["f/endless(1)"] * number

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.mark.parametrize("catches", [False, True])
def test_a_question_next_to_a_failure_stays_unless_the_function_catches_that(
    running: Running, catches: bool
) -> None:
    asked, failures = threading.Event(), [ValueError("failed")]

    def shaky(ctx: ag.Context) -> str:
        assert asked.wait(PATIENCE)
        if failures:
            raise failures.pop()
        return "works"

    def on(event: ag.AgentEvent) -> Steps:
        yield from ()
        if event.address == "g/boss(0)":
            asked.set()

    both = ag.parallel("p", [ag.human("a", "a?"), ag.function_agent("shaky", shaky)], on_error="wait")
    running.tree = gathering(ag.human("boss", "?"), both, catches=catches)
    running.run("Go.", thread_id="t", on=on)
    open_ = {"g/boss(0)": "yes"} if catches else {"g/boss(0)": "yes", "g/p(1)/a": "no"}
    assert {each.address for each in running.pending()} == open_.keys()
    running.call("resume", "t", open_)
    assert sorted(each.address for each in running.events() if question_in(each)) == [*open_]
    texts = sorted(each.text for each in running.events() if each.text)
    assert texts[:2] == (["yes", "yes | failed"] if catches else ["no", "works"])

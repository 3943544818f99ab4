"""Calls of `ctx.run` that the function cancels, and its own questions beside them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from helpers import Async, Disk, asks, check_heard, fails, lines
from helpers.running import RAN, Function, call, echo, flow, pending, turn
from langgraph.types import interrupt

import agentgraph as ag

pytestmark = pytest.mark.usefixtures("nothing_ran")

_GIVEN_UP = "flow/slow(0): [error] TimeoutError('the function does not await it any more')"


async def _wait(ctx: ag.Context) -> str:
    RAN.append(ctx.address)
    await asyncio.sleep(1)
    return "slow"


async def _wait_long(ctx: ag.Context) -> str:
    RAN.append(ctx.address)
    await asyncio.sleep(60)
    return "slow"


SLOW = ag.function_agent("slow", _wait)
NEVER_DONE = ag.function_agent("slow", _wait_long)  # another call ends first on any machine


async def timed_out(ctx: ag.Context) -> str:
    try:
        first: str = await asyncio.wait_for(ctx.run("slow", "x"), 0.02)
    except TimeoutError:
        first = "late"
    return f"{first} {await ctx.run('boss', 'y', key='b')}"


async def the_first_of_two(ctx: ag.Context) -> str:
    tasks = [asyncio.create_task(ctx.run(name, "x")) for name in ("slow", "echo")]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for each in rest:
        each.cancel()
    (first,) = done
    return f"{first.result()} {await ctx.run('boss', 'y', key='b')}"


async def in_a_group_that_fails(ctx: ag.Context) -> str:
    try:
        async with asyncio.TaskGroup() as group:
            for name in ("slow", "broken"):
                group.create_task(ctx.run(name, "x"))
    except* ValueError as error:
        number = len(error.exceptions)
    return f"{number} failed {await ctx.run('boss', 'y', key='b')}"


CANCELLED = {
    timed_out: "late yes",
    the_first_of_two: "echo: x yes",
    in_a_group_that_fails: "1 failed yes",
}


@pytest.mark.parametrize("fn", CANCELLED)
def test_a_call_that_the_function_cancels_has_failed_for_good(fn: Function, disk: Disk) -> None:
    agent = flow(fn, NEVER_DONE, echo("echo"), fails("broken", 9), asks("boss"))
    out = turn(disk, agent, boss="yes")
    assert out[-1] == f"flow: {CANCELLED[fn]}"
    assert _GIVEN_UP in out
    assert RAN.count("flow/slow(0)") <= 1  # beside one that fails at once it may not begin


def test_a_call_that_is_cancelled_before_it_awaits_anything_is_stopped_when_it_does(disk: Disk) -> None:
    has_begun, is_cancelled = threading.Event(), threading.Event()

    def begins_late(ctx: ag.Context) -> Awaitable[str]:
        has_begun.set()
        is_cancelled.wait(10)
        return _wait_long(ctx)

    async def fn(ctx: ag.Context) -> str:
        slow = asyncio.create_task(ctx.run("slow", "x"))
        while not has_begun.is_set():
            await asyncio.sleep(0.01)
        slow.cancel()
        await asyncio.wait([slow])
        is_cancelled.set()
        return str(await ctx.run("boss", "y"))

    out = turn(disk, flow(fn, ag.function_agent("slow", begins_late), asks("boss")), boss="yes")
    assert out[-1] == "flow: yes"
    assert _GIVEN_UP in out


def test_a_call_that_is_under_way_when_the_function_returns_is_stopped(disk: Disk) -> None:
    async def fn(ctx: ag.Context) -> str:
        left = asyncio.create_task(ctx.run("slow", "x"))
        return f"{await ctx.run('echo', 'y')} {left.done()}"

    assert sorted(turn(disk, flow(fn, NEVER_DONE, echo("echo")))) == [
        "flow/echo(1): echo: y",
        _GIVEN_UP,
        "flow: echo: y False",
    ]


def test_a_call_that_was_stopped_runs_again_if_the_function_failed(disk: Disk) -> None:
    async def fn(ctx: ag.Context) -> str:
        replies = await asyncio.gather(ctx.run("slow", "x"), ctx.run("shaky", "y"))
        return " ".join(replies)

    agent = flow(fn, SLOW, fails("shaky"))
    with pytest.raises(ValueError, match="shaky failed, time 1"):
        call(disk, agent, "run", "Go.", thread_id="t")
    assert lines(call(disk, agent, "resume", "t"))[-1] == "flow: slow shaky"


def test_results_and_failures_are_gathered(disk: Disk) -> None:
    async def fn(ctx: ag.Context) -> str:
        calls = (ctx.run("slow", "x"), ctx.run("broken", "y"))
        slow, broken = await asyncio.gather(*calls, return_exceptions=True)
        return f"{slow} {broken} {await ctx.run('boss', 'z')}"

    agent = flow(fn, SLOW, fails("broken", 1), asks("boss"))
    assert turn(disk, agent, boss="yes")[-1] == "flow: slow broken failed, time 1 yes"
    assert RAN == ["flow/slow(0)"]


def before(ctx: ag.Context) -> str:
    return f"{interrupt('Q?')} {ctx.run('echo', 'one')} {ctx.run('boss', 'x')}"


def between(ctx: ag.Context) -> str:
    return f"{ctx.run('echo', 'one')} {interrupt('Q?')} {ctx.run('boss', 'x')}"


def after(ctx: ag.Context) -> str:
    return f"{ctx.run('echo', 'one')} {ctx.run('boss', 'x')} {interrupt('Q?')}"


async def awaited(ctx: ag.Context) -> str:
    return f"{await ctx.run('echo', 'one')} {interrupt('Q?')} {await ctx.run('boss', 'x')}"


OWN = {
    before: "Q echo: one B",
    between: "echo: one Q B",
    after: "echo: one B Q",
    awaited: "echo: one Q B",
}


@pytest.mark.parametrize("fn", OWN)
def test_interrupts_of_the_function_are_answered_beside_those_of_its_agents(
    fn: Function, disk: Disk
) -> None:
    agent = flow(fn, echo("echo"), asks("boss"))
    events = call(disk, agent, "run", "Go.", thread_id="t")
    while waiting := pending(disk, agent):
        answer = "Q" if waiting[0].address == "flow" else "B"
        events += call(disk, agent, "resume", "t", {waiting[0].address: answer})
    assert lines(events)[-1] == f"flow: {OWN[fn]}"
    assert RAN == ["flow/echo(0)"]
    check_heard(events, call(disk, agent, "events", "t"))


def test_an_interrupt_in_a_group_cancels_no_call_for_good(disk: Disk) -> None:
    async def ask() -> Any:
        await asyncio.sleep(0.02)
        return interrupt("Q?")

    async def fn(ctx: ag.Context) -> str:
        async with asyncio.TaskGroup() as group:
            slow, answer = group.create_task(ctx.run("slow", "x")), group.create_task(ask())
        return f"{slow.result()} {answer.result()}"

    out = turn(disk, flow(fn, SLOW), own="Q")
    assert out == ["flow: [asks] Q?", "flow/slow(0): slow", "flow: slow Q"]


def _in_a_thread(ctx: ag.Context, name: str) -> Callable[[], str]:
    async def awaited() -> str:
        return str(await ctx.run(name, "x"))

    return lambda: asyncio.run(awaited())


def test_a_coroutine_may_run_agents_in_a_thread_with_another_event_loop(disk: Disk) -> None:
    async def fn(ctx: ag.Context) -> str:
        one = await asyncio.to_thread(_in_a_thread(ctx, "echo"))
        return f"{one} {await asyncio.to_thread(_in_a_thread(ctx, 'boss'))}"

    agent = flow(fn, echo("echo"), asks("boss"))
    assert turn(disk, agent, boss="yes")[-1] == "flow: echo: x yes"
    assert RAN == ["flow/echo(0)"]


def test_a_timeout_of_the_called_agent_can_be_caught() -> None:
    async def fn(ctx: ag.Context) -> str:
        try:
            return str(await ctx.run("slow", "x"))
        except Exception as error:
            return type(error).__name__

    agent = flow(fn, ag.function_agent("slow", _wait_long, timeout=0.02))
    events = list(Async.run(ag.Runner(agent), "Go."))
    assert lines(events)[-1] == "flow: NodeTimeoutError"
    assert events[0].address == "flow/slow(0)"


def test_a_timeout_of_the_function_ends_what_it_runs_and_keeps_what_ended() -> None:
    seconds = iter([5, 0])

    async def wait(ctx: ag.Context) -> str:
        await asyncio.sleep(next(seconds))
        return "slow"

    async def fn(ctx: ag.Context) -> str:
        return f"{await ctx.run('echo', 'x')} {await ctx.run('slow', 'y')}"

    agent = flow(fn, echo("echo"), ag.function_agent("slow", wait), timeout=1)
    runner = ag.Runner(agent)
    with pytest.raises(Exception, match="exceeded its run timeout"):
        list(Async.run(runner, "Go.", thread_id="t"))
    assert lines(Async.resume(runner, "t"))[-1] == "flow: echo: x slow"
    assert RAN == ["flow/echo(0)"]

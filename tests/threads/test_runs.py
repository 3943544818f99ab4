"""Runs that are left: functions in threads are kept, coroutines cancelled, the thread is free."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest
from helpers import scripted
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.testing import call, calls


class World:
    """Counts effects, and keeps functions in their middle until they may end."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.inside, self.may_end = threading.Event(), threading.Event()

    def works(self, name: str) -> ag.Agent:
        """Return an agent that is done at once."""
        return ag.function_agent(name, lambda ctx: self.note(name))

    def slow(self, name: str) -> ag.Agent:
        """Return an agent whose function waits in its thread."""
        return ag.function_agent(name, lambda ctx: self.wait(name))

    def wait(self, name: str) -> str:
        self.inside.set()
        assert self.may_end.wait(20)
        return self.note(name)

    def note(self, name: str) -> str:
        self.done[name] += 1
        return f"{name} is done"

    def awaits(self, name: str) -> ag.Agent:
        """Return an agent whose coroutine waits for ever the first time."""
        begun: list[str] = []

        async def fn(ctx: ag.Context) -> str:
            begun.append(name)
            self.inside.set()
            if len(begun) == 1:
                await asyncio.Event().wait()
            return self.note(name)

        return ag.function_agent(name, fn)


def tree(world: World) -> ag.Agent:
    branches = ag.parallel("both", [world.slow("slow"), world.works("quick")])
    return ag.sequential("s", [world.works("first"), branches, world.works("last")])


async def until_inside(world: World) -> None:
    await asyncio.to_thread(world.inside.wait, 20)


async def read(run: Any, left: Callable[[], None], events: int) -> None:
    """Read some events of a run, then leave it."""
    for _ in range(events):
        await anext(run)
    left()


@pytest.mark.parametrize("leave", ["close", "drop", "cancel", "timeout", "anyio"])
def test_a_function_in_a_thread_is_waited_for_and_kept_when_an_async_run_is_left(leave: str) -> None:
    world = World()
    runner = ag.Runner(tree(world))

    async def leaving() -> None:
        run = runner.arun("Go.", thread_id="t")
        await anext(run)
        reading = asyncio.create_task(_read_on(run))
        await until_inside(world)
        asyncio.get_running_loop().call_later(0.05, world.may_end.set)
        reading.cancel()
        await asyncio.wait({reading})
        del reading, run

    async def _read_on(run: Any) -> None:
        async for _ in run:
            pass

    async def whole() -> list[str]:
        if leave == "cancel":
            await leaving()
        else:
            await LEAVING[leave](runner, world)
        return [event.text async for event in runner.aresume("t")]

    assert asyncio.run(whole())[-1] == "last is done"
    assert world.done == {"first": 1, "slow": 1, "quick": 1, "last": 1}


async def _close(runner: ag.Runner, world: World) -> None:
    async with aclosing(runner.arun("Go.", thread_id="t")) as run:
        await anext(run), await anext(run)
        await until_inside(world)
        asyncio.get_running_loop().call_later(0.05, world.may_end.set)


async def _drop(runner: ag.Runner, world: World) -> None:
    told = 0
    async for _ in runner.arun("Go.", thread_id="t"):
        told += 1
        if told == 2:
            break
    await until_inside(world)
    world.may_end.set()


async def _timeout(runner: ag.Runner, world: World) -> None:
    asyncio.get_running_loop().call_later(0.3, world.may_end.set)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            async for _ in runner.arun("Go.", thread_id="t"):
                pass


async def _anyio(runner: ag.Runner, world: World) -> None:
    """Leave as the web frameworks do that cancel by anyio, again and again until it is heeded."""
    asyncio.get_running_loop().call_later(0.3, world.may_end.set)
    with anyio.move_on_after(0.1):
        async for _ in runner.arun("Go.", thread_id="t"):
            pass


LEAVING = {"close": _close, "drop": _drop, "timeout": _timeout, "anyio": _anyio}


def test_a_coroutine_is_cancelled_at_once_and_runs_again() -> None:
    world = World()
    runner = ag.Runner(ag.sequential("s", [world.works("first"), world.awaits("waits")]))

    async def whole() -> list[str]:
        run = runner.arun("Go.", thread_id="t")
        await anext(run)
        reading = asyncio.create_task(anext(run))
        await until_inside(world)
        reading.cancel()
        await asyncio.wait({reading})
        await run.aclose()
        return [event.text async for event in runner.aresume("t")]

    assert asyncio.run(whole())[1:] == ["waits is done"]
    assert world.done == {"first": 1, "waits": 1}


def test_a_branch_that_fails_cancels_the_coroutines_beside_it() -> None:
    world = World()

    async def fails(ctx: ag.Context) -> str:
        await asyncio.to_thread(world.inside.wait, 20)
        if not world.done["fails"]:
            world.done["fails"] += 1
            raise ValueError("no")
        return "Now."

    both = ag.parallel("both", [world.awaits("waits"), ag.function_agent("fails", fails)])
    runner = ag.Runner(both)

    async def whole() -> list[str]:
        with pytest.raises(ValueError, match="no"):
            async for _ in runner.arun("Go.", thread_id="t"):
                pass
        return sorted([event.text async for event in runner.aresume("t")])

    assert asyncio.run(whole()) == ["Now.", "waits is done"]


def test_a_sync_tool_of_an_async_run_that_is_left_runs_once() -> None:
    world = World()

    def pay(amount: int) -> str:
        """Pay."""
        return world.wait("pay") if amount == 2 else world.note("look")

    rounds = [calls(call("pay", amount=1), call("pay", amount=2)), "Paid."]
    runner = ag.Runner(ag.chat_agent("boss", scripted(*rounds), tools=[pay]))

    async def whole() -> list[str]:
        async with aclosing(runner.aquery("Go.", thread_id="t")) as run:
            await anext(run), await anext(run)
            await until_inside(world)
            asyncio.get_running_loop().call_later(0.05, world.may_end.set)
        return [event.text async for event in runner.aresume("t")]

    assert asyncio.run(whole())[-1] == "Paid."
    assert world.done == {"pay": 1, "look": 1}


def test_a_second_cancel_does_not_wait_for_a_thread() -> None:
    world = World()
    runner = ag.Runner(tree(world))

    async def whole() -> None:
        run = runner.arun("Go.", thread_id="t")
        await anext(run)

        async def read_on() -> None:
            async for _ in run:
                pass

        reading = asyncio.create_task(read_on())
        await until_inside(world)
        reading.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not reading.done()
        reading.cancel()
        await asyncio.wait({reading}, timeout=10)
        assert reading.cancelled()
        world.may_end.set()

    asyncio.run(whole())


def test_a_held_iterator_keeps_its_thread_and_a_closed_one_frees_it() -> None:
    runner = ag.Runner(ag.sequential("s", [World().works("a"), World().works("b")]))
    run = runner.run("Go.", thread_id="t")
    with pytest.raises(ag.ThreadBusyError):
        runner.resume("t")
    assert next(run).text == "a is done"
    with pytest.raises(ag.ThreadBusyError):
        runner.resume("t")
    run.close()
    void, done = runner.resume("t")
    assert (void.kind, done.text) == ("discarded", "b is done")


def test_a_held_async_run_keeps_its_thread_and_a_dropped_one_frees_it() -> None:
    runner = ag.Runner(ag.sequential("s", [World().works("a"), World().works("b")]))

    async def whole() -> list[str]:
        run = runner.arun("Go.", thread_id="t")
        assert (await anext(run)).text == "a is done"
        with pytest.raises(ag.ThreadBusyError):
            await runner.aresume("t")
        del run
        return [event.text async for event in runner.aresume("t")]

    assert asyncio.run(whole())[1:] == ["b is done"]


@pytest.mark.parametrize(
    ("call_it", "error"),
    [
        (lambda runner: runner.arun("Go.", thread_id="waits"), ag.PendingInterruptError),
        (lambda runner: runner.arun(3, thread_id="new"), ag.AgentGraphError),
        (lambda runner: runner.aresume("none"), ag.UnknownThreadError),
        (lambda runner: runner.aresume("waits", {"0" * 32: 1}), ag.UnknownInterruptError),
        (lambda runner: runner.aevents("none"), ag.UnknownThreadError),
    ],
)
def test_what_run_refuses_at_the_call_arun_refuses_when_it_is_awaited(
    call_it: Callable[[ag.Runner], Any], error: type[Exception]
) -> None:
    runner = ag.Runner(ag.human("boss", "Print?"))
    list(runner.run("Go.", thread_id="waits"))

    async def awaiting() -> None:
        with pytest.raises(error):
            await call_it(runner)
        admitted = await runner.aresume("waits", "yes")
        assert [event.text async for event in admitted] == ["yes"]

    asyncio.run(awaiting())


def test_an_awaited_run_has_begun_nothing_before_its_first_event() -> None:
    world = World()
    runner = ag.Runner(world.works("a"), checkpointer=InMemorySaver())

    async def whole() -> None:
        async with runner.arun("Go.", thread_id="t") as run:
            assert not world.done
            assert (await anext(run)).text == "a is done"

    asyncio.run(whole())


def test_an_async_file_is_not_locked_when_a_run_on_it_was_left(tmp_path: Path) -> None:
    async def whole(path: Path) -> None:
        async with ag.async_sqlite_saver(path) as saver:
            for number in range(10):
                world = World()
                world.may_end.set()
                runner = ag.Runner(tree(world), checkpointer=saver)
                async for _ in runner.arun("Go.", thread_id=str(number)):
                    break
        with ag.sqlite_saver(path) as other:
            runner = ag.Runner(tree(world), checkpointer=other)
            assert list(runner.run("Go.", thread_id="last"))[-1].text == "last is done"

    asyncio.run(whole(tmp_path / "runs.db"))

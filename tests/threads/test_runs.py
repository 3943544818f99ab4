"""Runs that are closed, cancelled or dropped: what had begun in a thread is kept, the rest stops."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from helpers import Sync, asks, chat, failing, lines, says, yields

import agentgraph as ag
from agentgraph.testing import call, calls

TURNS = 50
"""How many turns of an event loop are surely enough for a cancellation to be delivered."""


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

    async def until_inside(self) -> None:
        assert await asyncio.to_thread(self.inside.wait, 20)

    def end_soon(self) -> None:
        """Let the functions end some turns of the event loop later."""
        asyncio.ensure_future(self._end())  # noqa: RUF006

    async def _end(self) -> None:
        await pass_turns()
        self.may_end.set()


async def pass_turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def read_all(run: ag.AsyncRun) -> list[str]:
    return [event.text async for event in run]


def tree(world: World) -> ag.Agent:
    lane = ag.sequential("lane", [world.slow("slow"), world.works("after")])
    branches = ag.parallel("both", [lane, world.works("quick")])
    return ag.sequential("s", [world.works("first"), branches, world.works("last")])


async def close(run: ag.AsyncRun, world: World) -> None:
    async with aclosing(run):
        await anext(run), await anext(run)
        await world.until_inside()
        world.end_soon()


async def drop(run: ag.AsyncRun, world: World) -> None:
    await anext(run), await anext(run)
    await world.until_inside()
    world.end_soon()


async def cancel(run: ag.AsyncRun, world: World) -> None:
    reading = asyncio.create_task(read_all(run))
    await world.until_inside()
    world.end_soon()
    reading.cancel()
    await asyncio.wait({reading})


async def time_out(run: ag.AsyncRun, world: World) -> None:
    async def inside() -> None:
        await world.until_inside()
        limit.reschedule(asyncio.get_running_loop().time())
        world.end_soon()

    with suppress(TimeoutError):
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
            tasks.create_task(inside())
            await read_all(run)


async def cancel_scope(run: ag.AsyncRun, world: World) -> None:
    """Cancel as web frameworks on anyio do: again and again until it takes effect."""

    async def inside() -> None:
        await world.until_inside()
        scope.cancel()
        world.end_soon()

    task = asyncio.create_task(inside())
    with anyio.CancelScope() as scope:
        await read_all(run)
    await task


@pytest.mark.parametrize("leave", [close, drop, cancel, time_out, cancel_scope])
def test_a_function_in_a_thread_is_awaited_and_kept_when_an_async_run_is_left(
    leave: Callable[[Any, World], Awaitable[None]],
) -> None:
    world = World()
    runner = ag.Runner(tree(world))

    async def whole() -> list[str]:
        await leave(runner.arun("Go.", thread_id="t"), world)
        rest = await runner.aresume("t")
        assert world.done == {"first": 1, "slow": 1, "quick": 1}
        return await read_all(rest)

    assert asyncio.run(whole())[-2:] == ["after is done", "last is done"]
    assert set(world.done.values()) == {1}


def test_a_coroutine_is_cancelled_at_once_and_runs_again() -> None:
    world = World()
    runner = ag.Runner(ag.sequential("s", [world.works("first"), world.awaits("waits")]))

    async def whole() -> list[str]:
        await cancel(runner.arun("Go.", thread_id="t"), world)
        return await read_all(runner.aresume("t"))

    assert asyncio.run(whole())[1:] == ["waits is done"]
    assert world.done == {"first": 1, "waits": 1}


def test_a_branch_that_fails_cancels_the_coroutines_of_the_others() -> None:
    world = World()

    async def fails(ctx: ag.Context) -> str:
        await world.until_inside()
        if world.note("fails") and world.done["fails"] == 1:
            raise ValueError("no")
        return "Now."

    both = ag.parallel("both", [world.awaits("waits"), ag.function_agent("fails", fails)])
    runner = ag.Runner(both)

    async def whole() -> list[str]:
        with pytest.raises(ValueError, match="no"):
            await read_all(runner.arun("Go.", thread_id="t"))
        return sorted(await read_all(runner.aresume("t")))

    assert asyncio.run(whole()) == ["Now.", "waits is done"]


def test_a_sync_tool_of_an_async_run_that_is_closed_runs_once() -> None:
    world = World()

    def pay(amount: int) -> str:
        """Pay."""
        return world.wait("pay") if amount == 2 else world.note("look")

    made = calls(call("pay", amount=1), call("pay", amount=2))
    runner = ag.Runner(chat("boss", made, "Paid.", tools=[pay]))

    async def whole() -> list[str]:
        await close(runner.aquery("Go.", thread_id="t"), world)
        return await read_all(runner.aresume("t"))

    assert asyncio.run(whole())[-1] == "Paid."
    assert world.done == {"pay": 1, "look": 1}


def test_a_second_cancel_does_not_wait_for_a_thread() -> None:
    world = World()
    runner = ag.Runner(tree(world))

    async def whole() -> None:
        reading = asyncio.create_task(read_all(runner.arun("Go.", thread_id="t")))
        await world.until_inside()
        reading.cancel()
        await pass_turns()
        assert not reading.done()
        reading.cancel()
        await asyncio.wait({reading}, timeout=10)
        assert reading.cancelled()
        world.may_end.set()

    asyncio.run(whole())


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


def test_a_sync_run_locks_its_thread_alone_until_it_is_closed() -> None:
    runner = ag.Runner(ag.sequential("s", [says("a"), says("b")]))
    run = runner.run("Go.", thread_id="t")
    for refused in (lambda: runner.resume("t"), lambda: runner.run("Go.", thread_id="t")):
        with pytest.raises(ag.ThreadBusyError) as caught:
            refused()
        assert str(caught.value) == (
            "thread 't' is busy: another run is under way on it; wait for its end (an iterator that "
            "was left early ends when it is closed), or use another thread_id"
        )
    assert next(run).text == "a"
    assert len(list(runner.run("Go.", thread_id="other"))) == 2
    with pytest.raises(ag.ThreadBusyError):
        runner.resume("t")
    run.close()
    void, last = runner.resume("t")
    assert (void.kind, last.text) == ("discarded", "b")
    assert len(list(runner.run("Go.", thread_id="t"))) == 2


def test_a_step_that_ends_while_its_run_is_closed_is_emitted_again_but_does_not_run_again() -> None:
    runner = ag.Runner(ag.sequential("s", [yields("a", ["one"], ["two"]), says("b")]))
    with runner.run("Go.", thread_id="t") as run:
        assert next(run).text == "one"
    assert lines(runner.resume("t")) == ["s: [discarded]", "s/a: one", "s/b: b"]


def test_an_async_run_locks_its_thread_until_it_is_dropped() -> None:
    runner = ag.Runner(ag.sequential("s", [says("a"), says("b")]))

    async def whole() -> list[str]:
        run = runner.arun("Go.", thread_id="t")
        assert (await anext(run)).text == "a"
        with pytest.raises(ag.ThreadBusyError):
            await runner.aresume("t")
        with pytest.raises(ag.ThreadBusyError):
            await anext(runner.arun("Go.", thread_id="t"))
        del run
        return await read_all(runner.aresume("t"))

    assert asyncio.run(whole())[1:] == ["b"]


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
        assert await read_all(await runner.aresume("waits", "yes")) == ["yes"]

    asyncio.run(awaiting())


def test_an_async_run_may_be_closed_before_its_first_event_and_after_its_last() -> None:
    world = World()
    runner = ag.Runner(world.works("a"))

    async def whole() -> None:
        async with runner.arun("Go.", thread_id="t"):
            assert not world.done
        async with runner.arun("Go.", thread_id="t") as run:
            assert await read_all(run) == ["a is done"]
        await run.aclose()
        assert await read_all(run) == []
        assert await read_all(runner.arun("Go.", thread_id="t")) == ["a is done"]

    asyncio.run(whole())


def test_a_file_is_not_locked_by_async_runs_that_were_dropped(tmp_path: Path) -> None:
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
            assert list(Sync.run(runner, "Go.", thread_id="last"))[-1].text == "last is done"

    asyncio.run(whole(tmp_path / "runs.db"))

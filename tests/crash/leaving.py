"""Ways to leave a run after its n-th event, and what must hold right after that."""

import asyncio
import gc
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from campaign import World
from left_trees import Tree

import agentgraph as ag

ANSWER = "yes"
TURNS = 5
"""How often the event loop goes round until something has begun that was started before."""
Make = Callable[[], Any]
"""Begins the run that is left."""


class LeftError(Exception):
    """What a consumer raises to leave."""


class Count:
    """Counts the events of a consumer, which leaves at the n-th; opens the gate where all wait for it.

    Where all wait for the gate, it leaves when those have come there that are to be in the middle.

    Attributes:
        left: Whether it was time to leave.
    """

    def __init__(self, leave_at: int, world: World, tree: Tree | None = None) -> None:
        self.leave_at, self.world, self.left, self.seen = leave_at, world, leave_at == 0, 0
        self.held_at, self._waiting = (tree.held_at, tree.waiting) if tree else (0, 0)

    def leaves(self) -> bool:
        """Count an event, and return whether to leave now."""
        if not self.left and self._counts():
            while not self._is_in_the_middle():
                time.sleep(0.001)
        return self.left

    async def aleaves(self) -> bool:
        """Count an event as `leaves` does, on the event loop."""
        if not self.left and self._counts():
            while not self._is_in_the_middle():
                await asyncio.sleep(0.001)
        return self.left

    def _is_in_the_middle(self) -> bool:
        return self.seen != self.held_at or self.world.waiting >= self._waiting

    def _counts(self) -> bool:
        self.seen += 1
        self.left = self.left or self.seen == self.leave_at
        if not self.left and self.seen >= self.held_at:
            self.world.gate.set()
        return self.left


def closes(make: Make, count: Count) -> None:
    with closing(make()) as run:
        if not count.left:
            for _ in run:
                if count.leaves():
                    break
        count.world.gate.set()


def drops(make: Make, count: Count) -> None:
    run = make()
    for _ in () if count.left else run:
        if count.leaves():
            break
    count.world.gate.set()


def throws(make: Make, count: Count) -> None:
    def handed_on() -> Generator[ag.AgentEvent, None, None]:
        yield from make()

    run = handed_on()
    for _ in run:
        if count.leaves() or count.left:
            count.world.gate.set()
            with suppress(LeftError):
                run.throw(LeftError())
            break


def closes_elsewhere(make: Make, count: Count, closers: int = 1) -> None:
    """Close the run in other threads while one waits for what comes after the n-th event."""
    run, reached, raised = make(), threading.Event(), list[BaseException]()

    def read() -> None:
        for _ in run:
            if count.leaves():
                reached.set()

    def noting(act: Callable[[], None]) -> threading.Thread:
        def whole() -> None:
            try:
                act()
            except BaseException as error:
                raised.append(error)
            reached.set()

        return threading.Thread(target=whole)

    reader, closing = noting(read), [noting(run.close) for _ in range(closers)]
    if count.left:
        reached.set()
    reader.start()
    reached.wait()
    if count.left:
        for closer in closing:
            closer.start()
        closing[0].join(0.01)
        count.world.gate.set()
        for closer in closing:
            closer.join()
    reader.join()
    assert raised == [], f"its iteration does not just end: {raised}"


def closes_twice(make: Make, count: Count) -> None:
    closes_elsewhere(make, count, 2)


async def reads(make: Make, count: Count) -> Any:
    """Return a run that was read up to the event at which it is left."""
    run = make()
    if not count.left:
        async for _ in run:
            if await count.aleaves():
                break
    open_soon(count.world)
    return run


async def acloses(make: Make, count: Count) -> None:
    await (await reads(make, count)).aclose()


async def adrops(make: Make, count: Count) -> None:
    await reads(make, count)


async def acloses_elsewhere(make: Make, count: Count) -> None:
    """Close the run in one task while another waits for what comes after the n-th event."""
    run = make()
    consumer = await asks_for_the_next(lambda: run, count)
    open_soon(count.world)
    if count.left:
        await run.aclose()
    await consumer


async def acloses_on_another_loop(make: Make, count: Count) -> None:
    run = make()
    consumer = await asks_for_the_next(lambda: run, count)
    open_soon(count.world)
    if count.left:
        await asyncio.to_thread(asyncio.run, run.aclose())
    await consumer


async def acloses_twice(make: Make, count: Count) -> None:
    """Close the run in two tasks at once: while it is admitted, or one waits for an event."""
    run = make()
    if count.left:
        consumer: asyncio.Task[Any] = asyncio.create_task(heard(run))
        await turns(1)
    else:
        consumer = await asks_for_the_next(lambda: run, count)
    open_soon(count.world)
    if count.left:
        other = asyncio.create_task(run.aclose())
        await run.aclose()  # at once: the other one goes on when the event loop goes round
        await other
    await consumer


async def is_cancelled(make: Make, count: Count) -> None:
    """Cancel the consumer while it waits for what comes after the n-th event."""
    consumer = await asks_for_the_next(make, count)
    consumer.cancel()
    open_soon(count.world)
    with suppress(asyncio.CancelledError):
        await consumer


async def times_out(make: Make, count: Count) -> None:
    loop = asyncio.get_running_loop()
    with suppress(TimeoutError):
        async with asyncio.timeout(loop.time() if count.left else None) as timeout:
            if count.left:
                open_soon(count.world)
            async for _ in make():
                if await count.aleaves():
                    timeout.reschedule(loop.time())
                    open_soon(count.world)


SYNC = {
    "close": closes,
    "drop": drops,
    "throw": throws,
    "close elsewhere": closes_elsewhere,
    "close twice": closes_twice,
}
ASYNC = {
    "aclose": acloses,
    "drop": adrops,
    "cancel": is_cancelled,
    "timeout": times_out,
    "aclose elsewhere": acloses_elsewhere,
    "aclose on another loop": acloses_on_another_loop,
    "aclose twice": acloses_twice,
}
UNBEGUN = {"close", "drop", "aclose", "aclose twice"}
"""The ways to leave a run before it has begun, if it is left after no event."""


async def asks_for_the_next(make: Make, count: Count) -> "asyncio.Task[None]":
    """Return a consumer that has its n-th event and asks for the next one, or has ended."""
    reached = asyncio.Event()

    async def consumed() -> None:
        if count.left:
            reached.set()
        async for _ in make():
            if await count.aleaves():
                reached.set()

    consumer, reaching = asyncio.create_task(consumed()), asyncio.create_task(reached.wait())
    await asyncio.wait([consumer, reaching], return_when=asyncio.FIRST_COMPLETED)
    reaching.cancel()
    await turns()
    return consumer


async def turns(number: int = TURNS) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def open_soon(world: World) -> None:
    """Open the gate once the event loop has gone round: the run is being left then."""

    def later(left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(later, left - 1)
        else:
            world.gate.set()

    later(TURNS)


def finish(runner: ag.Runner) -> None:
    """Bring the thread to its end at once, from wherever it was left."""
    answers: tuple[str, ...] = ()
    for _ in range(10):
        try:
            list(runner.resume("t", *answers))
        except ag.UnknownThreadError:
            list(runner.run("Go.", thread_id="t"))
        if not runner.pending("t"):
            return
        answers = (ANSWER,)
    raise AssertionError("the thread does not come to its end")


async def afinish(runner: ag.Runner) -> None:
    answers: tuple[str, ...] = ()
    for _ in range(10):
        try:
            await heard(runner.aresume("t", *answers))
        except ag.UnknownThreadError:
            await heard(runner.arun("Go.", thread_id="t"))
        if not await runner.apending("t"):
            return
        answers = (ANSWER,)
    raise AssertionError("the thread does not come to its end")


async def heard(run: Any) -> list[ag.AgentEvent]:
    return [event async for event in run]


def check_file(path: Path | None) -> None:
    """Check that another connection may write at once."""
    if path is not None:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")


def check_tasks() -> None:
    """Check that no task of the event loop is left but this one; it does not know those of runs.

    That by which it knows a run ends a moment after it.
    """
    tasks = {each for each in gc.get_objects() if isinstance(each, asyncio.Task) and not each.done()}
    loop, own = asyncio.get_running_loop(), asyncio.current_task()
    left = {each for each in tasks if each.get_loop() is loop and each is not own}
    left = {each for each in left if getattr(each.get_coro(), "__name__", "") != "_hold"}
    assert not left, f"tasks are left: {sorted(str(task.get_coro()) for task in left)}"

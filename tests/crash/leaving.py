"""Ways to leave a run after its n-th event, and what must hold right behind that."""

import asyncio
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import agentgraph as ag

ANSWER = "yes"
_TURNS = 5
"""How often the event loop goes round until something has begun that was started before."""


_MOMENT = 0.001


class LeftError(Exception):
    """What a consumer raises to leave."""


class World:
    """What functions do in the world: begun and ended by name, and a gate where some of them wait.

    Attributes:
        ended: How often each has ended.
        running: Which are under way.
        gate: Where those wait that are to be in the middle when a run is left.
        waiting: How many wait there.
    """

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.gate = threading.Event()
        self.waiting = 0
        self._lock = threading.Lock()

    @contextmanager
    def doing(self, name: str) -> Iterator[None]:
        with self._lock:
            self.running[name] += 1
        try:
            yield
            with self._lock:
                self.ended[name] += 1
        finally:
            with self._lock:
                self.running[name] -= 1

    def wait(self) -> None:
        with self._lock:
            self.waiting += 1
        assert self.gate.wait(20), "nobody opened the gate"

    async def await_gate(self) -> None:
        with self._lock:
            self.waiting += 1
        while not self.gate.is_set():
            await asyncio.sleep(_MOMENT)


class Count:
    """Counts the events of a consumer, which leaves at the n-th; opens the gate where all wait for it.

    Where all wait for the gate, it leaves when those have come there that are to be in the middle.

    Attributes:
        left: Whether it was time to leave.
        heard: The events.
    """

    def __init__(self, leave_at: int, world: World, held_at: int = 0, waiting: int = 0) -> None:
        self.leave_at, self.held_at, self.world = leave_at, held_at, world
        self.left, self._waiting = leave_at == 0, waiting
        self.heard: list[ag.AgentEvent] = []

    @property
    def seen(self) -> int:
        return len(self.heard)

    def leaves(self, event: ag.AgentEvent) -> bool:
        """Count an event, and return whether to leave now."""
        if self._counts(event):
            while not self._is_in_the_middle():
                time.sleep(_MOMENT)
        return self.left

    async def aleaves(self, event: ag.AgentEvent) -> bool:
        """Count an event as `leaves` does, on the event loop."""
        if self._counts(event):
            while not self._is_in_the_middle():
                await asyncio.sleep(_MOMENT)
        return self.left

    def _is_in_the_middle(self) -> bool:
        return self.seen != self.held_at or self.world.waiting >= self._waiting

    def _counts(self, event: ag.AgentEvent) -> bool:
        self.heard.append(event)
        self.left = self.left or self.seen == self.leave_at
        if not self.left and self.seen >= self.held_at:
            self.world.gate.set()
        return self.left


Make = Callable[[], Any]
"""Begins the run that is left."""


def closes(make: Make, count: Count) -> None:
    with closing(make()) as run:
        if not count.left:
            for event in run:
                if count.leaves(event):
                    break
        count.world.gate.set()


def drops(make: Make, count: Count) -> None:
    if count.left:
        make()
        count.world.gate.set()
        return
    for event in make():
        if count.leaves(event):
            count.world.gate.set()
            break


def raises(make: Make, count: Count) -> None:
    with suppress(LeftError):
        for event in make():
            if count.leaves(event) or count.left:
                count.world.gate.set()
                raise LeftError


def throws(make: Make, count: Count) -> None:
    def handed_on() -> Generator[ag.AgentEvent, None, None]:
        yield from make()

    run = handed_on()
    for event in run:
        if count.leaves(event) or count.left:
            count.world.gate.set()
            with suppress(LeftError):
                run.throw(LeftError())
            break


async def acloses_by_with(make: Make, count: Count) -> None:
    async with aclosing(make()) as run:
        if not count.left:
            async for event in run:
                if await count.aleaves(event):
                    break
        open_soon(count.world)


async def acloses(make: Make, count: Count) -> None:
    run = make()
    if not count.left:
        async for event in run:
            if await count.aleaves(event):
                break
    open_soon(count.world)
    await run.aclose()


async def adrops(make: Make, count: Count) -> None:
    if count.left:
        make()
        open_soon(count.world)
        return
    async for event in make():
        if await count.aleaves(event):
            open_soon(count.world)
            break


async def araises(make: Make, count: Count) -> None:
    with suppress(LeftError):
        async with aclosing(make()) as run:
            async for event in run:
                if await count.aleaves(event) or count.left:
                    open_soon(count.world)
                    raise LeftError


async def is_cancelled(make: Make, count: Count) -> None:
    """Cancel the consumer while it waits for what comes behind the n-th event."""
    reached = asyncio.Event()
    if count.left:
        reached.set()
    consumer = asyncio.create_task(consumed(make, count, reached))
    await waits(consumer, reached)
    consumer.cancel()
    open_soon(count.world)
    with suppress(asyncio.CancelledError):
        await consumer


async def times_out(make: Make, count: Count) -> None:
    loop = asyncio.get_running_loop()
    with suppress(TimeoutError):
        async with asyncio.timeout(loop.time() if count.left else None) as timeout:
            open_soon(count.world, _TURNS if count.left else 0)
            async for event in make():
                if await count.aleaves(event):
                    timeout.reschedule(loop.time())
                    open_soon(count.world)


SYNC = {"close": closes, "drop": drops, "raise": raises, "throw": throws}
ASYNC = {
    "aclosing": acloses_by_with,
    "aclose": acloses,
    "drop": adrops,
    "raise": araises,
    "cancel": is_cancelled,
    "timeout": times_out,
}


async def consumed(make: Make, count: Count, reached: asyncio.Event) -> None:
    async for event in make():
        if await count.aleaves(event):
            reached.set()


async def waits(consumer: "asyncio.Task[None]", reached: asyncio.Event) -> None:
    """Wait until a consumer has its n-th event and asks for the next one, or has ended."""
    reaching = asyncio.create_task(reached.wait())
    await asyncio.wait([consumer, reaching], return_when=asyncio.FIRST_COMPLETED)
    reaching.cancel()
    await turns()


async def turns(number: int = _TURNS) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def open_soon(world: World, turns: int = _TURNS) -> None:
    """Open the gate once the event loop has gone round: the run is being left then."""
    if turns == 0:
        return
    loop = asyncio.get_running_loop()

    def later(left: int) -> None:
        if left:
            loop.call_soon(later, left - 1)
        else:
            world.gate.set()

    later(turns)


def finish(runner: ag.Runner) -> list[ag.AgentEvent]:
    """Bring the thread to its end at once, from wherever it was left, and return what is told."""
    heard: list[ag.AgentEvent] = []
    answers: tuple[str, ...] = ()
    for _ in range(10):
        try:
            told = list(runner.resume("t", *answers))
        except ag.UnknownThreadError:
            told = list(runner.run("Go.", thread_id="t"))
        heard += told
        if not runner.pending("t"):
            return heard
        answers = (ANSWER,)
    raise AssertionError("the thread does not come to its end")


async def afinish(runner: ag.Runner) -> list[ag.AgentEvent]:
    heard: list[ag.AgentEvent] = []
    answers: tuple[str, ...] = ()
    for _ in range(10):
        try:
            told = [event async for event in runner.aresume("t", *answers)]
        except ag.UnknownThreadError:
            told = [event async for event in runner.arun("Go.", thread_id="t")]
        heard += told
        if not await runner.apending("t"):
            return heard
        answers = (ANSWER,)
    raise AssertionError("the thread does not come to its end")


def check_file(path: Path | None) -> None:
    """Check that another connection may write at once."""
    if path is None:
        return
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def check_tasks() -> None:
    """Check that no task of the event loop is left but this one."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks are left: {sorted(str(task.get_coro()) for task in left)}"


async def drained(run: AsyncIterator[Any]) -> list[Any]:
    return [each async for each in run]

"""Keeps a function that runs agents waiting for answers, while other calls of it run.

The problem: a call of `ctx.run` that asks ends its task, as each lane does (`parking.py`), and the task
is called again after the answer. The function awaits the call meanwhile. For how long? What a function
does itself cannot be seen: it may work, or wait for the very call that asks, by a lock, an event or a
queue.

The rule: a call waits for its answer only while other calls of the function run, and a tenth of a
second longer, in which the function may make the next one. Then the function pauses, as it does at once
for a call that is alone. So every wait has an end, and the function's own work delays no question. If
the function stops to await a call that waits, by a timeout or a `TaskGroup`, it pauses too, because a
person's time does not count against it.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from itertools import chain

from agentgraph.graph.nodes.parking import end_wait
from agentgraph.graph.nodes.stopping import Stop
from agentgraph.graph.sync_async import Call

_NEXT_CALL_SECONDS = 0.1
"""Seconds after the end of a call in which the function may make another one before it pauses."""


class ParkedCalls:
    """Counts the calls of one activation that run, and has others wait for answers meanwhile."""

    def __init__(self, control: Stop, has_ended: Callable[[], bool]) -> None:
        """Begin before the first call.

        Args:
            control: Stops all calls of the activation.
            has_ended: Returns whether the function has ended, or pauses.
        """
        self._control, self._has_ended = control, has_ended
        self._lock, self._running, self._until = threading.Lock(), 0, 0.0
        self._waiting: dict[_Bell, set[str]] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count a call during a `with` block; after it the function has its outcome."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            if self._waiting:
                self._until = time.monotonic() + _NEXT_CALL_SECONDS
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._running -= 1
            is_last = not self._running
        if is_last:
            self.look_again()

    def look_again(self) -> None:
        """Have all calls that wait look whether the function pauses, from any thread."""
        with self._lock:
            bells = [*self._waiting]
        for bell in bells:
            bell.ring()

    async def answered(self, questions: set[str]) -> set[str]:
        """Wait until some questions of a running call are answered, and return these.

        Args:
            questions: All of its questions.

        Returns:
            None of them if the function pauses.
        """
        bell = _Bell()
        with self._lock:
            self._waiting[bell] = questions
        self._end()
        try:
            return await self._awaited(questions, bell)
        finally:
            with self._lock:  # at once, so that another one sees that it waits or runs
                self._running += 1
                del self._waiting[bell]

    async def _awaited(self, questions: set[str], bell: "_Bell") -> set[str]:
        if (desk := self._control.desk) is not None:
            desk.park(questions, bell.ring)
        while True:
            rings, seconds = bell.rings, self._until - time.monotonic()
            if self._has_ended():
                end_wait(self._control, questions)
                return set()
            if desk is not None and (answered := desk.answered(questions)):
                return answered
            with self._lock:
                every = None if self._running else {*chain(*self._waiting.values())}
            if every is not None and seconds <= 0 and end_wait(self._control, every):
                return set()
            await Call(_wait, _await, (rings, seconds if seconds > 0 else None))


class _Bell:
    """Wakes a call that waits, from any thread.

    Attributes:
        rings: Done when it rings next.
    """

    def __init__(self) -> None:
        self._lock, self.rings = threading.Lock(), Future[None]()

    def ring(self) -> None:
        """Ring."""
        with self._lock:
            rings, self.rings = self.rings, Future()
        rings.set_result(None)


def _wait(rings: Future[None], seconds: float | None) -> None:
    wait([rings], seconds)


async def _await(rings: Future[None], seconds: float | None) -> None:
    await asyncio.wait([asyncio.wrap_future(rings)], timeout=seconds)

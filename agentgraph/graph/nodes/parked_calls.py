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
from collections.abc import Callable
from concurrent.futures import Future, wait
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

    def begin(self) -> None:
        """Note that a call runs, or waits for a place."""
        with self._lock:
            self._running += 1

    def end(self, *, is_parked: bool) -> None:
        """Note that a call does not run any more."""
        with self._lock:
            self._running -= 1
            if self._waiting and not is_parked:
                self._until = time.monotonic() + _NEXT_CALL_SECONDS
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
        """Wait until some questions of a call are answered; it runs again then.

        Args:
            questions: All of its questions.

        Returns:
            Those that are answered; none if the function pauses.
        """
        bell = _Bell()
        with self._lock:
            self._waiting[bell] = questions
        try:
            answered = await self._awaited(questions, bell)
            if answered:
                self.begin()
            return answered
        finally:
            with self._lock:
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
            if every and seconds <= 0 and end_wait(self._control, every):
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

"""The numbers of lanes and calls that run at once, and of the threads that LangGraph needs in addition.

LangGraph's `max_concurrency` bounds everything that it submits: the tasks of a graph, but also the node
that calls and awaits them, its wait for streamed events, and the saves. So a run gets a `Room`: a
larger `max_concurrency`, with the number of tasks that may really run at once. `Schedule` keeps to that
number, and calls no more tasks, because a save would wait for a thread after all of them.

A bound of a user's config counts for the whole run (`Places`): a lane takes a place, and lends it to
the lanes of a node inside it while that waits for them. So the innermost run first, and there is no
deadlock, even with one place.
"""

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from heapq import heappop, heappush

from langchain_core.runnables import RunnableConfig

AT_ONCE = 32
"""The number of items or calls that run at once, unless an agent or a config says otherwise."""
BRANCHES = 64
"""The number of branches or steps that do."""
_SPARE = 8
"""Threads for the node, the stream and the saver."""


class Places:
    """The places of a run, one for each thing that runs. The lane of the root begins with one."""

    def __init__(self, count: int) -> None:
        self._free, self._lock, self._number = count - 1, threading.RLock(), itertools.count()
        self._queue: list[tuple[float, int, Future[None]]] = []

    def enter(self, gate: Future[None], depth: float) -> None:
        """Open a gate as soon as there is a place; what is deeper in the tree comes first."""
        with self._lock:
            heappush(self._queue, (-depth, next(self._number), gate))
            self._open_gates()

    def leave(self) -> None:
        """Give a place back."""
        with self._lock:
            self._free += 1
            self._open_gates()

    def open(self, gate: Future[None]) -> bool:
        """Open a gate for a caller that lends its place; return whether it waited."""
        with self._lock:
            is_waiting = not gate.done() and gate.set_running_or_notify_cancel()
            if is_waiting:
                gate.set_result(None)
            return is_waiting

    def refuse(self, gates: Iterable[Future[None]], why: BaseException) -> None:
        """End the wait at the gates that are not open."""
        with self._lock:
            for gate in gates:
                if not gate.done() and gate.set_running_or_notify_cancel():
                    gate.set_exception(why)

    def back(self, depth: float) -> None:
        """Take a place again, after what was inside has ended."""
        gate = Future[None]()
        self.enter(gate, depth)
        gate.result()

    async def aback(self, depth: float) -> None:
        """Take a place again on the event loop."""
        gate = Future[None]()
        self.enter(gate, depth)
        try:
            await asyncio.wrap_future(gate)
        except asyncio.CancelledError:
            if not gate.cancel():
                self.leave()
            raise

    def take(self) -> None:
        """Take a place again at once, where the run ends by an exception."""
        with self._lock:
            self._free -= 1

    def _open_gates(self) -> None:
        while self._queue and self._free > 0:
            *_, gate = heappop(self._queue)
            self._free -= self.open(gate)


class CallPlaces:
    """Places for the calls that a function makes, which lends its own to one of them meanwhile."""

    def __init__(self, places: Places, depth: float) -> None:
        self._places, self._depth, self._lock = places, depth, threading.Lock()
        self._own: Future[None] | None = None
        self._waiting: deque[Future[None]] = deque()

    def enter(self) -> Future[None]:
        """Return a gate that opens as soon as a call may begin."""
        gate = Future[None]()
        with self._lock:
            if self._own is None and self._places.open(gate):
                self._own = gate
                return gate
            self._waiting.append(gate)
        self._places.enter(gate, self._depth)
        return gate

    def leave(self, gate: Future[None]) -> None:
        """Give the place of a call back; the function's own goes to another one of its calls."""
        with self._lock:
            if gate is not self._own:
                self._places.leave()
                return
            while self._waiting:
                self._own = self._waiting.popleft()
                if self._places.open(self._own):
                    return
            self._own = None


class Room(int):
    """A `max_concurrency` for LangGraph, with room for what is not a lane or a call.

    Attributes:
        at_once: How many lanes or calls of a node run at once.
        places: The places of the run, if a config of a user bounds them.
    """

    at_once: int
    places: Places | None

    def __new__(cls, at_once: int, *, is_given: bool = False) -> "Room":
        """Make it.

        Args:
            at_once: How many lanes or calls of a node run at once.
            is_given: Whether a config of a user says so.
        """
        room = super().__new__(cls, at_once + _SPARE)
        room.at_once = at_once
        room.places = Places(at_once) if is_given else None
        return room


_DEFAULT = Room(AT_ONCE)


def room_in(config: RunnableConfig) -> Room:
    """Return how many tasks may run in a node.

    Args:
        config: LangGraph's config of the node.
    """
    room = config.get("max_concurrency")
    return room if isinstance(room, Room) else _DEFAULT


def given_bound(config: RunnableConfig) -> int | None:
    """Return the `max_concurrency` of a user's config; None if there is none.

    Args:
        config: LangGraph's config of a node.
    """
    room = room_in(config)
    return room.at_once if room.places is not None else None

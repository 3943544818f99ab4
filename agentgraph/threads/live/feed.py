"""Followers of a run of this process: its recent events, and queues for what comes."""

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum

from agentgraph.events.events import AgentEvent

SECONDS = 0.25
"""How long one waits for an event before one looks whether to wait any longer."""


class Nothing(Enum):
    """The result of a wait in which nothing happened."""

    YET = "yet"


FeedItem = AgentEvent | Nothing | None
"""An event, or None at the end of the run."""


class Feed:
    """The events of a run for its followers.

    Attributes:
        base: The number up to which all events are saved or discarded, as the run begins.
        recent: The events of the root's last two steps, without chunks: perhaps they are not saved yet.
        older: How many of them are of the step before the last.
        subscribers: Called with each event, in the thread or task that reads the run.
    """

    __slots__ = ("base", "older", "recent", "subscribers")

    def __init__(self) -> None:
        self.base = self.older = 0
        self.recent: list[AgentEvent] = []
        self.subscribers: list[Callable[[AgentEvent], None]] = []


class Subscription:
    """A queue of the events of a run, for a follower in any thread or event loop."""

    def __init__(self, feed: Feed, released: "Future[None]") -> None:
        """Subscribe.

        Args:
            feed: The feed of the run.
            released: Done when its thread is unlocked.
        """
        self._feed, self._queue = feed, queue.SimpleQueue[FeedItem]()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrived: asyncio.Event | None = None
        feed.subscribers.append(self._put)
        released.add_done_callback(self._end)

    def get(self) -> FeedItem:
        """Wait a short time for the next event, and return it; None at the end of the run."""
        try:
            return self._queue.get(timeout=SECONDS)
        except queue.Empty:
            return Nothing.YET

    async def aget(self) -> FeedItem:
        """Wait for the next event as `get` does, without blocking the event loop."""
        if self._arrived is None:
            self._loop, self._arrived = asyncio.get_running_loop(), asyncio.Event()
        self._arrived.clear()
        with suppress(queue.Empty):
            return self._queue.get_nowait()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._arrived.wait(), SECONDS)
        with suppress(queue.Empty):
            return self._queue.get_nowait()
        return Nothing.YET

    def close(self) -> None:
        """Unsubscribe."""
        if self._put in self._feed.subscribers:
            self._feed.subscribers.remove(self._put)

    def _put(self, item: FeedItem) -> None:
        self._queue.put(item)
        if self._loop is not None and self._arrived is not None:
            with suppress(RuntimeError):  # the loop is closed: no code waits in it
                self._loop.call_soon_threadsafe(self._arrived.set)

    def _end(self, _: "Future[None]") -> None:
        self._put(None)

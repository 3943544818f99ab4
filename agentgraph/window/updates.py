"""Streams updates of a thread to a page: its status, new and changed bars, texts.

A few times a second, a cheap check finds whether the thread has changed. Only then the missed part of
the thread is read. Texts come from the run itself if it is in this process. A slow client delays
nothing: it receives fewer updates, and missed texts in one piece.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from agentgraph.errors import AgentGraphError, UnknownThreadError
from agentgraph.events.json_forms import JsonObject
from agentgraph.reports.bars import gone
from agentgraph.reports.timeline import head_in
from agentgraph.safe_repr import reason
from agentgraph.window.calls import Window
from agentgraph.window.run_texts import MOST_TEXT, RunTexts
from agentgraph.window.shapes import place_id

log = logging.getLogger("agentgraph.window")

SECONDS = 0.3
"""Seconds between checks for changes."""
_TEXT_SECONDS = 0.05
"""Seconds in which texts are collected before they are sent."""
_FAILED_SECONDS = 2.0
"""Seconds between checks after the saver has failed."""
_QUIET_SECONDS = 15.0
"""Seconds without updates until a client is sent "quiet", the sign that it is connected."""
_AT_ONCE = 8
"""Maximum number of clients whose reads run at a time."""

T = TypeVar("T")
Update = tuple[str, JsonObject]
"""The kind of an update, and its data."""
_limiter = RunVar[CapacityLimiter]("agentgraph_updates")


async def thread_updates(window: Window, thread_id: str, since: str | None) -> AsyncIterator[Update]:
    """Yield the updates of a thread, until the client disconnects or the window is closed.

    Kinds: "thread", as `Window.thread` returns it; "timeline", as `Window.timeline` returns it; "text",
    a chunk of a streamed message: {address, place, id, text, is_whole}, where `is_whole` says that the
    text is all of the message so far; "quiet", {}: there were no updates for some seconds; "failed",
    {error, detail}: the thread cannot be read now, and the read is retried.

    Args:
        window: Reads the thread.
        thread_id: The thread, which need not exist yet.
        since: The `upto` of the client's timeline; None sends the latest steps first.
    """
    client = _Client(window, thread_id, since)
    try:
        while not window.is_closed:
            for each in await client.due():
                yield each
            await client.wait()
    finally:
        client.stop()


class _Client:
    def __init__(self, window: Window, thread_id: str, since: str | None) -> None:
        self._window, self._thread_id, self._since = window, thread_id, since
        self._text_buffer = _TextBuffer(asyncio.get_running_loop())
        self._seen: Hashable = None
        self._thread: JsonObject | None = None
        self._checked = self._sent = 0.0
        self._steps = dict[str, str]()  # of bars that were sent, by id
        self._fault: str | None = None

    async def due(self) -> list[Update]:
        """Return the updates that the client has not received."""
        updates: list[Update] = []
        now = time.monotonic()
        if now - self._checked >= self._period:
            self._checked = now
            try:
                updates += await self._changes()
                self._fault = None
            except AgentGraphError as error:
                updates += self._failed(error)
        updates += [("text", self._text_data(*each)) for each in self._text_buffer.take()]
        if not updates and now - self._sent >= _QUIET_SECONDS:
            updates = [("quiet", {})]
        if updates:
            self._sent = now
        return updates

    async def wait(self) -> None:
        """Wait for the next check, or for a text."""
        if await self._text_buffer.wait(self._checked + self._period - time.monotonic()):
            await asyncio.sleep(_TEXT_SECONDS)

    def stop(self) -> None:
        """Stop following the run."""
        self._text_buffer.stop()

    @property
    def _period(self) -> float:
        return _FAILED_SECONDS if self._fault else SECONDS

    async def _changes(self) -> list[Update]:
        seen = await _in_thread(self._check)
        if seen == self._seen:
            return []
        updates: list[Update] = []
        thread = await _in_thread(self._window.thread, self._thread_id)
        if thread != self._thread:
            updates.append(("thread", thread))
        if thread["status"] == "new":  # the thread was deleted, or does not exist yet
            self._since, self._steps = None, {}
        elif thread["changed"] is None and thread["updated"]:
            updates += await self._bars(seen)
        self._thread, self._seen = thread, seen
        return updates

    def _check(self) -> Hashable:
        seen = self._window.version(self._thread_id)
        self._text_buffer.follow(self._window.run_texts(self._thread_id))
        return seen, id(self._window.runner)

    async def _bars(self, seen: Hashable) -> list[Update]:
        try:
            timeline = await _in_thread(self._window.timeline_at, seen, self._thread_id, self._since)
        except UnknownThreadError:  # the thread has just been deleted
            return []
        if timeline["upto"] == self._since:
            return []
        now = {bar["id"]: bar["step"] for bar in timeline["bars"]}
        read_since = head_in(self._since or "") if timeline["continues"] else ""
        old = gone(self._steps.items(), now, read_since)
        known = {bar_id: step for bar_id, step in self._steps.items() if bar_id not in old}
        self._steps = {**now, **known}
        self._since = timeline["upto"]
        return [("timeline", {**timeline, "gone": [*old]})]

    def _failed(self, error: AgentGraphError) -> list[Update]:
        was, self._fault = self._fault, reason(error)
        if was == self._fault:
            return []
        log.warning("the thread %r cannot be read: %s", self._thread_id, self._fault)
        return [("failed", {"error": type(error).__name__, "detail": str(error)})]

    def _text_data(self, address: str, event_id: str, text: str, is_whole: bool) -> JsonObject:
        place = place_id(self._window.runner.engine.tree, address)
        return {"address": address, "place": place, "id": event_id, "text": text, "is_whole": is_whole}


class _TextBuffer:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._arrived = loop, asyncio.Event()
        self._guard = Lock()
        self._chunks: dict[tuple[str, str], tuple[str, bool]] = {}
        self._texts: RunTexts | None = None

    def follow(self, texts: RunTexts | None) -> None:
        """Follow the texts of a run instead of those of the one before."""
        if texts is not self._texts:
            self.stop()
            self._texts = texts
            if texts is not None:
                texts.listen(self._put)

    def stop(self) -> None:
        """Stop following the run."""
        if self._texts is not None:
            self._texts.leave(self._put)
            self._texts = None

    def take(self) -> list[tuple[str, str, str, bool]]:
        """Return the texts since the last call: (address, message id, text, whether it is whole)."""
        with self._guard:
            chunks, self._chunks = self._chunks, {}
            self._arrived.clear()
        return [(*key, *chunk) for key, chunk in chunks.items()]

    async def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for a text; return whether one has arrived."""
        try:
            await asyncio.wait_for(self._arrived.wait(), max(seconds, 0.0))
        except TimeoutError:
            return False
        return True

    def _size(self) -> int:
        return sum(len(text) for text, _ in self._chunks.values())

    def _put(self, address: str, message: str, text: str, is_whole: bool) -> None:
        key = address, message
        with self._guard:
            before, was_whole = ("", is_whole) if is_whole else self._chunks.get(key, ("", False))
            self._chunks[key] = (before + text)[-MOST_TEXT:], was_whole
            while len(self._chunks) > 1 and self._size() > MOST_TEXT:
                self._chunks.pop(next(iter(self._chunks)))
        with suppress(RuntimeError):  # the loop is closed, so no client waits
            self._loop.call_soon_threadsafe(self._arrived.set)


async def _in_thread(call: Callable[..., T], *arguments: object) -> T:
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(_AT_ONCE)
        _limiter.set(limiter)
    return await run_sync(call, *arguments, limiter=limiter)

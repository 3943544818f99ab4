"""Answers the page in a notebook cell: calls and thread updates, as messages of a widget.

A widget may be shown several times, each time as a *view*. Messages of a view, and the answers:

    {view, call: number, name, arguments}       {view, call: number, answer}
                                                {view, call: number, error, kind}
    {view, follow: number, thread, since}       {view, follow: number, kind, data}, repeatedly
    {view, unfollow: number}

A kernel receives messages between two cells, and a call may take long, so each call and each follower
has its own thread. In JupyterLab 4.4, the kernel also receives messages while a cell runs, by a
subshell. The subshell is missing for the first messages. So a view repeats calls without an answer, and
the backend makes a repeated call once. A view renews its followers regularly, because a closed browser
sends nothing: a follower that is not renewed ends.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

import anyio

from agentgraph.events.json_forms import JsonObject
from agentgraph.window.calls import Window
from agentgraph.window.failures import failure_of
from agentgraph.window.updates import thread_updates

log = logging.getLogger("agentgraph.window")

Key = tuple[str, int]
"""A view, and the number of a call or a follower of the view."""

LEASE = 45.0
"""Seconds until a follower ends that its view has not renewed."""
_GRACE = 1 / 9
"""Part of a lease that a busy kernel has to receive the waiting messages."""
AGAIN = 1.0
"""Seconds until a failed follower retries."""
_KEPT = 16
"""Number of answers that are stored for views that repeat a call."""
_FAILED = "This thread cannot be followed now. The kernel retries; its log has the error."


class CellBackend:
    """Answers the views of one widget.

    Attributes:
        followers: The running followers, by view and number.
    """

    def __init__(
        self,
        window: Window,
        send: Callable[[JsonObject], None],
        main: asyncio.AbstractEventLoop | None = None,
        lease: float = LEASE,
    ) -> None:
        """Make a backend without followers.

        Args:
            window: Answers the calls.
            send: Sends a message to all views; called in threads.
            main: The event loop on which the kernel receives messages, if known: no follower ends
                while it is busy.
            lease: Seconds until a follower ends that its view has not renewed.
        """
        self.window, self.send, self.main, self.lease = window, send, main, lease
        self.followers: dict[Key, Follower] = {}
        self._calls: set[Key] = set()
        self._answers: deque[tuple[Key, JsonObject]] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def receive(self, message: Mapping[str, Any]) -> None:
        """Handle a message of a view; threads send the answers."""
        match message:
            case {"view": str(view), "call": int(number), "name": str(name), "arguments": arguments}:
                self._call((view, number), name, arguments)
            case {"view": str(view), "follow": int(number), "thread": str(thread), "since": since}:
                self._follow((view, number), thread, since)
            case {"view": str(view), "unfollow": int(number)}:
                self.end((view, number))

    def end(self, key: Key) -> None:
        """End a follower if it is running."""
        if follower := self.followers.pop(key, None):
            follower.end()

    def close(self) -> None:
        """End all followers."""
        self.window.is_closed = True
        for key in list(self.followers):
            self.end(key)

    def _call(self, key: Key, name: str, arguments: object) -> None:
        with self._lock:
            is_new = key not in self._calls
            self._calls.add(key)
            answers = [answer for known, answer in self._answers if known == key]
        if is_new:
            _start_thread(self._answer, key, name, arguments)
        for answer in answers:  # the view did not receive it
            self.send(answer)

    def _answer(self, key: Key, name: str, arguments: object) -> None:
        answer = {"view": key[0], "call": key[1], **self._answer_to(name, arguments)}
        with self._lock:
            self._answers.append((key, answer))
        self.send(answer)

    def _answer_to(self, name: str, arguments: object) -> JsonObject:
        try:
            return {"answer": self.window.call(name, arguments)}
        except Exception as error:
            return failure_of(name, error, "kernel").data

    def _follow(self, key: Key, thread_id: str, since: str | None) -> None:
        with self._lock:
            if follower := self.followers.get(key):
                follower.asked = time.monotonic()
                return
            self.followers[key] = follower = Follower(self, key, thread_id, since)
        _start_thread(follower.run)


class Follower:
    """Sends the updates of a thread to a view, until the follower or the view ends.

    Attributes:
        asked: Time of the last renewal, in seconds of the monotonic clock.
    """

    def __init__(self, backend: CellBackend, key: Key, thread_id: str, since: str | None) -> None:
        self.backend, self.key, self.thread_id, self.since = backend, key, thread_id, since
        self.asked = time.monotonic()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._run())

    def run(self) -> None:
        """Send updates until the follower ends."""
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def end(self) -> None:
        """End the follower, from another thread."""
        with suppress(RuntimeError):  # the loop is closed: the follower has ended
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_sending)
            await self._gone()
            self.backend.followers.pop(self.key, None)
            tasks.cancel_scope.cancel()

    async def _keep_sending(self) -> None:
        while not self.backend.window.is_closed:
            try:
                await self._send_updates()
            except Exception:
                log.exception("the thread %r cannot be followed", self.thread_id)
                self._send("lost", {"text": _FAILED, "isForGood": False})
                await asyncio.sleep(AGAIN)

    async def _send_updates(self) -> None:
        async for kind, data in thread_updates(self.backend.window, self.thread_id, self.since):
            if kind == "timeline":
                self.since = data["upto"]
            self._send(kind, data)

    def _send(self, kind: str, data: object) -> None:
        view, number = self.key
        self.backend.send({"view": view, "follow": number, "kind": kind, "data": data})

    async def _gone(self) -> None:
        """Wait until the view has not renewed its follower, although the kernel was free to hear it."""
        while True:
            await asyncio.sleep(max(0.0, self.asked + self.backend.lease - time.monotonic()))
            if self._is_late() and self.backend.main:
                await _answered(self.backend.main)
                await asyncio.sleep(_GRACE * self.backend.lease)
            if self._is_late():
                return

    def _is_late(self) -> bool:
        return time.monotonic() - self.asked >= self.backend.lease


async def _answered(loop: asyncio.AbstractEventLoop) -> None:
    """Wait until another event loop does something: until its thread is free."""
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop))


def _start_thread(target: Callable[..., None], *args: object) -> None:
    work = partial(copy_context().run, target, *args)
    threading.Thread(target=work, name="agentgraph.view", daemon=True).start()

"""A running run, as the rest of the process reaches it: to stop it, and to send it messages."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial

from langchain_core.messages import BaseMessage

from agentgraph.errors import AgentGraphError
from agentgraph.graph.nodes.desk import Desk
from agentgraph.graph.nodes.mailbox import Mailbox
from agentgraph.graph.nodes.stopping import Stop
from agentgraph.graph.open_types import Saver
from agentgraph.graph.stamps import now
from agentgraph.graph.sync_async import Call, arun_calls, running_loop
from agentgraph.journal.locks import holder_of, holders_on
from agentgraph.journal.requests import (
    AlreadyReadError,
    Request,
    ids_on,
    is_waited_for,
    mark_read,
    newest_request,
    requests,
    unread,
)
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown
from agentgraph.threads.live.feed import Feed
from agentgraph.threads.live.run_answers import keep_requested, take_overdue, take_request


def active_run_on(saver: Saver, thread_id: str) -> "ActiveRun | None":
    """Return the run of this process on a thread of a saver; None if there is none."""
    holder = holder_of(saver, thread_id)
    return holder if isinstance(holder, ActiveRun) else None


def runs_by_thread(saver: Saver) -> "dict[str, ActiveRun]":
    """Return the runs of this process on the threads of a saver, by thread; the newest first."""
    runs = {key: each for key, each in holders_on(saver).items() if isinstance(each, ActiveRun)}
    return dict(sorted(runs.items(), key=lambda item: item[1].began, reverse=True))


def start_times(saver: Saver) -> dict[str, float]:
    """Return when the runs of this process on the threads of a saver began, by thread."""
    return {thread_id: run.began for thread_id, run in runs_by_thread(saver).items()}


def check_loop(saver: Saver, thread_id: str) -> None:
    """Refuse a sync run that would wait for an async one which needs the event loop of this thread.

    A saver on an event loop holds its file between two awaits; others wait for it, and block the loop.

    Raises:
        AgentGraphError: An async run on this event loop uses the same file, by a saver on the loop.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    for other, run in runs_by_thread(saver).items():
        if run.thread is not None and getattr(run.thread.saver, "loop", None) is loop:
            raise AgentGraphError(
                f"thread {shown(thread_id)}: a sync run on the event loop would block the async run on "
                f"thread {shown(other)}, for which it waits: both use one file; await arun() or "
                "ainvoke(), or call it in a thread: await asyncio.to_thread(runner.invoke, ...)"
            )


def check_answer(saver: Saver, thread_id: str) -> None:
    """Refuse a sync answer that would block the event loop of the run that is to take it.

    Raises:
        AgentGraphError: The run on the thread is on the event loop of this code.
    """
    run = active_run_on(saver, thread_id)
    if run is not None and run.loop is not None and run.loop is running_loop():
        raise AgentGraphError(
            f"thread {shown(thread_id)}: its run needs this event loop, which answer() would block; "
            "await aanswer()"
        )


_SAVE_SECONDS = 5.0
"""Maximum seconds to wait at the end of a run for an answer that is being saved."""


class ActiveRun:
    """A run, from the time at which its thread is locked.

    Attributes:
        control: Stops it.
        mailbox: The messages that are sent to it.
        desk: Takes the answers to its questions.
        waiting: Messages that were sent before it began, and that belong into its input.
        began: When, in seconds since 1970.
        thread: The thread; None until what was requested before has been read.
        feed: The events that it sends to followers.
        released: Done when its thread is unlocked.
        loop: The event loop on which it runs; None for one that runs in threads.
        stop_reason: Why it was asked to stop: it ends before the next step of each lane. None if it
            was not.
    """

    def __init__(self, on_deadline: Callable[[], None] = lambda: None) -> None:
        """Make one.

        Args:
            on_deadline: Called when a question has a deadline: `poll` is to be called from then on.
        """
        self.control, self.mailbox, self.desk = Stop(), Mailbox(), Desk(on_deadline)
        self.control.mailbox, self.control.desk = self.mailbox, self.desk
        self.waiting: Sequence[BaseMessage] = ()
        self.feed, self.released = Feed(), Future[None]()
        self.feed.base = now()
        self.stop_reason: str | None = None
        self.began = time.time()
        self.thread: ThreadSaver | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self._requests: dict[str, Request] = {}
        self._polling: asyncio.Task[None] | None = None
        self._is_over = False

    @property
    def is_stopped(self) -> bool:
        """Whether it was asked to stop."""
        return self.stop_reason is not None

    def stop(self, reason: str) -> None:
        """Have it end before the next step of each lane, from any thread."""
        self.stop_reason = reason
        self.control.request_drain(reason)

    async def read_requests(
        self, thread: ThreadSaver, *, begins_turn: bool, own: str | None = None
    ) -> None:
        """Read what was requested before it began: messages wait for it, a stop was for another run.

        Args:
            thread: The thread, which is locked.
            begins_turn: Whether it begins a turn: then messages become part of its input, except those
                whose callers wait for separate turns.
            own: The id of the request whose turn it is, if it is one's.

        Raises:
            AlreadyReadError: A turn before has read that request.
        """
        self.feed.base = now()
        listed = await requests(thread)
        if any(each.kind == "answer" for each in listed):
            await keep_requested(thread)
            listed = await requests(thread)
        every = [each for each in listed if self._requests.setdefault(each.id, each) is each]
        self.thread = thread  # from now on others look
        if not every and own is None:  # what was sent since it is locked may have been taken already
            return
        ids = await ids_on(thread)
        new = unread(every, ids)
        if own is not None and not _is_open(own, listed, ids):
            raise AlreadyReadError(f"a turn before has read the request {own}", thread.thread_id)
        if begins_turn:
            for each in new:
                if each.id == own or not await is_waited_for(thread, each):
                    self.waiting = [*self.waiting, *each.messages]
        sent = () if begins_turn else (each for each in new if each.kind == "steer")
        self.mailbox.add(message for each in sent for message in each.messages)
        for each in every:
            if each.kind == "stop" and each.time >= self.began:
                self.stop(each.reason)

    async def poll(self) -> None:
        """Take what other processes have requested since the last look, and look at the clock."""
        if self.thread is None:
            return
        clock = time.time()  # an answer that was saved up to then is read below
        newest = await newest_request(self.thread)
        if newest is not None and newest not in self._requests:
            every = await requests(self.thread)
            self.take(every)
            for each in every:
                if each.kind == "answer" and await take_request(self.desk, self.thread, each):
                    self._requests[each.id] = each
        if self.desk.overdue(clock):
            await take_overdue(self.desk, self.thread, clock)

    def start_polling(self) -> None:
        """Look in a task of the event loop, unless a look is active there or the run has ended."""
        if not self._is_over and (self._polling is None or self._polling.done()):
            self._polling = asyncio.get_running_loop().create_task(self._apoll())

    async def _apoll(self) -> None:
        with suppress(Exception):  # a saver that fails will fail in the run, too
            await arun_calls(self.poll())

    async def end_polling(self) -> None:
        """Look no more, and wait until an active look has ended: no task outlives the run."""
        self._is_over = True
        if self._polling is not None and self._polling.get_loop() is asyncio.get_running_loop():
            self._polling.cancel()
            await asyncio.wait({self._polling})

    def take(self, every: Iterable[Request]) -> None:
        """Take requests that were made since it began; those that it has change nothing."""
        for each in every:
            if each.kind == "answer" or self._requests.setdefault(each.id, each) is not each:
                continue
            if each.kind == "stop":
                self.stop(each.reason)
            elif each.kind == "steer":
                self.mailbox.add(each.messages)

    async def end_answers(self) -> None:
        """Take no more answers, and wait until those that were taken are saved."""
        ended = self.desk.close()
        if not ended.done():
            await Call(partial(wait, [ended], _SAVE_SECONDS), partial(_awaited, ended))
        if self.thread is not None and self.desk.unanswered():
            newest = await newest_request(self.thread)
            if newest is not None and newest not in self._requests:
                await keep_requested(self.thread)

    async def mark_requests(self, thread: ThreadSaver) -> None:
        """Mark the requests that were read, at its end: stops, and messages that are in the history."""
        if not self._requests:
            return
        new = {each.id for each in unread(self._requests.values(), await ids_on(thread))}
        await mark_read(thread, (each for each in self._requests.values() if each.id not in new))


async def _awaited(ended: Future[None]) -> None:
    await asyncio.wait({asyncio.wrap_future(ended)}, timeout=_SAVE_SECONDS)


def _is_open(own: str, listed: Sequence[Request], ids: set[str | None]) -> bool:
    """Return whether a request is unread; one without messages is read when it is marked."""
    mine = [each for each in listed if each.id == own]
    return any(not each.messages or unread([each], ids) for each in mine)

"""Follows a thread: yields missed events, then new ones, until nothing runs on it any more.

A follower names by a cursor the last event that it has. Missed events are read from the saver, so a
follower may come back at any time, to any process that has the saver. Events of a run of this process
reach followers as its own consumer gets them, chunks included. Of a run of another process they get the
saved ones: the saver is read again and again, up to the end of the root's last step, because in an
active step lanes may have emitted events that they have not saved.

Each event comes once, and cursors grow, so that a follower who is cut off continues after the last one.
A discarded event that is replayed comes again, after the `discarded` event that names it, with a new
cursor.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, cast

from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent
from agentgraph.graph.lane_position import clock_in
from agentgraph.graph.outside import await_outside, call_outside
from agentgraph.graph.signal_handlers import is_of_a_handler
from agentgraph.graph.stamps import cursor_of, number_in
from agentgraph.graph.sync_async import Call, arun_calls, awaiting, run_calls
from agentgraph.journal.forked import OfProcess
from agentgraph.journal.lines import begun_thread
from agentgraph.journal.pruning import check_cursor
from agentgraph.journal.replay import events_since
from agentgraph.journal.requests import has_waiting_turn
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown
from agentgraph.threads.live.active_run import ActiveRun, active_run_on
from agentgraph.threads.live.feed import SECONDS, Feed, FeedItem, Nothing, Subscription

Following = Generator[Call | AgentEvent | Nothing, Any, None]
"""Yields events and calls, and `Nothing` where a wait had no effect: then it may be closed."""


async def check_follow(saver: ThreadSaver, after: str | None) -> None:
    """Reject an unknown thread, or a text that is not a cursor.

    Raises:
        UnknownThreadError: The saver has no such thread, and nothing runs on it.
        ThreadError: The events after it were pruned.
        AgentGraphError: `after` is not a cursor.
    """
    if active_run_on(saver.saver, saver.thread_id) is None:
        await begun_thread(saver)
    try:
        number_in("0" if after is None else after)
    except (AttributeError, ValueError) as error:
        if is_of_a_handler(error):
            raise
        raise AgentGraphError(
            f"after={shown(after)} is not a cursor; pass the `cursor` of an event of this thread, or "
            "None for all events"
        ) from None
    if after is not None:
        await check_cursor(saver, after)


def followed(saver: ThreadSaver, after: str | None) -> Following:
    """Yield the events of a thread after a cursor, and calls, until nothing runs or waits there."""
    read_upto = 0
    while True:
        if (run := active_run_on(saver.saver, saver.thread_id)) is not None:
            after = yield from _live_events(saver, run, after)
        elif (yield from awaiting(saver.is_running())):
            upto = yield from awaiting(_committed(saver))
            is_new, read_upto = upto != read_upto, upto  # the thread is read only for a new step
            for event in (yield from awaiting(events_since(saver, after, upto))) if is_new else ():
                after = event.cursor
                yield event
            yield from waiting(SECONDS)
        elif (rest := (yield from awaiting(_at_rest(saver, after)))) is not None:
            for event in rest:
                after = event.cursor
                yield event
            if not (yield from awaiting(has_waiting_turn(saver))):
                return
            yield from waiting(SECONDS)


async def _at_rest(saver: ThreadSaver, after: str | None) -> list[AgentEvent] | None:
    """Return the missed events of a thread at rest; None if a run begins meanwhile.

    The saved events of an active step are not all that it has emitted.
    """
    if (head := await saver.checkpoint()) is None:
        return []  # its run has never begun
    rest = await events_since(saver, after, None)
    now = await saver.checkpoint()
    is_same = now is not None and now.id == head.id
    return rest if is_same and not await saver.is_running() else None


def waiting(seconds: float) -> Following:
    """Wait before the saver is read again for what others do."""
    yield Call(time.sleep, asyncio.sleep, (seconds,))
    yield Nothing.YET


def _live_events(
    saver: ThreadSaver, run: ActiveRun, after: str | None
) -> Generator[Call | AgentEvent | Nothing, Any, str | None]:
    """Yield the events of a run of this process, up to its end; return the cursor of the last event."""
    subscription = Subscription(run.feed, run.released)
    try:
        for event in (yield from awaiting(_so_far(saver, run.feed, after))):
            after = event.cursor
            yield event
        discarded: set[str] = set()
        base = ""
        while (item := (yield Call(subscription.get, subscription.aget))) is not None:
            if isinstance(item, Nothing):
                yield item
                continue
            event = item
            cursor = event.cursor or ""
            if cursor <= (after or ""):
                if event.partial or not base or discarded.isdisjoint((event.id, event.step)):
                    continue  # the reader has it
                event = replace(event, cursor=cursor_of(number_in(base), number_in(cursor)))
            elif event.action is not None and event.action.discarded:
                discarded, base = {*event.action.discarded}, cursor
            after = event.cursor
            yield event
    finally:
        subscription.close()
    return after


async def _so_far(saver: ThreadSaver, feed: Feed, after: str | None) -> list[AgentEvent]:
    """Return the missed events before it subscribes: saved, or not yet."""
    recent = list(feed.recent)
    upto = await _last_number(saver, feed, recent)
    has_begun = await saver.checkpoint() is not None
    saved = await events_since(saver, after, upto) if has_begun else []
    by_cursor = {event.cursor or "": event for event in recent if (event.cursor or "") > (after or "")}
    by_cursor |= {event.cursor or "": event for event in saved}
    return [by_cursor[cursor] for cursor in sorted(by_cursor)]


async def last_number(saver: ThreadSaver) -> int:
    """Return the number of the last event that was emitted on a thread."""
    run = active_run_on(saver.saver, saver.thread_id)
    feed = run.feed if run else Feed()
    return await _last_number(saver, feed, list(feed.recent))


async def _last_number(saver: ThreadSaver, feed: Feed, recent: Sequence[AgentEvent]) -> int:
    numbers = [number_in(event.cursor or "0") for event in recent]
    return max([await _committed(saver), feed.base, *numbers])


async def _committed(saver: ThreadSaver) -> int:
    """Return the number of the last event of the root's last step that is saved whole."""
    saved = await saver.checkpoint()
    position = saved.position if saved else None
    return clock_in(position)[1] if position else 0


class Follow(Iterator[AgentEvent]):
    """An iterator of what happens on a thread; as a context manager it closes itself.

    Closing it leaves the run alone. Any thread may close it, also while another one waits for an event:
    that one finds it at its end.

    Attributes:
        thread_id: The thread.
    """

    def __init__(self, thread_id: str, following: Following) -> None:
        self.thread_id, self._following = thread_id, following
        self._turn, self._is_closed = threading.Lock(), False
        self._owner = OfProcess()

    def __next__(self) -> AgentEvent:
        """Return the next event.

        Raises:
            SaverError: The saver cannot be read.
            AgentGraphError: It is one of the process from which this one was forked.
        """
        self._owner.check(self.thread_id)
        with self._turn:
            while not self._is_closed:
                event: FeedItem = call_outside(cast(Any, run_calls), self._following)
                if event is None:
                    break
                if not isinstance(event, Nothing):
                    return event
            self._following.close()
        raise StopIteration

    def close(self) -> None:
        """Follow no longer."""
        self._is_closed = True
        if not self._owner.is_foreign and self._turn.acquire(blocking=False):
            try:
                self._following.close()
            finally:
                self._turn.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncFollow(AsyncIterator[AgentEvent]):
    """An async iterator of what happens on a thread, as `Follow` is."""

    def __init__(self, following: Following) -> None:
        self._following, self._is_read, self._is_closed = following, False, False

    async def __anext__(self) -> AgentEvent:
        """Return the next event."""
        if self._is_read:
            raise AgentGraphError(
                "an event of this follower is being asked for already; ask for one at a time"
            )
        self._is_read = True
        try:
            while not self._is_closed:
                event: FeedItem = await await_outside(partial(cast(Any, arun_calls), self._following))
                if event is None:
                    break
                if not isinstance(event, Nothing):
                    return event
            self._following.close()
        except BaseException:
            self._following.close()
            raise
        finally:
            self._is_read = False
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Follow no longer; who waits for an event finds it at its end."""
        self._is_closed = True
        if not self._is_read:
            self._following.close()

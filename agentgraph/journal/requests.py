"""Requests to a run: that it stops, reads a message or takes answers; saved with its thread.

Each request is a separate checkpoint, in a namespace of the thread that no graph has. So a caller that
makes one reads nothing first, requests of several processes never overwrite each other, and any saver
serves. No reader of a thread sees them, nor do they go into copies.

Whether the messages of a request were read is known from the history: they have their ids there. When a
run has ended, the requests that it has read are marked, so that later runs need not look.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base.id import uuid6

from agentgraph.errors import ThreadError
from agentgraph.graph.sync_async import Call
from agentgraph.journal.entries import entries_of
from agentgraph.journal.lines import leading_checkpoints
from agentgraph.journal.locks import ThreadLock, ais_locked, is_locked
from agentgraph.journal.saved import REQUESTS, Saved
from agentgraph.journal.schema import RequestData, RequestKind
from agentgraph.journal.thread_saver import ThreadSaver

_SOURCE = "update"
"""The source of their checkpoints: in their namespace are the records of named turns, too."""
_READ = "read"
"""The channel of the write that marks a request."""
_MARKER = "00000000-0000-0000-0000-000000000000"
"""The task id of that write: a request is marked once."""

_CALLER = "agentgraph-request-"
"""The beginning of the name under which the caller of a queued request holds a lock."""


class Request(NamedTuple):
    """A request for a run on a thread.

    Attributes:
        id: Its id; ids grow with time.
        kind: "stop"; "steer", whose messages are for the active run; "queue", whose messages are for
            the next turn; or "answer".
        reason: Why the run is to stop.
        messages: The messages, with their ids.
        answers: The answers to questions, by the ids of these.
        time: When it was made, in seconds since 1970.
        is_read: Whether it is marked as read.
        saved: Its checkpoint.
    """

    id: str
    kind: RequestKind
    reason: str
    messages: Sequence[BaseMessage]
    answers: Mapping[str, object]
    time: float
    is_read: bool
    saved: Saved


class AlreadyReadError(ThreadError):
    """The messages of a request were read by a turn before the one that they were to begin."""


def new_id() -> str:
    """Return an id for a request."""
    return str(uuid6())


async def put_request(
    saver: ThreadSaver,
    kind: RequestKind,
    *,
    reason: str = "",
    messages: Sequence[BaseMessage] = (),
    answers: Mapping[str, object] | None = None,
    request_id: str = "",
) -> Request:
    """Save a request, and return it."""
    data = RequestData(kind=kind, reason=reason, messages=[*messages])
    if answers is not None:
        data["answers"] = {**answers}
    return _request(await saver.put_record(_SOURCE, request_id or new_id(), {**data}))


async def newest_request(saver: ThreadSaver) -> str | None:
    """Return the id of the last request for a thread; None if there was none."""
    saved = await saver.checkpoint(REQUESTS)
    return saved.id if saved and saved.metadata.get("source") == _SOURCE else None


async def requests(saver: ThreadSaver) -> list[Request]:
    """Return the requests for a thread that are not marked as read, in the order of their times."""
    every = await saver.records(_SOURCE)
    return sorted((each for each in map(_request, every) if not each.is_read), key=lambda r: r.id)


async def mark_read(saver: ThreadSaver, read: Iterable[Request]) -> None:
    """Mark requests as read, so that later runs need not look at them."""
    for request in read:
        await saver.put_write(request.saved.config, _MARKER, _READ, True)


def lock_of(saver: ThreadSaver, request_id: str) -> ThreadLock:
    """Return the lock that the caller of a queued request holds while it waits for its turn.

    It is locked before the request is saved, or others would take the request for one of a dead caller.
    """
    return ThreadLock(saver.saver, f"{_CALLER}{request_id}")


async def is_waited_for(saver: ThreadSaver, request: Request) -> bool:
    """Return whether the caller of a queued request still waits for its turn."""
    if request.kind != "queue":
        return False
    held: bool = await Call(is_locked, ais_locked, (saver.saver, f"{_CALLER}{request.id}"))
    return held


async def has_waiting_turn(saver: ThreadSaver, before: str | None = None) -> bool:
    """Return whether a request waits for a turn on a thread, or did before another request."""
    for each in await requests(saver):
        is_before = before is None or each.id < before
        if is_before and await is_waited_for(saver, each):
            return True
    return False


def unread(every: Iterable[Request], ids: Collection[str | None]) -> list[Request]:
    """Return the requests with messages whose ids are not among some."""
    return [each for each in every if any(message.id not in ids for message in each.messages)]


def _request(saved: Saved) -> Request:
    values = cast(RequestData, saved.checkpoint["channel_values"])
    return Request(
        saved.id,
        values["kind"],
        values["reason"],
        values["messages"],
        values.get("answers", {}),
        saved.time,
        any(channel == _READ for _, channel, _ in saved.pending_writes or ()),
        saved,
    )


async def waiting_on(thread: ThreadSaver) -> list[BaseMessage]:
    """Return the messages that were sent to a thread, and that nothing has read."""
    every = await requests(thread)
    new = unread(every, await ids_on(thread)) if every else []
    return [message for each in new for message in each.messages]


async def ids_on(thread: ThreadSaver) -> set[str | None]:
    """Return the ids of the messages on a thread: of the history, and of what all lanes said."""
    saved = await thread.checkpoint()
    if saved is None:
        return set()
    entries = entries_of(thread.tree, await leading_checkpoints(thread))
    history = (await thread.state()).values.get("messages", ())
    begun = saved.turn_input or {"messages": ()}
    return {each.id for each in (*entries, *history, *begun["messages"])}

"""The threads of a saver: their status, which there are, and how they are deleted."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, get_args

from agentgraph.errors import AgentGraphError, SaverError, ThreadError, UnknownThreadError
from agentgraph.graph.internals import INTERRUPT
from agentgraph.journal.changed_trees import opened
from agentgraph.journal.lines import known_thread
from agentgraph.journal.pending import pending_at
from agentgraph.journal.saved import began_at
from agentgraph.journal.savers.thread_index import Begun, Scalar, ThreadQuery, checked_metadata
from agentgraph.journal.soundness import checked_read, is_unreadable
from agentgraph.journal.states import ListedStatus, Status
from agentgraph.journal.thread_config import checked_id
from agentgraph.journal.thread_pages import ThreadPages
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.thread_status import status_at
from agentgraph.safe_repr import reason, shown

_PAGE = 500
"""Number of threads that are asked for at a time."""
_UNINDEXED = (None, "new", "unreadable")
"""What the index cannot tell: threads with these may be any in it."""


@dataclass(frozen=True)
class ThreadSummary:
    """A thread in a list of threads.

    Attributes:
        thread_id: The id.
        status: As in `Thread`; or "unreadable", if what is stored is damaged, of another version of
            agentgraph, or of types that may not be read.
        updated: When its saver last stored a step of it, in seconds since 1970; 0 if it is unreadable.
        error: Why it is unreadable, and what to do; None for others.
        began: When its first step was saved, in seconds since 1970; 0 if that is not known. A copy
            began when its original did.
    """

    thread_id: str
    status: ListedStatus
    updated: float
    error: str | None = None
    began: float = 0.0


class Listing(NamedTuple):
    """What a list of threads has.

    Attributes:
        status: Only threads with this status; None for any.
        limit: The greatest number of threads; None for all.
        before: Only threads after this one in the list, which began before it; None for the newest.
        metadata: Each pair was given to any run of the thread; None for any.
    """

    status: ListedStatus | None = None
    limit: int | None = None
    before: str | None = None
    metadata: Mapping[str, Scalar] | None = None

    def check(self) -> None:
        """Refuse arguments that make no sense.

        Raises:
            AgentGraphError: There is no such status, or another argument is of a wrong type.
        """
        if self.status not in (None, *get_args(ListedStatus)):
            known = ", ".join(map(repr, get_args(ListedStatus)))
            raise AgentGraphError(
                f"status={shown(self.status)} is not a status of threads; use one of {known}"
            )
        if self.limit is not None and (type(self.limit) is not int or self.limit < 1):
            raise AgentGraphError(
                f"limit={shown(self.limit)} is not a number of threads; pass an integer of at least 1"
            )
        if self.before is not None:
            checked_id(self.before)


async def threads(
    saver: ThreadSaver, listing: Listing, running: Mapping[str, float]
) -> list[ThreadSummary]:
    """Return threads, newest first by when they began.

    Args:
        saver: Any thread of the saver.
        listing: Which threads.
        running: When the runs of this process began, in seconds since 1970, by thread; newest first.

    Raises:
        UnknownThreadError: There is no thread `before`.
        AgentGraphError: Another argument makes no sense.
    """
    listing.check()
    metadata, status = checked_metadata(listing.metadata), listing.status
    pages = ThreadPages(saver, query_of(status, metadata, [*running]))
    unsaved, last = await _beginning(pages, listing.before, [*running])
    fit = not metadata and status in (None, "running")
    began = ((each, running[each]) for each in unsaved if fit)
    most = sys.maxsize if listing.limit is None else listing.limit
    found = [ThreadSummary(each, "running", at, began=at) for each, at in islice(began, most)]
    while (lacks := min(most - len(found), _PAGE)) > 0:
        page = await pages.after(last, lacks)
        for thread_id, first in page:
            if thread_id in unsaved:  # it has been saved since
                continue
            each = await _listed(saver.of(thread_id), began_at(first))
            if each is not None and status in (None, each.status):
                found.append(each)
        if len(page) < lacks:
            break
        last = page[-1]
    return found


async def _beginning(
    pages: ThreadPages, before: str | None, running: Sequence[str]
) -> tuple[Sequence[str], Begun | None]:
    """Return where a page begins: running threads without a checkpoint, and the stored one before it.

    Raises:
        UnknownThreadError: There is no thread `before`.
    """
    stored = await pages.known([*running, *([] if before is None else [before])])
    unsaved = [each for each in running if each not in stored]
    if before is None:
        return unsaved, None
    if before in stored:
        return (), stored[before]
    if before not in unsaved:
        raise unknown_before(before)
    return unsaved[unsaved.index(before) + 1 :], None


def query_of(
    status: ListedStatus | None, metadata: Mapping[str, Scalar], running: Sequence[str]
) -> ThreadQuery:
    """Return the query for the threads that may be in a list: what an index can tell leaves out others.

    Args:
        status: The status of the threads; None for any.
        metadata: What any run of them was given.
        running: The threads of the runs of this process.
    """
    return ThreadQuery(None if status in _UNINDEXED else status, metadata, running)


def unknown_before(before: str) -> UnknownThreadError:
    """Return the error for a page before a thread that there is not."""
    return UnknownThreadError(
        f"before={shown(before)} is not a thread of this saver; pass the thread_id of the last "
        "thread of the page before",
        before,
    )


async def status_of(saver: ThreadSaver) -> Status:
    """Return the status of a thread, whichever tree ran it."""
    if await saver.checkpoint() is None:
        return "running" if await saver.is_running() else "new"
    standing = await _standing(saver)
    return standing[0] if standing else "new"


async def _listed(saver: ThreadSaver, began: float) -> ThreadSummary | None:
    """Return a thread in a list, also one that cannot be read: its error is not that of the list."""
    try:
        standing = await checked_read(_standing, saver)
    except SaverError as error:
        if not is_unreadable(error):
            raise
        return ThreadSummary(saver.thread_id, "unreadable", 0.0, reason(error), began)
    return ThreadSummary(saver.thread_id, *standing, began=began) if standing else None


async def _standing(saver: ThreadSaver) -> tuple[Status, float] | None:
    """Return the status of a thread, whichever tree ran it, and when its latest step was saved.

    None if no tree ran it, or it is gone.
    """
    is_running = await saver.is_running()
    saved = await saver.checkpoint()
    if saved is None or saved.position is None:
        return None
    try:
        await opened(saver, saved)
        asks = bool(await pending_at(saver, saved))
    except ThreadError:  # another tree ran it, or it is a copy that was cut short
        asks = any(INTERRUPT in writes for writes in saved.writes.values())
    return status_at(saved, asks=asks, is_running=is_running), saved.time


async def delete(saver: ThreadSaver) -> None:
    """Delete a thread, also one that cannot be read.

    Raises:
        UnknownThreadError: The saver has no such thread.
    """
    with suppress(SaverError):
        await known_thread(saver)
    await saver.delete()

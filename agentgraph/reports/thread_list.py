"""Lists and deletes the threads of a saver, and returns their status."""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, get_args

from agentgraph.errors import AgentGraphError, SaverError, ThreadError, UnknownThreadError
from agentgraph.journal.changed_trees import opened, ran_by
from agentgraph.journal.kept_answers import seems_to_ask
from agentgraph.journal.lines import known_thread
from agentgraph.journal.pending import pending_at
from agentgraph.journal.saved import Saved, began_at
from agentgraph.journal.savers.thread_index import Begun, Scalar, ThreadQuery, checked_metadata
from agentgraph.journal.soundness import checked_read, is_unreadable
from agentgraph.journal.states import ListedStatus, Status
from agentgraph.journal.thread_config import checked_id
from agentgraph.journal.thread_pages import ThreadPages
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.thread_status import earliest_deadline, status_at, stop_reason_at
from agentgraph.safe_repr import reason, shown

_PAGE = 500
"""Number of threads in a query."""
_UNINDEXED = (None, "new", "unreadable")
"""Statuses that the index does not have: any thread in it may have them."""


@dataclass(frozen=True)
class ThreadSummary:
    """A thread in a list of threads.

    Attributes:
        thread_id: The id.
        status: As in `Thread`; or "unreadable", if the stored data are damaged, of another version of
            agentgraph, or of types that are not trusted.
        updated: Time of the last saved step, in seconds since 1970; 0 if the thread is unreadable.
        error: The reason that the thread is unreadable, and a fix; None for other threads.
        began: Time of the first saved step, in seconds since 1970; 0 if unknown. A copy has the start
            time of its original.
        stop_reason: The reason that was passed to `Runner.stop`, if a person stopped it; None for other
            threads, also for one whose process died.
        deadline: The earliest deadline of its open questions, in seconds since 1970; None without one.
        tree: The name of the root agent of the tree that ran it last; None if that is not known.
    """

    thread_id: str
    status: ListedStatus
    updated: float
    error: str | None = None
    began: float = 0.0
    stop_reason: str | None = None
    deadline: float | None = None
    tree: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether that deadline has passed and no run is active: `advance` continues the thread."""
        has_passed = self.deadline is not None and self.deadline <= time.time()
        return has_passed and self.status != "running"


class Listing(NamedTuple):
    """The filters of a list of threads.

    Attributes:
        status: The status of the threads; None for any.
        limit: Maximum number of threads; None for all.
        before: Only threads that follow this one in the list, so are older; None for the newest.
        metadata: Pairs that were passed to any run of the thread; None for any.
        due: Whether the deadline of a question has passed; None for any.
    """

    status: ListedStatus | None = None
    limit: int | None = None
    before: str | None = None
    metadata: Mapping[str, Scalar] | None = None
    due: bool | None = None

    def check(self) -> None:
        """Check the filters.

        Raises:
            AgentGraphError: The status is unknown, or another argument has a wrong type.
        """
        if self.status not in (None, *get_args(ListedStatus)):
            known = ", ".join(map(repr, get_args(ListedStatus)))
            raise AgentGraphError(
                f"status={shown(self.status)} is not a status of threads; choose one of: {known}"
            )
        if self.limit is not None and (type(self.limit) is not int or self.limit < 1):
            raise AgentGraphError(
                f"limit={shown(self.limit)} is not a number of threads; pass an integer of at least 1"
            )
        if self.before is not None:
            checked_id(self.before)
        if self.due not in (None, True, False):
            raise AgentGraphError(
                f"due={shown(self.due)} is not a choice; pass True for overdue threads, or False"
            )

    def fits(self, thread: ThreadSummary) -> bool:
        """Return whether a thread has the status, and is due, as wanted."""
        return self.status in (None, thread.status) and self.due in (None, thread.is_due)


async def threads(
    saver: ThreadSaver, listing: Listing, running: Mapping[str, float]
) -> list[ThreadSummary]:
    """Return threads, newest first by start time.

    Args:
        saver: Any thread of the saver.
        listing: The filters.
        running: Start times of this process's runs, in seconds since 1970, by thread; newest first.

    Raises:
        UnknownThreadError: The thread `before` does not exist.
        AgentGraphError: Another filter is wrong.
    """
    listing.check()
    metadata, status = checked_metadata(listing.metadata), listing.status
    query = query_of(status, metadata, [*running], due=listing.due is True)
    pages = ThreadPages(saver, query)
    unsaved, last = await _beginning(pages, listing.before, [*running])
    fit = not metadata and status in (None, "running") and not listing.due
    began = ((each, running[each]) for each in unsaved if fit)
    most = sys.maxsize if listing.limit is None else listing.limit
    found = [ThreadSummary(each, "running", at, began=at) for each, at in islice(began, most)]
    while (lacks := min(most - len(found), _PAGE)) > 0:
        page = await pages.after(last, lacks)
        for thread_id, first in page:
            if thread_id in unsaved:  # it is in the list already, and has been saved since
                continue
            each = await _listed(saver.of(thread_id), began_at(first))
            if each is not None and listing.fits(each):
                found.append(each)
        if len(page) < lacks:
            break
        last = page[-1]
    return found


async def _beginning(
    pages: ThreadPages, before: str | None, running: Sequence[str]
) -> tuple[Sequence[str], Begun | None]:
    """Return the start of a page: running threads without a checkpoint, and the stored one before.

    Raises:
        UnknownThreadError: The thread `before` does not exist.
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
    status: ListedStatus | None,
    metadata: Mapping[str, Scalar],
    running: Sequence[str],
    *,
    due: bool = False,
) -> ThreadQuery:
    """Return the query for the threads that may be in a list; an index leaves out the others.

    Args:
        status: The status of the threads; None for any.
        metadata: Pairs that were passed to any run of the threads.
        running: The threads of the runs of this process.
        due: Whether a deadline of each has passed.
    """
    indexed = None if status in _UNINDEXED else status
    return ThreadQuery(indexed, metadata, running, time.time() if due else None)


def unknown_before(before: str) -> UnknownThreadError:
    """Return the error for a page before an unknown thread."""
    return UnknownThreadError(
        f"before={shown(before)} is not a thread of this saver; pass the thread_id of the last "
        "thread of the previous page",
        before,
    )


async def status_of(saver: ThreadSaver) -> Status:
    """Return the status of a thread, also of one that another tree ran."""
    if await saver.checkpoint() is None:
        return "running" if await saver.is_running() else "new"
    stored = await _stored_status(saver)
    return stored.status if stored else "new"


async def _listed(saver: ThreadSaver, began: float) -> ThreadSummary | None:
    """Return a thread of a list; the error of an unreadable thread does not fail the list."""
    try:
        return await checked_read(partial(_summary, began=began), saver)
    except SaverError as error:
        if not is_unreadable(error):
            raise
        return ThreadSummary(saver.thread_id, "unreadable", 0.0, reason(error), began)


async def _summary(saver: ThreadSaver, *, began: float) -> ThreadSummary | None:
    stored = await _stored_status(saver)
    if stored is None:
        return None
    status, saved = stored.status, stored.saved
    by = await ran_by(saver, saved)
    return ThreadSummary(
        saver.thread_id,
        status,
        saved.time,
        began=began,
        stop_reason=stop_reason_at(saved) if status == "stopped" else None,
        deadline=stored.deadline,
        tree=by.root if by else None,
    )


class _Stored(NamedTuple):
    status: Status
    saved: Saved
    deadline: float | None


async def _stored_status(saver: ThreadSaver) -> _Stored | None:
    """Return the status of a thread at its latest checkpoint; None without steps."""
    is_running = await saver.is_running()
    saved = await saver.checkpoint()
    if saved is None or saved.position is None:
        return None
    try:
        await opened(saver, saved)
        questions = await pending_at(saver, saved)
        asks, deadline = (
            bool(questions),
            min((q.deadline for q in questions if q.deadline), default=None),
        )
    except ThreadError:  # another tree ran the thread, or it is an incomplete copy
        asks = seems_to_ask(saved)
        deadline = earliest_deadline(saved)
    return _Stored(status_at(saved, asks=asks, is_running=is_running), saved, deadline)


async def delete(saver: ThreadSaver) -> None:
    """Delete a thread, also one that cannot be read.

    Raises:
        UnknownThreadError: The saver has no such thread.
    """
    with suppress(SaverError):
        await known_thread(saver)
    await saver.delete()

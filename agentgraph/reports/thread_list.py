"""The threads of a saver: their status, which there are, and how they are deleted."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import get_args

from agentgraph.errors import (
    AgentGraphError,
    SaverError,
    ThreadError,
)
from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.stamps import number_of
from agentgraph.journal.changed_trees import opened
from agentgraph.journal.lines import known_thread
from agentgraph.journal.pending import pending_at
from agentgraph.journal.saved import Saved, error_in, is_stop
from agentgraph.journal.soundness import checked_read, is_unreadable
from agentgraph.journal.states import STATUS, ListedStatus, State, Status
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import reason, shown


@dataclass(frozen=True)
class ThreadSummary:
    """A thread in a list of threads.

    Attributes:
        thread_id: The id.
        status: As in `Thread`; or "unreadable", if what is stored is damaged, of another version of
            agentgraph, or of types that may not be read.
        updated: When its saver last stored a step of it, in seconds since 1970; 0 if it is unreadable.
        error: Why it is unreadable, and what to do; None for others.
    """

    thread_id: str
    status: ListedStatus
    updated: float
    error: str | None = None


async def threads(
    saver: ThreadSaver, status: ListedStatus | None, running: Mapping[str, float]
) -> list[ThreadSummary]:
    """Return the threads of a status, or all for None; those that began last first.

    Args:
        saver: Any thread of the saver.
        status: The status.
        running: When the runs of this process began, in seconds since 1970, by thread.

    Raises:
        AgentGraphError: There is no such status.
    """
    if status not in (None, *get_args(ListedStatus)):
        known = ", ".join(map(repr, get_args(ListedStatus)))
        raise AgentGraphError(f"status={shown(status)} is not a status of threads; use one of {known}")
    saved = await saver.thread_ids()
    summaries = [
        ThreadSummary(thread_id, "running", began)
        for thread_id, began in running.items()
        if thread_id not in saved and status in (None, "running")
    ]
    for thread_id in saved:
        each = await _listed(saver.of(thread_id))
        if each is not None and status in (None, each.status):
            summaries.append(each)
    return summaries


async def status_of(saver: ThreadSaver) -> Status:
    """Return the status of a thread, whichever tree ran it."""
    if await saver.checkpoint() is None:
        return "running" if await saver.is_running() else "new"
    standing = await _standing(saver)
    return standing[0] if standing else "new"


async def _listed(saver: ThreadSaver) -> ThreadSummary | None:
    """Return a thread in a list, also one that cannot be read: its error is not that of the list."""
    try:
        standing = await checked_read(_standing, saver)
    except SaverError as error:
        if not is_unreadable(error):
            raise
        return ThreadSummary(saver.thread_id, "unreadable", 0.0, reason(error))
    return ThreadSummary(saver.thread_id, *standing) if standing else None


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


def status_at(saved: Saved, *, asks: bool, is_running: bool) -> Status:
    """Return the status of a thread by its latest checkpoint.

    Args:
        saved: The checkpoint.
        asks: Whether questions wait.
        is_running: Whether a run is active on it.
    """
    if is_running:
        return STATUS[State.RUNNING]
    if saved.next_node is None:
        return STATUS[State.DONE]
    if _has_failed(saved):
        return STATUS[State.FAILED]
    return STATUS[State.ASKS if asks else State.STOPPED]


def _has_failed(saved: Saved) -> bool:
    """Return whether the last run of the step after a checkpoint failed, and not only one before it."""
    numbers: dict[str, int] = {}
    for note in saved.notes:
        numbers[note.kind] = max(numbers.get(note.kind, 0), number_of(note))
    if "resumed" in numbers:
        return numbers.get("error", 0) > numbers["resumed"]
    errors = filter(None, map(error_in, saved.writes.values()))
    return "error" in numbers or not all(map(is_stop, errors))


async def delete(saver: ThreadSaver) -> None:
    """Delete a thread, also one that cannot be read.

    Raises:
        UnknownThreadError: The saver has no such thread.
    """
    with suppress(SaverError):
        await known_thread(saver)
    await saver.delete()

"""The status of a thread, judged by its latest checkpoint."""

from agentgraph.graph.deadlines import earliest
from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.stamps import asker_of, number_of
from agentgraph.journal.entries import last_note
from agentgraph.journal.saved import Saved, error_in, is_stop
from agentgraph.journal.schema import KEPT, RESUMED, STOPPED
from agentgraph.journal.states import STATUS, State, Status

DEFAULT_REASON = "stopped"
"""Why a person stopped a run, if nothing was said."""
CLOSED = "the runner was closed"
"""Why a run was stopped that no person stopped."""


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


def ended_status(saved: Saved) -> str:
    """Return the status of a thread whose run has ended by itself; empty if reading it takes more."""
    status = status_at(saved, asks=True, is_running=False)
    last = last_note(saved, RESUMED, KEPT)
    if last is not None and last.kind == KEPT:
        return ""
    has_asked = any(INTERRUPT in writes for writes in saved.writes.values())
    return status if status != STATUS[State.ASKS] or has_asked else ""


def earliest_deadline(saved: Saved) -> float | None:
    """Return the earliest deadline of the questions at a thread's latest checkpoint, in seconds.

    Questions that were answered since count too.
    """
    asked = (one for writes in saved.writes.values() for one in writes.get(INTERRUPT, ()))
    return earliest([asker_of(one.response_schema).deadline for one in asked])


def stop_reason_at(saved: Saved) -> str | None:
    """Return why a person stopped the run that was last at a checkpoint; None if none did."""
    last = last_note(saved, RESUMED, STOPPED)
    if last is None or last.kind != STOPPED or last.data == CLOSED:
        return None
    return last.data or DEFAULT_REASON


def _has_failed(saved: Saved) -> bool:
    """Return whether the last run of the step after a checkpoint failed, and not only one before it."""
    numbers: dict[str, int] = {}
    for note in saved.notes:
        numbers[note.kind] = max(numbers.get(note.kind, 0), number_of(note))
    if "resumed" in numbers:
        return numbers.get("error", 0) > numbers["resumed"]
    errors = filter(None, map(error_in, saved.writes.values()))
    return "error" in numbers or not all(map(is_stop, errors))

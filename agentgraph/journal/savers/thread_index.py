"""The index of threads in files and databases that agentgraph opens: lists come from it by SQL alone.

Triggers of the database maintain it, in the transaction of each save: each call that saves, deletes or
copies a thread, in any process, changes the index with it, and no further call is made for that. It has
when each thread began, the metadata of its runs, and the status with which its last run ended, with the
earliest deadline of its questions. Anything that is saved later empties the status: then only the
thread itself has it, and the deadline is 0, so that lists of overdue threads have it too.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable
from uuid import uuid4

from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown

Scalar = str | int | float | bool
"""The stored types of a run's metadata: entries with other values are left out."""
Begun = tuple[str, str]
"""A thread's id, and the id of its first checkpoint."""
Listed = list[Begun] | None
"""Threads; None from a saver whose file or database has no index."""

NOT_GIVEN = ("source", "step", "parents", "run_id")
"""The metadata of checkpoints that LangGraph makes itself."""
_OURS = ("__", "agentgraph_", "thread_id", "checkpoint_", "langgraph_")
"""How keys begin that LangGraph leaves out, or that are not for users."""
_ID_LENGTH = 36
STATUS_AT = _ID_LENGTH + 2
"""Where a task id has the status of a thread: the first character has the number 1."""


class ThreadQuery(NamedTuple):
    """Which threads are listed.

    Attributes:
        status: Threads that ended a run with another status are left out; None leaves out none.
        metadata: Each pair was given to any run of the thread.
        running: Threads that are listed whatever status the index has: a run is active on them.
        due: Threads without a deadline up to this time, in seconds since 1970, are left out; None
            leaves out none.
    """

    status: str | None = None
    metadata: Mapping[str, Scalar] = {}
    running: Sequence[str] = ()
    due: float | None = None


@runtime_checkable
class HasThreadIndex(Protocol):
    """A saver that can list threads by an index. Where none can be made, it returns None."""

    def list_threads(self, query: ThreadQuery, after: Begun | None, limit: int) -> Listed:
        """Return the threads after one, newest first."""

    async def alist_threads(self, query: ThreadQuery, after: Begun | None, limit: int) -> Listed:
        """Return them on the event loop."""

    def find_threads(self, ids: Sequence[str]) -> Listed:
        """Return those of some threads that are stored."""

    async def afind_threads(self, ids: Sequence[str]) -> Listed:
        """Return them on the event loop."""


def ended_task(status: str, deadline: float | None = None) -> str:
    """Return an id for the last write of a run, by which the index learns the status of the thread.

    >>> ended_task("done")[STATUS_AT - 1 :], ended_task("paused", 1.5)[STATUS_AT - 1 :]
    ('done', 'paused 1.500000')

    Args:
        status: The status; empty if it is not known.
        deadline: The earliest deadline of its questions, in seconds since 1970; None without one.
    """
    until = "" if deadline is None else f" {deadline:.6f}"
    return f"{uuid4()}-{status}{until}" if status else str(uuid4())


def checked_metadata(metadata: object) -> dict[str, Scalar]:
    """Return metadata to list threads by.

    Raises:
        AgentGraphError: It is not a dict of scalars.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise AgentGraphError(
            f"metadata={shown(metadata)} is not a dict with texts as keys; pass one such as "
            "{'user': 'ann'}"
        )
    for key, value in metadata.items():
        if not isinstance(value, Scalar):
            raise AgentGraphError(
                f"metadata: the value {shown(value)} of {shown(key)} cannot be searched for, because "
                "LangGraph stores only texts, numbers and booleans of it; leave it out"
            )
    return {_text(key): _stored(value) for key, value in metadata.items()}


def _stored(value: Scalar) -> Scalar:
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "ignore").decode()


def given_in(metadata: Mapping[str, object]) -> dict[str, Scalar]:
    """Return the entries of a run's metadata that LangGraph saves."""
    return {
        key: _stored(value)
        for key, value in metadata.items()
        if isinstance(value, Scalar) and key not in NOT_GIVEN and not key.startswith(_OURS)
    }


def is_given(wanted: Mapping[str, Scalar], metadata: Mapping[str, object]) -> bool:
    """Return whether metadata of a checkpoint has all pairs.

    >>> is_given({"n": 1}, {"n": 1.0}), is_given({"n": 1}, {"n": True}), is_given({"n": 1}, {})
    (True, False, False)
    """
    return all(
        key not in NOT_GIVEN
        and key in metadata
        and metadata[key] == value
        and isinstance(metadata[key], bool) == isinstance(value, bool)
        for key, value in wanted.items()
    )

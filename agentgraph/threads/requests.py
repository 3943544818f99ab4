"""The requests of code that reads and writes threads.

Such code never calls the saver. It is a generator that yields a request and receives the result, and
`Engine` answers the requests. So sync and async runners share all code except the calls.
"""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

T = TypeVar("T")
Reads = Generator["Request", Any, T]
"""A generator that yields requests, receives their results, and returns a `T`."""


class GetCheckpoint(NamedTuple):
    """Asks for the latest `CheckpointTuple` of a namespace, or one by its id; or None."""

    namespace: str = ""
    checkpoint_id: str | None = None


class GetState(NamedTuple):
    """Asks for LangGraph's `StateSnapshot` at the latest checkpoint of a namespace, or another one."""

    namespace: str = ""
    checkpoint_id: str | None = None


class ListCheckpoints(NamedTuple):
    """Asks for `CheckpointTuple`s of the thread, in all namespaces or one, each newest first.

    `before` is the id of a checkpoint, `limit` the greatest number of them.
    """

    namespace: str | None = None
    before: str | None = None
    limit: int | None = None


class ListNamespaces(NamedTuple):
    """Asks for the namespaces of the thread to list for its checkpoints since the one with an id.

    `(None,)` if all can be listed at once, newest first; None if only a list of everything will do.
    """

    since: str


class ListThreads(NamedTuple):
    """Asks for the first `CheckpointTuple` of each thread of the saver, in all namespaces."""


class OfThread(NamedTuple):
    """Asks for the result of a generator, whose requests are about another thread."""

    thread_id: str
    reads: Generator[Any, Any, Any]


class IsRunning(NamedTuple):
    """Asks whether a run is active on the thread, also in another process of a SQLite file."""


class FindSaveFault(NamedTuple):
    """Asks why the saver cannot save a value; None where it can."""

    value: Any


class PutWrite(NamedTuple):
    """Asks to save a value with a checkpoint, under a channel and a task id."""

    saved: CheckpointTuple
    task_id: str
    channel: str
    value: Any


class PutCheckpoint(NamedTuple):
    """Asks to save a checkpoint as it is, after the one that `config` names; and for its config."""

    config: RunnableConfig
    saved: CheckpointTuple


class PutWrites(NamedTuple):
    """Asks to save all writes of a task, as channels and values, with a checkpoint.

    Savers return the writes of several tasks in the order of `path`.
    """

    config: RunnableConfig
    writes: Sequence[tuple[str, Any]]
    task_id: str
    path: str


class DeleteThread(NamedTuple):
    """Asks to delete the thread."""


class GetNextPart(NamedTuple):
    """Asks for the next part of a LangGraph stream, sync or async; None at its end."""

    stream: Any


class CloseStream(NamedTuple):
    """Asks to close a LangGraph stream."""

    stream: Any


SaverRequest = (
    GetCheckpoint | GetState | PutWrite | PutWrites | PutCheckpoint | DeleteThread | CloseStream
)
"""The requests that one method of the saver, the graph or the stream answers."""
Request = (
    SaverRequest
    | ListCheckpoints
    | ListNamespaces
    | ListThreads
    | OfThread
    | IsRunning
    | FindSaveFault
    | GetNextPart
)

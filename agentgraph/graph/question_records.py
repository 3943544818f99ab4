"""Records of questions: their schemas, saved next to the questions themselves.

The schema of a question names the asker and the order (`stamps.py`), so every read of a thread depends
on it. LangGraph's savers keep it. Others may not: `RedisSaver` 0.5.2 restores a question as its value
and its id. So with a saver that is not known to keep the schema, a record is saved before each write of
questions, at the same checkpoint. Where there is a record, it counts.

The record has its own id in the place of a task's, because LangGraph counts a task with an unknown
write as done. A task that asks again replaces its questions, and so its record: LangGraph numbers the
writes of a task, and savers replace those with negative numbers. `SCHEDULED` is the only channel with
such a number that LangGraph itself does not use.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from langgraph.checkpoint.base import CheckpointTuple, PendingWrite
from langgraph.checkpoint.serde.types import SCHEDULED
from langgraph.types import Interrupt
from typing_extensions import TypedDict

from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.open_types import Saver

RECORD = SCHEDULED
"""The channel of records."""
_NAME = "agentgraph_questions"
"""The name from which, and from that of a task, the id of its record is made."""
_OWN = "agentgraph."
"""The beginning of the names of our savers' and serializers' modules."""
_LANGGRAPH = {
    "langgraph.checkpoint.memory",
    "langgraph.checkpoint.sqlite",
    "langgraph.checkpoint.sqlite.aio",
    "langgraph.checkpoint.postgres",
    "langgraph.checkpoint.postgres.aio",
    "langgraph.checkpoint.serde.jsonplus",
}
"""The modules of LangGraph's savers and serializer, which keep questions whole."""


class QuestionRecord(TypedDict):
    """The record of the questions that a task asks."""

    questions_of: str
    """The task."""
    schemas: dict[str, dict[str, object]]
    """The schemas of the questions, by their ids."""


class RecordWrite(NamedTuple):
    """The write of a record.

    Attributes:
        writes: Its channel and value.
        id: Its id, in the place of a task's.
    """

    writes: Sequence[tuple[str, object]]
    id: str


def keeps_questions(saver: Saver) -> bool:
    """Return whether a saver is known to keep questions whole."""
    return _are_known(type(saver).__module__, type(saver.serde).__module__)


@lru_cache
def _are_known(*modules: str) -> bool:
    """Return whether classes of these modules are LangGraph's or ours, and not derived from them."""
    return all(each in _LANGGRAPH or each.startswith(_OWN) for each in modules)


def record_of(writes: Sequence[tuple[str, Any]] = (), task_id: str = "") -> RecordWrite | None:
    """Return the record of the questions in the writes of a task; None if it asks nothing.

    Args:
        writes: The channels and values.
        task_id: The id of the task.
    """
    asked = [one for channel, several in writes if channel == INTERRUPT for one in several]
    if not asked:
        return None
    schemas = {one.id: one.response_schema for one in asked if isinstance(one.response_schema, dict)}
    record = QuestionRecord(questions_of=task_id, schemas=schemas)
    return RecordWrite([(RECORD, record)], str(uuid5(UUID(task_id), _NAME)))


def restored(saved: CheckpointTuple) -> CheckpointTuple:
    """Return a checkpoint whose questions have the schemas of their records, without the records."""
    writes = saved.pending_writes or ()
    if not any(_is_record(each) for each in writes):
        return saved
    by_task = {each[2]["questions_of"]: each[2]["schemas"] for each in writes if _is_record(each)}
    rest = [_whole(each, by_task.get(each[0], {})) for each in writes if not _is_record(each)]
    return saved._replace(pending_writes=rest)


def _is_record(write: PendingWrite) -> bool:
    _, channel, value = write
    if channel != RECORD or not isinstance(value, Mapping):
        return False
    return isinstance(value.get("questions_of"), str) and isinstance(value.get("schemas"), Mapping)


def _whole(write: PendingWrite, schemas: Mapping[str, Any]) -> PendingWrite:
    task, channel, value = write
    if channel != INTERRUPT or not isinstance(value, list | tuple):
        return write
    return task, channel, [_with_schema(one, schemas) for one in value]


def _with_schema(one: Any, schemas: Mapping[str, Any]) -> Any:
    schema = schemas.get(one.id) if isinstance(one, Interrupt) else None
    return one if schema is None else replace(one, response_schema=schema)


def recording(
    method: Callable[..., Any], amethod: Callable[..., Awaitable[Any]]
) -> tuple[Callable[..., Any], Callable[..., Awaitable[Any]]]:
    """Return `put_writes` of a saver, sync and async, that saves the records of questions first."""

    @wraps(method)
    def call(*args: Any) -> object:
        if (record := record_of(*args[1:3])) is not None:
            method(args[0], *record)
        return method(*args)

    @wraps(amethod)
    async def acall(*args: Any) -> object:
        if (record := record_of(*args[1:3])) is not None:
            await amethod(args[0], *record)
        return await amethod(*args)

    return call, acall


def restoring(
    method: Callable[..., Any], amethod: Callable[..., Awaitable[Any]]
) -> tuple[Callable[..., Any], Callable[..., Awaitable[Any]]]:
    """Return `get_tuple` of a saver, sync and async, that adds their recorded schemas to questions."""

    @wraps(method)
    def call(*args: object, **options: object) -> object:
        saved = method(*args, **options)
        return saved and restored(saved)

    @wraps(amethod)
    async def acall(*args: object, **options: object) -> object:
        saved = await amethod(*args, **options)
        return saved and restored(saved)

    return call, acall

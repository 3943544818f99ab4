"""Checks that a saver that is not known keeps what runs rely on.

A run notes the first question and the first result of a branch that it saves. At its end it reads both
back. So nothing is written for the check, and the error comes before an answer is taken, and before a
finished branch runs a second time.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from importlib.metadata import distributions
from typing import Any, NamedTuple
from warnings import warn

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Interrupt

from agentgraph.errors import UnfitSaverError
from agentgraph.graph.internals import INTERRUPT, RETURN
from agentgraph.graph.open_types import Saver
from agentgraph.graph.question_records import restored
from agentgraph.graph.stamps import asker_of
from agentgraph.graph.sync_async import Call
from agentgraph.graph.task_results import ours

_NAMES = {INTERRUPT: "a question", RETURN: "the result of a branch"}
_WORKS = {
    INTERRUPT: "turns that do not ask a person",
    RETURN: "turns without parallel branches, items and calls of agents",
}
_OF_USERS = {"values", "data", "state", "writes", "middleware", "untracked", "failed"}
"""The fields of results whose data are not compared: a saver may change their types."""


def package_of(kind: type) -> tuple[str, str] | None:
    """Return the package that has a class, and its version; None if it is in none that is installed."""
    file = kind.__module__.replace(".", "/")
    names = {f"{file}.py", f"{file}/__init__.py"}
    for each in distributions():
        if any(str(path) in names for path in each.files or ()):
            return each.name, each.version
    return None


class _Write(NamedTuple):
    """A write to read back."""

    config: RunnableConfig
    task: str
    value: Any


class SaverTrial:
    """The check of a saver by the runs of one Runner: once for a question, and once for a result."""

    def __init__(self, saver: Saver, *, warns: bool) -> None:
        """Make it.

        Args:
            saver: The saver.
            warns: Whether to warn in the place of an error.
        """
        self._saver, self._warns = saver, warns
        self._noted: dict[str, _Write] = {}
        self._checked: set[str] = set()

    def noting(
        self, method: Callable[..., Any], amethod: Callable[..., Awaitable[Any]]
    ) -> tuple[Callable[..., Any], Callable[..., Awaitable[Any]]]:
        """Return `put_writes` of a saver, sync and async, that notes the first writes to check."""

        @wraps(method)
        def call(*args: Any) -> object:
            self._note(*args[:3])
            return method(*args)

        @wraps(amethod)
        async def acall(*args: Any) -> object:
            self._note(*args[:3])
            return await amethod(*args)

        return call, acall

    def _note(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str) -> None:
        for channel, value in writes:
            is_due = channel in _NAMES and channel not in self._checked
            if is_due and channel == INTERRUPT:  # copies: the agents around add to its schema
                self._noted.setdefault(channel, _Write(config, task, [replace(one) for one in value]))
            elif is_due and ours(value):
                self._noted.setdefault(channel, _Write(config, task, value))

    async def check(self) -> None:
        """Read back what was noted.

        Raises:
            UnfitSaverError: The saver does not keep it.
        """
        faults: dict[str, str] = {}
        for channel in _NAMES:
            if (noted := self._noted.pop(channel, None)) is None:
                continue
            self._checked.add(channel)
            read = self._saver.get_tuple, self._saver.aget_tuple
            saved: CheckpointTuple | None = await Call(*read, (noted.config,))
            if (fault := _fault(noted, channel, saved)) is not None:
                faults[channel] = f"{_NAMES[channel]}{fault}"
        if not faults:
            return
        error = self._error(faults)
        if not self._warns:
            raise error
        warn(str(error), stacklevel=2)

    def _error(self, faults: Mapping[str, str]) -> UnfitSaverError:
        kind = type(self._saver)
        name, package = kind.__name__, package_of(kind)
        of = f" of {' '.join(package)}" if package else ""
        works = [text for channel, text in _WORKS.items() if channel not in faults]
        lost = [_NAMES[channel] for channel in faults]
        rest = ", ".join(works) or "turns that need neither"
        return UnfitSaverError(
            f"checkpointer={name}: the saver{of} lost "
            f"{'; and '.join(faults.values())}; what works: {rest}; use "
            "another saver, such as ag.sqlite_saver(path), or pass unfit='warn' to the Runner",
            saver=f"{kind.__module__}.{kind.__qualname__}",
            package=package,
            missing=lost,
            works=works,
        )


def _fault(noted: _Write, channel: str, saved: CheckpointTuple | None) -> str | None:
    """Return which part of a write a saver lost, as the end of a sentence; None if it kept all."""
    if saved is None:
        return ", with its checkpoint"
    writes = restored(saved).pending_writes or ()
    kept = [value for task, name, value in writes if (task, name) == (noted.task, channel)]
    if not kept:
        return ""  # which is a fault: nothing of it is there
    lost = _lost_of_question if channel == INTERRUPT else _lost_of_result
    return f"'s {', '.join(parts)}" if (parts := lost(noted.value, kept[-1])) else None


def _lost_of_question(asked: Sequence[Interrupt], kept: Any) -> list[str]:
    several = {one.id: one for one in kept if isinstance(one, Interrupt)}
    if any(one.id not in several for one in asked):
        return ["id"]
    pairs = [(one, several[one.id]) for one in asked]
    lost = [] if all(_is_equal(one.value, read.value) for one, read in pairs) else ["value"]
    if any(_has_lost_schema(one.response_schema, read.response_schema) for one, read in pairs):
        lost.append("schema")
    return lost


def _has_lost_schema(schema: object, kept: object) -> bool:
    was, now = asker_of(schema), asker_of(kept)
    return (was.schema is not None and now.schema is None) or (
        was.address is not None and now.address is None
    )


def _lost_of_result(result: Mapping[str, Any], kept: Any) -> list[str]:
    if not isinstance(kept, Mapping):
        return ["fields"]
    fields = (name for name in result if name not in _OF_USERS)
    return [repr(name) for name in fields if not _is_equal(result[name], kept.get(name))]


def _is_equal(value: object, kept: object) -> bool:
    """Return whether a saved value came back; lists and tuples are equal."""
    if isinstance(value, BaseMessage):
        return isinstance(kept, BaseMessage) and _about(value) == _about(kept)
    if isinstance(value, list | tuple):
        if not isinstance(kept, list | tuple) or len(kept) != len(value):
            return False
        return all(map(_is_equal, value, kept))
    if isinstance(value, Mapping):
        if not isinstance(kept, Mapping) or kept.keys() != value.keys():
            return False
        return all(_is_equal(value[name], kept[name]) for name in value)
    return value == kept or value != value


def _about(message: BaseMessage) -> tuple[object, ...]:
    return message.type, message.id, message.name, message.content, message.response_metadata

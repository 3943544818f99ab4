"""Checks the form of what a saver returns, where it is read; all other code relies on it.

What a saver stores may have been damaged, or written by somebody else. Unchecked, wrong data is met
somewhere in a run, and looks like the failure of an agent.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from traceback import walk_tb
from typing import Annotated, Any, NotRequired, TypeAlias

from langchain_core.messages import BaseMessage
from langgraph.types import Interrupt
from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict, TypeIs

from agentgraph.graph.internals import INTERRUPT, RETURN
from agentgraph.graph.signal_handlers import is_of_a_handler
from agentgraph.graph.stamps import STAMP
from agentgraph.graph.state import TAG, Position, ours
from agentgraph.graph.strict_serializer import UnreadableError, UnreadSnapshot
from agentgraph.graph.values import Write
from agentgraph.journal.saved import Saved, parts_of
from agentgraph.journal.schema import NOTES
from agentgraph.safe_repr import reason, shown
from agentgraph.tree.places import Tree

_Decimal: TypeAlias = Annotated[str, Field(pattern=r"^\d+(\.|$)")]
_Word: TypeAlias = Annotated[str, Field(pattern=r"^(\D|\d+[^\d.])")]
_Versions: TypeAlias = Annotated[
    list[dict[str, _Decimal]] | list[dict[str, int | float]] | list[dict[str, _Word]],
    Field(union_mode="left_to_right"),
]
"""Versions that can be compared: all begin with a number, are numbers, or other texts."""
_Pair: TypeAlias = Annotated[Sequence[int], Field(min_length=2, max_length=2)]
_Moment: TypeAlias = tuple[str, int, int, str, bool]
_Stamp: TypeAlias = (
    tuple[str]
    | _Moment
    | tuple[str, int, int, str, bool, list[str]]
    | tuple[str, int, int, str, bool, list[str], bool]
)
_Map: TypeAlias = dict[str, Any]
_List: TypeAlias = list[Any]
_Note: TypeAlias = tuple[str, str, Any, str, _List]
_RESULTS = {"lane", "tool", "node", "message"}


class _Checkpoint(TypedDict):
    """What is read of a checkpoint; it has more."""

    v: int
    id: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]
    ts: str
    channel_values: _Map
    channel_versions: _Map
    versions_seen: _Map
    updated_channels: NotRequired[list[str] | None]


class _Metadata(TypedDict):
    """What is read of the metadata of a checkpoint."""

    step: int
    source: NotRequired[str]
    parents: NotRequired[dict[str, str]]
    counters_since_delta_snapshot: NotRequired[dict[str, _Pair]]


SENSELESS = (AssertionError, AttributeError, LookupError, TypeError, ValueError, NotImplementedError)
"""What is raised where one part of a thread does not fit another."""


def unfit(error: BaseException) -> UnreadableError:
    """Return the error for stored values each of which is sound, but that do not fit together."""
    why = f"{type(error).__name__}: {reason(error)}"
    return UnreadableError(f"malformed: what is stored does not fit together ({why})")


def is_met_by_langgraph(error: BaseException) -> bool:
    """Return whether LangGraph itself failed so as it does on stored values that make no sense.

    Callbacks and other code of users fail in a module of theirs.
    """
    *_, (frame, _) = [(None, 0), *walk_tb(error.__traceback__)]
    module = str(frame.f_globals.get("__name__", "")) if frame else ""
    return isinstance(error, SENSELESS) and module.startswith(("langgraph.", "langchain_core."))


@cache
def _adapter(form: Any) -> TypeAdapter[object]:
    return TypeAdapter(form)


def check_sound(tree: Tree, saved: Saved) -> None:
    """Check the form of a checkpoint, with its writes.

    Raises:
        UnreadableError: It is malformed.
    """
    _check(_Checkpoint, saved.checkpoint, "a checkpoint")
    _check(_Metadata, saved.metadata, "the metadata of a checkpoint")
    versions = [saved.checkpoint["channel_versions"], *saved.checkpoint["versions_seen"].values()]
    _check(_Versions, versions, "the versions of the channels of a checkpoint")
    try:
        datetime.fromisoformat(saved.checkpoint["ts"])
    except ValueError as error:
        if is_of_a_handler(error):
            raise
        raise UnreadableError(f"malformed: the time of a checkpoint ({error})") from error
    if not tree.is_foreign(parts_of(saved.namespace)):
        for channel, value in [*saved.checkpoint["channel_values"].items(), *_writes(saved)]:
            _check_channel(channel, value)


def _writes(saved: Saved) -> Iterator[tuple[str, object]]:
    for task, channel, value in saved.pending_writes or ():
        _check(str, task, "the id of a task")
        _check(str, channel, "the name of a channel")
        yield channel, value


def _check_channel(channel: str, value: Any) -> None:
    match channel:
        case "position" if isinstance(value, dict) and value.keys() == {"settled"}:
            pass  # it only adds settled values
        case "position" if value is not None:
            _check(Position, value, "the position of an agent")
            _check_notes(value.get("told", ()))
        case "messages" | "values" if isinstance(value, UnreadSnapshot):
            pass  # who reads it later checks it
        case "messages":
            _check_messages(getattr(value, "value", value))
        case "values":
            written = getattr(value, "value", value)
            for each in written if _is_list(written) else [written]:
                _check(_Map, each, "the values of a run")
        case _ if channel == INTERRUPT:
            _check(tuple[Interrupt, ...], _tuple(value), "a question")
            _check(list[str], [each.id for each in value], "the id of a question")
        case _ if channel == RETURN and ours(value).get(TAG) in _RESULTS:
            _check(str | None, value.get("signal"), "how a lane ended")
            _check(list[Write], value["values"], "the values that a lane wrote")
            for name in ("messages", "position"):
                _check_channel(name, value.get(name))
        case _ if channel == NOTES:
            _check(_List, value, "the notes of a run")
            _check_notes(value)


def _is_list(value: object) -> TypeIs[list[object] | tuple[object, ...]]:
    return isinstance(value, list | tuple)


def _check_messages(messages: object) -> None:
    for each in messages if _is_list(messages) else [messages]:
        if not isinstance(each, BaseMessage):
            _check(_Map | str | _List | tuple[Any, ...] | None, each, "a message")
        else:
            _check(_Stamp | None, _tuple(each.response_metadata.get(STAMP)), "the stamp of a message")


def _check_notes(notes: Iterable[Any]) -> None:
    for note in notes:
        _check(_Note, _tuple(note), "a note")
        _check(tuple[str] | _Moment, (note[3], *note[4]), "the time of an event")


def _tuple(value: object) -> object:
    return tuple(value) if _is_list(value) else value


def _check(form: object, value: object, what: str) -> None:
    try:
        _adapter(form).validate_python(value, strict=True)
    except ValidationError as error:
        causes = [each.get("ctx", {}).get("error") for each in error.errors(include_url=False)]
        for cause in causes:
            if isinstance(cause, Exception) and is_of_a_handler(cause):
                raise cause from None
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"]))
        raise UnreadableError(
            f"malformed: {what} ({at and f'{at}: '}{first['msg']}, got {shown(value, 100)})"
        ) from error

"""Checks the form of what a saver returns, where it is read; all other code relies on it.

Data in a saver may have been damaged, or written by other code. Unchecked, wrong data is met somewhere
in a run, and looks like the failure of an agent. The forms are made of the shapes that `schema.py`
lists, once. Then pydantic checks a checkpoint as a whole, without calls in Python for its values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, reduce
from operator import itemgetter, or_
from traceback import walk_tb
from types import UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Literal,
    NotRequired,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from langchain_core.messages import BaseMessage
from langgraph.constants import START
from langgraph.types import Interrupt
from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, SchemaValidator, core_schema
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from agentgraph.errors import AgentGraphError, SaverError
from agentgraph.graph.collecting import computing
from agentgraph.graph.guarded_saver import another_form, saver_error
from agentgraph.graph.internals import INTERRUPT, RETURN
from agentgraph.graph.lane_position import Position
from agentgraph.graph.signal_handlers import is_of_a_handler
from agentgraph.graph.stamps import STAMP, EventCall, EventOrder, Note, Stamp
from agentgraph.graph.strict_serializer import UnreadableError, UnreadSnapshot
from agentgraph.graph.sync_async import Calls
from agentgraph.journal.saved import REQUESTS, Saved, parts_of
from agentgraph.journal.schema import (
    CHANNELS,
    DATA,
    FORMAT,
    MESSAGES,
    NOTES,
    VALUES,
    Outline,
    PrunedMark,
    RequestData,
    TurnData,
)
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import reason, shown
from agentgraph.tree.places import Tree

_Decimal: TypeAlias = Annotated[str, Field(pattern=r"^\d+(\.|$)")]
_Word: TypeAlias = Annotated[str, Field(pattern=r"^(\D|\d+[^\d.])")]
_Versions: TypeAlias = Annotated[
    list[dict[str, _Decimal]] | list[dict[str, int | float]] | list[dict[str, _Word]],
    Field(union_mode="left_to_right"),
]
"""Versions that can be compared: all begin with a number, are numbers, or other texts."""
_Pair: TypeAlias = Annotated[tuple[int, int], Field(strict=False)]
_Map: TypeAlias = dict[str, Any]
_Write: TypeAlias = Annotated[tuple[str, str, Any], Field(strict=False)]


class _Checkpoint(TypedDict):
    """The part of a checkpoint that is read; it has more."""

    v: int
    id: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]
    ts: str
    channel_values: _Map
    channel_versions: _Map
    versions_seen: _Map
    updated_channels: NotRequired[list[str] | None]


class _Metadata(TypedDict):
    step: int
    source: NotRequired[str]
    parents: NotRequired[dict[str, str]]
    counters_since_delta_snapshot: NotRequired[dict[str, _Pair]]


class _Parts(TypedDict):
    checkpoint: _Checkpoint
    metadata: _Metadata
    writes: Annotated[list[_Write], Field(strict=False)] | None


_NAMES: Mapping[str, str] = {
    "checkpoint": "a checkpoint",
    "metadata": "the metadata of a checkpoint",
    "writes": "what a step wrote",
    "versions": "the versions of the channels of a checkpoint",
    "position": "the position of an agent",
    MESSAGES: "a message",
    VALUES: "the values of a run",
    INTERRUPT: "a question",
    RETURN: "the result of a task",
    NOTES: "a note of a run",
    "request": "a request for a run",
    "turn": "the record of a turn",
    "pruned": "the mark of a pruned thread",
}
"""The names in errors of the parts of a checkpoint, and of the channels."""
_BESIDE = {"turn": "turn", "pruned": "upto"}
"""The kinds of checkpoints in the namespace of requests, each with a key of its state."""
_CHANNEL_AND_VALUE = itemgetter(1, 2)
_KIND = Note._fields.index("kind")

_SENSELESS = (AssertionError, AttributeError, LookupError, TypeError, ValueError, NotImplementedError)
"""The error where one part of a thread does not fit another."""


P = ParamSpec("P")
T = TypeVar("T")
Reads = Callable[Concatenate[ThreadSaver, P], Calls[T]]
"""A function that reads or writes a thread."""


def unfit(error: BaseException) -> UnreadableError:
    """Return the error for stored values each of which is sound, but that do not fit together."""
    why = f"{type(error).__name__}: {reason(error)}"
    return UnreadableError(f"malformed: what is stored does not fit together ({why})")


async def checked_read(reads: Reads[P, T], thread: ThreadSaver, *args: P.args, **more: P.kwargs) -> T:
    """Return the result of a function that reads a thread; it runs no code of users.

    Raises:
        SaverError: Each stored value is sound, but they do not fit together.
    """
    try:
        return await computing(reads(thread, *args, **more))
    except AgentGraphError:
        raise
    except _SENSELESS as error:
        if is_of_a_handler(error):
            raise
        raise saver_error(unfit(error), thread.saver, thread.thread_id) from error


def is_unreadable(error: SaverError) -> bool:
    """Return whether what a saver stores is at fault, and the saver has not failed."""
    return isinstance(error.__cause__, (UnreadableError, *_SENSELESS))


def is_met_by_langgraph(error: BaseException) -> bool:
    """Return whether LangGraph itself failed so as it does on stored values that make no sense.

    Callbacks and other code of users fail in a module of theirs.
    """
    *_, (frame, _) = [(None, 0), *walk_tb(error.__traceback__)]
    module = str(frame.f_globals.get("__name__", "")) if frame else ""
    return isinstance(error, _SENSELESS) and module.startswith(("langgraph.", "langchain_core."))


def check_sound(tree: Tree, saved: Saved) -> None:
    """Check the form of a checkpoint, with its writes.

    Raises:
        UnreadableError: It is malformed.
    """
    parts, versions, channels, records = _validators()
    checkpoint, writes = saved.checkpoint, saved.pending_writes
    try:
        parts.validate_python(
            [{"checkpoint": checkpoint, "metadata": saved.metadata, "writes": writes}]
        )
        every = [checkpoint["channel_versions"], *checkpoint["versions_seen"].values()]
        versions.validate_python([{"versions": every}])
        datetime.fromisoformat(checkpoint["ts"])
        if saved.namespace == REQUESTS:
            state = checkpoint["channel_values"]
            name = next((each for each, key in _BESIDE.items() if key in state), "request")
            records.validate_python([{name: state}])
        elif not (saved.namespace and tree.is_foreign(parts_of(saved.namespace))):
            channels.validate_python([_by_channel(saved)])
    except ValidationError as error:
        raise _fault(error) from error
    except ValueError as error:
        if is_of_a_handler(error):
            raise
        raise UnreadableError(f"malformed: the time of a checkpoint ({error})") from error


def _by_channel(saved: Saved) -> dict[str, list[Any]]:
    state, found = saved.checkpoint["channel_values"], dict[str, list[Any]]()
    written = map(_CHANNEL_AND_VALUE, saved.pending_writes or ())
    for channel, value in [*state.items(), *written]:
        if isinstance(value, UnreadSnapshot):
            continue  # who reads it later checks it
        if channel in (MESSAGES, VALUES):
            several = getattr(value, "value", value)  # of a snapshot
            value = several if isinstance(several, list | tuple) else [several]
            found[channel] = [*found.get(channel, ()), *value]
        elif channel == "position":
            is_partial = value is None or (isinstance(value, dict) and value.keys() == {"settled"})
            found[channel] = [*found.get(channel, ()), *([] if is_partial else [value])]
        elif channel in CHANNELS and channel != RETURN:
            each = [*value] if isinstance(value, tuple) else value
            found[channel] = [*found.get(channel, ()), each]
    begun = state.get(START)
    if isinstance(begun, dict) and begun.get("position"):
        found["position"] = [*found.get("position", ()), begun["position"]]
    found[RETURN] = [*saved.results.values()]
    for position in found.get("position", ()):
        if isinstance(position, dict) and isinstance(calls := position.get("calls"), list):
            found[RETURN] += calls
    return found


def _fault(error: ValidationError) -> UnreadableError:
    """Return the error for what does not fit a form: it names the field."""
    errors = error.errors(include_url=False)
    first = next((each for each in errors if not _is_of_another_kind(each["loc"], errors)), errors[0])
    _, part, *rest = first["loc"]
    if part in CHANNELS or part in (MESSAGES, VALUES):
        rest = rest[1:]  # without its number among those under the channel
    if first["type"] == "string_pattern_mismatch" and rest[-1:] == ["tree"]:
        return another_form()
    name, at = _NAMES.get(str(part), f"the channel {part!r}"), ".".join(map(str, rest))
    return UnreadableError(
        f"malformed: {name} ({at and f'{at}: '}{first['msg']}, got {shown(first['input'], 100)})"
    )


def _is_of_another_kind(at: Sequence[int | str], errors: Sequence[ErrorDetails]) -> bool:
    """Return whether an error is that of a note which is tried as one of another kind than its own."""
    others = [each["loc"] for each in errors if each["type"] == "literal_error"]
    return any(at[: len(each) - 1] == each[:-1] for each in others if each[-1] == _KIND)


@dataclass(frozen=True, eq=False)
class _Items:
    """The form of a list whose items have meanings by their places.

    Attributes:
        forms: The forms of the items of each list that there may be, by a name for errors; by their
            lengths if these tell the lists apart.
    """

    forms: Mapping[Any, Sequence[Any]]

    def __get_pydantic_core_schema__(self, _: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the list."""
        choices: dict[Any, CoreSchema] = {
            name: core_schema.tuple_schema(
                [handler.generate_schema(each) for each in forms], strict=False
            )
            for name, forms in self.forms.items()
        }
        if all(isinstance(name, int) for name in choices):
            every: CoreSchema = core_schema.tagged_union_schema(choices, len)
        else:
            every = core_schema.union_schema([(each, name) for name, each in choices.items()])
        return core_schema.chain_schema([core_schema.list_schema(), every])


@dataclass(frozen=True, eq=False)
class _Attributes:
    """The form of an object with some attributes.

    Attributes:
        forms: The forms of the attributes.
        kind: The class of the object, if it is checked.
    """

    forms: Mapping[str, Any]
    kind: type | None = None

    def __get_pydantic_core_schema__(self, _: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the object."""
        forms = self.forms.items()
        fields = {name: core_schema.model_field(handler.generate_schema(form)) for name, form in forms}
        own: CoreSchema = core_schema.model_fields_schema(fields, from_attributes=True)
        if self.kind is None:
            return own
        return core_schema.chain_schema([core_schema.is_instance_schema(self.kind), own])


def _first_fields(shape: type, *counts: int) -> Any:
    """Return the form of a list of the first fields of a named tuple, as many as one of some counts."""
    types = [_form(each) for each in get_type_hints(shape).values()]
    return Annotated[Any, _Items({count: types[:count] for count in counts})]


def _note() -> Any:
    types = {name: _form(each) for name, each in get_type_hints(Note).items()}
    types["order"] = _first_fields(EventOrder, 0, 4)
    types["call"] = _first_fields(EventCall, 3)
    every = {
        kind: [*{**types, "kind": Literal[kind], "data": _form(data)}.values()]
        for kind, data in DATA.items()
    }
    by_kind = {kind: forms[:-1] for kind, forms in every.items()}
    return Annotated[Any, _Items({**by_kind, "custom in a call": every["custom"]})]


@cache
def _message() -> Any:
    """Return the form of a message: its stamp is sound, if it has one."""
    stamp = _first_fields(Stamp, 1, 5, 6, 7) | None
    metadata = TypedDict("metadata", {STAMP: stamp}, total=False)  # type: ignore[misc]
    return Annotated[Any, _Attributes({"response_metadata": metadata})]


def _form(shape: Any) -> Any:
    if shape is BaseMessage:
        return _message()
    if shape is Interrupt:
        return Annotated[Any, _Attributes({"id": str}, Interrupt)]
    if shape is Note:
        return _note()
    if is_typeddict(shape) and shape is not Outline:
        hints = get_type_hints(shape, include_extras=True).items()
        forms = {name: _form(_OF_FIELDS.get((shape, name), each)) for name, each in hints}
        return TypedDict(shape.__name__, forms, total=shape.__total__)  # type: ignore[operator]
    origin, inner = get_origin(shape), get_args(shape)
    if origin in (None, Literal):
        return shape
    if origin is Annotated:
        return Annotated[(_form(inner[0]), *shape.__metadata__)]
    own = tuple(map(_form, inner))
    if origin in (Union, UnionType):
        return reduce(or_, own)
    return _STORED.get(origin, origin)[own if len(own) > 1 else own[0]]


def _list_of(form: Any) -> Any:
    return list[form]


_STORED: Mapping[Any, Any] = {Mapping: dict, Sequence: list}
"""The types that savers return for an abstract type."""
_OF_FIELDS: Mapping[tuple[Any, str], Any] = {
    (Position, "told"): NotRequired[list[Note]],
    (Position, "calls"): NotRequired[list[dict[str, Any]]],
    (Position, "tree"): Annotated[str, Field(pattern=rf"^({FORMAT}\.|$)")],
}
"""The forms of fields whose types, in a lower folder, cannot say all."""


@cache
def _validators() -> tuple[SchemaValidator, ...]:
    message: Any = dict[str, Any] | str | list[Any] | tuple[Any, ...] | None | _message()
    channels = {name: _list_of(_form(shape)) for name, shape in CHANNELS.items()}
    channels[MESSAGES] = _list_of(Annotated[message, Field(union_mode="left_to_right")])
    channels[VALUES] = list[dict[str, Any]]
    records = {"request": RequestData, "turn": TurnData, "pruned": PrunedMark}
    return (
        _validator(_Parts),
        _validator(TypedDict("versions", {"versions": _Versions})),  # type: ignore[operator]
        _validator(TypedDict("channels", channels, total=False)),  # type: ignore[operator]
        _validator(TypedDict("records", records, total=False)),  # type: ignore[operator]
    )


def _validator(form: Any) -> SchemaValidator:
    """Return the checker of lists of a form: without the calls in Python of an adapter."""
    validator = TypeAdapter(_list_of(form), config=ConfigDict(strict=True)).validator
    assert isinstance(validator, SchemaValidator)
    return validator

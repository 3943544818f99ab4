"""Values of the run: the writes of lanes, the reducers that merge them, and conflicts at joins.

The problem: a lane starts with the values of the enclosing lane, and what it writes must reach that
lane. Were merged values handed back, a list with `operator.add` would double. Were the writes folded
to one first, a reducer that deletes or replaces would be wrong. The rules:

- A lane stores its writes, in order, and hands those back. A join applies the writes of its lanes one
  after the other, in declared order. Only the root stores merged values, which users see and edit.
- A value without a reducer is written over. Where two that ran concurrently wrote different values
  under one such name, neither is right: that is a conflict, and the join reports it. So it is where
  two overwrite what a reducer has merged.
- LangGraph reads the declaration of reducers, and its channels apply the writes, one by one. Channels
  whose values end with a step are refused: a step is one of LangGraph, and not of agents.
- A declared type is checked where a value is written, after its reducer. Containers get the declared
  type there, and where a saver that made plain data of them is read (`typed`), not at each step. An
  object stays as it was written: plain data, if the agent wrote plain data.
"""

import copy
import operator
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from inspect import signature
from types import UnionType
from typing import Any, Final, NamedTuple, get_type_hints
from uuid import uuid4

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.channels.any_value import AnyValue
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.last_value import LastValue
from langgraph.channels.topic import Topic
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.graph import StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from agentgraph.agents.functions import discard, is_async
from agentgraph.errors import AgentGraphError, InvalidAgentError, ReducerError
from agentgraph.graph.declared import (
    Declared,
    declared_fields,
    given_fields,
    without_local,
)
from agentgraph.graph.internals import MISSING, ROOT, delta_reducer, overwrite_in
from agentgraph.graph.open_types import Channel
from agentgraph.graph.type_hints import make_typed_dict
from agentgraph.safe_repr import shown, shown_error

OVERWRITE = "__overwrite__"
"""The key of the plain form of LangGraph's `Overwrite`."""
_NONE: Final = object()
_OF_MESSAGES = ("role", "type")
"""Keys by which LangGraph takes a dict that is written to a `DeltaChannel` for a message."""
_NOT_VALUES = ("messages", "jump_to")
"""Fields of LangGraph's `MessagesState` and LangChain's `AgentState`: the history, and hooks' jumps."""


_MERGING = (BinaryOperatorAggregate, DeltaChannel, AnyValue, Topic)
"""The channels of LangGraph that merge what is written. A value is stored merged, a delta's too."""
_INSTEAD = {
    EphemeralValue: "write ag.DELETE to the plain type when the value is used up",
    UntrackedValue: "pass what is not saved to the run as context=",
    Topic: "use Annotated[list, operator.add], or Topic(type, accumulate=True)",
}
"""What to use in place of channels whose values last for a step of LangGraph, or are not saved."""

_PURE = (operator.add, operator.or_, delta_reducer)
"""Reducers that return the same each time; `add_messages`, too, once all messages have ids."""
_OPERATORS: Sequence[tuple[Sequence[tuple[type | UnionType, str]], str]] = (
    (((list, "list"), (tuple, "tuple"), (str, "str"), (int, "int"), (int | float, "float")), "add"),
    (((dict, "dict"), (set, "set"), (frozenset, "frozenset")), "or_"),
)
"""Types, with their names, and the operator of Python that merges two values of one."""
_OWN_REDUCER = "object, lambda old, new: ..."


class Write(TypedDict):
    """The values that one activation wrote at once."""

    by: str
    """Its address; empty for the package's own values, which never conflict."""
    values: dict[str, object]
    """The values by name."""


Written = Mapping[str, object] | Sequence[Write]
"""Writes in order, or values without a writer, which never conflict."""
Beside = Callable[[int, int], bool]
"""Returns whether two of the joined lanes ran concurrently, by their numbers."""


def as_writes(values: Written) -> list[Write]:
    """Return values as one write, and writes as they are."""
    if isinstance(values, Mapping):
        return [Write(by="", values=dict(values))] if values else []
    return list(values)


def maps_in(written: object) -> list[Mapping[str, object]]:
    """Return the values that a step has written, as it was saved: those of each write, in order.

    The root writes one map of values or several, a lane writes `Write`s.
    """
    if isinstance(written, Mapping):
        return [written]
    several = written if isinstance(written, list | tuple) else ()
    return [each["values"] if each.keys() == {"by", "values"} else each for each in several]


DELETE: Final = {"$agentgraph": "delete"}
"""Deletes a value, wherever values are written: `SetValues(topic=DELETE)`.

A declared value gets its default again, or what its reducer begins with. As it is plain data, clients
of a server can send it too.
"""


def is_deletion(value: object) -> bool:
    """Return whether a written value is `DELETE`."""
    return isinstance(value, dict) and value == DELETE


@dataclass(frozen=True, slots=True)
class Reducers:
    """How values are merged: by their declared reducers, else written over.

    Attributes:
        channels: LangGraph's channels for the names with a reducer.
        fields: The declared types and defaults, by name.
        local: The names whose values stay in the lane that wrote them.
    """

    channels: Mapping[str, Channel] = field(default_factory=dict)
    fields: Mapping[str, Declared] = field(default_factory=dict)
    local: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """All declared names."""
        return frozenset(self.fields)

    @property
    def shared(self) -> frozenset[str]:
        """The names under which several branches may write: merged, or not handed back."""
        return self.local.union(self.channels)

    def handed_back(self, writes: Sequence[Write]) -> list[Write]:
        """Return the writes of a lane that leave it: without those of local values."""
        if self.fields:
            writes = self.loaded(writes)
        if not self.local:
            return list(writes)
        return [rest for each in writes if (rest := _without(each, self.local))["values"]]

    def emitted(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the values that an event shows of those that were written, as plain as they can be.

        Lists, dicts and sets are copies: the agent may go on to change its own.
        """
        return {
            name: _plain_write(value)
            for name, value in values.items()
            if not (name.startswith("_") or name in self.local)
        }

    @property
    def schema(self) -> object:
        """The type of all values, for the schemas of a graph; no name is required."""
        if not self.fields:
            return dict[str, Any]
        return make_typed_dict(
            "Values", {name: each.hint for name, each in self.fields.items()}, total=False
        )

    def defaults(self) -> dict[str, object]:
        """Return new defaults of the names that have one: declared, or as their reducer begins."""
        return self.begun() | self.declared_defaults()

    def declared_defaults(self) -> dict[str, object]:
        """Return new defaults of the names that a schema declares with one."""
        return {name: each.default() for name, each in self.fields.items() if each.default}

    def begun(self) -> dict[str, object]:
        """Return anew what LangGraph's reducers begin with, by name."""
        return first_values(self.channels) if self.channels else {}

    def fault(self, values: dict[str, object], names: Iterable[str]) -> str | None:
        """Give values their declared types; return why one does not fit, or None.

        Args:
            values: The values.
            names: The names of those that were written.
        """
        for name in names if self.fields else ():
            if name in self.fields and name in values:
                try:
                    values[name] = self.fields[name].typed(values[name])
                except ValueError:
                    return self.fields[name].fault(values[name])
        return None

    def typed(self, name: str, value: object) -> object:
        """Return a written value with its declared type; as it is if it has none or does not fit.

        What a reducer takes may be of another type than what it returns.
        """
        if name not in self.fields or is_deletion(value):
            return value
        overwrites, replacement = overwrite_in(value)
        if overwrites:
            fitting = self.typed(name, replacement)
            if isinstance(value, Overwrite):
                return value if fitting is replacement else Overwrite(fitting)
            return value if fitting is replacement else {OVERWRITE: fitting}
        declared = self.fields[name]
        try:
            return (declared.typed_operand if name in self.channels else declared.typed)(value)
        except ValueError:
            return value

    def converter(self, name: str) -> Callable[[object], object] | None:
        """Return what gives a value its declared type; None if it has none."""
        return partial(self.typed, name) if name in self.fields else None

    def saves_result(self, name: str) -> bool:
        """Return whether what the reducer of a value returned is saved in place of what it took."""
        return name in self.channels and not _is_pure(self.channels[name])

    def all_typed(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return written values, each with its declared type."""
        return {name: self.typed(name, value) for name, value in values.items()}

    def loaded(self, writes: Sequence[Write]) -> list[Write]:
        """Return the writes of a lane, which may come from a saver, with the declared types."""
        return [Write(by=each["by"], values=self.all_typed(each["values"])) for each in writes]

    def applied(self, values: Mapping[str, object], written: Written) -> dict[str, object]:
        """Return `values` after writes, in order.

        Raises:
            ReducerError: A reducer failed.
        """
        merged = dict(values)
        for write in as_writes(written):
            for name, value in write["values"].items():
                if is_deletion(value):
                    merged.pop(name, None)
                    merged |= {key: v for key, v in self.defaults().items() if key == name}
                else:
                    merged[name] = (
                        self._reduced(merged, name, value) if name in self.channels else value
                    )
        return merged

    def collected(self, writes: Sequence[Write], new: Written) -> list[Write]:
        """Return the writes of a lane and new ones, without those that are written over."""
        result = list(writes)
        written = {name for write in result for name in write["values"]}
        for write in as_writes(new):
            over = write["values"].keys() - self.channels.keys()
            if over & written:
                result = [rest for each in result if (rest := _without(each, over))["values"]]
            result.append(write)
            written |= write["values"].keys()
        return result

    def folded(self, writes: Sequence[Write] | None, new: Sequence[Written]) -> list[Write]:
        """Return the writes of a lane and those of several steps, as `collected` does."""
        if self.fields:
            new = [self.loaded(as_writes(each)) for each in new]
        return reduce(self.collected, new, list(writes or ()))

    def update(self, writes: Iterable[Mapping[str, object]]) -> object:
        """Return writes as an update of the root: one dict, or several if one would lose a write."""
        several: list[dict[str, object]] = []
        for new in writes:
            if several and not (several[-1].keys() & new.keys() & self.channels.keys()):
                several[-1] = {**several[-1], **new}
            else:
                several.append(dict(new))
        if not several:
            return {}
        return unlike_message(several[0] if len(several) == 1 else several)

    def stored(
        self, values: Mapping[str, object], new: object, merged: Mapping[str, object] | None = None
    ) -> object:
        """Return an update of the root in the form in which it is saved.

        Applied again, it has the same effect, and no reducer of a user runs. What has this form already
        is returned as it is.

        Args:
            values: The values before the update.
            new: The update.
            merged: The values after it, if they are known.

        Raises:
            AgentGraphError: It is not a mapping, or a value does not fit its declared type.
            ReducerError: A reducer failed.
        """
        if overwrite_in(new)[0]:
            return new
        several = [self._with_ids(each) for each in map(self.all_typed, in_order(new))]
        names = {name for each in several for name in each if self._is_unsettled(name, each, values)}
        if names:
            merged = self.merged(values, several) if merged is None else merged
            settled = {name: self._replacement(name, merged) for name in names}
            writes = [
                {k: settled.pop(k, _NONE) if k in names else v for k, v in each.items()}
                for each in several
            ]
            several = [{k: v for k, v in each.items() if v is not _NONE} for each in writes]
        return self.update(each for each in several if each)

    def is_unsettled(self, new: object) -> bool:
        """Return whether an update of the root is not in the form in which it is saved."""
        several = [] if overwrite_in(new)[0] else in_order(new)
        return any(self._is_unsettled(name, each) for each in several for name in each)

    def merged(self, values: Mapping[str, object], new: object) -> dict[str, object]:
        """Return the values of the root after an update by a node or a user.

        Raises:
            AgentGraphError: They are not a mapping, or a value does not fit its declared type.
        """
        several = in_order(new)
        merged = self.replayed(values, several)
        if fault := self.fault(merged, {name: None for each in several for name in each}):
            raise AgentGraphError(f"values: {fault}")
        return merged

    def replayed(self, values: Mapping[str, object], new: object) -> dict[str, object]:
        """Return the values of the root after an update, unchecked.

        Raises:
            ReducerError: A reducer failed.
        """
        typed = self.all_typed if self.fields else dict
        return self.applied(values, [Write(by="", values=typed(each)) for each in in_order(new)])

    def _is_unsettled(
        self, name: str, new: Mapping[str, object], values: Mapping[str, object] | None = None
    ) -> bool:
        """Return whether a write may give something else if it is applied again.

        Args:
            name: The name of the value.
            new: The write.
            values: The values before it, if they are known.
        """
        value = new[name]
        if is_deletion(value):  # a function may make the default
            return name in self.fields and self.fields[name].default is not None
        channel = self.channels.get(name)
        if channel is None or overwrite_in(value)[0]:
            return False
        if _reducer_of(channel) is not add_messages:
            return not _is_pure(channel)
        return not (_have_ids(value) and (values is None or _have_ids(values.get(name, ()))))

    def _replacement(self, name: str, merged: Mapping[str, object]) -> object:
        """Return what replaces a value by that after the update."""
        if name not in merged:
            return dict(DELETE)
        return {OVERWRITE: merged[name]} if name in self.channels else merged[name]

    def _with_ids(self, new: Mapping[str, object]) -> Mapping[str, object]:
        """Return a write with ids for the messages that `add_messages` merges: it makes up others."""
        names = [n for n in new if n in self.channels and _reducer_of(self.channels[n]) is add_messages]
        return {**new, **{name: with_ids(new[name]) for name in names}} if names else new

    def _reduced(self, values: Mapping[str, object], name: str, value: object) -> object:
        """Return a value merged with the present one; as copies, for a reducer may change both."""
        channel = self.channels[name].from_checkpoint(
            copied(values[name]) if name in values else MISSING
        )
        overwrites, replacement = overwrite_in(value)
        if overwrites and type(channel) is not DeltaChannel:  # some keep the `Overwrite` itself
            return copied(replacement)
        try:
            channel.update([copied(value)])
        except Exception as error:
            raise ReducerError(name, shown(value), shown_error(error)) from error
        merged: object = channel.get()
        if hasattr(type(merged), "__await__"):
            discard(merged)
            raise ReducerError(name, shown(value), f"it returned {shown(merged)}, and is never awaited")
        return merged


def _plain_write(value: object) -> object:
    """Return a written value, an `Overwrite` in its plain form."""
    overwrites, replacement = overwrite_in(value)
    if overwrites:
        return {OVERWRITE: _plain_write(replacement)}
    return copied(value) if isinstance(value, list | dict | set) else value


def first_values(channels: Mapping[str, Channel]) -> dict[str, object]:
    """Return anew what channels begin with, by name: for most types with a reducer their empty value.

    A type without one, such as `int | None`, has no value until the first write.
    """
    copies = {name: each.from_checkpoint(MISSING) for name, each in channels.items()}
    return {name: each.get() for name, each in copies.items() if each.is_available()}


def declared(schema: object) -> Reducers:
    """Return the reducers that a schema declares for its fields.

    A field `messages`, as in LangGraph's `MessagesState`, is the history, and not a value; nor is
    `jump_to`, which LangChain's `AgentState` has for hooks.

    Raises:
        InvalidAgentError: It is not a schema, or a field needs a channel that values cannot have, or
            has a type that pydantic cannot check.
    """
    if schema is None:
        return Reducers()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read: Any = StateGraph(without_local(schema))
    except Exception as error:
        has_fields = isinstance(schema, type) and getattr(schema, "__annotations__", None)
        raise (_unread(schema, error) if has_fields else _no_schema(schema)) from error
    if ROOT in read.channels:
        raise _no_schema(schema)
    channels = {n: c for n, c in {**read.channels, **read.managed}.items() if n not in _NOT_VALUES}
    faults = [
        f"values: the field {name!r} is declared with {_kind(channel)}, which values cannot have; "
        f"{_INSTEAD.get(type(channel), 'use Annotated[type, reducer], or the type alone')}"
        for name, channel in channels.items()
        if not (_merges(channel) or type(channel) is LastValue)
    ]
    faults += [
        f"values: the reducer {shown(_reducer_of(channel))} of the field {name!r} is async; pass a "
        "sync function"
        for name, channel in channels.items()
        if is_async(_reducer_of(channel))
    ]
    if faults:
        raise InvalidAgentError(faults)
    merging = {name: channel for name, channel in channels.items() if _merges(channel)}
    fields = {n: each for n, each in declared_fields(schema).items() if n not in _NOT_VALUES}
    topics = {n: list[c.typ] for n, c in merging.items() if type(c) is Topic}  # type: ignore[name-defined]
    fields |= {name: replace(fields[name], hint=hint) for name, hint in topics.items()}
    taken = {name: hint for name, c in merging.items() if (hint := _operand_of(c)) is not None}
    fields |= {name: replace(fields[name], operand=hint) for name, hint in taken.items()}
    faults = [
        f"values: pydantic cannot check the type of the field {name!r} ({why}); use a type that it "
        "knows, or Any"
        for name, each in fields.items()
        if (why := each.type_fault())
    ]
    faults += [f"values: {why}" for each in fields.values() if (why := each.union_fault())]
    if faults:
        raise InvalidAgentError(faults)
    return Reducers(merging, fields, frozenset(n for n, each in fields.items() if each.is_local))


def _merges(channel: object) -> bool:
    """Return whether a channel merges what is written, and keeps it over steps."""
    return type(channel) in _MERGING and getattr(channel, "accumulate", True)


def _reducer_of(channel: object) -> object:
    return getattr(channel, "operator", None) or getattr(channel, "reducer", None)


def _operand_of(channel: Channel) -> object:
    """Return the type of what a channel takes at a time, if it is declared."""
    if type(channel) is Topic:
        return channel.typ
    try:
        reducer: Any = _reducer_of(channel)
        hints, names = get_type_hints(reducer, include_extras=True), [*signature(reducer).parameters]
    except Exception:
        return None
    return hints.get(names[1]) if len(names) > 1 else None


def _is_pure(channel: Channel) -> bool:
    """Return whether a channel merges the same writes to the same value each time."""
    return type(channel) in (AnyValue, Topic) or any(_reducer_of(channel) is each for each in _PURE)


def _have_ids(messages: object) -> bool:
    several = messages if isinstance(messages, list | tuple) else [messages]
    return all(isinstance(each, BaseMessage) and each.id for each in several)


def with_ids(messages: Any) -> object:
    """Return messages in any form that LangGraph takes, with ids; other data is returned as it is."""
    if _have_ids(messages) or is_deletion(messages) or overwrite_in(messages)[0]:
        return messages
    try:
        several = convert_to_messages(messages if isinstance(messages, list | tuple) else [messages])
    except Exception:
        return messages  # the reducer reports what is wrong
    return [each if each.id else each.model_copy(update={"id": str(uuid4())}) for each in several]


def unlike_message(new: object) -> object:
    """Return an update of the root that LangGraph does not take for a message, to give it an id.

    It looks at dicts and lists of them, and not at tuples.
    """
    several = new if isinstance(new, list) else [new]
    named = [name for each in several if isinstance(each, Mapping) for name in each]
    return new if not any(name in named for name in _OF_MESSAGES) else tuple(several)


def in_order(new: object) -> list[Mapping[str, object]]:
    """Return an update of the root as several mappings, each applied after the other.

    Raises:
        AgentGraphError: It is not a mapping.
    """
    if isinstance(new, list | tuple):
        return list(new)
    values = {} if new is None else given_fields(new)
    check_mapping(values)
    return [values]


def check_mapping(values: object) -> None:
    """Refuse values of a run that are not a mapping, or None.

    Raises:
        AgentGraphError: They are not.
    """
    if not isinstance(values, Mapping | None):
        raise AgentGraphError(
            f"values must be a mapping, got {shown(values)}; pass a dict such as {{'topic': 'bees'}}"
        )


def _without(write: Write, names: Iterable[str]) -> Write:
    rest = write["values"].keys() - names
    if len(rest) == len(write["values"]):
        return write
    return Write(by=write["by"], values={k: v for k, v in write["values"].items() if k in rest})


def copied(value: object) -> object:
    """Return a shallow copy, or the value itself if it cannot be copied."""
    if isinstance(value, Overwrite):
        return Overwrite(copied(value.value))
    try:
        return copy.copy(value)
    except Exception:
        return value


def _kind(channel: object) -> str:
    return channel.__name__ if isinstance(channel, type) else type(channel).__name__


def _no_schema(schema: object) -> InvalidAgentError:
    return InvalidAgentError(
        [
            f"values={shown(schema)} declares no fields; pass a TypedDict or a pydantic model, as in "
            "class Values(TypedDict): notes: Annotated[list, operator.add]"
        ]
    )


def _unread(schema: object, error: Exception) -> InvalidAgentError:
    return InvalidAgentError(
        [
            f"values={shown(schema)} cannot be read as a state ({shown_error(error)}); its types must "
            "be known, and a reducer be a function of two arguments, as in Annotated[int, lambda old, "
            "new: max(old, new)]"
        ]
    )


def reducer_for(*values: object) -> str:
    """Return the declaration that would merge values: their type, and a reducer for it.

    >>> reducer_for([1], [2]), reducer_for({"a": 1}, {"b": 2}), reducer_for("a", None)
    ('list, operator.add', 'dict, operator.or_', 'object, lambda old, new: ...')
    """
    if any(isinstance(value, bool) for value in values):
        return _OWN_REDUCER
    for kinds, merging in _OPERATORS:
        for kind, name in kinds:
            if all(isinstance(value, kind) for value in values):
                return f"{name}, operator.{merging}"
    return _OWN_REDUCER


def overwriting(value: object) -> Overwrite:
    """Return a value that replaces what a reducer has merged."""
    overwrites, replacement = overwrite_in(value)
    return Overwrite(replacement if overwrites else value)


def is_same(one: object, other: object) -> bool:
    """Return whether two values are equal; where `==` fails, whether their pickles are.

    For numpy arrays, and messages that carry them, `==` returns neither true nor false.
    """
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:
        return _pickled(one) == _pickled(other) is not None


def _pickled(value: object) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:
        return None


class LastWrite(NamedTuple):
    """The last write of a name in one of the joined lanes."""

    number: int
    by: str
    value: object


def conflicts(
    handed_back: Mapping[int, Sequence[Write]], beside: Beside, reducers: Reducers
) -> dict[str, tuple[LastWrite, LastWrite]]:
    """Return two conflicting writes for each name that has a conflict.

    Two writes conflict if they ran concurrently, and differ under one name without a reducer, or both
    overwrite what a reducer has merged. The package's own values have no writer, and never conflict;
    nor do local values, which calls of one lane may both write.

    Args:
        handed_back: The writes of the joined lanes, by their numbers.
        beside: Returns whether two of them ran concurrently.
        reducers: How values are merged.
    """
    result: dict[str, tuple[LastWrite, LastWrite]] = {}
    equal: dict[str, list[list[LastWrite]]] = {}
    for number, writes in handed_back.items():
        for name, mine in _last_writes(number, writes, reducers).items():
            if name in result:
                continue
            groups = equal.setdefault(name, [])
            other = next(_conflicting(mine, groups, beside), None)
            if other is not None:
                result[name] = (other, mine)
    return result


def _conflicting(mine: LastWrite, groups: list[list[LastWrite]], beside: Beside) -> Iterator[LastWrite]:
    """Yield the writes that conflict with one, and add it to the group of its value."""
    group: list[LastWrite] | None = None
    for each in groups:
        if group is None and is_same(each[0].value, mine.value):
            group = each
        else:
            yield from (other for other in each if beside(other.number, mine.number))
    if group is None:
        groups.append(group := [])
    group.append(mine)


def _last_writes(number: int, writes: Sequence[Write], reducers: Reducers) -> dict[str, LastWrite]:
    """Return the last write of each name that an agent wrote; with a reducer, the last overwriting."""
    named = [(name, each["by"], value) for each in writes for name, value in each["values"].items()]
    last: dict[str, LastWrite] = {}
    for name, by, value in named:
        overwrites, replacement = overwrite_in(value) if name in reducers.channels else (True, value)
        if overwrites:
            last[name] = LastWrite(number, by, replacement)
    return {name: each for name, each in last.items() if each.by and name not in reducers.local}

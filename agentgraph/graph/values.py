"""Values of the run: how the writes of lanes are merged.

The problem: a lane starts with the values of the enclosing lane, and what it writes must reach that
lane. Were merged values handed back, a list with `operator.add` would double. Were the writes folded
to one first, a reducer that deletes or replaces would be wrong. The rules:

- A lane stores its writes, in order, and hands those back. A join applies the writes of its lanes one
  after the other, in declared order. Only the root stores merged values, which users see and edit.
- A value without a reducer is written over. Where two that ran concurrently wrote different values
  under one such name, neither is right: that is a conflict (`conflicts.py`), and the join reports it.
  So it is where two overwrite what a reducer has merged.
- LangGraph reads the declaration of reducers (`values_schema.py`), and its channels apply the writes,
  one by one. Channels whose values end with a step are rejected: a step is one of LangGraph, and not of
  agents.
- A declared type is checked where a value is written, after its reducer. Containers get the declared
  type there, and where a saver that made plain data of them is read (`typed`), not at each step. An
  object stays as it was written: plain data, if the agent wrote plain data.
"""

import copy
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Final
from uuid import uuid4

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.graph.message import add_messages
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from agentgraph.agents.functions import discard
from agentgraph.errors import AgentGraphError, ReducerError
from agentgraph.graph.declared import Declared, given_fields
from agentgraph.graph.internals import MISSING, overwrite_in
from agentgraph.graph.open_types import Channel
from agentgraph.graph.type_hints import make_typed_dict
from agentgraph.graph.value_channels import first_values, is_pure, reads_overwrite, reducer_of
from agentgraph.safe_repr import shown, shown_error

OVERWRITE = "__overwrite__"
"""The key of the plain form of LangGraph's `Overwrite`."""
_NONE: Final = object()


_OF_MESSAGES = ("role", "type")
"""Keys by which LangGraph takes a dict that is written to a `DeltaChannel` for a message."""


class Write(TypedDict):
    """The values that one activation wrote at once."""

    by: str
    """Its address; empty for the package's own values, which never conflict."""
    values: dict[str, object]
    """The values by name."""


Written = Mapping[str, object] | Sequence[Write]
"""Writes in order, or values without a writer, which never conflict."""
AreConcurrent = Callable[[int, int], bool]
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

    def shared_writes(self, writes: Sequence[Write]) -> list[Write]:
        """Return the writes of a lane that leave it: without those of local values."""
        if self.fields:
            writes = self.loaded(writes)
        if not self.local:
            return list(writes)
        return [rest for each in writes if (rest := _without(each, self.local))["values"]]

    def emitted(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the values that an event shows of those that were written, as plain as they can be.

        Lists, dicts and sets are copies: the agent may continue to change the originals.
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
        """Return new start values of LangGraph's reducers, by name."""
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

        The argument of a reducer may be of another type than its result.
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
        """Return the function that restores the declared type of a value; None if it has none."""
        return partial(self.typed, name) if name in self.fields else None

    def saves_result(self, name: str) -> bool:
        """Return whether what the reducer of a value returned is saved in place of what it took."""
        return name in self.channels and not is_pure(self.channels[name])

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

        Applied again, it has the same effect, and no reducer of a user runs. A value in this form is
        returned as it is.

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
            replacements = {name: self._replacement(name, merged) for name in names}
            writes = [
                {k: replacements.pop(k, _NONE) if k in names else v for k, v in each.items()}
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
        if reducer_of(channel) is not add_messages:
            return not is_pure(channel)
        return not (_have_ids(value) and (values is None or _have_ids(values.get(name, ()))))

    def _replacement(self, name: str, merged: Mapping[str, object]) -> object:
        if name not in merged:
            return dict(DELETE)
        return {OVERWRITE: merged[name]} if name in self.channels else merged[name]

    def _with_ids(self, new: Mapping[str, object]) -> Mapping[str, object]:
        """Return a write with ids for the messages that `add_messages` merges: it makes up others."""
        names = [n for n in new if n in self.channels and reducer_of(self.channels[n]) is add_messages]
        return {**new, **{name: with_ids(new[name]) for name in names}} if names else new

    def _reduced(self, values: Mapping[str, object], name: str, value: object) -> object:
        """Return a value merged with the present one; as copies, for a reducer may change both."""
        channel = self.channels[name].from_checkpoint(
            copied(values[name]) if name in values else MISSING
        )
        overwrites, replacement = overwrite_in(value)
        if overwrites and not reads_overwrite(channel):
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
    overwrites, replacement = overwrite_in(value)
    if overwrites:
        return {OVERWRITE: _plain_write(replacement)}
    return copied(value) if isinstance(value, list | dict | set) else value


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

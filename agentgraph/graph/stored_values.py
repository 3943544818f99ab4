"""How the root stores the values of the run: of a step what it wrote, and now and then all of them.

The problem: SQLite stores a plain channel whole with each checkpoint, so that a value of 400 kB costs
that much in every later step, and a list that grows makes a thread grow with the square of its length.
In a `DeltaChannel` a step stores its own writes alone. But to read one, LangGraph applies them again,
and a user's reducer may return something else then: a new id, the time. The rules:

- A write is saved in a form that yields the same each time: `Reducers.stored`. The result of a user's
  reducer overwrites the value; reducers that are known to be pure are applied again.
- A write gets that form where it enters, and the values before it are known: in the update of a node
  (`Activation`), in LangGraph's writers for the input and `update_state` (`StoringWrite`), and, before
  LangGraph saves it, in a run's input (`RootGraph`). A command that gets here without it is applied
  once, and all values are stored in the same checkpoint.
- All values are stored once there is more to read since the last time than they are long. LangGraph
  reads each step since then, so a step counts, too. A step that writes no values is not noticed here:
  of several such the node of one writes an empty dict (`AGING`).
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import PendingWrite
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.constants import START

from agentgraph.graph.internals import (
    MISSING,
    READ,
    SEND,
    ChannelWrite,
    DeltaSnapshot,
    overwrite_in,
)
from agentgraph.graph.open_types import Graph
from agentgraph.graph.saving import has_saver
from agentgraph.graph.stamps import Note, note_of
from agentgraph.graph.values import Reducers, in_order, is_same, maps_in

AGING = 32
"""How often a step without values writes an empty dict; the fewest steps from snapshot to snapshot."""
_STEP = 1_000
"""To read a step takes as long as to read so many bytes of a value."""
_AGAIN = 4
"""How many times as long as all values the writes since a snapshot may be."""
_SHORT = 32_000
"""How long they may be in any case, in bytes."""
_NEVER = 2**62
"""LangGraph does not count when to store all values."""
_COUNTED = 256
"""The most writes that are kept to be measured: without a saver none is."""
LATER: Final = {"$agentgraph": "later"}
"""The end of what a command writes that knew what a task of the next step has already written.

LangGraph applies the command first. So what it overwrites is left out of the next write.
"""
_VALUES = "values"
_SERIALIZER = JsonPlusSerializer()


def without_copies(notes: Sequence[list[Any]], written: object) -> list[list[object]]:
    """Return notes for the saver: those of values, without the data that is saved next to them.

    >>> without_copies([["1", "values", {"a": "x", "b": "y"}, "s/f", []]], [{"a": "x"}, {"b": "z"}])
    [['1', 'values', [['a', 0], ['b', None, 'y']], 's/f', []]]

    Args:
        notes: The notes of a step, as plain data.
        written: The values that it writes.
    """
    writes = maps_in(written)
    return [
        note._replace(data=[_saved(name, v, writes) for name, v in note.data.items()]).plain()
        if note.kind == _VALUES
        else plain
        for plain, note in zip(notes, map(note_of, notes), strict=True)
    ]


def _saved(name: str, value: object, writes: Sequence[Mapping[str, object]]) -> list[object]:
    """Return a name with the number of the write that has its value, or with the value itself."""
    for number, write in enumerate(writes):
        there = write.get(name, MISSING)
        if type(there) is type(value) and is_same(there, value):
            return [name, number]
    return [name, None, value]


def notes_in(written: Mapping[str, Any]) -> list[Note]:
    """Return the notes in what a node wrote, or in a task's result."""
    notes = (written.get("position") or {}).get("told", ())
    return [_with_values(note, written.get("values")) for note in map(note_of, notes)]


def _with_values(note: Note, written: object) -> Note:
    """Return a note of values that `without_copies` made with them, as far as they are there."""
    if note.kind != _VALUES or not isinstance(note.data, list):
        return note
    writes, values = dict(enumerate(maps_in(written))), {}
    for each in note.data:
        match each:
            case [str(name), None, value]:
                values[name] = value
            case [str(name), int(number)] if name in writes.get(number, {}):
                values[name] = writes[number][name]
    return note._replace(data=values)


class ValuesChannel(DeltaChannel[dict[str, object]]):
    """The values of the run in the root; it begins with the defaults.

    The start value of a reducer is not saved before the first write, as in LangGraph.
    """

    reducer: Any
    """The `Reducers`: LangGraph makes each channel from the object that is passed as its reducer."""

    def __init__(
        self,
        reducer: Reducers,
        typ: type[dict[str, object]] = dict,
        *,
        snapshot_frequency: int = _NEVER,
    ) -> None:
        super().__init__(cast(Any, reducer), typ, snapshot_frequency=snapshot_frequency)
        self.value = reducer.declared_defaults() if reducer.fields else {}
        self._new: list[object] = []
        self._steps = self._bytes = self._size = 0
        self._known: set[str] = set()
        self._is_updated = False
        self._is_unsettled = bool(self.value)  # a function may have made the defaults

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValuesChannel) and self.reducer is other.reducer

    __hash__ = None  # type: ignore[assignment]

    def get(self) -> dict[str, object]:
        """Return the values, with what the reducers of the others begin with."""
        values: dict[str, object] = self.value
        if not self.reducer.channels:
            return values
        return values | {name: v for name, v in self.reducer.begun().items() if name not in values}

    def copy(self) -> "ValuesChannel":
        """Return a copy of the channel."""
        made = self._with_value(self.value)
        made._known = self._known
        return made

    def from_checkpoint(self, checkpoint: Any) -> "ValuesChannel":
        """Return the channel with saved values; names without one have their defaults."""
        if checkpoint is MISSING:
            return self._with_value({})
        saved = checkpoint.value if isinstance(checkpoint, DeltaSnapshot) else checkpoint
        if self.reducer.fields:
            saved = self.reducer.all_typed(saved)
        made = self._with_value(self._written(saved))
        made._is_unsettled = False
        return made

    def _with_value(self, values: dict[str, object]) -> "ValuesChannel":
        made = ValuesChannel(self.reducer, self.typ)
        made.key = self.key
        made.value = {**made.value, **values}
        return made

    def _written(self, saved: dict[str, object]) -> dict[str, object]:
        """Return saved values without those that no agent wrote: a parallel node saves all."""
        fields, begun = self.reducer.fields, self.reducer.begun()
        unwritten = {
            name
            for name, value in begun.items()
            if not fields[name].default and name in saved and is_same(saved[name], value)
        }
        return {name: value for name, value in saved.items() if name not in unwritten}

    def update(self, values: Sequence[object]) -> bool:
        """Apply the writes of a step.

        Raises:
            AgentGraphError: They are not a mapping, or a value does not fit its declared type.
            ReducerError: A reducer failed.
        """
        if not values:
            return False
        if any(overwrite_in(each)[0] for each in values):
            super().update(values)
        else:
            self.value = reduce(self.reducer.merged, map(self._not_known, values), self.value)
        self._is_unsettled = self._is_unsettled or any(map(self.reducer.is_unsettled, values))
        self._is_updated = True
        if len(self._new) < _COUNTED:
            self._new += values
        return True

    def replay_writes(self, writes: Sequence[PendingWrite]) -> None:
        """Apply the writes saved since all values were stored, unchecked."""
        for _, _, write in writes:
            overwrites, values = overwrite_in(write)
            if overwrites:
                self.value = self.reducer.all_typed(values or {})
            else:
                self.value = self.reducer.replayed(self.value, self._not_known(write))
            self._new.append(write)

    def _not_known(self, write: object) -> object:
        """Return a write without what a command knew that was applied before it: see `LATER`."""
        known, self._known = self._known, set()
        if not (known or (isinstance(write, list | tuple) and LATER in write)):
            return write
        several = [each for each in in_order(write) if each != LATER]
        if len(several) == len(in_order(write)):
            return [{k: v for k, v in each.items() if k not in known} for each in several]
        overwritten = {k for each in several for k, v in each.items() if overwrite_in(v)[0]}
        self._known = known | overwritten
        return several

    def checkpoint(self) -> object:
        """Return all values if they are to be stored now; LangGraph asks at each checkpoint."""
        if not self._is_updated:
            return MISSING
        self._is_updated = False
        for write in self._new:
            self._steps += 1 if write else AGING
            self._bytes += _length(write) if write else 0
        self._new = []
        if not (self._is_unsettled or self._is_long_to_read()):
            return MISSING
        self._steps, self._bytes, self._is_unsettled = 0, 0, False
        return DeltaSnapshot(self.value)

    def _is_long_to_read(self) -> bool:
        """Return whether the writes take longer to read than the values; these are seldom measured."""
        if not self._are_longer():
            return False
        self._size = _length(self.value)
        return self._are_longer()

    def _are_longer(self) -> bool:
        steps, size = max(AGING, self._size // _STEP), max(_SHORT, _AGAIN * self._size)
        return self._steps >= steps or self._bytes >= size


def counts_for_values(config: RunnableConfig, steps: int = 1) -> bool:
    """Return whether a step of the root without values writes an empty dict, to be counted.

    Args:
        config: LangGraph's config of its node.
        steps: Number of steps that it represents: itself, and those before it without a node.
    """
    step: int = config.get("metadata", {}).get("langgraph_step", 0)
    return step >= AGING and step % AGING < steps and has_saver(config)


def _length(value: object) -> int:
    """Return how many bytes a value takes; 0 if it cannot be saved."""
    try:
        return len(_SERIALIZER.dumps_typed(value)[1])
    except Exception:
        return 0


class StoringWrite(ChannelWrite):
    """A writer of a node in the root; it writes values in the form in which they are saved.

    It serves the input, `update_state`, and nodes whose runs are traced. LangGraph draws what kinds of
    `ChannelWrite` write.

    Attributes:
        reducers: How values are merged.
        begins: Whether it writes the input. That has a separate step, in which no node runs.
    """

    reducers: Reducers
    begins: bool

    def invoke(self, input: object, config: RunnableConfig | None = None, **_: object) -> object:
        """Write an update."""
        return super().invoke(input, self._storing(input, config or {}))

    async def ainvoke(self, input: object, config: RunnableConfig | None = None, **_: object) -> object:
        """Write an update, on the event loop."""
        return await super().ainvoke(input, self._storing(input, config or {}))

    def _storing(self, update: object, config: RunnableConfig) -> RunnableConfig:
        """Return a config that stores the values of what is sent, if there may be some."""
        counts = self.begins and counts_for_values(config, 2)
        if not counts and type(update) is dict and _VALUES not in update:
            return config
        configurable = config["configurable"]
        send, read = configurable[SEND], configurable[READ]

        def stored(writes: Sequence[tuple[str, object]]) -> None:
            new = [(c, checked(self.reducers, read(c), v) if c == _VALUES else v) for c, v in writes]
            if counts and not any(c == _VALUES for c, _ in new):
                new += [(_VALUES, {})] if read(_VALUES) else []
            send(new)

        return {**config, "configurable": {**configurable, SEND: stored}}


def checked(reducers: Reducers, values: Mapping[str, object], new: object) -> object:
    """Return an update of the root in the form in which it is saved, which fits the declared types.

    Args:
        reducers: How values are merged.
        values: The values before it.
        new: The update.

    Raises:
        AgentGraphError: It is not a mapping, or a value does not fit its declared type.
        ReducerError: A reducer failed.
    """
    if overwrite_in(new)[0]:
        return new
    return reducers.stored(values, new, reducers.merged(values, new))


def store_values(graph: Graph, reducers: Reducers) -> None:
    """Have all nodes of a root write values in the form in which they are saved.

    The first writer of a node becomes one that does; making a new one would inspect its functions.
    """
    for name, node in graph.nodes.items():
        writers = [each for each in node.writers if isinstance(each, ChannelWrite)]
        others = [each for each in node.writers if not isinstance(each, ChannelWrite)]
        first = writers[0]
        first.writes = [entry for each in writers for entry in each.writes]  # several would be traced
        vars(first).update(reducers=reducers, begins=name == START)
        first.__class__ = StoringWrite
        node.writers[:] = [first, *others]

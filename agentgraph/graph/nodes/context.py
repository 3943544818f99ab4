"""The place of a node, the state visible there, and the context passed to users' functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, cast
from uuid import NAMESPACE_URL, uuid5

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.runtime import Runtime, get_runtime
from langgraph.store.base import BaseStore
from typing_extensions import override

from agentgraph.agents.agents import Handoff, HistoryPolicy
from agentgraph.agents.context import Context
from agentgraph.agents.entries import Entry, Item, PathOf
from agentgraph.agents.run_path import RunPath
from agentgraph.agents.signals import Signal
from agentgraph.errors import (
    AgentGraphError,
    InvalidOutputError,
    MissingValueError,
    ReducerError,
    ValueConflictError,
)
from agentgraph.graph.agent_records import AgentRecords, RecordChanges, applied, kept_for
from agentgraph.graph.conflicts import conflicts, reducer_for
from agentgraph.graph.copied_values import LEAVES, OwnDict, own, own_list
from agentgraph.graph.history import PathReader, last_of_workers, unchanged, visible
from agentgraph.graph.lane_position import Position, clock_in
from agentgraph.graph.message_changes import with_changes
from agentgraph.graph.named_models import NamedModels
from agentgraph.graph.nodes.callers import AROUND
from agentgraph.graph.nodes.emitter import EMITTED_BEFORE, Before, Clock
from agentgraph.graph.nodes.spending import LEDGER, Bounds, Ledger
from agentgraph.graph.open_types import Cache
from agentgraph.graph.stamps import address_of, agent_of
from agentgraph.graph.state import LaneState, Update
from agentgraph.graph.values import (
    AreConcurrent,
    Reducers,
    Write,
    Written,
    as_writes,
    is_deletion,
    overwriting,
)
from agentgraph.safe_repr import as_json, shown
from agentgraph.tree.addresses import (
    Cursor,
    address,
    as_cursor,
    cursor_at,
    innermost_transfers,
    iteration,
    keeper_node,
    places_to,
    without_attempts,
)
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.position import advance_plainly, plain_routes, start, transfer_at
from agentgraph.tree.run_paths import RunPaths
from agentgraph.tree.targets import handoff_of, targets

PARENT_STATE = "__agentgraph_parent_state"
"""The key in `config["configurable"]` of the `RunState` of the node that runs a lane.

Savers save the configurable keys with each checkpoint, except those that begin with `__`.
"""

_NO_REDUCERS, _NO_MODELS = Reducers(), NamedModels()


@dataclass(frozen=True, slots=True)
class RunState:
    """The state that a node sees: that of its lane and, by reference, of the enclosing lanes."""

    messages: Sequence[BaseMessage]
    values: dict[str, object]
    reducers: Reducers = _NO_REDUCERS
    settled: Mapping[str, object] = field(default_factory=dict)
    """The values that resolve a conflict at a join, by name."""
    middleware: AgentRecords = field(default_factory=dict)
    """The saved records of middleware, by node."""
    clock: Clock = field(default_factory=Clock)
    """Numbers the events of the root's step."""
    ledger: Ledger | None = None
    """The spending of the turn under its limits; None if nothing is counted."""
    item: Item | None = None
    """The item of the nearest `each` around; None outside."""
    step: str = ""
    """The name of the step around, for a leaf that is not a step itself."""
    returned: Update | None = None
    """The value that the first node of the lane has returned already."""

    def with_new(
        self, messages: Sequence[BaseMessage], written: Written, changes: RecordChanges | None = None
    ) -> "RunState":
        """Return a copy with changed messages, written values and changed records applied."""
        values = self.reducers.applied(self.values, as_writes(written))
        seen = replace(self, messages=with_changes(self.messages, messages), values=values)
        return replace(seen, middleware=applied(self.middleware, [changes])) if changes else seen

    def check(self, where: str, writes: Sequence[Write]) -> dict[str, object]:
        """Return the values after writes, which can be merged and fit their types.

        Raises:
            ReducerError: A reducer failed.
            InvalidOutputError: A value does not fit its declared type.
        """
        try:
            values = self.reducers.applied(self.values, writes)
        except ReducerError as error:
            raise ReducerError(error.name, error.value, error.error, where) from error.__cause__
        names = {name: None for write in writes for name in write["values"]}
        if fault := self.reducers.fault(values, names):
            raise InvalidOutputError(f"{where}: the value {fault}")
        return values

    def joined(
        self,
        where: str,
        shared_writes: Mapping[int, Sequence[Write]],
        are_concurrent: AreConcurrent,
        label: Callable[[int], str] = lambda number: "",
        *,
        are_lanes: bool = True,
    ) -> list[Write]:
        """Return the writes of several lanes or calls as writes of the node that joins them, in order.

        Args:
            where: The address of the node's agent.
            shared_writes: The writes of each lane or call, by number, in declared order.
            are_concurrent: Returns whether two of them, by number, ran concurrently.
            label: Names one by number, in errors, if its address is that of the node's agent.
            are_lanes: Whether they are lanes, whose local values stay in them; calls write into the
                lane of their agent.

        Raises:
            ValueConflictError: Two wrote different values under one name, and the conflict is not
                resolved.
            ReducerError: A reducer failed on the writes together.
        """
        if are_lanes and self.reducers.local:
            shared_writes = {n: self.reducers.shared_writes(each) for n, each in shared_writes.items()}
        elif self.reducers.fields:
            shared_writes = {n: self.reducers.loaded(each) for n, each in shared_writes.items()}
        clashes = conflicts(shared_writes, are_concurrent, self.reducers)
        if names := [name for name in clashes if name not in self.settled]:
            two = clashes[names[0]]
            written = [
                (each.by, "ag.DELETE" if is_deletion(each.value) else shown(each.value)) for each in two
            ]
            labels = [label(each.number) if each.by == where else "" for each in two]
            has_reducer = names[0] in self.reducers.channels
            reducer = reducer_for(*(each.value for each in two))
            raise ValueConflictError(where, names, written, labels, has_reducer, reducer)
        writes = [write for each in shared_writes.values() for write in each]
        if clashes:
            writes.append(Write(by=where, values={name: self._result(name) for name in clashes}))
        if self.reducers.fields:
            self.check(where, writes)
        return writes

    def _result(self, name: str) -> object:
        value = self.reducers.typed(name, self.settled[name])
        return overwriting(value) if name in self.reducers.channels else value


class NodeContext:
    """A place of a tree, with what its node needs to know; shared by all activations.

    Attributes:
        transfers_index: The index of the counter of the nearest transfers; None where there are none.
        shorten: Removes the part of a history that others do not see; see `visible`.
        streams_transfers: Whether its nodes stream where these led: they are part of its lane.
        has_boundary: Whether a function (`until`, a check) is called after an activation, so that the
            node may run again only to call it.
        is_inner: Whether the place is in an inner lane.
        cache: LangGraph's cache that the graph was compiled with.
        named: The models that agents of the tree name.
        bounds: The limits of the agents around it, the innermost first.
        renamed_tools: The names that tools have now, by those under which a thread knows them.
    """

    def __init__(
        self,
        tree: Tree,
        place: Place,
        paths: RunPaths,
        reducers: Reducers = _NO_REDUCERS,
        *,
        has_boundary: bool = False,
        cache: Cache | None = None,
        named: NamedModels = _NO_MODELS,
    ) -> None:
        self.tree, self.place, self.paths, self.reducers = tree, place, paths, reducers
        self.has_boundary, self.cache, self.named = has_boundary, cache, named
        self.bounds: Bounds = tree.bounds_of(place) if tree.limited else ()
        self.targets = targets(tree, place)
        self.handoffs = tuple(handoff_of(target) for target in self.targets.values())
        self.renamed_tools: Mapping[str, str] = {}
        if tree.known_as:  # a step may wait after a call, or a transfer, that has an old name
            several = [*self.targets.values()]
            self.renamed_tools = _renamed_tools(tree.called.get(place, ()), several, self.handoffs)
            self.targets |= {name: target for target in several for name in target.names}
        self.is_inner = any(step.starts_lane for step in places_to(place)[1:])
        self.transfers_index = at = innermost_transfers(place) if tree.has_transfers else None
        self.streams_transfers = at is not None and _is_in_lane(place, place.counts[at].place)
        self._last: tuple[Cursor, str] | None = None
        self._template = place.address_template
        self.shorten = last_of_workers(tree, place) if tree.terse else None
        self._plain_routes = None if has_boundary else plain_routes(tree, place)

    @cached_property
    def history(self) -> HistoryPolicy:
        """The `history` of its agent."""
        return cast(HistoryPolicy, getattr(self.place.home.agent, "history", unchanged))

    def address(self, cursor: Cursor) -> str:
        """Return the address of an activation here; the last one is cached."""
        if self._template is not None:
            return self._template % cursor
        last = self._last
        if last is None or last[0] != cursor:
            self._last = last = (cursor, address(self.place, cursor))
        return last[1]

    def arrived(self, position: Position | None) -> Position:
        """Return the position of an activation here, even if someone jumped here without one."""
        position = position or self.position(None, ())
        origin = self.tree.by_node.get(position["next"] or "")
        if origin is self.place:
            return position
        cursor = cursor_at(self.place, origin, as_cursor(position["cursor"]))
        return self.position(self.place.nodes.entry, cursor)

    def plain_position(self, cursor: Cursor) -> Position | None:
        """Return the position after an activation that ended without a signal or a transfer.

        None if it is not known without asking functions.
        """
        if self._plain_routes is None:
            return None
        to, cursor = advance_plainly(self._plain_routes, cursor)
        node = None if to is None else to.nodes.entry
        return Position(next=node, cursor=list(cursor), tree=self.tree.fingerprint)

    def first_position(self, lane: Place, cursor: Cursor = ()) -> Position:
        """Return the first position of a lane, given the enclosing counters."""
        first = start(self.tree, lane, cursor)
        return self.position(cast(Place, first.place).nodes.entry, first.cursor)

    def entering(self, child: Place, cursor: Cursor) -> Position:
        """Return the first position of a place that this one has chosen, given its own counters."""
        if not self.place.kind.transfers:
            return self.first_position(child, cursor)
        first = transfer_at(self.tree, self.place, cursor, child)
        return self.position(cast(Place, first.place).nodes.entry, first.cursor)

    def metadata(self, position: Position | None, *, has_path: bool) -> Mapping[str, object]:
        """Return the metadata of an activation here for traces.

        Args:
            position: The position of the lane.
            has_path: Whether to include the run path, whose text grows with the run.
        """
        name, cursor = self.place.name, as_cursor(self.arrived(position)["cursor"])
        if has_path:
            return trace_metadata(self.paths, self.place, cursor[: len(self.place.counts)])
        return {"agent_name": name, "lc_agent_name": name, "agent_address": self.address(cursor)}

    def run_state(self, state: LaneState, config: RunnableConfig) -> RunState:
        """Return the visible state: that of the lane, and of the enclosing lanes."""
        position = state.get("position")
        changes = state.get("middleware")
        if self.is_inner:
            outer: RunState = config["configurable"][PARENT_STATE]
            return outer.with_new(state["messages"], state["values"], changes)
        turn, last = clock_in(position)
        configurable = config.get("configurable", {})
        before: Before = configurable.get(EMITTED_BEFORE) or (0, ())
        emitted = () if last > before[0] else before[1]  # only the first step of a run continues one
        ledger: Ledger | None = configurable.get(LEDGER)
        if ledger is not None:
            ledger.begin_step(position.get("spent", {}) if position else {})
        return RunState(
            state["messages"],
            state["values"],
            self.reducers,
            settled=position.get("settled", {}) if position else {},
            middleware=changes or {},
            clock=Clock(turn, max(last, before[0]), emitted),
            ledger=ledger,
        )

    def update(
        self,
        writes: Sequence[Write],
        values: Mapping[str, object],
        merged: Mapping[str, object] | None = None,
    ) -> Any:
        """Return writes for the `values` channel: a list in an inner lane, in the root as stored.

        Args:
            writes: The writes.
            values: The values before them.
            merged: The values after them, if they are known.
        """
        if self.is_inner:
            return list(writes)
        several = [each["values"] for each in writes]
        if not self.reducers.fields:
            return self.reducers.update(several)
        return self.reducers.stored(values, several, merged)

    def position(self, node: str | None, cursor: Cursor, signal: Signal | None = None) -> Position:
        """Return the position of a lane with its next node; None if it has ended."""
        position = Position(next=node, cursor=list(cursor), tree=self.tree.fingerprint)
        if signal:
            position["signal"] = signal
        return position


def trace_metadata(paths: RunPaths, place: Place, cursor: Cursor) -> dict[str, object]:
    """Return the metadata of an activation for traces."""
    number = iteration(place, cursor)
    return {
        "agent_name": place.name,
        "lc_agent_name": place.name,
        "agent_address": address(place, cursor),
        "run_path": str(paths.at(place, cursor)),
        **({} if number is None else {"iteration": number}),
    }


def _is_in_lane(place: Place, around: Place) -> bool:
    """Return whether a place is in the lane of one that encloses it, or is it."""
    inside = places_to(place)[len(places_to(around)) :]
    return not any(step.starts_lane for step in inside)


class _Values(OwnDict):
    """The values that an activation sees; to read a missing one by `[...]` is an error that says so."""

    place: Place
    cursor: Cursor

    def __missing__(self, name: object) -> object:
        at = address(self.place, self.cursor[: len(self.place.counts)])
        there = [each for each in self if each.isidentifier()]
        raise MissingValueError(self.place.home.name, str(name), there, at)


class NamedCall(Protocol):
    """A tool call that a context is made for."""

    def identity(self) -> Sequence[object]:
        """Return the identity of the call among the other calls of its activation."""


class ActivationContext(Context[Any]):
    """The context of one activation; messages, entries and run path are computed on first access."""

    runs: Any = None
    call: "NamedCall | None" = None

    def __init__(
        self,
        place: Place,
        cursor: Cursor,
        paths: RunPaths,
        state: RunState,
        *,
        history: HistoryPolicy = unchanged,
        own_count: int = 0,
        answer: Sequence[object] = (),
        asked: int = 0,
        address: str | None = None,
        shorten: Callable[[list[Entry]], list[Entry]] | None = None,
        said: Sequence[BaseMessage] | None = None,
    ) -> None:
        self._place, self._cursor, self._paths, self._records = place, cursor, paths, state.middleware
        self._messages, self._history, self._own_count = state.messages, history, own_count
        self._shorten, self._said = shorten, state.messages if said is None else said
        self._turn = state.clock.turn
        self._seen: list[BaseMessage] | None = None
        self._visible: list[BaseMessage] | None = None
        values = _Values(state.values)
        values._shared = state.values
        values.place, values.cursor = place, cursor
        self.values = MappingProxyType(values)
        self.answered, self._address, self.asked = bool(answer), address, asked
        self.answer = own(answer[0]) if answer else None
        item = state.item
        is_shared = item is None or (type(item.value) in LEAVES and not item.results)
        self.item = item if is_shared else own(item)

    def kept(self, name: str) -> Mapping[str, object]:
        """Return the data of the nearest enclosing agent with this name."""
        return kept_for(self._records, keeper_node(self._place, name))

    @override
    def run(self, name: str, request: Any = None, *, key: str | int | None = None) -> Any:
        if self.runs is None:
            raise AgentGraphError(
                f"{self.address}: ctx.run({shown(name)}): only a function agent runs agents, "
                "those that it declares: function_agent(name, fn, agents=[...])"
            )
        return self.runs.run(name, request, key)

    @property
    @override
    def messages(self) -> list[BaseMessage]:
        if self._visible is None:
            self._visible = own_list(self.seen)
        return self._visible

    @property
    def seen(self) -> list[BaseMessage]:
        """The messages as the state has them: for code that changes none."""
        # No `cached_property`: in Python 3.11 it locks for all, and `history` may run agents.
        if self._seen is None:
            self._seen = visible(
                self._messages,
                self._history,
                self._place.name,
                self.address,
                self._path_reader() if self._paths.has_chains else self._paths.at_message,
                self._own_count,
                inner_names=self._paths.inner_names,
                shorten=self._shorten,
            )
        return self._seen

    def _path_reader(self) -> PathOf:
        return PathReader(self._paths, self._said, self._turn, self._place, self._cursor)

    @property
    @override
    def name(self) -> str:
        return self._place.name

    @cached_property
    @override
    def entries(self) -> list[Entry]:
        inner = self._paths.inner_names
        path_of = self._path_reader() if self._paths.has_chains else self._paths.at_message
        return own_list([Entry(m, agent_of(m, inner), address_of(m), path_of) for m in self._messages])

    @cached_property
    @override
    def address(self) -> str:
        return self._address or address(self._place, self._cursor[: len(self._place.counts)])

    @property
    @override
    def idempotency_key(self) -> str:
        configurable = get_config()["configurable"]
        thread = configurable.get("thread_id")
        if not thread:
            thread = configurable.get("checkpoint_ns", "").partition("|")[0]
        call = self.call.identity() if self.call is not None else ""
        named = [thread, self._turn, without_attempts(self.address), call]
        named += configurable.get(AROUND, ())
        named += self._cursor[len(self._place.counts) :]  # where a function of a loop is asked
        return str(uuid5(NAMESPACE_URL, as_json(named, in_ascii=True)))

    @property
    @override
    def run_path(self) -> RunPath:
        return self._paths.at(self._place, self._cursor[: len(self._place.counts)])

    @property
    @override
    def iteration(self) -> int | None:
        return iteration(self._place, self._cursor)

    @property
    @override
    def context(self) -> Any:
        return get_runtime().context

    @property
    @override
    def config(self) -> RunnableConfig:
        return get_config()

    @property
    @override
    def store(self) -> BaseStore | None:
        return get_runtime().store

    @property
    @override
    def runtime(self) -> Runtime[Any]:
        return get_runtime()


def _renamed_tools(
    called: Sequence[Place], there: Sequence[Place], handoffs: Sequence[Handoff]
) -> dict[str, str]:
    """Return the names that an agent's tools have now, by those that a thread knows, if they differ.

    Args:
        called: The agents that it calls.
        there: The agents that it may transfer to.
        handoffs: The handoffs to each of these.
    """
    named = zip(there, handoffs, strict=True)
    moves = [(each.tool_name, f"transfer_to_{to.name}") for to, each in named if each.name is None]
    names = [*(each.names for each in called), *moves]
    return {each[-1]: each[0] for each in names if each[-1] != each[0]}

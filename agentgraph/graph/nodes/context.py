"""What a node knows: its place, what is visible there, and the context of users' functions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime, get_runtime
from typing_extensions import override

from agentgraph.agents.agents import GraphAgent, HistoryPolicy
from agentgraph.agents.context import Context, Entry
from agentgraph.agents.limits import Limits, check_limits
from agentgraph.agents.run_path import RunPath
from agentgraph.agents.signals import Signal
from agentgraph.errors import ReducerError, ValueConflictError
from agentgraph.graph.history import unchanged, visible
from agentgraph.graph.middleware_state import Records, applied
from agentgraph.graph.nodes.telling import Clock, clock_of
from agentgraph.graph.state import LaneState, Position, address_of, speaker_of
from agentgraph.graph.values import Beside, Reducers, Write, Written, as_writes, is_same
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import Cursor, RunPaths, address, as_cursor, cursor_at, iteration, way_to
from agentgraph.tree.places import Place, Tree, targets
from agentgraph.tree.position import Callbacks, Next, advance, transfer

SURROUNDINGS = "__agentgraph_surroundings"
"""Where a lane finds in `config["configurable"]` what is around it.

Savers keep what is configurable with each checkpoint, but for keys that begin like this one.
"""

LIMITS = "__agentgraph_limits"
"""Where a run may have `Limits` in `config["configurable"]`, over those that were compiled."""


_NO_REDUCERS = Reducers()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a lane sees of the lanes around it, by reference."""

    messages: Sequence[BaseMessage]
    values: dict[str, Any]
    transfers: int = 0
    """How many transfers there were in this turn."""
    reducers: Reducers = _NO_REDUCERS
    settled: Mapping[str, Any] = field(default_factory=dict)
    """The values that end a conflict at a join, by name."""
    middleware: Records = field(default_factory=dict)
    """What the middleware of chat agents keeps, where the node reads it."""
    clock: Clock = field(default_factory=Clock)
    """Numbers what is told in the step of the root."""

    def with_new(self, messages: Sequence[BaseMessage], written: Written) -> "Surroundings":
        """Return these with new messages after them, and with what was written applied."""
        values = self.reducers.applied(self.values, as_writes(written))
        return replace(self, messages=[*self.messages, *messages], values=values)

    def check(self, where: str, writes: Sequence[Write]) -> None:
        """Refuse what a reducer fails on, before the agent at an address writes it.

        Raises:
            ReducerError: A reducer failed.
        """
        if self.reducers.channels:
            try:
                self.reducers.applied(self.values, writes)
            except ReducerError as error:
                raise ReducerError(error.name, error.value, error.error, where) from error.__cause__


class Site:
    """A place of a tree as its node knows it: the same for all activations.

    Attributes:
        has_border: Whether an activation may end with a function still to be asked, so that the
            node can be the next one again.
        runs_trees: Whether a graph runs here that may itself be a compiled tree.
        is_surrounded: Whether a lane is around the one that the place is in.
    """

    def __init__(
        self,
        tree: Tree,
        place: Place,
        paths: RunPaths,
        reducers: Reducers = _NO_REDUCERS,
        *,
        has_border: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.tree, self.place, self.paths, self.reducers = tree, place, paths, reducers
        self.has_border = has_border
        self._limits = check_limits(limits)
        self.runs_trees = isinstance(place.agent, GraphAgent)
        self.targets = targets(tree, place)
        self.target_agents = [target.agent for target in self.targets.values()]
        self.is_surrounded = _is_surrounded(place)
        self._last: tuple[Cursor, str] | None = None

    def address(self, cursor: Cursor) -> str:
        """Return the address of an activation here; that of the last one is kept."""
        last = self._last
        if last is None or last[0] != cursor:
            self._last = last = (cursor, address(self.place, cursor))
        return last[1]

    def arrived(self, position: Position | None) -> Position:
        """Return the position of an activation here, also where someone jumped here without one."""
        position = position or Position(next=None, cursor=[], tree=self.tree.fingerprint)
        left = self.tree.by_node.get(position["next"] or "")
        if left is self.place:
            return position
        cursor = cursor_at(self.place, left, as_cursor(position["cursor"]))
        return self.position(Next(self.place, cursor), position.get("transfers", 0))

    def surroundings(self, state: LaneState, config: RunnableConfig) -> Surroundings:
        """Return all that is visible here: what is around the lane, and the lane's own."""
        position = state.get("position")
        transfers = position.get("transfers", 0) if position else 0
        if not self.is_surrounded:
            settled = position.get("settled", {}) if position else {}
            records = state.get("middleware", {})
            clock = clock_of(position, config)
            return Surroundings(
                state["messages"], state["values"], transfers, self.reducers, settled, records, clock
            )
        around: Surroundings = config["configurable"][SURROUNDINGS]
        changes = state.get("middleware")
        records = applied(around.middleware, [changes]) if changes else around.middleware
        seen = around.with_new(state["messages"], state["values"])
        return replace(seen, transfers=transfers, middleware=records)

    def limits(self, config: RunnableConfig) -> Limits:
        """Return the limits of a run."""
        return check_limits(config.get("configurable", {}).get(LIMITS) or self._limits)

    def update(self, writes: Sequence[Write]) -> Any:
        """Return writes as a node of this lane writes them: merged in the root, else as they are."""
        return list(writes) if self.is_surrounded else self.reducers.update(writes)

    def and_kept(self, update: Any, values: Mapping[str, Any]) -> Any:
        """Return what `update` gave, and after it values that the package keeps itself."""
        kept = Write(by="", values=dict(values))
        if self.is_surrounded:
            return [*(update or ()), kept]
        before = [update] if isinstance(update, dict) else update or ()
        return self.reducers.update([*(Write(by="", values=each) for each in before), kept])

    def behind(
        self, cursor: Cursor, signal: Signal | None, callbacks: Callbacks, transfers: int = 0
    ) -> Position:
        """Return what to write where this place has ended."""
        return self.position(advance(self.tree, self.place, cursor, signal, callbacks), transfers)

    def handed_over(self, cursor: Cursor, target: str, transfers: int) -> Position:
        """Return what to write where this place has transferred to one of its targets."""
        return self.position(transfer(self.tree, self.place, cursor, target), transfers)

    def position(self, comes: Next, transfers: int = 0) -> Position:
        """Return what to write where `comes` is what comes next."""
        position = Position(
            next=comes.place.entry_node if comes.place else None,
            cursor=list(comes.cursor),
            tree=self.tree.fingerprint,
        )
        if comes.signal:
            position["signal"] = comes.signal
        if transfers:
            position["transfers"] = transfers
        return position


def _is_surrounded(place: Place) -> bool:
    """Tell whether a lane is around the one that a place is in."""
    return any(step.starts_lane for step in way_to(place)[1:])


class _Last(NamedTuple):
    """The last write of a name by one of those that are joined."""

    number: int
    by: str
    value: Any


def joined(
    where: str,
    handed_back: Mapping[int, Sequence[Write]],
    beside: Beside,
    around: Surroundings,
    label: Callable[[int], str] = lambda number: "",
) -> list[Write]:
    """Return what several wrote as the writes of the node that joins them, in order.

    Args:
        where: The address of the node's agent.
        handed_back: The writes of each, by its number, in declared order.
        beside: Tells which of them ran side by side.
        around: What was visible when they began.
        label: Names one by its number, where its address is that of the node's agent.

    Raises:
        ValueConflictError: Two conflict under a name that nothing settles.
        ReducerError: A reducer failed on what they wrote together.
    """
    found = _conflicts(handed_back, beside, around)
    if left := [name for name in found if name not in around.settled]:
        written = [(each.by, shown(each.value)) for each in found[left[0]]]
        labels = [label(each.number) if each.by == where else "" for each in found[left[0]]]
        raise ValueConflictError(where, left, written, labels)
    writes = [write for each in handed_back.values() for write in each]
    if ends := {name: around.settled[name] for name in found}:
        writes.append(Write(by=where, values=ends))
    around.check(where, writes)
    return writes


def _conflicts(
    handed_back: Mapping[int, Sequence[Write]], beside: Beside, around: Surroundings
) -> dict[str, tuple[_Last, _Last]]:
    """Return two writes that conflict, by the name that they have."""
    found: dict[str, tuple[_Last, _Last]] = {}
    equal: dict[str, list[list[_Last]]] = {}
    for number, writes in handed_back.items():
        for name, mine in _last(number, writes).items():
            if name in found or name in around.reducers.channels:
                continue
            groups = equal.setdefault(name, [])
            other = next(_conflicting(mine, groups, beside), None)
            if other is not None:
                found[name] = (other, mine)
    return found


def _conflicting(mine: _Last, groups: list[list[_Last]], beside: Beside) -> Iterator[_Last]:
    """Yield the writes that conflict with one, and put it to those of an equal value."""
    group: list[_Last] | None = None
    for each in groups:
        if group is None and is_same(each[0].value, mine.value):
            group = each
        else:
            yield from (other for other in each if beside(other.number, mine.number))
    if group is None:
        groups.append(group := [])
    group.append(mine)


def _last(number: int, writes: Sequence[Write]) -> dict[str, _Last]:
    """Return the last write of each name, where an agent wrote it."""
    last = {name: _Last(number, each["by"], v) for each in writes for name, v in each["values"].items()}
    return {name: each for name, each in last.items() if each.by}


class ActivationContext(Context):
    """The context of one activation; messages, entries and run paths are made when asked for."""

    def __init__(
        self,
        place: Place,
        cursor: Cursor,
        paths: RunPaths,
        *,
        messages: Sequence[BaseMessage],
        values: Mapping[str, Any],
        history: HistoryPolicy = unchanged,
        under_way: int = 0,
        answer: Sequence[Any] = (),
    ) -> None:
        self._place, self._cursor, self._paths = place, cursor, paths
        self._messages, self._history, self._under_way = messages, history, under_way
        self.values = MappingProxyType(dict(values))
        self.answered = bool(answer)
        self.answer = answer[0] if answer else None

    @cached_property
    @override
    def messages(self) -> list[BaseMessage]:
        return visible(
            self._messages,
            self._history,
            self._place.name,
            self.address,
            self._paths.of,
            self._under_way,
        )

    @property
    @override
    def name(self) -> str:
        return self._place.name

    @cached_property
    @override
    def entries(self) -> list[Entry]:
        return [Entry(m, speaker_of(m), address_of(m), self._paths.of) for m in self._messages]

    @cached_property
    @override
    def address(self) -> str:
        return address(self._place, self._cursor[: len(self._place.counts)])

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
    def runtime(self) -> Runtime[Any]:
        return get_runtime()

"""A place as its nodes know it: where a lane is there, what is around it, and where it goes on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from agentgraph.agents.limits import Limits, check_limits
from agentgraph.agents.signals import Signal
from agentgraph.errors import ReducerError
from agentgraph.graph.middleware_state import Records, applied
from agentgraph.graph.nodes.telling import Clock, clock_of
from agentgraph.graph.state import LaneState, Position
from agentgraph.graph.values import Reducers, Write, Written, as_writes
from agentgraph.tree.addresses import Cursor, RunPaths, address, as_cursor, cursor_at, way_to
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
        self.runs_trees = place.kind.runs_graph
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

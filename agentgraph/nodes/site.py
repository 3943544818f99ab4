"""A place as its nodes know it: where a lane is there, what is around it, and where it goes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from agentgraph.addresses import Cursor, RunPaths, address, as_cursor, cursor_at, way_to
from agentgraph.places import Place, Tree, targets
from agentgraph.position import Judge, Next, advance, transfer
from agentgraph.signals import Signal
from agentgraph.state import LaneState, Position

SURROUNDINGS = "__agentgraph_surroundings"
"""Where a lane finds in `config["configurable"]` what is around it.

Savers keep what is configurable with each checkpoint, but for keys that begin like this one.
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a lane sees of the lanes around it, by reference."""

    messages: Sequence[BaseMessage]
    values: dict[str, Any]

    def with_new(self, messages: Sequence[BaseMessage], values: dict[str, Any]) -> "Surroundings":
        """Return these with what is new behind and over them."""
        return Surroundings([*self.messages, *messages], {**self.values, **values})


class Site:
    """A place of a tree as its node knows it: the same for all activations."""

    def __init__(self, tree: Tree, place: Place, paths: RunPaths) -> None:
        self.tree, self.place, self.paths = tree, place, paths
        self.targets = targets(tree, place)
        self.target_agents = [target.agent for target in self.targets.values()]
        self._is_surrounded = _is_surrounded(place)
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
        return self.position(Next(self.place, cursor))

    def surroundings(self, state: LaneState, config: RunnableConfig) -> Surroundings:
        """Return all that is visible here: what is around the lane, and the lane's own."""
        if not self._is_surrounded:
            return Surroundings(state["messages"], state["values"])
        around: Surroundings = config["configurable"][SURROUNDINGS]
        return around.with_new(state["messages"], state["values"])

    def behind(self, cursor: Cursor, signal: Signal | None, judge: Judge) -> Position:
        """Return what to write where this place has ended."""
        return self.position(advance(self.tree, self.place, cursor, signal, judge))

    def handed_over(self, cursor: Cursor, target: str) -> Position:
        """Return what to write where this place has transferred to one of its targets."""
        return self.position(transfer(self.tree, self.place, cursor, target))

    def position(self, comes: Next) -> Position:
        """Return what to write where `comes` is what comes next."""
        position = Position(
            next=comes.place.node if comes.place else None,
            cursor=list(comes.cursor),
            tree=self.tree.fingerprint,
        )
        if comes.signal:
            position["signal"] = comes.signal
        return position


def _is_surrounded(place: Place) -> bool:
    """Tell whether a lane is around the one that a place is in."""
    return any(step.starts_lane for step in way_to(place)[1:])

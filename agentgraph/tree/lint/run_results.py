"""The values that are results of a run or a call, which callers read."""

from functools import cached_property

from agentgraph.tree.lint.ways import Ways
from agentgraph.tree.places import Place


class Results:
    """The values of a tree that are results."""

    def __init__(self, ways: Ways) -> None:
        """Make them.

        Args:
            ways: The ways through the tree.
        """
        self.ways = ways
        self.places = [each for each in ways.tree.places if not each.kind.is_inner]

    def of(self, place: Place) -> frozenset[str]:
        """Return the values of a place that are results, which callers read.

        Those are the answers of people, all values of an agent with which the run, or a call, ends, and
        the outputs of the last agents that write any.
        """
        if place.kind.asks or place in self._ending:
            return self.ways.accesses.writes(place)
        is_last = any(each in self._last for each in place.around)
        outputs = [getattr(place.agent, option, None) for option in ("output_key", "errors_key")]
        return frozenset(each for each in outputs if is_last and each is not None)

    @cached_property
    def _ending(self) -> frozenset[Place]:
        """The node places with which the run or a call may end, and those in lanes that these run."""
        lanes = [each for each in self.places if each.parent is None or each.is_called]
        found: set[Place] = set()
        while lanes:
            for node in self.ways.nodes(lanes.pop()):
                if None in self.ways.next(node) and node not in found:
                    found.add(node)
                    lanes += self._last_lanes(node) if node.kind.is_parallel else ()
        return frozenset(found)

    def _last_lanes(self, place: Place) -> list[Place]:
        """Return the lanes of a place; of a workflow those that no other step needs."""
        lanes = self.ways.tree.lanes(place)
        needed = {each for lane in lanes for each in self.ways.needed(lane)}
        return [each for each in lanes if each not in needed]

    @cached_property
    def _last(self) -> frozenset[Place]:
        """The last agents that write, of the tree and of agents that are called."""
        starts = [each for each in self.places if each.parent is None or each.is_called]
        return frozenset(map(self._last_in, starts))

    def _last_in(self, place: Place) -> Place:
        while not place.is_node and not place.kind.loops:
            inside = self.ways.tree.children[place]
            writing = [each for each in inside if self._writes(each)]
            place = (writing or inside)[-1]
        return place

    def _writes(self, place: Place) -> bool:
        return any(self.ways.accesses.writes(each) for each in self.ways.inside(place))

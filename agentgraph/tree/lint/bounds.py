"""Findings about loops that nothing can end, and limits that cannot hold."""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from agentgraph.safe_repr import shown
from agentgraph.tree.lint.accesses import Accesses
from agentgraph.tree.lint.findings import Finding, FindingKind, addresses
from agentgraph.tree.lint.ways import Ways
from agentgraph.tree.places import Place

_FEW = 3
"""Maximum number of iterations of a loop that may be meant to run all of them."""


class Need(NamedTuple):
    """The least that an agent takes to end.

    Attributes:
        steps: The number of activations.
        model_calls: The number of calls of models.
    """

    steps: int = 0
    model_calls: int = 0

    def __add__(self, other: object) -> "Need":
        assert isinstance(other, Need)
        return Need(self.steps + other.steps, self.model_calls + other.model_calls)

    def times(self, count: int) -> "Need":
        """Return the need of several iterations."""
        return Need(self.steps * count, self.model_calls * count)


class Bounds:
    """Finds loops that nothing can end, and limits that cannot hold."""

    def __init__(self, ways: Ways) -> None:
        """Make it.

        Args:
            ways: The ways through the tree.
        """
        self.ways, self.tree = ways, ways.tree
        self.accesses: Accesses = ways.accesses

    def endless_loops(self) -> Iterator[Finding]:
        """Yield the loops with a model that nothing can end before their last iteration."""
        for place in self.tree.places:
            most = getattr(place.agent, "max_iterations", None)
            if not place.kind.loops or most is None or most <= _FEW:
                continue
            inside = self.ways.inside(place)
            if any(each.kind.calls_model for each in inside) and not self._may_end(place):
                advice = (
                    f"it always runs {most} times; pass until=, or let an agent inside return "
                    "ag.BreakLoop()"
                )
                yield self._finding("endless_loop", place, place.given_name, advice)

    def _finding(self, kind: FindingKind, place: Place, name: str, advice: str) -> Finding:
        way = self.ways.way_to(self.ways.first(place))
        return Finding(
            kind=kind,
            address=place.path,
            name=name,
            way=addresses(way),
            advice=advice,
        )

    def _may_end(self, loop: Place) -> bool:
        if getattr(loop.agent, "until", None) is not None:
            return True
        return any(self._ends(each, loop) for each in self._inside(loop))

    def _inside(self, place: Place) -> Iterator[Place]:
        """Yield the node places of an agent in its lane, and in the lanes that it runs in parallel."""
        for node in self.ways.tree.node_places(place):
            yield node
            if node.kind.is_parallel:
                for lane in self.tree.lanes(node):
                    yield from self._inside(lane)

    def _ends(self, place: Place, loop: Place) -> bool:
        ends = self.accesses.ends(place)
        nearest = next(each for each in place.around if each.kind.loops)
        return ends.exit or (ends.break_loop and nearest is loop)

    def impossible_limits(self) -> Iterator[Finding]:
        """Yield the limits that are always reached, or never."""
        for place in self.tree.places:
            yield from self._limits_of(place)
            yield from self._timeout_of(place)
            yield from self._rounds_of(place)

    def _limits_of(self, place: Place) -> Iterator[Finding]:
        outer = [each for around in [*place.around][1:] for each in around.limits]
        need = self._need(place)
        for limits in place.limits:
            for measure, bound in limits.bounds.items():
                above = [each.bounds[measure] for each in outer if measure in each.bounds]
                least = getattr(need, measure, 0)
                if above and bound > min(above):
                    advice = (
                        f"an agent around it has the limit {min(above)}; lower it, or raise that one"
                    )
                elif bound < least and limits.on_limit != "ask":
                    advice = f"the agent needs at least {least}; raise it from {bound}"
                else:
                    continue
                yield self._finding("impossible_limit", place, measure, advice)

    def _timeout_of(self, place: Place) -> Iterator[Finding]:
        limits = [each for around in place.around for each in around.limits]
        seconds = min((each.seconds for each in limits if each.seconds is not None), default=None)
        for option in ("timeout", "tool_timeout"):
            timeout = getattr(place.agent, option, None)
            timeout = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
            if seconds is not None and isinstance(timeout, int | float) and timeout > seconds:
                advice = (
                    f"the limit of {seconds:g} seconds is reached first; lower {option}={timeout:g}"
                )
                yield self._finding("impossible_limit", place, option, advice)

    def _rounds_of(self, place: Place) -> Iterator[Finding]:
        """Yield the bound of a chat agent that leaves no call for the answer after a tool."""
        chat = place.chat
        if chat is None or chat.max_iterations != 1 or chat.on_max_iterations != "raise":
            return
        back = [
            tool
            for tool, code in self.accesses.own(place)
            if tool is not None and not code.signals and tool not in chat.return_directly
        ]
        if back:
            advice = f"after a call of {shown(back[0])} no call is left for the answer; pass 2 or more"
            yield self._finding("impossible_limit", place, "max_iterations", advice)

    def _need(self, place: Place) -> Need:
        kind, inside = place.kind, self.tree.children.get(place, ())
        if kind.is_leaf or kind.is_flattened:
            return Need(1, int(kind.calls_model))
        if kind.has_items:
            return Need()
        if kind.is_swarm:
            return self._need(inside[getattr(place.agent, "first", 0)])
        if kind.chooses:
            skips = len(inside) < len(getattr(place.agent, "targets", ())) or self._skips(place)
            return Need() if skips else self._least([self._need(each) for each in inside])
        if kind.is_parallel:
            needs = [self._need(each) for each in inside if not _may_be_left_out(each)]
            return self._least(needs) if kind.first_wins else sum(needs, Need())
        body = self._in_a_row(inside)
        most = getattr(place.agent, "max_iterations", None) or 1
        return body.times(most) if kind.loops and not self._may_end(place) else body

    def _skips(self, place: Place) -> bool:
        ends = self.accesses.ends(place)
        return ends.proceed or ends.exit or ends.break_loop

    def _least(self, needs: list[Need]) -> Need:
        return Need(*(min(each) for each in zip(*needs, strict=True))) if needs else Need()

    def _in_a_row(self, places: tuple[Place, ...]) -> Need:
        need = Need()
        for each in places:
            need += self._need(each)
            ends = [self.accesses.ends(node) for node in self._inside(each)]
            if any(end.exit or end.break_loop for end in ends):
                break
        return need


def _may_be_left_out(step: Place) -> bool:
    return step.undoes or (step.step is not None and step.step.when is not None)

"""The ways through a tree, and the values that may have been written on them.

# The problem

Models, functions and the data of a run decide which agent runs next. A value may be missing on one way
and not on another. A warning helps only if that way is possible, and a function may choose a
way because a value is there.

# The rule

Two approximations are used, one for each side:

- `written_before` has all values that may have been written before a place starts, and `written_first`
  before it starts for the first time. Each edge counts that an agent may take, so a value that is not
  in them is missing for sure.
- `missing_on` looks for a way without a write. It starts at a place that may be the first to start
  without the value, and from which the reader follows whatever is chosen: else the choice may be the
  one that the value needs. It takes only edges whose choice does not depend on what was written: a
  model's, or that of a function that reads neither the value, nor the iteration, nor a value that an
  earlier turn may have left.

The first turn counts: in later ones all values of earlier turns are there.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import cast

from agentgraph.agents.agents import EachAgent
from agentgraph.agents.dependencies import upstream
from agentgraph.agents.kinds import staying_keys
from agentgraph.tree.lint.accesses import Accesses, arguments
from agentgraph.tree.lint.code import Code
from agentgraph.tree.places import Place
from agentgraph.tree.position import next_nodes, start
from agentgraph.tree.targets import handoff_of

EVERYTHING = "*"
"""In a set of names: any name."""
Way = tuple[Place, ...]
"""Node places in the order in which they run."""


class Ways:
    """The ways through a tree."""

    def __init__(self, accesses: Accesses, local: Iterable[str] = ()) -> None:
        """Make them.

        Args:
            accesses: The reads and writes of its places.
            local: The names of the values that stay in the lane that wrote them.
        """
        self.accesses, self.tree = accesses, accesses.tree
        self.local = frozenset(local)
        self._written: dict[Place, dict[Place, frozenset[str]]] = {}
        self._leaving: dict[Place, frozenset[str]] = {}
        self._inside: dict[Place, list[Place]] = {}
        self._first: dict[Place, frozenset[str]] = {}
        self._next: dict[Place, tuple[Place | None, ...]] = {}
        self._nodes: dict[Place, tuple[Place, ...]] = {}
        self._previous: dict[Place, list[Place]] = {}

    # the graph of a lane

    def inside(self, place: Place) -> list[Place]:
        """Return a place and all places inside it, in the order of the tree."""
        if not self._inside:
            for each in self.tree.places:
                for around in each.around:
                    self._inside.setdefault(around, []).append(each)
        return self._inside[place]

    def nodes_inside(self, place: Place) -> list[Place]:
        """Return the node places inside a place."""
        return [each for each in self.inside(place) if each.is_node and not each.kind.is_inner]

    def lane_of(self, place: Place) -> Place:
        """Return the place at which the lane of a place starts."""
        while not place.starts_lane and place.parent is not None:
            place = place.parent
        return place

    def first(self, place: Place) -> Place:
        """Return the first node place inside a place."""
        first = start(self.tree, place).place
        assert first is not None
        return first

    def nodes(self, lane: Place) -> tuple[Place, ...]:
        """Return the node places of a lane."""
        if lane not in self._nodes:
            places = self.tree.node_places(lane)
            self._nodes[lane] = tuple(each for each in places if not each.kind.is_inner)
        return self._nodes[lane]

    def next(self, place: Place) -> tuple[Place | None, ...]:
        """Return the node places that may follow one, unless the run ends; None is the lane's end."""
        if place not in self._next:
            ends = replace(self.accesses.ends(place), exit=False)
            self._next[place] = next_nodes(self.tree, place, ends)
        return self._next[place]

    def _before(self, place: Place) -> list[Place]:
        """Return the node places that a place may follow."""
        if place not in self._previous:
            nodes = self.nodes(self.lane_of(place))
            self._previous |= {each: [] for each in nodes}
            for each in nodes:
                for following in self.next(each):
                    if following is not None:
                        self._previous[following].append(each)
        return self._previous[place]

    # what is written

    def leaving(self, place: Place) -> frozenset[str]:
        """Return the values that a node place may write, with those of the lanes that it runs."""
        if place not in self._leaving:
            around = place.parent
            names = {*self._own_writes(place)}
            while not place.starts_lane and around is not None and not around.is_node:
                names |= self._own_writes(around)  # of the checks around it
                if around.starts_lane:
                    break
                around = around.parent
            for lane in self.tree.lanes(place):
                names |= self.written_in(lane) - self.local
            if place.kind.has_items:
                names -= staying_keys(_each(place))
            self._leaving[place] = frozenset(names)
        return self._leaving[place]

    def _own_writes(self, place: Place) -> frozenset[str]:
        every = {EVERYTHING} if self.accesses.writes_all(place) else set()
        return self.accesses.writes(place) | every

    def written_in(self, lane: Place) -> frozenset[str]:
        """Return the values that a lane may write."""
        return frozenset(name for each in self.nodes(lane) for name in self.leaving(each))

    def written_before(self, place: Place) -> frozenset[str]:
        """Return the values that may have been written when a node place starts, in the first turn."""
        lane = self.lane_of(place)
        if lane not in self._written:
            self._written[lane] = self._flow(lane)
        return self._written[lane][place]

    def _flow(self, lane: Place) -> dict[Place, frozenset[str]]:
        before = {each: frozenset[str]() for each in self.nodes(lane)}
        before[self.first(lane)] = self.given_to(lane)
        for target in (each for each in before if each.is_target):
            before[target] |= {*arguments(handoff_of(target).args_schema)}
        queue = deque(before)
        while queue:
            place = queue.popleft()
            after = before[place] | self.leaving(place)
            for each in self.next(place):
                if each is not None and not after <= before[each]:
                    before[each] |= after
                    queue.append(each)
        return before

    def written_first(self, place: Place) -> frozenset[str]:
        """Return the values that may have been written when a node place starts for the first time."""
        if place not in self._first:
            lane = self.lane_of(place)
            names = self.given_to(lane, is_first=True)
            earlier = _reached(self._before(place), self._before)
            first = self.first(lane)
            nodes = _reached([] if first is place else [first], lambda n: self._after(n, place))
            self._first[place] = names.union(*map(self.leaving, nodes & earlier))
        return self._first[place]

    def _after(self, place: Place, without: Place) -> list[Place]:
        return [each for each in self.next(place) if each is not None and each is not without]

    def given_to(self, lane: Place, *, is_first: bool = False) -> frozenset[str]:
        """Return the values that may have been written when a lane starts, or does so first."""
        runner = lane.parent
        if runner is None:
            return frozenset()
        before = self.written_first(runner) if is_first else self.written_before(runner)
        return before | {*self._added(lane, runner, is_first=is_first)}

    def _added(self, lane: Place, runner: Place, *, is_first: bool) -> Iterator[str]:
        if lane.is_item:
            yield _each(runner).as_
        elif lane.is_called:
            for each in self.tree.lanes(runner):
                if not (is_first and each is lane):
                    yield from self.written_in(each)  # it may have been called before
            yield from self._own_writes(runner)
            tools = getattr(runner.agent, "tools", ())
            named = (each for each in tools if getattr(each, "agent", None) is not None)
            schemas = [each.args_schema for each in named if each.agent.name == lane.given_name]
            yield from (name for each in schemas for name in arguments(each))
        for each in self.tree.lanes(runner) if lane.undoes else self.needed(lane):
            yield from self.written_in(each)

    def needed(self, lane: Place) -> list[Place]:
        """Return the lanes on which the step of a workflow depends."""
        if lane.step is None or lane.workflow is None or lane.parent is None:
            return []
        names = {each.name: each.depends_on for each in lane.workflow.steps}
        needed = upstream(names, lane.given_name)
        return [
            each for each in self.tree.lanes(lane.parent) if each.step and each.given_name in needed
        ]

    # a way without a write

    def way_to(self, place: Place) -> Way:
        """Return a way from the start of the run to a node place."""
        lane = self.lane_of(place)
        inside = self._path(lane, place, lambda _a, _b: True) or (place,)
        return inside if lane.parent is None else (*self.way_to(lane.parent), *inside)

    def missing_on(self, place: Place, name: str) -> Way | None:
        """Return a way to a node place on which a value is not written; None if none is known."""
        lane = self.lane_of(place)
        allowed = self._leading_to(place)
        ways: dict[Place, Way] = {place: (place,)}
        queue = deque([place])
        while queue:
            there = queue.popleft()
            if _lacks(self.written_first(there), name):
                return self._from_start(lane, there, ways[there], name)
            for each in self._before(there):
                is_open = each in allowed and each not in ways and self._passes(each, name)
                if is_open and self._may_take(each, there, name, place):
                    ways[each] = (each, *ways[there])
                    queue.append(each)
        entry = self.first(lane)
        if entry not in ways:
            return None
        if lane.parent is None or not self._is_passed_on(lane, name):
            return None
        around = self.missing_on(lane.parent, name)
        return None if around is None else (*around, *ways[entry])

    def _is_passed_on(self, lane: Place, name: str) -> bool:
        """Return whether a value that is missing around a lane may be missing in it.

        The lane must run whenever the place around it does, and no lane that it needs writes the value.
        """
        if lane.is_called or lane.undoes or (lane.step is not None and lane.step.when is not None):
            return False
        return all(self._lane_passes(each, name) for each in self.needed(lane))

    def _from_start(self, lane: Place, there: Place, way: Way, name: str) -> Way | None:
        """Return a way from the start of the run; None if each depends on what was written."""
        certain = self._leading_to(there)
        inside = self._path(
            lane, there, lambda a, b: a in certain or self.is_free(a, b, name, counts=True)
        )
        if inside is None:
            return None
        whole = (*inside, *way[1:])
        if lane.parent is None:
            return whole
        outer = self._from_start(self.lane_of(lane.parent), lane.parent, (lane.parent,), name)
        return None if outer is None else (*outer, *whole)

    def _path(self, lane: Place, to: Place, is_open: Callable[[Place, Place], bool]) -> Way | None:
        first = self.first(lane)
        ways: dict[Place, Way] = {first: (first,)}
        queue = deque([first])
        while queue and to not in ways:
            place = queue.popleft()
            for each in self.next(place):
                if each is not None and each not in ways and is_open(place, each):
                    ways[each] = (*ways[place], each)
                    queue.append(each)
        return ways.get(to)

    def _leading_to(self, place: Place) -> set[Place]:
        """Return the node places of its lane after which a place runs, whatever is chosen."""
        nodes = self.nodes(self.lane_of(place))
        queue = [each for each in nodes if None in self.next(each) and each is not place]
        avoiding = {*queue}
        while queue:
            for each in self._before(queue.pop()):
                if each not in avoiding and each is not place:
                    avoiding.add(each)
                    queue.append(each)
        return {*nodes} - avoiding

    def _passes(self, place: Place, name: str) -> bool:
        """Return whether a node place may end without a write of a value."""
        if _lacks(self.leaving(place), name):
            return True
        if (
            not place.kind.is_parallel
            or place.kind.has_items
            or not _lacks(self._own_writes(place), name)
        ):
            return False
        lanes = [each for each in self.tree.lanes(place) if not each.undoes]
        passed = [self._lane_passes(each, name) for each in lanes]
        return any(passed) if place.kind.first_wins else all(passed)

    def _lane_passes(self, lane: Place, name: str) -> bool:
        if lane.step is not None and lane.step.when is not None:
            when = [code for option, code in self.accesses.asked(lane) if option == "when"]
            named = [Code(reads={lane.step.when: "always"})] if isinstance(lane.step.when, str) else []
            if all(self._is_free_of(code, name, lane, self.given_to(lane)) for code in (*when, *named)):
                return True
        reached, queue = {self.first(lane)}, [self.first(lane)]
        while queue:
            place = queue.pop()
            if not self._passes(place, name):
                continue
            for each in self.next(place):
                if each is None:
                    return True
                if each not in reached and self.is_free(place, each, name):
                    reached.add(each)
                    queue.append(each)
        return False

    # choices

    def _may_take(self, place: Place, to: Place, name: str, goal: Place) -> bool:
        """Return whether an edge may be taken: if the choice is free, or makes no difference."""
        return self.is_free(place, to, name) or not self._may_write(place, name, goal)

    def _may_write(self, place: Place, name: str, goal: Place) -> bool:
        """Return whether a value may be written between a node place and a later one."""
        after = _reached(self._after(place, goal), lambda node: self._after(node, goal))
        return any(not _lacks(self.leaving(each), name) for each in after)

    def is_free(self, place: Place, to: Place | None, name: str, *, counts: bool = False) -> bool:
        """Return whether an edge may be taken whatever was written, a value above all.

        Args:
            place: The node place from which it leads.
            to: The next one.
            name: The name of the value.
            counts: Whether it may depend on the iteration.
        """
        if place.kind.is_swarm and to is not self._first_of(place):
            return False  # in the first turn it starts at its first agent
        ways = self.next(place)
        if len(ways) < 2:
            return True
        known = self.written_before(place) | self.leaving(place)
        codes = [*self._deciding(place), *self._ending_loops(place, to)]
        return all(self._is_free_of(code, name, place, known, counts=counts) for code in codes)

    def _first_of(self, swarm: Place) -> Place:
        first: int = getattr(swarm.agent, "first", 0)
        return self.first(self.tree.children[swarm][first])

    def _deciding(self, place: Place) -> Iterator[Code]:
        for option, code in self.accesses.asked(place):
            if option == "choose":
                yield code
        for each in place.rules.reads(place.agent):
            if place.kind.chooses:
                yield Code(reads={each.name: "always"})
        inside = [place]
        if place.kind.is_parallel:
            inside = [node for lane in self.tree.lanes(place) for node in self.nodes(lane)]
        for node in inside:
            yield from (code for tool, code in self.accesses.own(node) if tool is None and code.signals)

    def _ending_loops(self, place: Place, to: Place | None) -> Iterator[Code]:
        kept = () if to is None else tuple(to.around)
        for around in place.around:
            if around.kind.loops and around not in kept:
                yield from (code for option, code in self.accesses.asked(around) if option == "until")
            if around.starts_lane:
                return

    def _is_free_of(
        self, code: Code, name: str, place: Place, known: frozenset[str], *, counts: bool = False
    ) -> bool:
        """Return whether a function decides without a value, the iteration and earlier turns."""
        if not code.is_known or code.reads_all or name in code.reads:
            return False
        if code.counts and not counts and any(each.kind.loops for each in place.around):
            return False
        anywhere = self.accesses.written_anywhere
        return all(each not in anywhere or not _lacks(known, each) for each in code.reads)

    def knows_more(self, code: Code, name: str, place: Place) -> bool:
        """Return whether a function may only read a value where it knows that it is there."""
        others = replace(code, reads={each: how for each, how in code.reads.items() if each != name})
        return not self._is_free_of(others, name, place, self.written_before(place))


def _reached(places: Iterable[Place], following: Callable[[Place], Iterable[Place]]) -> set[Place]:
    """Return places and all that follow them."""
    found, queue = set[Place](), [*places]
    while queue:
        place = queue.pop()
        if place not in found:
            found.add(place)
            queue += following(place)
    return found


def _each(place: Place) -> EachAgent:
    return cast(EachAgent, place.agent)


def _lacks(names: frozenset[str], name: str) -> bool:
    return name not in names and EVERYTHING not in names

"""Where a lane is and what comes next: pure functions of a place, a cursor and a signal.

A cursor holds a counter for each loop around a place, outermost first, so its size does not
depend on how often they went round. Together with the place it gives the address and the run
path of an activation; nothing else has to be stored.
"""

import re
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

from agentgraph.agents import (
    FunctionAgent,
    LoopAgent,
    ParallelAgent,
)
from agentgraph.places import Place, Tree
from agentgraph.run_path import RunPath, RunStep
from agentgraph.signals import May, Signal, allowed

Cursor = tuple[int, ...]
Until = Callable[[Place, Cursor], bool]
"""Asked at the end of an iteration, with the loop and the cursor in it: whether the loop ends."""


class Next(NamedTuple):
    """What comes after a place.

    Attributes:
        place: The stop to run next; None where the lane ends.
        cursor: The counters of the loops around it.
        signal: What the end of the lane hands to the lane around it.
    """

    place: Place | None
    cursor: Cursor
    signal: Signal | None = None


def start(tree: Tree, place: Place, cursor: Cursor = ()) -> Next:
    """Return the first stop inside `place`, entered with the counters of the loops around it."""
    while not place.is_stop:
        if isinstance(place.agent, LoopAgent):
            cursor = (*cursor, 0)
        place = tree.children[place][0]
    return Next(place, cursor)


def advance(tree: Tree, place: Place, cursor: Cursor, signal: Signal | None, until: Until) -> Next:
    """Return what comes after `place` ended with `signal`, walking outwards to the lane's end.

    A `break_loop` outside every loop changes nothing.
    """
    if signal == "break_loop" and not place.loops:
        signal = None
    while not place.starts_lane:
        parent = _parent(place)
        siblings = tree.children[parent]
        if signal is None and place.index + 1 < len(siblings):
            return start(tree, siblings[place.index + 1], cursor)
        if isinstance(parent.agent, LoopAgent):
            if signal is None and _goes_round(parent, cursor, until):
                return start(tree, siblings[0], (*cursor[:-1], cursor[-1] + 1))
            if signal == "break_loop":
                signal = None
            cursor = cursor[:-1]
        place = parent
    return Next(None, cursor, signal)


def ends(tree: Tree, place: Place) -> tuple[Place | None, ...]:
    """Return every stop that can follow `place` in its lane, None for the lane's end, each once."""
    return tuple(dict.fromkeys(way.place for way in _ways_on(tree, place)))


def may_do(tree: Tree, place: Place) -> May:
    """Return what a stop may do when it ends: for lanes, what can come out of any of them."""
    if isinstance(place.agent, FunctionAgent):
        return allowed(place.agent.fn)
    if not isinstance(place.agent, ParallelAgent):
        return May()
    lanes = [_outcomes(tree, lane) for lane in tree.children[place]]
    must_exit = any(lane == {"exit"} for lane in lanes)
    return May(
        go_on=all(None in lane for lane in lanes),
        exit=any("exit" in lane for lane in lanes),
        break_loop=not must_exit and any("break_loop" in lane for lane in lanes),
    )


def cursor_at(place: Place, left: Place | None, cursor: Cursor) -> Cursor:
    """Return the cursor for a jump to `place` from `left`: shared loops keep their counters."""
    around = left.loops if left else ()
    known = dict(zip(around, cursor, strict=False))
    return tuple(known.get(loop, 0) for loop in place.loops)


def address(place: Place, cursor: Cursor) -> str:
    """Return the address of an activation, such as `report/refine[1]/critic`."""
    counters = dict(zip(place.loops, cursor, strict=True))
    return "/".join(
        f"{step.segment}[{counters[step]}]" if step in counters else step.segment
        for step in _way_to(place)
    )


def parse_address(tree: Tree, text: str) -> tuple[Place, Cursor] | None:
    """Return the place and the cursor that an address names; None where the tree has no such."""
    place, cursor, counted = None, [], ""
    around: tuple[Place, ...] = (tree.root,)
    for part in text.split("/"):
        match = _PART.fullmatch(part)
        if place is not None and isinstance(place.agent, LoopAgent) != bool(counted):
            return None
        place = next((p for p in around if match and p.segment == match["segment"]), None)
        if place is None or match is None:
            return None
        around, counted = tree.children.get(place, ()), match["iteration"] or ""
        cursor += [int(counted)] if counted else []
    return (place, tuple(cursor)) if place and not counted else None


class RunPaths:
    """The run paths of a tree's activations.

    Paths share their beginnings: of each loop the paths at the start of its iterations are
    kept, so that the path of the next one costs only what is new. Threads may share one.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._iterations: dict[Place, tuple[Cursor, list[RunPath]]] = {}
        self._lock = threading.RLock()

    def at(self, place: Place, cursor: Cursor) -> RunPath:
        """Return the run path of an activation."""
        parent = place.parent
        if parent is None:
            return RunPath((RunStep(place.name),))
        siblings = self._tree.children[parent]
        if isinstance(parent.agent, LoopAgent):
            with self._lock:
                path = self._iteration(parent, cursor)
        else:
            path = self.at(parent, cursor)
        if isinstance(parent.agent, ParallelAgent):
            return path.append(_step(place, cursor))
        for sibling in siblings[: place.index + 1]:
            path = path.append(_step(sibling, cursor))
        return path

    def of(self, text: str) -> RunPath | None:
        """Return the run path of an address; None where the tree has no such."""
        found = parse_address(self._tree, text)
        return self.at(*found) if found else None

    def _iteration(self, loop: Place, cursor: Cursor) -> RunPath:
        around, starts = self._iterations.get(loop, ((), []))
        if around != cursor[:-1] or not starts:
            starts = [self.at(loop, cursor[:-1])]
            self._iterations[loop] = (cursor[:-1], starts)
        while len(starts) <= cursor[-1]:
            path = starts[-1]
            for child in self._tree.children[loop]:
                path = path.append(RunStep(child.name, len(starts) - 1))
            starts.append(path)
        return starts[cursor[-1]]


_PART = re.compile(r"(?P<segment>[^\[\]/]+)(\[(?P<iteration>\d+)\])?")


def _step(place: Place, cursor: Cursor) -> RunStep:
    return RunStep(place.name, cursor[len(place.loops) - 1] if place.loops else None)


def _parent(place: Place) -> Place:
    assert place.parent is not None
    return place.parent


def _way_to(place: Place | None) -> list[Place]:
    way = []
    while place is not None:
        way.append(place)
        place = place.parent
    return way[::-1]


def _goes_round(loop: Place, cursor: Cursor, until: Until) -> bool:
    agent = loop.agent
    assert isinstance(agent, LoopAgent)
    if agent.max_iterations is not None and cursor[-1] + 1 >= agent.max_iterations:
        return False
    return agent.until is None or not until(loop, cursor)


def _outcomes(tree: Tree, lane: Place) -> set[Signal | None]:
    """Return the signals with which a lane can end."""
    found: set[Signal | None] = set()
    first = start(tree, lane, (0,) * len(lane.loops)).place
    seen, left = {first}, [first]
    while left:
        for way in _ways_on(tree, cast(Place, left.pop())):
            if way.place is None:
                found.add(way.signal)
            elif way.place not in seen:
                seen.add(way.place)
                left.append(way.place)
    return found


def _ways_on(tree: Tree, place: Place) -> Iterator[Next]:
    """Yield all that can come after a stop; what its loops count does not matter."""
    may = may_do(tree, place)
    if may.go_on or (may.break_loop and not place.loops):
        yield from _ways_outwards(tree, place, None)
    if may.break_loop and place.loops:
        yield from _ways_outwards(tree, place, "break_loop")
    if may.exit:
        yield Next(None, (), "exit")


def _ways_outwards(tree: Tree, place: Place, signal: Signal | None) -> Iterator[Next]:
    while not place.starts_lane:
        parent = _parent(place)
        siblings = tree.children[parent]
        if signal is None and place.index + 1 < len(siblings):
            yield start(tree, siblings[place.index + 1])
            return
        if isinstance(parent.agent, LoopAgent) and signal == "break_loop":
            signal = None
        elif isinstance(parent.agent, LoopAgent):
            if parent.agent.max_iterations != 1:
                yield start(tree, siblings[0])
            if parent.agent.max_iterations is None and parent.agent.until is None:
                return
        place = parent
    yield Next(None, (), signal)

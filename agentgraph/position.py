"""Where a lane is and what comes next: pure functions of a place, a cursor and a signal.

A cursor holds a counter for each loop around a place, each chat agent that transfers begin at,
and each agent that runs as a tool, outermost first: an iteration, the hops so far, the number of
the call. Its size does not depend on how often loops went round; each hop adds a small number: i
for a transfer to the i-th sub-agent, 0 for one to the agent above. Together with the place it
gives the address and the run path of an activation; nothing else has to be stored.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any, NamedTuple, cast

from agentgraph.agents import (
    ChatAgent,
    FunctionAgent,
    LoopAgent,
    ParallelAgent,
)
from agentgraph.places import Count, Place, Tree, has_tools, targets
from agentgraph.run_path import RunPath, RunStep
from agentgraph.signals import May, Signal, allowed
from agentgraph.tools import tools_may

Cursor = tuple[Any, ...]
"""The counters: an `int` for an iteration or a call, a tuple of them for hops."""
Until = Callable[[Place, Cursor], bool]
"""Asked at the end of an iteration, with the loop and the cursor in it: whether the loop ends."""


class Next(NamedTuple):
    """What comes after a place.

    Attributes:
        place: The stop to run next; None where the lane ends.
        cursor: The counters there.
        signal: What the end of the lane hands to the lane around it.
    """

    place: Place | None
    cursor: Cursor
    signal: Signal | None = None


def as_cursor(counters: Iterable[Any]) -> Cursor:
    """Return a cursor as it was before it was saved: lists are tuples again."""
    return tuple(tuple(c) if isinstance(c, list) else c for c in counters)


def start(tree: Tree, place: Place, cursor: Cursor = ()) -> Next:
    """Return the first stop inside `place`, entered with the counters around it.

    The counters around an agent as a tool include the number of the call.
    """
    while not place.is_stop:
        if isinstance(place.agent, LoopAgent):
            cursor = (*cursor, 0)
        place = tree.children[place][0]
    return Next(place, (*cursor, ()) if place.counts_hops else cursor)


def advance(tree: Tree, place: Place, cursor: Cursor, signal: Signal | None, until: Until) -> Next:
    """Return what comes after `place` ended with `signal`, walking outwards to the lane's end.

    A `break_loop` outside every loop changes nothing. An agent that was transferred to, and ends
    without a transfer, ends the chat agent too at which the transfers began.
    """
    if signal == "break_loop" and not place.in_loop:
        signal = None
    while not place.starts_lane:
        parent = _parent(place)
        siblings = tree.children[parent]
        cursor = cursor[: len(parent.counts_inside)]
        if signal is None and _has_next(place, parent, siblings):
            return start(tree, siblings[place.index + 1], cursor)
        if isinstance(parent.agent, LoopAgent):
            if signal is None and _goes_round(parent, cursor, until):
                return start(tree, siblings[0], (*cursor[:-1], cursor[-1] + 1))
            if signal == "break_loop":
                signal = None
        place = parent
    return Next(None, cursor[: len(_counts_around(place))], signal)


def transfer(tree: Tree, place: Place, cursor: Cursor, name: str) -> Next:
    """Return what comes after `place` transferred to one of its `targets`."""
    target = targets(tree, place)[name]
    back = target is place.parent
    cursor = (*cursor[:-1], (*cursor[-1], 0 if back else target.index + 1))
    return Next(target, cursor) if back else start(tree, target, cursor)


def ends(tree: Tree, place: Place, may: May | None = None) -> tuple[Place | None, ...]:
    """Return every stop that can follow a place that does what it `may`, each once.

    None stands for the lane's end. Without `may` it does all that the place may do.
    """
    ways = _ways_on(tree, place, may or may_do(tree, place))
    return tuple(dict.fromkeys(way.place for way in ways))


def may_do(tree: Tree, place: Place) -> May:
    """Return what a stop may do when it ends: for lanes, what can come out of any of them."""
    agent = place.agent
    if isinstance(agent, FunctionAgent):
        return allowed(agent.fn)
    if isinstance(agent, ChatAgent):
        return May() | may_do_by_tools(place)
    if not isinstance(agent, ParallelAgent):
        return May()
    lanes = [_outcomes(tree, lane) for lane in tree.children[place]]
    must_exit = any(lane == {"exit"} for lane in lanes)
    return May(
        go_on=all(None in lane for lane in lanes),
        exit=any("exit" in lane for lane in lanes),
        break_loop=not must_exit and any("break_loop" in lane for lane in lanes),
    )


def may_do_by_tools(place: Place) -> May:
    """Return what a chat agent may do when its tools have run, but ask the model again."""
    agent = cast(ChatAgent, place.agent)
    return tools_may(agent) if has_tools(place) else May(go_on=False)


def cursor_at(place: Place, left: Place | None, cursor: Cursor) -> Cursor:
    """Return the cursor for a jump to `place` from `left`: shared counters keep their values.

    Loops begin at 0, and transfers are those that lead there directly.
    """
    known = dict(zip(left.counts if left else (), cursor, strict=False))
    for count in place.counts:
        if count.kind != "hops":
            known.setdefault(count, 0)
        elif count not in known or left is None or _led_to(left, count) != _led_to(place, count):
            known[count] = _led_to(place, count)
    return tuple(known[count] for count in place.counts)


def _led_to(place: Place, count: Count) -> tuple[int, ...]:
    """Return the hops that lead from where transfers begin to the agent that a place is or is in."""
    way = way_to(place)
    inside = takewhile(lambda step: step.is_target, way[way.index(count.place) + 1 :])
    return tuple(step.index + 1 for step in inside)


def iteration(place: Place, cursor: Cursor) -> int | None:
    """Return the iteration of the nearest loop, also in that loop itself; None outside any."""
    found = None
    for count, value in zip(place.counts_inside, cursor, strict=False):
        if count.kind == "iteration":
            found = value
    return found


def address(place: Place, cursor: Cursor) -> str:
    """Return the address of an activation.

    `report/refine[1]/critic` is the critic in the second iteration of a loop, `triage[1.0.2]/bills`
    the second sub-agent of a chat agent, after transfers to the first one (1) and back (0), and
    `writer/search(3)` an agent that the writer's fourth tool call runs.
    """
    counters = dict(zip(place.counts, cursor, strict=True))
    return "/".join(_part(step, counters) for step in way_to(place))


def root_address(tree: Tree) -> str:
    """Return the address at which a run begins."""
    return address(tree.root, cursor_at(tree.root, None, ()))


def way_to(place: Place | None) -> list[Place]:
    """Return a place and those around it, outermost first: one for each part of an address."""
    way = []
    while place is not None:
        way.append(place)
        place = place.parent
    return way[::-1]


def parse_address(tree: Tree, text: str) -> tuple[Place, Cursor] | None:
    """Return the place and the cursor that an address names; None where the tree has no such."""
    place: Place | None = None
    cursor: Cursor = ()
    for part in text.split("/"):
        match = _PART.fullmatch(part)
        found = match and _found(tree, place, match["segment"], match["call"] is not None)
        if match is None or found is None or len(cursor) != len(_counts_around(found)):
            return None
        place = found
        cursor = (*cursor, int(match["call"])) if match["call"] else cursor
        numbers = tuple(map(int, match["counts"].split("."))) if match["counts"] else ()
        if place.counts_hops:
            cursor = (*cursor, numbers)
        elif isinstance(place.agent, LoopAgent) and len(numbers) == 1:
            cursor = (*cursor, *numbers)
        elif numbers:
            return None
    if place is None or len(cursor) != len(place.counts):
        return None
    return (place, cursor) if _is_visited(tree, place, cursor) else None


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
        if parent is not None and place.is_target:
            return self.at(parent, cursor)  # the path of the transfers leads here
        path = self._entered(place, cursor)
        for target in _hopped(self._tree, place, cursor):
            path = path.append(_step(target, cursor))
        return path

    def _entered(self, place: Place, cursor: Cursor) -> RunPath:
        """Return the path to a place, before any transfer from there."""
        parent = place.parent
        if parent is None:
            return RunPath((RunStep(place.name),))
        if isinstance(parent.agent, LoopAgent):
            with self._lock:
                path = self._iteration(parent, cursor[: len(parent.counts_inside)])
        else:
            path = self.at(parent, cursor)
        if place.starts_lane:
            return path.append(_step(place, cursor))
        for sibling in self._tree.children[parent][: place.index + 1]:
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


_PART = re.compile(r"(?P<segment>[^\[\]()/]+)(\((?P<call>\d+)\))?(\[(?P<counts>\d+(\.\d+)*)\])?")


def _part(step: Place, counters: dict[Count, Any]) -> str:
    part = step.segment
    if (step, "call") in counters:
        part += f"({counters[Count(step, 'call')]})"
    if hops := counters.get(Count(step, "hops")):
        part += f"[{'.'.join(map(str, hops))}]"
    if (step, "iteration") in counters:
        part += f"[{counters[Count(step, 'iteration')]}]"
    return part


def _found(tree: Tree, around: Place | None, segment: str, called: bool) -> Place | None:
    """Return the place of a segment directly inside another one, or the root."""
    if around is None:
        return tree.root if segment == tree.root.segment and not called else None
    inside = tree.tools if called else tree.children
    return next((place for place in inside.get(around, ()) if place.segment == segment), None)


def _counts_around(place: Place) -> tuple[Count, ...]:
    return place.parent.counts_inside if place.parent else ()


def _hopped(tree: Tree, place: Place, cursor: Cursor) -> Iterator[Place]:
    """Yield where the transfers that began at a place led; stops where there is no such agent."""
    at: Place | None = place
    for hop in cursor[len(place.counts) - 1] if place.counts_hops else ():
        children = tree.children.get(at, ()) if at and isinstance(at.agent, ChatAgent) else ()
        if at is None or hop > len(children) or (hop == 0 and at is place):
            return
        at = children[hop - 1] if hop else at.parent
        if at is not None:
            yield at


def _is_visited(tree: Tree, place: Place, cursor: Cursor) -> bool:
    """Tell whether transfers lead to where an address says that they led."""
    at: Place | None = place
    target = place
    while at is not None:
        if at.counts_hops:
            hops = cursor[len(at.counts) - 1]
            led = [at, *_hopped(tree, at, cursor)]
            if len(led) != len(hops) + 1 or led[-1] is not target:
                return False
        if at.parent is not None and not at.is_target:
            target = at.parent
        at = at.parent
    return True


def _step(place: Place, cursor: Cursor) -> RunStep:
    return RunStep(place.name, iteration(place, cursor[: len(place.counts)]))


def _parent(place: Place) -> Place:
    assert place.parent is not None
    return place.parent


def _goes_round(loop: Place, cursor: Cursor, until: Until) -> bool:
    agent = loop.agent
    assert isinstance(agent, LoopAgent)
    if agent.max_iterations is not None and cursor[-1] + 1 >= agent.max_iterations:
        return False
    return agent.until is None or not until(loop, cursor)


def _has_next(place: Place, parent: Place, siblings: tuple[Place, ...]) -> bool:
    """Tell whether a sibling follows; the sub-agents of a chat agent do not follow each other."""
    return not isinstance(parent.agent, ChatAgent) and place.index + 1 < len(siblings)


def _outcomes(tree: Tree, lane: Place) -> set[Signal | None]:
    """Return the signals with which a lane can end."""
    found: set[Signal | None] = set()
    first = _first(tree, lane)
    seen, left = {first}, [first]
    while left:
        place = left.pop()
        for way in _ways_on(tree, place, may_do(tree, place)):
            if way.place is None:
                found.add(way.signal)
            elif way.place not in seen:
                seen.add(way.place)
                left.append(way.place)
    return found


def _ways_on(tree: Tree, place: Place, may: May) -> Iterator[Next]:
    """Yield all that can come after a stop; what is counted does not matter."""
    if may.go_on or (may.break_loop and not place.in_loop):
        yield from _ways_outwards(tree, place, None)
    if may.break_loop and place.in_loop:
        yield from _ways_outwards(tree, place, "break_loop")
    if may.transfer:
        for target in targets(tree, place).values():
            yield Next(_first(tree, target), ())
    if may.exit:
        yield Next(None, (), "exit")


def _ways_outwards(tree: Tree, place: Place, signal: Signal | None) -> Iterator[Next]:
    while not place.starts_lane:
        parent = _parent(place)
        siblings = tree.children[parent]
        if signal is None and _has_next(place, parent, siblings):
            yield Next(_first(tree, siblings[place.index + 1]), ())
            return
        if isinstance(parent.agent, LoopAgent) and signal == "break_loop":
            signal = None
        elif isinstance(parent.agent, LoopAgent):
            if parent.agent.max_iterations != 1:
                yield Next(_first(tree, siblings[0]), ())
            if parent.agent.max_iterations is None and parent.agent.until is None:
                return
        place = parent
    yield Next(None, (), signal)


def _first(tree: Tree, place: Place) -> Place:
    return cast(Place, start(tree, place).place)

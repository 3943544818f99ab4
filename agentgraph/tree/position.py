"""What comes next: pure functions of a place, a cursor and a signal.

When a stop has ended, the walk goes outwards through the agents around it. At each of them the lines of
this table are tried from top to bottom, and the first that fits is taken:

| the agent that has ended              | the way  | leads to                               |
|---------------------------------------|----------|----------------------------------------|
| is checked, and a check sends it back | "again"  | its first stop, in the next attempt    |
| is where the lane starts              | "end"    | the end of the lane                    |
| hands back by itself                  | "return" | the agent that transferred to it       |
| is not the last of its siblings       | "next"   | the first stop of the next sibling     |
| is the last in a loop that goes on    | "round"  | the first stop, in the next iteration  |
| none of these                         |          | the table, for the agent around it     |

With an exit only "end" fits. With a break_loop only "end" fits up to the nearest loop; that loop
has ended then, without a signal. `_outwards` is this walk: a run takes the first way that its counters
and functions let it take, a drawing shows all of them.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol, cast

from agentgraph.agents.agents import LoopAgent
from agentgraph.agents.signals import Capabilities, Signal
from agentgraph.tree.addresses import Cursor, counts_around, settled
from agentgraph.tree.kinds import capabilities_of, joined
from agentgraph.tree.places import Place, Tree, targets


class Callbacks(Protocol):
    """Asked as loops and checked agents end, by the functions that they were given."""

    def ends(self, loop: Place, cursor: Cursor) -> bool:
        """Tell whether a loop ends at the end of an iteration, by its `until`."""

    def repeats(self, place: Place, cursor: Cursor) -> bool:
        """Tell whether a place that has ended is to run again, by its checks."""


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


class _Way(NamedTuple):
    """A way on from a stop, which is taken if those before it are not.

    Attributes:
        kind: "again", where a place that has ended is checked; "round", where a loop may go round; and
            those that are always taken: "return" to the agent that transferred, "next" to the next
            sibling, and the "end" of the lane.
        at: The place that has ended there, or the loop.
        to: Where it leads; None at the end of the lane.
        signal: What the end of the lane hands to the lane around it.
        levels: How many transfers a return leaves.
    """

    kind: Literal["again", "round", "return", "next", "end"]
    at: Place
    to: Place | None
    signal: Signal | None = None
    levels: int = 0

    @property
    def asks(self) -> bool:
        """Whether a function says if it is taken."""
        return self.kind == "again" or (self.kind == "round" and _loop(self.at).until is not None)


def start(tree: Tree, place: Place, cursor: Cursor = (), attempt: int = 0) -> Next:
    """Return the first stop inside `place`, entered with the counters around it.

    The counters around an agent that is called include the number of the call.
    """
    cursor = (*cursor, attempt) if place.repeats else cursor
    while not place.is_stop:
        if place.kind.goes_round:
            cursor = (*cursor, 0)
        place = tree.children[place][0]
        cursor = (*cursor, 0) if place.repeats else cursor
    return Next(place, (*cursor, ()) if place.counts_hops else cursor)


def advance(
    tree: Tree, place: Place, cursor: Cursor, signal: Signal | None, callbacks: Callbacks
) -> Next:
    """Return what comes after `place` ended with `signal`, walking outwards to the lane's end.

    A `break_loop` outside every loop changes nothing. An agent that was transferred to, and ends
    without a transfer, ends the chat agent too at which the transfers began, unless it returns.
    """
    for way in _outwards(tree, place, signal):
        if (comes := _taken(tree, way, cursor, callbacks)) is not None:
            return comes
    raise AssertionError("a way outwards ends with the lane")


def _outwards(tree: Tree, place: Place, signal: Signal | None) -> Iterator[_Way]:
    """Yield where a stop that ended with `signal` may lead, up to what is always taken."""
    if signal == "break_loop" and not place.in_loop:
        signal = None
    levels = 0
    while True:
        if signal is None and place.checks:
            yield _Way("again", place, place)
        if place.starts_lane:
            yield _Way("end", place, None, signal)
            return
        parent = _parent(place)
        siblings = tree.children[parent]
        levels = levels + 1 if place.is_target else 0
        if signal is None and place.returns:
            yield _Way("return", place, parent, levels=levels)
            return
        if signal is None and _has_next(place, parent, siblings):
            yield _Way("next", place, siblings[place.index + 1])
            return
        if parent.kind.goes_round:
            loop = _loop(parent)
            if signal is None and loop.max_iterations != 1:
                yield _Way("round", parent, siblings[0])
                if loop.max_iterations is None and loop.until is None:
                    return
            signal = None if signal == "break_loop" else signal
        place = parent


def _taken(tree: Tree, way: _Way, cursor: Cursor, callbacks: Callbacks) -> Next | None:
    """Return what comes where a way is taken; None where it is not."""
    at, to = way.at, way.to
    if to is None:
        return Next(None, cursor[: len(counts_around(at))], way.signal)
    cursor = cursor[: len(at.counts_inside if way.kind == "round" else at.counts)]
    match way.kind:
        case "again":
            return _again(tree, at, cursor) if callbacks.repeats(at, cursor) else None
        case "round":
            goes = _goes_round(at, cursor, callbacks)
            return start(tree, to, (*cursor[:-1], cursor[-1] + 1)) if goes else None
        case "return":
            return _hop(tree, at, cursor, to, way.levels)
    return start(tree, to, cursor[: len(counts_around(to))])


def transfer(tree: Tree, place: Place, cursor: Cursor, name: str) -> Next:
    """Return what comes after `place` transferred to one of its `targets`."""
    return _hop(tree, place, cursor, targets(tree, place)[name])


def earlier(place: Place, cursor: Cursor) -> list[Cursor]:
    """Return where a chat agent was before sub-agents handed back to it, since it was entered."""
    if place.chat is None or not place.chat.sub_agents_return:
        return []
    at = _hops_at(place)
    found, below = [], 0
    for index, hop in reversed(list(enumerate(cursor[at]))):
        if hop == 0:
            below += 1
            continue
        if below == 0:
            break
        below -= 1
        if below == 0:
            found.append((*cursor[:at], cursor[at][:index], *cursor[at + 1 :]))
    return found


def ends(
    tree: Tree, place: Place, capabilities: Capabilities | None = None
) -> tuple[Place | None, ...]:
    """Return every stop that can follow a place that does what it `capabilities`, each once.

    None stands for the lane's end. Without `capabilities` it does all that the place may do.
    """
    ways = _ways_on(tree, place, capabilities or capabilities_at(tree, place))
    return tuple(dict.fromkeys(way.place for way in ways))


def asks_functions(tree: Tree, place: Place, capabilities: Capabilities) -> bool:
    """Tell whether a function may be asked as a stop ends: an `until`, or a check."""
    return any(way.asks for way in _ways(tree, place, capabilities))


def capabilities_at(tree: Tree, place: Place) -> Capabilities:
    """Return what a stop may do when it ends: for lanes, what can come out of any of them."""
    if not place.kind.is_fork:
        return capabilities_of(place.agent)
    lanes = [_outcomes(tree, lane) for lane in tree.lanes(place) if not lane.undoes]
    lanes = joined(place.agent, lanes)
    must_exit = any(lane == {"exit"} for lane in lanes)
    return Capabilities(
        go_on=all(None in lane for lane in lanes),
        exit=any("exit" in lane for lane in lanes),
        break_loop=not must_exit and any("break_loop" in lane for lane in lanes),
    )


def _parent(place: Place) -> Place:
    assert place.parent is not None
    return place.parent


def _hop(tree: Tree, place: Place, cursor: Cursor, target: Place, levels: int = 1) -> Next:
    """Return what comes after a transfer; one back is a hop for each of the levels that it leaves."""
    back = target is place.parent
    kept = cursor[: len(target.counts if back else place.counts)]
    at = _hops_at(place)
    hops = (*cursor[at], *([0] * levels if back else [target.index + 1]))
    cursor = (*kept[:at], hops, *kept[at + 1 :])
    return Next(target, cursor) if back else start(tree, target, cursor)


def _again(tree: Tree, place: Place, cursor: Cursor) -> Next:
    """Return the start of another attempt."""
    cursor = settled(tree, place, cursor)
    before = len(counts_around(place)) + place.is_called
    return start(tree, place, cursor[:before], cursor[before] + 1)


def _hops_at(place: Place) -> int:
    """Return which counter of a place counts the transfers that may lead from it."""
    return max(i for i, count in enumerate(place.counts) if count.kind == "hops")


def _goes_round(loop: Place, cursor: Cursor, callbacks: Callbacks) -> bool:
    agent = _loop(loop)
    if agent.max_iterations is not None and cursor[-1] + 1 >= agent.max_iterations:
        return False
    return agent.until is None or not callbacks.ends(loop, cursor)


def _loop(place: Place) -> LoopAgent:
    return cast(LoopAgent, place.agent)


def _has_next(place: Place, parent: Place, siblings: tuple[Place, ...]) -> bool:
    """Tell whether a sibling follows; the sub-agents of a chat agent do not follow each other."""
    return not parent.kind.hands_over and place.index + 1 < len(siblings)


def _outcomes(tree: Tree, lane: Place) -> set[Signal | None]:
    """Return the signals with which a lane can end."""
    found: set[Signal | None] = set()
    first = _first(tree, lane)
    seen, left = {first}, [first]
    while left:
        place = left.pop()
        for way in _ways_on(tree, place, capabilities_at(tree, place)):
            if way.place is None:
                found.add(way.signal)
            elif way.place not in seen:
                seen.add(way.place)
                left.append(way.place)
    return found


def _ways_on(tree: Tree, place: Place, capabilities: Capabilities) -> Iterator[Next]:
    """Yield all that can come after a stop; what is counted does not matter."""
    for way in _ways(tree, place, capabilities):
        to = way.to if way.to is None or way.kind == "return" else _first(tree, way.to)
        if way.kind != "again" or way.at.repeats:  # a check may only fail
            yield Next(to, (), way.signal)
    if capabilities.transfer:
        for target in targets(tree, place).values():
            yield Next(_first(tree, target), ())
    if capabilities.exit:
        yield Next(None, (), "exit")


def _ways(tree: Tree, place: Place, capabilities: Capabilities) -> Iterator[_Way]:
    """Yield the ways outwards from a stop that does what it `capabilities`."""
    if capabilities.go_on:
        yield from _outwards(tree, place, None)
    if capabilities.break_loop:
        yield from _outwards(tree, place, "break_loop")


def _first(tree: Tree, place: Place) -> Place:
    return cast(Place, start(tree, place).place)

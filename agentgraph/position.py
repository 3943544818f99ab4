"""What comes next: pure functions of a place, a cursor and a signal."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

from agentgraph.addresses import Cursor, counts_around
from agentgraph.agents import ChatAgent, FunctionAgent, LoopAgent, ParallelAgent
from agentgraph.places import Place, Tree, has_tools, targets
from agentgraph.signals import May, Signal, allowed
from agentgraph.tools import tools_may

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
    return Next(None, cursor[: len(counts_around(place))], signal)


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

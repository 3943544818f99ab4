"""What runs next: pure functions of a place, a cursor and a signal.

# The problem

A tree says which agents follow each other, but a graph only knows nodes and edges. When `critic` ends
in `sequential report [loop refine [writer, critic], boss]`, the next node is `writer` or `boss`. Which
one depends on the iteration, on the loop's `until`, and on whether the critic broke the loop. The
answer must survive a crash, must be the same after a resume in another process, and must follow when
somebody edits the state or goes back to an older checkpoint.

# What is not good enough

- A subgraph for each composite. LangGraph then knows where it is, but every level saves checkpoints of
  its own: with SQLite a step took 10 to 25 times as long, the file grew with the square of the run, and
  going back to a checkpoint inside a subgraph runs the whole subgraph again.
- A stack of open composites in the state. It has to be kept consistent with the tree, and an edit of
  the state or a jump with `Command(goto=...)` leaves the wrong stack.
- Counting iterations from the stream or from the history. Counts start at 0 after a resume, and what
  is read from the history grows with the run.
- Leaves that return `Command(goto=...)`. An edit of the state at such a checkpoint is lost: the run
  ends.

# The rule

All that has to be saved is the next node and its cursor, in the channel `position`. Everything else
follows from the tree. When a stop (a node) ends, walk outwards through its enclosing agents. At each
agent try the rows of this table from top to bottom, and take the first that fits:

| the agent that has ended              | the way  | leads to                               |
|---------------------------------------|----------|----------------------------------------|
| is checked, and a check sends it back | "again"  | its first stop, in the next attempt    |
| starts the lane                       | "end"    | the end of the lane                    |
| returns to the agent above by itself  | "return" | the agent that transferred to it       |
| is not the last of its siblings       | "next"   | the first stop of the next sibling     |
| is the last in a loop that continues  | "round"  | the first stop, in the next iteration  |
| none of these                         |          | the table, for the enclosing agent     |

With an exit only "end" fits. With a break_loop only "end" fits up to the nearest loop; that loop has
ended then, without a signal.

`_routes_outwards` is this walk, and has two readers. A run takes the first way that its counters and
functions allow (`advance`). A drawing shows all of them (`next_nodes`). So a run never takes an edge
that the graph does not have.

# An example

`sequential report [loop refine [writer, critic] (max_iterations=2), boss]`:

| ended    | cursor | signal     | the walk                                        | next     | cursor |
|----------|--------|------------|-------------------------------------------------|----------|--------|
| `writer` | `(0,)` |            | "next"                                          | `critic` | `(0,)` |
| `critic` | `(0,)` |            | the last in `refine`, which continues: "round"  | `writer` | `(1,)` |
| `critic` | `(1,)` |            | `refine` has reached its limit; then "next"     | `boss`   | `()`   |
| `critic` | `(0,)` | break_loop | `refine` has ended; then "next"                 | `boss`   | `()`   |
| `critic` | `(0,)` | exit       | `refine`, then `report`: "end", with the signal | the end  | `()`   |
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Literal, NamedTuple, Protocol, cast

from agentgraph.agents.agents import LoopAgent, SwarmAgent
from agentgraph.agents.kinds import active_key
from agentgraph.agents.signals import Capabilities, Signal
from agentgraph.tree.addresses import (
    Cursor,
    counts_around,
    innermost_transfers,
    places_to,
    visited_by,
    without_last_transfers,
)
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.targets import targets


class Callbacks(Protocol):
    """The users' functions that decide what runs next: `until` of loops, and checks."""

    def ends(self, loop: Place, cursor: Cursor) -> bool:
        """Return whether the `until` of a loop ends it after this iteration."""

    def repeats(self, place: Place, cursor: Cursor) -> bool:
        """Return whether a check sends a place that has ended back, to run again."""


class Next(NamedTuple):
    """What runs after a place.

    Attributes:
        place: The next stop; None at the end of the lane.
        cursor: The counters there.
        signal: The signal that the end of the lane passes to the enclosing lane.
    """

    place: Place | None
    cursor: Cursor
    signal: Signal | None = None


class _Route(NamedTuple):
    """A row of the table at the top of this file, for one place.

    Attributes:
        kind: The way. "again" and "round" may be refused by a check or a loop; the others never.
        at: The place that has ended, or for "round" the loop.
        to: Where it leads; None at the end of the lane.
        signal: The signal that the end of the lane passes to the enclosing lane.
        back: For "return": the names of the agents that it goes back to, one for each level.
    """

    kind: Literal["again", "round", "return", "next", "end"]
    at: Place
    to: Place | None
    signal: Signal | None = None
    back: tuple[str, ...] = ()

    @property
    def asks(self) -> bool:
        """Whether a function decides if it is taken."""
        return self.kind == "again" or (self.kind == "round" and _loop(self.at).until is not None)


def start(tree: Tree, place: Place, cursor: Cursor = (), attempt: int = 0) -> Next:
    """Return the first stop inside `place`.

    Args:
        tree: The tree.
        place: The place to enter.
        cursor: The counters enclosing it; for an agent that is called, its "call" counter too.
        attempt: The number of the attempt, where a check may send it back.
    """
    cursor = (*cursor, attempt) if place.repeats else cursor
    while not place.is_node:
        if place.kind.loops:
            cursor = (*cursor, 0)
        place = tree.children[place][0]
        cursor = (*cursor, 0) if place.repeats else cursor
    return Next(place, (*cursor, ()) if place.counts_transfers else cursor)


def advance(
    tree: Tree, place: Place, cursor: Cursor, signal: Signal | None, callbacks: Callbacks
) -> Next:
    """Return what runs after `place` ended with `signal`.

    A `break_loop` outside every loop changes nothing, but that of the root ends the run. An agent that
    was transferred to, and ends without a transfer, ends the chat agent at which the transfers began
    too, unless it returns.
    """
    for route in _routes_outwards(tree, place, signal):
        if (following := _taken(tree, route, cursor, callbacks)) is not None:
            return following
    raise AssertionError("the last way outwards is always taken")


class PlainRoute(NamedTuple):
    """A way on that asks no function, for all cursors of a place.

    Attributes:
        to: The next stop; None at the end of the lane.
        kept: How many counters stay.
        begun: The counters that begin there.
        rounds: For "round": how many iterations the loop has at most; 0 for other ways.
    """

    to: Place | None
    kept: int
    begun: Cursor
    rounds: float = 0


def plain_routes(tree: Tree, place: Place) -> tuple[PlainRoute, ...] | None:
    """Return the ways on from a stop that ends without a signal, for `advance_plainly`.

    None if a function may be asked, or the stop returns to the agent that transferred to it.
    """
    routes: list[PlainRoute] = []
    for route in _routes_outwards(tree, place, None):
        if route.asks or route.kind == "return":
            return None
        if route.to is None:
            routes.append(PlainRoute(None, len(counts_around(route.at)), ()))
            continue
        first = start(tree, route.to)
        if route.kind == "round":
            most = _loop(route.at).max_iterations
            rounds = inf if most is None else most
            routes.append(PlainRoute(first.place, len(route.at.counts_inside), first.cursor, rounds))
        else:
            routes.append(PlainRoute(first.place, len(counts_around(route.to)), first.cursor))
    return tuple(routes)


def advance_plainly(routes: tuple[PlainRoute, ...], cursor: Cursor) -> tuple[Place | None, Cursor]:
    """Return the next stop and its cursor, as `advance` does without a signal."""
    for to, kept, begun, rounds in routes:
        if not rounds:
            return to, (*cursor[:kept], *begun)
        if (iteration := cursor[kept - 1] + 1) < rounds:
            return to, (*cursor[: kept - 1], iteration, *begun)
    raise AssertionError("the last way outwards is always taken")


def _routes_outwards(tree: Tree, place: Place, signal: Signal | None) -> Iterator[_Route]:
    """Yield the ways on from a stop that ended with `signal`, in order; the last is always taken."""
    if signal == "break_loop" and not place.in_loop:
        signal = "exit" if place.parent is None else None  # alone, it ends the run
    back: tuple[str, ...] = ()
    while True:
        if signal is None and place.checks:
            yield _Route("again", place, place)
        if place.starts_lane:
            yield _Route("end", place, None, signal)
            return
        parent = _parent(place)
        siblings = tree.children[parent]
        back = (*back, parent.name) if place.is_target and not parent.kind.is_swarm else ()
        if signal is None and place.returns:
            yield _Route("return", place, parent, back=back)
            return
        if signal is None and _has_next(place, parent, siblings):
            yield _Route("next", place, siblings[place.index + 1])
            return
        if parent.kind.loops:
            loop = _loop(parent)
            if signal is None and loop.max_iterations != 1:
                yield _Route("round", parent, siblings[0])
                if loop.max_iterations is None and loop.until is None:
                    return
            signal = None if signal == "break_loop" else signal
        place = parent


def _taken(tree: Tree, route: _Route, cursor: Cursor, callbacks: Callbacks) -> Next | None:
    """Return what runs next by a way; None if a check or a loop refuses it."""
    at, to = route.at, route.to
    if to is None:
        return Next(None, cursor[: len(counts_around(at))], route.signal)
    cursor = cursor[: len(at.counts_inside if route.kind == "round" else at.counts)]
    match route.kind:
        case "again":
            return _next_attempt(tree, at, cursor) if callbacks.repeats(at, cursor) else None
        case "round":
            goes = _repeats(at, cursor, callbacks)
            return start(tree, to, (*cursor[:-1], cursor[-1] + 1)) if goes else None
        case "return":
            return transfer_at(tree, at, cursor, to, "/".join(route.back))
    return start(tree, to, cursor[: len(counts_around(to))])


def transfer(tree: Tree, place: Place, cursor: Cursor, target: Place) -> Next:
    """Return what runs after `place` transferred to one of its `targets`."""
    home = place.home
    return transfer_at(tree, home, cursor[: len(home.counts)], target)


def active_after(target: Place, before: Place) -> dict[str, object]:
    """Return the values that say who is active once `before` has handed over to `target`.

    A chat agent keeps itself where the target cannot hand over, as google-adk does: the next turn would
    be the target's, and so would every one after it.
    """
    group = target if before.parent is target else target.parent
    is_kept = group is target or (
        group is not None and (group.kind.is_swarm or _may_transfer_on(target))
    )
    kept = {group: target.name if is_kept or group is None else group.name}
    if target.chat:
        kept[target] = target.name
    return {key: name for each, name in kept.items() if each and (key := active_key(each.agent))}


def _may_transfer_on(place: Place) -> bool:
    """Return whether an agent that was transferred to may transfer itself."""
    may_transfer = place.chat is not None or place.kind.capabilities(place.agent).transfer
    return place.may_transfer and place.kind.is_leaf and may_transfer


def earlier_cursors(tree: Tree, place: Place, cursor: Cursor) -> list[Cursor]:
    """Return the cursors of a chat agent before each sub-agent that returned to it, the latest first.

    Those before it was entered are left out; empty where sub-agents do not return by themselves.
    """
    if place.chat is None or not place.chat.sub_agents_return:
        return []
    at = cast(int, innermost_transfers(place))
    visited = visited_by(tree, place.counts[at].place, cursor[at])
    cursors = []
    for number, there in reversed([*enumerate(visited[:-1])]):
        if place not in places_to(there):
            break
        if there is place:
            cursors.append((*cursor[:at], cursor[at][:number], *cursor[at + 1 :]))
    return cursors


def next_nodes(
    tree: Tree, place: Place, capabilities: Capabilities | None = None
) -> tuple[Place | None, ...]:
    """Return every stop that can follow a place, each once; None is the end of the lane.

    Args:
        tree: The tree.
        place: A stop.
        capabilities: What the place does when it ends; by default all that it may do.
    """
    routes = _all_next(tree, place, capabilities or capabilities_at(tree, place))
    return tuple(dict.fromkeys(route.place for route in routes))


def asks_functions(tree: Tree, place: Place, capabilities: Capabilities) -> bool:
    """Return whether an `until` or a check may be called when a stop ends."""
    return any(route.asks for route in _routes(tree, place, capabilities))


def capabilities_at(tree: Tree, place: Place) -> Capabilities:
    """Return what a stop may do when it ends; for a parallel node, the results of its lanes."""
    if not place.kind.is_parallel:
        return place.kind.capabilities(place.agent)
    lanes = [_outcomes(tree, lane) for lane in tree.lanes(place) if not lane.undoes]
    lanes = place.kind.joined(place.agent, lanes)
    must_exit = any(lane == {"exit"} for lane in lanes)
    return Capabilities(
        go_on=all(None in lane for lane in lanes),
        exit=any("exit" in lane for lane in lanes),
        break_loop=not must_exit and any("break_loop" in lane for lane in lanes),
    )


def _parent(place: Place) -> Place:
    assert place.parent is not None
    return place.parent


def transfer_at(
    tree: Tree, place: Place, cursor: Cursor, target: Place, added: str | None = None
) -> Next:
    """Return what runs after a transfer, or after a swarm has chosen where it begins.

    Args:
        tree: The tree.
        place: The place that transfers.
        cursor: Its cursor.
        target: The place to which it transfers: inside it, beside it or around it.
        added: What that adds to the run path, if it is not the target alone.
    """
    is_back = target is place.parent
    group = target if is_back else _parent(target)
    at = cast(int, innermost_transfers(group))
    kept = (*cursor[:at], (*cursor[at], added or target.name), *cursor[at + 1 : len(group.counts)])
    return Next(target, kept) if is_back else start(tree, target, kept)


def _next_attempt(tree: Tree, place: Place, cursor: Cursor) -> Next:
    """Return the start of the next attempt."""
    cursor = without_last_transfers(tree, place, cursor)
    before = len(counts_around(place)) + place.is_called
    return start(tree, place, cursor[:before], cursor[before] + 1)


def _repeats(loop: Place, cursor: Cursor, callbacks: Callbacks) -> bool:
    agent = _loop(loop)
    if agent.max_iterations is not None and cursor[-1] + 1 >= agent.max_iterations:
        return False
    return agent.until is None or not callbacks.ends(loop, cursor)


def _loop(place: Place) -> LoopAgent:
    return cast(LoopAgent, place.agent)


def _has_next(place: Place, parent: Place, siblings: tuple[Place, ...]) -> bool:
    """Return whether a sibling runs next; only where siblings have an order."""
    is_ordered = not (parent.kind.transfers or parent.kind.chooses or place.kind.is_inner)
    return is_ordered and place.index + 1 < len(siblings)


def _outcomes(tree: Tree, lane: Place) -> set[Signal | None]:
    """Return the signals with which a lane can end."""
    signals: set[Signal | None] = set()
    first = _first(tree, lane)
    seen, queue = {first}, [first]
    while queue:
        place = queue.pop()
        for route in _all_next(tree, place, capabilities_at(tree, place)):
            if route.place is None:
                signals.add(route.signal)
            elif route.place not in seen:
                seen.add(route.place)
                queue.append(route.place)
    return signals


def _all_next(tree: Tree, place: Place, capabilities: Capabilities) -> Iterator[Next]:
    """Yield all that can run after a stop, without cursors."""
    for route in _routes(tree, place, capabilities):
        to = route.to if route.to is None or route.kind == "return" else _first(tree, route.to)
        if route.kind != "again" or route.at.repeats:  # some checks only fail, and never send back
            yield Next(to, (), route.signal)
    for chosen in _choices(tree, place):
        yield Next(_first(tree, chosen), ())
    if capabilities.transfer:
        for target in targets(tree, place).values():
            yield Next(_first(tree, target), ())
    if capabilities.exit:
        yield Next(None, (), "exit")


def _choices(tree: Tree, place: Place) -> Sequence[Place]:
    """Return the places that a switch may choose, or at which a swarm may begin."""
    inside = tree.children.get(place, ()) if place.kind.chooses else ()
    swarm = cast(SwarmAgent, place.agent) if place.kind.is_swarm else None
    return inside if swarm is None or swarm.sticky else [inside[swarm.first]]


def _routes(tree: Tree, place: Place, capabilities: Capabilities) -> Iterator[_Route]:
    """Yield the ways outwards from a stop with these capabilities."""
    if capabilities.go_on:
        yield from _routes_outwards(tree, place, None)
    if capabilities.break_loop:
        yield from _routes_outwards(tree, place, "break_loop")


def _first(tree: Tree, place: Place) -> Place:
    return cast(Place, start(tree, place).place)

"""Computes the next node: pure functions of a place, a cursor and a signal.

# The problem

A tree defines the order of its agents, but a graph only knows nodes and edges. When `critic` ends
in `sequential report [loop refine [writer, critic], boss]`, the next node is `writer` or `boss`. Which
one depends on the iteration, on the loop's `until`, and on whether the critic broke the loop. The
answer must survive a crash, must be the same after a resume in another process, and must follow an edit
of the state or a return to an older checkpoint.

# Rejected designs

- A subgraph for each composite. LangGraph then knows the position, but every level saves its own
  checkpoints: with SQLite a step took 10 to 25 times as long, the file grew with the square of the run,
  and going back to a checkpoint inside a subgraph runs the whole subgraph again.
- A stack of open composites in the state. It has to be kept consistent with the tree, and an edit of
  the state or a jump with `Command(goto=...)` leaves the wrong stack.
- Counting iterations from the stream or from the history. Counts start at 0 after a resume, and the
  cost of reading the history grows with the run.
- Leaves that return `Command(goto=...)`. An edit of the state at such a checkpoint is lost: the run
  ends.

# The rule

Only the next node and its cursor are saved, in the channel `position`. Everything else follows from the
tree. When a node place ends, walk outwards through its enclosing agents. At each agent try the rows of
this table from top to bottom, and take the first that fits:

| the agent that has ended              | route    | leads to                               |
|---------------------------------------|----------|----------------------------------------|
| is checked, and a check sends it back | "again"  | its first node, in the next attempt    |
| starts the lane                       | "end"    | the end of the lane                    |
| returns to the agent above by itself  | "return" | the agent that transferred to it       |
| is not the last of its siblings       | "next"   | the first node of the next sibling     |
| is the last in a loop that continues  | "round"  | the first node, in the next iteration  |
| none of these                         |          | the table, for the enclosing agent     |

With an exit only "end" fits. With a break_loop only "end" fits up to the nearest loop; that loop has
ended then, without a signal.

`_routes_outwards` is this walk, and has two callers. A run takes the first route that its counters and
functions allow (`advance`). A drawing shows all of them (`next_nodes`). So a run never takes an edge
that is missing in the graph.

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
    """The users' functions that decide the next node: `until` of loops, and checks."""

    def ends(self, loop: Place, cursor: Cursor) -> bool:
        """Return whether the `until` of a loop ends it after this iteration."""

    def repeats(self, place: Place, cursor: Cursor) -> bool:
        """Return whether a check makes a place that has ended run again."""


class Next(NamedTuple):
    """The step after a place.

    Attributes:
        place: The next node place; None at the end of the lane.
        cursor: The counters there.
        signal: The signal that the end of the lane passes to the enclosing lane.
    """

    place: Place | None
    cursor: Cursor
    signal: Signal | None = None


class _Route(NamedTuple):
    """A row of the table at the top of this file, applied to a place.

    Attributes:
        kind: The route. A check or a loop may reject "again" and "round", but no others.
        at: The place that has ended, or for "round" the loop.
        to: The target; None at the end of the lane.
        signal: The signal that the end of the lane passes to the enclosing lane.
        back: For "return": the names of the agents to which it returns, one per level.
    """

    kind: Literal["again", "round", "return", "next", "end"]
    at: Place
    to: Place | None
    signal: Signal | None = None
    back: tuple[str, ...] = ()

    @property
    def asks(self) -> bool:
        """Whether a function decides whether the route is taken."""
        return self.kind == "again" or (self.kind == "round" and _loop(self.at).until is not None)


def start(tree: Tree, place: Place, cursor: Cursor = (), attempt: int = 0) -> Next:
    """Return the first node place inside `place`.

    Args:
        tree: The tree.
        place: The place to enter.
        cursor: The counters enclosing it; for a called agent, including its "call" counter.
        attempt: The number of the attempt, if a check may send it back.
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
    """Return the step after `place` ended with `signal`.

    A `break_loop` outside of every loop changes nothing, except that the root's ends the run. The
    target of a transfer that ends without a transfer also ends the chat agent at which the transfers
    began, unless it returns.
    """
    for route in _routes_outwards(tree, place, signal):
        if (following := _taken(tree, route, cursor, callbacks)) is not None:
            return following
    raise AssertionError("the last route outwards is always taken")


class PlainRoute(NamedTuple):
    """A route that calls no function, for all cursors of a place.

    Attributes:
        to: The next node place; None at the end of the lane.
        kept: The number of counters that stay.
        begun: The counters that start there.
        rounds: For "round": the maximum number of iterations of the loop; 0 for other routes.
    """

    to: Place | None
    kept: int
    begun: Cursor
    rounds: float = 0


def plain_routes(tree: Tree, place: Place) -> tuple[PlainRoute, ...] | None:
    """Return the routes from a node place that ends without a signal, for `advance_plainly`.

    None if a function may be called, or the place returns to the agent that transferred to it.
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
    """Return the next node place and its cursor, as `advance` does without a signal."""
    for to, kept, begun, rounds in routes:
        if not rounds:
            return to, (*cursor[:kept], *begun)
        if (iteration := cursor[kept - 1] + 1) < rounds:
            return to, (*cursor[: kept - 1], iteration, *begun)
    raise AssertionError("the last route outwards is always taken")


def _routes_outwards(tree: Tree, place: Place, signal: Signal | None) -> Iterator[_Route]:
    """Yield the routes from a node place that ended with `signal`; the last is always taken."""
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
    """Return the step of a route; None if a check or a loop rejects the route."""
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
    """Return the step after `place` transferred to one of its `targets`."""
    home = place.home
    return transfer_at(tree, home, cursor[: len(home.counts)], target)


def active_after(target: Place, before: Place) -> dict[str, object]:
    """Return the values with the active agents after a transfer from `before` to `target`.

    A chat agent stays active if the target cannot transfer, as in google-adk: otherwise the target
    would get the next turn and all later ones.
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
    may_transfer = place.chat is not None or place.kind.capabilities(place.agent).transfer
    return place.may_transfer and place.kind.is_leaf and may_transfer


def earlier_cursors(tree: Tree, place: Place, cursor: Cursor) -> list[Cursor]:
    """Return the cursors of a chat agent before each sub-agent that returned to it, the latest first.

    Those before its activation are left out; empty if sub-agents do not return by themselves.
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
    """Return every node place that can follow a place, each once; None is the end of the lane.

    Args:
        tree: The tree.
        place: A node place.
        capabilities: The ends of the place to consider; by default all its capabilities.
    """
    routes = _all_next(tree, place, capabilities or capabilities_at(tree, place))
    return tuple(dict.fromkeys(route.place for route in routes))


def asks_functions(tree: Tree, place: Place, capabilities: Capabilities) -> bool:
    """Return whether an `until` or a check may be called when a node place ends."""
    return any(route.asks for route in _routes(tree, place, capabilities))


def capabilities_at(tree: Tree, place: Place) -> Capabilities:
    """Return the possible ends of a node place; for a parallel node, those of its lanes."""
    if not place.kind.is_parallel:
        return place.kind.capabilities(place.agent)
    lanes = [_outcomes(tree, lane) for lane in tree.lanes(place) if not lane.undoes]
    lanes = place.kind.joined(place.agent, lanes)
    must_exit = any(lane == {"exit"} for lane in lanes)
    return Capabilities(
        proceed=all(None in lane for lane in lanes),
        exit=any("exit" in lane for lane in lanes),
        break_loop=not must_exit and any("break_loop" in lane for lane in lanes),
    )


def _parent(place: Place) -> Place:
    assert place.parent is not None
    return place.parent


def transfer_at(
    tree: Tree, place: Place, cursor: Cursor, target: Place, added: str | None = None
) -> Next:
    """Return the step after a transfer, or after a swarm has chosen its first agent.

    Args:
        tree: The tree.
        place: The place that transfers.
        cursor: Its cursor.
        target: The place to which it transfers: a sub-agent, a sibling or an enclosing agent.
        added: The steps of the transfer in the run path, if they are more than the target.
    """
    is_back = target is place.parent
    group = target if is_back else _parent(target)
    at = cast(int, innermost_transfers(group))
    kept = (*cursor[:at], (*cursor[at], added or target.name), *cursor[at + 1 : len(group.counts)])
    return Next(target, kept) if is_back else start(tree, target, kept)


def _next_attempt(tree: Tree, place: Place, cursor: Cursor) -> Next:
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
    """Return whether a sibling runs next; siblings without an order have none."""
    is_ordered = not (parent.kind.transfers or parent.kind.chooses or place.kind.is_inner)
    return is_ordered and place.index + 1 < len(siblings)


def _outcomes(tree: Tree, lane: Place) -> set[Signal | None]:
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
    for route in _routes(tree, place, capabilities):
        to = route.to if route.to is None or route.kind == "return" else _first(tree, route.to)
        if route.kind != "again" or route.at.repeats:  # some checks only fail, and never repeat
            yield Next(to, (), route.signal)
    for chosen in _choices(tree, place):
        yield Next(_first(tree, chosen), ())
    if capabilities.transfer:
        for target in targets(tree, place).values():
            yield Next(_first(tree, target), ())
    if capabilities.exit:
        yield Next(None, (), "exit")


def _choices(tree: Tree, place: Place) -> Sequence[Place]:
    inside = tree.children.get(place, ()) if place.kind.chooses else ()
    swarm = cast(SwarmAgent, place.agent) if place.kind.is_swarm else None
    return inside if swarm is None or swarm.sticky else [inside[swarm.first]]


def _routes(tree: Tree, place: Place, capabilities: Capabilities) -> Iterator[_Route]:
    if capabilities.proceed:
        yield from _routes_outwards(tree, place, None)
    if capabilities.break_loop:
        yield from _routes_outwards(tree, place, "break_loop")


def _first(tree: Tree, place: Place) -> Place:
    return cast(Place, start(tree, place).place)

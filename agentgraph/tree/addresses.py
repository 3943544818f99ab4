"""Cursors, addresses and run paths: where an activation is, computed from its place and counters.

The address and the run path of an activation need no storage of their own: they are functions of its
place and its cursor. A cursor is a tuple of counters, outermost first:

| counter     | one for each                          | value                                          |
|-------------|---------------------------------------|------------------------------------------------|
| "iteration" | enclosing loop                        | the iteration, from 0                          |
| "hops"      | chat agent at which transfers begin   | its transfers: i to sub-agent i, 0 back up     |
| "call"      | agent run as a tool, or for each item | its number; (number, attempt), (number, key)   |
|             | agent that a function runs            | the number of the call, or its key, a text     |
| "attempt"   | agent that a check may send back      | the attempt, from 0                            |
| "visit"     | node of a graph that is laid flat     | how often it ran before in this activation     |

In the tree `loop refine [writer, chat desk (sub-agents: bills, press)]`, in the second iteration, after
a transfer to `press`, the cursor is `(1, (2,))`, the address `refine[1]/desk[2]/press`, and the run
path `refine/writer/desk/writer/desk/press`.
"""

import re
import threading
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any
from urllib.parse import quote

from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.tree.places import Count, Place, Tree

Cursor = tuple[Any, ...]
"""The counters: an `int`, or a tuple of them for hops and for a call that runs again."""


def as_cursor(counters: Iterable[Any]) -> Cursor:
    """Return a cursor from its saved form, in which tuples are lists."""
    cursor = tuple(counters)
    if list not in map(type, cursor):
        return cursor
    return tuple([tuple(c) if isinstance(c, list) else c for c in cursor])


def cursor_at(place: Place, before: Place | None, cursor: Cursor) -> Cursor:
    """Return the cursor at `place` for a jump there from the place `before`.

    Counters that both places have keep their values. Other loops begin at iteration 0, and other hops
    are the transfers that lead to `place` directly.
    """
    known = dict(zip(before.counts if before else (), cursor, strict=False))
    for count in place.counts:
        if count.kind != "hops":
            known.setdefault(count, 0)
        elif count not in known or before is None or _hops_to(before, count) != _hops_to(place, count):
            known[count] = _hops_to(place, count)
    return tuple(known[count] for count in place.counts)


def entered(place: Place, around: Cursor) -> Cursor:
    """Return the cursor at the start of a place.

    Args:
        place: A place that is a node, or starts a lane.
        around: The counters enclosing it, including that of its call.
    """
    attempt: Cursor = (0,) if place.repeats else ()
    hops: Cursor = ((),) if place.counts_hops else ()
    return (*around, *attempt, *hops)


def iteration(place: Place, cursor: Cursor) -> int | None:
    """Return the iteration of the nearest loop, the place itself included; None outside all loops.

    For a node of a graph that is laid flat it is the number of its visit.
    """
    number = None
    for count, value in zip(place.counts_inside, cursor, strict=False):
        if count.kind in ("iteration", "visit"):
            number = value
    return number


def attempt(place: Place, cursor: Cursor) -> int:
    """Return how many times a check has sent a place back."""
    counters = dict(zip(place.counts, cursor, strict=False))
    return int(counters.get(Count(place, "attempt"), 0))


def attempts(place: Place, cursor: Cursor) -> list[Cursor]:
    """Return the cursors of all attempts of a place up to this one."""
    if not place.repeats:
        return [cursor]
    at = place.counts.index(Count(place, "attempt"))
    return [(*cursor[:at], attempt, *cursor[at + 1 :]) for attempt in range(cursor[at] + 1)]


def address(place: Place, cursor: Cursor) -> str:
    """Return the address of an activation.

    | address                   | activation                                                          |
    |---------------------------|---------------------------------------------------------------------|
    | `report/refine[1]/critic` | the critic in the second iteration of a loop                        |
    | `triage[1.0.2]/bills`     | the second sub-agent, after transfers to the first (1) and back (0) |
    | `writer/search(3)`        | the agent that the writer's fourth tool call runs                   |
    | `flow/research(bees)`     | the agent that a function runs with this key                        |
    | `writer/search(3.1)`      | the same agent in the second attempt of that call                   |
    | `job/files/read(7:f07)`   | the agent that runs for the eighth item, which has the key `f07`    |
    | `report/writer{1}`        | the second attempt of a writer whose work is checked                |
    | `job/planner[1]`          | the second visit of a node of a graph that is laid flat             |
    """
    counters = dict(zip(place.counts, cursor, strict=True))
    return "/".join(_part(step, counters) for step in way_to(place))


def address_template(place: Place) -> str | None:
    """Return a template of the addresses at a place, to fill with `%` from a cursor.

    None where a counter may be left out of an address, as all but iterations are.

    For `critic` in the loop `refine`: "report/refine[%s]/critic".
    """
    if any(count.kind != "iteration" for count in place.counts):
        return None
    loops = {count.place for count in place.counts}
    parts = [(step, step.segment.replace("%", "%%")) for step in way_to(place)]
    return "/".join(f"{part}[%s]" if step in loops else part for step, part in parts)


def root_address(tree: Tree) -> str:
    """Return the address of the root agent."""
    return address(tree.root, cursor_at(tree.root, None, ()))


def way_to(place: Place | None) -> list[Place]:
    """Return the enclosing places of a place and itself, outermost first: the parts of its address."""
    way = []
    while place is not None:
        way.append(place)
        place = place.parent
    return way[::-1]


def keeper_node(place: Place, name: str) -> str:
    """Return the node of the nearest enclosing agent with a name; empty for no name."""
    return next(each.node for each in reversed(way_to(place)) if each.name == name) if name else ""


def parse_address(tree: Tree, text: str) -> tuple[Place, Cursor] | None:
    """Return the place and the cursor of an address; None for an address that the tree cannot have."""
    place: Place | None = None
    cursor: Cursor = ()
    for part in text.split("/"):
        match = _PART.fullmatch(part)
        is_called = match is not None and bool(match["call"] or match["name"])
        inner = match and _place_inside(tree, place, match["segment"], is_called)
        if match is None or inner is None or len(cursor) != len(counts_around(inner)):
            return None
        if (match["again"] and not inner.is_tool) or (match["key"] is not None and not inner.is_item):
            return None
        if match["name"] and not inner.is_run:
            return None
        place = inner
        call = numbered_call(int(match["call"]), int(match["again"] or 0)) if match["call"] else None
        call = (match["name"] or call) if match["key"] is None else (call, match["key"])
        cursor = cursor if call is None else (*cursor, call)
        if place.repeats:
            cursor = (*cursor, int(match["attempt"] or 0))
        elif match["attempt"]:
            return None
        numbers = tuple(map(int, match["counts"].split("."))) if match["counts"] else ()
        if place.counts_hops:
            cursor = (*cursor, numbers)
        elif place.kind.goes_round and len(numbers) == 1:
            cursor = (*cursor, *numbers)
        elif place.kind.is_inner and len(numbers) <= 1:
            cursor = (*cursor, *(numbers or (0,)))
        elif numbers:
            return None
    if place is None or len(cursor) != len(place.counts):
        return None
    has_hops = any(count.kind == "hops" for count in place.counts)
    return (place, cursor) if not has_hops or _is_visited(tree, place, cursor) else None


def settled(tree: Tree, place: Place, cursor: Cursor) -> Cursor:
    """Return the cursor of a place that has ended, without the transfers that led away from it."""
    at = max((i for i, count in enumerate(place.counts) if count.kind == "hops"), default=None)
    if at is None:
        return cursor
    first = place.counts[at].place
    visited = [first, *_targets_of_hops(tree, first, cursor[: at + 1])]
    here = [i for i, each in enumerate(visited) if each is place]
    return (*cursor[:at], cursor[at][: here[-1]], *cursor[at + 1 :]) if here else cursor


def is_in_call(tree: Tree, text: str, place: Place, cursor: Cursor) -> bool:
    """Return whether an address is inside the attempt of a call that runs a place at a cursor."""
    activation = parse_address(tree, text)
    if activation is None or place not in way_to(activation[0]):
        return False
    around = len(counts_around(place)) + place.is_called
    return activation[1][:around] == cursor[:around]


def is_inside(tree: Tree, text: str, place: Place, cursor: Cursor) -> bool:
    """Return whether an address is that of a place at a cursor, or inside it, after any transfers."""
    activation = parse_address(tree, text)
    if activation is None or place not in way_to(activation[0]):
        return False
    before = len(place.counts) - place.counts_hops
    return activation[1][:before] == cursor[:before]


def numbered_call(number: int, attempt: int) -> Any:
    """Return the "call" counter of an attempt: the number alone for the first attempt."""
    return (number, attempt) if attempt else number


def item_counter(number: int, key: str | int | None) -> Any:
    """Return the "call" counter of an item: its number, and its key as addresses show it.

    >>> item_counter(7, None), item_counter(7, "a/b")
    (7, (7, 'a%2Fb'))
    """
    if key is None:
        return number
    return number, quote(str(key), safe="._-").replace("~", "%7E")[:_KEY_LENGTH]


def key_counter(key: str | int) -> str:
    """Return the "call" counter of a call that has a key: the key as addresses show it.

    >>> key_counter("a/b"), key_counter(7)
    ('a%2Fb', '%37')
    """
    quoted = quote(str(key), safe="._-").replace("~", "%7E")
    if quoted[:1].isdigit() and _NUMBERS.fullmatch(quoted[:_KEY_LENGTH]):
        quoted = f"%{ord(quoted[0]):X}{quoted[1:]}"  # a number alone is that of a call
    return quoted[:_KEY_LENGTH]


def number_of_item(counter: Any) -> int:
    """Return the number in the "call" counter of an item, or of a call."""
    return int(counter[0] if isinstance(counter, tuple | list) else counter)


def without_keys(text: str) -> str:
    """Return an address without the keys of items.

    >>> without_keys("job/files/read(7:f07)/work")
    'job/files/read(7)/work'
    """
    return _KEY.sub(r"(\1)", text)


class RunPaths:
    """Computes the run paths of a tree's activations. Safe to share between threads.

    Paths share their beginnings. The paths at the start of each iteration of a loop, and those up to
    each sub-agent of a composite, are cached, so that the next path costs only its new steps.

    Attributes:
        inner_names: For each agent that is a graph laid flat: the names of its nodes.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree, self.inner_names = tree, tree.inner_names
        self._iterations: dict[Place, tuple[Cursor, list[RunPath]]] = {}
        self._sub_agents: dict[Place, tuple[Cursor, list[RunPath]]] = {}
        self._plain: dict[str, Place] = {}  # by addresses without their numbers: those met so far
        self._lock = threading.RLock()

    def at(self, place: Place, cursor: Cursor) -> RunPath:
        """Return the run path of an activation."""
        parent = place.parent
        if parent is not None and place.is_target:
            path = self.at(parent, cursor)  # the hops of the parent's path end here
        else:
            path = self._entered(place, cursor)
        for _ in range(attempt(place, cursor) if place.repeats else 0):
            path = path.append(_step(place, cursor))
        for target in _targets_of_hops(self._tree, place, cursor) if place.counts_hops else ():
            path = path.append(_step(target, cursor))
        return path

    def _entered(self, place: Place, cursor: Cursor) -> RunPath:
        """Return the path to a place before any transfer away from it."""
        parent = place.parent
        if parent is None:
            return RunPath((RunStep(place.name),))
        inside = cursor[: len(parent.counts_inside)]
        with self._lock:
            if place.starts_lane or place.kind.is_inner or parent.kind.chooses:
                return self._inside(parent, inside).append(_step(place, cursor))
            return self._up_to(parent, inside, place.index)

    def _inside(self, parent: Place, cursor: Cursor) -> RunPath:
        """Return the path before the first sub-agent of a composite."""
        inside = self._iteration if parent.kind.goes_round else self.at
        return inside(parent, cursor)

    def _up_to(self, parent: Place, cursor: Cursor, index: int) -> RunPath:
        """Return the path to a sub-agent of a composite, through its earlier siblings."""
        around, paths = self._sub_agents.get(parent, ((), []))
        if around != cursor or not paths:
            paths = [self._inside(parent, cursor)]
            self._sub_agents[parent] = (cursor, paths)
        for sibling in self._tree.children[parent][len(paths) - 1 : index + 1]:
            paths.append(paths[-1].append(_step(sibling, cursor)))
        return paths[index + 1]

    def of(self, text: str) -> RunPath | None:
        """Return the run path of an address; None for an address that the tree cannot have."""
        form, rounds = _ROUND.sub("[]", text), _ROUND.findall(text)
        place = self._plain.get(form)
        if place is not None and len(rounds) == len(place.counts):
            return self.at(place, tuple(map(int, rounds)))
        activation = parse_address(self._tree, text)
        if activation is None:
            return None
        if address_template(activation[0]) is not None:
            self._plain[form] = activation[0]
        return self.at(*activation)

    def _iteration(self, loop: Place, cursor: Cursor) -> RunPath:
        """Return the path at the start of an iteration of a loop."""
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


_ROUND = re.compile(r"\[(\d+)\]")
_KEY = re.compile(r"\((\d+):[^()]*\)")
_NUMBERS = re.compile(r"\d+(\.\d+)?")
_KEY_LENGTH = 40
_PART = re.compile(
    r"(?P<segment>[^\[\](){}/]+)(\((?P<call>\d+)(\.(?P<again>[1-9]\d*)|:(?P<key>[A-Za-z0-9._%-]*))?\)|\((?P<name>[A-Za-z0-9._%-]+)\))?(\{(?P<attempt>\d+)\})?(\[(?P<counts>\d+(\.\d+)*)\])?"
)


def _hops_to(place: Place, count: Count) -> tuple[int, ...]:
    """Return the hops from the chat agent of a counter directly to the agent at or around a place."""
    way = way_to(place)
    inside = takewhile(lambda step: step.is_target, way[way.index(count.place) + 1 :])
    return tuple(step.index + 1 for step in inside)


def _part(step: Place, counters: dict[Count, Any]) -> str:
    part = step.segment
    if (step, "call") in counters:
        part += f"({_shown_call(counters[Count(step, 'call')])})"
    if counters.get(Count(step, "attempt")):
        part += f"{{{counters[Count(step, 'attempt')]}}}"
    if hops := counters.get(Count(step, "hops")):
        part += f"[{'.'.join(map(str, hops))}]"
    if visit := counters.get(Count(step, "visit")):
        part += f"[{visit}]"
    if (step, "iteration") in counters:
        part += f"[{counters[Count(step, 'iteration')]}]"
    return part


def _shown_call(counter: Any) -> str:
    if not isinstance(counter, tuple):
        return str(counter)
    return f"{counter[0]}{':' if isinstance(counter[1], str) else '.'}{counter[1]}"


def _place_inside(tree: Tree, around: Place | None, segment: str, called: bool) -> Place | None:
    """Return the place that a segment names directly inside another place, or at the root."""
    if around is None:
        return tree.root if segment == tree.root.segment and not called else None
    inside = tree.called if called else tree.children
    return next((place for place in inside.get(around, ()) if place.segment == segment), None)


def counts_around(place: Place) -> tuple[Count, ...]:
    """Return what the counters enclosing a place count, without its own counters."""
    return place.parent.counts_inside if place.parent else ()


def _targets_of_hops(tree: Tree, place: Place, cursor: Cursor) -> Iterator[Place]:
    """Yield the target of each hop that began at a place; stop at a hop to a missing agent."""
    at: Place | None = place
    for hop in cursor[len(place.counts) - 1] if place.counts_hops else ():
        children = tree.children.get(at, ()) if at and at.kind.hands_over else ()
        if at is None or hop > len(children) or (hop == 0 and at is place):
            return
        at = children[hop - 1] if hop else at.parent
        if at is not None:
            yield at


def _is_visited(tree: Tree, place: Place, cursor: Cursor) -> bool:
    """Return whether the hops in a cursor end at the target that the place is or is in."""
    at: Place | None = place
    target = place
    while at is not None:
        if at.counts_hops:
            hops = cursor[len(at.counts) - 1]
            visited = [at, *_targets_of_hops(tree, at, cursor)]
            if len(visited) != len(hops) + 1 or visited[-1] is not target:
                return False
        if at.parent is not None and not at.is_target:
            target = at.parent
        at = at.parent
    return True


def _step(place: Place, cursor: Cursor) -> RunStep:
    if place.is_item:
        return RunStep(place.name, number_of_item(cursor[place.counts.index(Count(place, "call"))]))
    return RunStep(place.name, iteration(place, cursor[: len(place.counts)]))

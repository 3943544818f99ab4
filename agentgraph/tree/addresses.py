"""Cursors and addresses: the position of an activation, computed from its place and counters.

The address of an activation needs no storage, because it is a function of its place and its cursor.
This cursor is a tuple of counters, outermost first; it is not the `cursor` field of an event:

| counter     | one for each                          | value                                          |
|-------------|---------------------------------------|------------------------------------------------|
| "iteration" | enclosing loop                        | the iteration, from 0                          |
| "transfers" | chat agent at which transfers begin   | what each transfer added to the run path, the  |
|             | and swarm, with the first of it       | name of its target: an address has the number  |
| "call"      | agent run as a tool, or for each item | its number; (number, attempt), (number, key)   |
|             | agent that a function runs            | the number of the call, or its key, a text     |
| "attempt"   | agent that a check may send back      | the attempt, from 0                            |
| "visit"     | node of a flattened graph             | how often it ran before in this activation     |

In the tree `loop refine [writer, chat desk (sub-agents: bills, press)]`, in the second iteration, after
a transfer to `press`, the cursor is `(1, ("press",))`, and the address `refine[1]/desk[1]/press`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any
from urllib.parse import quote

from agentgraph.tree.places import Count, Place, Tree

Cursor = tuple[Any, ...]
"""The counters: an `int`; for a call that runs again a tuple of them, and for transfers one of names.

A return over several levels names each of them: `desk/triage`. An address only identifies the last
target of its transfers; the others are None.
"""


def as_cursor(counters: Iterable[object]) -> Cursor:
    """Make a cursor from its saved form, in which tuples are lists."""
    cursor = tuple(counters)
    if list not in map(type, cursor):
        return cursor
    return tuple([tuple(c) if isinstance(c, list) else c for c in cursor])


def cursor_at(place: Place, before: Place | None, cursor: Cursor) -> Cursor:
    """Return the cursor at `place` for a jump there from the place `before`.

    Counters of both places keep their values. Other loops start at iteration 0, and other transfers
    lead to `place` directly.
    """
    known = dict(zip(before.counts if before else (), cursor, strict=False))
    for count in place.counts:
        if count.kind != "transfers":
            known.setdefault(count, 0)
        elif (
            count not in known
            or before is None
            or _targets_to(before, count) != _targets_to(place, count)
        ):
            known[count] = tuple(step.name for step in _targets_to(place, count))
    return tuple(known[count] for count in place.counts)


def fits(place: Place, cursor: Cursor) -> bool:
    """Return whether a cursor is valid for a place, because it may be that of another tree."""
    return len(cursor) == len(place.counts) and all(map(_may_count, place.counts, cursor))


def _may_count(count: Count, value: object) -> bool:
    if count.kind == "transfers":
        return isinstance(value, tuple) and not any(isinstance(each, int) for each in value)
    if count.kind == "call" and isinstance(value, tuple):
        return isinstance(next(iter(value), None), int)
    return isinstance(value, int) or (count.kind == "call" and isinstance(value, str))


def entered(place: Place, around: Cursor) -> Cursor:
    """Return the cursor at the start of a place.

    Args:
        place: A place that is a node, or starts a lane.
        around: The counters enclosing it, including that of its call.
    """
    attempt: Cursor = (0,) if place.repeats else ()
    chain: Cursor = ((),) if place.counts_transfers else ()
    return (*around, *attempt, *chain)


def iteration(place: Place, cursor: Cursor) -> int | None:
    """Return the iteration of the nearest loop, the place itself included; None outside all loops.

    For a node of a flattened graph it is the number of its visit.
    """
    number = None
    for count, value in zip(place.counts_inside, cursor, strict=False):
        if count.kind in ("iteration", "visit"):
            number = value
    return number


def attempt(place: Place, cursor: Cursor) -> int:
    """Return the number of times that a check has sent a place back."""
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
    | `triage[3]/bills`         | the sub-agent after the third transfer: to another, back, to it     |
    | `team[0]/ann`             | the agent at which a swarm begins                                   |
    | `writer/search(3)`        | the agent that the writer's fourth tool call runs                   |
    | `flow/research(bees)`     | the agent that a function runs with this key                        |
    | `writer/search(3.1)`      | the same agent in the second attempt of that call                   |
    | `job/files/read(7:f07)`   | the agent that runs for the eighth item, which has the key `f07`    |
    | `report/writer{1}`        | the second attempt of a writer whose work is checked                |
    | `job/planner[1]`          | the second visit of a node of a flattened graph                     |
    """
    if place.address_template is not None:
        return place.address_template % cursor
    counters = dict(zip(place.counts, cursor, strict=True))
    return "/".join(_part(step, counters) for step in places_to(place))


def root_address(tree: Tree) -> str:
    """Return the address of the root agent."""
    return address(tree.root, cursor_at(tree.root, None, ()))


def places_to(place: Place | None) -> list[Place]:
    """Return a place and its enclosing places, outermost first: the parts of its address."""
    places = []
    while place is not None:
        places.append(place)
        place = place.parent
    return places[::-1]


def around(place: Place, cursor: Cursor) -> list[tuple[Place, Cursor]]:
    """Return the activations of a lane that enclose one, outermost first, and it itself.

    An agent at which transfers begin encloses them all, also its own later activations.
    """
    steps, cursor = places_to(place), cursor[: len(place.counts)]
    first = max(i for i, step in enumerate(steps) if step.starts_lane)
    enclosing = [
        (step, (*cursor[: len(step.counts) - 1], ()) if step.counts_transfers else cursor)
        for step in steps[first:]
        if step.kind.encloses or step.counts_transfers
    ]
    if not enclosing or enclosing[-1] != (place, cursor):
        enclosing.append((place, cursor))
    return [(step, at[: len(step.counts)]) for step, at in enclosing]


def keeper_node(place: Place, name: str) -> str:
    """Return the node of the nearest enclosing agent with a name; empty for no name."""
    around = (each.node for each in reversed(places_to(place)) if each.given_name == name)
    return next(around) if name else ""


def parse_address(tree: Tree, text: str) -> tuple[Place, Cursor] | None:
    """Return the place and the cursor of an address; None for an address of another tree."""
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
        number = numbered_call(int(match["call"]), int(match["again"] or 0)) if match["call"] else None
        call = (match["name"] or number) if match["key"] is None else (number, match["key"])
        cursor = cursor if call is None else (*cursor, call)
        if place.repeats:
            cursor = (*cursor, int(match["attempt"] or 0))
        elif match["attempt"]:
            return None
        counter = _own_counter(place, int(match["count"]) if match["count"] else None)
        if counter is None:
            return None
        cursor = (*cursor, *counter)
    if place is None or len(cursor) != len(place.counts):
        return None
    counters = [
        _with_last(place, count, value) if count.kind == "transfers" else value
        for count, value in zip(place.counts, cursor, strict=True)
    ]
    return None if None in counters else (place, tuple(counters))


def without_last_transfers(tree: Tree, place: Place, cursor: Cursor) -> Cursor:
    """Return the cursor of a place that has ended, without the transfers that led away from it."""
    at = innermost_transfers(place)
    if at is None:
        return cursor
    visited = visited_by(tree, place.counts[at].place, cursor[at])
    here = [i for i, each in enumerate(visited) if each is place]
    return (*cursor[:at], cursor[at][: here[-1]], *cursor[at + 1 :]) if here else cursor


def is_in_call(tree: Tree, text: str, place: Place, cursor: Cursor) -> bool:
    """Return whether an address is inside the attempt of a call that runs a place at a cursor."""
    activation = parse_address(tree, text)
    if activation is None or place not in places_to(activation[0]):
        return False
    return _begin_alike(activation[1], cursor, len(counts_around(place)) + place.is_called)


def is_inside(tree: Tree, text: str, place: Place, cursor: Cursor) -> bool:
    """Return whether an address is a place at a cursor, or inside it, after any transfers."""
    activation = parse_address(tree, text)
    if activation is None or place not in places_to(activation[0]):
        return False
    return _begin_alike(activation[1], cursor, len(place.counts) - place.counts_transfers)


def transfers_at(tree: Tree, text: str, place: Place, cursor: Cursor) -> int | None:
    """Return the number of transfers, of those to a place at a cursor, up to an address.

    None for an address outside of the chain of transfers.
    """
    at = innermost_transfers(place)
    activation = parse_address(tree, text)
    if at is None or activation is None or activation[0].counts[: at + 1] != place.counts[: at + 1]:
        return None
    return len(activation[1][at]) if _begin_alike(activation[1], cursor, at) else None


def innermost_transfers(place: Place) -> int | None:
    """Return the index of the counter of the transfers nearest to a place; None without any."""
    return max((i for i, count in enumerate(place.counts) if count.kind == "transfers"), default=None)


def numbered_call(number: int, attempt: int) -> int | tuple[int, int]:
    """Return the "call" counter of an attempt: the number alone for the first attempt."""
    return (number, attempt) if attempt else number


def item_counter(number: int, key: str | int | None) -> int | tuple[int, str]:
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
    quoted = quote(str(key), safe="._-", errors="surrogatepass").replace("~", "%7E")
    if quoted[:1].isdigit() and _NUMBERS.fullmatch(quoted[:_KEY_LENGTH]):
        quoted = f"%{ord(quoted[0]):X}{quoted[1:]}"  # a plain number is the number of a call
    return quoted[:_KEY_LENGTH]


def number_of_item(counter: Any) -> int:
    """Return the number in the "call" counter of an item, or of a call."""
    return int(counter[0] if isinstance(counter, tuple | list) else counter)


def as_known(tree: Tree, text: str) -> str:
    """Replace the current names of renamed agents in an address by those that a thread knows."""
    if not tree.known_as:
        return text

    def known(name: re.Match[str]) -> str:
        return tree.known_as.get(name[0], name[0])

    return "/".join(_NAME.sub(known, part) for part in text.split("/"))


def keyed_as_known(tree: Tree, given: Mapping[Any, object]) -> Mapping[Any, object]:
    """Apply `as_known` to the keys of a mapping that are addresses."""
    if not tree.known_as:
        return given
    return {as_known(tree, key) if isinstance(key, str) else key: each for key, each in given.items()}


def without_keys(text: str) -> str:
    """Return an address without the keys of items.

    >>> without_keys("job/files/read(7:f07)/work")
    'job/files/read(7)/work'
    """
    return _KEY.sub(r"(\1)", text)


def without_attempts(text: str) -> str:
    """Return an address without the attempts of calls.

    >>> without_attempts("writer/search(3.1)/find")
    'writer/search(3)/find'
    """
    return _AGAIN.sub(r"(\1)", text)


def without_counters(text: str) -> str:
    """Return an address with the names of the agents alone.

    >>> without_counters("report{1}/refine[2]/search(3:f07)/find")
    'report/refine/search/find'
    """
    return _COUNTERS.sub("", text)


_NAME = re.compile(r"^[\w-]+")
_COUNTERS = re.compile(r"\[.*?\]|\(.*?\)|\{.*?\}")
_AGAIN = re.compile(r"\((\d+)\.\d+\)")
_KEY = re.compile(r"\((\d+):[^()]*\)")
_NUMBERS = re.compile(r"\d+(\.\d+)?")
_KEY_LENGTH = 40
_PART = re.compile(
    r"(?P<segment>[^\[\](){}/]+)(\((?P<call>\d+)(\.(?P<again>[1-9]\d*)|:(?P<key>[A-Za-z0-9._%-]*))?\)|\((?P<name>[A-Za-z0-9._%-]+)\))?(\{(?P<attempt>\d+)\})?(\[(?P<count>\d+)\])?"
)


def _own_counter(place: Place, number: int | None) -> Cursor | None:
    """Return a place's own counter from its number in an address; None for an invalid number."""
    if place.kind.is_swarm:
        return ((None,) * (0 if number is None else number + 1),)
    if place.counts_transfers:
        return None if number == 0 else ((None,) * (number or 0),)
    if place.kind.is_inner:
        return (number or 0,)
    if number is None:
        return ()
    return (number,) if place.kind.loops else None


def _targets_to(place: Place, count: Count) -> list[Place]:
    places = places_to(place)
    inside = list(takewhile(lambda step: step.is_target, places[places.index(count.place) + 1 :]))
    own = next((i for i, step in enumerate(inside) if step.counts_transfers), len(inside))
    return inside[: own + 1]


def _with_last(place: Place, count: Count, chain: tuple[None, ...]) -> tuple[str | None, ...] | None:
    """Return the transfers of an address, the last one named; None if they cannot end at the place."""
    places = _targets_to(place, count)
    first = count.place
    if not places:  # the transfers start here, or the place is called here; two may lead back
        if not chain:
            return ()
        return (*chain[:-1], first.name) if len(chain) > 1 and not first.kind.is_swarm else None
    return (*chain[:-1], places[-1].name) if len(chain) >= len(places) else None


def _begin_alike(cursor: Cursor, other: Cursor, counters: int) -> bool:
    return [*map(_number, cursor[:counters])] == [*map(_number, other[:counters])]


def _number(counter: object) -> object:
    """Return the number in an address for a counter; for transfers, their count."""
    if isinstance(counter, tuple) and not (counter and isinstance(counter[0], int)):
        return (len(counter),)
    return counter


def _part(step: Place, counters: dict[Count, Any]) -> str:
    part = step.segment
    if (step, "call") in counters:
        part += f"({_shown_call(counters[Count(step, 'call')])})"
    if counters.get(Count(step, "attempt")):
        part += f"{{{counters[Count(step, 'attempt')]}}}"
    if chain := counters.get(Count(step, "transfers")):
        part += f"[{len(chain) - step.kind.is_swarm}]"
    if visit := counters.get(Count(step, "visit")):
        part += f"[{visit}]"
    if (step, "iteration") in counters:
        part += f"[{counters[Count(step, 'iteration')]}]"
    return part


def _shown_call(counter: object) -> str:
    if not isinstance(counter, tuple):
        return str(counter)
    return f"{counter[0]}{':' if isinstance(counter[1], str) else '.'}{counter[1]}"


def _place_inside(tree: Tree, around: Place | None, segment: str, called: bool) -> Place | None:
    if around is None:
        return tree.root if segment == tree.root.segment and not called else None
    inside = tree.called if called else tree.children
    return next((place for place in inside.get(around, ()) if place.segment == segment), None)


def counts_around(place: Place) -> tuple[Count, ...]:
    """Return the meanings of the counters around a place, without its own counters."""
    return place.parent.counts_inside if place.parent else ()


def visited_by(tree: Tree, first: Place, chain: Sequence[str | None]) -> list[Place]:
    """Return the places of a chain of transfers, including the first, up to an unknown one."""
    visited: list[Place] = [first]
    for transfer in chain:
        at: Place | None = visited[-1]
        for name in (transfer or "").split("/"):
            at = at and _neighbour(tree, first, at, name)
        if at is None:
            break
        visited.append(at)
    return visited


def _neighbour(tree: Tree, first: Place, place: Place, name: str) -> Place | None:
    near = [*(tree.children.get(place, ()) if place.kind.transfers else ())]
    if place is not first and place.parent is not None:
        near += [place.parent, *tree.children[place.parent]]
    return next((each for each in near if each.name == name), None)

"""When the items of an `each` began whose agent is one leaf: they save nothing before they end.

What is known is which items there are, which have ended and when, and the rule by which they begin: in
their order, as many at once as `max_concurrency` says, each when it has what it needs. So the earliest
moment at which an item may have begun is known, and which ones may be running. LangGraph's own
`max_concurrency`, and the threads that Python has, may hold one back for longer; that is not saved.
"""

from collections.abc import Mapping
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple, cast

from agentgraph.agents.agents import EachAgent
from agentgraph.graph.nodes.concurrency import AT_ONCE
from agentgraph.graph.stamps import time_in
from agentgraph.graph.state import TAG
from agentgraph.journal.step_runs import StepRuns
from agentgraph.journal.steps import Spot
from agentgraph.tree.addresses import Cursor, address, entered, item_counter, iteration
from agentgraph.tree.places import Place, Tree


class LeafItems(NamedTuple):
    """The items of a step.

    Attributes:
        began: The earliest time at which each may have begun, by address.
        open: The visits of those without an end that may be running.
    """

    began: Mapping[str, float]
    open: list[Spot]


def leaf_items(tree: Tree, spot: Spot, runs: StepRuns) -> LeafItems:
    """Return what is known of the items of a step; nothing if it has no such items."""
    agent = cast(EachAgent, spot.place.agent)
    lanes = tree.lanes(spot.place)
    keys = _keys(spot)
    if not spot.place.kind.has_items or keys is None or not lanes[0].kind.is_leaf:
        return LeafItems({}, [])
    ended, needs = _ended(spot)
    at = {number: _address(spot, lanes[0], number, key) for number, key in enumerate(keys)}
    ends = dict(ended)
    for number, each in at.items():
        if number not in ended and (note := runs.failure(each, spot.visit.time)) is not None:
            ends[number] = time_in(note)
    began: dict[int, float] = {}
    if agent.depends_on is None:
        began = _in_turn(spot.visit.time, len(keys), agent.max_concurrency or AT_ONCE, ends)
    else:
        began = {n: max([spot.visit.time, *(ended[need] for need in needs[n])]) for n in ended}
    is_open = spot.after is None and (runs.is_under_way or runs.was_killed)
    waiting = [n for n, time in began.items() if is_open and time < inf and n not in ends]
    return LeafItems(
        {at[number]: time for number, time in began.items() if time < inf},
        [_open(spot, lanes[0], number, keys[number]) for number in waiting],
    )


def _in_turn(begin: float, count: int, at_once: int, ends: Mapping[int, float]) -> dict[int, float]:
    """Return when items begin that begin in order, a number of them at once.

    >>> _in_turn(1.0, 4, 2, {0: 3.0, 1: 2.0})
    {0: 1.0, 1: 1.0, 2: 2.0, 3: 3.0}
    """
    began: dict[int, float] = {}
    running: list[float] = []
    for number in range(count):
        full = len(running) >= at_once
        began[number] = max(begin, heappop(running)) if full else begin
        heappush(running, ends.get(number, inf))
    return began


def _keys(spot: Spot) -> list[str | int | None] | None:
    """Return the keys of the items of a step, as far as they have been looked up."""
    for result in spot.saved.results.values():
        if result[TAG] == "items":
            return [*(result["keys"] or [None] * len(result["values"]))]
    return None


def _ended(spot: Spot) -> tuple[dict[int, float], dict[int, list[int]]]:
    """Return when the items ended that have a result, and the numbers of those that they needed."""
    ended: dict[int, float] = {}
    needs: dict[int, list[int]] = {}
    for result in spot.saved.results.values():
        if isinstance(finished := result.get("finished"), int):
            ended[result["number"]] = finished / 1e9
            needs[result["number"]] = result.get("needs", [])
    return ended, needs


def _cursor(spot: Spot, lane: Place, number: int, key: str | int | None) -> Cursor:
    return entered(lane, (*spot.cursor, item_counter(number, key)))


def _address(spot: Spot, lane: Place, number: int, key: str | int | None) -> str:
    return address(lane, _cursor(spot, lane, number, key))


def _open(spot: Spot, lane: Place, number: int, key: str | int | None) -> Spot:
    """Return the visit of an item without a result."""
    cursor = _cursor(spot, lane, number, key)
    visit = replace(
        spot.visit,
        address=address(lane, cursor),
        agent_name=lane.home.name,
        node=lane.node,
        iteration=iteration(lane, cursor),
        duration=None,
        tokens=0,
    )
    return Spot(visit, lane, cursor, spot.saved, spot.root, spot.after, "")

"""Branches, steps and items that are one leaf and have no result: which have begun, and when.

Such a lane saves nothing before it has ended. Known is when the others ended; and they begin in their
order, as many at once as `max_concurrency` says, steps when those that they need have ended. So it is
known which ones may have begun, and when at the earliest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import cast

from agentgraph.agents.agents import ParallelAgent, WorkflowAgent
from agentgraph.agents.dependencies import in_order
from agentgraph.graph.nodes.concurrency import BRANCHES
from agentgraph.graph.stamps import seconds
from agentgraph.journal.saved import Written
from agentgraph.tree.places import Place


def begun_in_order(
    begin: float, numbers: Iterable[int], at_once: int, ends: Mapping[int, float]
) -> dict[int, float]:
    """Return when lanes began, as far as they have; a number of them run at once, in order.

    >>> begun_in_order(1.0, [0, 2, 3, 4], 2, {0: 3.0, 1: 2.0})
    {0: 1.0, 2: 2.0, 3: 3.0}
    """
    freed = [begin] * at_once + sorted(ends.values())
    return {number: max(begin, freed[number]) for number in numbers if number < len(freed)}


def begun_leaves(
    lanes: Sequence[Place], begin: float, results: Iterable[Written], failed: Mapping[str, float]
) -> Iterator[tuple[Place, float]]:
    """Yield the branches or steps that are one leaf, have no result, and may have begun; and when.

    Args:
        lanes: The first places of the branches or steps.
        begin: When what runs them began.
        results: The results of the others.
        failed: When lanes failed, by the name of their agent.
    """
    around = lanes[0].parent if lanes else None
    if around is None or not around.kind.is_parallel or around.kind.has_items:
        return
    came = {each["number"]: each for each in results if "finished" in each}
    if around.kind.has_steps:
        begun = _steps(cast(WorkflowAgent, around.agent), begin, came, failed)
    else:
        begun = _branches(cast(ParallelAgent, around.agent), lanes, begin, came, failed)
    for index, time in begun.items():
        kind = lanes[index].kind
        if kind.is_leaf and not (kind.asks or kind.runs_graph):
            yield lanes[index], time


def _branches(
    agent: ParallelAgent,
    lanes: Sequence[Place],
    begin: float,
    came: Mapping[int, Written],
    failed: Mapping[str, float],
) -> dict[int, float]:
    """Return when branches without a result began, by number: none before one with a lower number.

    And none after a failure that stops the others, or after a branch that decides.
    """
    ends = {number: seconds(each["finished"]) for number, each in came.items()}
    ends |= {number: failed[lane.name] for number, lane in enumerate(lanes) if lane.name in failed}
    rest = [number for number in range(len(lanes)) if number not in came]
    begun = begun_in_order(begin, rest, agent.max_concurrency or BRANCHES, ends)
    decided = [n for n, each in came.items() if "stays" in each]
    if agent.on_error == "first":
        decided += [n for n, each in came.items() if each.get("accepted", True)]
    fatal = failed.values() if agent.on_error == "fail" else ()
    shut = min([*fatal, *(ends[n] for n in decided)], default=inf)
    begun = {number: time for number, time in begun.items() if time == begin or time < shut}
    latest = begin
    for number in range(len(lanes)):
        if number in came:
            latest = max(latest, seconds(came[number]["began"]))
        elif number in begun:
            begun[number] = latest = max(latest, begun[number])
    return begun


def _steps(
    agent: WorkflowAgent, begin: float, came: Mapping[int, Written], failed: Mapping[str, float]
) -> dict[int, float]:
    """Return when steps without a result began, by their index: none after a failure or a signal.

    A step that is undone, or has a `when`, has checkpoints once it has begun.
    """
    if any(step.compensate is not None for step in agent.steps):
        return {}
    names = in_order({step.name: step.depends_on for step in agent.steps})
    ended = {names[number]: seconds(each["finished"]) for number, each in came.items()}
    signals = [seconds(each["finished"]) for each in came.values() if each["signal"]]
    shut = min([*signals, *failed.values()], default=inf)
    begun: dict[int, float] = {}
    for index, step in enumerate(agent.steps):
        needs = [ended.get(name, inf) for name in step.depends_on]
        time = max([begin, *needs])
        if step.name not in ended and step.when is None and (not needs or time < shut):
            begun[index] = time
    return begun

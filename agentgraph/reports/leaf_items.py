"""Infers the running items of an `each` whose agent is one leaf.

Such an item saves nothing before it has ended. The saved data have the items, and the end times of the
others. Items start in order, at most `max_concurrency` at a time. From this follow the items that may
be running, and the earliest start time of each. LangGraph's own `max_concurrency` and the number of
Python threads may delay an item further, which is not saved.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, cast

from agentgraph.agents.agents import EachAgent
from agentgraph.graph.nodes.concurrency import AT_ONCE
from agentgraph.graph.stamps import seconds, time_in
from agentgraph.graph.task_results import TAG
from agentgraph.journal.begun_leaves import begun_in_order
from agentgraph.journal.step_runs import StepRuns
from agentgraph.journal.steps import AgentStep
from agentgraph.tree.addresses import Cursor, address, entered, item_counter, iteration
from agentgraph.tree.places import Place, Tree


class LeafItems(NamedTuple):
    """The items of a step without a result.

    Attributes:
        began: The earliest possible start time of each item, by address.
        open: The visits of the items that may be running.
    """

    began: Mapping[str, float]
    open: list[AgentStep]


def leaf_items(tree: Tree, agent_step: AgentStep, runs: StepRuns) -> LeafItems:
    """Return the items of a step without a result; empty for a step without items."""
    agent, lane, keys = (
        cast(EachAgent, agent_step.place.agent),
        tree.lanes(agent_step.place)[0],
        _keys(agent_step),
    )
    if not agent_step.place.kind.has_items or keys is None or not lane.kind.is_leaf:
        return LeafItems({}, [])
    results = [each for each in agent_step.saved.results.values() if "finished" in each]
    ends = {each["number"]: seconds(each["finished"]) for each in results}
    rest = {n: _address(agent_step, lane, n, key) for n, key in enumerate(keys) if n not in ends}
    failed = {n: runs.failure(at, agent_step.visit.time) for n, at in rest.items()}
    ends |= {n: time_in(note) for n, note in failed.items() if note is not None}
    began: dict[int, float] = {}
    if agent.depends_on is None:
        began = begun_in_order(agent_step.visit.time, rest, agent.max_concurrency or AT_ONCE, ends)
    is_open = agent_step.after is None and (runs.is_running or runs.was_killed)
    waiting = [number for number in began if is_open and number not in ends]
    return LeafItems(
        {rest[number]: time for number, time in began.items()},
        [_open(agent_step, lane, number, keys[number]) for number in waiting],
    )


def _keys(agent_step: AgentStep) -> list[str | int | None] | None:
    """Return the keys of the items of a step; None if the step has not stored its items yet."""
    for result in agent_step.saved.results.values():
        if result[TAG] == "items":
            return [*(result["keys"] or [None] * len(result["values"]))]
    return None


def _cursor(agent_step: AgentStep, lane: Place, number: int, key: str | int | None) -> Cursor:
    return entered(lane, (*agent_step.cursor, item_counter(number, key)))


def _address(agent_step: AgentStep, lane: Place, number: int, key: str | int | None) -> str:
    return address(lane, _cursor(agent_step, lane, number, key))


def _open(agent_step: AgentStep, lane: Place, number: int, key: str | int | None) -> AgentStep:
    cursor = _cursor(agent_step, lane, number, key)
    visit = replace(
        agent_step.visit,
        address=address(lane, cursor),
        agent_name=lane.home.name,
        node=lane.node,
        iteration=iteration(lane, cursor),
        duration=None,
        tokens=0,
    )
    return AgentStep(visit, lane, cursor, agent_step.saved, agent_step.root, agent_step.after, "")

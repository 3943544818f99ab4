"""The rules of swarms."""

from collections.abc import Iterable, Iterator

from agentgraph.agents.agents import SwarmAgent, is_agent, unchecked
from agentgraph.agents.kinds import kind_of
from agentgraph.safe_repr import shown
from agentgraph.tree.rules.handoffs import handoff_faults
from agentgraph.tree.rules.options import shown_name
from agentgraph.tree.rules.row import Around, Rules


def _faults(agent: SwarmAgent, _: Around) -> Iterator[str]:
    yield from agent.faults
    if not agent.sub_agents:
        yield "a swarm needs at least one agent"
    for each in filter(is_agent, agent.sub_agents):
        if not (kind := kind_of(unchecked(each))).joins_swarms:
            yield (
                f"{shown_name(each)} is a {kind.name}; the agents of a swarm are "
                "chat, function and graph agents, and swarms; put it in the sub_agents of one of these"
            )
    names = [each.name for each in agent.sub_agents if is_agent(each)]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"{shown(name)} is in it twice; leave one out"
    if agent.start is not None and agent.start not in names:
        yield f"start={shown(agent.start)} is not one of its agents; choose one of: {_listed(names)}"
    for name, others in (agent.handoffs or {}).items():
        for unknown in [each for each in (name, *others) if each not in names]:
            wrong = f"handoffs= names {shown(unknown)}, which is not one of its agents"
            yield f"{wrong}; choose one of: {_listed(names)}"
    yield from handoff_faults(agent.by_handoff)


def _listed(names: Iterable[object]) -> str:
    return ", ".join(map(shown, names)) or "none"


SWARM = Rules(faults=_faults, former=lambda was: SwarmAgent(name=was.name, sub_agents=was.sub_agents))

"""The rules of loops."""

from collections.abc import Iterator

from agentgraph.agents.agents import Agent, LoopAgent, is_agent, sub_agents, unchecked
from agentgraph.agents.functions import gives_one_value
from agentgraph.agents.kinds import called_agents, kind_of
from agentgraph.agents.limits import limit_faults
from agentgraph.safe_repr import shown
from agentgraph.tree.rules.options import arity_faults, sub_agent_faults
from agentgraph.tree.rules.row import Around, Rules


def _faults(agent: LoopAgent, around: Around) -> Iterator[str]:
    yield from sub_agent_faults(agent, around)
    yield from limit_faults("max_iterations", agent.max_iterations)
    if agent.until is not None:
        if not gives_one_value(agent.until):
            yield f"until={shown(agent.until)} cannot be used; pass a function of a context"
        yield from arity_faults("until", agent.until)
    unbounded = agent.max_iterations is None and agent.until is None
    if unbounded and agent.sub_agents and not any(map(_can_end, agent.sub_agents)):
        yield (
            "nothing can end this loop; give it max_iterations or until, or an agent inside that "
            "may exit or break_loop"
        )


def _can_end(agent: Agent, nearest: bool = True) -> bool:
    """Return whether an agent can end the loop that encloses it.

    `nearest` is false if another loop is between them, which a `break_loop` would end instead.
    """
    inner = unchecked(agent)
    if not is_agent(inner):
        return False
    kind = kind_of(inner)
    capabilities = kind.capabilities(inner)
    if capabilities.exit or (nearest and capabilities.break_loop):
        return True
    inside = called_agents(inner) if kind.is_parallel and not sub_agents(inner) else sub_agents(inner)
    return any(_can_end(child, nearest and not kind.loops) for child in inside)


LOOP = Rules(
    faults=_faults,
    asked=lambda agent: [("until", agent.until)],
    former=lambda was: LoopAgent(name=was.name, sub_agents=was.sub_agents, max_iterations=1),
)

"""The rules of each kind of agents: one row per kind, in one closed `match`."""

from collections.abc import Iterator
from typing import assert_never

from agentgraph.agents.agents import HumanAgent, ParallelAgent, SequentialAgent
from agentgraph.agents.deadlines import deadline_faults
from agentgraph.agents.kinds import PlaceKind
from agentgraph.agents.limits import limit_faults, word_faults
from agentgraph.agents.schemas import schema_fault
from agentgraph.safe_repr import shown
from agentgraph.tree.rules.chat import CHAT
from agentgraph.tree.rules.each import EACH
from agentgraph.tree.rules.function import FUNCTION
from agentgraph.tree.rules.graph import GRAPH
from agentgraph.tree.rules.loop import LOOP
from agentgraph.tree.rules.options import arity_faults, sub_agent_faults
from agentgraph.tree.rules.row import Around, Rules
from agentgraph.tree.rules.swarm import SWARM
from agentgraph.tree.rules.switch import SWITCH
from agentgraph.tree.rules.workflow import WORKFLOW


def rules_of(kind: PlaceKind) -> Rules:  # noqa: C901 (a row for each kind)
    """Return the rules of a kind of agents; see `agents.kinds` for the words."""
    match kind:
        case "chat":
            return CHAT
        case "function":
            return FUNCTION
        case "graph":
            return GRAPH
        case "human":
            return _HUMAN
        case "sequential":
            return _SEQUENTIAL
        case "loop":
            return LOOP
        case "parallel":
            return _PARALLEL
        case "workflow":
            return WORKFLOW
        case "each":
            return EACH
        case "switch":
            return SWITCH
        case "swarm":
            return SWARM
        case "node":
            return _NODE
        case _:
            assert_never(kind)


def _human_faults(agent: HumanAgent, _: Around) -> Iterator[str]:
    if fault := schema_fault(agent.response_schema):
        yield fault
    yield from deadline_faults(agent.timeout, agent.default, agent.response_schema)


def _parallel_faults(agent: ParallelAgent, around: Around) -> Iterator[str]:
    yield from sub_agent_faults(agent, around)
    yield from limit_faults("max_concurrency", agent.max_concurrency)
    yield from word_faults("on_error", agent.on_error, ("fail", "wait", "collect", "first"))
    if agent.accept is not None and not callable(agent.accept):
        yield f"accept={shown(agent.accept)} is not a function; pass one that takes a reply"
    elif agent.accept is not None:
        yield from arity_faults("accept", agent.accept, "a Reply")
        if agent.on_error != "first":
            yield f"accept= needs on_error='first', but on_error={shown(agent.on_error)}"


_HUMAN = Rules(
    faults=_human_faults,
    texts=lambda agent: [("its prompt", agent.prompt)],
    former=lambda was: HumanAgent(name=was.name, prompt=""),
)
_SEQUENTIAL = Rules(
    faults=sub_agent_faults,
    former=lambda was: SequentialAgent(name=was.name, sub_agents=was.sub_agents),
)
_PARALLEL = Rules(
    faults=_parallel_faults,
    asked=lambda agent: [("accept", agent.accept)],
    former=lambda was: ParallelAgent(name=was.name, sub_agents=was.sub_agents),
)
_NODE = Rules(hidden=lambda _: (False, True))

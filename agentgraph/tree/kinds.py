"""Kinds of agents: what a tree knows of each. All else asks a `Place`, which asks this file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from agentgraph.agents.agents import (
    Agent,
    ChatAgent,
    Composite,
    ForEachAgent,
    FunctionAgent,
    GraphAgent,
    HumanAgent,
    Leaf,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    WorkflowAgent,
)
from agentgraph.agents.functions import allowed, names_writer, yields
from agentgraph.agents.signals import Capabilities, Signal
from agentgraph.agents.tools import tool_capabilities

WORK = {"chat": ("tools", "approve", "call"), "function": ("ask", "call")}
"""Suffixes of the further nodes and the task of an agent, after its own node, by its kind."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the kind of an agent means for its place in a tree.

    Attributes:
        name: The word for it, as outlines have it; threads keep it.
        is_node: Whether it is a node of its lane; if not, it is only the way from node to node.
        is_fork: Whether its node runs each of its sub-agents in a lane of its own.
        goes_round: Whether its sub-agents run again and again.
        hands_over: Whether its sub-agents run when it transfers to them, and not one after the other.
        asks: Whether it always asks a person.
        runs_graph: Whether it runs a foreign graph.
        first_wins: Whether the first sub-agent that succeeds ends the others, of which nothing is kept.
    """

    name: str
    is_node: bool = True
    is_fork: bool = False
    goes_round: bool = False
    hands_over: bool = False
    asks: bool = False
    runs_graph: bool = False
    first_wins: bool = False

    @property
    def is_leaf(self) -> bool:
        """Whether it has no sub-agents that run as part of it."""
        return self.is_node and not self.is_fork


def kind_of(agent: Leaf | Composite) -> Kind:
    """Return what kind of agent it is."""
    match agent:
        case ChatAgent():
            return Kind("chat", hands_over=True)
        case FunctionAgent():
            return Kind("function")
        case GraphAgent():
            return Kind("graph", runs_graph=True)
        case HumanAgent():
            return Kind("human", asks=True)
        case SequentialAgent():
            return Kind("sequential", is_node=False)
        case LoopAgent():
            return Kind("loop", is_node=False, goes_round=True)
        case ParallelAgent(on_error=str("first")):
            return Kind("parallel", is_fork=True, first_wins=True)
        case ParallelAgent():
            return Kind("parallel", is_fork=True)
        case WorkflowAgent():
            return Kind("workflow", is_fork=True)
        case ForEachAgent():
            return Kind("each", is_fork=True)
        case _:
            assert_never(agent)


def capabilities_of(agent: Leaf | Composite) -> Capabilities:
    """Return what a leaf may do when it ends; of a fork that is up to its lanes."""
    match agent:
        case FunctionAgent(fn=fn):
            return allowed(fn)
        case ChatAgent():
            return Capabilities() | tool_capabilities(agent)
        case GraphAgent():
            return Capabilities(transfer=True)
    return Capabilities()


def speaks_early(agent: Leaf | Composite) -> bool:
    """Tell whether an agent may tell something before its node has ended, besides what tasks tell.

    A generator speaks as it goes on; functions and middleware may write to LangGraph's stream.
    """
    match agent:
        case FunctionAgent(fn=fn):
            return yields(fn) or names_writer(fn)
        case ChatAgent(middleware=middleware):
            return bool(middleware)
    return False


def side_by_side(agent: Leaf | Composite) -> tuple[str, Sequence[Agent]]:
    """Return a word for those that run at the same time and whose values are joined, and them."""
    match agent:
        case ParallelAgent(on_error=str(on_error)) if on_error != "first":
            return "branches", agent.sub_agents
        case WorkflowAgent(steps=steps):
            return "steps", [step.agent for step in steps]
    return "", ()


def joined(agent: Leaf | Composite, lanes: list[set[Signal | None]]) -> list[set[Signal | None]]:
    """Return how the lanes of a fork can end where a failure does not end them all."""
    match agent:
        case ParallelAgent(on_error="collect"):  # a branch that fails has ended
            return [{*lane, None} for lane in lanes]
        case ParallelAgent(on_error="first"):  # that of one branch counts
            return [set().union(*lanes)]
    return lanes

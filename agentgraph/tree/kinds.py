"""Kinds of agents: what each means for its place. Other modules ask a `Place`, which asks this file."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import assert_never

from agentgraph.agents.agents import (
    Agent,
    ChatAgent,
    Composite,
    EachAgent,
    FunctionAgent,
    GraphAgent,
    HumanAgent,
    InnerNode,
    Leaf,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    SwarmAgent,
    SwitchAgent,
    WorkflowAgent,
    has_case,
)
from agentgraph.agents.functions import allowed, names_writer, yields
from agentgraph.agents.signals import BreakLoop, Capabilities, Exit, Signal, Skip
from agentgraph.agents.tools import tool_capabilities

WORK = {"chat": ("tools", "approve", "call"), "function": ("ask", "call")}
"""For each kind of agent: suffixes of the names of its other nodes and of its task."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the kind of an agent means for its place in a tree.

    Attributes:
        name: The word for it in outlines, which threads save.
        is_node: Whether it is a node of its lane; if not, it only decides the order of nodes.
        is_fork: Whether its node runs each of its sub-agents in a lane of its own.
        goes_round: Whether its sub-agents run again and again.
        chooses: Whether its node chooses the one sub-agent that runs.
        hands_over: Whether its sub-agents run only when it transfers to them.
        is_swarm: Whether its sub-agents transfer to each other.
        asks: Whether it always asks a person.
        runs_graph: Whether it runs a foreign graph.
        is_laid_flat: Whether it is a foreign graph whose nodes are nodes of the lane.
        is_inner: Whether it is such a node, which runs any number of times.
        runs_agents: Whether it is a function that runs agents.
        first_wins: Whether the first sub-agent that succeeds ends the others and discards their work.
    """

    name: str
    is_node: bool = True
    is_fork: bool = False
    goes_round: bool = False
    chooses: bool = False
    hands_over: bool = False
    is_swarm: bool = False
    asks: bool = False
    runs_graph: bool = False
    is_laid_flat: bool = False
    is_inner: bool = False
    runs_agents: bool = False
    first_wins: bool = False

    @property
    def is_leaf(self) -> bool:
        """Whether it is a node that has no agents inside."""
        return self.is_node and not self.is_fork and not self.chooses

    @property
    def encloses(self) -> bool:
        """Whether what is inside it runs in its lane, as long as it runs itself."""
        return not self.is_node or self.is_laid_flat or self.chooses


_shared = cache(Kind)
"""Makes a kind once: it serves all places with such an agent."""


def kind_of(agent: Leaf | Composite | InnerNode) -> Kind:
    """Return what kind of agent it is."""
    return _kind_of_composite(agent) if isinstance(agent, Composite) else _kind_of_leaf(agent)


def _kind_of_leaf(agent: Leaf | InnerNode) -> Kind:
    match agent:
        case ChatAgent():
            return _shared("chat", hands_over=True)
        case FunctionAgent(agents=agents):
            return _shared("function", runs_agents=bool(agents))
        case GraphAgent(flat=flat):
            return _shared("graph", runs_graph=not flat, is_laid_flat=flat)
        case InnerNode(graph=graph):
            return _shared("node", runs_graph=graph is not None, is_inner=True)
        case HumanAgent():
            return _shared("human", asks=True)
        case _:
            assert_never(agent)


def _kind_of_composite(agent: Composite) -> Kind:
    match agent:
        case SequentialAgent():
            return _shared("sequential", is_node=False)
        case LoopAgent():
            return _shared("loop", is_node=False, goes_round=True)
        case SwitchAgent():
            return _shared("switch", chooses=True)
        case SwarmAgent():
            return _shared("swarm", chooses=True, hands_over=True, is_swarm=True)
        case ParallelAgent(on_error=on_error):
            return _shared("parallel", is_fork=True, first_wins=_is_first(on_error))
        case WorkflowAgent():
            return _shared("workflow", is_fork=True)
        case EachAgent(on_error=on_error):
            return _shared("each", is_fork=True, first_wins=_is_first(on_error))
        case _:
            assert_never(agent)


def _is_first(on_error: object) -> bool:
    return isinstance(on_error, str) and on_error == "first"


def capabilities_of(agent: Leaf | Composite | InnerNode) -> Capabilities:
    """Return what a leaf or a switch may do when it ends; for a fork its lanes decide that."""
    match agent:
        case FunctionAgent(fn=fn):
            return allowed(fn)
        case ChatAgent():
            return Capabilities() | tool_capabilities(agent)
        case GraphAgent() | InnerNode():
            return Capabilities(transfer=True)
        case SwitchAgent():
            skips, exits, breaks = (has_case(agent, kind) for kind in (Skip, Exit, BreakLoop))
            return Capabilities(skips, exit=exits, break_loop=breaks)
        case SwarmAgent():
            return Capabilities(go_on=False)
    return Capabilities()


def speaks_early(agent: Leaf | Composite | InnerNode) -> bool:
    """Return whether an agent may emit events before its node has ended, other than from tasks.

    A generator yields while it runs; functions, middleware and nodes may write to LangGraph's stream.
    """
    match agent:
        case FunctionAgent(fn=fn):
            return yields(fn) or names_writer(fn)
        case ChatAgent(middleware=middleware):
            return bool(middleware)
        case InnerNode():
            return True
    return False


def side_by_side(agent: Leaf | Composite) -> tuple[str, Sequence[Agent]]:
    """Return the agents that run concurrently and whose values are joined, with a word for them."""
    match agent:
        case ParallelAgent(on_error=str(on_error)) if on_error != "first":
            return "branches", agent.sub_agents
        case WorkflowAgent(steps=steps):
            return "steps", [step.agent for step in steps]
    return "", ()


def joined(agent: Leaf | Composite, lanes: list[set[Signal | None]]) -> list[set[Signal | None]]:
    """Return the possible signals of the lanes of a fork, by its `on_error`."""
    match agent:
        case EachAgent():  # there may be no item
            return [{*lane, None} for lane in lanes]
        case ParallelAgent(on_error="collect"):  # a branch that fails ends without a signal
            return [{*lane, None} for lane in lanes]
        case ParallelAgent(on_error="first"):  # only the winner's signal counts
            return [set().union(*lanes)]
    return lanes

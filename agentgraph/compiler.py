"""A tree of agents compiled to LangGraph: validate, place, add nodes, wire, compile.

Each lane becomes one flat `StateGraph`: every leaf is a node, every Parallel is a node that runs
the lanes of its branches, and all other composites are only the edges between them.
"""

from typing import Any, assert_never, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore

from agentgraph.agents import (
    Agent,
    ChatAgent,
    FunctionAgent,
    HumanAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
)
from agentgraph.nodes.activation import Site
from agentgraph.nodes.function import FunctionNode
from agentgraph.nodes.human import HumanNode, QuestionNode
from agentgraph.nodes.lanes import Lane, LanesNode
from agentgraph.nodes.model import ModelNode
from agentgraph.nodes.turn import NEW_TURN, TurnNode
from agentgraph.pictures import LaneGraph, show_lanes
from agentgraph.places import Place, Tree
from agentgraph.position import RunPaths, ends, may_do, start
from agentgraph.state import Conversation, LaneState, Update, Whereabouts
from agentgraph.validation import validate

Graph = CompiledStateGraph[Any, Any, Any, Any]
Node = Runnable[LaneState, Update]
Builder = StateGraph[Any, Any, Any, Any]

_STEPS = 1_000_000_000
"""LangGraph's limit of supersteps: a tree's own limits end it, so this one never does."""
_SPARE_THREADS = 8
"""Threads of a graph beside its lanes: the node that waits for them, the stream, the saver."""


def compile_agent(
    agent: Agent,
    *,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    store: BaseStore | None = None,
    **options: Any,
) -> Graph:
    """Compile a tree of agents to a plain LangGraph graph.

    The graph takes `{"messages": [...]}`, and `values` if there are any, and gives both back.
    Each new input on a thread is a turn: it starts at the first leaf, with the messages and
    the values of the thread kept.

    Args:
        agent: The root of the tree.
        checkpointer: LangGraph's saver; without one nothing can pause, unless the graph runs
            on a LangGraph server, which brings its own.
        store: LangGraph's store, for `ctx.runtime.store`.
        **options: Passed on to `StateGraph.compile`: `cache`, `name`, `interrupt_before`, ...

    Returns:
        The compiled graph.

    Raises:
        InvalidAgentError: The tree has faults; the error names all of them.
    """
    return compile_tree(validate(agent), checkpointer=checkpointer, store=store, **options)


def compile_tree(tree: Tree, **options: Any) -> Graph:
    """Compile a tree that was laid out."""
    options.setdefault("name", tree.root.name)
    graph = _LaneBuilder(tree).build(tree.root, **options)
    return graph.with_config(_limits(tree))


def _limits(tree: Tree) -> RunnableConfig:
    parallels = [place for place in tree.places if isinstance(place.agent, ParallelAgent)]
    limits = RunnableConfig(recursion_limit=_STEPS)
    if parallels:
        widest = max(len(tree.children[place]) for place in parallels)
        limits["max_concurrency"] = widest + _SPARE_THREADS
    return limits


class _LaneBuilder:
    """Builds the graphs of a tree's lanes."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.paths = tree, RunPaths(tree)

    def build(self, lane: Place, **options: Any) -> Graph:
        """Build the graph of the lane that starts at `lane`."""
        outer = Conversation if lane.parent is None else LaneState
        builder = StateGraph(LaneState, input_schema=outer, output_schema=outer)
        self._enter(builder, lane)
        nodes = {place: self._node(place) for place in self.tree.stops(lane)}
        for place, node in nodes.items():
            builder.add_node(place.node, node, metadata={"agent_name": place.name})
            self._wire(builder, place)
        graph = builder.compile(**options)
        for node in nodes.values():
            if isinstance(node, LanesNode):
                show_lanes(graph, node)
        return graph if lane.parent is None else LaneGraph(**vars(graph))

    def _enter(self, builder: Builder, lane: Place) -> None:
        """Lead to the first node; the root's lane by a node that begins the turn."""
        first = cast(Place, start(self.tree, lane, (0,) * len(lane.loops)).place)
        if lane.parent is not None:
            builder.add_edge(START, first.node)
            return
        builder.add_node(NEW_TURN, TurnNode(self._site(lane)))
        builder.add_edge(START, NEW_TURN)
        builder.add_edge(NEW_TURN, first.node)

    def _node(self, place: Place) -> Node:
        site, agent = self._site(place), place.agent
        match agent:
            case ChatAgent():
                return ModelNode(site)
            case FunctionAgent():
                return FunctionNode(site)
            case HumanAgent():
                return HumanNode(site)
            case ParallelAgent():
                lanes = self.tree.children[place]
                return LanesNode(site, [Lane(lane, self.build(lane)) for lane in lanes])
            case SequentialAgent() | LoopAgent():
                raise AssertionError(f"{agent.name} is only the way from node to node")
            case _:
                assert_never(agent)

    def _wire(self, builder: Builder, place: Place) -> None:
        """Draw the ways on from a node; where there is one only, it is no choice."""
        behind = [END if end is None else end.node for end in ends(self.tree, place)]
        if may_do(self.tree, place).ask:
            self._add_question(builder, place)
            behind.append(place.question_node)
        if len(behind) == 1:
            builder.add_edge(place.node, behind[0])
        else:
            builder.add_conditional_edges(place.node, _way_on, behind)

    def _add_question(self, builder: Builder, place: Place) -> None:
        question = QuestionNode(self._site(place))
        builder.add_node(place.question_node, question, metadata={"agent_name": place.name})
        builder.add_edge(place.question_node, place.node)

    def _site(self, place: Place) -> Site:
        return Site(self.tree, place, self.paths)


def _way_on(state: Whereabouts) -> str:
    return state["position"]["next"] or END

"""A tree of agents compiled to LangGraph: validate, place, add nodes, wire, compile.

Each lane becomes one flat `StateGraph`: every leaf is a node, every Parallel is a node that runs
the lanes of its branches, and all other composites are only the edges between them.
"""

from typing import Any, cast

from langchain_core.runnables import Runnable
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore

from agentgraph.agents import Agent, ChatAgent, FunctionAgent, HumanAgent, ParallelAgent
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
    lane = _LaneBuilder(tree, RunPaths(tree))
    options.setdefault("name", tree.root.name)
    graph = lane.build(tree.root, **options)
    return graph.with_config(_limits(tree))


def _limits(tree: Tree) -> Any:
    widest = max((len(tree.children[p]) for p in tree.places if _runs_lanes(p)), default=0)
    limits = {"recursion_limit": _STEPS}
    return {**limits, "max_concurrency": widest + _SPARE_THREADS} if widest else limits


class _LaneBuilder:
    """Builds the graphs of a tree's lanes."""

    def __init__(self, tree: Tree, paths: RunPaths) -> None:
        self.tree, self.paths = tree, paths

    def build(self, lane: Place, **options: Any) -> Graph:
        """Build the graph of the lane that starts at `lane`."""
        outer = Conversation if lane.parent is None else LaneState
        builder = StateGraph(LaneState, input_schema=outer, output_schema=outer)
        first = cast(Place, start(self.tree, lane, _zeros(lane)).place)
        if lane.parent is None:
            builder.add_node(NEW_TURN, TurnNode(self._site(lane)))
            builder.add_edge(START, NEW_TURN)
            builder.add_edge(NEW_TURN, first.node)
        else:
            builder.add_edge(START, first.node)
        inside: dict[str, list[Lane]] = {}
        for place in self.tree.stops(lane):
            metadata = {"agent_name": place.name}
            if _runs_lanes(place):
                lanes = [Lane(child, self.build(child)) for child in self.tree.children[place]]
                builder.add_node(place.node, LanesNode(self._site(place), lanes), metadata=metadata)
                inside[place.node] = lanes
            else:
                builder.add_node(place.node, _leaf(self._site(place)), metadata=metadata)
            self._wire(builder, place)
        graph = builder.compile(**options)
        for node, lanes in inside.items():
            show_lanes(graph, node, lanes)
        return graph if lane.parent is None else LaneGraph(**vars(graph))

    def _site(self, place: Place) -> Site:
        return Site(self.tree, place, self.paths)

    def _wire(self, builder: StateGraph[Any, Any, Any, Any], place: Place) -> None:
        behind = [END if end is None else end.node for end in ends(self.tree, place)]
        if may_do(self.tree, place).ask and isinstance(place.agent, FunctionAgent):
            node = place.question_node
            metadata = {"agent_name": place.name}
            builder.add_node(node, QuestionNode(self._site(place)), metadata=metadata)
            builder.add_edge(node, place.node)
            behind.append(node)
        if len(behind) == 1:
            builder.add_edge(place.node, behind[0])
        else:
            builder.add_conditional_edges(place.node, _way_on, behind)


def _leaf(site: Site) -> Node:
    agent = site.place.agent
    match agent:
        case ChatAgent():
            return ModelNode(site)
        case FunctionAgent():
            return FunctionNode(site)
        case HumanAgent():
            return HumanNode(site)
        case _:
            raise AssertionError(f"{agent.name} is no leaf")


def _way_on(state: Whereabouts) -> str:
    return state["position"]["next"] or END


def _runs_lanes(place: Place) -> bool:
    return isinstance(place.agent, ParallelAgent)


def _zeros(place: Place) -> tuple[int, ...]:
    return (0,) * len(place.loops)

"""The nodes of each kind of agent: a row for each, in one closed `match`."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, assert_never, cast

from langgraph.pregel import Pregel

from agentgraph.agents.agents import EachAgent, GraphAgent, ParallelAgent
from agentgraph.agents.kinds import PlaceKind
from agentgraph.agents.signals import Capabilities
from agentgraph.graph.foreign.graph_node import GraphNode
from agentgraph.graph.graph_classes import LaneNode
from agentgraph.graph.nodes.concurrency import AT_ONCE, BRANCHES
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.each import EachNode
from agentgraph.graph.nodes.function import FunctionNode
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.lanes_node import LanesNode
from agentgraph.graph.nodes.leaf import HumanNode, LeafNode, QuestionNode
from agentgraph.graph.nodes.leaf_lane import FirstNode, in_its_task
from agentgraph.graph.nodes.orchestrator import OrchestratorNode
from agentgraph.graph.nodes.parallel import ParallelNode
from agentgraph.graph.nodes.swarm import SwarmNode
from agentgraph.graph.nodes.switch import SwitchNode
from agentgraph.graph.nodes.workflow import WorkflowNode
from agentgraph.graph.pictures import picture_of

NodesOf: TypeAlias = Callable[[NodeContext, Capabilities, Sequence[Lane]], Iterable[LaneNode]]
"""Makes the nodes of a place, of their context, what its agent may do when it ends, and its lanes."""


def nodes_of(kind: PlaceKind) -> NodesOf:
    """Return the maker of the nodes of a kind of agents; see `agents.kinds` for the words."""
    match kind:
        case "chat":
            return _chat
        case "function":
            return _function
        case "graph":
            return _graph
        case "node":
            return _flat
        case "human":
            return _leaf(HumanNode)
        case "switch":
            return _leaf(SwitchNode)
        case "swarm":
            return _leaf(SwarmNode)
        case "parallel":
            return _parallel
        case "workflow":
            return _workflow
        case "each":
            return _each
        case "sequential" | "loop":
            return _only_edges
        case _:
            assert_never(kind)


def _leaf(node: Callable[[NodeContext], LeafNode]) -> NodesOf:
    return lambda context, capabilities, _: [LaneNode(node(context), capabilities)]


def _chat(context: NodeContext, _: Capabilities, lanes: Sequence[Lane]) -> Iterable[LaneNode]:
    from agentgraph.graph.chat.wiring import chat_nodes

    return chat_nodes(context, lanes)


def _function(
    context: NodeContext, capabilities: Capabilities, lanes: Sequence[Lane]
) -> Iterable[LaneNode]:
    place = context.place
    if lanes:
        node: FunctionNode = OrchestratorNode(context, capabilities, lanes)
    else:
        is_lane = place.parent is not None and place.parent.kind.is_parallel
        node = (FirstNode if is_lane else FunctionNode)(context, capabilities)
    yield LaneNode(
        node,
        capabilities,
        [place.nodes.question] if capabilities.ask else (),
        picture=picture_of(lanes) if lanes else None,
        at_once=AT_ONCE if lanes else 0,
    )
    if capabilities.ask:
        yield LaneNode(QuestionNode(context, node.retry), None, [place.node])


def _graph(
    context: NodeContext, capabilities: Capabilities, lanes: Sequence[Lane]
) -> Iterable[LaneNode]:
    if context.place.kind.is_flattened:
        return _flat(context, capabilities, lanes)
    inner = cast(GraphAgent, context.place.agent).graph
    picture = inner if isinstance(inner, Pregel) else None
    return [LaneNode(GraphNode(context), capabilities, may_leave=True, picture=picture)]


def _flat(context: NodeContext, *_: object) -> Iterable[LaneNode]:
    from agentgraph.graph.foreign.flat_nodes import flat_node

    return [flat_node(context)]


def _parallel(
    context: NodeContext, capabilities: Capabilities, lanes: Sequence[Lane]
) -> Iterable[LaneNode]:
    most = max(cast(ParallelAgent, context.place.agent).max_concurrency or 0, BRANCHES)
    node = ParallelNode(context, [in_its_task(lane) for lane in lanes])
    yield _lanes_node(node, capabilities, min(len(lanes), most))


def _workflow(
    context: NodeContext, capabilities: Capabilities, lanes: Sequence[Lane]
) -> Iterable[LaneNode]:
    yield _lanes_node(WorkflowNode(context, lanes), capabilities, min(len(lanes), BRANCHES))


def _each(
    context: NodeContext, capabilities: Capabilities, lanes: Sequence[Lane]
) -> Iterable[LaneNode]:
    most = max(cast(EachAgent, context.place.agent).max_concurrency or 0, AT_ONCE)
    yield _lanes_node(EachNode(context, [in_its_task(lane) for lane in lanes]), capabilities, most)


def _lanes_node(node: LanesNode, capabilities: Capabilities, at_once: int) -> LaneNode:
    return LaneNode(node, capabilities, picture=node.picture, at_once=at_once)


def _only_edges(context: NodeContext, *_: object) -> Iterable[LaneNode]:
    raise AssertionError(f"{context.place.name} has no node, only edges")

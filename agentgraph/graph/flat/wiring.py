"""How the nodes of a graph that is laid flat follow each other in its lane: as the graph draws them."""

from typing import cast

from langgraph.graph import END

from agentgraph.agents.agents import InnerNode
from agentgraph.graph.flat.nodes import EntryNode, InnerGraphNode
from agentgraph.graph.graphs import AT_ONCE, LaneNode
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.tree.kinds import capabilities_of


def flat_node(node_context: NodeContext) -> LaneNode:
    """Return the node that begins the graph, or runs one of its nodes, with its drawn ways on."""
    place, tree = node_context.place, node_context.tree
    is_inner = place.kind.is_inner
    node = InnerGraphNode(node_context) if is_inner else EntryNode(node_context)
    nodes = {cast(InnerNode, each.agent).node: each.node for each in tree.children[place.home]}
    ways, has_output = node.graph.drawn_ways(node.inner), not node.graph.says_messages
    others = [nodes[way] for way in ways if way in nodes]
    if is_inner and has_output and END in ways:
        others.append(place.home.node)
    may_end = not is_inner if has_output else END in ways
    return LaneNode(
        node,
        capabilities_of(place.agent) if may_end else None,
        others,
        is_free=True,
        reads=("middleware", "untracked"),
        picture=place.agent.graph if isinstance(place.agent, InnerNode) else None,
        at_once=AT_ONCE if is_inner else 0,
    )

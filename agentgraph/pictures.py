"""How a Parallel shows its lanes: drawn inside its box, and found by their state.

LangGraph looks for both in the first graph of a node's `subgraphs`, so the node that runs lanes
carries one: a graph with the lanes as its nodes, which never runs.
"""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph as Drawing
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from agentgraph.nodes.lanes import LanesNode
from agentgraph.state import LaneState


class LaneGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """The graph of a branch; with one node only it is drawn as that, without a box around it."""

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Drawing:
        """Return the drawing that stands in the place of the branch."""
        inside = [name for name in self.nodes if name != START]
        if len(inside) > 1:
            return super().get_graph(config, xray=xray)
        for _, picture in self.get_subgraphs():
            return picture.get_graph(config, xray=xray)
        drawn = super().get_graph(config)
        return Drawing(nodes={name: drawn.nodes[name] for name in inside})


def show_lanes(graph: CompiledStateGraph[Any, Any, Any, Any], node: LanesNode) -> None:
    """Give a node that runs lanes the picture of them."""
    builder = StateGraph(LaneState)
    for lane in node.lanes:
        builder.add_node(lane.place.node, lane.graph)
        builder.add_edge(START, lane.place.node)
        builder.add_edge(lane.place.node, END)
    graph.nodes[node.site.place.node].subgraphs = [builder.compile()]

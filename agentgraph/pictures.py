"""How a node shows the lanes that it runs: drawn inside its box, and found by their state.

LangGraph looks for both in the first graph of a node's `subgraphs`, so the node that runs lanes
carries one: a graph with the lanes as its nodes, which never runs.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph as Drawing
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from agentgraph.nodes.lane import Lane
from agentgraph.state import LaneState


def solid(drawn: Drawing, names: Collection[str]) -> Drawing:
    """Return a drawing in which the only way on from a node of these names is no choice."""
    ways = Counter(edge.source for edge in drawn.edges)
    for i, edge in enumerate(drawn.edges):
        if ways[edge.source] == 1 and edge.source.removesuffix(f":{END}") in names:
            drawn.edges[i] = edge._replace(conditional=False)
    return drawn


class LaneGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """The graph of a branch; one node that runs once is drawn as that, without a box around it."""

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Drawing:
        """Return the drawing that stands in the place of the branch."""
        inside = [name for name in self.nodes if name != START]
        if len(inside) > 1:
            return solid(super().get_graph(config, xray=xray), inside)
        for _, picture in self.get_subgraphs():
            return picture.get_graph(config, xray=xray)
        drawn = super().get_graph(config)
        if any(edge.source == edge.target for edge in drawn.edges):
            return drawn
        return Drawing(nodes={name: drawn.nodes[name] for name in inside})


class Picture(CompiledStateGraph[Any, Any, Any, Any]):
    """What is drawn in the box of a node that runs lanes."""

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Drawing:
        """Return the drawing of the lanes, with a start and an end that stay in the box."""
        drawn = super().get_graph(config, xray=xray)
        return _Box(nodes=drawn.nodes, edges=drawn.edges)


class _Box(Drawing):
    """A drawing that keeps its start: Mermaid leaves out a box that has only another box in it."""

    def trim_first_node(self) -> None:
        """Keep the start."""

    def trim_last_node(self) -> None:
        """Keep the end."""


def show_lanes(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    node: str,
    lanes: Sequence[Lane],
    others: Sequence[str] = (),
    behind: Mapping[str, Sequence[str]] = MappingProxyType({}),
    undoing: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Give a node that runs lanes the picture of them, and of other tasks that it runs.

    What is `behind` others is drawn so, by their nodes, and dotted what may be undone by which node;
    all else begins at the start.
    """
    builder = StateGraph(LaneState)
    boxes = {lane.place.node: lane.graph for lane in lanes} | dict.fromkeys(others, _nothing)
    names = {lane.place.node: lane.place.name for lane in lanes}
    followed = {each for before in behind.values() for each in before} | {*undoing.values()}
    for name, box in boxes.items():
        builder.add_node(name, box, metadata={"agent_name": names.get(name, name)})
        for before in () if name in undoing.values() else behind.get(name) or [START]:
            builder.add_edge(before, name)
        if name not in followed:
            builder.add_edge(name, END)
    for name, undo in undoing.items():
        builder.add_conditional_edges(name, _nothing, [undo])
    graph.nodes[node].subgraphs = [Picture(**vars(builder.compile()))]


def _nothing(state: LaneState) -> Any:
    """Stand for what is no lane."""

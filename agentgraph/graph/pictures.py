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

from agentgraph.agents.agents import Agent
from agentgraph.graph.entrance import from_outside
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.state import LaneState


def solid(drawn: Drawing, names: Collection[str]) -> Drawing:
    """Return a drawing in which the only way on from a node of these names is no choice."""
    ways = Counter(edge.source for edge in drawn.edges)
    for i, edge in enumerate(drawn.edges):
        if ways[edge.source] == 1 and edge.source.removesuffix(f":{END}") in names:
            drawn.edges[i] = edge._replace(conditional=False)
    return drawn


class RootGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """The graph of a tree: LangGraph's `CompiledStateGraph`, but that no input can speak as an agent.

    All ways to run it lead through `stream` or `astream`. In Jupyter it shows what its tree shows,
    and sends its shape nowhere to be drawn.

    Attributes:
        agent: The root of the tree.
    """

    def __init__(self, *, agent: Agent, **options: Any) -> None:
        super().__init__(**options)
        self.agent = agent

    def stream(self, input: Any, config: Any = None, **options: Any) -> Any:
        """Run as LangGraph does, on input without our stamps.

        Args:
            input: The input, a command, or None to go on.
            config: LangGraph's config.
            **options: LangGraph's other options.

        Returns:
            What LangGraph's own method returns.
        """
        return super().stream(from_outside(input), config, **options)

    def astream(self, input: Any, config: Any = None, **options: Any) -> Any:
        """Run as LangGraph does, on input without our stamps.

        Args:
            input: The input, a command, or None to go on.
            config: LangGraph's config.
            **options: LangGraph's other options.

        Returns:
            What LangGraph's own method returns.
        """
        return super().astream(from_outside(input), config, **options)

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Drawing:
        """Return LangGraph's drawing of the graph; the only way on from a node is no choice in it.

        Args:
            config: LangGraph's config.
            xray: Whether what nodes run is drawn inside them, or how deep.
        """
        return solid(super().get_graph(config, xray=xray), self.nodes)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {**self.agent._repr_mimebundle_(), "text/plain": repr(self)}


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

"""The drawings inside nodes that run lanes.

LangGraph finds a node's inner graph, for drawings and for states, as the first of its `subgraphs`. So
a node that runs lanes has a picture there: a graph with the lanes as its nodes, which never runs.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph as Drawing
from langgraph.graph import END, START, StateGraph
from langgraph.types import StateSnapshot

from agentgraph.graph.graph_classes import compiled_as
from agentgraph.graph.lane_states import LaneStates
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.open_types import Graph
from agentgraph.graph.state import LaneState
from agentgraph.graph.sync_async import arun_calls, run_calls

TITLE = "title"
"""The key of the title of a box, in the metadata of the start that is drawn in it."""


class Picture(Graph):
    """The graph that is drawn inside a node that runs lanes; it never runs.

    Its state is that of the lanes, which are tasks of the node.

    Attributes:
        title: The title of a node whose one lane runs several times.
        lanes: Reads the states of the lanes.
    """

    title = ""
    lanes: LaneStates

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of the node: of each lane that has begun."""
        return run_calls(self.lanes.snapshot(config, subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of the node, as `get_state` does."""
        return await arun_calls(self.lanes.snapshot(config, subgraphs=subgraphs))

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Drawing:
        """Return the drawing of the lanes, with start and end."""
        drawn = super().get_graph(config, xray=xray)
        if self.title:
            drawn.nodes[START] = drawn.nodes[START]._replace(metadata={TITLE: self.title})
        return _Box(nodes=drawn.nodes, edges=drawn.edges)


class _Box(Drawing):
    """A drawing that keeps its start and end: Mermaid omits a box that holds only another box."""

    def trim_first_node(self) -> None:
        """Keep the start."""

    def trim_last_node(self) -> None:
        """Keep the end."""


def picture_of(
    lanes: Sequence[Lane],
    others: Sequence[str] = (),
    predecessors: Mapping[str, Sequence[str]] = MappingProxyType({}),
    undoing: Mapping[str, str] = MappingProxyType({}),
    title: str = "",
    skipped: Container[str] = (),
) -> Picture:
    """Return the picture of the lanes and other tasks that a node runs.

    Args:
        lanes: The lanes.
        others: The names of the other tasks.
        predecessors: The nodes before a lane's node; without any it is drawn after the start.
        undoing: The task that undoes a lane's node, drawn with a dotted edge.
        title: The title of the node, if its one lane runs several times.
        skipped: The nodes that may be skipped, drawn after dotted edges.
    """
    builder = StateGraph(LaneState)
    boxes = {lane.place.node: lane.graph for lane in lanes} | dict.fromkeys(others, _nothing)
    names = {lane.place.node: lane.place.name for lane in lanes}
    followed = {each for several in predecessors.values() for each in several} | {*undoing.values()}
    for name, box in boxes.items():
        builder.add_node(name, box, metadata={"agent_name": names.get(name, name)})
        for before in () if name in undoing.values() else predecessors.get(name) or [START]:
            if name in skipped:
                builder.add_conditional_edges(before, _drawn_condition(name), [name])
            else:
                builder.add_edge(before, name)
        if name not in followed:
            builder.add_edge(name, END)
    for name, undo in undoing.items():
        builder.add_conditional_edges(name, _nothing, [undo])
    return compiled_as(Picture, builder.compile(), title=title, lanes=LaneStates(lanes, others))


def _nothing(state: LaneState) -> object:
    """Be a node that is only drawn."""


def _drawn_condition(name: str) -> Callable[[LaneState], object]:
    """Return a condition that is only drawn, with a new name: those of one node must differ in it."""

    def condition(state: LaneState) -> object:
        return None

    condition.__name__ = name
    return condition

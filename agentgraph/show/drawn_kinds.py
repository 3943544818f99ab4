"""Finds the agent and the kind of each node that LangGraph draws, and the edges back in loops."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from langgraph.graph import END, START
from langgraph.pregel import Pregel

from agentgraph.graph.graph_classes import RootGraph
from agentgraph.graph.open_types import Graph
from agentgraph.show.kinds import appearance_of
from agentgraph.show.styles import ENDS, LANE
from agentgraph.tree.places import Place, Tree

Ends = tuple[str, str]
"""The source and the target of an edge."""
Inside = Callable[[object], dict[str, object]]
"""Returns the graphs that are drawn in the nodes of a graph."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The meaning of a node or a box.

    Attributes:
        kind: Its kind, a key of `STYLES`.
        node: The name of its node in the drawn tree; empty if it has no node there.
        place: The place of its agent; None in a graph without a tree, and for a box that is one lane.
        tree: The tree of the place.
    """

    kind: str
    node: str = ""
    place: Place | None = None
    tree: Tree | None = None


def boxes_of(keys: Iterable[str]) -> set[str]:
    """Return the boxes of a drawing: all prefixes before a colon in the keys of its nodes.

    >>> sorted(boxes_of(["write", "review:facts:find"]))
    ['review', 'review:facts']
    """
    return {key[:i] for key in keys for i, char in enumerate(key) if char == ":"}


def drawn_kinds(graph: Graph, keys: Collection[str]) -> dict[str, Drawn]:
    """Return the meaning of each node and each box of a drawing.

    Args:
        graph: The drawn graph.
        keys: The keys of the nodes in LangGraph's drawing, such as `review:facts:find`.
    """
    boxes, inside = boxes_of(keys), cache(_subgraphs)
    every = {*keys, *boxes}
    return {key: _drawn(graph, key, every, key in boxes, inside) for key in every}


def _drawn(graph: object, key: str, every: set[str], is_box: bool, inside: Inside) -> Drawn:
    *around, name = key.split(":")
    if name in (START, END):
        return Drawn(ENDS)
    inner = _graph_around(graph, around, inside)
    if not isinstance(inner, RootGraph):
        is_tree = is_box and isinstance(inside(inner).get(name), RootGraph)
        return Drawn(LANE if is_tree else "foreign")
    place = inner.tree.by_node.get(name)
    if place is None or f"{key}:{name}" in every:
        return Drawn("tools" if name.endswith(".call") else LANE)
    return Drawn(_kind_of_node(place, name), name if inner is graph else "", place, inner.tree)


def _graph_around(graph: object, around: Iterable[str], inside: Inside) -> object:
    """Return the innermost graph around a node that is not a lane; None if it is unknown."""
    for name in around:
        if not isinstance(graph, RootGraph):
            graph = inside(graph).get(name)
        elif (place := graph.tree.by_node.get(name)) is not None and place.kind.runs_graph:
            graph = getattr(place.agent, "graph", None)
    return graph


def _subgraphs(graph: object) -> dict[str, object]:
    return dict(graph.get_subgraphs()) if isinstance(graph, Pregel) else {}


def _kind_of_node(place: Place, node: str) -> str:
    if node == place.node:
        return appearance_of(place.kind.name).style
    if node == place.nodes.tools:
        return "tools"
    return "person" if node in (place.nodes.approve, place.nodes.question) else "middleware"


def back_edges(edges: Iterable[Ends], drawn: Mapping[str, Drawn]) -> dict[Ends, str]:
    """Return the edges that lead back to the start of a loop, with their labels.

    One edge of each loop has its name and its maximum number of iterations; the others have no text. An
    edge that may also be a transfer, or a chat agent's next round, counts only if a loop has no other.

    An edge that leads back in two loops has a label of two lines.

    Args:
        edges: The edges.
        drawn: The meanings of their ends.
    """
    sure: dict[Place, list[Ends]] = {}
    possible: dict[Place, list[Ends]] = {}
    for ends in edges:
        source, target = (drawn.get(end) for end in ends)
        if source is None or target is None or source.tree is not target.tree:
            continue
        for place in _repeated(source, target):
            found = possible if _is_unclear(source, target) else sure
            found.setdefault(place, []).append(ends)
    back: dict[Ends, str] = {}
    for place in dict.fromkeys([*sure, *possible]):
        first, *others = sure.get(place) or possible[place]
        back[first] = "\n".join(filter(None, [back.get(first, ""), _repeats(place)]))
        for ends in others:
            back.setdefault(ends, "")
    return back


def _repeated(source: Drawn, target: Drawn) -> Iterator[Place]:
    place, tree, last = source.place, source.tree, target.place
    while place is not None and tree is not None and last is not None:
        is_repeated = place.kind.loops or place.repeats
        if is_repeated and _first_stop(tree, place) is last and _begins(target):
            yield place
        around = place.parent
        if around is None or place.starts_lane:
            return
        if not around.kind.is_node and tree.children[around][-1] is not place:
            return
        place = around


def _begins(target: Drawn) -> bool:
    return target.place is not None and target.node in ("", target.place.nodes.entry)


def _first_stop(tree: Tree, place: Place) -> Place:
    while not place.is_node:
        place = tree.children[place][0]
    return place


def _is_unclear(source: Drawn, target: Drawn) -> bool:
    """Return whether an edge may lead elsewhere than back in a loop: a round, a transfer."""
    if source.place is target.place:
        return source.node.endswith(".tools") or source.node != target.node
    return source.place is not None and target.place in (*source.place.around,)


def _repeats(place: Place) -> str:
    """Return the label of an edge that leads back: `↻ refine, at most 3`."""
    if not place.kind.loops:
        return "↻ checked" if place.is_node else f"↻ {place.given_name}, checked"
    limit = getattr(place.agent, "max_iterations", None)
    return f"↻ {place.given_name}, at most {limit}" if limit else f"↻ {place.given_name}"

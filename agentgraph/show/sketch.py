"""A drawing as data: the nodes, boxes and edges of LangGraph's drawing of a graph, without a layout.

LangGraph draws each lane with its own start and end nodes. A sketch has none of these, and edges lead
to the box of the lanes itself. The next round of a chat agent without tools is not an edge.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.runnables.graph import Edge, Node
from langgraph.graph import END, START

from agentgraph.agents.kinds import KINDS
from agentgraph.graph.open_types import Graph
from agentgraph.graph.pictures import TITLE
from agentgraph.show.drawn_kinds import Drawn, Ends, back_edges, drawn_kinds
from agentgraph.show.kinds import STYLES
from agentgraph.show.styles import LANE

_FURTHER = {word for kind in KINDS.values() for word in kind.further}
"""The suffixes of an agent's further nodes, as in `write.tools`."""
_ENDS = {START: "start", END: "end"}


@dataclass(frozen=True, slots=True)
class SketchNode:
    """A node, or a box with its contents.

    Attributes:
        key: Its name in LangGraph's drawing: `review:facts:find`.
        label: Its label.
        drawn: Its meaning.
        inside: The parts in a box; empty for a node.
    """

    key: str
    label: str
    drawn: Drawn
    inside: tuple["SketchNode", ...] = ()

    def all(self) -> Iterator["SketchNode"]:
        """Yield the part, and all parts inside it."""
        yield self
        for part in self.inside:
            yield from part.all()


@dataclass(frozen=True, slots=True)
class Line:
    """An edge.

    Attributes:
        source: The key of its first part.
        target: The key of its second part.
        is_choice: Whether it is conditional.
        is_back: Whether it leads back in a loop.
        label: Its text, perhaps in several lines.
    """

    source: str
    target: str
    is_choice: bool
    is_back: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Sketch:
    """A drawing as data.

    Attributes:
        parts: The nodes and boxes outside of boxes.
        lines: The edges.
        anchors: The key of a node before a box, by the key of a node in the box; see `_anchors`.
    """

    parts: tuple[SketchNode, ...]
    lines: tuple[Line, ...]
    anchors: Mapping[str, str] = field(default_factory=dict)

    def all(self) -> Iterator[SketchNode]:
        """Yield all parts, each before the parts inside it."""
        for part in self.parts:
            yield from part.all()


def sketch(graph: Graph, *, xray: bool = True) -> Sketch:
    """Return the drawing of a graph as data.

    Args:
        graph: A graph made by `compile_agent`, or one that has such a graph as a node.
        xray: Whether to draw the insides of nodes.
    """
    given = graph.get_graph(xray=xray)
    nodes = {key: node for key, node in given.nodes.items() if not _is_edge_of_box(key)}
    drawn = drawn_kinds(graph, nodes)
    every = _edges(given.edges)
    back = back_edges(every, drawn)
    edges = {
        ends: choice for ends, choice in every.items() if ends in back or not _is_round(ends, drawn)
    }
    titles = {
        key.removesuffix(START): node.metadata[TITLE]
        for key, node in given.nodes.items()
        if node.metadata and TITLE in node.metadata
    }
    lines = (Line(*ends, choice, ends in back, back.get(ends, "")) for ends, choice in edges.items())
    linked = {end for ends in edges for end in ends}
    parts = tuple(_without_box(part, linked) for part in _parts(nodes, "", drawn, titles))
    keys = [each.key for part in parts for each in part.all() if not each.inside]
    return Sketch(parts, tuple(lines), dict(_anchors(edges, keys)))


def _is_round(ends: Ends, drawn: Mapping[str, Drawn]) -> bool:
    """Return whether an edge is only the next round of a chat agent, after a rejected reply."""
    source, target = ends
    return source == target and STYLES[drawn[source].kind].hides_rounds


def _parts(
    nodes: Mapping[str, Node], box: str, drawn: Mapping[str, Drawn], titles: Mapping[str, str]
) -> Iterator[SketchNode]:
    """Yield the nodes and boxes inside a box.

    A box with a title contains one box, which is left out.
    """
    done: set[str] = set()
    for key, node in nodes.items():
        name, colon, _ = key.removeprefix(box).partition(":")
        if not key.startswith(box) or name in done:
            continue
        done.add(name)
        if not colon:
            yield SketchNode(key, _ENDS.get(key) or _label(key, node), drawn[key])
            continue
        inner, what = f"{box}{name}:", drawn[box + name]
        look = STYLES[what.kind]
        title = titles.get(inner) or (look.word if look.is_titled else "")
        only = _only_box(nodes, inner) if inner in titles else inner
        inside = tuple(_parts(nodes, only, drawn, titles))
        label = f"{_short(name)}: {title}" if title else _short(name)
        yield SketchNode(box + name, label, what, inside)


def _without_box(part: SketchNode, linked: Container[str]) -> SketchNode:
    """Replace the box of a lane by its node if it has one node without edges."""
    inside = tuple(_without_box(each, linked) for each in part.inside)
    if part.drawn.kind == LANE and len(inside) == 1:
        (only,) = inside
        if only.label == part.label and not only.inside and only.key not in linked:
            return replace(only, key=part.key)
    return replace(part, inside=inside)


def _only_box(nodes: Iterable[str], box: str) -> str:
    first = next(key for key in nodes if key.startswith(box))
    name, colon, _ = first.removeprefix(box).partition(":")
    return f"{box}{name}:" if colon else box


def _label(key: str, node: Node) -> str:
    """Return the name of a node, starting at its agent: `write.tools`, `write.Limit.before_model`."""
    parts, agent = key.rpartition(":")[2].split("."), (node.metadata or {}).get("agent_name")
    return ".".join(parts[parts.index(agent) :] if agent in parts else parts)


def _short(name: str) -> str:
    """Return the last part of a node's name: `write.tools` for `report.write.tools`."""
    *_, before, last = ("", *name.split("."))
    return f"{before}.{last}" if before and last in _FURTHER else last


def _anchors(edges: Iterable[Ends], nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield a node inside each box to which a loop leads back, and the node before that box.

    Mermaid places boxes before nodes, and would draw such a loop upside down. An invisible edge to a
    node inside the box prevents that.
    """
    edges, onwards = [*edges], dict[str, list[str]]()
    for source, target in edges:
        onwards.setdefault(source, []).append(target)
    depths = depths_from(START, lambda key: onwards.get(key, ()))
    for box in dict.fromkeys(target for _, target in edges):
        inside = next((key for key in nodes if key.startswith(f"{box}:")), None)
        reached = depths_from(box, lambda key: onwards.get(key, ())) if inside else {}
        sources = [source for source, target in edges if target == box and source != box]
        if inside and not reached.keys().isdisjoint(sources):
            source = min(sources, key=lambda each: depths.get(each, len(edges)))
            yield inside, source


def depths_from(start: str, onwards: Callable[[str], Sequence[str]]) -> dict[str, int]:
    """Return all reachable keys from a start, each with its distance in edges.

    Args:
        start: The start.
        onwards: Returns the successors of a key.
    """
    depths = {start: 0}
    for each in (queue := [start]):
        for target in onwards(each):
            if target not in depths:
                depths[target] = depths[each] + 1
                queue.append(target)
    return depths


def _edges(given: Iterable[Edge]) -> dict[Ends, bool]:
    edges: dict[Ends, bool] = {}
    for edge in given:
        if (ends := _between(edge.source, edge.target)) is not None:
            edges[ends] = edges.get(ends, False) or edge.conditional
    return edges


def _between(source: str, target: str) -> Ends | None:
    """Return the ends of an edge; an end inside another box is replaced by the outermost such box.

    >>> _between("review:legal:__end__", "review:press"), _between("write", "review:__start__")
    (('review:legal', 'review:press'), ('write', 'review'))

    None for an edge between a box's own start or end and a node inside it.
    """
    out_of, into = source.split(":"), target.split(":")
    shared = 0
    while shared < min(len(out_of), len(into)) - 1 and out_of[shared] == into[shared]:
        shared += 1
    ends = ":".join(out_of[: shared + 1]), ":".join(into[: shared + 1])
    if not any(map(_is_edge_of_box, ends)):
        return ends
    is_way_back = source.endswith(f":{END}") and target.endswith(f":{START}")
    return (":".join(out_of[:-1]), ":".join(into[:-1])) if is_way_back else None


def _is_edge_of_box(key: str) -> bool:
    return key.endswith((f":{START}", f":{END}"))

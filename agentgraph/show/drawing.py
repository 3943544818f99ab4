"""Draws compiled graphs as Mermaid text: a node for each agent that runs, one start and one end.

LangGraph draws each lane with its own start and end nodes. Here these are left out, and edges lead to
the box of the lanes itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from zlib import crc32

from langchain_core.runnables.graph import Edge, Node
from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph

from agentgraph.agents.agents import Agent
from agentgraph.errors import InvalidAgentError
from agentgraph.graph.compiler import compile_agent
from agentgraph.graph.graph_classes import TITLE
from agentgraph.safe_repr import printable
from agentgraph.show.lines import tree_lines
from agentgraph.tree.kinds import WORK
from agentgraph.tree.places import is_drawable

_DRAWN_ENDS = {START: '__start__(("start"))', END: '__end__((("end")))'}
_FURTHER = {word for words in WORK.values() for word in words}
"""The suffixes of an agent's further nodes, as in `write.tools`."""
_MOST_LINES = 50
_STYLE = "classDef default fill:#f2f0ff,stroke:#9370db,color:#1f1f1f"


Graph = CompiledStateGraph[Any, Any, Any, Any]
Edges = dict[tuple[str, str], bool]
"""The edges by source and target, and whether each is conditional."""


def mermaid(graph: Graph, *, xray: bool = True) -> str:
    """Return a compiled graph as Mermaid text.

    ```
    print(mermaid(compile_agent(report)))
    graph TD
        __start__(("start"))
        write("write")
        critique("critique")
        __end__((("end")))
        __start__ --> write
        write --> critique
        critique -.-> write
        critique -.-> __end__
    ```

    A dotted edge is conditional. Branches, steps and agents as tools are drawn in a box.

    Args:
        graph: A graph made by `compile_agent`, or one that has such a graph as a node.
        xray: Whether to draw what nodes run inside them: branches, steps, agents as tools, graphs.
    """
    drawn = graph.get_graph(xray=xray)
    nodes = {key: node for key, node in drawn.nodes.items() if not _is_edge_of_box(key)}
    edges = _edges(drawn.edges)
    anchors = dict(_anchors(edges, nodes))
    titles = {
        key.removesuffix(START): node.metadata[TITLE]
        for key, node in drawn.nodes.items()
        if node.metadata and TITLE in node.metadata
    }
    lines = [
        "graph TD",
        *_boxes(nodes, "", anchors, titles),
        *(f"    {_id(a)} {'-.->' if choice else '-->'} {_id(b)}" for (a, b), choice in edges.items()),
        *(f"    {_id(source)} ~~~ {_id(inside)}" for inside, source in anchors.items()),
        f"    {_STYLE}",
    ]
    return "\n".join(lines) + "\n"


def mime_bundle(agent: Agent) -> dict[str, str]:
    """Return how Jupyter displays an agent: its tree as text, and a drawing of its graph.

    If the agent has faults, the faults are displayed instead. Nothing is sent over the network.

    Args:
        agent: The root of the tree.

    Returns:
        The tree under "text/plain", and the drawing as in `drawings`.
    """
    try:
        graph = compile_agent(agent)
    except InvalidAgentError as error:
        return {"text/plain": str(error)}
    return {**drawings(graph), "text/plain": "\n".join(tree_lines(agent))}


def drawings(graph: Graph) -> dict[str, str]:
    """Return the drawing of a graph by MIME type, for Jupyter: as Mermaid text, which it renders.

    With the package mermaidx there is also an SVG, for pages that cannot render Mermaid. Making
    it takes seconds, so larger drawings (over 50 lines) have none. Nothing is sent over the network.

    Args:
        graph: A graph made by `compile_agent`, or one that has such a graph as a node.

    Returns:
        The drawing under "text/plain" and "text/vnd.mermaid", the SVG under "image/svg+xml".
    """
    text = mermaid(graph)
    bundle = {"text/plain": text, "text/vnd.mermaid": text}
    svg = _svg(text) if text.count("\n") <= _MOST_LINES else None
    return {**bundle, "image/svg+xml": svg} if svg else bundle


@lru_cache(maxsize=32)
def _svg(text: str) -> str | None:
    """Return Mermaid text as an SVG; None if the package mermaidx is missing."""
    try:
        import mermaidx
    except ImportError:
        return None
    config = {"htmlLabels": False, "flowchart": {"htmlLabels": False}}
    return _in_its_size(mermaidx.render(text, config=config).svg())


def _in_its_size(svg: str) -> str:
    """Return an SVG with a fixed size, and with an id of its own, so that its styles stay its own."""
    width, height = re.findall(r'viewBox="\S+ \S+ (\S+) (\S+)"', svg)[0]
    sized = svg.replace('width="100%"', f'width="{width}" height="{height}"', 1)
    return sized.replace("my-svg", f"graph-{crc32(svg.encode()):08x}")


def _boxes(
    nodes: Mapping[str, Node], box: str, anchors: Mapping[str, str], titles: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of all nodes and boxes inside a box.

    A box with a title has one box in it, which is left out.

    Mermaid lays out a box that has a direction by itself, so a box with an anchor gets none.
    """
    indent = "    " * (box.count(":") + 1)
    done: set[str] = set()
    for key, node in nodes.items():
        name, colon, _ = key.removeprefix(box).partition(":")
        if not key.startswith(box) or name in done:
            continue
        done.add(name)
        if not colon:
            yield f"{indent}{_node(key, node)}"
            continue
        inner = f"{box}{name}:"
        title = f": {titles[inner]}" if inner in titles else ""
        yield f'{indent}subgraph {_id(box + name)}["{_escaped(_short(name) + title)}"]'
        if not any(inside.startswith(inner) for inside in anchors):
            yield f"{indent}    direction TB"
        yield from _boxes(nodes, _only_box(nodes, inner) if title else inner, anchors, titles)
        yield f"{indent}end"


def _only_box(nodes: Iterable[str], box: str) -> str:
    """Return the box in a box; if there is but a node, the box itself."""
    first = next(key for key in nodes if key.startswith(box))
    name, colon, _ = first.removeprefix(box).partition(":")
    return f"{box}{name}:" if colon else box


def _node(key: str, node: Node) -> str:
    if key in _DRAWN_ENDS:
        return _DRAWN_ENDS[key]
    return f'{_id(key)}("{_escaped(_label(key, node))}")'


def _label(key: str, node: Node) -> str:
    """Return the name of a node, starting at its agent: `write.tools`, `write.Limit.before_model`."""
    parts, agent = key.rpartition(":")[2].split("."), (node.metadata or {}).get("agent_name")
    return ".".join(parts[parts.index(agent) :] if agent in parts else parts)


def _short(name: str) -> str:
    """Return the last part of a node's name: `write.tools` for `report.write.tools`."""
    *_, before, last = ("", *name.split("."))
    return f"{before}.{last}" if before and last in _FURTHER else last


def _anchors(edges: Edges, nodes: Mapping[str, Node]) -> Iterator[tuple[str, str]]:
    """Yield a node inside each box that a loop leads back to, and the node before that box.

    Mermaid places boxes before nodes, and would draw such a loop upside down. An invisible edge to a
    node inside the box prevents that.
    """
    onwards: dict[str, list[str]] = {}
    for source, target in edges:
        onwards.setdefault(source, []).append(target)
    depths = _depths(onwards, START)
    for box in dict.fromkeys(target for _, target in edges):
        inside = next((key for key in nodes if key.startswith(f"{box}:")), None)
        reached = _depths(onwards, box) if inside else {}
        sources = [source for source, target in edges if target == box and source != box]
        if inside and not reached.keys().isdisjoint(sources):
            source = min(sources, key=lambda each: depths.get(each, len(edges)))
            yield inside, source


def _depths(onwards: Mapping[str, Sequence[str]], start: str) -> dict[str, int]:
    """Return all that can be reached from a start, each with its distance in edges."""
    depths = {start: 0}
    for each in (queue := [start]):
        for target in onwards.get(each, ()):
            if target not in depths:
                depths[target] = depths[each] + 1
                queue.append(target)
    return depths


def _edges(drawn: list[Edge]) -> Edges:
    """Return the edges to draw, between nodes and boxes."""
    edges: Edges = {}
    for edge in drawn:
        if (ends := _between(edge.source, edge.target)) is not None:
            edges[ends] = edges.get(ends, False) or edge.conditional
    return edges


def _between(source: str, target: str) -> tuple[str, str] | None:
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


def _id(key: str) -> str:
    """Return an id that Mermaid can read: the node's name, with other characters escaped."""
    if key in _DRAWN_ENDS:
        return key
    plain = re.sub(r"[^A-Za-z0-9_.]", lambda char: f"_{ord(char[0]):x}_", key.replace(":", "."))
    return plain if is_drawable(plain.partition(".")[0]) else f"_{plain}"


def _escaped(label: str) -> str:
    """Return a label that Mermaid and the SVG made of it can hold; the rest is spelled out."""
    return "".join(f"#{ord(char)};" if char in '"#<>&`*' else char for char in printable(label))

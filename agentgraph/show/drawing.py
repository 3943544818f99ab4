"""Draws compiled graphs as Mermaid text, SVG and HTML: a node for each agent that runs.

Each kind of agent has its own shape and colours (`styles.py`). Agents that run others in parallel are
boxes, and a loop is the edge that leads back, with its name.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from zlib import crc32

from langgraph.graph import END, START

from agentgraph.agents.agents import Agent
from agentgraph.errors import InvalidAgentError
from agentgraph.graph.compiler import compile_agent
from agentgraph.graph.open_types import Graph
from agentgraph.journal.steps import Visit
from agentgraph.safe_repr import cut, printable
from agentgraph.show.directions import Direction, direction_of
from agentgraph.show.kinds import STYLES
from agentgraph.show.lines import tree_lines
from agentgraph.show.pages import as_page, as_svg, can_render
from agentgraph.show.run_figures import Figures, figures_of, idle_parts
from agentgraph.show.sketch import Sketch, SketchNode, sketch
from agentgraph.show.styles import BOX, LINE, LOOP, LOOP_CLASS, PALE
from agentgraph.tree.layout import is_drawable

_DRAWN_ENDS = {START: '(("start"))', END: '((("end")))'}
_MOST_PARTS = 48
"""Maximum number of nodes, boxes and edges of a drawing for which Jupyter gets an SVG."""
_LONGEST_LABEL, _LONGEST_ID = 60, 80
_SPELLED = frozenset('"#<>&`*%$\\')
"""The characters with a meaning in Mermaid's labels."""


def mermaid(graph: Graph, *, xray: bool = True, visits: Iterable[Visit] | None = None) -> str:
    """Return a compiled graph as Mermaid text.

    ```
    print(mermaid(compile_agent(report)))
    graph LR
        __start__(("start")):::ends
        write("write"):::chat
        critique["critique"]:::function
        __end__((("end"))):::ends
        __start__ --> write
        write --> critique
        critique -.->|"↻ refine, at most 3"| write
        critique -.-> __end__
        linkStyle default stroke:#8a94a6
        ...
    ```

    A dotted edge is conditional; an edge back in a loop has the loop's name. Branches, steps and
    agents as tools are drawn in a box. The drawing runs from left to right if that fits a page.

    Args:
        graph: A graph made by `compile_agent`, or one that has such a graph as a node.
        xray: Whether to draw the insides of nodes: branches, steps, agents as tools, graphs.
        visits: The visits of a thread, from `Runner.visits`. With them each node shows its number of
            runs, their time and their tokens; nodes that never ran are pale.
    """
    return picture(graph, xray=xray, visits=visits).text


def picture(graph: Graph, *, xray: bool = True, visits: Iterable[Visit] | None = None) -> "Picture":
    """Return the picture of a compiled graph, for Jupyter or to save as SVG or HTML.

    ```
    picture(runner_graph, visits=runner.visits("monday"))
    ```

    Args:
        graph: A graph made by `compile_agent`, or one that has such a graph as a node.
        xray: Whether to draw the insides of nodes: branches, steps, agents as tools, graphs.
        visits: The visits of a thread, from `Runner.visits`, to draw its run on the graph.
    """
    drawn = sketch(graph, xray=xray)
    figures = None if visits is None else figures_of(visits)
    idle = frozenset[str]() if figures is None else idle_parts(drawn, figures)
    labels = {part.key: _label(part, figures or {}) for part in drawn.all()}
    direction = direction_of(drawn, labels)
    text = "\n".join(_lines(drawn, labels, direction, idle)) + "\n"
    return Picture(text=text, name=graph.name, kinds=_kinds(drawn, idle), parts=_number(drawn))


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing of a graph.

    Attributes:
        text: The Mermaid text.
        name: The name of the graph.
        kinds: The classes of the text that a legend explains.
        parts: The number of nodes, boxes and edges.
    """

    text: str
    name: str
    kinds: tuple[str, ...]
    parts: int

    def svg(self) -> str:
        """Return the drawing as an SVG with a legend; the rendering takes seconds.

        Raises:
            AgentGraphError: The package mermaidx (the extra `svg`) is missing.
        """
        return as_svg(self.text, self.kinds)

    def html(self, caption: str = "") -> str:
        """Return the drawing as a self-contained HTML page; the rendering takes seconds.

        Args:
            caption: The text below the name of the graph.

        Raises:
            AgentGraphError: The package mermaidx (the extra `svg`) is missing.
        """
        return as_page(self.svg(), self.name, caption)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the drawing for Jupyter, which renders Mermaid; with mermaidx also as an SVG.

        The SVG is for pages that cannot render Mermaid. The rendering takes seconds, so larger drawings
        (over 48 nodes, boxes and edges) have no SVG.
        """
        bundle = {"text/plain": self.text, "text/vnd.mermaid": self.text}
        may_be_made = self.parts <= _MOST_PARTS and can_render()
        return {**bundle, "image/svg+xml": self.svg()} if may_be_made else bundle


def mime_bundle(agent: Agent) -> dict[str, str]:
    """Return the representations of an agent for Jupyter: its tree as text, and a drawing.

    If the agent has faults, the faults are displayed instead. Nothing is sent over the network.

    Args:
        agent: The root of the tree.

    Returns:
        The tree under "text/plain", the drawing under "text/vnd.mermaid" and "image/svg+xml".
    """
    try:
        graph = compile_agent(agent)
    except InvalidAgentError as error:
        return {"text/plain": str(error)}
    return {**picture(graph)._repr_mimebundle_(), "text/plain": "\n".join(tree_lines(agent))}


def drawings(graph: Graph, *, visits: Iterable[Visit] | None = None) -> dict[str, str]:
    """Return the picture of a graph by MIME type, for `display(drawings(graph), raw=True)`.

    Args:
        graph: A graph made by `compile_agent`, or one that has such a graph as a node.
        visits: The visits of a thread, to draw its run on the graph.

    Returns:
        The drawing under "text/plain" and "text/vnd.mermaid", and mostly under "image/svg+xml".
    """
    return picture(graph, visits=visits)._repr_mimebundle_()


def _label(part: SketchNode, figures: Mapping[str, Figures]) -> str:
    """Return the label of a part: its name and its figures, on a separate line in a node."""
    name = cut(part.label, _LONGEST_LABEL)
    if (its := figures.get(part.drawn.node)) is None:
        return name
    return f"{name} ({its})" if part.inside else f"{name}\n{its}"


def _lines(
    drawn: Sketch, labels: Mapping[str, str], direction: Direction, idle: Collection[str]
) -> Iterator[str]:
    yield f"graph {direction}"
    within = "LR" if direction == "LR" else "TB"
    for part in drawn.parts:
        yield from _part_lines(part, labels, within, drawn.anchors)
    for line in drawn.lines:
        arrow = "-.->" if line.is_choice else "-->"
        said = f'|"{_escaped(line.label)}"|' if line.label else ""
        yield f"    {_id(line.source)} {arrow}{said} {_id(line.target)}"
    for inside, source in drawn.anchors.items():
        yield f"    {_id(source)} ~~~ {_id(inside)}"
    yield from _styles(drawn, idle)


def _part_lines(
    part: SketchNode, labels: Mapping[str, str], direction: str, anchors: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of a part.

    Mermaid lays out a box with a direction separately, so a box with an anchor gets no direction.
    """
    indent, label = "    " * (part.key.count(":") + 1), _escaped(labels[part.key])
    if not part.inside:
        before, after = STYLES[part.drawn.kind].shape
        node = _DRAWN_ENDS.get(part.key) or f'{before}"{label}"{after}'
        yield f"{indent}{_id(part.key)}{node}:::{part.drawn.kind}"
        return
    yield f'{indent}subgraph {_id(part.key)}["{label}"]'
    if not any(inside.startswith(f"{part.key}:") for inside in anchors):
        yield f"{indent}    direction {direction}"
    for each in part.inside:
        yield from _part_lines(each, labels, direction, anchors)
    yield f"{indent}end"


def _styles(drawn: Sketch, idle: Collection[str]) -> Iterator[str]:
    boxes: dict[str, list[str]] = {}
    for part in drawn.all():
        if part.inside:
            boxes.setdefault(part.drawn.kind, []).append(_id(part.key))
    for kind, ids in boxes.items():
        yield f"    class {','.join(ids)} {kind}{BOX}"
    if idle:
        yield f"    class {','.join(_id(part.key) for part in drawn.all() if part.key in idle)} {PALE}"
    yield f"    linkStyle default stroke:{LINE}"
    if back := [str(i) for i, line in enumerate(drawn.lines) if line.is_back]:
        yield f"    linkStyle {','.join(back)} stroke:{LOOP},stroke-width:2px,stroke-dasharray:7 3"
    for kind, look in STYLES.items():
        if any(part.drawn.kind == kind and not part.inside for part in drawn.all()):
            yield f"    classDef {kind} {look.node_style()}"
        if kind in boxes:
            yield f"    classDef {kind}{BOX} {look.box_style()}"
    if idle:
        yield f"    classDef {PALE} opacity:0.5"


def _kinds(drawn: Sketch, idle: Collection[str]) -> tuple[str, ...]:
    """Return the classes of a drawing that its legend explains, in the order of the looks.

    A kind with nodes and boxes is explained by its node.
    """
    nodes = {part.drawn.kind for part in drawn.all() if not part.inside}
    boxes = {part.drawn.kind for part in drawn.all()} - nodes
    kinds = (kind for kind, look in STYLES.items() if look.word and kind in nodes | boxes)
    classes = [kind if kind in nodes else f"{kind}{BOX}" for kind in kinds]
    loops = [LOOP_CLASS] if any(line.is_back for line in drawn.lines) else []
    return (*classes, *loops, *([PALE] if idle else ()))


def _number(drawn: Sketch) -> int:
    return len([*drawn.all()]) + len(drawn.lines)


def _id(key: str) -> str:
    """Return an id for Mermaid: the node's name, with other characters escaped."""
    if key in _DRAWN_ENDS:
        return key
    plain = re.sub(r"[^A-Za-z0-9_.]", lambda char: f"_{ord(char[0]):x}_", key.replace(":", "."))
    if len(plain) > _LONGEST_ID:
        plain = f"{plain[:_LONGEST_ID]}_{crc32(key.encode('utf-8', 'backslashreplace')):08x}"
    return plain if is_drawable(plain.partition(".")[0]) else f"_{plain}"


def _escaped(label: str) -> str:
    """Escape a label for Mermaid and its SVG; characters with a meaning become codes.

    Each line of the label is a line of the node.
    """
    return "<br/>".join(map(_escaped_line, label.split("\n")))


def _escaped_line(text: str) -> str:
    return "".join(f"#{ord(char)};" if char in _SPELLED else char for char in printable(text))

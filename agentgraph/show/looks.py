"""How each kind of agent looks in a drawing: a shape, colours, and the word for it in a legend.

Colours are explicit, dark text on a light fill, so that a drawing can be read on a dark page, too.
"""

from dataclasses import dataclass
from types import MappingProxyType

INK = "#1f2937"
"""The colour of text."""
LINE = "#8a94a6"
"""The colour of edges: it can be seen on white and on black."""
LOOP, LOOP_WORD = "#0d9488", "↻ loop"
"""The colour of an edge that leads back in a loop, and the word for it."""
ENDS, LANE = "ends", "lane"
"""The kinds of start and end, and of a box around one lane."""
PALE, LOOP_CLASS, BOX = "pale", "loop", "_box"
"""The class of what has not run; that of loops in a legend; the suffix for the class of boxes."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a kind looks.

    Attributes:
        word: The word for it in a legend, and in the title of its boxes; empty for none.
        shape: The brackets of its nodes in Mermaid: what is before and after the label.
        fill: The colour inside a node.
        stroke: The colour of the border.
        box_fill: The colour inside a box, lighter than that of a node.
        border: Further styles of the border of a box.
        node_border: Further styles of the border of a node.
    """

    word: str
    shape: tuple[str, str]
    fill: str
    stroke: str
    box_fill: str = "#ffffff"
    border: str = ""
    node_border: str = ""

    def node_style(self) -> str:
        """Return the style of its nodes, as in a `classDef` of Mermaid."""
        more = f",{self.node_border}" if self.node_border else ""
        return f"fill:{self.fill},stroke:{self.stroke},color:{INK}{more}"

    def box_style(self) -> str:
        """Return the style of its boxes."""
        more = f",{self.border}" if self.border else ""
        return f"fill:{self.box_fill},stroke:{self.stroke},color:{INK}{more}"


LOOKS = MappingProxyType(
    {
        "chat": Look("chat", ("(", ")"), "#ede9fe", "#7c3aed"),
        "tools": Look("tools", ("([", "])"), "#faf5ff", "#a78bfa", "#fdfaff"),
        "middleware": Look(
            "middleware", ("[", "]"), "#faf5ff", "#a78bfa", node_border="stroke-dasharray:4 3"
        ),
        "function": Look("function", ("[", "]"), "#dbeafe", "#2563eb", "#f5f9ff"),
        "person": Look("person", ("[/", "/]"), "#fef3c7", "#d97706"),
        "foreign": Look(
            "graph",
            ("[[", "]]"),
            "#e5e9f0",
            "#475569",
            "#f8fafc",
            "stroke-width:2px,stroke-dasharray:2 3",
        ),
        "switch": Look("switch", ("{", "}"), "#ffedd5", "#ea580c"),
        "swarm": Look("swarm", ("{{", "}}"), "#fce7f3", "#db2777"),
        "parallel": Look(
            "parallel",
            ("[/", "\\]"),
            "#e0f2fe",
            "#0284c7",
            "#f2faff",
            "stroke-width:2px,rx:12px,ry:12px",
        ),
        "workflow": Look(
            "workflow", ("[\\", "/]"), "#e0e7ff", "#4338ca", "#f5f7ff", "stroke-width:2px"
        ),
        "each": Look(
            "for each",
            ("[(", ")]"),
            "#ecfccb",
            "#4d7c0f",
            "#f9fef0",
            "stroke-width:2px,stroke-dasharray:8 4",
        ),
        LANE: Look("", ("[", "]"), "#ffffff", "#cbd5e1", "#ffffff"),
        ENDS: Look("", ("((", "))"), "#e5e7eb", "#6b7280"),
    }
)
"""The looks by kind."""

OF_AGENTS = MappingProxyType({"graph": "foreign", "node": "foreign", "human": "person"})
"""The kinds of agents whose look has another name."""

"""The style of a kind in a drawing: a shape, colours, and the word for it in a legend.

Colours are explicit, dark text on a light fill, so that a drawing can be read on a dark page, too.
"""

from dataclasses import dataclass

INK = "#1f2937"
"""The colour of text."""
LINE = "#8a94a6"
"""The colour of edges, visible on white and on black."""
LOOP, LOOP_WORD = "#0d9488", "↻ loop"
"""The colour of an edge that leads back in a loop, and the word for it."""
ENDS, LANE = "ends", "lane"
"""The kinds of start and end, and of a box around one lane."""
PALE, LOOP_CLASS, BOX = "pale", "loop", "_box"
"""The class of parts that have not run, the class of loops in a legend, the suffix of box classes."""


@dataclass(frozen=True, slots=True)
class Style:
    """The style of a kind in drawings.

    Attributes:
        word: The word for it in a legend, and in the title of its boxes; empty for none.
        shape: The brackets of its nodes in Mermaid, before and after the label.
        fill: The colour inside a node.
        stroke: The colour of the outline.
        box_fill: The colour inside a box, lighter than that of a node.
        box_outline: Further styles for the outline of a box.
        node_outline: Further styles of the outline of a node.
        padding: Number of pixels by which a node is wider than its label.
        is_square: Whether a node is as high as it is wide.
        is_titled: Whether its boxes show the word for it.
        hides_rounds: Whether an edge from a node to itself is left out as the next round.
    """

    word: str
    shape: tuple[str, str]
    fill: str
    stroke: str
    box_fill: str = "#ffffff"
    box_outline: str = ""
    node_outline: str = ""
    padding: int = 36
    is_square: bool = False
    is_titled: bool = False
    hides_rounds: bool = False

    def node_style(self) -> str:
        """Return the style of its nodes, as in a `classDef` of Mermaid."""
        more = f",{self.node_outline}" if self.node_outline else ""
        return f"fill:{self.fill},stroke:{self.stroke},color:{INK}{more}"

    def box_style(self) -> str:
        """Return the style of its boxes."""
        more = f",{self.box_outline}" if self.box_outline else ""
        return f"fill:{self.box_fill},stroke:{self.stroke},color:{INK}{more}"

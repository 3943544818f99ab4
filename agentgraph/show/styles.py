"""The look of a kind in a drawing: a shape, colours, and the word for it in a legend.

Colours are explicit, dark text on a light fill, so that a drawing can be read on a dark page, too.
"""

from dataclasses import dataclass

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
class Style:
    """The style of a kind in drawings.

    Attributes:
        word: The word for it in a legend, and in the title of its boxes; empty for none.
        shape: The brackets of its nodes in Mermaid: what is before and after the label.
        fill: The colour inside a node.
        stroke: The colour of the border.
        box_fill: The colour inside a box, lighter than that of a node.
        border: Further styles of the border of a box.
        node_border: Further styles of the border of a node.
        padding: How many pixels a node is wider than its label.
        is_square: Whether a node is as high as it is wide.
        is_titled: Whether its boxes say the word for it.
        hides_rounds: Whether an edge from a node to itself is left out: it is only the next round.
    """

    word: str
    shape: tuple[str, str]
    fill: str
    stroke: str
    box_fill: str = "#ffffff"
    border: str = ""
    node_border: str = ""
    padding: int = 36
    is_square: bool = False
    is_titled: bool = False
    hides_rounds: bool = False

    def node_style(self) -> str:
        """Return the style of its nodes, as in a `classDef` of Mermaid."""
        more = f",{self.node_border}" if self.node_border else ""
        return f"fill:{self.fill},stroke:{self.stroke},color:{INK}{more}"

    def box_style(self) -> str:
        """Return the style of its boxes."""
        more = f",{self.border}" if self.border else ""
        return f"fill:{self.box_fill},stroke:{self.stroke},color:{INK}{more}"

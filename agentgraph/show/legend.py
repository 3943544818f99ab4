"""The legend of a drawing: a small node or box for each kind, in its style, with its name."""

from collections.abc import Sequence

from agentgraph.show.kinds import STYLES
from agentgraph.show.styles import BOX, INK, LINE, LOOP, LOOP_CLASS, LOOP_WORD, PALE

_CHARACTER, _PADDING, _HEIGHT, _GAP, _TOP = 7.2, 20, 24, 8, 20
"""The width of a character, the padding and height of an entry, and the space around it, in pixels."""
_LEAST_WIDTH = 420
"""Width in pixels to which a narrow drawing may grow, so that its legend has few rows."""
_SLANT = 8
_SLANTED = ("[//]", "[/\\]", "[\\/]", "{{}}", "{}")
"""The shapes wider than a rectangle around the same word."""


def legend(kinds: Sequence[str], x: float, y: float, width: float) -> tuple[str, float, float]:
    """Return a legend as SVG elements, with its width and its height.

    Args:
        kinds: The classes to explain: kinds, kinds with `_box`, "loop" and "pale".
        x: The left edge of the legend.
        y: The lower edge of the drawing.
        width: The width of the drawing.
    """
    if not kinds:
        return "", 0, 0
    left, top, widest = x + _GAP, y + _TOP, 0.0
    entries = []
    for kind in kinds:
        word, style, shape = _entry(kind)
        wide = len(word) * _CHARACTER + _PADDING + (2 * _SLANT if shape in _SLANTED else 0)
        if left > x + _GAP and left + wide + _GAP > x + max(width, _LEAST_WIDTH):
            left, top = x + _GAP, top + _HEIGHT + _GAP
        entries.append(_swatch(word, style, shape, left, top, wide))
        left += wide + _GAP
        widest = max(widest, left - x)
    return f'<g class="legend">{"".join(entries)}</g>', widest, top - y + _HEIGHT + _GAP


def _entry(kind: str) -> tuple[str, str, str]:
    """Return the word for a class, its style, and its shape: the brackets of Mermaid, or "box"."""
    if kind == LOOP_CLASS:
        return LOOP_WORD, f"fill:#f1f5f9,stroke:{LOOP},stroke-width:2px", "([])"
    if kind == PALE:
        return "did not run", f"fill:#e5e7eb,stroke:{LINE},opacity:0.5", "()"
    look = STYLES[kind.removesuffix(BOX)]
    if kind.endswith(BOX):
        return look.word, look.box_style(), "box"
    return look.word, look.node_style(), "".join(look.shape)


def _swatch(word: str, style: str, shape: str, x: float, y: float, width: float) -> str:
    """Return an entry: the shape, and the word in it."""
    css = style.replace(",", ";").replace(f"color:{INK}", "").replace(";;", ";")
    text = f"fill:{INK};font-size:12px;text-anchor:middle"
    middle = f'x="{x + width / 2:g}" y="{y + _HEIGHT / 2 + 4:g}"'
    outline = _outline(shape, x, y, width)
    return f'<g style="{css}">{outline}</g><text {middle} style="{text}">{word}</text>'


def _outline(shape: str, x: float, y: float, width: float) -> str:
    right, low, middle, s = x + width, y + _HEIGHT, y + _HEIGHT / 2, _SLANT
    corners = {
        "[//]": [(x + s, y), (right, y), (right - s, low), (x, low)],
        "[/\\]": [(x + s, y), (right - s, y), (right, low), (x, low)],
        "[\\/]": [(x, y), (right, y), (right - s, low), (x + s, low)],
        "{{}}": [
            (x + s, y),
            (right - s, y),
            (right, middle),
            (right - s, low),
            (x + s, low),
            (x, middle),
        ],
        "{}": [(x + width / 2, y - 5), (right + 6, middle), (x + width / 2, low + 5), (x - 6, middle)],
    }
    if shape in corners:
        points = " ".join(f"{a:g},{b:g}" for a, b in corners[shape])
        return f'<polygon points="{points}"/>'
    if shape == "[()]":
        curve = f"a{width / 2:g},4 0 0 0 {width:g},0"
        back = f"a{width / 2:g},4 0 0 0 {-width:g},0"
        sides = f"M{x:g},{y + 4:g} {curve} {back} v{_HEIGHT - 8} {curve} v{8 - _HEIGHT}"
        return f'<path d="{sides}"/>'
    radius = {"()": 5, "([])": _HEIGHT / 2}.get(shape, 0)
    rect = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{_HEIGHT}" rx="{radius:g}"/>'
    if shape == "[[]]":
        rect += f'<path d="M{x + 6:g},{y:g}V{low:g}M{right - 6:g},{y:g}V{low:g}"/>'
    return rect

"""Decides whether a drawing runs from left to right or from top to bottom, by its estimated width.

Mermaid lays a drawing out in ranks: the successors of a part are in later ranks. From left to right
each rank is a column, and a chain is as wide as all its labels; from top to bottom it is a row.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from agentgraph.show.kinds import STYLES
from agentgraph.show.sketch import Line, Sketch, SketchNode

Direction = Literal["LR", "TD"]

MOST_WIDTH = 960
"""Maximum width in pixels that fits on a page, in a README or a notebook."""
_CHARACTER, _LINE, _GAP, _MARGIN = 9, 22, 50, 16


class _Size(NamedTuple):
    """A size in pixels: along the direction of the drawing, and across it."""

    along: float
    across: float


def direction_of(sketch: Sketch, labels: Mapping[str, str]) -> Direction:
    r"""Choose the direction of a drawing: left to right if it fits, otherwise top to bottom.

    The width is that of the labels at about nine pixels a character, with gaps of 50 pixels between
    ranks; boxes have the size of their contents. It fits up to 960 pixels. If it fits in neither
    direction, the narrower one is chosen.

    >>> from agentgraph.show.sketch import Line, SketchNode, Sketch
    >>> from agentgraph.show.drawn_kinds import Drawn
    >>> def chain(length):
    ...     parts = [SketchNode(f"agent{i}", "", Drawn("chat")) for i in range(length)]
    ...     lines = [Line(a.key, b.key, False) for a, b in zip(parts, parts[1:])]
    ...     return Sketch(tuple(parts), tuple(lines))
    >>> labels = {f"agent{i}": "writer" for i in range(9)}
    >>> direction_of(chain(3), labels), direction_of(chain(9), labels)
    ('LR', 'TD')

    Args:
        sketch: The drawing.
        labels: The labels of its parts by their keys; a line break is `\n`.
    """
    wide = _size(sketch.parts, sketch.lines, labels, is_wide=True).along
    if wide <= MOST_WIDTH:
        return "LR"
    tall = _size(sketch.parts, sketch.lines, labels, is_wide=False).across
    return "LR" if wide < tall else "TD"


def _size(
    parts: Sequence[SketchNode], lines: Sequence[Line], labels: Mapping[str, str], is_wide: bool
) -> _Size:
    sizes = {part.key: _part_size(part, lines, labels, is_wide) for part in parts}
    inner = [line for line in lines if line.source in sizes and line.target in sizes]
    ranks: dict[int, list[_Size]] = {}
    for key, rank in _ranks(sizes, inner).items():
        ranks.setdefault(rank, []).append(sizes[key])
    said = (
        max((len(row) for line in inner for row in line.label.split("\n")), default=0) * _CHARACTER
        if is_wide
        else 0
    )
    along = sum(max(each.along for each in rank) for rank in ranks.values())
    across = (sum(each.across + _GAP for each in rank) - _GAP for rank in ranks.values())
    return _Size(along + _GAP * (len(ranks) - 1) + said, max(across, default=0))


def _part_size(
    part: SketchNode, lines: Sequence[Line], labels: Mapping[str, str], is_wide: bool
) -> _Size:
    rows = labels[part.key].split("\n")
    look = STYLES[part.drawn.kind]
    width: float = max(map(len, rows)) * _CHARACTER + look.padding
    height: float = len(rows) * _LINE + _MARGIN
    if look.is_square:
        height = width
    if part.inside:
        inner = _size(part.inside, lines, labels, is_wide)
        inside = inner if is_wide else _Size(inner.across, inner.along)
        width, height = max(width, inside[0] + 2 * _GAP), inside[1] + 2 * _GAP
    return _Size(width, height) if is_wide else _Size(height, width)


def _ranks(keys: Iterable[str], lines: Sequence[Line]) -> dict[str, int]:
    """Return the rank of each part: one more than the highest before it, ignoring edges back."""
    after: dict[str, list[str]] = {key: [] for key in keys}
    for line in lines:
        after[line.source].append(line.target)
    order: list[str] = []
    state: dict[str, bool] = {}
    for root in after:
        stack = [(root, iter(after[root]))] if root not in state else []
        while stack:
            key, rest = stack[-1]
            state.setdefault(key, False)
            following = next(rest, None)
            if following is None:
                state[key] = True
                order.append(key)
                stack.pop()
            elif following not in state:
                stack.append((following, iter(after[following])))
            elif not state[following]:
                after[key] = [each for each in after[key] if each != following]
    ranks = dict.fromkeys(after, 0)
    for key in reversed(order):
        for following in after[key]:
            ranks[following] = max(ranks[following], ranks[key] + 1)
    return ranks

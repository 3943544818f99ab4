"""Lays out a timeline as a chart of text: a row for each activation, with a bar over time.

Pure: bars in, lines out. Idle time is not to scale: a wait of a day would leave no room for the minute
of work around it, so such gaps are shortened.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from agentgraph.reports.bars import Bar
from agentgraph.show.lines import one_line, without_controls

Line = list[tuple[str, str]]
"""Pieces of text, each with the name of its style."""

LEGEND = "█ works  ░ waits for a person  ▒ discarded  ─ encloses others  ▸ continues"
_ROWS = ("agent", "tool")
"""The kinds of bars with rows; the others are drawn in the enclosing ones."""
_MARKS = {
    "done": ("✓", "green"),
    "running": ("▸", "cyan"),
    "asks": ("?", "magenta"),
    "failed": ("✗", "red"),
    "stopped": ("■", "yellow"),
    "void": ("▒", "dim"),
}
"""The mark and the style of a state."""
_GAP = 0.1
"""Maximum part of the chart for an idle gap."""
_SECONDS, _TOKENS = 9, 8
"""Widths in cells of the columns at the right."""
_LEAST = 10
"""Minimum number of cells of the bars, and of the labels."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the chart.

    Attributes:
        depth: The number of rows that enclose it.
        bar: Its bar; None for a row about omitted bars.
        inside: The bars drawn in it.
        encloses: Whether it has rows inside.
        left_out: The omitted bars of a row without a bar.
    """

    depth: int
    bar: Bar | None
    inside: Sequence[Bar] = ()
    encloses: bool = False
    left_out: Sequence[Bar] = ()


def chart(bars: Sequence[Bar], width: int, now: float, most: int | None = None) -> list[Line]:
    """Return the lines of a chart.

    Args:
        bars: The bars.
        width: The number of cells of a line.
        now: The time up to which unfinished bars are drawn, in seconds since 1970.
        most: Maximum number of activations shown inside another one: the last ones, and those that
            are not done. None for all.
    """
    if not bars:
        return [[("Nothing has run yet.", "")]]
    rows, scale, tokens = [*_rows(bars, most)], _Scale(bars, now), _tokens(bars)
    labels = [_label(row) for row in rows]
    widest = max(cell_len(label) for label in labels) + 2
    room = max(width - _SECONDS - _TOKENS, 2 * _LEAST)
    name = min(widest, max(room * 2 // 5, _LEAST))
    span = room - name - 1
    lines = [
        _line(row, label, scale, tokens, name, span) for row, label in zip(rows, labels, strict=True)
    ]
    return [*lines, [(LEGEND, "dim")], *([[(_SHORTENED, "dim")]] if scale.is_shortened else [])]


_SHORTENED = "Idle time is shortened."


def _rows(bars: Sequence[Bar], most: int | None) -> Iterator[_Row]:
    known = {bar.id for bar in bars}
    inside: dict[str | None, list[Bar]] = defaultdict(list)
    for bar in bars:
        inside[bar.inside if bar.inside in known else None].append(bar)
    stack: list[_Row] = [*reversed([*_among(inside[None], inside, 0, most)])]
    while stack:
        row = stack.pop()
        yield row
        if row.bar is not None:
            stack += reversed([*_among(inside[row.bar.id], inside, row.depth + 1, most)])


def _among(
    bars: Sequence[Bar], inside: Mapping[str | None, Sequence[Bar]], depth: int, most: int | None
) -> Iterator[_Row]:
    """Yield a row for the omitted bars inside a bar, then the rows of the others."""
    rows = [bar for bar in bars if bar.kind in _ROWS]
    if most is not None and len(rows) > most:
        unusual = [bar for bar in rows[:-most] if bar.state not in ("done", "void")][-most:]
        kept = {bar.id for bar in [*unusual, *rows[-most:]]}
        left_out = [bar for bar in rows if bar.id not in kept]
        rows = [bar for bar in rows if bar.id in kept]
        if left_out:
            yield _Row(depth, None, left_out=left_out)
    for bar in rows:
        own = inside.get(bar.id, ())
        yield _Row(depth, bar, own, any(each.kind in _ROWS for each in own))


def _label(row: _Row) -> str:
    indent = "  " * row.depth
    if row.bar is None:
        return f"{indent}… {len(row.left_out)} more"
    bar = row.bar
    name = f"{bar.label}()" if bar.kind == "tool" else bar.address.rpartition("/")[2]
    turn = f"turn {bar.turn}: " if row.depth == 0 and bar.turn else ""
    return indent + turn + without_controls(one_line(name))


def _line(
    row: _Row, label: str, scale: "_Scale", tokens: Mapping[str, int], name: int, span: int
) -> Line:
    if row.bar is None:
        ends = [bar.ended for bar in row.left_out if bar.ended is not None]
        seconds = max(ends, default=0.0) - min(bar.began for bar in row.left_out)
        used = sum(tokens[bar.id] for bar in row.left_out)
        return [
            (set_cell_size(f"  {label}", name + 1), "dim"),
            (" " * span, ""),
            (_columns(seconds if ends else None, used), "dim"),
        ]
    mark, style = _MARKS[row.bar.state]
    dim = "dim" if row.bar.state == "void" else ""
    took = None if row.bar.ended is None else row.bar.ended - row.bar.began
    return [
        (f"{mark} ", style),
        (set_cell_size(label, name - 2) + " ", dim),
        *_drawn(row, scale, span),
        (_columns(took, tokens[row.bar.id]), dim),
    ]


def _columns(seconds: float | None, tokens: int) -> str:
    took = "" if seconds is None else _seconds(seconds)
    return took.rjust(_SECONDS) + (_count(tokens) if tokens else "").rjust(_TOKENS)


def _seconds(seconds: float) -> str:
    """Return a time in a suitable unit.

    >>> _seconds(0.05), _seconds(61), _seconds(7300)
    ('0.05 s', '1:01 min', '2:01 h')
    """
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02} h" if hours < 100 else f"{hours // 24} d"


def _count(number: int) -> str:
    """Return a count of tokens in at most seven characters.

    >>> _count(950), _count(12_345), _count(2_500_000)
    ('950', '12.3k', '2.5M')
    """
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def _drawn(row: _Row, scale: "_Scale", span: int) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a bar: its own time, with the bars drawn in it."""
    bar = row.bar
    assert bar is not None
    cells = [(" ", "")] * span
    own = "─" if row.encloses else "▒" if bar.state == "void" else "█"
    style = "dim" if bar.state == "void" or row.encloses else _MARKS[bar.state][1]
    first, last = scale.cells(bar, span)
    cells[first : last + 1] = [(own, style)] * (last + 1 - first)
    for each in row.inside:
        if each.kind in ("question", "model") and (each.kind == "question" or each.state == "void"):
            begin, end = scale.cells(each, span)
            piece = ("▒", "dim") if each.state == "void" else ("░", "magenta")
            cells[begin : end + 1] = [piece] * (end + 1 - begin)
    if bar.state == "running":
        cells[last] = ("▸", "cyan")
    begin = 0
    for number, (one, other) in enumerate(pairwise([*cells, ("", "none")]), 1):
        if one[1] != other[1]:
            yield "".join(text for text, _ in cells[begin:number]), one[1]
            begin = number


def _tokens(bars: Sequence[Bar]) -> dict[str, int]:
    by_id = {bar.id: bar for bar in bars}
    total = dict.fromkeys(by_id, 0)
    for bar in bars:
        at: str | None = bar.id
        while at is not None and at in by_id:
            total[at] += bar.tokens_in + bar.tokens_out
            at = by_id[at].inside
    return total


class _Scale:
    """Maps times to cells; an idle gap takes at most a tenth of them.

    Attributes:
        is_shortened: Whether a gap is shortened.
    """

    def __init__(self, bars: Sequence[Bar], now: float) -> None:
        self._end = max(
            [bar.ended for bar in bars if bar.ended is not None]
            + [now for bar in bars if bar.state in ("running", "asks")]
            + [bar.began for bar in bars]
        )
        work = _merged(_work(bars, self._end))
        times = sorted({min(bar.began for bar in bars), self._end, *(t for each in work for t in each)})
        busy = {begin for begin, _ in work}
        worked = sum(end - begin for begin, end in work) or 1.0
        longest = worked * _GAP / (1 - _GAP)
        self._times, self._at, self.is_shortened = times, [0.0], False
        for begin, end in pairwise(times):
            length = end - begin
            if begin not in busy and length > longest:
                length, self.is_shortened = longest, True
            self._at.append(self._at[-1] + length)

    def _place(self, time: float) -> float:
        number = min(max(bisect_right(self._times, time) - 1, 0), len(self._times) - 1)
        at = self._at[number]
        if number + 1 < len(self._times):
            length = self._times[number + 1] - self._times[number]
            part = max(time - self._times[number], 0.0) / length
            at += (self._at[number + 1] - at) * part
        return at / self._at[-1] if self._at[-1] else 0.0

    def cells(self, bar: Bar, span: int) -> tuple[int, int]:
        """Return the first and the last cell of a bar."""
        end = bar.ended
        if end is None:
            end = self._end if bar.state in ("running", "asks") else bar.began
        first = min(int(self._place(bar.began) * span), span - 1)
        last = min(int(self._place(end) * span), span - 1)
        return first, max(last, first)


def _work(bars: Sequence[Bar], end: float) -> Iterator[tuple[float, float]]:
    """Yield the spans of work: those of bars that enclose no others, without their waits."""
    waits: dict[str | None, list[Bar]] = defaultdict(list)
    outer = set()
    for bar in bars:
        if bar.kind == "question":
            waits[bar.inside].append(bar)
        else:
            outer.add(bar.inside)
    for bar in bars:
        if bar.kind == "question" or bar.id in outer:
            continue
        began = bar.began
        last = bar.ended if bar.ended is not None else end if bar.state == "running" else began
        for wait in waits[bar.id]:
            yield began, max(began, wait.began)
            began = max(wait.ended if wait.ended is not None else end, began)
        if last > began:
            yield began, last


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > begin:
            merged.append((begin, end))
    return merged

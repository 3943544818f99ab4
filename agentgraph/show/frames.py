"""A frame of a live tree: the rows of an activity as lines of so many cells, a line for each row.

Needs the package `rich`, which knows how many cells a character takes.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from agentgraph.show.activity import Row, State
from agentgraph.show.lines import one_line

Line = list[tuple[str, str]]
"""Pieces of text, each with the name of its style."""

GAP = "  "
_LEAST_TEXT = 24
"""With fewer cells left for what was said, another column is left out."""
_LEAST_NAME = 8
_LONGEST = 8
"""How many characters may be read for each cell: some take none."""
_MARKS: dict[State, str] = {
    "not run": "·",
    "waiting": "·",
    "running": "▸",
    "done": "✓",
    "asks": "?",
    "failed": "✗",
    "stopped": "■",
}
_STYLES: dict[State, str] = {
    "not run": "dim",
    "waiting": "dim",
    "running": "cyan",
    "done": "green",
    "asks": "magenta",
    "failed": "red",
    "stopped": "yellow",
}
_NOT_BEGUN = ("not run", "waiting")
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SPINS = 8
"""How many of them there are in a second."""
_ASCII = str.maketrans("├└│─✓✗■▸·…→" + _SPINNER, "|`|-+x#>.~>" + "*" * len(_SPINNER))
_CSS = {
    "dim": "opacity:.6",
    "cyan": "color:#0891b2",
    "green": "color:#16a34a",
    "magenta": "color:#c026d3",
    "red": "color:#dc2626",
    "yellow": "color:#ca8a04",
}
"""Colours that can be read on white and on black."""
_BLOCK = "white-space:pre;line-height:1.35;margin:0;padding:1px 0 5px 6px;font-family:monospace"
_LINE = "display:block;overflow:hidden;text-overflow:ellipsis"


class _Column(NamedTuple):
    title: str
    cell: Callable[[Row], str]
    is_right: bool = False


def frame(
    rows: Sequence[Row], *, width: int, height: int | None = None, running: str = "▸"
) -> list[Line]:
    """Return the lines of a frame, none of which takes more than `width` cells, or than a few.

    ```
    agent         kind        state      runs    time    last
    report        sequential  ⠋ running          12.3 s
    └─ refine     loop        ⠋ running  2 of 5  12.3 s
       ├─ write   chat        ✓ done     2        8.1 s  A second draft.
       └─ judge   chat        ⠋ running  2        4.2 s
    ```

    Where it gets narrow, what was said is cut first, then columns are left out, and names are cut
    last. Where it gets low, only what has begun is shown.

    Args:
        rows: The rows.
        width: How many cells there are.
        height: How many lines; without it all rows are shown.
        running: What marks the rows that run.
    """
    shown = rows if height is None else _fitting(rows, max(height, 3) - 1)
    columns, rest = _columns(shown, width)
    title = _fitted("last", rest) if any(row.text for row in shown) else ""
    lines = [_header(columns, title), *(_line(row, columns, rest, running) for row in shown)]
    if left := len(rows) - len(shown):
        lines.append([(_fitted(f"… {left} more", width), "dim")])
    return lines


def spinner(now: float) -> str:
    """Return what marks the rows that run, at a time in seconds: it turns."""
    return _SPINNER[int(now * _SPINS) % len(_SPINNER)]


def plain(lines: Sequence[Line]) -> str:
    """Return lines as text."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def ascii_only(lines: Sequence[Line]) -> list[Line]:
    """Return lines for a terminal that knows no other characters."""
    return [
        [(text.translate(_ASCII).encode("ascii", "replace").decode(), style) for text, style in line]
        for line in lines
    ]


def html(lines: Sequence[Line]) -> str:
    """Return lines as an element of HTML, with all that was said escaped.

    A page that is too narrow cuts each line at its end. The lines are lines without styles, too.
    """
    told = ("".join(_span(text, style) for text, style in line).rstrip() for line in lines)
    shown = "".join(f'<span style="{_LINE}">{line}\n</span>' for line in told)
    return f'<pre style="{_BLOCK}">{shown}</pre>'


def duration(seconds: float | None) -> str:
    """Return a time for people: `12.3 s`, `1:04 min`, `1:02 h`; nothing for none.

    >>> duration(64)
    '1:04 min'
    """
    if seconds is None:
        return ""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes}:{left:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def _span(text: str, style: str) -> str:
    css = _CSS.get(style) if text.strip() else None
    return f'<span style="{css}">{escape(text)}</span>' if css else escape(text)


def _fitting(rows: Sequence[Row], room: int) -> Sequence[Row]:
    """Return as many rows as there is room for: those that have begun, of too many those that count."""
    if len(rows) <= room:
        return rows
    room -= 1  # for how many are left out
    begun = [i for i, row in enumerate(rows) if row.state not in _NOT_BEGUN]
    begun.sort(key=lambda i: (rows[i].state in ("done", "stopped"), -i))
    return [rows[i] for i in sorted(begun[:room])]


def _columns(rows: Sequence[Row], width: int) -> tuple[list[tuple[_Column, int]], int]:
    """Return the columns that there is room for, with their widths, and what is left for the text."""
    sized = [(column, _width(column, rows)) for column in _COLUMNS]
    sized = [(column, size) for column, size in sized if size or column in _NEEDED]
    for dropped in _DROPPED:
        if _left(sized, width) >= _LEAST_TEXT:
            break
        sized = [(column, size) for column, size in sized if column is not dropped]
    left = _left(sized, width)
    if left < 0:  # names give way last
        (name, size), *others = sized
        sized = [(name, max(size + left, _LEAST_NAME)), *others]
    return sized, max(left - len(GAP), 0)


def _left(sized: Sequence[tuple[_Column, int]], width: int) -> int:
    return width - sum(size for _, size in sized) - len(GAP) * (len(sized) - 1)


def _width(column: _Column, rows: Sequence[Row]) -> int:
    """Return how many cells a column needs; 0 where it has nothing to show."""
    most = max((cell_len(column.cell(row)) for row in rows), default=0)
    return max(most, len(column.title)) if most else 0


def _header(columns: Sequence[tuple[_Column, int]], last: str) -> Line:
    titles = [_padded(column.title, size, column.is_right) for column, size in columns]
    return [(GAP.join([*titles, last]).rstrip(), "dim")]


def _line(row: Row, columns: Sequence[tuple[_Column, int]], rest: int, running: str) -> Line:
    line: Line = []
    quiet = "dim" if row.state in _NOT_BEGUN else ""
    for column, size in columns:
        text = _padded(column.cell(row), size, column.is_right)
        if column is _NAME:
            outline = len(row.outline)
            line += [(text[:outline], "dim"), (text[outline:], quiet), (GAP, "")]
        elif column is _STATE:
            mark = running if row.state == "running" else text[:1]
            line += [(mark + text[1:], _STYLES[row.state]), (GAP, "")]
        else:
            line += [(text, "dim" if column is _KIND else quiet), (GAP, "")]
    said = _said(row, rest)
    return [*line, (said, _STYLES["failed"] if row.state == "failed" else "")] if said else line[:-1]


def _padded(text: str, width: int, is_right: bool) -> str:
    text = _fitted(text, width)
    space = " " * (width - cell_len(text))
    return space + text if is_right else text + space


def _fitted(text: str, width: int) -> str:
    """Return a line of at most so many cells, cut at its end."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width else ""


def _said(row: Row, width: int) -> str:
    """Return what was said as one line; of what is being said the end, so that it is seen to grow."""
    if not row.is_growing:
        return _fitted(one_line(row.text[: _LONGEST * width]), width)
    text = one_line(row.text[-_LONGEST * width :])
    if cell_len(text) <= width:
        return text
    text = text[-width:]
    while text and cell_len(text) >= width:
        text = text[1:]
    return f"…{text}" if width else ""


def _tokens(row: Row) -> str:
    if not row.tokens_in and not row.tokens_out:
        return ""
    return f"{_short(row.tokens_in)}→{_short(row.tokens_out)}"


def _short(number: int) -> str:
    """Return a number in few characters.

    >>> _short(1234), _short(12345)
    ('1.2k', '12k')
    """
    for limit, unit in ((1_000_000, "M"), (1000, "k")):
        if number >= limit:
            scaled = number / limit
            return f"{scaled:.0f}{unit}" if scaled >= 9.95 else f"{scaled:.1f}{unit}"
    return str(number)


def _runs(row: Row) -> str:
    return row.iteration or (str(row.runs) if row.runs > 1 else "")


_NAME = _Column("agent", lambda row: row.outline + row.name)
_KIND = _Column("kind", lambda row: row.kind)
_STATE = _Column("state", lambda row: f"{_MARKS[row.state]} {row.state}")
_RUNS = _Column("runs", _runs)
_TIME = _Column("time", lambda row: duration(row.seconds), is_right=True)
_TOKENS = _Column("tokens", _tokens, is_right=True)
_COLUMNS = (_NAME, _KIND, _STATE, _RUNS, _TIME, _TOKENS)
_NEEDED = (_NAME, _STATE)
_DROPPED = (_KIND, _TOKENS, _RUNS, _TIME)
"""What is left out where it gets narrow, one after the other."""

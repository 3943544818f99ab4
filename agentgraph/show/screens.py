"""Where a run is shown while it is watched: at a terminal, in a pipe, or in a notebook.

A live tree is a table with a row for each agent, laid out anew for each frame.
"""

import contextvars
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from agentgraph.events.events import AgentEvent
from agentgraph.show.activity import Activity, Row, State
from agentgraph.show.lines import one_line, print_event, without_controls

Line = list[tuple[str, str]]
"""Pieces of text, each with the name of its style."""

FRAMES = 8
"""How many frames are shown in a second, at most."""
_NOTEBOOK_WIDTH = 120
_NOTEBOOK_HEIGHT = 100
_HEARTBEAT = 1.0
"""After how many seconds a notebook shows a new frame, if nothing happens: times run on."""
_GAP = 2
"""How many cells there are between columns."""
_LEAST_TEXT = 24
"""With fewer cells left for what was said, another column is left out."""
_LEAST_NAME = 8
_LONGEST = 8
"""How many characters may be read for each cell: some take none."""
_NEEDED = ("agent", "state")
_DROPPED = ("kind", "tokens", "runs", "time")
"""What is left out where it gets narrow, one after the other."""
_TO_THE_RIGHT = ("time", "tokens")
_LOOKS: dict[State, tuple[str, str]] = {
    "not run": ("·", "dim"),
    "waiting": ("·", "dim"),
    "running": ("▸", "cyan"),
    "done": ("✓", "green"),
    "asks": ("?", "magenta"),
    "failed": ("✗", "red"),
    "stopped": ("■", "yellow"),
}
"""The mark and the style of a state."""
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


class Screen:
    """Shows the events of a run; a kind of screen shows its tree, too.

    Nothing is shown of a run that is refused.

    Attributes:
        streams: Whether replies are wanted in chunks, to show how they grow.
        activity: What is known of the tree.
        is_shown: Whether a run is being shown.
        told: How many events there were, chunks aside.
    """

    streams = False
    activity: Activity

    def __init__(self) -> None:
        self.is_shown = False
        self.told = 0

    @contextmanager
    def watching(self, activity: Activity) -> Iterator[None]:
        """Show what is told inside; at its end nothing runs any more, and the last state is shown."""
        self.activity, failed = activity, False
        try:
            yield
        except Exception:
            failed = True
            raise
        finally:
            self.activity.finish(time.monotonic(), failed=failed)
            if self.is_shown:
                self.is_shown = False
                self.hide()

    def see(self, part: Any) -> Any:
        """Take a part of LangGraph's stream, and return it."""
        if not self.is_shown:
            self.is_shown = True
            self.show()
        if self.activity.feed(part, time.monotonic()):
            self.changed()
        return part

    def tell(self, event: AgentEvent) -> None:
        """Take an event."""
        self.activity.told(event, time.monotonic())
        if not event.partial:
            self.told += 1
            self.line(event)
        self.changed()

    def line(self, event: AgentEvent) -> None:
        """Show an event as a line."""

    def show(self) -> None:
        """Begin to show the tree."""

    def changed(self) -> None:
        """Show the tree as it is now, soon."""

    def hide(self) -> None:
        """Show the tree for the last time."""


def text_console(*, stderr: bool = False) -> Console:
    """Return a console that prints texts as they are."""
    return Console(highlight=False, markup=False, emoji=False, stderr=stderr)


class Lines(Screen):
    """Prints the events as lines, and no tree: for pipes and files."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console, self._notes = console, text_console(stderr=True)

    def line(self, event: AgentEvent) -> None:
        """Print an event."""
        print_event(self.console, event)

    def note(self, text: str) -> None:
        """Print a remark on standard error; nothing in it steers the terminal."""
        self._notes.print(without_controls(text), soft_wrap=True)


class Terminal(Lines):
    """Prints the events as lines, and below them the tree, which is changed in place."""

    streams = True
    _remark = ""

    def note(self, text: str) -> None:
        """Show a remark below the tree while that is drawn."""
        if self.is_shown:
            self._remark = without_controls(text)
        else:
            super().note(text)

    def show(self) -> None:
        """Begin to draw the tree anew, many times a second: times run on, and marks turn."""
        self._live = Live(
            console=self.console,
            get_renderable=self._frame,
            refresh_per_second=FRAMES,
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start(refresh=True)

    def hide(self) -> None:
        """Draw the tree once more, and leave it there."""
        self._remark = ""
        self._live.stop()

    def _frame(self) -> Text:
        now, size = time.monotonic(), self.console.size
        rows = self.activity.rows(now)
        lines = frame(rows, width=size.width, height=size.height - 3, running=spinner(now))
        lines.insert(0, [])
        lines += [[(self._remark, "yellow")]] if self._remark else []
        if not self.console.encoding.startswith("utf"):
            lines = ascii_only(lines)
        return Text("\n", no_wrap=True, overflow="crop", end="").join(
            Text.assemble(*line) for line in lines
        )


class Notebook(Screen):
    """Shows the tree below a cell, as one output that is replaced as it changes."""

    streams = True

    def __init__(self) -> None:
        super().__init__()
        self._changed, self._is_over = threading.Event(), threading.Event()

    def show(self) -> None:
        """Show the tree, and from then on its changes, by a thread that knows which cell it is."""
        from IPython.display import display

        self._is_over.clear()
        show: Any = display
        self._handle = show(self._bundle(), raw=True, display_id=True)
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._follow,), daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """Show it soon."""
        self._changed.set()

    def hide(self) -> None:
        """Show the tree as it was left."""
        self._is_over.set()
        self._changed.set()
        self._thread.join()
        self._update()

    def _follow(self) -> None:
        while not self._is_over.wait(1 / FRAMES):
            self._changed.wait(_HEARTBEAT)
            self._changed.clear()
            self._update()

    def _update(self) -> None:
        self._handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        rows = self.activity.rows(time.monotonic())
        lines = frame(rows, width=_NOTEBOOK_WIDTH, height=_NOTEBOOK_HEIGHT)
        return {"text/html": html(lines), "text/plain": plain(lines)}


def screen_for(console: Console | Screen | None) -> Screen:
    """Return a screen: the notebook's cell, a console, or standard output."""
    if isinstance(console, Screen):
        return console
    if console is None and _in_notebook():
        return Notebook()
    console = console or text_console()
    return Terminal(console) if is_live(console) else Lines(console)


def is_live(console: Console) -> bool:
    """Tell whether a console can change in place what it has shown."""
    return console.is_terminal and not console.is_dumb_terminal


def _in_notebook() -> bool:
    """Tell whether a cell of a notebook runs this: whether IPython has a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


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
    console = Console(width=width, color_system=None)
    lines = [_line(line) for line in console.render_lines(_table(shown, width, running), pad=False)]
    if left := len(rows) - len(shown):
        lines.append([(_fitted(f"… {left} more", width), "dim")])
    return lines


def _line(pieces: list[Segment]) -> Line:
    """Return a line without the spaces at its end."""
    length = cell_len("".join(piece.text for piece in pieces).rstrip())
    shown = Segment.adjust_line_length(pieces, length)
    return [(piece.text, str(piece.style or "")) for piece in shown]


def _table(rows: Sequence[Row], width: int, running: str) -> Table:
    cells = [_cells(row, running) for row in rows]
    sizes = _sizes(cells, width)
    rest = width - sum(size + _GAP for size in sizes.values())
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    if rest > 0 and any(row.text for row in rows):
        sizes["last"] = rest
    for title, size in sizes.items():
        justify: Any = "right" if title in _TO_THE_RIGHT else "left"
        table.add_column(title, width=size, justify=justify, no_wrap=True, overflow="ellipsis")
    for row, known in zip(rows, cells, strict=True):
        known["last"] = Text(_said(row, rest), "red" if row.state == "failed" else "")
        table.add_row(*map(known.get, sizes), style="dim" if row.state in _NOT_BEGUN else "")
    return table


def _cells(row: Row, running: str) -> dict[str, Text]:
    """Return what the columns show of a row, by their titles, but for what was said."""
    mark, style = _LOOKS[row.state]
    mark = running if row.state == "running" else mark
    tokens = f"{_short(row.tokens_in)}→{_short(row.tokens_out)}"
    return {
        "agent": Text.assemble((row.outline, "dim"), row.name),
        "kind": Text(row.kind, "dim"),
        "state": Text(f"{mark} {row.state}", style),
        "runs": Text(row.iteration or (str(row.runs) if row.runs > 1 else "")),
        "time": Text(duration(row.seconds)),
        "tokens": Text(tokens if row.tokens_in or row.tokens_out else ""),
    }


def _sizes(cells: Sequence[dict[str, Text]], width: int) -> dict[str, int]:
    """Return the widths of the columns that there is room for, by their titles."""
    most = {title: max(row[title].cell_len for row in cells) for title in cells[0]} if cells else {}
    sizes = {title: max(size, len(title)) for title, size in most.items() if size or title in _NEEDED}
    for title in _DROPPED:
        if _left(sizes, width) >= _LEAST_TEXT:
            break
        sizes.pop(title, None)
    if (left := _left(sizes, width)) < 0:  # names give way last
        sizes["agent"] = max(sizes["agent"] + left, _LEAST_NAME)
    return sizes


def _left(sizes: dict[str, int], width: int) -> int:
    return width + _GAP - sum(size + _GAP for size in sizes.values())


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


def _fitted(text: str, width: int) -> str:
    """Return a line of at most so many cells, cut at its end."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 0 else ""


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
    return f"…{text}"


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

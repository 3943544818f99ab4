"""The screens for a watched run: a terminal, a pipe, or a notebook.

The live tree is a table with a row for each agent, with a new layout for each frame.
"""

import contextvars
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from agentgraph.events.events import AgentEvent
from agentgraph.show.activity import Activity, Row, State, StreamPart
from agentgraph.show.lines import one_line, print_event, without_controls

Line = list[tuple[str, str]]
"""Pieces of text, each with the name of its style."""

FRAMES = 8
"""Maximum number of frames per second."""
_NOTEBOOK_WIDTH = 120
_NOTEBOOK_HEIGHT = 100
_HEARTBEAT = 1.0
"""Seconds after which a notebook shows a new frame even if only the times have changed."""
_GAP = 2
"""Number of cells between two columns."""
_LEAST_TEXT = 24
"""Minimum number of cells of the last text; columns are dropped until it has them."""
_LONGEST = 8
"""Maximum number of characters read per cell of the screen, because some characters take no cell."""
_COLUMNS = ("agent", "kind", "state", "runs", "time", "tokens", "last")
_NEEDED = ("agent", "state")
_DROPPED = ("kind", "tokens", "runs", "time")
"""The columns dropped on a narrow screen, in this order."""
_TO_THE_RIGHT = ("time", "tokens")
_STYLES: dict[State, tuple[str, str]] = {
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
"""Number of spinner characters per second."""
_ASCII = str.maketrans("├└│─✓✗■▸·…→" + _SPINNER, "|`|-+x#>.~>" + "*" * len(_SPINNER))
_CSS = {
    "dim": "opacity:.6",
    "cyan": "color:#0891b2",
    "green": "color:#16a34a",
    "magenta": "color:#c026d3",
    "red": "color:#dc2626",
    "yellow": "color:#ca8a04",
}
"""Colours readable on white and on black."""
_BLOCK = "white-space:pre;line-height:1.35;margin:0;padding:1px 0 5px 6px;font-family:monospace"
_LINE = "display:block;overflow:hidden;text-overflow:ellipsis"


class Screen:
    """Shows a run; subclasses print its events, or draw its tree.

    It shows nothing if the run is rejected.

    Attributes:
        streams: Whether the screen shows replies while they are streamed.
        activity: The state of each agent.
        is_shown: Whether a run is being shown.
        count: The number of events so far, without chunks.
    """

    streams = False
    activity: Activity

    def __init__(self) -> None:
        self.is_shown = False
        self.count = 0

    @contextmanager
    def watching(self, activity: Activity) -> Iterator[None]:
        """Show the run inside the context, and its last state at the end."""
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

    def see(self, part: StreamPart) -> StreamPart:
        """Process a part of LangGraph's stream, and return it."""
        if not self.is_shown:
            self.is_shown = True
            self.show()
        if self.activity.feed(part, time.monotonic()):
            self.changed()
        return part

    def add(self, event: AgentEvent) -> None:
        """Process an event."""
        self.activity.add(event, time.monotonic())
        if not event.partial:
            self.count += 1
            self.line(event)
        self.changed()

    def line(self, event: AgentEvent) -> None:
        """Show an event as a line."""

    def show(self) -> None:
        """Start to show the tree."""

    def changed(self) -> None:
        """Update the tree soon."""

    def hide(self) -> None:
        """Show the tree for the last time."""


def text_console(*, stderr: bool = False) -> Console:
    """Return a console that prints text without interpreting rich's markup and emoji codes."""
    return Console(highlight=False, markup=False, emoji=False, stderr=stderr)


class Lines(Screen):
    """Prints the events as lines, without a tree: for pipes and files."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console, self._notes = console, text_console(stderr=True)

    def line(self, event: AgentEvent) -> None:
        """Print an event."""
        print_event(self.console, event)

    def note(self, text: str) -> None:
        """Print a remark on standard error, without control characters."""
        self._notes.print(without_controls(text), soft_wrap=True)


class Terminal(Lines):
    """Prints the events as lines, and below them the tree, which is updated in place."""

    streams = True
    _remark = ""

    def note(self, text: str) -> None:
        """Show a remark below the tree, or as a line when no tree is drawn."""
        if self.is_shown:
            self._remark = without_controls(text)
        else:
            super().note(text)

    def show(self) -> None:
        """Start to draw the tree, several times a second."""
        self._live = Live(
            console=self.console,
            get_renderable=self._frame,
            refresh_per_second=FRAMES,
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start(refresh=True)

    def hide(self) -> None:
        """Draw the tree once more, and leave it on the screen."""
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
    """Shows the tree below a cell, as one output that is updated."""

    streams = True

    def __init__(self) -> None:
        super().__init__()
        self._changed, self._is_over = threading.Event(), threading.Event()

    def show(self) -> None:
        """Show the tree, and start a thread that updates it.

        The thread runs in a copy of the context, in which IPython finds the cell.
        """
        from IPython.display import display

        self._is_over.clear()
        show: Any = display
        self._handle = show(self._bundle(), raw=True, display_id=True)
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._follow,), daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """Update the tree soon."""
        self._changed.set()

    def hide(self) -> None:
        """Show the last state of the tree."""
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
    """Return the screen for a console; by default the notebook's cell, or standard output."""
    if isinstance(console, Screen):
        return console
    if console is None and _in_notebook():
        return Notebook()
    console = console or text_console()
    return Terminal(console) if is_live(console) else Lines(console)


def is_live(console: Console) -> bool:
    """Return whether a console can update text in place."""
    return console.is_terminal and not console.is_dumb_terminal


def _in_notebook() -> bool:
    """Return whether this runs in a notebook: whether IPython has a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def frame(
    rows: Sequence[Row], *, width: int, height: int | None = None, running: str = "▸"
) -> list[Line]:
    """Return the lines of a frame, each at most `width` cells wide.

    ```
    agent         kind        state      runs    time    last
    report        sequential  ⠋ running          12.3 s
    └─ refine     loop        ⠋ running  2 of 5  12.3 s
       ├─ write   chat        ✓ done     2        8.1 s  A second draft.
       └─ judge   chat        ⠋ running  2        4.2 s
    ```

    On a narrow screen, the last text is cut first, then columns are dropped, and names are cut
    last; below some 20 cells a line may be wider. On a low screen, only started agents are shown.

    Args:
        rows: The rows.
        width: The width in cells.
        height: The height in lines; by default all rows are shown.
        running: The mark for running agents.
    """
    room = len(rows) if height is None else max(height, 3) - 1
    fitting = _fitting(rows, room)
    console = Console(width=width, color_system=None)
    table = _table(fitting, width, running)
    lines = [_line(line) for line in console.render_lines(table, pad=False)]
    if rest := len(rows) - len(fitting):
        more = Text(f"… {rest} more", "dim", no_wrap=True, overflow="ellipsis")
        lines += [_line(line) for line in console.render_lines(more, pad=False)]
    return lines


def _line(pieces: list[Segment]) -> Line:
    length = cell_len("".join(piece.text for piece in pieces).rstrip())
    line = Segment.adjust_line_length(pieces, length)
    return [(piece.text, str(piece.style or "")) for piece in line]


def _table(rows: Sequence[Row], width: int, running: str) -> Table:
    """Return the table with the columns that fit; rich cuts the last text, or without it the names."""
    cells = [_cells(row, running, _LONGEST * width) for row in rows]
    titles = [title for title in _COLUMNS if title in _NEEDED or any(each[title] for each in cells)]
    sizes = {
        title: max([len(title), *(cell_len(str(each[title])) for each in cells)]) for title in titles
    }
    for title in (*_DROPPED, None):
        room = width - sum(sizes[each] + _GAP for each in titles if each != "last")
        if room >= _LEAST_TEXT or title is None:
            break
        titles = [each for each in titles if each != title]
    titles = [title for title in titles if title != "last" or room > 0]
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    gives_way = "last" if "last" in titles else "agent"
    for title in titles:
        justify: JustifyMethod = "right" if title in _TO_THE_RIGHT else "left"
        table.add_column(title, justify=justify, no_wrap=title != gives_way, overflow="ellipsis")
    for row, known in zip(rows, cells, strict=True):
        style = "dim" if row.state in _NOT_BEGUN else ""
        table.add_row(*(known[title] for title in titles), style=style)
    return table


class _End:
    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, max(cell_len(self.text), 1))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        backwards = Text(self.text[::-1])
        backwards.truncate(options.max_width, overflow="ellipsis")
        yield Text(backwards.plain[::-1], no_wrap=True)


def _cells(row: Row, running: str, longest: int) -> dict[str, RenderableType]:
    mark, style = _STYLES[row.state]
    mark = running if row.state == "running" else mark
    tokens = f"{_short(row.tokens_in)}→{_short(row.tokens_out)}"
    text_style = "red" if row.state == "failed" else ""
    text = one_line(row.text[-longest:] if row.is_growing else row.text[:longest])
    return {
        "agent": Text.assemble((row.outline, "dim"), row.name, no_wrap=True),
        "kind": Text(row.kind, "dim"),
        "state": Text(f"{mark} {row.state}", style),
        "runs": Text(row.iteration or (str(row.runs) if row.runs > 1 else "")),
        "time": Text(duration(row.seconds)),
        "tokens": Text(tokens if row.tokens_in or row.tokens_out else ""),
        "last": _End(text) if row.is_growing else Text(text, text_style, no_wrap=True),
    }


def spinner(now: float) -> str:
    """Return the spinner for running agents, at a time in seconds."""
    return _SPINNER[int(now * _SPINS) % len(_SPINNER)]


def plain(lines: Sequence[Line]) -> str:
    """Return lines as text."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def ascii_only(lines: Sequence[Line]) -> list[Line]:
    """Convert lines for a terminal that can only print ASCII."""
    return [
        [(text.translate(_ASCII).encode("ascii", "replace").decode(), style) for text, style in line]
        for line in lines
    ]


def html(lines: Sequence[Line]) -> str:
    """Return lines as an HTML element, escaped.

    On a narrow page each line is cut at its end. Pages without styles show the same lines.
    """
    spans = ("".join(_span(text, style) for text, style in line).rstrip() for line in lines)
    body = "".join(f'<span style="{_LINE}">{line}\n</span>' for line in spans)
    return f'<pre style="{_BLOCK}">{body}</pre>'


def _span(text: str, style: str) -> str:
    css = _CSS.get(style) if text.strip() else None
    return f'<span style="{css}">{escape(text)}</span>' if css else escape(text)


def _fitting(rows: Sequence[Row], room: int) -> Sequence[Row]:
    """Return the rows that fit: started agents, ended ones only in the remaining room."""
    if len(rows) <= room:
        return rows
    room -= 1  # the line that counts the others
    begun = [i for i, row in enumerate(rows) if row.state not in _NOT_BEGUN]
    begun.sort(key=lambda i: (rows[i].state in ("done", "stopped"), -i))
    return [rows[i] for i in sorted(begun[:room])]


def duration(seconds: float | None) -> str:
    """Return a time for people: `12.3 s`, `1:04 min`, `1:02 h`; empty for None.

    >>> duration(64)
    '1:04 min'
    """
    if seconds is None:
        return ""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def _short(number: int) -> str:
    """Shorten a number.

    >>> _short(1234), _short(12345)
    ('1.2k', '12k')
    """
    for limit, unit in ((1_000_000, "M"), (1000, "k")):
        if number >= limit:
            scaled = number / limit
            return f"{scaled:.0f}{unit}" if scaled >= 9.95 else f"{scaled:.1f}{unit}"
    return str(number)

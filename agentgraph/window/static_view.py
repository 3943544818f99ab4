"""The status of a thread as text and as an HTML table, for cells without a kernel."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from agentgraph.events.json_forms import JsonObject
from agentgraph.reports.bars import Span, free_in
from agentgraph.safe_repr import cut
from agentgraph.show.lines import one_line, tree_lines
from agentgraph.window.calls import Window

ROWS = 40
"""Maximum number of rows in a table."""
_LONGEST = 80
"""Maximum number of characters in a cell."""
_VOID = "void"

_OUTPUT = ".jp-OutputArea-child"
_TABLE = f"{_OUTPUT}:has(.agentgraph-still)"
HIDING = (
    f"<style>{_TABLE} + {_OUTPUT}:has(> .lm-Panel.jp-OutputArea-output):not(:has(.agentgraph-window)),"
    f"{_TABLE}:has(+ {_OUTPUT} .agentgraph-window){{display:none}}</style>"
)
"""Hides one of two JupyterLab outputs: the empty window, or the table once the window is filled."""


@dataclass(frozen=True)
class StaticView:
    """A table of a thread or of all threads.

    Attributes:
        outline: The outline of the tree.
        title: One line about the thread, or about all threads.
        columns: The names of the columns.
        rows: The cells of the rows.
    """

    outline: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def text(self) -> str:
        """Return the view as text."""
        table = [self.columns, *self.rows] if self.rows else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join([self.outline, "", self.title, *lines])

    def html(self) -> str:
        """Return the view as HTML, without scripts or styles."""
        head = f"<thead><tr>{_cells('th', self.columns)}</tr></thead>"
        body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in self.rows)
        table = f"<table>{head}<tbody>{body}</tbody></table>" if self.rows else ""
        return (
            f'<div class="agentgraph-still"><pre>{escape(self.outline)}</pre>'
            f"<p>{escape(self.title)}</p>{table}</div>"
        )


def static_view(window: Window, thread_id: str | None) -> StaticView:
    """Return the view of a thread, or of all threads if `thread_id` is None."""
    outline = "\n".join(tree_lines(window.runner.agent))
    return StaticView(outline, *(_threads(window) if thread_id is None else _thread(window, thread_id)))


def _threads(window: Window) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
    data = window.call("threads", {"limit": ROWS})
    rows = [_row((each["thread_id"], each["status"])) for each in data["threads"]]
    part = f", the last {len(rows)}" if len(rows) < data["total"] else ""
    return f"threads: {data['total']}{part}", ("thread", "status"), rows


def _thread(window: Window, thread_id: str) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
    thread = window.call("thread", {"thread_id": thread_id})
    asks = "".join(f"; {each['address']} asks: {each['value']}" for each in thread["pending"])
    bars, pauses, is_whole = _bars(window, thread) if thread["updated"] else ([], [], True)
    rows = [_row(_bar(bar, pauses)) for bar in bars[-ROWS:]]
    part = "" if is_whole and len(rows) == len(bars) else f"; the last {len(rows)} activations"
    title = f"thread {thread_id!r}: {thread['status']}{asks}{part}"
    return one_line(title), ("agent", "state", "time", "tokens", "text"), rows


def _bars(window: Window, thread: JsonObject) -> tuple[list[JsonObject], list[Span], bool]:
    if thread["changed"]:
        return [], [], True
    data = window.call("timeline", {"thread_id": thread["thread_id"], "last": ROWS})
    bars = [bar for bar in data["bars"] if bar["kind"] == "agent" and bar["state"] != _VOID]
    return bars, data["pauses"], data["is_whole"]


def _bar(bar: JsonObject, pauses: Sequence[Span]) -> Iterable[str]:
    worked = None if bar["ended"] is None else free_in(Span(bar["began"], bar["ended"]), pauses)
    seconds = "" if worked is None else f"{worked:.1f} s"
    tokens = bar["tokens_in"] + bar["tokens_out"]
    return bar["address"], bar["state"], seconds, str(tokens or ""), bar["text"]


def _row(cells: Iterable[str]) -> tuple[str, ...]:
    return tuple(cut(one_line(cell), _LONGEST) for cell in cells)


def _cells(tag: str, cells: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)

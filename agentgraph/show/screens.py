"""Where a run is shown while it is watched: at a terminal, in a pipe, or in a notebook.

What needs the package `rich` is imported where it is used.
"""

import contextvars
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent
from agentgraph.show.activity import Activity
from agentgraph.show.lines import print_event

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

FRAMES = 8
"""How many frames are shown in a second, at most."""
_NOTEBOOK_WIDTH = 120
_NOTEBOOK_HEIGHT = 100
_HEARTBEAT = 1.0
"""After how many seconds a notebook shows a new frame, if nothing happens: times run on."""


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


class Lines(Screen):
    """Prints the events as lines, and no tree: for pipes and files."""

    def __init__(self, console: "Console") -> None:
        super().__init__()
        self.console = console

    def line(self, event: AgentEvent) -> None:
        """Print an event."""
        print_event(self.console, event)


class Terminal(Lines):
    """Prints the events as lines, and below them the tree, which is changed in place.

    Attributes:
        remark: A text that stands below the tree while a run is shown.
    """

    streams = True

    def __init__(self, console: "Console") -> None:
        super().__init__(console)
        self.remark = ""

    def show(self) -> None:
        """Begin to draw the tree anew, many times a second: times run on, and marks turn."""
        from rich.live import Live

        self._live = Live(
            console=self.console,
            get_renderable=self._frame,
            refresh_per_second=FRAMES,
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start(refresh=True)

    def hide(self) -> None:
        """Draw the tree once more, and leave it there."""
        self.remark = ""
        self._live.stop()

    def _frame(self) -> "Text":
        from rich.text import Text

        from agentgraph.show.frames import ascii_only, frame, spinner

        now, size = time.monotonic(), self.console.size
        rows = self.activity.rows(now)
        lines = frame(rows, width=size.width, height=size.height - 3, running=spinner(now))
        lines.insert(0, [])
        lines += [[(self.remark, "yellow")]] if self.remark else []
        if not self.console.encoding.startswith("utf"):
            lines = ascii_only(lines)
        text = Text(no_wrap=True, overflow="crop", end="")
        for i, line in enumerate(lines):
            text.append("\n" if i else "")
            for piece, style in line:
                text.append(piece, style)
        return text


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
        from agentgraph.show.frames import frame, html, plain

        rows = self.activity.rows(time.monotonic())
        lines = frame(rows, width=_NOTEBOOK_WIDTH, height=_NOTEBOOK_HEIGHT)
        return {"text/html": html(lines), "text/plain": plain(lines)}


def screen_for(console: "Console | Screen | None") -> Screen:
    """Return a screen: the notebook's cell, a console, or standard output.

    Raises:
        AgentGraphError: The package `rich` is missing.
    """
    if isinstance(console, Screen):
        return console
    try:
        from rich.console import Console
    except ImportError:
        raise AgentGraphError(
            "watching a run needs the package rich: pip install 'agentgraph[live]'"
        ) from None
    if console is None and _in_notebook():
        return Notebook()
    console = console or Console(highlight=False, markup=False, emoji=False)
    return Terminal(console) if is_live(console) else Lines(console)


def is_live(console: "Console") -> bool:
    """Tell whether a console can change in place what it has shown."""
    return console.is_terminal and not console.is_dumb_terminal


def _in_notebook() -> bool:
    """Tell whether a cell of a notebook runs this: whether IPython has a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None

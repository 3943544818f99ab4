"""Where the command line shows a run that has no live tree: event by event, and whether it lives."""

import threading
import time
from collections.abc import Callable

from agentgraph.events.events import AgentEvent
from agentgraph.show.screens import Screen

QUIET = 30.0
"""After how many seconds without an event it is said what runs."""
_NAMED = 3


class Printed(Screen):
    """Shows each event by a function; while nothing is told, notes now and then what runs."""

    def __init__(
        self,
        print_event: Callable[[AgentEvent], None],
        note: Callable[[str], None],
        *,
        quiet: float = QUIET,
    ) -> None:
        """Make a screen.

        Args:
            print_event: Shows an event.
            note: Shows a remark.
            quiet: After how many seconds without an event there is a remark.
        """
        super().__init__()
        self._print_event, self._note, self._quiet = print_event, note, quiet
        self._heard, self._is_over = threading.Event(), threading.Event()

    def line(self, event: AgentEvent) -> None:
        """Show an event."""
        self._print_event(event)
        self._heard.set()

    def show(self) -> None:
        """Begin to look at the clock."""
        self._is_over.clear()
        self._heard.clear()
        self._clock = threading.Thread(target=self._watch_clock, daemon=True)
        self._clock.start()

    def hide(self) -> None:
        """Look no more."""
        self._is_over.set()
        self._heard.set()
        self._clock.join()

    def _watch_clock(self) -> None:
        while not self._is_over.is_set():
            if self._heard.wait(self._quiet):
                self._heard.clear()
            elif running := self.activity.running(time.monotonic()):
                self._note(_running_line(running))


def _running_line(running: list[tuple[str, float]]) -> str:
    """Return what runs in words: `still running: report/refine[1]/write (64 s)`."""
    named = [f"{at} ({seconds:.0f} s)" for at, seconds in running[:_NAMED]]
    more = [f"{len(running) - _NAMED} more"] if len(running) > _NAMED else []
    return f"still running: {', '.join(named + more)}"

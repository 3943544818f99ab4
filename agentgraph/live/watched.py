"""What comes of a run that was watched: its events, as one value."""

from collections.abc import Sequence
from typing import overload

from agentgraph.events import AgentEvent, Interrupt


class Watched(Sequence[AgentEvent]):
    """The whole events of a run that was watched; a notebook shows nothing more of it.

    Attributes:
        thread_id: The thread.
        pending: The questions that wait for answers, in the order of the tree.
    """

    def __init__(
        self, thread_id: str, events: Sequence[AgentEvent], pending: Sequence[Interrupt] = ()
    ) -> None:
        self.thread_id, self.pending = thread_id, tuple(pending)
        self._events = tuple(events)

    @property
    def text(self) -> str:
        """The last text that was said; empty where there was none."""
        return next((event.text for event in reversed(self._events) if event.text), "")

    @overload
    def __getitem__(self, index: int) -> AgentEvent: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[AgentEvent, ...]: ...
    def __getitem__(self, index: int | slice) -> AgentEvent | tuple[AgentEvent, ...]:
        return self._events[index]

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        questions = f", {len(self.pending)} pending" if self.pending else ""
        return f"<Watched: {len(self)} events on thread {self.thread_id!r}{questions}>"

    def _ipython_display_(self) -> None:
        """Show nothing: the tree is there already."""

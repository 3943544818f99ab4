"""The texts that a run streams, as a whole for a page that comes late, and then chunk by chunk."""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from agentgraph.events.events import AgentEvent
from agentgraph.threads.live.active_run import ActiveRun

MOST_TEXT = 200_000
"""Maximum number of characters of a text; beyond it, only the latest are kept."""

Listener = Callable[[str, str, str, bool], object]
"""Receives an address, the id of a message, a text, and whether it is all of the message so far."""


class RunTexts:
    """The texts of the messages that a run streams, until they are complete.

    Attributes:
        run: The run.
    """

    def __init__(self, run: ActiveRun) -> None:
        self.run = run
        self._guard, self._listeners = Lock(), list[Listener]()
        # The last message of each address: an attempt that failed leaves one that is never complete.
        self._texts: dict[str, tuple[str, str]] = {}
        run.feed.subscribers.append(self._put)

    def listen(self, listener: Listener) -> None:
        """Send the texts so far to a listener, and then each chunk."""
        with self._guard:
            for address, (message, text) in self._texts.items():
                listener(address, message, text, True)
            self._listeners.append(listener)

    def leave(self, listener: Listener) -> None:
        """Send no more chunks to a listener."""
        with self._guard, suppress(ValueError):
            self._listeners.remove(listener)

    def _put(self, event: AgentEvent) -> None:
        address, message, text = event.address, event.id or "", event.text
        with self._guard:
            known, before = self._texts.get(address, (None, ""))
            is_new = known != message
            if not event.partial:
                if not is_new or event.error is not None:
                    self._texts.pop(address, None)
            elif text:
                self._texts[address] = message, (text if is_new else before + text)[-MOST_TEXT:]
                for each in self._listeners:
                    each(address, message, text, is_new)

"""The messages that a user sends to a running run: the next call of a model takes them.

All lanes of a run share one mailbox. The lane whose model is asked first takes its messages, and writes
them with the update of its step: a kill before that step is saved leaves the messages in the saver's
requests (`journal/requests.py`), a kill after it finds them in the history. If the step fails, or its
output is discarded later, the messages return to the mailbox, for the next call.
"""

import threading
from collections.abc import Iterable, Sequence

from langchain_core.messages import BaseMessage


class Mailbox:
    """Messages to a running run, each for one call of a model.

    Attributes:
        is_empty: Whether nothing waits; read before each call of a model, so it is a plain attribute.
    """

    def __init__(self) -> None:
        self.is_empty = True
        self._lock = threading.RLock()  # reentrant: a signal handler may steer the run
        self._messages: dict[str, BaseMessage] = {}
        self._taken: set[str] = set()

    def add(self, messages: Iterable[BaseMessage]) -> None:
        """Add messages, each with an id; one that is there already, or was taken, changes nothing."""
        with self._lock:
            for message in messages:
                self._messages.setdefault(str(message.id), message)
            self._count()

    def take(self) -> list[BaseMessage]:
        """Take all that waits, in the order in which it was sent."""
        with self._lock:
            waiting = [each for name, each in self._messages.items() if name not in self._taken]
            self._taken.update(str(each.id) for each in waiting)
            self.is_empty = True
            return waiting

    def restore(self, ids: Iterable[str | None]) -> None:
        """Give back what was taken by a step that has no effect; other ids change nothing."""
        with self._lock:
            self._taken.difference_update(filter(None, ids))
            self._count()

    def taken(self) -> Sequence[str]:
        """Return the ids of the messages that were taken, in order."""
        with self._lock:
            return [name for name in self._messages if name in self._taken]

    def _count(self) -> None:
        self.is_empty = len(self._taken) == len(self._messages)

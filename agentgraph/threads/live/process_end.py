"""Closes the runs that a program leaves open when it ends.

Some streams of LangGraph have threads that wait for the next part. When a program ends, Python waits
for these threads before it calls anything that `atexit` knows. So a program whose loop over a run
raised an exception would never end: its traceback holds the run, which therefore is not closed. The
executors of the standard library have the same need, and use a function of `threading` that is not
documented.
"""

import threading
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet


class Left(Protocol):
    """A run that a program may leave open."""

    @property
    def is_read(self) -> bool:
        """Whether a thread waits for its next event."""

    def close(self) -> None:
        """Close it."""


_open: "WeakSet[Left]" = WeakSet()


def close_at_end(run: Left) -> None:
    """Have a run closed when the program ends, if it is still there and no thread reads it."""
    _open.add(run)


def _close_all() -> None:
    for run in [*_open]:
        if not run.is_read:
            with suppress(Exception):  # nothing is left to report it to
                run.close()


if (at_end := getattr(threading, "_register_atexit", None)) is not None:
    at_end(_close_all)  # executors, which were imported before, come later

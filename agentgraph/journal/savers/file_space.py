"""The disk space of a SQLite file: the space of deleted data goes back to the disk.

SQLite keeps the pages that a deletion frees for later saves, so a file never shrinks by itself. A new
file is made so that free pages can be cut off at its end without a copy of the file. An older file
cannot do that before it was compacted, which copies it whole and needs exclusive use of it.
"""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, runtime_checkable

INCREMENTAL = "PRAGMA auto_vacuum=INCREMENTAL;"
"""SQLite is to keep track of how pages may be moved: of a file that has no table yet."""
FREE_PAGES = "PRAGMA freelist_count"
_PART = 2000
"""How many pages are given back in a transaction: a save of another process comes between two."""
_WAIT = 1000
"""Milliseconds that are waited for others, who may read what is given back."""
_CUT = "PRAGMA wal_checkpoint(TRUNCATE)"
"""The file is cut off when all of the log before it is in it; then the log is, too."""


def returning(free: int, busy: float) -> Sequence[str]:
    """Return the scripts that give free pages back to the disk.

    Python runs a statement without columns for its first row alone, but a script whole.

    Args:
        free: The number of free pages.
        busy: How long the connection waits for others, in seconds, which is set again.
    """
    parts = [f"PRAGMA incremental_vacuum({_PART})"] * -(-free // _PART)
    wait, again = (f"PRAGMA busy_timeout={each:.0f}" for each in (_WAIT, 1000 * busy))
    return [wait, *parts, _CUT, again]


def give_back(connection: sqlite3.Connection, busy: float) -> None:
    """Give free pages back to the disk; where others use the file, a later deletion does it.

    Args:
        connection: The connection, which no other thread uses.
        busy: As in `returning`.
    """
    (free,) = connection.execute(FREE_PAGES).fetchone()
    for script in returning(free, busy):
        with suppress(sqlite3.OperationalError):
            connection.executescript(script)


COMPACT = f"{INCREMENTAL} VACUUM;"
"""Copies a file without its free pages; from then on deletions give theirs back."""


@runtime_checkable
class HasFile(Protocol):
    """A saver of agentgraph's own with a SQLite file."""

    path: str | None
    """The file; None in memory."""

    def remove_thread(self, thread_id: str) -> None:
        """Delete a thread, as one of several: its space stays in the file."""

    async def aremove_thread(self, thread_id: str) -> None:
        """Delete it, on the event loop."""

    def give_back(self) -> None:
        """Give the space of deleted data back to the disk."""

    async def agive_back(self) -> None:
        """Give it back, on the event loop."""

    def compact(self) -> None:
        """Copy the file without the space of deleted data; no other process may use it meanwhile."""

    async def acompact(self) -> None:
        """Copy it, on the event loop."""


def size_of(path: str | None) -> int | None:
    """Return how many bytes of the disk a file takes, with the log next to it; None in memory."""
    if path is None:
        return None
    return sum(os.path.getsize(each) for each in (path, f"{path}-wal") if os.path.exists(each))

"""The disk space of a SQLite file: what a deletion frees goes back to the disk.

SQLite keeps the pages that a deletion frees for later saves, so a file never shrinks by itself. A new
file is made so that free pages can be cut off at its end without a copy of the file. An older file
cannot do that before it was compacted, which copies it whole and needs exclusive use of it.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress

INCREMENTAL = "PRAGMA auto_vacuum=INCREMENTAL;"
"""SQLite is to keep track of how pages may be moved: of a file that has no table yet."""
FREE_PAGES = "PRAGMA freelist_count"
SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
"""The size of the file in bytes, as this connection sees it."""
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


def compact(connection: sqlite3.Connection) -> None:
    """Copy a file without its free pages, so that later deletions give theirs back.

    Args:
        connection: The connection, which no other thread uses.

    Raises:
        sqlite3.OperationalError: Others use the file, or the disk has no room for a copy.
    """
    connection.commit()
    connection.execute(INCREMENTAL)
    connection.execute("VACUUM")

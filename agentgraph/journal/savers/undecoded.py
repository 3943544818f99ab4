"""Facts that LangGraph's savers return without decoding a checkpoint.

Another saver is asked by what all savers have, which takes longer.
"""

from collections.abc import Hashable
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from agentgraph.graph.open_types import Saver

_COUNTS = (
    "SELECT count(*) - count(DISTINCT parent_checkpoint_id) FROM checkpoints "
    "WHERE thread_id = {} AND checkpoint_ns = ''"
)
"""The last checkpoints of lines are not parents."""


def changes_of(saver: Saver) -> Hashable | None:
    """Return a value that changes with each write to a saver; None if only its threads show it.

    SQLite counts what this connection has changed, and knows whether another one has written.
    """
    if isinstance(saver, SqliteSaver):
        with saver.cursor(transaction=False) as cursor:
            (version,) = cursor.execute("PRAGMA data_version").fetchone()
        return version, saver.conn.total_changes
    return None


def changes_in_memory(saver: Saver, thread_id: str) -> Hashable | None:
    """Return a value that changes with each save of a thread in memory; None for other savers."""
    if not isinstance(saver, InMemorySaver):
        return None
    saved = list(saver.storage.get(thread_id, {}).values())
    writes = [each for key, each in list(saver.writes.items()) if key[0] == thread_id]
    return sum(map(len, saved)), sum(map(len, writes))


def count_lines(saver: Saver, thread_id: str) -> int | None:
    """Return how many lines a thread has; None if the saver does not tell."""
    if isinstance(saver, SqliteSaver):
        with saver.cursor(transaction=False) as cursor:
            return _first(cursor.execute(_COUNTS.format("?"), (thread_id,)))
    if isinstance(saver, InMemorySaver):
        saved = dict(saver.storage.get(thread_id, {}).get("", {}))
        return len(saved) - len({parent for *_, parent in saved.values() if parent})
    if any(kind.__name__ == "PostgresSaver" for kind in type(saver).__mro__):
        cursors: Any = saver
        with cursors._cursor() as rows:
            return _first(rows.execute(_COUNTS.format("%s"), (thread_id,)))
    return None


def _first(cursor: Any) -> int:
    row = cursor.fetchone()
    return int(row[0] if isinstance(row, tuple) else next(iter(row.values())))

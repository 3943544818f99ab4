"""LangGraph's SQLite savers, opened so that they are fast and share a file well."""

import os
import sqlite3
from collections.abc import Generator
from os import PathLike
from typing import Any, Self

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

_BUSY_SECONDS = 30.0
_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"


class _SqliteSaver(SqliteSaver):
    """A `SqliteSaver` that closes its connection at the end of a `with` block."""

    path: str | None
    """The file, by which runs in all processes know that they share it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.conn.close()


class _AsyncSqliteSaver(AsyncSqliteSaver):
    """An `AsyncSqliteSaver` that can be awaited, or be the subject of `async with`."""

    path: str | None
    """The file, by which runs in all processes know that they share it."""

    async def setup(self) -> None:
        """Open the connection, set it up, and create the tables."""
        ready = self.is_setup
        await super().setup()
        if not ready:
            async with self.conn.executescript(_PRAGMAS):
                pass

    async def __aenter__(self) -> Self:
        await self.setup()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.conn.close()

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()


def sqlite_saver(path: str | PathLike[str]) -> _SqliteSaver:
    """Open LangGraph's `SqliteSaver` with WAL, `synchronous=NORMAL` and a busy timeout of 30 s.

    What was written survives a crash of the process; a loss of power may take the last steps.

    ```
    with sqlite_saver("runs.db") as saver:
        runner = Runner(report, checkpointer=saver)
    ```

    Args:
        path: The database file, made if it is not there; `:memory:` for none.

    Returns:
        The saver, ready to use; the end of a `with` block closes it.
    """
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
    connection.executescript(_PRAGMAS)
    saver = _SqliteSaver(connection)
    saver.path = _file(path)
    return saver


def async_sqlite_saver(path: str | PathLike[str]) -> _AsyncSqliteSaver:
    """Open LangGraph's `AsyncSqliteSaver` as `sqlite_saver` does; call it inside an event loop.

    ```
    async with async_sqlite_saver("runs.db") as saver:
        runner = Runner(report, checkpointer=saver)
    ```

    Args:
        path: The database file, made if it is not there; `:memory:` for none.

    Returns:
        The saver, to be awaited or used with `async with`, which also closes it.
    """
    saver = _AsyncSqliteSaver(aiosqlite.connect(os.fspath(path), timeout=_BUSY_SECONDS))
    saver.path = _file(path)
    return saver


def _file(path: str | PathLike[str]) -> str | None:
    return None if os.fspath(path) == ":memory:" else os.path.realpath(path)

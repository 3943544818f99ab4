"""LangGraph's SQLite savers, opened so that they are fast and share a file well; how savers fail."""

import asyncio
import os
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from os import PathLike
from typing import Any, Self

import aiosqlite
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agentgraph.errors import SaverError
from agentgraph.graph.failures import failures
from agentgraph.safe_repr import reason

_BUSY_SECONDS = 30.0
_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
_NEEDED = ("get_tuple", "put", "put_writes")
"""What a saver must have to serve the sync calls, and with an "a" before it the async ones."""
_ASYNC_CALLS = "arun, aquery, aresume, apending, aevents and awatch"
_SYNC_CALLS = "run, query, resume, pending, events and watch"
_WAYS_OUT = {
    "SQLITE_NOTADB": "it is no SQLite database: name another file, or put a copy in its place",
    "SQLITE_CORRUPT": "the file is damaged: put a copy in its place, or start another file",
    "SQLITE_BUSY": "another process holds the file: try again when that is done",
    "SQLITE_LOCKED": "another connection holds the file: try again when that is done",
    "SQLITE_READONLY": "the file cannot be written: change its permissions, or use a copy",
    "SQLITE_FULL": "the disk is full: make room",
    "SQLITE_CANTOPEN": "look whether its folder is there, and the file may be read and written",
}
_CLOSED = ("closed", "no active connection")
_DATABASES = {"sqlite3", "psycopg", "psycopg_pool"}
"""The packages whose exceptions are a database's."""


class _Connection(sqlite3.Connection):
    """A connection that gives its lock on the file back when it is closed.

    SQLite keeps an open transaction over `close` as long as a cursor is held, and an event loop that
    was killed leaves such cursors behind.
    """

    def close(self) -> None:
        """Roll back what was not committed, and close."""
        with suppress(sqlite3.ProgrammingError):  # it is closed already
            self.rollback()
        super().close()


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

    named: str
    """The file as its user named it."""
    path: str | None
    """The file, by which runs in all processes know that they share it."""

    async def setup(self) -> None:
        """Open the connection, set it up, and create the tables.

        Raises:
            SaverError: The file cannot be opened.
        """
        if self.is_setup:
            return
        try:
            await asyncio.to_thread(_look_into, self.named)
            await super().setup()
            async with self.conn.executescript(_PRAGMAS):
                pass
        except (sqlite3.Error, ValueError) as error:  # the latter of a connection that was closed
            raise _unopened(self.named, error) from error

    async def __aenter__(self) -> Self:
        try:
            await self.setup()
        except SaverError:
            await self.conn.close()
            raise
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

    Raises:
        SaverError: The file cannot be opened, or is no SQLite file.
    """
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, check_same_thread=False, factory=_Connection
        )
        connection.executescript(_PRAGMAS)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise _unopened(os.fspath(path), error) from error
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
        The saver, to be awaited or used with `async with`, which also closes it. That, or its first
        use, opens the file, and raises a `SaverError` where it cannot be opened.
    """
    connection = aiosqlite.connect(os.fspath(path), timeout=_BUSY_SECONDS, factory=_Connection)
    saver = _AsyncSqliteSaver(connection)
    saver.named = os.fspath(path)
    saver.path = _file(path)
    return saver


def sync_fault(saver: BaseCheckpointSaver[Any]) -> str | None:
    """Return why a saver cannot serve the sync calls of a runner, and what can; None if it does."""
    lacks = _lacks(saver, _NEEDED)
    if not lacks and not isinstance(getattr(saver, "loop", None), asyncio.AbstractEventLoop):
        return None
    why = "it has no sync methods" if lacks else "it runs on an event loop"
    instead = _instead(saver, "sqlite_saver()", _name_of(saver).removeprefix("Async"), "sync")
    return f"{_name_of(saver)} serves only {_ASYNC_CALLS}: {why}; call these, or use {instead}"


def async_fault(saver: BaseCheckpointSaver[Any]) -> str | None:
    """Return why a saver cannot serve the async calls of a runner, and what can; None if it does."""
    lacks = _lacks(saver, [f"a{name}" for name in _NEEDED])
    if not lacks and not isinstance(saver, SqliteSaver):
        return None
    instead = _instead(saver, "async_sqlite_saver()", f"Async{_name_of(saver)}", "async")
    return (
        f"{_name_of(saver)} serves only {_SYNC_CALLS}: it has no async methods; call these, or use "
        f"{instead}"
    )


def saver_error(
    error: BaseException, saver: BaseCheckpointSaver[Any], thread_id: str | None = None
) -> SaverError:
    """Return the error for one that a saver raised, to be raised from that.

    ```
    except sqlite3.Error as error:
        raise saver_error(error, saver, thread_id) from error
    ```

    Args:
        error: What the saver raised.
        saver: The saver.
        thread_id: The thread that was read or run.
    """
    path: str | None = getattr(saver, "path", None)
    at = f", the file {path}," if path else ""
    return SaverError(
        f"thread {thread_id!r}: its saver {_name_of(saver)}{at} failed with {type(error).__name__}: "
        f"{reason(error)}; {_way_out(error)}; what was saved before is kept",
        thread_id=thread_id,
        path=path,
    )


def is_of_database(error: BaseException) -> bool:
    """Tell whether an exception is one of a database that no agent raised, and so the saver's."""
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(packages & _DATABASES) and not failures(error)


def _look_into(path: str) -> None:
    """Open a file and close it: aiosqlite leaves a thread behind of one that it cannot open."""
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA schema_version")


def _unopened(path: str, error: Exception) -> SaverError:
    why = "it is a directory" if os.path.isdir(path) else reason(error)
    return SaverError(
        f"{path} cannot be opened as a SQLite file: {why}; {_way_out(error)}", path=_file(path)
    )


def _way_out(error: BaseException) -> str:
    code = "_".join(str(getattr(error, "sqlite_errorname", "")).split("_")[:2])
    if code in _WAYS_OUT:
        return _WAYS_OUT[code]
    if any(word in reason(error) for word in _CLOSED):
        return "use the runner while its saver is open"
    return "try again when the saver works"


def _lacks(saver: BaseCheckpointSaver[Any], names: Sequence[str]) -> bool:
    """Tell whether a saver has not got some methods: they are still those of its base class."""
    return any(getattr(type(saver), name) is getattr(BaseCheckpointSaver, name) for name in names)


def _name_of(saver: BaseCheckpointSaver[Any]) -> str:
    return type(saver).__name__.lstrip("_")


def _instead(saver: BaseCheckpointSaver[Any], opener: str, twin: str, methods: str) -> str:
    if isinstance(saver, SqliteSaver | AsyncSqliteSaver):
        return f"{opener} on the same file"
    is_langgraphs = type(saver).__module__.startswith("langgraph.")
    return twin if is_langgraphs else f"a saver that has {methods} methods"


def _file(path: str | PathLike[str]) -> str | None:
    return None if os.fspath(path) == ":memory:" else os.path.realpath(path)

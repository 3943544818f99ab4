"""LangGraph's SQLite savers, opened so that they are fast and share a file well; how savers fail.

Processes that share a file know by a lock file beside it which threads are held. A lock ends with the
process that holds it, however that process ends.
"""

import asyncio
import hashlib
import os
import sqlite3
import sys
from collections.abc import Generator
from contextlib import closing, suppress
from os import PathLike
from typing import Any, Self

import aiosqlite
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agentgraph.agents.middleware import Mode
from agentgraph.errors import SaverError
from agentgraph.graph.failures import failures
from agentgraph.safe_repr import reason

_BUSY_SECONDS = 30.0
_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
_NEEDED = {
    "sync": ("get_tuple", "put", "put_writes"),
    "async": ("aget_tuple", "aput", "aput_writes"),
}
"""The methods that a saver needs to serve the calls of a mode."""
_CALLS = {
    "sync": "run, query, resume, pending, events and watch",
    "async": "arun, aquery, aresume, apending, aevents and awatch",
}
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
_lock_files: dict[str, int] = {}  # never closed: closing one would end all locks on it


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


def saver_fault(saver: BaseCheckpointSaver[Any], mode: Mode) -> str | None:
    """Return why a saver cannot serve calls of a mode, and what can; None if it does."""
    is_sync, name = mode == "sync", type(saver).__name__.lstrip("_")
    needed = _NEEDED[mode]
    lacks = any(getattr(type(saver), each) is getattr(BaseCheckpointSaver, each) for each in needed)
    runs_on_loop = isinstance(getattr(saver, "loop", None), asyncio.AbstractEventLoop)
    if not lacks and not (runs_on_loop if is_sync else isinstance(saver, SqliteSaver)):
        return None
    if isinstance(saver, SqliteSaver | AsyncSqliteSaver):
        instead = f"{'' if is_sync else 'async_'}sqlite_saver() on the same file"
    elif type(saver).__module__.startswith("langgraph."):
        instead = name.removeprefix("Async") if is_sync else f"Async{name}"
    else:
        instead = f"a saver that has {mode} methods"
    why = f"it has no {mode} methods" if lacks or not is_sync else "it runs on an event loop"
    return (
        f"{name} serves only {_CALLS['async' if is_sync else 'sync']}: {why}; call these, or use "
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
        f"thread {thread_id!r}: its saver {type(saver).__name__.lstrip('_')}{at} failed with "
        f"{type(error).__name__}: {reason(error)}; {_way_out(error)}; what was saved before is kept",
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


def _file(path: str | PathLike[str]) -> str | None:
    return None if os.fspath(path) == ":memory:" else os.path.realpath(path)


def lock_file(path: str, thread_id: str) -> bool:
    """Lock a thread of a SQLite file for this process, and tell whether it was free.

    Raises:
        SaverError: The lock file beside it cannot be opened.
    """
    if path not in _lock_files:
        try:
            _lock_files[path] = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise SaverError(
                f"{path}-lock cannot be opened: {error.strerror}; by this file processes know that "
                "they share a thread, so its folder must be one that may be written to",
                path=path,
            ) from error
    try:
        _lock_byte(_lock_files[path], _offset(thread_id))
    except OSError:
        return False
    return True


def unlock_file(path: str, thread_id: str) -> None:
    """Let other processes have a thread of a SQLite file."""
    _unlock_byte(_lock_files[path], _offset(thread_id))


def _offset(thread_id: str) -> int:
    return int.from_bytes(hashlib.sha256(thread_id.encode()).digest()[:7], "big")


if sys.platform == "win32":
    import msvcrt

    _MOST = 2**31 - 1  # the C library seeks with 32 bits to where it locks

    def _lock_byte(file: int, at: int) -> None:
        os.lseek(file, at % _MOST, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _unlock_byte(file: int, at: int) -> None:
        os.lseek(file, at % _MOST, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock_byte(file: int, at: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)

    def _unlock_byte(file: int, at: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, at)

"""LangGraph's SQLite savers, opened so that they are fast, share a file well, and are read strictly."""

import asyncio
import ctypes
import os
import sqlite3
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, suppress
from os import PathLike
from pathlib import Path
from typing import Self, TypeVar
from weakref import WeakSet

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agentgraph.errors import SaverError
from agentgraph.graph.guarded_saver import advice_for
from agentgraph.graph.named_types import allowed_types
from agentgraph.graph.strict_serializer import StrictSerializer
from agentgraph.journal.savers.file_locks import FileLocks
from agentgraph.journal.savers.file_space import COMPACT, FREE_PAGES, INCREMENTAL, give_back, returning
from agentgraph.journal.savers.sqlite_index import CREATE, IS_THERE, known_of, page_of
from agentgraph.journal.savers.thread_index import Begun, Listed, ThreadQuery
from agentgraph.journal.savers.threaded import AsyncInThreads
from agentgraph.safe_repr import reason

_BUSY_SECONDS = 30.0
_ONLY_ASYNC = "AsyncSqliteSaver supports async calls only"
_FORK_SECONDS = 1.0
_SYNCHRONOUS = "PRAGMA synchronous=NORMAL;"
_PRAGMAS = f"{INCREMENTAL} PRAGMA journal_mode=WAL; {_SYNCHRONOUS}"
_NAMESPACES = (
    "SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE thread_id = ? AND checkpoint_id >= ?"
)
"""It reads the index of the primary key alone."""


class _Connection(sqlite3.Connection):
    """A connection that releases its lock on the file when it is closed.

    SQLite keeps an open transaction after `close` while any cursor exists, and an event loop that was
    killed leaves cursors open.
    """

    def close(self) -> None:
        """Roll back what was not committed, and close."""
        with suppress(sqlite3.ProgrammingError):  # it is closed already
            self.rollback()
        super().close()


class _SqliteSaver(SqliteSaver):
    path: str | None
    """The file; None in memory."""
    thread_locks: FileLocks | None
    """The locks of its threads, by which runs in all processes know that they share them."""
    has_index = False
    """Whether its file has an index of threads."""

    def setup(self) -> None:
        """Create the tables, and the index of threads."""
        if self.is_setup:
            return
        super().setup()
        self.has_index = _has_index(self.conn) or _made_index(self.conn)

    def close(self) -> None:
        """Close the file once no other thread reads it, because SQLite would crash."""
        is_free = self.lock.acquire(timeout=_BUSY_SECONDS)
        try:
            self.conn.close()
        finally:
            if is_free:
                self.lock.release()

    def reopen(self) -> None:
        """Open the file in a process that was forked: SQLite's connections belong to one process."""
        before, self.lock = self.conn, threading.Lock()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(before))  # to close it is not for this process
        if self.path is not None:
            with suppress(sqlite3.Error):  # where it was closed, or cannot be opened, calls say so
                before.total_changes  # noqa: B018
                self.conn = _connected(self.path)
                self.conn.execute(_SYNCHRONOUS)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread, as `SqliteSaver` does, and give its space back to the disk."""
        self.remove_thread(thread_id)
        self.give_back()

    def remove_thread(self, thread_id: str) -> None:
        """Delete a thread, as one of several: its space stays in the file."""
        super().delete_thread(thread_id)

    async def aremove_thread(self, thread_id: str) -> None:
        """Delete it, on the event loop."""
        await asyncio.to_thread(self.remove_thread, thread_id)

    def give_back(self) -> None:
        """Give the space of deleted data back to the disk."""
        with self.lock:
            give_back(self.conn, _BUSY_SECONDS)

    async def agive_back(self) -> None:
        """Give it back, on the event loop."""
        await asyncio.to_thread(self.give_back)

    def compact(self) -> None:
        """Copy the file without the space of deleted data; no other process may use it meanwhile."""
        with self.lock:
            self.conn.executescript(COMPACT)

    async def acompact(self) -> None:
        """Copy it, on the event loop."""
        await asyncio.to_thread(self.compact)

    def namespaces_since(self, thread_id: str, since: str) -> list[str]:
        """Return the namespaces of a thread that have checkpoints with an id or later ones."""
        with self.cursor(transaction=False) as cursor:
            cursor.execute(_NAMESPACES, (thread_id, since))
            return [name for (name,) in cursor]

    async def anamespaces_since(self, thread_id: str, since: str) -> list[str]:
        """Return them on the event loop."""
        return await asyncio.to_thread(self.namespaces_since, thread_id, since)

    def list_threads(self, query: ThreadQuery, after: Begun | None, limit: int) -> Listed:
        """Return the threads after one, newest first; None without an index."""
        return self._asked(*page_of(query, after, limit))

    async def alist_threads(self, query: ThreadQuery, after: Begun | None, limit: int) -> Listed:
        """Return them on the event loop."""
        return await asyncio.to_thread(self.list_threads, query, after, limit)

    def find_threads(self, ids: Sequence[str]) -> Listed:
        """Return those of some threads that are stored; None without an index."""
        return self._asked(*known_of(ids))

    async def afind_threads(self, ids: Sequence[str]) -> Listed:
        """Return them on the event loop."""
        return await asyncio.to_thread(self.find_threads, ids)

    def _asked(self, query: str, values: Sequence[object]) -> Listed:
        with self.cursor(transaction=False) as cursor:
            return [*cursor.execute(query, values)] if self.has_index else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileSaver(AsyncInThreads, _SqliteSaver):
    """A `SqliteSaver` that serves async calls too."""


class _AsyncSqliteSaver(AsyncSqliteSaver):
    named: str
    """The file as its user named it."""
    path: str | None
    """The file; None in memory."""
    thread_locks: FileLocks | None
    """The locks of its threads, by which runs in all processes know that they share them."""
    has_index = False
    """Whether its file has an index of threads."""

    async def setup(self) -> None:
        """Open the connection, set it up, and create the tables.

        Raises:
            SaverError: The file cannot be opened.
        """
        if self.is_setup:
            return
        try:
            await asyncio.to_thread(_check_opens, self.named)
            await super().setup()
            async with self.conn.executescript(_PRAGMAS):
                pass
            async with self.lock:
                await self._index()
        except (sqlite3.Error, ValueError) as error:  # the latter of a connection that was closed
            raise _unopened(self.named, error) from error

    async def _index(self) -> None:
        async with self.conn.execute(IS_THERE) as cursor:
            self.has_index = (await cursor.fetchone()) == (1,)
        if self.has_index:
            return
        try:
            await self.conn.executescript(CREATE)
        except sqlite3.DatabaseError:
            await self.conn.rollback()
        else:
            self.has_index = True

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread, as `AsyncSqliteSaver` does, and give its space back to the disk."""
        await self.aremove_thread(thread_id)
        await self.agive_back()

    def remove_thread(self, thread_id: str) -> None:
        """Refuse: the saver supports async calls only."""
        raise NotImplementedError(_ONLY_ASYNC)

    async def aremove_thread(self, thread_id: str) -> None:
        """Delete a thread, as one of several: its space stays in the file."""
        await super().adelete_thread(thread_id)

    def give_back(self) -> None:
        """Refuse: the saver supports async calls only."""
        raise NotImplementedError(_ONLY_ASYNC)

    async def agive_back(self) -> None:
        """Give the space of deleted data back to the disk."""
        async with self.lock:
            async with self.conn.execute(FREE_PAGES) as cursor:
                (free,) = await cursor.fetchone()  # type: ignore[misc]  # it has one row
            for script in returning(free, _BUSY_SECONDS):
                with suppress(sqlite3.OperationalError):
                    await self.conn.executescript(script)

    def compact(self) -> None:
        """Refuse: the saver supports async calls only."""
        raise NotImplementedError(_ONLY_ASYNC)

    async def acompact(self) -> None:
        """Copy the file without the space of deleted data; no other process may use it meanwhile."""
        await self.setup()
        async with self.lock:
            await self.conn.executescript(COMPACT)

    async def alist_threads(self, query: ThreadQuery, after: Begun | None, limit: int) -> Listed:
        """Return the threads after one, newest first; None without an index."""
        return await self._asked(*page_of(query, after, limit))

    async def afind_threads(self, ids: Sequence[str]) -> Listed:
        """Return those of some threads that are stored; None without an index."""
        return await self._asked(*known_of(ids))

    async def _asked(self, query: str, values: Sequence[object]) -> Listed:
        await self.setup()
        if not self.has_index:
            return None
        async with self.lock, self.conn.execute(query, values) as cursor:
            return [(row[0], row[1]) for row in await cursor.fetchall()]

    def list_threads(self, query: ThreadQuery, after: Begun | None, limit: int) -> Listed:
        """Refuse: the saver supports async calls only."""
        raise NotImplementedError(_ONLY_ASYNC)

    def find_threads(self, ids: Sequence[str]) -> Listed:
        """Refuse: the saver supports async calls only."""
        raise NotImplementedError(_ONLY_ASYNC)

    async def __aenter__(self) -> Self:
        try:
            await self.setup()
        except SaverError:
            await self.conn.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.conn.close()

    def __await__(self) -> Generator[object, None, Self]:
        return self.__aenter__().__await__()


def _has_index(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute(IS_THERE).fetchone()[0])


def _made_index(connection: sqlite3.Connection) -> bool:
    """Create the index of threads, and return whether that could be done; without it lists are slow."""
    try:
        connection.executescript(CREATE)
    except sqlite3.DatabaseError:  # it may be damaged: a reader of a thread there gets an error
        connection.rollback()
        return False
    return True


def sqlite_saver(path: str | PathLike[str], *, allow: Iterable[type | str] = ()) -> _SqliteSaver:
    """Open LangGraph's `SqliteSaver` with WAL, `synchronous=NORMAL` and a busy timeout of 30 s.

    Finished writes survive a crash of the process; a loss of power may take the last steps.

    An untrusted file cannot execute code. It yields plain data, messages, and LangGraph's safe types,
    such as dates; further the types that `allow` names, and those that the tree and the `values=` of a
    runner or a compiled graph on this saver name, with the types of their fields. Anything else is
    rejected: when it is written, and as a `SaverError` when it is read.

    ```
    with sqlite_saver("runs.db") as saver:
        runner = Runner(report, checkpointer=saver)
    ```

    Args:
        path: The database file, made if it is not there; `:memory:` for none.
        allow: Your own types whose objects are read too: classes, or "module:Name".

    Returns:
        The saver, ready to use; the end of a `with` block closes it.

    Raises:
        SaverError: The file cannot be opened, or is not a SQLite file.
        AgentGraphError: `allow` names no type.
    """
    return _opened(_SqliteSaver, path, allow)


def file_saver(path: str | PathLike[str], allow: Iterable[type | str] = ()) -> FileSaver:
    """Open a saver for a `Runner`, as `sqlite_saver` does, for sync and async calls."""
    return _opened(FileSaver, path, allow)


class ReadingSaver(FileSaver):
    """A saver for a file that may not be written to: it has its tables, or none are read."""

    is_read_only = True

    def setup(self) -> None:
        """Create no tables."""
        self.is_setup = True
        self.has_index = _has_index(self.conn)


def reading_saver(path: str | PathLike[str], allow: Iterable[type | str] = ()) -> ReadingSaver:
    """Open a file that may not be written to, for a `Runner` that only reads.

    A process that writes to it meanwhile is noticed only where SQLite may use the files next to it.

    Raises:
        SaverError: It cannot be read, or is not a SQLite file.
    """
    name = _named(path)
    url = f"{Path(os.path.realpath(name)).as_uri()}?mode=ro"
    fault: sqlite3.Error | None = None
    for option in ("", "&immutable=1"):  # the latter if the files next to it cannot be made
        try:
            connection = _connected_to_read(url + option)
        except sqlite3.Error as error:
            fault = error
            continue
        saver = ReadingSaver(connection, serde=StrictSerializer(allowed_types(allow)))
        saver.path = _file(name)
        saver.thread_locks = FileLocks(saver.path) if saver.path else None
        return saver
    assert fault is not None
    raise _unopened(name, fault) from fault


def _connected_to_read(url: str) -> _Connection:
    connection = sqlite3.connect(
        url, timeout=_BUSY_SECONDS, check_same_thread=False, uri=True, factory=_Connection
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


S = TypeVar("S", bound=_SqliteSaver)


def _opened(kind: type[S], path: str | PathLike[str], allow: Iterable[type | str]) -> S:
    name, serializer, connection = _named(path), StrictSerializer(allowed_types(allow)), None
    try:
        connection = _connected(name)
        connection.executescript(_PRAGMAS)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise _unopened(name, error) from error
    saver = kind(connection, serde=serializer)
    saver.path = _file(name)
    saver.thread_locks = FileLocks(saver.path) if saver.path else None
    _open.add(saver)
    return saver


def _connected(name: str) -> sqlite3.Connection:
    return sqlite3.connect(name, timeout=_BUSY_SECONDS, check_same_thread=False, factory=_Connection)


_open: "WeakSet[_SqliteSaver]" = WeakSet()
"""The savers of this process."""


_held: list[_SqliteSaver] = []
"""The savers that no thread uses while this process forks: SQLite's own locks would stay taken."""


def _before_fork() -> None:
    _held[:] = [saver for saver in [*_open] if saver.lock.acquire(timeout=_FORK_SECONDS)]


def _after_fork() -> None:
    while _held:
        _held.pop().lock.release()


def _reopen_all() -> None:
    _held.clear()
    for saver in [*_open]:
        saver.reopen()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_reopen_all)


def async_sqlite_saver(
    path: str | PathLike[str], *, allow: Iterable[type | str] = ()
) -> _AsyncSqliteSaver:
    """Open LangGraph's `AsyncSqliteSaver` as `sqlite_saver` does; call it inside an event loop.

    ```
    async with async_sqlite_saver("runs.db") as saver:
        runner = Runner(report, checkpointer=saver)
    ```

    Args:
        path: The database file, made if it is not there; `:memory:` for none.
        allow: Your own types whose objects are read too, as in `sqlite_saver`.

    Returns:
        The saver, to be awaited or used with `async with`, which also closes it. That, or its first
        use, opens the file, and raises a `SaverError` where it cannot be opened.

    Raises:
        AgentGraphError: `allow` names no type.
    """
    name, serializer = _named(path), StrictSerializer(allowed_types(allow))
    connection = aiosqlite.connect(name, timeout=_BUSY_SECONDS, factory=_Connection)
    saver = _AsyncSqliteSaver(connection, serde=serializer)
    saver.named, saver.path = name, _file(name)
    saver.thread_locks = FileLocks(saver.path) if saver.path else None
    return saver


def _check_opens(path: str) -> None:
    """Open a file and close it, to raise early: aiosqlite leaks a thread if it cannot open a file.

    A new one gets its form, which has to be known before LangGraph creates tables.
    """
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
        connection.executescript(_PRAGMAS)


def _unopened(path: str, error: Exception) -> SaverError:
    why = "it is a directory" if os.path.isdir(path) else reason(error)
    return SaverError(
        f"{path} cannot be opened as a SQLite file: {why}; {advice_for(error)}", path=_file(path)
    )


def _named(path: str | PathLike[str]) -> str:
    if not (name := os.fspath(path)):
        raise SaverError(
            "the path of a SQLite file is empty, and what it would store lost; name a file, such as "
            "'runs.db', or ':memory:' for none"
        )
    return name


def _file(path: str) -> str | None:
    return None if path == ":memory:" else os.path.realpath(path)

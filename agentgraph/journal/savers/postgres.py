"""LangGraph's PostgreSQL saver on a pool of connections: for sync and async calls, read strictly."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from typing import Any, Self, cast
from weakref import WeakSet

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import DictRow, dict_row
from psycopg.sql import Composed
from psycopg_pool import ConnectionPool, PoolTimeout

from agentgraph.graph.named_types import allowed_types
from agentgraph.graph.strict_serializer import StrictSerializer
from agentgraph.journal.forked import OfProcess
from agentgraph.journal.savers.postgres_database import (
    UNANSWERED_SECONDS,
    Connection,
    Database,
    check_connection,
    check_sessions,
)
from agentgraph.journal.savers.postgres_index import create_index, has_index, known_of, page_of
from agentgraph.journal.savers.postgres_locks import AdvisoryLocks
from agentgraph.journal.savers.thread_index import Begun, Listed, ThreadQuery
from agentgraph.journal.savers.threaded import AsyncInThreads

_IDLE_SECONDS = 5.0
"""After how long a connection that was not needed is closed; one stays."""
_SETUP_LOCK = 0x6167_6772_6170_6800
"""The advisory lock of who creates the tables."""
_SETUP_PAUSE = 0.05
_LATEST = len(PostgresSaver.MIGRATIONS) - 1
_VERSION = "SELECT max(v) FROM checkpoint_migrations"
_SCHEMA = """
SELECT nspname FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid
WHERE pg_class.oid = 'checkpoints'::regclass
"""


class _Pool(ConnectionPool[psycopg.Connection[DictRow]]):
    """A pool that never returns a connection which is known to be lost, and says why it has none."""

    def __init__(self, database: Database, most_connections: int, *, opens_late: bool = False) -> None:
        """Make it; it is opened by its first connection, or before."""
        self._database, self.opens_late = database, opens_late
        kwargs = {
            **database.parameters,
            "autocommit": True,
            "prepare_threshold": 0,
            "row_factory": dict_row,
        }
        super().__init__(
            kwargs=kwargs,
            min_size=1,
            max_size=most_connections,
            max_idle=_IDLE_SECONDS,
            open=False,
            timeout=UNANSWERED_SECONDS,
            name=database.name,
        )

    def getconn(self, timeout: float | None = None) -> psycopg.Connection[DictRow]:
        """Return a connection; see `ConnectionPool`."""
        while True:
            try:
                if self.opens_late:
                    self.open()
                    self.opens_late = False
                connection = super().getconn(timeout)
            except PoolTimeout:
                self._database.connect().close()
                raise
            try:
                check_connection(connection)
            except psycopg.Error:
                self.putconn(connection)
            except BaseException:
                self.putconn(connection)
                raise
            else:
                return connection


class DatabaseSaver(AsyncInThreads, PostgresSaver):
    """A `PostgresSaver` that serves async calls too, and saves nothing for runs that lost their lock.

    Attributes:
        database: The URL of the database, without a password.
        thread_locks: The locks of its threads.
        has_index: Whether it has an index of threads that may be read.
    """

    def __init__(
        self,
        database: Database,
        schema: str,
        serializer: StrictSerializer,
        *,
        has_index: bool,
        max_connections: int,
    ) -> None:
        self._most = max_connections - 1  # one is that of the locks
        self._pool = _Pool(database, self._most)
        super().__init__(self._pool, serde=serializer)
        self.lock = nullcontext()  # type: ignore[assignment]  # each call has its own connection
        self.database = database.name
        self._where, self._process = (database, schema), OfProcess()
        self.has_index = has_index
        self._begin()
        self._pool.open()
        _open.add(self)

    def _begin(self) -> None:
        self.conn = self._pool
        self.threads = ThreadPoolExecutor(self._most, "agentgraph-postgres")
        self.thread_locks = AdvisoryLocks(*self._where, self._pool)

    def reopen(self) -> None:
        """Take new connections in a process that was forked; the old ones are the other process's."""
        if self._pool.closed and not self._pool.opens_late:
            return
        self._process.keep((self._pool, self.threads, self.thread_locks))
        self._pool = _Pool(self._where[0], self._most, opens_late=True)
        self._begin()

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, as `PostgresSaver` does; meanwhile no connection is held."""
        yield from [*super().list(config, **options)]

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint, as `PostgresSaver` does, unless the lock is lost."""
        self.thread_locks.check(config["configurable"]["thread_id"])
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, object]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save writes, as `PostgresSaver` does, unless the lock is lost."""
        self.thread_locks.check(config["configurable"]["thread_id"])
        super().put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread, as `PostgresSaver` does, unless the lock is lost."""
        self.thread_locks.check(thread_id)
        super().delete_thread(thread_id)

    def list_threads(self, query: ThreadQuery, after: Begun | None, limit: int) -> Listed:
        """Return the threads after one, newest first; None without an index."""
        return self._listed(*page_of(self._where[1], query, after, limit))

    async def alist_threads(self, query: ThreadQuery, after: Begun | None, limit: int) -> Listed:
        """Return them on the event loop."""
        return await self._in_thread(self.list_threads, query, after, limit)

    def find_threads(self, ids: Sequence[str]) -> Listed:
        """Return those of some threads that are stored; None without an index."""
        return self._listed(*known_of(self._where[1], ids))

    async def afind_threads(self, ids: Sequence[str]) -> Listed:
        """Return them on the event loop."""
        return await self._in_thread(self.find_threads, ids)

    def _listed(self, query: Composed, values: Sequence[object]) -> Listed:
        if not self.has_index:
            return None
        with self._pool.connection() as connection:
            rows = connection.execute(query, values)
            return [(row["thread_id"], row["began"]) for row in rows]

    def close(self) -> None:
        """Close all connections but those of active runs."""
        self._pool.opens_late = False
        self._pool.close()
        self.thread_locks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_open: "WeakSet[DatabaseSaver]" = WeakSet()
"""The savers of this process."""


def _reopen_all() -> None:
    for saver in [*_open]:
        saver.reopen()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reopen_all)


def opened(url: str, allow: Iterable[type | str], max_connections: int) -> DatabaseSaver:
    """Open a saver, as `postgres_saver` says.

    Raises:
        SaverError: The database cannot be opened, or its tables cannot be created.
        AgentGraphError: `allow` names no type.
    """
    serializer = StrictSerializer(allowed_types(allow))
    database = Database(url)
    with closing(database.connect()) as connection:
        with closing(database.connect()) as other:
            check_sessions(database, connection, other)
        try:
            _create_tables(connection)
            schema = _first(connection, _SCHEMA)
            is_indexed = _create_index(connection, schema)
        except psycopg.Error as error:
            raise database.error("cannot get the tables of the saver", error) from error
    return DatabaseSaver(
        database, schema, serializer, has_index=is_indexed, max_connections=max_connections
    )


def _create_tables(connection: Connection) -> None:
    """Create the tables, or bring them up to date, one process at a time.

    A caller that waits for its turn must not wait inside a statement: the indexes are created
    concurrently, and that waits until every statement has ended which began before.
    """
    while _version(connection) < _LATEST:
        if _first(connection, f"SELECT pg_try_advisory_lock({_SETUP_LOCK})"):
            PostgresSaver(cast(Any, connection)).setup()
            connection.execute(f"SELECT pg_advisory_unlock({_SETUP_LOCK})")
        else:
            time.sleep(_SETUP_PAUSE)


def _create_index(connection: Connection, schema: str) -> bool:
    while not has_index(connection, schema):
        if _first(connection, f"SELECT pg_try_advisory_lock({_SETUP_LOCK})"):
            try:
                return has_index(connection, schema) or create_index(connection, schema)
            finally:
                connection.execute(f"SELECT pg_advisory_unlock({_SETUP_LOCK})")
        time.sleep(_SETUP_PAUSE)
    return True


def _version(connection: Connection) -> int:
    """Return the version of the tables; -1 if there are none."""
    if _first(connection, "SELECT to_regclass('checkpoint_migrations')") is None:
        return -1
    version = _first(connection, _VERSION)
    return -1 if version is None else int(version)


def _first(connection: Connection, query: str) -> Any:
    row = connection.execute(cast(Any, query)).fetchone()
    return row and row[0]

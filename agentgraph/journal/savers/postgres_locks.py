"""The locks of threads in a PostgreSQL database: advisory locks, each on a separate connection.

The problem: a run must not continue if another one may have begun on its thread, on whatever machine.
An advisory lock of a session lasts as long as its connection: the server frees it when the connection
ends. That may be before its run ends: a restart, `pg_terminate_backend`, a network that is cut.

The rules:

- Each run has a separate connection, which nothing else uses. So a failure of one run's connection is
  that of no other run.
- Each save first looks whether that connection is whole: the operating system knows that without asking
  the server. At most every `VERIFIED_SECONDS` it asks the server too, whether this session holds the
  lock. If it does not, the save is rejected, and the run ends: earlier saves are preserved.
- If the client is silent (its network is cut, its machine is off), the server frees the lock after
  `FREED_SECONDS`. A save reaches the server sooner than that after it has confirmed the lock: at most
  `VERIFIED_SECONDS` pass until the look, `UNANSWERED_SECONDS` until the saver has a connection, and
  as many on the way. So the saves of two runs do not mix.

Cases that are not covered: a process that is halted (SIGSTOP, a machine that sleeps) for that long,
exactly between that look and its save, may save once after its lock is gone. A pooler between here and
the server must keep a session on one connection to the server: PgBouncer in its transaction mode does
not.
"""

import hashlib
import threading
import time
from collections import deque
from collections.abc import Hashable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from weakref import WeakValueDictionary

import psycopg
from psycopg.rows import DictRow
from psycopg_pool import ConnectionPool

from agentgraph.errors import SaverError
from agentgraph.journal.savers.postgres_database import (
    UNANSWERED_SECONDS,
    Connection,
    Database,
    check_connection,
)

VERIFIED_SECONDS = 5.0
"""How long a run takes its lock for held since the server has confirmed it."""
FREED_SECONDS = 30
"""After how long of silence the server frees a lock."""
assert VERIFIED_SECONDS + 2 * UNANSWERED_SECONDS < FREED_SECONDS

_NOTICED = 6, 0.05
"""Number of times that a lock is tried, and the seconds between: a server notices late that a process
was killed."""
_AT_ONCE = 8
"""How many locks async code takes or releases at a time."""
_IDLE = 4
"""The most connections that are kept for later locks."""
_SERVERS_SIDE = {"tcp_keepalives_idle": 10, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 4}
_NO_IDLE_TIMEOUT = {"idle_session_timeout": 0}
_SINCE_14 = 140000

Pool = ConnectionPool[psycopg.Connection[DictRow]]

_IS_HELD = """
SELECT EXISTS (SELECT 1 FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid::bigint = %s AND objid::bigint = %s{})
"""
_BY_ANYBODY, _BY_THIS = _IS_HELD.format(""), _IS_HELD.format(" AND pid = pg_backend_pid()")


class AdvisoryLocks:
    """The locks of the threads in a database.

    Attributes:
        key: The identity of the database and of the schema of its tables.
        executor: Where async code makes the calls.
    """

    def __init__(self, database: Database, schema: str, pool: Pool) -> None:
        """Make them; nothing is connected yet.

        Args:
            database: The database.
            schema: The schema in which LangGraph's tables are.
            pool: The connections of the saver, by which other processes' locks are seen.
        """
        at = (database.parameters.get(name, "") for name in ("host", "hostaddr", "port", "dbname"))
        self.key: Hashable = (*at, schema)
        self.executor: Executor = ThreadPoolExecutor(_AT_ONCE, "agentgraph-locks")
        self._database, self._schema, self._pool = database, schema, pool
        self._idle: deque[Connection] = deque()
        self._held: WeakValueDictionary[str, AdvisoryLock] = WeakValueDictionary()
        self._is_closed = False

    def lock(self, thread_id: str) -> "AdvisoryLock":
        """Return the lock of a thread, which is not taken yet."""
        return AdvisoryLock(self, thread_id)

    def is_taken(self, thread_id: str) -> bool:
        """Return whether a run has taken the lock of a thread.

        Raises:
            SaverError: The database cannot be asked.
        """
        try:
            with self._pool.connection() as connection, connection.cursor() as cursor:
                found = cursor.execute(_BY_ANYBODY, _halves(self.number(thread_id))).fetchone()
        except psycopg.Error as error:
            raise self.error(thread_id, "cannot be asked for locks", error) from error
        return bool(found and found["exists"])

    def check(self, thread_id: str) -> None:
        """Refuse to save if a run here has taken the lock of a thread, and lost it.

        Raises:
            SaverError: It is lost.
        """
        if (lock := self._held.get(thread_id)) is not None:
            lock.check()

    def number(self, thread_id: str) -> int:
        """Return the number of a thread's lock: 64 bits that other users of locks will not meet."""
        named = "\0".join(("agentgraph", self._schema, thread_id))
        return int.from_bytes(hashlib.sha256(named.encode()).digest()[:8], "big", signed=True)

    def error(self, thread_id: str, what: str, error: psycopg.Error) -> SaverError:
        """Return the error of the database for one of psycopg."""
        return self._database.error(what, error, thread_id)

    def lost(self, thread_id: str, error: psycopg.Error) -> SaverError:
        """Return the error for a run that has lost its lock."""
        return SaverError(
            f"thread {thread_id!r}: {self._database.name} does not hold the lock of this run any more: "
            f"{self._database.reason(error)}; so that no two runs write to the thread, this one has "
            "ended; resume the thread: what was saved before is kept",
            thread_id=thread_id,
        )

    def note(self, lock: "AdvisoryLock") -> None:
        """Note that a run here has taken a lock."""
        self._held[lock.thread_id] = lock

    def forget(self, lock: "AdvisoryLock") -> None:
        """Note that a run here releases its lock."""
        if self._held.get(lock.thread_id) is lock:
            self._held.pop(lock.thread_id, None)

    def borrow(self) -> tuple[Connection, bool]:
        """Return a connection for one lock, and whether it is new.

        Raises:
            SaverError: There is none to be had.
        """
        with suppress(IndexError):
            return self._idle.pop(), False
        connection = self._database.connect()
        try:
            settings = _SERVERS_SIDE
            if connection.info.server_version >= _SINCE_14:
                settings = settings | _NO_IDLE_TIMEOUT
            calls = ", ".join("set_config(%s, %s, false)" for _ in settings)
            connection.execute(
                f"SELECT {calls}",
                [str(each) for pair in settings.items() for each in pair],
            )
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.Error):
                raise self._database.error("cannot be used for locks", error) from error
            raise
        return connection, True

    def recycle(self, connection: Connection) -> None:
        """Take back a connection that holds no lock."""
        if self._is_closed or len(self._idle) >= _IDLE:
            connection.close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        """Close the connections that no lock needs; the others close when their locks are released."""
        self._is_closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def __del__(self) -> None:
        self.close()


class AdvisoryLock:
    """The lock of a thread, held by a separate connection.

    Attributes:
        thread_id: The thread.
    """

    def __init__(self, locks: AdvisoryLocks, thread_id: str) -> None:
        self.thread_id = thread_id
        self._locks, self._number = locks, locks.number(thread_id)
        self._connection: Connection | None = None
        self._taking_out = threading.RLock()  # reentrant: a signal handler may release it
        self._checking = threading.Lock()
        self._verified = 0.0
        self._lost: psycopg.Error | None = None

    def take(self) -> bool:
        """Take it, and return whether it was free.

        Raises:
            SaverError: The database cannot be asked.
        """
        while True:
            connection, is_new = self._locks.borrow()
            try:
                if not self._tried(connection):
                    self._locks.recycle(connection)
                    return False
                self._verified = time.monotonic()
                self._locks.note(self)
                self._connection = connection  # not before: a release would recycle it in between
                return True
            except psycopg.Error as error:  # a connection that was idle may have been closed
                connection.close()
                if is_new:
                    what = "cannot be asked for the lock of the thread"
                    raise self._locks.error(self.thread_id, what, error) from error
            except BaseException:
                connection.close()
                raise

    def check(self) -> None:
        """Refuse to save if it is lost.

        Raises:
            SaverError: It is lost.
        """
        with self._checking:
            if (connection := self._connection) is None:
                return
            try:
                if self._lost is None:
                    self._verify(connection)
            except psycopg.Error as error:
                self._lost = error
            if self._lost is not None:
                raise self._locks.lost(self.thread_id, self._lost) from self._lost

    def release(self) -> None:
        """Release it, if it was taken; a second call does nothing."""
        if (connection := self._taken_out()) is None:
            return
        self._locks.forget(self)
        try:
            if self._lost is None:
                connection.execute("SELECT pg_advisory_unlock_all()")
                self._locks.recycle(connection)
                return
        except psycopg.Error as error:
            self._lost = error
        except BaseException:
            connection.close()
            raise
        connection.close()

    def drop(self) -> None:
        """Close the connection: the server releases the lock when it notices."""
        if (connection := self._taken_out()) is not None:
            connection.close()

    def _taken_out(self) -> Connection | None:
        with self._taking_out:
            connection, self._connection = self._connection, None
        return connection

    def _tried(self, connection: Connection) -> bool:
        times, pause = _NOTICED
        for attempt in range(times):
            if attempt:
                time.sleep(pause)
            found = connection.execute("SELECT pg_try_advisory_lock(%s::bigint)", (self._number,))
            if (row := found.fetchone()) is not None and row[0]:
                return True
        return False

    def _verify(self, connection: Connection) -> None:
        check_connection(connection)
        now = time.monotonic()
        if now - self._verified < VERIFIED_SECONDS:
            return
        row = connection.execute(_BY_THIS, _halves(self._number)).fetchone()
        if row is None or not row[0]:
            raise psycopg.OperationalError(
                "its session does not hold the lock any more; is there a pooler in its transaction "
                "mode before the server?"
            )
        self._verified = now


def _halves(number: int) -> tuple[int, int]:
    unsigned = number % 2**64
    return unsigned >> 32, unsigned % 2**32

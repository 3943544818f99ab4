"""The locks of threads in a PostgreSQL database: advisory locks, all on one connection of the process.

The problem: a run must not continue if another one may have begun on its thread, on whatever machine.
An advisory lock of a session lasts as long as its connection: the server frees it when the connection
ends. That may be before its run ends: a restart, `pg_terminate_backend`, a network that is cut.

The rules:

- A saver has one connection for the locks of all its runs, which nothing else uses: the number of
  connections does not grow with the number of runs.
- Each save first looks whether that connection is whole: the operating system knows that without asking
  the server. At most every `VERIFIED_SECONDS` it asks the server too, whether this session holds the
  locks. If it does not, the save is rejected, and the run ends, as all runs of this connection do:
  earlier saves are preserved. The next run has a new connection.
- If the client is silent (its network is cut, its machine is off), the server frees the locks after
  `FREED_SECONDS`. A save reaches the server sooner than that after it has confirmed the lock: at most
  `VERIFIED_SECONDS` pass until the look, `UNANSWERED_SECONDS` until the saver has a connection, and
  as many on the way. So the saves of two runs do not mix.

Cases that are not covered: a process that is halted (SIGSTOP, a machine that sleeps) for that long,
exactly between that look and its save, may save once after its lock is gone. A pooler between here and
the server must keep a session on one connection to the server: PgBouncer in its transaction mode does
not, and is rejected when the saver is opened.
"""

import hashlib
import threading
import time
from collections import Counter, deque
from collections.abc import Hashable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from weakref import WeakValueDictionary

import psycopg
from psycopg.pq import TransactionStatus
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
"""How long runs take their locks for held since the server has confirmed them."""
FREED_SECONDS = 30
"""After how long of silence the server frees a lock."""
assert VERIFIED_SECONDS + 2 * UNANSWERED_SECONDS < FREED_SECONDS

_NOTICED = 6, 0.05
"""Number of times that a lock is tried, and the seconds between: a server notices late that a process
was killed."""
_AT_ONCE = 8
"""How many locks async code takes or releases at a time."""
_SERVERS_SIDE = {"tcp_keepalives_idle": 10, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 4}
_NO_IDLE_TIMEOUT = {"idle_session_timeout": 0}
_SINCE_14 = 140000

Pool = ConnectionPool[psycopg.Connection[DictRow]]

_LOCKS = """
FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_IS_TAKEN = f"SELECT EXISTS (SELECT 1 {_LOCKS} AND classid::bigint = %s AND objid::bigint = %s)"
_HELD_HERE = f"SELECT classid::bigint, objid::bigint {_LOCKS} AND pid = pg_backend_pid()"


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
        self._session: LockSession | None = None
        self._opening = threading.RLock()  # reentrant: a signal handler may take a lock
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
                found = cursor.execute(_IS_TAKEN, _halves(self.number(thread_id))).fetchone()
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

    def session(self) -> "tuple[LockSession, bool]":
        """Return the session that holds the locks, and whether it is new.

        Raises:
            SaverError: A connection cannot be opened.
        """
        with self._opening:
            if self._session is not None and self._session.is_whole:
                return self._session, False
            self._session = LockSession(self._connected(), is_ending=self._is_closed)
            return self._session, True

    def _connected(self) -> Connection:
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
        return connection

    def close(self) -> None:
        """Close the connection, as soon as no run has a lock on it."""
        self._is_closed = True
        if (session := self._session) is not None:
            session.end()

    def __del__(self) -> None:
        self.close()


class LockSession:
    """The connection that holds the locks of a saver; one thread at a time uses it.

    A signal handler or the garbage collector may release a lock in the middle of such a use. Then the
    lock is released at the end of that use.
    """

    def __init__(self, connection: Connection, *, is_ending: bool) -> None:
        self._connection, self._is_ending = connection, is_ending
        self._turn, self._user = threading.Lock(), 0
        self._held = Counter[int]()  # one that was dropped may be taken again before it is released
        self._leaving = deque[int]()
        self._verified = time.monotonic()
        self._lost: psycopg.Error | None = None

    @property
    def is_whole(self) -> bool:
        """Whether locks can be taken on it."""
        return self._lost is None and not self._connection.closed and not self._is_ending

    def take(self, number: int) -> bool:
        """Take a lock, and return whether it was free.

        Raises:
            psycopg.Error: The server cannot be asked; then the session is lost.
        """
        with self._use():
            try:
                found = self._connection.execute("SELECT pg_try_advisory_lock(%s::bigint)", (number,))
                is_free = bool((row := found.fetchone()) and row[0])
            except psycopg.Error as error:
                self._lose(error)
                raise
            if is_free:
                self._held[number] += 1
            return is_free

    def check(self, number: int) -> psycopg.Error | None:
        """Return how a lock was lost; None if the session holds it."""
        if self._user != threading.get_ident():  # else a signal handler saves in the middle of a look
            with self._use():
                if self._lost is None:
                    try:
                        self._verify()
                    except psycopg.Error as error:
                        self._lose(error)
        return self._lost

    def release(self, number: int) -> None:
        """Release a lock."""
        self._leaving.append(number)
        while self._leaving and self._user != threading.get_ident():
            with self._use():
                pass

    def end(self) -> None:
        """Close the connection, as soon as it holds no lock."""
        self._is_ending = True
        if self._user != threading.get_ident():
            with self._use():
                pass

    @contextmanager
    def _use(self) -> Iterator[None]:
        with self._turn:
            self._user = threading.get_ident()
            try:
                yield
            finally:
                try:
                    self._let_go()
                finally:
                    self._user = 0

    def _let_go(self) -> None:
        """Release the locks that are to be released; a use that was cut off loses the session."""
        status = self._connection.info.transaction_status
        if self._lost is None and status is not TransactionStatus.IDLE:
            self._lose(psycopg.OperationalError("a statement was cut off by an exception"))
        with suppress(IndexError):
            while True:
                number = self._leaving.popleft()
                self._held -= Counter([number])
                if self._lost is None:
                    try:
                        self._connection.execute("SELECT pg_advisory_unlock(%s::bigint)", (number,))
                    except psycopg.Error as error:
                        self._lose(error)
        if self._is_ending and not self._held:
            self._connection.close()

    def _lose(self, error: psycopg.Error) -> None:
        """Give the session up: the server frees its locks, and each run on it ends at its next save."""
        self._lost = error
        self._connection.close()

    def _verify(self) -> None:
        check_connection(self._connection)
        now = time.monotonic()
        if now - self._verified < VERIFIED_SECONDS:
            return
        there = {_number(*row) for row in self._connection.execute(_HELD_HERE).fetchall()}
        if not self._held.keys() <= there:
            raise psycopg.OperationalError(
                "its session does not hold the lock any more; is there a pooler in its transaction "
                "mode before the server?"
            )
        self._verified = now


class AdvisoryLock:
    """The lock of a thread, held by the session of its saver.

    Attributes:
        thread_id: The thread.
    """

    def __init__(self, locks: AdvisoryLocks, thread_id: str) -> None:
        self.thread_id = thread_id
        self._locks, self._number = locks, locks.number(thread_id)
        self._session: LockSession | None = None
        self._taking_out = threading.RLock()  # reentrant: a signal handler may release it

    def take(self) -> bool:
        """Take it, and return whether it was free.

        Raises:
            SaverError: The database cannot be asked.
        """
        times, pause = _NOTICED
        for attempt in range(times):
            if attempt:
                time.sleep(pause)
            if self._tried():
                return True
        return False

    def check(self) -> None:
        """Refuse to save if it is lost.

        Raises:
            SaverError: It is lost.
        """
        if (session := self._session) is not None and (error := session.check(self._number)):
            raise self._locks.lost(self.thread_id, error) from error

    def release(self) -> None:
        """Release it, if it was taken; a second call does nothing."""
        if (session := self._taken_out()) is not None:
            self._locks.forget(self)
            session.release(self._number)

    def drop(self) -> None:
        """Release it in another thread: the garbage collector must not wait for the server."""
        if (session := self._taken_out()) is not None:
            self._locks.forget(self)
            threading.Thread(target=session.release, args=[self._number], daemon=True).start()

    def _tried(self) -> bool:
        while True:
            session, is_new = self._locks.session()
            try:
                if not session.take(self._number):
                    return False
                self._locks.note(self)
                self._session = session
                return True
            except psycopg.Error as error:  # an idle connection may have been closed
                if is_new:
                    what = "cannot be asked for the lock of the thread"
                    raise self._locks.error(self.thread_id, what, error) from error
            except BaseException:
                session.release(self._number)
                raise

    def _taken_out(self) -> LockSession | None:
        with self._taking_out:
            session, self._session = self._session, None
        return session


def _halves(number: int) -> tuple[int, int]:
    unsigned = number % 2**64
    return unsigned >> 32, unsigned % 2**32


def _number(high: int, low: int) -> int:
    unsigned = (high << 32) | low
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned

"""The locks of threads: one run at a time, in this process and on a database for all processes.

LangGraph has no locks: of several concurrent runs on one thread all succeed, and the last one
overwrites the others. In a process a table holds the locks. A saver whose database processes share has
`thread_locks`: bytes of a file next to SQLite's (`file_locks.py`), advisory locks of PostgreSQL
(`postgres_locks.py`). A lock ends with its process, in whatever way that ends.
"""

import asyncio
import os
import threading
from collections.abc import Hashable, Iterable
from concurrent.futures import Executor, Future
from typing import Protocol
from weakref import WeakValueDictionary

from langgraph.runtime import RunControl

from agentgraph.errors import ThreadBusyError
from agentgraph.graph.outside import is_collecting, is_within
from agentgraph.graph.strict_serializer import ORIGINAL
from agentgraph.graph.sync_async import Call, Calls, T, running_loop
from agentgraph.journal.thread_config import checked_id
from agentgraph.safe_repr import shown

_guard = threading.RLock()  # reentrant: the garbage collector may close a run in any thread
_locks: "WeakValueDictionary[tuple[Hashable, str], ThreadLock]" = WeakValueDictionary()
"""The locks, by the database (or the saver's `id` if it has none) and the thread's id."""


def _forget() -> None:
    """Have no locks in a process that was forked from that of the runs; shared locks stay taken."""
    global _guard
    _guard = threading.RLock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class SharedLock(Protocol):
    """The lock of a thread of a database, for all processes that use it; it is not taken yet."""

    def take(self) -> bool:
        """Take it, and return whether it was free."""

    def release(self) -> None:
        """Release it, if it was taken; a second call does nothing."""

    def drop(self) -> None:
        """Release it without waiting for the database, which may take a short time to notice."""


class SharedLocks(Protocol):
    """The locks of the threads of a database, for all processes: `thread_locks` of a saver.

    Every method may raise a `SaverError`.
    """

    @property
    def key(self) -> Hashable:
        """The identity of the database: savers with equal keys share their threads."""

    @property
    def executor(self) -> Executor | None:
        """Where async code makes the calls, which wait for a server; None if they wait for nothing."""

    def lock(self, thread_id: str) -> SharedLock:
        """Return the lock of a thread."""

    def is_taken(self, thread_id: str) -> bool:
        """Return whether a run of another process has taken the lock of a thread, without taking it."""


class ThreadLock:
    """A lock of a thread of a saver; one run or call takes it, and it is not locked yet.

    An exception may come between any two steps of Python: that of a signal handler. So make the lock,
    and acquire it where an exception releases it. A lock to which nothing refers any more is released.

    Attributes:
        holder: For what the thread is locked: a run; None for another call.
        released: Done when the thread is unlocked.
        closing: The control of the run that has locked the thread, once it was closed and is ending.
        loop: The event loop on which that run ends; None if it needs none.
    """

    _is_held = False

    def __init__(self, saver: object, thread_id: str, holder: object = None, advice: str = "") -> None:
        """Make it.

        Args:
            saver: The saver.
            thread_id: The thread.
            holder: The holder of the lock: an active run, or nothing that can be reached.
            advice: Advice for a caller who finds it locked by another run.
        """
        self._advice = advice
        self.holder = holder
        self.released: Future[None] = Future()
        self.released.set_running_or_notify_cancel()  # no longer cancelled with one who waits for it
        self.closing: RunControl | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = checked_id(thread_id)
        shared = _shared(saver)
        self._shared = None if shared is None else shared.lock(thread_id)
        self._executor = None if shared is None else shared.executor
        self._key = key_of(saver), thread_id

    def acquire(self) -> None:
        """Lock the thread; wait for a run on it that was closed and is still ending.

        Raises:
            ThreadBusyError: Another run has locked it.
            SaverError: The lock file cannot be opened, or the database not be reached.
        """
        while (released := self._enter()) is not None:
            released.result()
        self._take()

    async def aacquire(self) -> None:
        """Lock the thread as `acquire` does, without blocking the event loop."""
        while (released := self._enter(waits_on_loop=True)) is not None:
            await asyncio.wrap_future(released)
        if self._executor is None:
            self._take()
        else:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._take)

    def release(self) -> None:
        """Unlock the thread; a second call does nothing."""
        if self._shared is not None and self._executor is not None and self._owns():
            self._shared.release()
        with _guard:
            if self._owns():
                if self._shared is not None:
                    self._shared.release()
                _locks.pop(self._key, None)
            self._is_held = False
            if not self.released.done():
                self.released.set_result(None)

    async def arelease(self) -> None:
        """Unlock the thread as `release` does, without blocking the event loop."""
        if self._executor is None:
            self.release()
        else:
            await asyncio.get_running_loop().run_in_executor(self._executor, self.release)

    def __del__(self) -> None:
        if self._is_held:
            if self._shared is not None and is_collecting():
                self._shared.drop()
            self.release()

    def _owns(self) -> bool:
        return self._is_held and _locks.get(self._key, self) is self

    def _enter(self, *, waits_on_loop: bool = False) -> Future[None] | None:
        """Lock it for this process, or return the future that is done when a closing run has ended."""
        with _guard:
            other = _locks.get(self._key)
            if other is None:
                self._is_held = True
                _locks[self._key] = self
                return None
            if other._is_ending(waits_on_loop=waits_on_loop):
                return other.released
        raise self._busy()

    def _take(self) -> None:
        if self._shared is None:
            return
        if not self._shared.take():
            self.release()
            raise self._busy()
        with _guard:
            if self._is_held:
                return
        self._shared.release()  # who waited for it was cancelled

    def _busy(self) -> ThreadBusyError:
        return ThreadBusyError(
            f"thread {shown(self._thread_id)} is busy: another run is active on it; {self._advice}"
            "wait for its end (an iterator that was left early ends when it is closed), or use another "
            "thread_id",
            self._thread_id,
        )

    def _is_ending(self, *, waits_on_loop: bool) -> bool:
        """Return whether the caller may wait: it is ending, and needs nothing of the caller."""
        if self.closing is None or is_within(self.closing):
            return False
        return waits_on_loop or self.loop is None or self.loop is not running_loop()


async def holding(saver: object, ids: Iterable[str], act: Calls[T]) -> T:
    """Return the result of a coroutine that runs while locks of a saver are held.

    Args:
        saver: The saver.
        ids: The threads, or other names.
        act: The coroutine.

    Raises:
        ThreadBusyError: Another run or call holds one of them.
    """
    locks = [ThreadLock(saver, each) for each in ids]
    try:
        for lock in locks:
            await Call(lock.acquire, lock.aacquire)
        result = await act
        for lock in locks:
            await Call(lock.release, lock.arelease)
        return result
    finally:
        act.close()
        for lock in locks:
            lock.release()


def holder_of(saver: object, thread_id: str) -> object:
    """Return for what this process has locked a thread of a saver; None if it has not."""
    with _guard:
        lock = _locks.get((key_of(saver), checked_id(thread_id)))
        return lock.holder if lock else None


def holders_on(saver: object) -> dict[str, object]:
    """Return for what this process has locked the threads of a saver, by thread."""
    key = key_of(saver)
    with _guard:
        return {thread: lock.holder for (own, thread), lock in [*_locks.items()] if own == key}


def holders() -> list[object]:
    """Return for what this process has locked threads."""
    with _guard:
        return [lock.holder for lock in _locks.values() if lock.holder is not None]


def key_of(saver: object) -> Hashable:
    """Return the identity of a saver's database in this process; the saver's `id` if it has none."""
    shared = _shared(saver)
    return id(getattr(saver, ORIGINAL, saver)) if shared is None else shared.key


def is_locked(saver: object, thread_id: str) -> bool:
    """Return whether a run has locked a thread of a saver, also in another process.

    Raises:
        SaverError: The lock file cannot be opened, or the database not be reached.
    """
    shared = _shared(saver)
    with _guard:
        held = (key_of(saver), checked_id(thread_id)) in _locks
    return held or (shared is not None and shared.is_taken(thread_id))


async def ais_locked(saver: object, thread_id: str) -> bool:
    """Return the result of `is_locked`, without blocking the event loop."""
    shared = _shared(saver)
    if shared is None or shared.executor is None:
        return is_locked(saver, thread_id)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(shared.executor, is_locked, saver, thread_id)


def has_shared_locks(saver: object) -> bool:
    """Return whether the locks of a saver are those of all processes that use its database."""
    return _shared(saver) is not None


def _shared(saver: object) -> SharedLocks | None:
    return getattr(saver, "thread_locks", None)

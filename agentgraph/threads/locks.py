"""The locks of threads: one run at a time, in this process and on a SQLite file for all processes.

LangGraph has no locks: of several concurrent runs on one thread all succeed, and the last one
overwrites the others. Processes that share a SQLite file lock threads in a lock file next to it. The
operating system releases a lock when its process ends, in whatever way.
"""

import asyncio
import hashlib
import os
import struct
import sys
import threading
from concurrent.futures import Future
from weakref import WeakValueDictionary

from langgraph.runtime import RunControl

from agentgraph.errors import SaverError, ThreadBusyError
from agentgraph.safe_repr import shown
from agentgraph.threads.config import checked_id, is_within

_guard = threading.RLock()  # reentrant: the garbage collector may close a run in any thread
_locks: "WeakValueDictionary[tuple[str | int, str], ThreadLock]" = WeakValueDictionary()
"""The locks, by the saver's file (or its `id` if it has none) and the thread's id."""
_lock_files: dict[str, int] = {}  # never closed: closing one would end all locks on it


class ThreadLock:
    """A lock of a thread of a saver, for one run or call; it is not locked yet.

    An exception may come between any two steps of Python: that of a signal handler. So make the lock,
    and acquire it where an exception releases it. A lock to which nothing refers any more is released.

    Attributes:
        holder: For what the thread is locked: a run; None for another call.
        released: Done when the thread is unlocked.
        closing: The control of the run that has locked the thread, once it was closed and is ending.
        loop: The event loop on which that run ends; None if it needs none.
    """

    _is_held = False

    def __init__(self, saver: object, thread_id: str, holder: object = None) -> None:
        """Make it.

        Args:
            saver: The saver.
            thread_id: The thread.
            holder: For what it is locked: a run that is under way, or nothing that can be reached.
        """
        self.holder = holder
        self.released: Future[None] = Future()
        self.released.set_running_or_notify_cancel()  # no longer cancelled with one who waits for it
        self.closing: RunControl | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        path: str | None = getattr(saver, "path", None)
        self._path, self._thread_id = path, checked_id(thread_id)
        self._key = path or id(saver), thread_id

    def acquire(self) -> None:
        """Lock the thread; wait for a run on it that was closed and is still ending.

        Raises:
            ThreadBusyError: Another run has locked it.
            SaverError: The lock file cannot be opened.
        """
        while (released := self._take()) is not None:
            released.result()

    async def aacquire(self) -> None:
        """Lock the thread as `acquire` does, without blocking the event loop."""
        while (released := self._take(waits_on_loop=True)) is not None:
            await asyncio.wrap_future(released)

    def release(self) -> None:
        """Unlock the thread; a second call does nothing."""
        with _guard:
            if self._is_held and _locks.get(self._key, self) is self:
                if self._path in _lock_files:
                    _unlock_byte(_lock_files[self._path], _offset(self._thread_id))
                _locks.pop(self._key, None)
            self._is_held = False
            if not self.released.done():
                self.released.set_result(None)

    def __del__(self) -> None:
        if self._is_held:
            self.release()

    def _take(self, *, waits_on_loop: bool = False) -> Future[None] | None:
        """Lock the thread, or return the future that is done when a run that is closing has ended."""
        with _guard:
            other = _locks.get(self._key)
            if other is None:
                self._is_held = True
                _locks[self._key] = self
                if not self._path or _lock_in_file(self._path, self._thread_id):
                    return None
                self.release()
            elif other._is_ending(waits_on_loop=waits_on_loop):
                return other.released
        raise ThreadBusyError(
            f"thread {shown(self._thread_id)} is busy: another run is under way on it; wait for its "
            "end (an iterator that was left early ends when it is closed), or use another thread_id",
            self._thread_id,
        )

    def _is_ending(self, *, waits_on_loop: bool) -> bool:
        """Return whether the caller may wait: it is ending, and needs nothing of the caller."""
        if self.closing is None or is_within(self.closing):
            return False
        return waits_on_loop or self.loop is None or self.loop is not _running_loop()


def holder_of(saver: object, thread_id: str) -> object:
    """Return for what this process has locked a thread of a saver; None if it has not."""
    path: str | None = getattr(saver, "path", None)
    with _guard:
        lock = _locks.get((path or id(saver), checked_id(thread_id)))
        return lock.holder if lock else None


def holders() -> list[object]:
    """Return for what this process has locked threads."""
    with _guard:
        return [lock.holder for lock in _locks.values() if lock.holder is not None]


def is_locked(saver: object, thread_id: str) -> bool:
    """Return whether a run has locked a thread of a saver, also in another process of its file."""
    path: str | None = getattr(saver, "path", None)
    with _guard:
        held = (path or id(saver), checked_id(thread_id)) in _locks
    if held or path is None or not os.path.exists(f"{path}-lock"):
        return held
    return _is_locked(_lock_file(path), _offset(thread_id))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _lock_in_file(path: str, thread_id: str) -> bool:
    """Lock a thread of a SQLite file for this process, and return whether it was free.

    Raises:
        SaverError: The lock file cannot be opened.
    """
    file = _lock_file(path)
    try:
        _lock_byte(file, _offset(thread_id))
    except OSError:
        return False
    return True


def _lock_file(path: str) -> int:
    """Return the open lock file of a SQLite file.

    Raises:
        SaverError: It cannot be opened.
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
    return _lock_files[path]


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


if sys.platform == "linux":

    def _is_locked(file: int, at: int) -> bool:
        asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0)
        kind: int = struct.unpack_from("h", fcntl.fcntl(file, fcntl.F_GETLK, asked))[0]
        return kind != fcntl.F_UNLCK

else:

    def _is_locked(file: int, at: int) -> bool:
        try:
            _lock_byte(file, at)
        except OSError:
            return True
        _unlock_byte(file, at)
        return False

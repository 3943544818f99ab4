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
from typing import Any, Self

from agentgraph.errors import SaverError, ThreadBusyError
from agentgraph.safe_repr import shown
from agentgraph.threads.checks import checked_id

_guard = threading.RLock()  # reentrant: the garbage collector may close a run in any thread
_locks: "dict[tuple[str | int, str], ThreadLock]" = {}
"""The locks, by the saver's file (or its `id` if it has none) and the thread's id."""
_lock_files: dict[str, int] = {}  # never closed: closing one would end all locks on it


class ThreadLock:
    """The lock of one run on a thread of a saver.

    Attributes:
        released: Done when the thread is unlocked.
        closing: The event loop on which the run is ending after it was closed; None before that.
    """

    def __init__(self, key: tuple[str | int, str]) -> None:
        self._key = key
        self.released: Future[None] = Future()
        self.closing: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Unlock the thread; a second call does nothing."""
        with _guard:
            if not self.released.done():
                del _locks[self._key]
                path, thread_id = self._key
                if isinstance(path, str):
                    _unlock_in_file(path, thread_id)
                self.released.set_result(None)


def lock_thread(saver: Any, thread_id: str) -> ThreadLock:
    """Lock a thread of a saver; wait for a run on it that was closed and is still ending.

    Raises:
        ThreadBusyError: Another run has locked it.
    """
    while isinstance(taken := _acquire(saver, thread_id), Future):
        taken.result()
    return taken


async def alock_thread(saver: Any, thread_id: str) -> ThreadLock:
    """Lock a thread as `lock_thread` does, without blocking the event loop."""
    while isinstance(taken := _acquire(saver, thread_id, waits_on_loop=True), Future):
        await asyncio.wrap_future(taken)
    return taken


def _acquire(saver: Any, thread_id: str, *, waits_on_loop: bool = False) -> ThreadLock | Future[None]:
    """Return the lock, or the future that is done when a run that is closing has ended."""
    path: str | None = getattr(saver, "path", None)
    key = (path or id(saver), checked_id(thread_id))
    with _guard:
        if (other := _locks.get(key)) is not None:
            if other.closing is not None and (waits_on_loop or other.closing is not _running_loop()):
                return other.released
        elif not path or _lock_in_file(path, thread_id):
            _locks[key] = ThreadLock(key)
            return _locks[key]
    raise ThreadBusyError(
        f"thread {shown(thread_id)} is busy: another run is under way on it; wait for its end (an "
        "iterator that was left early ends when it is closed), or use another thread_id",
        thread_id,
    )


def is_locked(saver: Any, thread_id: str) -> bool:
    """Return whether a run has locked a thread of a saver."""
    path: str | None = getattr(saver, "path", None)
    with _guard:
        held = (path or id(saver), checked_id(thread_id)) in _locks
    return held or (path is not None and _is_locked_in_file(path, thread_id))


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


def _unlock_in_file(path: str, thread_id: str) -> None:
    """Unlock a thread of a SQLite file."""
    _unlock_byte(_lock_files[path], _offset(thread_id))


def _is_locked_in_file(path: str, thread_id: str) -> bool:
    """Return whether another process has locked a thread of a SQLite file."""
    return os.path.exists(f"{path}-lock") and _is_locked(_lock_file(path), _offset(thread_id))


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

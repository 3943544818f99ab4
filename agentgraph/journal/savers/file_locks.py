"""The locks of threads in a SQLite file: each a byte of the lock file next to it.

The operating system releases a lock when its process ends, in whatever way.
"""

import hashlib
import os
import struct
import sys
import threading
from weakref import finalize

from agentgraph.errors import SaverError

_guard = threading.RLock()  # reentrant: the garbage collector may close a file in any thread


def _renew() -> None:
    """Have another lock in a forked process: a thread that is not there may have taken this one."""
    global _guard
    _guard = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)

_BY_EFFECTIVE_IDS = os.access in os.supports_effective_ids


class FileLocks:
    """The locks of the threads in a SQLite file.

    Attributes:
        key: The file, by which all savers of this process know that they share it.
        executor: None: no call waits.
    """

    executor = None

    def __init__(self, path: str) -> None:
        self.key = path
        self._use = Use(path)

    def lock(self, thread_id: str) -> "ByteLock":
        """Return the lock of a thread, which is not taken yet."""
        return ByteLock(self._use, _offset(thread_id))

    def is_taken(self, thread_id: str) -> bool:
        """Return whether another process has taken the lock of a thread.

        Raises:
            SaverError: The lock file cannot be opened.
        """
        if not os.path.exists(f"{self.key}-lock"):
            return False
        return _is_locked(self._use.file.opened(only_reads=True), _offset(thread_id))

    def has_taken_any(self) -> bool:
        """Return whether another process has taken the lock of any thread.

        This process may have none: without a way to ask, the locks are taken, and released again.

        Raises:
            SaverError: The lock file cannot be opened.
        """
        if not os.path.exists(f"{self.key}-lock"):
            return False
        return _is_locked(self._use.file.opened(only_reads=True), 0, 0)


class ByteLock:
    """A byte of a lock file; within a process it does not exclude anybody."""

    def __init__(self, use: "Use", at: int) -> None:
        self._use, self._at = use, at

    def take(self) -> bool:
        """Lock it for this process, and return whether it was free.

        Raises:
            SaverError: The lock file cannot be opened.
        """
        file = self._use.file.opened()
        try:
            _lock_byte(file, self._at)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Unlock it, if this process has locked it, and the file is still open."""
        if (file := self._use.file.written) is not None:
            _unlock_byte(file, self._at)

    drop = release


class LockFile:
    """The lock file next to a SQLite file, for all savers and locks of this process.

    To close a file ends all locks of the process on it, by whichever descriptor they were taken. So it
    is open once, and closed when nothing uses it any more.

    Attributes:
        path: The SQLite file.
        users: One object for each `Use`.
        written: Its descriptor, to lock by; None if it is not open.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.users: set[object] = set()
        self.written: int | None = None
        self._read: int | None = None

    def opened(self, *, only_reads: bool = False) -> int:
        """Return the descriptor; open the file if it is not open.

        Args:
            only_reads: Whether a file that may not be written to will do.

        Raises:
            SaverError: It cannot be opened.
        """
        if self.written is not None:
            return self.written
        with _guard:
            return self._opened(only_reads=only_reads)

    def _opened(self, *, only_reads: bool) -> int:
        name = f"{self.path}-lock"
        try:
            if self.written is None:
                self.written = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
            return self.written
        except OSError as error:
            if only_reads and self._read is not None:
                return self._read
            if only_reads and os.access(name, os.R_OK, effective_ids=_BY_EFFECTIVE_IDS):
                self._read = os.open(name, os.O_RDONLY)
                return self._read
            raise SaverError(
                f"{name} cannot be opened: {error.strerror}; by this file processes know that "
                "they share a thread, so its folder must be one that may be written to",
                path=self.path,
            ) from error

    def close(self) -> None:
        """Close it; who still has a lock on it, because both are garbage, has none any more."""
        descriptors = self.written, self._read
        self.written = self._read = None
        for each in descriptors:
            if each is not None:
                os.close(each)


class Use:
    """A use of a lock file: it stays open as long as this is referred to.

    Attributes:
        file: The lock file.
    """

    def __init__(self, path: str) -> None:
        user = object()
        with _guard:
            self.file = _file_of(path, user)
        finalize(self, _leave, self.file, user).atexit = False  # other threads continue till then


_files: dict[str, LockFile] = {}
"""Those that are in use, by the SQLite file."""


def _file_of(path: str, user: object) -> LockFile:
    while True:  # the garbage collector may close it before it has this user
        file = _files.setdefault(path, LockFile(path))
        file.users.add(user)
        if _files.get(path) is file:
            return file


def _leave(file: LockFile, user: object) -> None:
    with _guard:
        file.users.discard(user)
        if not file.users and _files.get(file.path) is file:
            del _files[file.path]
            file.close()


def _offset(thread_id: str) -> int:
    return int.from_bytes(hashlib.sha256(thread_id.encode()).digest()[:7], "big")


if sys.platform == "win32":
    import msvcrt

    _MOST = 2**31 - 1  # the C library seeks with 32 bits to where it locks

    def _lock_byte(file: int, at: int, length: int = 1) -> None:
        os.lseek(file, at % _MOST, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, length or _MOST)

    def _unlock_byte(file: int, at: int, length: int = 1) -> None:
        os.lseek(file, at % _MOST, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, length or _MOST)

else:
    import fcntl

    def _lock_byte(file: int, at: int, length: int = 1) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, at)

    def _unlock_byte(file: int, at: int, length: int = 1) -> None:
        fcntl.lockf(file, fcntl.LOCK_UN, length, at)


if sys.platform == "linux":

    def _is_locked(file: int, at: int, length: int = 1) -> bool:
        """Return whether another process has locked some of the bytes; 0 of them are all."""
        asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, at, length, 0)
        kind: int = struct.unpack_from("h", fcntl.fcntl(file, fcntl.F_GETLK, asked))[0]
        return kind != fcntl.F_UNLCK

else:

    def _is_locked(file: int, at: int, length: int = 1) -> bool:
        """Return whether another process has locked some of the bytes; 0 of them are all."""
        try:
            _lock_byte(file, at, length)
        except OSError:
            return True
        _unlock_byte(file, at, length)
        return False

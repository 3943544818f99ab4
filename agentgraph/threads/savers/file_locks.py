"""The locks of threads in a SQLite file: each a byte of the lock file next to it.

The operating system releases a lock when its process ends, in whatever way.
"""

import hashlib
import os
import struct
import sys

from agentgraph.errors import SaverError

_lock_files: dict[str, int] = {}  # never closed: closing one would end all locks on it
_read_files: dict[str, int] = {}
"""Those that may not be written to."""
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

    def lock(self, thread_id: str) -> "ByteLock":
        """Return the lock of a thread, which is not taken yet."""
        return ByteLock(self.key, _offset(thread_id))

    def is_taken(self, thread_id: str) -> bool:
        """Return whether another process has taken the lock of a thread.

        Raises:
            SaverError: The lock file cannot be opened.
        """
        if not os.path.exists(f"{self.key}-lock"):
            return False
        return _is_locked(_lock_file(self.key, only_reads=True), _offset(thread_id))


class ByteLock:
    """A byte of a lock file; within a process it does not exclude anybody."""

    def __init__(self, path: str, at: int) -> None:
        self._path, self._at = path, at

    def take(self) -> bool:
        """Lock it for this process, and return whether it was free.

        Raises:
            SaverError: The lock file cannot be opened.
        """
        file = _lock_file(self._path)
        try:
            _lock_byte(file, self._at)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Unlock it, if this process has locked it."""
        if self._path in _lock_files:
            _unlock_byte(_lock_files[self._path], self._at)

    drop = release


def _lock_file(path: str, *, only_reads: bool = False) -> int:
    """Return the open lock file of a SQLite file.

    Args:
        path: The SQLite file.
        only_reads: Whether one that may not be written to will do.

    Raises:
        SaverError: It cannot be opened.
    """
    if path not in _lock_files:
        try:
            _lock_files[path] = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            if only_reads and path in _read_files:
                return _read_files[path]
            if only_reads and os.access(f"{path}-lock", os.R_OK, effective_ids=_BY_EFFECTIVE_IDS):
                _read_files[path] = os.open(f"{path}-lock", os.O_RDONLY)
                return _read_files[path]
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

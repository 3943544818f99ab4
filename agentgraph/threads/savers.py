"""The faults of savers: what they cannot do, how they fail; and the locks on a SQLite file's threads.

Processes that share a SQLite file lock threads in a lock file next to it. The operating system releases
a lock when its process ends, in whatever way.
"""

import asyncio
import hashlib
import os
import struct
import sys
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from agentgraph.agents.middleware import Mode
from agentgraph.errors import SaverError
from agentgraph.graph.failures import failures
from agentgraph.safe_repr import reason

_NEEDED = {
    "sync": ("get_tuple", "put", "put_writes"),
    "async": ("aget_tuple", "aput", "aput_writes"),
}
"""The methods that a saver needs for the calls of a mode."""
_CALLS = {
    "sync": "run, query, resume, pending, events and watch",
    "async": "arun, aquery, aresume, apending, aevents and awatch",
}
_WAYS_OUT = {
    "SQLITE_NOTADB": "it is not a SQLite database: name another file, or put a copy in its place",
    "SQLITE_CORRUPT": "the file is damaged: put a copy in its place, or start another file",
    "SQLITE_BUSY": "another process holds the file: try again when that is done",
    "SQLITE_LOCKED": "another connection holds the file: try again when that is done",
    "SQLITE_READONLY": "the file cannot be written: change its permissions, or use a copy",
    "SQLITE_FULL": "the disk is full: make room",
    "SQLITE_CANTOPEN": "look whether its folder is there, and the file may be read and written",
}
_CLOSED = ("closed", "no active connection")
_DATABASES = {"sqlite3", "psycopg", "psycopg_pool"}
"""The packages of databases; their exceptions are errors of the saver."""
_lock_files: dict[str, int] = {}  # never closed: closing one would end all locks on it


def saver_fault(saver: BaseCheckpointSaver[Any], mode: Mode) -> str | None:
    """Return why a saver does not support sync or async calls, and which one does; None if it does."""
    is_sync, name = mode == "sync", type(saver).__name__.lstrip("_")
    needed = _NEEDED[mode]
    lacks = any(getattr(type(saver), each) is getattr(BaseCheckpointSaver, each) for each in needed)
    kinds = {kind.__name__ for kind in type(saver).__mro__}
    runs_on_loop = isinstance(getattr(saver, "loop", None), asyncio.AbstractEventLoop)
    only_refuses = type(saver).aget_tuple.__qualname__.startswith("SqliteSaver.")
    if not lacks and not (runs_on_loop if is_sync else only_refuses):
        return None
    if kinds & {"SqliteSaver", "AsyncSqliteSaver"}:
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
    """Return the error to raise from an exception of a saver.

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
        f"{type(error).__name__}: {reason(error)}; {way_out(error)}; what was saved before is kept",
        thread_id=thread_id,
        path=path,
    )


def is_of_database(error: BaseException) -> bool:
    """Return whether an exception comes from the saver: a database error that no agent raised."""
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(packages & _DATABASES) and not failures(error)


def way_out(error: BaseException) -> str:
    """Return what to do about an exception of a saver."""
    code = "_".join(str(getattr(error, "sqlite_errorname", "")).split("_")[:2])
    if code in _WAYS_OUT:
        return _WAYS_OUT[code]
    if any(word in reason(error) for word in _CLOSED):
        return "use the runner while its saver is open"
    return "try again when the saver works"


def lock_file(path: str, thread_id: str) -> bool:
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


def unlock_file(path: str, thread_id: str) -> None:
    """Unlock a thread of a SQLite file."""
    _unlock_byte(_lock_files[path], _offset(thread_id))


def is_file_locked(path: str, thread_id: str) -> bool:
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

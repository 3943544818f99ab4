"""One run at a time on a thread: held in this process, and on a SQLite file in all processes.

LangGraph itself has no lock: of several runs on one thread all succeed, and the last one wins.
A lock ends with the process that holds it, however that process ends.
"""

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentgraph.errors import SaverError, ThreadBusyError
from agentgraph.shown import shown
from agentgraph.threads import checked_id

try:
    import fcntl
except ImportError:  # Windows: there the lock holds within one process
    fcntl = None  # type: ignore[assignment]

Key = tuple[str | int, str]
"""The file of a saver, or the id of one without a file, and the thread."""

_guard = threading.Lock()
_held: set[Key] = set()
_files: dict[str, int] = {}  # never closed: closing one would end all locks on it


@contextmanager
def held(saver: Any, thread_id: str) -> Iterator[None]:
    """Hold a thread of a saver for the time of a `with` block.

    Raises:
        ThreadBusyError: Another run holds it.
    """
    key = _key(saver, thread_id)
    with _guard:
        if key in _held or not _lock_file(key):
            raise busy(thread_id)
        _held.add(key)
    try:
        yield
    finally:
        with _guard:
            _held.discard(key)
            _unlock_file(key)


def busy(thread_id: str) -> ThreadBusyError:
    """Return the error for a thread on which a run is under way."""
    return ThreadBusyError(
        f"thread {shown(thread_id)} is busy: another run is under way on it; wait for its end (an "
        "iterator that was left early ends when it is closed), or use another thread_id",
        thread_id,
    )


def is_held(saver: Any, thread_id: str) -> bool:
    """Tell whether a run of this process holds the thread."""
    return _key(saver, thread_id) in _held


def _key(saver: Any, thread_id: str) -> Key:
    path: str | None = getattr(saver, "path", None)
    return path or id(saver), checked_id(thread_id)


def _lock_file(key: Key) -> bool:
    path, thread_id = key
    if fcntl is None or isinstance(path, int):
        return True
    if path not in _files:
        _files[path] = _opened(f"{path}-lock")
    try:
        fcntl.lockf(_files[path], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(thread_id))
    except OSError:
        return False
    return True


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise SaverError(
            f"{path} cannot be opened: {error.strerror}; by this file processes know that they share a "
            "thread, so its folder must be one that may be written to",
            path=path.removesuffix("-lock"),
        ) from error


def _unlock_file(key: Key) -> None:
    path, thread_id = key
    if fcntl is not None and isinstance(path, str):
        fcntl.lockf(_files[path], fcntl.LOCK_UN, 1, _offset(thread_id))


def _offset(thread_id: str) -> int:
    return int.from_bytes(hashlib.sha256(thread_id.encode()).digest()[:7], "big")

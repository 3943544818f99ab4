"""One run at a time on a thread: held in this process, and on a SQLite file in all processes.

LangGraph itself has no lock: of several runs on one thread all succeed, and the last one wins.
A lock ends with the process that holds it, however that process ends. A run that was left takes a
moment to end, for it waits for functions in threads: who wants its thread waits for that.
"""

import asyncio
import hashlib
import os
import sys
import threading
from concurrent.futures import Future
from typing import Any, Self

from agentgraph.errors import SaverError, ThreadBusyError
from agentgraph.safe_repr import shown
from agentgraph.threads.threads import checked_id

Key = tuple[str | int, str]
"""The file of a saver, or the id of one without a file, and the thread."""

_guard = threading.RLock()  # a run that is collected as garbage is released wherever that happens
_held: "dict[Key, Hold]" = {}
_files: dict[str, int] = {}  # never closed: closing one would end all locks on it


class Hold:
    """A thread of a saver, held by one run until it is released.

    Attributes:
        over: Done when it is released.
        closing: The event loop on which a run that was left is ending; None while the run is held.
    """

    def __init__(self, key: Key) -> None:
        self._key = key
        self.over: Future[None] = Future()
        self.closing: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others have the thread; a second time changes nothing."""
        with _guard:
            if not self.over.done():
                del _held[self._key]
                _unlock_file(self._key)
                self.over.set_result(None)


def hold(saver: Any, thread_id: str) -> Hold:
    """Hold a thread of a saver, once a run on it that was left has ended.

    Raises:
        ThreadBusyError: Another run holds it.
    """
    while isinstance(taken := _take(saver, thread_id), Future):
        taken.result()
    return taken


async def ahold(saver: Any, thread_id: str) -> Hold:
    """Hold a thread of a saver as `hold` does, without blocking the event loop."""
    while isinstance(taken := _take(saver, thread_id, waits_on_loop=True), Future):
        await asyncio.wrap_future(taken)
    return taken


def _take(saver: Any, thread_id: str, *, waits_on_loop: bool = False) -> Hold | Future[None]:
    """Return the hold on a thread, or what is done when a run that is closing has ended."""
    path: str | None = getattr(saver, "path", None)
    key: Key = (path or id(saver), checked_id(thread_id))
    with _guard:
        if (other := _held.get(key)) is not None:
            if other.closing is not None and (waits_on_loop or other.closing is not _running_loop()):
                return other.over
        elif _lock_file(key):
            _held[key] = Hold(key)
            return _held[key]
    raise ThreadBusyError(
        f"thread {shown(thread_id)} is busy: another run is under way on it; wait for its end (an "
        "iterator that was left early ends when it is closed), or use another thread_id",
        thread_id,
    )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _lock_file(key: Key) -> bool:
    path, thread_id = key
    if isinstance(path, int):
        return True
    if path not in _files:
        _files[path] = _opened(f"{path}-lock")
    try:
        _lock_byte(_files[path], _offset(thread_id))
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
    if isinstance(path, str):
        _unlock_byte(_files[path], _offset(thread_id))


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

"""Has the garbage collector wait while much is made that stays, such as a thread that is read.

Python's collector goes through all that there is each time that it has grown by a quarter: of 10,000
events that takes longer than to read them. It waits in all threads, so only while something is
computed: not while a database or a network is waited for, whose time is unknown. A saver that returns a
checkpoint waits first, and then decodes what it got: see `Decoding`.
"""

import gc
import os
import types
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import wraps
from itertools import islice
from threading import RLock
from typing import Any, ParamSpec, Self, TypeVar

from agentgraph.graph.sync_async import Call, Calls

P = ParamSpec("P")
T = TypeVar("T")


class _Collector:
    def __init__(self) -> None:
        self._lock, self._computing, self._was_on = RLock(), 0, False

    def wait(self) -> None:
        """Have it wait until each thread that called this calls `resume`."""
        with self._lock:
            self._computing += 1
            if self._computing == 1:
                self._was_on = gc.isenabled()
                gc.disable()

    def resume(self) -> None:
        """Have it collect again, if it was on and no other thread computes."""
        with self._lock:
            self._computing = max(self._computing - 1, 0)
            if self._computing == 0 and self._was_on:
                gc.enable()

    def reset(self) -> None:
        """Forget the other threads, which a forked process does not have."""
        self._lock = RLock()
        if self._computing and self._was_on:
            gc.enable()
        self._computing = 0


_collector = _Collector()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_collector.reset)


@contextmanager
def _waiting() -> Iterator[None]:
    _collector.wait()
    try:
        yield
    finally:
        _collector.resume()


class Decoding:
    """A `with` block that reads a saver: the collector waits from the first value that it decodes.

    A serializer calls `begin`; also in another thread, where a saver on an event loop decodes.
    """

    _is_over = False

    def __init__(self) -> None:
        self.has_begun, self._lock = False, RLock()

    def begin(self) -> None:
        """Note that a value is about to be decoded."""
        with self._lock:
            if not (self.has_begun or self._is_over):
                self.has_begun = True
                _collector.wait()

    def __enter__(self) -> Self:
        self._token: Token[Decoding | None] = DECODING.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        DECODING.reset(self._token)
        with self._lock:
            self._is_over = True
            if self.has_begun:
                _collector.resume()


DECODING: ContextVar[Decoding | None] = ContextVar("decoding", default=None)
"""The innermost block that reads a saver."""


def decoding(
    method: Callable[P, T], amethod: Callable[P, Awaitable[T]]
) -> tuple[Callable[P, T], Callable[P, Awaitable[T]]]:
    """Return a method of a saver that reads, sync and async, in which the collector waits so."""

    @wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> T:
        with Decoding():
            return method(*args, **options)

    @wraps(amethod)
    async def acall(*args: P.args, **options: P.kwargs) -> T:
        with Decoding():
            return await amethod(*args, **options)

    return call, acall


def read_all(every: Iterable[T]) -> list[T]:
    """Return the items of an iterator; the collector waits once the first of them is there."""
    rest = iter(every)
    first = [*islice(rest, 1)]
    with _waiting():
        return [*first, *rest]


class _Computing(Generator[Call, Any, T]):
    """Advances a coroutine; the collector waits until it makes its next call."""

    def __init__(self, calls: Calls[T]) -> None:
        self._made: Generator[Call, Any, T] = calls.__await__()

    def send(self, value: Any) -> Call:
        with _waiting():
            return self._made.send(value)

    def throw(self, *error: Any) -> Call:
        with _waiting():
            return self._made.throw(*error)


@types.coroutine
def computing(calls: Calls[T]) -> Generator[Call, Any, T]:
    """Return the result of a coroutine; the collector waits while it computes, not while it calls."""
    return (yield from _Computing(calls))

"""Has the garbage collector wait while much is made that stays, such as a thread that is read.

Python's collector goes through all that there is each time that it has grown by a quarter: of 10,000
events that takes longer than to read them. It waits in all threads, so only while something is
computed: not while a database or a network is waited for, of which nobody knows how long they take.
"""

import gc
import types
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from agentgraph.graph.sync_async import Call, Calls

T = TypeVar("T")


@contextmanager
def _waiting() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def read_all(every: Iterable[T]) -> list[T]:
    """Return what an iterator yields; the collector waits once the first of it is there."""
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

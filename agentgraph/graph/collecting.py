"""Has the garbage collector wait while much is made that stays, such as a thread that is read.

Python's collector goes through all that there is each time that it has grown by a quarter: of 10,000
events that takes longer than to read them. It waits in all threads, so only while something is
computed: not while a database or a network is waited for, of which nobody knows how long they take.
"""

import gc
import types
from collections.abc import Generator, Iterable
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from agentgraph.graph.sync_async import Call, Calls

T = TypeVar("T")


def read_all(every: Iterable[T]) -> list[T]:
    """Return what an iterator yields; the collector waits once the first of it is there."""
    rest = iter(every)
    first = [*islice(rest, 1)]
    collects = gc.isenabled()
    gc.disable()
    try:
        return [*first, *rest]
    finally:
        if collects:
            gc.enable()


@types.coroutine
def computing(calls: Calls[T]) -> Generator[Call, Any, T]:
    """Return the result of a coroutine; the collector waits while it computes, not while it calls."""
    made = calls.__await__()
    step = partial(made.send, None)
    while True:
        collects = gc.isenabled()
        gc.disable()
        try:
            call = step()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            del step  # an error in it would hold itself
            if collects:
                gc.enable()
        try:
            step = partial(made.send, (yield call))
        except BaseException as error:
            step = partial(made.throw, error)

"""Calls of functions of users: sync ones in async runs, coroutines in sync ones, what they raise."""

import asyncio
import concurrent.futures
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar, cast

from agentgraph.graph.nodes.stopping import carry, stoppable

T = TypeVar("T")

_THREADS = ThreadPoolExecutor(max_workers=1024, thread_name_prefix="agentgraph")
"""Where sync functions wait in an async run, so that as many branches as there are wait at once."""


async def run_in_thread(fn: Callable[..., T], *arguments: Any) -> T:
    """Call a sync function without blocking the event loop."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    with stoppable(is_thread=True):
        running = loop.run_in_executor(_THREADS, context.run, _outcome, fn, *arguments)
        given, error = await running
    if error is not None:  # asyncio's futures refuse some exceptions, and copy others
        raise error
    return cast(T, given)


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from sync code, also where an event loop runs in this thread."""
    return cast(T, run_off_loop(asyncio.run, coroutine))


def run_off_loop(fn: Callable[..., T], *arguments: Any) -> T:
    """Call a function that may run an event loop: in a thread where one runs in this, as in Jupyter."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return fn(*arguments)
    context = contextvars.copy_context()
    return _THREADS.submit(context.run, fn, *arguments).result()


class Contained:
    """Lets nothing out of a function that would end what runs it.

    `StopIteration` becomes a `RuntimeError`, as in generators (PEP 479). What would end a task or the
    event loop, with all that runs beside, is carried to the caller of the run; but a cancellation that
    was asked for stays one. This is no `@contextmanager`: `contextlib` raises `StopIteration` again.
    """

    __slots__ = ("_in_task", "_task")

    def __init__(self, *, in_task: bool = False) -> None:
        """Make a guard.

        Args:
            in_task: Whether it is known that a task waits for the function, maybe for its thread.
        """
        self._in_task = in_task

    def __enter__(self) -> None:
        self._task = _current_task()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        copied = self._in_task and isinstance(error, concurrent.futures.CancelledError)
        if copied or isinstance(error, StopIteration | StopAsyncIteration):
            raise RuntimeError(f"the function raised {type(error).__name__}") from error
        ends_task = isinstance(error, GeneratorExit | asyncio.CancelledError)
        in_task = self._in_task or self._task is not None
        ends_loop = in_task and isinstance(error, SystemExit | KeyboardInterrupt)
        if error is not None and (ends_task or ends_loop) and not self._is_asked_for(error):
            carry(error)

    def _is_asked_for(self, error: BaseException) -> bool:
        if isinstance(error, GeneratorExit):  # else the coroutine was thrown away
            return self._task is not _current_task()
        return is_cancelled(error)


def is_cancelled(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of the task that runs now."""
    task = _current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and bool(task.cancelling())


def _outcome(fn: Callable[..., T], *arguments: Any) -> tuple[T | None, BaseException | None]:
    try:
        with Contained():
            return fn(*arguments), None
    except BaseException as error:
        return None, error


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None

"""Calls users' functions: sync ones of async runs in threads, coroutines of sync runs on an event loop.

`Contained` keeps their exceptions from ending the task or event loop that runs them.
"""

import asyncio
import concurrent.futures
import contextvars
import os
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from types import TracebackType
from typing import cast

from agentgraph.graph.nodes.stopping import T, carried, stoppable
from agentgraph.graph.sync_async import running_loop

_THREADS = ThreadPoolExecutor(max_workers=1024, thread_name_prefix="agentgraph")
"""Runs the sync functions of async runs; large, so that all branches can wait at the same time."""


def _reset() -> None:
    """Have threads in a process that was forked: it has none of the other's."""
    global _THREADS
    _THREADS = ThreadPoolExecutor(max_workers=1024, thread_name_prefix="agentgraph")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)


async def run_in_thread(fn: Callable[..., T], *arguments: object) -> T:
    """Call a sync function without blocking the event loop."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    with stoppable(is_thread=True):
        running = loop.run_in_executor(_THREADS, context.run, _outcome, fn, *arguments)
        result, error = await running
    if error is not None:  # asyncio's futures reject some exceptions and copy others
        raise error
    return cast(T, result)


def run_coroutine(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine from sync code, even if an event loop runs in this thread."""
    return cast(T, run_off_loop(asyncio.run, coroutine))


def run_off_loop(fn: Callable[..., T], *arguments: object) -> T:
    """Call a function that may run an event loop; in another thread if one runs here, as in Jupyter."""
    if running_loop() is None:
        return fn(*arguments)
    context = contextvars.copy_context()
    return _THREADS.submit(context.run, fn, *arguments).result()


_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("loop", default=None)
"""The event loop of the run, for functions that LangChain calls in a thread."""


def remember_loop() -> None:
    """Remember the event loop of the run for `awaited_in_thread`."""
    _LOOP.set(asyncio.get_running_loop())


def awaited_in_thread(awaitable: Awaitable[T]) -> T:
    """Return the result of an awaitable, in a thread: on the event loop of the run, if it has one."""

    async def awaited() -> T:
        return await awaitable

    loop = _LOOP.get()
    if loop is None:
        return run_coroutine(awaited())
    return asyncio.run_coroutine_threadsafe(awaited(), loop).result()


class Contained:
    """Keeps an exception of a user's function from ending the task or event loop that runs it.

    `StopIteration` becomes a `RuntimeError`, as in generators (PEP 479). An exception that would end
    the task or the event loop, and everything else in it, is carried to the caller of the run; a
    requested cancellation stays one. Not a `@contextmanager`: `contextlib` lets `StopIteration`
    through.
    """

    __slots__ = ("_in_task", "_task")

    def __init__(self, *, in_task: bool = False) -> None:
        """Make a guard.

        Args:
            in_task: Whether a task is known to wait for the function, perhaps for its thread.
        """
        self._in_task = in_task

    def __enter__(self) -> None:
        self._task = current_task()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None and (contained := self.contained(error)) is not error:
            raise contained from error

    def contained(self, error: BaseException) -> BaseException:
        """Return the exception to raise in place of this one; mostly the exception itself."""
        copied = self._in_task and isinstance(error, concurrent.futures.CancelledError)
        if copied or isinstance(error, StopIteration | StopAsyncIteration):
            return RuntimeError(f"the function raised {type(error).__name__}")
        ends_task = isinstance(error, GeneratorExit | asyncio.CancelledError)
        in_task = self._in_task or self._task is not None
        ends_loop = in_task and isinstance(error, SystemExit | KeyboardInterrupt)
        return carried(error) if (ends_task or ends_loop) and not self._is_requested(error) else error

    def _is_requested(self, error: BaseException) -> bool:
        if isinstance(error, GeneratorExit):  # if the task changed, the coroutine was discarded
            return self._task is not current_task()
        return is_cancelled(error)


def is_cancelled(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of the current task."""
    return isinstance(error, asyncio.CancelledError) and is_being_cancelled()


def is_being_cancelled() -> bool:
    """Return whether the current task is to be cancelled, whatever its code made of that."""
    task = current_task()
    return task is not None and bool(task.cancelling())


def _outcome(fn: Callable[..., T], *arguments: object) -> tuple[T | None, BaseException | None]:
    try:
        with Contained():
            return fn(*arguments), None
    except BaseException as error:
        return None, error


def current_task() -> asyncio.Task[object] | None:
    """Return the task of asyncio that runs this code; None without one."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None

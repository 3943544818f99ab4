"""Calls of functions of users: sync ones in async runs, coroutines in sync ones, what they raise."""

import asyncio
import concurrent.futures
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

_THREADS = ThreadPoolExecutor(max_workers=1024, thread_name_prefix="agentgraph")
"""Where sync functions wait in an async run, so that as many branches as there are wait at once."""

_STEERING = (
    StopIteration,
    StopAsyncIteration,
    GeneratorExit,
    asyncio.CancelledError,
    concurrent.futures.CancelledError,
)
"""Exceptions by which Python ends generators and tasks: raised by a function they would end ours."""


async def run_in_thread(fn: Callable[..., T], *arguments: Any) -> T:
    """Call a sync function without blocking the event loop."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_THREADS, context.run, _contained, fn, *arguments)


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from sync code, also where an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    context = contextvars.copy_context()
    return _THREADS.submit(context.run, asyncio.run, coroutine).result()


class Contained:
    """Turns what must not leave a function into a `RuntimeError`, as generators do it (PEP 479).

    A cancellation that was asked for stays one. This is no `@contextmanager`: `contextlib` would
    raise the `StopIteration` again.
    """

    __slots__ = ("_task",)

    def __enter__(self) -> None:
        self._task = _current_task()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, _STEERING) and not self._is_asked_for(error):
            raise RuntimeError(f"the function raised {type(error).__name__}") from error

    def _is_asked_for(self, error: BaseException) -> bool:
        task = self._task
        if isinstance(error, GeneratorExit):  # else the coroutine was thrown away
            return task is not None and task is not _current_task()
        is_cancelled = isinstance(error, asyncio.CancelledError)
        return is_cancelled and task is not None and bool(task.cancelling())


def _contained(fn: Callable[..., T], *arguments: Any) -> T:
    with Contained():
        return fn(*arguments)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None

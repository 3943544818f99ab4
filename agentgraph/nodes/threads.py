"""Sync code in async runs, and coroutines in sync ones."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_THREADS = ThreadPoolExecutor(max_workers=1024, thread_name_prefix="agentgraph")
"""Where sync functions wait in an async run, so that as many branches as there are wait at once."""


async def run_in_thread(fn: Callable[..., T], *arguments: Any) -> T:
    """Call a sync function without blocking the event loop."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_THREADS, context.run, fn, *arguments)


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from sync code, also where an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    context = contextvars.copy_context()
    return _THREADS.submit(context.run, asyncio.run, coroutine).result()

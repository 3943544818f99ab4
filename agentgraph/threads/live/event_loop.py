"""An event loop of the process in a thread, for coroutines of code that is not async itself."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from agentgraph.errors import AgentGraphError

if TYPE_CHECKING:
    from agentgraph.threads.engine import Engine

T = TypeVar("T")

_guard = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []
"""The loop, once it is needed."""


def on_event_loop(coroutine: Coroutine[object, object, T]) -> T:
    """Return the result of a coroutine, run on the loop; all coroutines share that loop.

    So resources of one coroutine, such as the session of an MCP server, serve the others. If the caller
    is interrupted, the coroutine is cancelled.
    """
    running = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return running.result()
    finally:
        running.cancel()


def _loop() -> asyncio.AbstractEventLoop:
    with _guard:
        if not _loops:
            _loops.append(asyncio.new_event_loop())
            name = "agentgraph-event-loop"
            threading.Thread(target=_run, args=_loops, name=name, daemon=True).start()
        return _loops[0]


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop, also after a coroutine raised `SystemExit` or `KeyboardInterrupt`.

    Asyncio raises these here too, and stops the loop; who waits for the coroutine gets them from it.
    """
    while True:
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


@contextmanager
def held_on_event_loop(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter an async context manager in a task of the loop, and exit it in the same task."""
    entered: Future[tuple[T, asyncio.Event]] = Future()

    async def hold() -> None:
        async with manager as value:
            leaves = asyncio.Event()
            entered.set_result((value, leaves))
            await leaves.wait()

    held = asyncio.run_coroutine_threadsafe(hold(), _loop())
    held.add_done_callback(partial(_fail, entered))
    value, leaves = entered.result()
    try:
        yield value
    finally:
        _loop().call_soon_threadsafe(leaves.set)
        held.result()


def _fail(entered: "Future[Any]", held: "Future[None]") -> None:
    if not entered.done():
        entered.set_exception(held.exception() or AgentGraphError("nothing was entered"))


def needs_event_loop(engine: "Engine") -> bool:
    """Return whether only async calls can run a tree; also False if neither can."""
    try:
        engine.check_sync()
    except AgentGraphError:
        try:
            engine.check_async()
            engine.check_saver("async")
        except AgentGraphError:
            return False  # the error of the sync call is the better one
        return True
    return False

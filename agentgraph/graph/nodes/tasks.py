"""LangGraph tasks, as a node calls them.

A task is known by its name and its place in the order of calls: that is how one that has finished
keeps its result over a resume or a crash.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, InvalidStateError
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.func import task

from agentgraph.errors import AgentGraphError

_FEWEST_THREADS = 3

Start = Callable[[], Any]
"""Starts a task, and returns its future."""


def named_task(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that starts `run` as a LangGraph task."""
    as_task: Callable[..., Any] = task(name=name)
    return cast("Callable[..., Any]", as_task(_wrapping(run)))


class _Wrapped(Exception):
    """Takes an exception through futures that would hand on a copy of it, without its notes."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error

    def __repr__(self) -> str:
        return repr(self.error)


_COPIED = (TimeoutError, CancelledError, InvalidStateError)
"""The exceptions of which futures of one kind hand a copy to those of the other."""


def unwrapped(error: BaseException) -> BaseException:
    """Return what the function of a task raised, where its future has `error`."""
    return error.error if isinstance(error, _Wrapped) else error


def _wrapping(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    def call(*arguments: Any) -> Any:
        try:
            return run(*arguments)
        except _COPIED as error:
            raise _Wrapped(error) from error

    @wraps(run)
    async def acall(*arguments: Any) -> Any:
        try:
            return await run(*arguments)
        except _COPIED as error:
            raise _Wrapped(error) from error

    return acall if iscoroutinefunction(run) else call


def numbered(first: int) -> Callable[[int, Start], Any]:
    """Return what starts tasks as those that their node calls at given places, in any order.

    LangGraph counts the calls of a node, and knows a task by its count. To start tasks as they become
    ready, and find their results again on a resume, this gives it the counts; it takes them in the
    order in which tasks are started, on an event loop a little later.

    Args:
        first: The place of the first of the tasks.
    """
    places: deque[int] = deque()
    counter = get_config()["configurable"]["__pregel_scratchpad"].call_counter
    counter._counter = places.popleft

    def call(number: int, start: Start) -> Any:
        places.append(first + number)
        return start()

    return call


def watched(future: asyncio.Future[Any]) -> asyncio.Future[Any]:
    """Return a future whose exception nobody has to ask for: a node that is cancelled does not."""
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


def check_threads(node: str, config: RunnableConfig, instead: str) -> None:
    """Refuse a pool in which the node and the stream leave no thread for a task: all would wait."""
    threads = config.get("max_concurrency")
    if threads is not None and threads < _FEWEST_THREADS:
        raise AgentGraphError(
            f"max_concurrency={threads} in the config leaves no thread for the tasks of {node}; "
            f"leave it out there, {instead.format(threads)}"
        )


def slots(config: RunnableConfig | None) -> int | None:
    """Return how many tasks LangGraph runs at a time beside the node that calls them; None for all."""
    bound = (config or {}).get("max_concurrency")
    return None if bound is None else max(bound - 1, 1)

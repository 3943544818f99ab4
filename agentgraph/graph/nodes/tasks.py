"""LangGraph tasks, run by one node: started in declared order, joined in it, stopped together.

A task is known by its name and its place in the order of calls: that is how one that has finished
keeps its result over a resume or a crash. So all are started at once and in declared order, or
each when the one before it has ended.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, InvalidStateError, wait
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.func import task

from agentgraph.errors import AgentGraphError
from agentgraph.graph.failures import each_once, raise_together
from agentgraph.graph.nodes.stopping import Stop

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


def run_tasks(starts: Sequence[Start], control: Stop, *, in_order: bool = False) -> list[Any]:
    """Run tasks in threads, and return their results in declared order.

    Where one fails the others stop, and the first failure is raised; where some ask, the others go
    on, and all questions are raised as one.
    """
    futures: list[Future[Any]] = []
    try:
        for start in starts:
            futures.append(start())
            if in_order and futures[-1].exception() is not None:
                break
        pending: Collection[Future[Any]] = futures
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            _stop_others(done, control)
    finally:
        control.request_drain("nobody waits any more")
    return _joined(futures)


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


async def arun_tasks(starts: Sequence[Start], control: Stop, *, in_order: bool = False) -> list[Any]:
    """Run tasks on the event loop, as `run_tasks` does."""
    futures: list[asyncio.Future[Any]] = []
    for start in starts:
        futures.append(watched(start()))
        if in_order:
            await asyncio.wait(futures[-1:])
            if futures[-1].exception() is not None:
                break
    pending: Collection[asyncio.Future[Any]] = futures
    while pending:
        done, pending = await asyncio.wait(pending, return_when=FIRST_COMPLETED)
        _stop_others(done, control)
    return _joined(futures)


def check_threads(node: str, config: RunnableConfig, instead: str) -> None:
    """Refuse a pool in which the node and the stream leave no thread for a task: all would wait."""
    threads = config.get("max_concurrency")
    if threads is not None and threads < _FEWEST_THREADS:
        raise AgentGraphError(
            f"max_concurrency={threads} in the config leaves no thread for the tasks of {node}; "
            f"leave it out there, {instead.format(threads)}"
        )


def _stop_others(done: Collection[Any], control: Stop) -> None:
    errors = [future.exception() for future in done]
    if any(error is not None and not isinstance(error, GraphBubbleUp) for error in errors):
        control.stop("another one failed")


def _joined(futures: Sequence[Any]) -> list[Any]:
    """Return the results; else raise the first failure, or all questions."""
    errors = [future.exception() for future in futures]
    raised = [unwrapped(error) for error in errors if error is not None]
    failed = [error for error in raised if not isinstance(error, GraphBubbleUp)]
    paused = [error for error in raised if isinstance(error, GraphInterrupt)]
    questions = each_once(asked for error in paused for asked in error.args[0])
    if failed:
        raise_together(failed, questions)
    if len(paused) < len(raised):
        raise next(error for error in raised if error not in paused)
    if questions:
        raise GraphInterrupt(questions)
    return [future.result() for future in futures]

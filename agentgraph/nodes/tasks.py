"""LangGraph tasks, run by one node: started in declared order, joined in it, stopped together.

A task is known by its name and its place in the order of calls: that is how one that has finished
keeps its result over a resume or a crash. So all are started at once and in declared order, or
each when the one before it has ended.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.func import task
from langgraph.runtime import RunControl, get_runtime

from agentgraph.errors import AgentGraphError
from agentgraph.failures import each_once, raise_together

_FEWEST_THREADS = 3

Start = Callable[[], Any]
"""Starts a task, and returns its future."""


def named_task(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that starts `run` as a LangGraph task."""
    as_task: Callable[..., Any] = task(name=name)
    return cast("Callable[..., Any]", as_task(run))


def run_tasks(starts: Sequence[Start], control: RunControl, *, in_order: bool = False) -> list[Any]:
    """Run tasks in threads, and return their results in declared order.

    Where some fail the others stop behind the step that they are in, and the first failure is
    raised; where some ask, the others go on, and all questions are raised as one.
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


async def arun_tasks(
    starts: Sequence[Start], control: RunControl, *, in_order: bool = False
) -> list[Any]:
    """Run tasks on the event loop, as `run_tasks` does."""
    futures: list[asyncio.Future[Any]] = []
    for start in starts:
        futures.append(start())
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


class SharedControl(RunControl):
    """Stops all tasks of one node; heeds the run's own control too."""

    __slots__ = ("_around",)

    def __init__(self) -> None:
        super().__init__()
        self._around = get_runtime().control

    @property
    def drain_requested(self) -> bool:
        """Whether the lanes are to stop behind their step."""
        around = self._around
        return super().drain_requested or (around is not None and around.drain_requested)

    @property
    def drain_reason(self) -> str | None:
        """Why they are to stop."""
        return super().drain_reason or (self._around.drain_reason if self._around else None)


def _stop_others(done: Collection[Any], control: RunControl) -> None:
    errors = [future.exception() for future in done]
    if any(error is not None and not isinstance(error, GraphBubbleUp) for error in errors):
        control.request_drain("another one failed")


def _joined(futures: Sequence[Any]) -> list[Any]:
    """Return the results; else raise the first failure, or all questions."""
    raised = [error for future in futures if (error := future.exception()) is not None]
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

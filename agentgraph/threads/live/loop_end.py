"""Keeps the tasks of runs from being cancelled where their event loop ends, so that they can be closed.

The end of `asyncio.run` cancels all tasks at once. LangGraph's tasks would lose what functions in
threads give, and those functions would run again. So the loop does not find the tasks that LangGraph
or agentgraph makes for a run: they are not registered (asyncio documents that function, for tasks of
other makers). It finds one task for each run, which closes the run when it is cancelled, and ends with
it: the loop waits for that.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import langchain_core
import langgraph

_INSIDE: ContextVar[bool] = ContextVar("inside", default=False)
"""Whether code is part of an async run."""
_RUN_FOLDERS = (
    str(Path(__file__).parents[2]),
    str(Path(langchain_core.__path__[0])),
    *map(str, langgraph.__path__),
)
"""The folders of the code that ends a run by itself."""
_ASYNCIO = str(Path(asyncio.__path__[0]))


def run_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[object, object, None],
    context: Context,
    close: Callable[[], None],
) -> asyncio.Task[None]:
    """Return the task of a run, which the end of its loop does not cancel: it calls `close`."""
    _enter(loop)
    context.run(_INSIDE.set, True)
    ended = loop.create_future()
    keeper = loop.create_task(_hold(ended, close))
    return loop.create_task(_ending(coroutine, ended, keeper), context=context)


async def _ending(
    coroutine: Coroutine[object, object, None],
    ended: asyncio.Future[None],
    keeper: asyncio.Task[None],
) -> None:
    try:
        await coroutine
    finally:
        _leave(ended.get_loop())
        ended.set_result(None)
        asyncio._unregister_task(keeper)  # who has the run's last event finds no task of it


async def _hold(ended: asyncio.Future[None], close: Callable[[], None]) -> None:
    while not ended.done():
        try:
            await asyncio.wait({ended})
        except asyncio.CancelledError:
            close()


class _Factory:
    """Makes the tasks of an event loop while runs are active on it.

    Attributes:
        before: The callbacks that make them otherwise.
        runs: How many runs are active.
    """

    def __init__(self, before: Callable[..., Any] | None) -> None:
        self.before, self.runs = before, 0

    def __call__(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        if self.before is None:
            task: Any = asyncio.Task(coroutine, loop=loop, **options)
        else:
            task = self.before(loop, coroutine, **options)
        context = options.get("context")
        is_inside = _INSIDE.get() if context is None else context.get(_INSIDE, False)
        if is_inside and (_ends_runs(_path_of(coroutine)) or _ends_runs(_maker())):
            asyncio._unregister_task(task)
        return task


def _enter(loop: asyncio.AbstractEventLoop) -> None:
    factory = loop.get_task_factory()
    if not isinstance(factory, _Factory):
        factory = _Factory(factory)
        loop.set_task_factory(factory)
    factory.runs += 1


def _leave(loop: asyncio.AbstractEventLoop) -> None:
    factory = loop.get_task_factory()
    if isinstance(factory, _Factory):
        factory.runs -= 1
        if not factory.runs:
            loop.set_task_factory(factory.before)


def _path_of(coroutine: object) -> str:
    return str(getattr(getattr(coroutine, "cr_code", None), "co_filename", ""))


def _maker() -> str:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_ASYNCIO):
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else ""


@cache
def _ends_runs(path: str) -> bool:
    return path.startswith(_RUN_FOLDERS)

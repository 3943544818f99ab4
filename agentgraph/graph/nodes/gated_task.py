"""A LangGraph task that waits at its gate before it runs: see `schedule.py`."""

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Any, cast

from langgraph.func import task

from agentgraph.agents.middleware import Mode
from agentgraph.graph.internals import get_runnable_for_task
from agentgraph.graph.result_saver import ResultSaver
from agentgraph.graph.sync_async import Calls, arun_calls, run_calls


class _Wrapped(Exception):
    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error

    def __repr__(self) -> str:
        return repr(self.error)


_COPIED = (TimeoutError, CancelledError, InvalidStateError)
"""The exceptions that asyncio's and concurrent's futures copy when one is wrapped in the other."""
_ENDING = (SystemExit, KeyboardInterrupt)
"""The exceptions by which a task ends its event loop: only the outermost one is to do so.

The loop's end closes the run, and runs the loop for that. A second task would end it there.
"""


def unwrapped(error: BaseException) -> BaseException:
    """Return the exception that a task raised, given the exception of its future."""
    return error.error if isinstance(error, _Wrapped) else error


Entry = tuple[Callable[[], Future[None]], ResultSaver | None, tuple[object, ...]]
"""The argument of a task, as one object, because LangGraph inspects each parameter: a function that it
calls on arrival, and that returns its gate; the saver of its result; the arguments of its function."""


TaskCall = Callable[..., object]
"""Calls a `GatedTask` with arguments, or finds its saved result, and returns a future."""
Start = Callable[[int, TaskCall], object]
"""Calls the task with a number by the function that it is given, and returns its future."""


class GatedTask:
    """A LangGraph task that waits at its gate before it runs a function.

    Attributes:
        name: The name by which LangGraph finds its results again.
        run: The function.
        is_leaf: Whether it runs one leaf, which may run without a task (`leaf_pool.py`).
        call: Calls it with an `Entry`.
    """

    def __init__(self, name: str, run: Callable[..., Any], *, is_leaf: bool = False) -> None:
        def call(entry: Entry) -> object:
            arrive, saver, arguments = entry
            try:
                arrive().result()
                result = run(*arguments)
                if saver is not None:
                    saver.save(result)
            except _COPIED as error:
                raise _Wrapped(error) from error
            return result

        async def acall(entry: Entry) -> object:
            arrive, saver, arguments = entry
            try:
                await asyncio.wrap_future(arrive())
                result = await run(*arguments)
                if saver is not None:
                    await saver.asave(result)
            except (*_COPIED, *_ENDING) as error:
                raise _Wrapped(error) from error
            return result

        as_task: Callable[..., object] = task(name=name)
        self.name, self.run, self.is_leaf = name, run, is_leaf
        self._function: Any = acall if iscoroutinefunction(run) else call
        self.call = cast(Callable[..., object], as_task(self._function))

    def start_with(self, *arguments: object) -> Start:
        """Return a function that starts it with arguments."""
        return lambda _, call: call(self, *arguments)

    @cached_property
    def runnable(self) -> Any:
        """LangGraph's runnable of the task, with a run for tracers; made again at each call."""
        return get_runnable_for_task(self._function)


def talk_tasks(
    name: str, talk: Callable[..., Calls[object]], *, is_leaf: bool = False
) -> dict[Mode, GatedTask]:
    """Return for each mode a task that runs a talk."""

    def run(*arguments: object) -> object:
        return run_calls(talk(*arguments))

    async def arun(*arguments: object) -> object:
        return await arun_calls(talk(*arguments))

    return {
        "sync": GatedTask(name, run, is_leaf=is_leaf),
        "async": GatedTask(name, arun, is_leaf=is_leaf),
    }

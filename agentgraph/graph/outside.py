"""Runs inside other runs: a `Runner` in a tool, a node, or anything else that LangGraph runs.

LangGraph finds in a context variable the node in which code runs, and takes each graph that is run
there for a subgraph of the node, with its saver, stream, limits and callbacks. A run of a `Runner` is a
separate run. So all calls of LangGraph are made in a copy of the caller's context in which that
variable is not set. All other variables stay: a tenant, a request id, and those by which LangSmith and
OpenTelemetry nest their traces.

Code inside a run must not wait for the end of that run, so what a run is inside of is noted. Nor must
code that the garbage collector calls: what it interrupted may hold what the run needs to end.
"""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import ParamSpec, TypeVar

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.runtime import RunControl, get_runtime

from agentgraph.graph.internals import tool_call_writer
from agentgraph.graph.nodes.callers import CALLER
from agentgraph.graph.nodes.replies import LISTENING
from agentgraph.graph.nodes.stopping import Stop

P = ParamSpec("P")
T = TypeVar("T")

_AROUND: ContextVar[tuple[RunControl, ...]] = ContextVar("around", default=())
"""The controls of all that is around this run."""


def call_outside(fn: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call a function as if it were called outside of all that LangGraph runs."""
    if var_child_runnable_config.get() is None:
        return fn(*args, **options)
    return outside().run(fn, *args, **options)


async def await_outside(fn: Callable[[], Coroutine[object, object, T]]) -> T:
    """Call a function and await what it returns, as if outside of all that LangGraph runs."""
    if var_child_runnable_config.get() is None:
        return await fn()

    async def called() -> T:  # if it is cancelled before it begins, there is nothing to await yet
        return await fn()

    return await asyncio.get_running_loop().create_task(called(), context=outside())


def outside() -> Context:
    """Return a copy of the context in which nothing of LangGraph is around."""
    context = copy_context()
    context.run(_leave)
    return context


def apart() -> Context:
    """Return a copy of the context for a run in the background, for whose end nothing around waits."""
    context = outside()
    context.run(_AROUND.set, ())
    return context


def is_within(control: RunControl) -> bool:
    """Return whether this code is part of a run, or of a run inside it."""
    return control in _controls() or control in _AROUND.get()


def is_collecting() -> bool:
    """Return whether the garbage collector calls this code."""
    return _collecting == [threading.get_ident()]


_collecting: list[int] = []
"""The thread in which the garbage collector runs, if it does."""


def _note_collection(phase: str, _: object) -> None:
    _collecting[:] = [threading.get_ident()] if phase == "start" else []


gc.callbacks.append(_note_collection)


def _leave() -> None:
    _AROUND.set((*_AROUND.get(), *_controls()))
    var_child_runnable_config.set(None)
    tool_call_writer.set(None)
    LISTENING.set(None)
    CALLER.set(None)


def _controls() -> list[Stop]:
    runtime = get_runtime() if var_child_runnable_config.get() else None
    return [*runtime.control.chain()] if runtime and isinstance(runtime.control, Stop) else []

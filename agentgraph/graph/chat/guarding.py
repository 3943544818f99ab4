"""Tools whose functions are guarded where they are called."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.errors import GraphBubbleUp, is_invalid_resume

from agentgraph.agents.around_tools import AroundTool, Passed
from agentgraph.errors import LimitError
from agentgraph.graph.nodes.stopping import Contained, stoppable


def guarded(tool: BaseTool) -> BaseTool:
    """Return a tool whose function is guarded where it is called.

    LangChain calls it in a task of its own, and goes on for a while when it has ended: what would end
    the event loop must be caught before, and when it has ended it is not to be cancelled any more.
    """
    if isinstance(tool, AroundTool):
        return tool.with_inner(lambda inner: _Passing(guarded(inner)))
    if not isinstance(tool, StructuredTool):
        return tool
    functions = {"func": _contained(tool.func), "coroutine": _stoppable(tool.coroutine)}
    return tool.model_copy(update=functions)


class _Passing(Runnable[Any, Any]):
    """A tool whose exceptions that steer the run are none that a retry or a fallback handles."""

    def __init__(self, tool: BaseTool) -> None:
        self._tool = tool

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        try:
            return self._tool.invoke(input, config, **kwargs)
        except Exception as error:
            return _passed(error)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        try:
            return await self._tool.ainvoke(input, config, **kwargs)
        except Exception as error:
            return _passed(error)


def _passed(error: Exception) -> Passed:
    if isinstance(error, GraphBubbleUp | LimitError) or is_invalid_resume(error):
        return Passed(error)
    raise error


def _contained(fn: Callable[..., Any] | None) -> Callable[..., Any] | None:
    if fn is None:
        return None

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with Contained(in_task=True):
            return fn(*args, **kwargs)

    return call


def _stoppable(fn: Callable[..., Any] | None) -> Callable[..., Any] | None:
    if fn is None:
        return None

    @wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with Contained(in_task=True), stoppable():
            return await fn(*args, **kwargs)

    return call


def is_guarded(tool: Any) -> bool:
    """Return whether a tool needs no guard around all of its call: its function has one, or is sync."""
    tool = tool.inner if isinstance(tool, AroundTool) else tool
    is_sync = isinstance(tool, BaseTool) and type(tool)._arun is BaseTool._arun
    return isinstance(tool, StructuredTool) or is_sync

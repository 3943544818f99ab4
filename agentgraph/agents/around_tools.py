"""Tools wrapped by `with_retry()`, `with_fallbacks([...])` or `with_config(...)`.

LangChain returns a runnable there, without a tool's name and arguments. `AroundTool` is a tool that
calls the runnable and has the name and arguments of the wrapped tool.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool


class Passed(NamedTuple):
    """Carries an exception past retries and fallbacks, which must not handle it."""

    error: Exception


class AroundTool(BaseTool):
    """A tool that is called through the runnable that wraps it; the model sees the wrapped tool.

    Attributes:
        inner: The wrapped tool.
        runnable: The runnable that wraps it.
    """

    inner: BaseTool
    runnable: Any

    @property
    def tool_call_schema(self) -> Any:
        """The arguments that the model sees."""
        return self.inner.tool_call_schema

    def get_input_schema(self, config: RunnableConfig | None = None) -> Any:
        """Return the arguments, including injected ones."""
        return self.inner.get_input_schema(config)

    @property
    def func(self) -> Any:
        """The function of the tool, if it has one."""
        return getattr(self.inner, "func", None)

    @property
    def coroutine(self) -> Any:
        """The coroutine function of the tool, if it has one."""
        return getattr(self.inner, "coroutine", None)

    def with_inner(self, change: Callable[[BaseTool], Any]) -> "AroundTool":
        """Return a copy with each tool in its runnable changed."""
        return self.model_copy(update={"runnable": _changed(self.runnable, change)})

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Call the runnable."""
        return _raised(self.runnable.invoke(input, config, **kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Call the runnable on the event loop."""
        return _raised(await self.runnable.ainvoke(input, config, **kwargs))

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner._run(*args, **kwargs)


def inner_tool(given: object) -> BaseTool | None:
    """Return the tool that a runnable wraps, or None.

    >>> from langchain_core.tools import tool
    >>> @tool
    ... def search(topic: str) -> str:
    ...     "Search the library."
    ...     return topic
    >>> inner_tool(search.with_retry().with_config(tags=["library"])).name
    'search'
    """
    if isinstance(given, RunnableWithFallbacks):
        given = given.runnable
    while isinstance(given, RunnableBindingBase):
        given = given.bound
    if isinstance(given, RunnableWithFallbacks):
        return inner_tool(given)
    return given if isinstance(given, BaseTool) else None


def around(runnable: Any, inner: BaseTool) -> AroundTool:
    """Return a tool for a runnable that wraps a tool."""
    return AroundTool(
        name=inner.name,
        description=inner.description,
        args_schema=inner.args_schema,
        return_direct=inner.return_direct,
        response_format=inner.response_format,
        metadata=inner.metadata,
        tags=inner.tags,
        extras=inner.extras,
        inner=inner,
        runnable=runnable,
    )


def _changed(runnable: Any, change: Callable[[BaseTool], Any]) -> Any:
    """Return a runnable with each tool in it changed."""
    if isinstance(runnable, BaseTool):
        return change(runnable)
    if isinstance(runnable, RunnableWithFallbacks):
        fallbacks = [_changed(each, change) for each in runnable.fallbacks]
        inner = _changed(runnable.runnable, change)
        return runnable.model_copy(update={"runnable": inner, "fallbacks": fallbacks})
    if isinstance(runnable, RunnableBindingBase):
        return runnable.model_copy(update={"bound": _changed(runnable.bound, change)})
    return runnable


def _raised(given: Any) -> Any:
    if isinstance(given, Passed):
        raise given.error
    return given

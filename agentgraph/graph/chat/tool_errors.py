"""The exceptions of tools: which go back to the model, and with which text."""

from collections.abc import Callable
from typing import get_args, get_type_hints

from agentgraph.agents.agents import OnToolError
from agentgraph.graph.nodes.asking import asked
from agentgraph.safe_repr import shown_error

ERROR_TEXT = "Error: {}\n Please fix your mistakes."


class UnknownToolError(Exception):
    """Carries the error of a call to an unknown tool through `ToolNode`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


async def error_result(error: Exception, on_tool_error: OnToolError, where: str = "") -> object:
    r"""Return the tool result for an exception; None if it must fail the agent.

    >>> from agentgraph.graph.sync_async import run_calls
    >>> def unreachable(error: ConnectionError) -> str:
    ...     return "The library is closed."
    >>> run_calls(error_result(ConnectionError("no route"), unreachable))
    'The library is closed.'
    >>> run_calls(error_result(ValueError("no topic"), unreachable))
    >>> run_calls(error_result(ValueError("no topic"), (ValueError, KeyError)))
    "Error: ValueError('no topic')\n Please fix your mistakes."
    """
    if on_tool_error == "raise" or not isinstance(error, handled_types(on_tool_error)):
        return None
    if on_tool_error == "return" or isinstance(on_tool_error, type | tuple):
        return ERROR_TEXT.format(shown_error(error))
    if isinstance(on_tool_error, str):
        return on_tool_error
    return await asked(where, "on_tool_error", on_tool_error, error)


def handled_types(on_tool_error: OnToolError) -> tuple[type[Exception], ...]:
    """Return the types of exceptions that go back to the model.

    For a function these are the types that annotate its first parameter.
    """
    if isinstance(on_tool_error, tuple):
        return on_tool_error
    if isinstance(on_tool_error, type):
        return (on_tool_error,)
    return (Exception,) if isinstance(on_tool_error, str) else _annotated(on_tool_error)


def _annotated(function: Callable[..., object]) -> tuple[type[Exception], ...]:
    try:
        hints = get_type_hints(getattr(function, "__func__", function))
    except Exception:  # the annotation cannot be resolved
        return (Exception,)
    named = [hint for name, hint in hints.items() if name != "return"][:1]
    kinds = [kind for hint in named for kind in (get_args(hint) or (hint,))]
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)) or (
        Exception,
    )

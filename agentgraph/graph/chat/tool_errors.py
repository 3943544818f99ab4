"""What a model is told of an exception in a tool, by `on_tool_error`, as in LangGraph's `ToolNode`."""

from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from agentgraph.safe_repr import shown_error

TOLD = "Error: {}\n Please fix your mistakes."


def told_of(error: Exception, on_tool_error: Any) -> Any:
    r"""Return what the model is told of an exception; None where it fails the agent.

    >>> def unreachable(error: ConnectionError) -> str:
    ...     return "The library is closed."
    >>> told_of(ConnectionError("no route"), unreachable)
    'The library is closed.'
    >>> told_of(ValueError("no topic"), unreachable)
    >>> told_of(ValueError("no topic"), (ValueError, KeyError))
    "Error: ValueError('no topic')\n Please fix your mistakes."
    """
    if on_tool_error == "raise" or not isinstance(error, handled_types(on_tool_error)):
        return None
    if on_tool_error == "return" or isinstance(on_tool_error, type | tuple):
        return TOLD.format(shown_error(error))
    return on_tool_error if isinstance(on_tool_error, str) else on_tool_error(error)


def handled_types(on_tool_error: Any) -> tuple[type[Exception], ...]:
    """Return the types of the exceptions that the model is told of.

    Those of a function are the types that its first parameter is annotated with.
    """
    if isinstance(on_tool_error, tuple):
        return on_tool_error
    if isinstance(on_tool_error, type):
        return (on_tool_error,)
    return (Exception,) if isinstance(on_tool_error, str) else _annotated(on_tool_error)


def _annotated(function: Callable[..., Any]) -> tuple[type[Exception], ...]:
    try:
        hints = get_type_hints(getattr(function, "__func__", function))
    except Exception:  # an annotation that cannot be resolved says nothing
        return (Exception,)
    named = [hint for name, hint in hints.items() if name != "return"][:1]
    kinds = [kind for hint in named for kind in (get_args(hint) or (hint,))]
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)) or (
        Exception,
    )

"""Hints for functions that return LangGraph's values or have LangGraph's signature."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from inspect import signature
from typing import Any

from agentgraph.safe_repr import shown

UPDATES = ("dict", "Command")
"""Names of the types that a LangGraph node returns."""

ROLES = ("ai", "assistant", "user", "human", "system", "tool")
"""The roles of messages in the short forms that LangChain reads: `("ai", "Hi.")`."""

_RAISED = "exceptions must derive from BaseException"
_SET = ("'mappingproxy' object does not support item", "'mappingproxy' object has no attribute")


def instead_of(value: object) -> str | None:
    """Return the hint for a returned state update or LangGraph command; None for other values.

    >>> instead_of({"topic": "bees"}), instead_of("Bees hum.")
    ('return ag.SetValues(topic=...)', None)
    """
    if isinstance(value, Mapping):
        is_message = value.get("role") in ROLES and "content" in value
        return "return the text itself, or an AIMessage" if is_message else _instead_of_update(value)
    if is_short_message(value):
        return "return the text itself, or an AIMessage"
    if type(value).__name__ == "Result" and _is_signal(type(value)):
        return "return its text: result.text"
    if isinstance(value, type):
        return f"return an object of it, as in ag.{value.__name__}()" if _is_signal(value) else None
    if type(value).__name__ != "Command":
        return None
    command: Any = value
    parts = [_instead_of_update(command.update)] if isinstance(command.update, Mapping) else []
    if isinstance(command.goto, str):
        parts.append(f"return ag.TransferTo({shown(command.goto)})")
    return ", and ".join(parts) or "return ag.SetValues(name=...) or ag.TransferTo(name)"


def is_short_message(value: object) -> bool:
    """Return whether a value is a message in LangChain's short form, such as `("ai", "Hi.")`."""
    return (
        type(value) is tuple
        and len(value) == 2
        and isinstance(value[0], str)
        and value[0] in ROLES
        and isinstance(value[1], str)
    )


def _instead_of_update(update: Mapping[Any, object]) -> str:
    names = [
        name for name in update if isinstance(name, str) and name.isidentifier() and name != "messages"
    ]
    parts = ["the messages themselves"] if "messages" in update else []
    if names or not parts:
        parts.append(f"ag.SetValues({', '.join(f'{name}=...' for name in names or ['name'])})")
    return f"return {' and '.join(parts)}"


def _is_signal(kind: type) -> bool:
    return kind.__module__.startswith("agentgraph.")


def node_faults(fn: Callable[..., Any], returned: str) -> Iterator[str]:
    """Yield the faults of a function that is written for a LangGraph node.

    Args:
        fn: The function.
        returned: The name of the type that it returns, as its annotation says.
    """
    if (kind := returned.partition("[")[0]) in UPDATES:
        yield (
            f"its function returns a {kind}, as its annotation says; return ag.SetValues(topic=...) or "
            "ag.TransferTo(name)"
        )
    with suppress(ValueError):  # some functions that are written in C have no signature
        called = signature(fn, follow_wrapped=False)  # a decorator may pass further arguments
        try:
            called.bind(None)
        except TypeError:
            yield (
                f"its function takes {called.replace(return_annotation=called.empty)}; it takes one "
                "argument, a Context: LangGraph's state is in ctx.messages and ctx.values, its config "
                "in ctx.config"
            )


def note_on(error: BaseException) -> str | None:
    """Return the hint for a function that raised a signal or set a context value; None for others."""
    text = str(error.args[0]) if type(error) in (TypeError, AttributeError) and error.args else ""
    if text == _RAISED:
        return "Return or yield a signal, as in `return ag.BreakLoop()`; it is not raised."
    if text.startswith(_SET):
        return "ctx.values is read-only; write a value with `return ag.SetValues(name=...)`."
    return None

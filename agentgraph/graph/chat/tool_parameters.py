"""The parameters of tools that the model does not fill: the state, and the `Context`."""

from collections.abc import Sequence
from inspect import unwrap
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode

from agentgraph.agents.context import Context
from agentgraph.agents.tools import function_of
from agentgraph.graph.chat.flattened import injected_fields
from agentgraph.graph.copied_values import private


def validated(node: ToolNode, name: str) -> list[str | None]:
    """Return the keys of the state that a tool gets as pydantic copies them; None for all of it.

    Of a state that may be any dict pydantic copies nothing inside it.
    """
    fields, hints = injected_fields(node, name), hints_of(node.tools_by_name[name])
    return [key for each, key in fields.items() if key is not None or not _is_open(hints.get(each))]


def _is_open(hint: object) -> bool:
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return kind is dict or (get_origin(kind) is dict and get_args(kind)[1] in (Any, object))


def injected(state: dict[str, Any], fields: Sequence[str | None]) -> dict[str, Any]:
    """Return the state with own values in plain lists and dicts where pydantic copies them."""
    if None in fields:
        return private(state)
    return {**state, **{field: private(state[field]) for field in fields if field in state}}


def context_parameters(tool: BaseTool) -> tuple[str, ...]:
    """Return the names of the parameters of a tool that are annotated with `Context`.

    >>> from langchain_core.tools import tool
    >>> def count(word: str, ctx: Context) -> int:
    ...     "Count a word in all messages."
    ...     return sum(message.text.count(word) for message in ctx.messages)
    >>> context_parameters(tool(count))
    ('ctx',)
    """
    hints = hints_of(tool).items()
    return tuple(name for name, hint in hints if name != "return" and _has_context(hint))


def hints_of(tool: BaseTool) -> dict[str, object]:
    """Return the types of the parameters of a tool."""
    hints = get_type_hints(unwrap(function_of(tool)), include_extras=True)
    return {**tool.get_input_schema().__annotations__, **hints}


def _has_context(hint: object) -> bool:
    return (get_origin(hint) or hint) is Context or any(map(_has_context, get_args(hint)))

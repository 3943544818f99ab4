"""Checks the arguments of the page's calls, which are untrusted JSON data."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import ErrorDetails

from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown

_CONFIG = ConfigDict(extra="forbid", strict=True)


def checked(name: str, function: Callable[..., object], arguments: object) -> dict[str, Any]:
    """Return the arguments of a call, converted to the types of its function.

    Args:
        name: The name of the call.
        function: The method that answers the call.
        arguments: The arguments by name.

    Raises:
        AgentGraphError: An argument is missing, unknown, or of another type than the function declares.
    """
    if not isinstance(arguments, Mapping):
        raise AgentGraphError(
            f"{name}: the arguments must be a JSON object, got {shown(arguments)}; pass {{...}}"
        )
    try:
        given = _model_of(function).model_validate(dict(arguments))
    except ValidationError as error:
        faults = "; ".join(_fault(name, each) for each in error.errors(include_url=False))
        raise AgentGraphError(faults) from None
    return {key: getattr(given, key) for key in given.model_fields_set}


@cache
def _model_of(function: Callable[..., object]) -> type[BaseModel]:
    fields: dict[str, Any] = {
        each.name: (each.annotation, ... if each.default is each.empty else each.default)
        for each in inspect.signature(function, eval_str=True).parameters.values()
        if each.name != "self"
    }
    return create_model("Arguments", __config__=_CONFIG, **fields)


def _fault(name: str, error: ErrorDetails) -> str:
    where = ".".join(map(str, error["loc"]))
    if error["type"] == "missing":
        return f"{name}: {where} is missing; pass it"
    if error["type"] == "extra_forbidden":
        return f"{name}: the argument {shown(where)} is unknown; leave it out"
    if error["type"] == "model_type":
        return (
            f"{name}: {where} must be a JSON object, got {shown(error['input'])}; pass fields by name"
        )
    return f"{name}: {where}={shown(error['input'])}: {error['msg']}"

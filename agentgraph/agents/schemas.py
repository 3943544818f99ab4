"""Types and JSON schemas that answers and outputs must fit.

The checkpoint stores a question with its schema as a JSON schema, so that any process can check an
answer.
"""

import json
from dataclasses import is_dataclass
from inspect import isroutine
from types import UnionType
from typing import Any, Union, get_args, get_origin

from langchain_core.utils.json import parse_json_markdown
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from typing_extensions import is_typeddict

from agentgraph.agents.json_schemas import data_fault, joined, keyword_fault
from agentgraph.agents.signals import ResponseSchema
from agentgraph.errors import AgentGraphError, InvalidOutputError
from agentgraph.safe_repr import reason, said, shown

_NAME = "response"
"""The name of a JSON schema without a title."""
_STRATEGIES = "langchain.agents.structured_output"
"""The module of LangChain's strategies such as `ToolStrategy`; importing it imports langgraph."""


def plain(value: Any) -> Any:
    """Return `value` as plain JSON data, as checkpoints and events contain it.

    Raises:
        AgentGraphError: The value has no JSON form.
    """
    try:
        return to_jsonable_python(value, by_alias=True)
    except Exception as error:
        raise AgentGraphError(_no_form(value, error)) from error


def plain_at(where: str, named: str, value: Any) -> Any:
    """Return a value that an agent produced as plain JSON data.

    Args:
        where: The address of the agent.
        named: The name of the value in an error message.
        value: The value.

    Raises:
        InvalidOutputError: The value has no JSON form.
    """
    try:
        return to_jsonable_python(value, by_alias=True)
    except Exception as error:
        raise InvalidOutputError(f"{where}: {named} {_no_form(value, error)}") from error


def _no_form(value: Any, error: Exception) -> str:
    return (
        f"{shown(value)} has no JSON form ({said(error)}); use plain data: strings, numbers, "
        "lists, dicts"
    )


def json_schema(schema: ResponseSchema) -> dict[str, Any] | None:
    """Return a response schema as a JSON schema; None for None."""
    if schema is None or isinstance(schema, dict):
        return schema
    if isroutine(schema):
        raise TypeError("a function is not a type")
    return TypeAdapter(schema).json_schema()


def schema_fault(schema: ResponseSchema) -> str | None:
    """Return what is wrong with a response schema, or None."""
    try:
        as_json = json_schema(schema)
        why = None if as_json is None else keyword_fault(as_json)
    except Exception as error:
        why = reason(error)
    if why is None:
        return None
    return f"the response schema {shown(schema)} is neither a type nor a JSON schema ({why})"


def checkable(schema: Any) -> dict[str, Any] | None:
    """Return the schema of a LangGraph question as a JSON schema, or None if it cannot be one.

    Without a schema, LangGraph checks the answer itself, when the node that asked runs again.
    """
    return None if schema_fault(schema) else json_schema(schema)


def schema_in(given: Any) -> Any:
    """Return the schema of an `output_schema`, which may be inside a LangChain strategy."""
    return given.schema if type(given).__module__ == _STRATEGIES else given


def answer_tools(given: Any) -> list[str]:
    """Return the names of the tools by which a model may answer, one for each schema of an object.

    LangChain accepts pydantic models, dataclasses, typed dicts and JSON schemas.

    >>> answer_tools({"title": "Trip", "type": "object"}), answer_tools(list[int])
    (['Trip'], [])
    """
    if type(given).__module__ == _STRATEGIES:
        specs = getattr(given, "schema_specs", None)
        by_provider = hasattr(given, "schema_spec")
        return (
            [spec.name for spec in specs]
            if specs
            else []
            if by_provider
            else answer_tools(given.schema)
        )
    kinds = get_args(given) if get_origin(given) in (Union, UnionType) else [given]
    kinds = given.get("oneOf", kinds) if isinstance(given, dict) else kinds
    if not all(map(_is_of_object, kinds)):
        return []
    return [answer_name(kind, number) for number, kind in enumerate(kinds, 1)]


def answer_name(schema: Any, number: int = 1) -> str:
    """Return the name of an output schema; without a title "response", numbered from the second on."""
    if not isinstance(schema, dict):
        return str(schema.__name__)
    return str(schema.get("title") or (_NAME if number == 1 else f"{_NAME}_{number}"))


def _is_of_object(schema: Any) -> bool:
    if not isinstance(schema, dict):
        is_known = isinstance(schema, type) and (issubclass(schema, BaseModel) or is_dataclass(schema))
        if not is_known and not is_typeddict(schema):
            return False
        try:
            schema = json_schema(schema) or {}
        except Exception:  # reported as a fault
            return False
    return "$ref" in schema or schema.get("type") == "object"


def output_fault(given: Any) -> str | None:
    """Return what is wrong with an output schema, or None; any type that pydantic knows is valid."""
    schema = schema_in(given)
    if schema is None or isinstance(schema, dict):
        fault = schema_fault(schema)
        return fault and fault.replace("response schema", "output schema", 1)
    try:
        json_schema(schema)
    except Exception as error:
        why = reason(error)
        return f"the output schema {shown(schema)} is neither a type nor a JSON schema ({why})"
    return None


def answer_fault(schema: dict[str, Any] | None, answer: Any) -> str | None:
    """Return why plain data does not fit a JSON schema, or None.

    >>> answer_fault({"enum": ["yes", "no"]}, "maybe")
    "must be one of ['yes', 'no']"
    """
    return None if schema is None else data_fault(schema, answer)


def typed(schema: Any, data: Any) -> Any:
    """Return plain data validated by a schema: for a type, as a value of that type.

    Raises:
        ValueError: The data does not fit; the message says why.
    """
    if isinstance(schema, dict):
        if fault := answer_fault(schema, data):
            raise ValueError(fault)
        return data
    try:
        return TypeAdapter(schema).validate_python(data)
    except ValidationError as error:
        raise ValueError(validation_faults(error)) from None


def read_json(text: str) -> Any:
    """Return the data of a JSON text, which may be in a Markdown code fence.

    Raises:
        ValueError: The text is not valid JSON.
    """
    try:
        return parse_json_markdown(text, parser=json.loads)
    except (ValueError, RecursionError):
        raise ValueError("it is not valid JSON") from None


def validation_faults(error: ValidationError) -> str | None:
    """Return what is wrong, as pydantic found it, with where."""
    return joined((each["loc"], each["msg"].removeprefix("Value error, ")) for each in error.errors())

"""What an answer must fit: types and JSON schemas, checked by pydantic.

A question is kept in the checkpoint, so its schema is kept there as a JSON schema, and an
answer is checked against that, in whatever process it arrives. A schema with a keyword that
cannot be checked is refused when the agent is compiled or the question put, never ignored;
`oneOf` is read as `anyOf`, and of formats only dates, times, durations and UUIDs are checked.
"""

import json
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from functools import reduce
from inspect import isroutine
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin
from uuid import UUID

from langchain_core.utils.json import parse_json_markdown
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict, is_typeddict

from agentgraph.errors import AgentGraphError, InvalidOutputError
from agentgraph.safe_repr import reason, said, shown

_NOTES = frozenset(
    {"$comment", "$defs", "$id", "$schema", "default", "deprecated", "description", "discriminator"}
    | {"examples", "readOnly", "title", "writeOnly"}
)
_STRING = {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern", "format": ""}
_NUMBER = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "format": "",
}
_ARRAY = {"minItems": "min_length", "maxItems": "max_length", "items": "", "prefixItems": ""}
_OBJECT = {"properties": "", "required": "", "additionalProperties": ""}
_KINDS: dict[str, tuple[Any, dict[str, str]]] = {
    "string": (str, _STRING),
    "integer": (int, _NUMBER),
    "number": (float, _NUMBER),
    "boolean": (bool, {}),
    "null": (None, {}),
    "array": (list, _ARRAY),
    "object": (dict, _OBJECT),
}
_FORMATS: dict[str, Any] = {
    "date": Annotated[str, AfterValidator(date.fromisoformat)],
    "date-time": Annotated[str, AfterValidator(datetime.fromisoformat)],
    "time": Annotated[str, AfterValidator(time.fromisoformat)],
    "duration": timedelta,
    "uuid": Annotated[str, AfterValidator(UUID)],
}


_NAME = "response"
"""How a JSON schema without a title is called."""
_STRATEGIES = "langchain.agents.structured_output"
"""The module of LangChain's `ToolStrategy` and its like; importing it imports langgraph."""
_SHAPE = "Answer"
"""How pydantic names what an object must fit, where several kinds of it would do."""


class _Refused(Exception):
    """A schema that cannot be checked; the message says why."""


def plain(value: Any) -> Any:
    """Return `value` as plain JSON data: what the checkpoint keeps and every event tells.

    Raises:
        AgentGraphError: The value has no JSON form.
    """
    try:
        return to_jsonable_python(value, by_alias=True)
    except Exception as error:
        raise AgentGraphError(_no_form(value, error)) from error


def plain_at(where: str, named: str, value: Any) -> Any:
    """Return what an agent gives as plain JSON data.

    Args:
        where: The address of the agent.
        named: What the value is called in a message.
        value: What it gives.

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


def json_schema(schema: type | dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a response schema as JSON schema; None stays None."""
    if schema is None or isinstance(schema, dict):
        return schema
    if isroutine(schema):
        raise TypeError("a function is no type")
    return TypeAdapter(schema).json_schema()


def schema_fault(schema: type | dict[str, Any] | None) -> str | None:
    """Return what is wrong with a response schema, or None."""
    try:
        as_json = json_schema(schema)
        if as_json is not None:
            _adapter(as_json)
    except _Refused as refused:
        return f"the response schema {refused}"
    except Exception as error:
        why = reason(error)
        return f"the response schema {shown(schema)} is neither a type nor a JSON schema ({why})"
    return None


def checkable(schema: Any) -> dict[str, Any] | None:
    """Return the schema of a question of LangGraph's as JSON schema, or None where it says too much.

    LangGraph checks answers to such a question itself, when the node that asked runs again.
    """
    return None if schema_fault(schema) else json_schema(schema)


def schema_in(given: Any) -> Any:
    """Return the schema of an `output_schema`, which one of LangChain's strategies has inside."""
    return given.schema if type(given).__module__ == _STRATEGIES else given


def answer_tools(given: Any) -> list[str]:
    """Return the names of the tools, one for each schema of an object, by which a model may answer.

    These are the schemas that LangChain knows: models, dataclasses, typed dicts, JSON schemas.

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
    """Return the name of an output schema; without a title it is "response", maybe with a number."""
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
        except Exception:  # told as a fault
            return False
    return "$ref" in schema or schema.get("type") == "object"


def output_fault(given: Any) -> str | None:
    """Return what is wrong with an output schema, or None; a type may be any that pydantic knows."""
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
    if schema is None:
        return None
    return _fault(_adapter(schema), answer)


def typed(schema: Any, data: Any) -> Any:
    """Return plain data as what a schema makes of it: of a type, a value of that type.

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
        raise ValueError(_faults(error)) from None


def read_json(text: str) -> Any:
    """Return what a text says as JSON, maybe fenced as in Markdown.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return parse_json_markdown(text, parser=json.loads)
    except (ValueError, RecursionError):
        raise ValueError("it is not valid JSON") from None


def _fault(adapter: TypeAdapter[Any], answer: Any) -> str | None:
    try:
        adapter.validate_json(json.dumps(answer), strict=True)
    except ValidationError as error:
        return _faults(error)
    return None


def _faults(error: ValidationError) -> str:
    return "; ".join(dict.fromkeys(_told(fault["loc"], fault["msg"]) for fault in error.errors()))


def _told(where: tuple[Any, ...], message: str) -> str:
    text = message.removeprefix("Value error, ")
    named = [str(part) for part in where if part != _SHAPE]
    return f"{'.'.join(named)}: {text}" if named else text


def _adapter(schema: dict[str, Any]) -> TypeAdapter[Any]:
    return TypeAdapter(_typed(schema, schema.get("$defs", {}), ()))


def _typed(schema: Any, defs: dict[str, Any], within: tuple[str, ...]) -> Any:
    if schema is True or schema == {}:
        return Any
    if not isinstance(schema, dict):
        raise _Refused(f"has {shown(schema)} where a schema should stand")
    rest = {k: v for k, v in schema.items() if k not in _NOTES and not k.startswith("x-")}
    if "$ref" in rest:
        return _referred(rest, defs, within)
    for words in ("anyOf", "oneOf"):
        if words in rest:
            _only(rest, {words})
            referred = [_followed(each, defs) for each in rest[words]]
            if tag := _tag(referred):
                constants = [each["properties"][tag]["const"] for each in referred]
                kinds = [_typed(each, defs, within) for each in rest[words]]
                return _tagged(tag, constants, kinds)
            return reduce(or_, (_optional(_typed(s, defs, within)) for s in rest[words]))
    if "allOf" in rest and len(rest["allOf"]) == 1:
        _only(rest, {"allOf"})
        return _typed(rest["allOf"][0], defs, within)
    if "enum" in rest or "const" in rest:
        _only(rest, {"enum", "const", "type"})
        of_kind = {"type": rest["type"]} if "type" in rest else None
        values = rest.get("enum", [rest.get("const")])
        return _one_of([value for value in values if answer_fault(of_kind, value) is None])
    kinds = rest.pop("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not kinds:
        _only(rest, set())
        return Any
    _only(rest, {key for kind in kinds for key in _kind(kind)[1]})
    return reduce(or_, (_optional(_of_kind(kind, rest, defs, within)) for kind in kinds))


def _tag(alternatives: list[Any]) -> str | None:
    """Return the property that tells objects apart: each must have it, with a constant of its own."""
    tags = [
        {
            name
            for name in (each.get("required", ()) if isinstance(each, dict) else ())
            if "const" in (each.get("properties", {}).get(name) or ())
        }
        for each in alternatives
    ]
    return min(set.intersection(*tags), default=None) if tags else None


def _followed(schema: Any, defs: dict[str, Any]) -> Any:
    """Return the definition that a schema refers to, if it only refers to one."""
    if not isinstance(schema, dict) or "$ref" not in schema:
        return schema
    return defs.get(str(schema["$ref"]).removeprefix("#/$defs/"))


def _tagged(tag: str, constants: list[Any], kinds: list[Any]) -> Any:
    """Return a kind that is checked against the alternative that its tag names, for a clear fault."""
    adapters = [TypeAdapter(kind) for kind in kinds]

    def check(answer: Any) -> Any:
        named = answer.get(tag) if isinstance(answer, dict) else None
        if named not in constants:
            raise ValueError(f"{tag} must be one of {constants}")
        if fault := _fault(adapters[constants.index(named)], answer):
            raise ValueError(fault)
        return answer

    return Annotated[Any, AfterValidator(check)]


def _in_order(rest: dict[str, Any], defs: dict[str, Any], within: tuple[str, ...]) -> Any:
    """Return the kind of an array with a schema for each of its items."""
    count = len(rest["prefixItems"])
    if rest.get("items") or not count == rest.get("minItems") == rest.get("maxItems"):
        raise _Refused(
            f"has {count} prefixItems; give it minItems and maxItems of {count}, and no items"
        )
    adapters = [TypeAdapter(_typed(each, defs, within)) for each in rest["prefixItems"]]

    def check(answer: list[Any]) -> list[Any]:
        if len(answer) != count:
            raise ValueError(f"must have {count} item{'s' * (count != 1)}, and has {len(answer)}")
        faults = [_fault(*pair) for pair in zip(adapters, answer, strict=True)]
        if told := [f"{i}: {fault}" for i, fault in enumerate(faults) if fault]:
            raise ValueError("; ".join(told))
        return answer

    return Annotated[list[Any], AfterValidator(check)]


def _referred(rest: dict[str, Any], defs: dict[str, Any], within: tuple[str, ...]) -> Any:
    _only(rest, {"$ref"})
    name = str(rest["$ref"]).removeprefix("#/$defs/")
    if name not in defs:
        raise _Refused(f"refers to {rest['$ref']!r}, which is not under its $defs")
    if name in within:
        raise _Refused(f"refers to itself in {name!r}; a schema that contains itself is not supported")
    return _typed(defs[name], defs, (*within, name))


def _of_kind(kind: str, rest: dict[str, Any], defs: dict[str, Any], within: tuple[str, ...]) -> Any:
    base, words = _kind(kind)
    if kind == "array" and "prefixItems" in rest:
        return _in_order(rest, defs, within)
    if kind == "string":
        base = _FORMATS.get(rest.get("format", ""), str)
    if kind == "array":
        base = list[_typed(rest.get("items", True), defs, within)]  # type: ignore[misc]
    if kind == "object":
        base = _object(rest, defs, within)
    limits = {words[key]: value for key, value in rest.items() if words.get(key)}
    return Annotated[base, Field(**limits)] if limits else base


def _object(rest: dict[str, Any], defs: dict[str, Any], within: tuple[str, ...]) -> Any:
    more = rest.get("additionalProperties", True)
    more = True if more == {} else more
    required = rest.get("required", [])
    properties = {**dict.fromkeys(required, True), **rest.get("properties", {})}
    if not properties:
        return dict[str, _typed(more, defs, within)] if more else _shape({}, extra="forbid")  # type: ignore[misc]
    if isinstance(more, dict) and more:
        raise _Refused(
            "has both properties and a schema for additionalProperties, which is not supported"
        )
    fields = {
        key: (Required if key in required else NotRequired)[_typed(value, defs, within)]
        for key, value in properties.items()
    }
    return _shape(fields, extra="allow" if more else "forbid")


def _shape(fields: dict[str, Any], *, extra: Literal["allow", "forbid"]) -> Any:
    make: Any = TypedDict  # a checker wants the fields written out
    shape = make(_SHAPE, fields)
    shape.__pydantic_config__ = ConfigDict(extra=extra)
    return shape


def _one_of(values: list[Any]) -> Any:
    allowed = {json.dumps(value, sort_keys=True) for value in values}

    def check(answer: Any) -> Any:
        if json.dumps(answer, sort_keys=True) not in allowed:
            raise ValueError(f"must be one of {values}")
        return answer

    return Annotated[Any, AfterValidator(check)]


def _kind(kind: str) -> tuple[Any, dict[str, str]]:
    if kind not in _KINDS:
        raise _Refused(f"has the unknown type {kind!r}; use one of {', '.join(_KINDS)}")
    return _KINDS[kind]


def _only(rest: dict[str, Any], known: set[str]) -> None:
    if unknown := sorted(rest.keys() - known):
        words = ", ".join(map(repr, unknown))
        raise _Refused(f"uses {words}, which answers cannot be checked against; leave it out")


def _optional(kind: Any) -> Any:
    return Literal[None] if kind is None else kind

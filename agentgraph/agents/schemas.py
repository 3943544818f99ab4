"""Types and JSON schemas that answers and outputs must fit, and the faults of data that does not.

The checkpoint stores a question with its schema as a JSON schema (draft 2020-12), so that any process
can check an answer. The checked formats are dates, times, durations, UUIDs and regular expressions, on
every machine. The package `jsonschema` is imported when first used: it loads a compiled extension.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from inspect import isroutine
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin
from uuid import UUID

from langchain_core.utils.json import parse_json_markdown
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from typing_extensions import is_typeddict

from agentgraph.agents.signals import JsonSchema, ResponseSchema
from agentgraph.errors import AgentGraphError, InvalidOutputError
from agentgraph.safe_repr import cut, error_text, reason, shown

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from jsonschema.exceptions import ValidationError as SchemaError
    from jsonschema.protocols import Validator


Fault = tuple[tuple[str | int, ...], str]
"""The location of a fault in data, and the reason."""

_LONGEST = 200
_ONE_OF = "must be one of "
_DATA = ("const", "default", "enum", "examples")
"""The keywords whose values are data, not schemas."""
_KINDS = {"array": "a valid array", "boolean": "a valid boolean", "integer": "a valid integer"} | {
    "null": "None",
    "number": "a valid number",
    "object": "an object",
    "string": "a valid string",
}
_BOUNDS = {
    "exclusiveMaximum": "less than",
    "exclusiveMinimum": "greater than",
    "maximum": "less than or equal to",
    "minimum": "greater than or equal to",
    "multipleOf": "a multiple of",
}


def keyword_fault(schema: JsonSchema) -> str | None:
    """Return the fault of a JSON schema, or None."""
    if unknown := [each for each in references(schema) if not _is_resolved(schema, each)]:
        return f"it refers to {shown(unknown[0])}, which is not in it"
    kind = _validator_class()
    return _in_words(kind(kind.META_SCHEMA, format_checker=_formats()), schema)


def data_fault(schema: JsonSchema, data: object) -> str | None:
    """Return the reason why plain data does not fit a valid JSON schema, or None.

    >>> data_fault({"required": ["size"], "properties": {"of": {"const": 1}}}, {"of": 2})
    'size: Field required; of: must be one of [1]'
    """
    try:
        return _in_words(_validator(schema), data)
    except RecursionError:
        return "it is nested too deep to be checked"
    except (OverflowError, ValueError) as error:  # of `multipleOf`, for infinite and huge numbers
        return f"a number in it cannot be checked ({error})"


def joined(faults: Iterable[Fault]) -> str | None:
    """Join faults to one text without duplicates, each after its location; None without faults."""
    texts = (f"{'.'.join(map(str, at))}: {why}" if at else why for at, why in faults)
    return "; ".join(dict.fromkeys(texts)) or None


def _validator(schema: JsonSchema) -> "Validator":
    """Return the validator of a schema; it never fetches remote references."""
    from referencing import Registry

    made: Validator = _validator_class()(schema, registry=Registry(), format_checker=_formats())
    return made


@cache
def _validator_class() -> "type[Validator]":
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, data: isinstance(data, int) and not isinstance(data, bool)
    )
    made: type[Validator] = _any(extend)(Draft202012Validator, type_checker=checker)
    return made


@cache
def _formats() -> "FormatChecker":
    from jsonschema import FormatChecker

    checker, duration = FormatChecker(formats=()), TypeAdapter(timedelta)
    read: dict[str, Callable[[str], object]] = {
        "date": date.fromisoformat,
        "date-time": datetime.fromisoformat,
        "duration": duration.validate_python,
        "regex": re.compile,
        "time": time.fromisoformat,
        "uuid": UUID,
    }
    for name, each in read.items():
        checker.checks(name, raises=(ValueError, re.error))(_reads(each))
    return checker


def _reads(read: Callable[[str], object]) -> Callable[[object], bool]:
    def fits(data: object) -> bool:
        return not isinstance(data, str) or read(data) is not None

    return fits


def references(schema: object) -> Iterator[str]:
    """Yield the references (`$ref`) in a schema."""
    inside: Iterable[object] = schema if isinstance(schema, list) else ()
    if isinstance(schema, dict):
        if isinstance(at := schema.get("$ref"), str):
            yield at
        inside = [value for key, value in schema.items() if key not in _DATA]
    for each in inside:
        yield from references(each)


def _is_resolved(schema: JsonSchema, reference: str) -> bool:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource = DRAFT202012.create_resource(schema)
    try:
        Registry().resolver_with_root(resource).lookup(reference)
    except Unresolvable:
        return False
    return True


def _in_words(validator: "Validator", data: Any) -> str | None:
    faults = [fault for error in validator.iter_errors(data) for fault in _faults(error)]
    named = {at for at, why in faults if why.startswith(_ONE_OF)}
    return joined(fault for fault in faults if fault[0] not in named or fault[1].startswith(_ONE_OF))


def _faults(error: "SchemaError") -> Iterator[Fault]:
    at, data, wanted = tuple(error.absolute_path), _any(error.instance), _any(error.validator_value)
    match error.validator:
        case "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            yield at, f"Input should be {' or '.join(_KINDS[kind] for kind in kinds)}"
        case "enum":
            yield at, _ONE_OF + shown(wanted)
        case "const":
            yield at, _ONE_OF + shown([wanted])
        case "required":
            yield from (((*at, name), "Field required") for name in wanted if name not in data)
        case "additionalProperties" if wanted is False:
            yield from (((*at, name), "Extra inputs are not permitted") for name in _extra(error))
        case "anyOf" | "oneOf" if error.context:
            yield from _of_alternatives(error)
        case "anyOf" | "oneOf":
            yield at, "fits more than one of its alternatives"
        case "minItems" | "maxItems":
            limit = "at least" if error.validator == "minItems" else "at most"
            yield at, f"must have {limit} {wanted} item{'s' * (wanted != 1)}, and has {len(data)}"
        case "format":
            yield at, f"Input should be a valid {wanted}"
        case str(bound) if bound in _BOUNDS:
            yield at, f"Input should be {_BOUNDS[bound]} {shown(wanted)}"
        case _:
            yield at, cut(error.message, _LONGEST)


def _extra(error: "SchemaError") -> list[str]:
    schema = _any(error.schema)
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [
        name
        for name in _any(error.instance)
        if name not in known and not any(re.search(pattern, name) for pattern in patterns)
    ]


def _of_alternatives(error: "SchemaError") -> Iterator[Fault]:
    """Yield the reasons why data fits no alternative, with the faults of the intended ones only.

    An alternative is intended if its type and constants match: `{"type": "reject"}` is not an approval.
    """
    each: dict[str | int, list[SchemaError]] = defaultdict(list)
    for inner in error.context:
        each[inner.relative_schema_path[0]].append(inner)
    tags = [[inner for inner in errors if _is_of_tag(inner, error)] for errors in each.values()]
    meant = [errors for errors, tag in zip(each.values(), tags, strict=True) if not tag]
    if meant:
        yield from (fault for errors in meant for inner in errors for fault in _faults(inner))
        return
    wanted: dict[tuple[str | int, ...], list[object]] = defaultdict(list)
    for inner in (inner for tag in tags for inner in tag):
        if inner.validator == "const":
            wanted[tuple(inner.absolute_path)].append(inner.validator_value)
    yield from ((at, _ONE_OF + shown(values)) for at, values in wanted.items())
    if not wanted:
        yield from (fault for errors in tags for inner in errors for fault in _faults(inner))


def _is_of_tag(inner: "SchemaError", outer: "SchemaError") -> bool:
    """Return whether an error rules its alternative out: a wrong type, or a wrong constant inside."""
    depth = len(inner.absolute_path) - len(outer.absolute_path)
    return (inner.validator == "const" and depth == 1) or (inner.validator == "type" and depth == 0)


def _any(value: object) -> Any:
    """Return a value as `Any`, because the package's types are incomplete."""
    return value


_NAME = "response"
"""The name of a JSON schema without a title."""
_STRATEGIES = "langchain.agents.structured_output"
"""The module of LangChain's strategies such as `ToolStrategy`; importing it imports langgraph."""


def plain(value: object) -> Any:
    """Convert a value to the plain JSON data of checkpoints and events.

    Raises:
        AgentGraphError: The value has no JSON form.
    """
    try:
        return to_jsonable_python(value, by_alias=True)
    except Exception as error:
        raise AgentGraphError(_no_form(value, error)) from error


def plain_at(where: str, named: str, value: object) -> Any:
    """Convert a value that an agent produced to plain JSON data.

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


def _no_form(value: object, error: Exception) -> str:
    return (
        f"{shown(value)} has no JSON form ({error_text(error)}); use plain data: strings, numbers, "
        "lists, dicts"
    )


_SHORT = 40
_NO_TYPE = "Unable to generate pydantic-core schema for "


def json_schema(schema: ResponseSchema) -> JsonSchema | None:
    """Convert a response schema to a JSON schema; None stays None."""
    if schema is None or isinstance(schema, dict):
        return schema
    if isroutine(schema):
        raise TypeError("a function is not a type")
    return TypeAdapter(schema).json_schema()


def schema_fault(schema: ResponseSchema) -> str | None:
    """Return the fault of a response schema, or None."""
    try:
        as_json = json_schema(schema)
        why = None if as_json is None else keyword_fault(as_json)
    except Exception as error:
        why = type_fault(error)
    return None if why is None else _not_a_schema("response", schema, why)


def type_fault(error: Exception) -> str:
    """Return the fault of a type; that of pydantic has the `repr` of the whole value."""
    why = reason(error)
    is_unknown = why.startswith(_NO_TYPE) or "is not fully defined" in why
    return "pydantic knows no such type" if is_unknown else why


def _not_a_schema(what: str, schema: object, why: str) -> str:
    fault = f"the {what} schema {shown(schema)} is neither a type nor a JSON schema ({why})"
    if isinstance(schema, list | tuple | set):
        choice = ", ".join(shown(each, _SHORT) for each in schema)
        return f'{fault}; for a choice pass Literal[{cut(choice, _SHORT)}], or {{"enum": [...]}}'
    return fault if isinstance(schema, dict) else f"{fault}; pass a pydantic model or another type"


def checkable(schema: ResponseSchema) -> JsonSchema | None:
    """Convert the schema of a LangGraph question to a JSON schema, or to None if that is impossible.

    Without a schema, LangGraph checks the answer itself, when the node that asked runs again.
    """
    return None if schema_fault(schema) else json_schema(schema)


def schema_in(output_schema: Any) -> Any:
    """Return the schema of an `output_schema`, which may be inside a LangChain strategy."""
    return output_schema.schema if type(output_schema).__module__ == _STRATEGIES else output_schema


def answer_tools(output_schema: object) -> list[str]:
    """List the tools with which a model may answer, one for each schema of an object.

    LangChain accepts pydantic models, dataclasses, typed dicts and JSON schemas.

    >>> answer_tools({"title": "Trip", "type": "object"}), answer_tools(list[int])
    (['Trip'], [])
    """
    if type(output_schema).__module__ == _STRATEGIES:
        specs = getattr(output_schema, "schema_specs", None)
        by_provider = hasattr(output_schema, "schema_spec")
        if specs or by_provider:
            return [spec.name for spec in specs or ()]
        return answer_tools(schema_in(output_schema))
    kinds = [output_schema]
    if get_origin(output_schema) in (Union, UnionType):
        kinds = list(get_args(output_schema))
    elif isinstance(output_schema, dict):
        kinds = output_schema.get("oneOf", kinds)
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


def output_fault(output_schema: object) -> str | None:
    """Return the fault of an output schema, or None; any type that pydantic knows is valid."""
    schema = schema_in(output_schema)
    if schema is None or isinstance(schema, dict):
        fault = schema_fault(schema)
        return fault and fault.replace("response schema", "output schema", 1)
    try:
        json_schema(schema)
    except Exception as error:
        return _not_a_schema("output", schema, type_fault(error))
    return None


def answer_fault(schema: JsonSchema | None, answer: object) -> str | None:
    """Return the reason why plain data does not fit a JSON schema, or None.

    >>> answer_fault({"enum": ["yes", "no"]}, "maybe")
    "must be one of ['yes', 'no']"
    """
    return None if schema is None else data_fault(schema, answer)


def typed(schema: Any, data: object) -> Any:
    """Validate plain data by a schema, and convert it to the type if the schema is one.

    Raises:
        ValueError: The data does not fit; the message has the reason.
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
    """Parse a JSON text, which may be in a Markdown code fence.

    Raises:
        ValueError: The text is not valid JSON.
    """
    try:
        return parse_json_markdown(text, parser=json.loads)
    except (ValueError, RecursionError):
        raise ValueError("it is not valid JSON") from None


def validation_faults(error: ValidationError) -> str | None:
    """Return pydantic's faults with their locations, or None."""
    return joined((each["loc"], each["msg"].removeprefix("Value error, ")) for each in error.errors())

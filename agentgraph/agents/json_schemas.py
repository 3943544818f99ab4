"""Validation by JSON schemas (draft 2020-12) with the package `jsonschema`, and its error texts.

The checked formats are dates, times, durations, UUIDs and regular expressions, on every machine. The
package is imported when first used, because it loads a compiled extension.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import TypeAdapter

from agentgraph.safe_repr import cut, shown

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError as SchemaError
    from jsonschema.protocols import Validator

Fault = tuple[tuple[str | int, ...], str]
"""Where data does not fit, and why."""

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


def keyword_fault(schema: Any) -> str | None:
    """Return what is wrong with a JSON schema, or None."""
    if unknown := [each for each in references(schema) if not _is_resolved(schema, each)]:
        return f"it refers to {shown(unknown[0])}, which is not in it"
    kind = _validator_class()
    return _in_words(kind(kind.META_SCHEMA, format_checker=_formats()), schema)


def data_fault(schema: Mapping[str, Any], data: Any) -> str | None:
    """Return why plain data does not fit a valid JSON schema, or None.

    >>> data_fault({"required": ["size"], "properties": {"of": {"const": 1}}}, {"of": 2})
    'size: Field required; of: must be one of [1]'
    """
    try:
        return _in_words(_validator(schema), data)
    except RecursionError:
        return "it is nested too deep to be checked"


def joined(faults: Iterable[Fault]) -> str | None:
    """Return faults as one text without duplicates, each after its location; None without faults."""
    texts = (f"{'.'.join(map(str, at))}: {why}" if at else why for at, why in faults)
    return "; ".join(dict.fromkeys(texts)) or None


def _validator(schema: Mapping[str, Any]) -> "Validator":
    """Return the validator of a schema; it never fetches remote references."""
    from referencing import Registry

    made: Validator = _validator_class()(schema, registry=Registry(), format_checker=_formats())
    return made


@cache
def _validator_class() -> Any:
    """Return the validator class, for which 1.0 is not an integer, as in Python."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, data: isinstance(data, int) and not isinstance(data, bool)
    )
    return _any(extend)(Draft202012Validator, type_checker=checker)


@cache
def _formats() -> Any:
    from jsonschema import FormatChecker

    checker, duration = FormatChecker(formats=()), TypeAdapter(timedelta)
    read = {
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


def _reads(read: Any) -> Any:
    def fits(data: Any) -> bool:
        return not isinstance(data, str) or read(data) is not None

    return fits


def references(schema: Any) -> Iterator[str]:
    """Yield the references (`$ref`) in a schema."""
    inside: Iterable[Any] = schema if isinstance(schema, list) else ()
    if isinstance(schema, dict):
        if isinstance(at := schema.get("$ref"), str):
            yield at
        inside = [value for key, value in schema.items() if key not in _DATA]
    for each in inside:
        yield from references(each)


def _is_resolved(schema: Any, reference: str) -> bool:
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
    """Yield the faults that one keyword found."""
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
    """Yield why data fits none of several alternatives, with the faults of the intended ones only.

    An alternative is intended if its type and constants match: `{"type": "reject"}` is not an approval.
    """
    each: dict[Any, list[SchemaError]] = defaultdict(list)
    for inner in error.context:
        each[inner.relative_schema_path[0]].append(inner)
    tags = [[inner for inner in errors if _is_of_tag(inner, error)] for errors in each.values()]
    meant = [errors for errors, tag in zip(each.values(), tags, strict=True) if not tag]
    if meant:
        yield from (fault for errors in meant for inner in errors for fault in _faults(inner))
        return
    wanted: dict[tuple[str | int, ...], list[Any]] = defaultdict(list)
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


def _any(value: Any) -> Any:
    """Return a value as `Any`, because the package's types are incomplete."""
    return value

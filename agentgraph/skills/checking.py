"""Checks a skill file against the pydantic models of its parts, and words every fault for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agentgraph.skills.reading import Document, Fault, Path
from agentgraph.skills.references import References, alike
from agentgraph.skills.schema import AGENT, ALTERNATIVES, KINDS, PARTS, Part, skill

_WANTED = {
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "list_type": "a list, as in [one, two]",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_INNER = (
    *("sub_agents", "workers", "steps", "tools", "agent", "compensate"),
    *("planner", "executor", "replanner"),
)
"""The fields that hold agents."""
_SHOWN = 60
"""How many characters of a wrong value are shown."""


def checked(document: Document, references: References) -> tuple[Part | None, tuple[Fault, ...]]:
    """Return a document as a part in which names are replaced by objects, and its faults.

    A part whose text has a fault gets no further one.
    """
    part, found = None, list(_without_model(document.data, (), False))
    try:
        part = skill().validate_python(document.data, context=references)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            path = _path(each["loc"])
            found.append((path, _text(each, path)))
    known = {fault.path for fault in document.faults}
    new = [Fault(document.line_of(path), text, path) for path, text in found if path not in known]
    return part, (*document.faults, *new)


def _path(location: Sequence[str | int]) -> Path:
    """Return a location of pydantic's as a path, without the tags of unions."""
    before = ("", *location)
    return tuple(
        word
        for word, previous in zip(location, before, strict=False)
        if word not in ALTERNATIVES and not (previous == AGENT and word in KINDS)
    )


def _text(error: ErrorDetails, path: Path) -> str:
    kind, location, given = error["type"], error["loc"], error["input"]
    match kind:
        case "refused":
            return error["msg"]
        case "extra_forbidden":
            return _unknown_field(str(location[-1]), *_part_at(location[:-1]))
        case "missing":
            return f"{_part_at(location[:-1])[0]} needs the field {location[-1]!r}; add it"
        case "union_tag_invalid":
            return _unknown_kind(str(given["kind"]))
        case "union_tag_not_found":
            return f"an agent needs a kind: {', '.join(KINDS)}; or write agent: NAME for one of yours"
        case "literal_error":
            return _wrong_word(_named(path), given, error["ctx"]["expected"])
        case "model_attributes_type" if isinstance(given, str):
            return f"{_named(path)} should be an agent, and is {_shown(given)}; write agent: {given}"
    wanted = _WANTED.get(kind) or _bound(error)
    return f"{_named(path)} should be {wanted}, and is {_shown(given)}; {_way_out(kind, given)}"


def _part_at(location: Sequence[str | int]) -> tuple[str, type[Part]]:
    """Return the name and model of the innermost part on a location."""
    return next(PARTS[str(word)] for word in reversed(location) if word in PARTS)


def _unknown_field(name: str, title: str, part: type[Part]) -> str:
    fields = [field.alias or name for name, field in part.model_fields.items()]
    return f"{title} has no field {name!r}{alike(name, fields)}; it has: {', '.join(fields)}"


def _unknown_kind(kind: str) -> str:
    return f"unknown kind {_short(kind)}{alike(kind, KINDS)}; known are: {', '.join(KINDS)}"


def _wrong_word(field: str, given: Any, expected: str) -> str:
    words = expected.replace(" or ", ", ").replace("'", "").split(", ")
    return f"{field} cannot be {_shown(given)}{alike(str(given), words)}; use one of {', '.join(words)}"


def _bound(error: ErrorDetails) -> str:
    limits = error.get("ctx", {})
    if "ge" in limits:
        return f"at least {limits['ge']}"
    return f"above {limits['gt']:g}" if "gt" in limits else "something else"


def _named(path: Path) -> str:
    """Return the name of a part for people: its key, and its number if it is in a list."""
    keys = [part for part in path if isinstance(part, str)]
    name = repr(keys[-1]) if keys else "the file"
    return f"item {path[-1] + 1} of {name}" if path and isinstance(path[-1], int) else name


def _shown(given: Any) -> str:
    if given is None:
        return "empty"
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, list | dict):
        return "a list" if isinstance(given, list) else "a mapping"
    return _short(given)


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]}...{text[-1]}"


def _way_out(kind: str, given: Any) -> str:
    if kind == "string_type" and given is not None:
        return "put it in quotes"
    if kind == "list_type" and isinstance(given, str | int | float):
        return f"write [{given}]"
    return "give it a value, or leave it out" if given is None else "correct it"


def _without_model(data: Any, path: Path, given: bool) -> Iterator[tuple[Path, str]]:
    """Yield a fault for each agent without a model, if no agent around it has one."""
    if isinstance(data, list):
        for i, each in enumerate(data):
            yield from _without_model(each, (*path, i), given)
    if not isinstance(data, Mapping):
        return
    given = given or data.get("model") is not None
    kind = data.get("kind")
    asks = KINDS[kind].asks if isinstance(kind, str) and kind in KINDS and not given else ()
    for field in asks:
        if data.get(field) is None:
            who = f"a {kind}" if field == "model" else f"its {field}"
            yield path, f"{who} has no model; add model: NAME to it, or to an agent around it"
    for key in _INNER:
        yield from _without_model(data.get(key), (*path, key), given)

"""Checks a skill file, words every fault for users, and builds its agent."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agentgraph.agents.agents import Agent, is_agent
from agentgraph.agents.kinds import agents_inside
from agentgraph.errors import InvalidAgentError
from agentgraph.skills.reading import Document, Fault, Path
from agentgraph.skills.references import AnyModel, References, alike
from agentgraph.skills.schema import AGENT, ALTERNATIVES, KINDS, PARTS, FileMapping, skill
from agentgraph.tree.validation import validate

_EXPECTED = {
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
_INNER = tuple(dict.fromkeys(name for _, part in PARTS.values() for name in part.inner))
"""The fields that hold agents."""
_SHOWN = 60
"""Maximum number of characters shown of a wrong value."""


def checked(document: Document, references: References) -> tuple[FileMapping | None, tuple[Fault, ...]]:
    """Resolve the names of a document to objects; return the part and the faults.

    A part with a fault in its text gets no further fault.
    """
    part, texts = None, list(_without_model(document.data, (), False))
    try:
        part = skill().validate_python(document.data, context=references)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            path = _path(each["loc"])
            texts.append((path, _text(each, path)))
    known = {fault.path for fault in document.faults}
    new = [Fault(document.line_of(path), text, path) for path, text in texts if path not in known]
    return part, (*document.faults, *new)


def _path(location: Sequence[str | int]) -> Path:
    before = ("", *location)
    return tuple(
        word
        for word, previous in zip(location, before, strict=False)
        if word not in ALTERNATIVES and not (previous == AGENT and word in KINDS)
    )


def _text(error: ErrorDetails, path: Path) -> str:
    kind, location, value = error["type"], error["loc"], error["input"]
    match kind:
        case "refused":
            return error["msg"]
        case "extra_forbidden":
            return _unknown_field(str(location[-1]), *_part_at(location[:-1]))
        case "missing":
            return f"{_part_at(location[:-1])[0]} needs the field {location[-1]!r}; add it"
        case "union_tag_invalid":
            return _unknown_kind(str(value["kind"]))
        case "union_tag_not_found":
            kinds = ", ".join(KINDS)
            return f"an agent needs a kind: {kinds}; or write agent: NAME for an agent made in Python"
        case "literal_error":
            return _choice_fault(_named(path), value, error["ctx"]["expected"])
        case "model_attributes_type" if isinstance(value, str):
            return f"{_named(path)} should be an agent, and is {_shown(value)}; write agent: {value}"
    wanted = _EXPECTED.get(kind) or _bound(error)
    return f"{_named(path)} should be {wanted}, and is {_shown(value)}; {_advice(kind, value)}"


def _part_at(location: Sequence[str | int]) -> tuple[str, type[FileMapping]]:
    return next(PARTS[str(word)] for word in reversed(location) if word in PARTS)


def _unknown_field(name: str, title: str, part: type[FileMapping]) -> str:
    fields = [field.alias or name for name, field in part.model_fields.items()]
    return f"{title} has no field {name!r}{alike(name, fields)}; choose one of: {', '.join(fields)}"


def _unknown_kind(kind: str) -> str:
    return f"unknown kind {_short(kind)}{alike(kind, KINDS)}; choose one of: {', '.join(KINDS)}"


def _choice_fault(field: str, value: object, expected: str) -> str:
    words = expected.replace(" or ", ", ").replace("'", "").split(", ")
    near = alike(str(value), words)
    return f"{field} cannot be {_shown(value)}{near}; choose one of: {', '.join(words)}"


def _bound(error: ErrorDetails) -> str:
    limits = error.get("ctx", {})
    if "ge" in limits:
        return f"at least {limits['ge']}"
    return f"above {limits['gt']:g}" if "gt" in limits else "something else"


def _named(path: Path) -> str:
    keys = [part for part in path if isinstance(part, str)]
    name = repr(keys[-1]) if keys else "the file"
    return f"item {path[-1] + 1} of {name}" if path and isinstance(path[-1], int) else name


def _shown(value: object) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return _short(value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]}...{text[-1]}"


def _advice(kind: str, value: object) -> str:
    if kind == "string_type" and value is not None:
        return "put it in quotes"
    if kind == "list_type" and isinstance(value, str | int | float):
        return f"write [{value}]"
    return "give it a value, or leave it out" if value is None else "correct it"


def _without_model(data: object, path: Path, has_model: bool) -> Iterator[tuple[Path, str]]:
    """Yield a fault for each agent without a model unless an agent around it has one."""
    if isinstance(data, list):
        for i, each in enumerate(data):
            yield from _without_model(each, (*path, i), has_model)
    if not isinstance(data, Mapping):
        return
    has_model = has_model or data.get("model") is not None
    kind = data.get("kind")
    asks = KINDS[kind].asks if isinstance(kind, str) and kind in KINDS and not has_model else ()
    for field in asks:
        if data.get(field) is None:
            who = f"a {kind}" if field == "model" else f"its {field}"
            yield path, f"{who} has no model; add model: NAME to it, or to an agent around it"
    for key in _INNER:
        yield from _without_model(data.get(key), (*path, key), has_model)
    cases = data.get("cases")
    for key, each in cases.items() if isinstance(cases, Mapping) else ():
        yield from _without_model(each, (*path, "cases", key), has_model)


Origins = list[tuple[Agent, Path]]
"""All agents of the file, inner ones first, each with its path in the file."""


def built(part: FileMapping, document: Document) -> tuple[Agent, tuple[Fault, ...]]:
    """Build the agent of a file, and list all faults of its tree at the lines of their agents.

    Conflicts between values are found at compilation, because their declarations are known only then.
    """
    origins: Origins = []
    agent = _built(part, origins, (), AnyModel())
    try:
        validate(agent, merged=None)
    except InvalidAgentError as error:
        lines = {id(made): document.line_of(path) for made, path in origins}
        where = dict(_lines(agent, lines))
        return agent, tuple(Fault(_line(fault, where), fault) for fault in error.faults)
    return agent, ()


def _built(form: object, origins: Origins, path: Path, model: object) -> Any:
    """Build a part, or a list or mapping of parts; plain data stays unchanged.

    An agent without a model gets that of the nearest agent around it.
    """
    if isinstance(form, list):
        return [_built(each, origins, (*path, i), model) for i, each in enumerate(form)]
    if isinstance(form, dict):
        parts = {key: each for key, each in form.items() if isinstance(each, FileMapping)}
        return {**form, **{k: _built(each, origins, (*path, k), model) for k, each in parts.items()}}
    agent = _agent_of(form, origins, path, model) if isinstance(form, FileMapping) else form
    if isinstance(agent, Agent):
        origins.append((agent, path))
    return agent


def _agent_of(part: FileMapping, origins: Origins, path: Path, model: object) -> object:
    own = getattr(part, "model", None)
    model = model if own is None else own
    fields = dict.fromkeys(part.asks, model)
    for name in type(part).model_fields:
        value = getattr(part, name)
        is_inherited = name in ("kind", "model") or (name in part.asks and value is None)
        if name in part.model_fields_set and not is_inherited:
            fields[name] = _built(value, origins, (*path, name), model)
    return type(part).builder(**fields)


def _lines(
    agent: Agent, lines: Mapping[int, int], around: str = "", line: int = 1
) -> Iterator[tuple[str, int]]:
    """Yield the prefix of each agent's faults, and its line or that of the agent around it."""
    line = lines.get(id(agent), line)
    names = [around, str(agent.name)] if is_agent(agent) else [around]
    where = "/".join(filter(None, names)) or "the root"
    yield where, line
    for child in agents_inside(agent):
        yield from _lines(child, lines, where, line)


def _line(fault: str, where: Mapping[str, int]) -> int:
    names = [name for name in where if fault.startswith(f"{name}: ")]
    return where[max(names, key=len)] if names else 1

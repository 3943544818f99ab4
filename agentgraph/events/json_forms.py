"""Converts any value to JSON data and back: types unknown to JSON are tagged with `$agentgraph`.

An event may contain any value that LangGraph's savers can save. LangGraph's own serializer is
unsuitable, because it writes class names and imports the classes when it reads, while events also come
from other programs. Therefore JSON is only converted back to the types in this file. A pydantic model
or a dataclass becomes an object of its fields, an `Enum` its value, and any other value a text.
"""

import ipaddress
import json
import re
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage, messages_from_dict
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from agentgraph.safe_repr import LONGEST_DATA, shown

JsonObject = dict[str, Any]

OURS = "$agentgraph"
"""The only key of an object that represents a value of a type unknown to JSON."""
_MESSAGES = "langchain_core.messages"
_DEEPEST = 100
"""Maximum depth of nested lists and dicts; deeper values become text."""
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Matches a surrogate pair, which JSON would join to one character."""
_AT = re.compile(r" at 0x[0-9a-fA-F]+")
"""Matches the memory address in the `repr` of an object."""

_TEXTS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], object]]] = {
    "float": (float, repr, float),
    "int": (int, hex, lambda text: int(text, 16)),
    "str": (
        str,
        lambda text: b64encode(text.encode("utf-8", "surrogatepass")).decode(),
        lambda text: b64decode(text).decode("utf-8", "surrogatepass"),
    ),
    "bytes": (bytes, lambda data: b64encode(data).decode(), b64decode),
    "bytearray": (
        bytearray,
        lambda data: b64encode(data).decode(),
        lambda text: bytearray(b64decode(text)),
    ),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (
        timedelta,
        lambda span: f"{span.days} {span.seconds} {span.microseconds}",
        lambda text: timedelta(*map(int, text.split())),
    ),
    "decimal": (Decimal, str, Decimal),
    "uuid": (UUID, str, UUID),
    "path": (type(Path()), str, Path),
    **{
        kind.__name__.lower(): (kind, str, kind)
        for kind in (
            *(ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network),
            *(ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network),
        )
    },
}
"""Types with a lossless text form: type, value to text, text to value."""
_TAGS = {kind: tag for tag, (kind, *_) in _TEXTS.items()}
_LISTS: dict[str, type] = {"tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque}


def as_json(value: Any, around: tuple[int, ...] = ()) -> Any:
    """Convert a value to JSON data for `from_json`; it never fails.

    >>> as_json({"when": date(2026, 11, 1), "sizes": (1, 2)})
    {'when': {'$agentgraph': ['date', '2026-11-01']}, 'sizes': {'$agentgraph': ['tuple', [1, 2]]}}

    Args:
        value: The value.
        around: The `id` of each value that contains it, because of cycles.
    """
    kind = type(value)
    if value is None or kind is bool or (kind is str and value.isascii()):
        return value  # most values are these
    if (kind is dict or kind is list) and not value:
        return kind()
    if isinstance(value, bool | int | float | str):
        return _scalar(value)
    if id(value) in around or len(around) >= _DEEPEST:
        return _text(value)
    try:
        return _container(value, (*around, id(value)))
    except Exception:
        return _text(value)


@lru_cache(maxsize=100)
def _type_of(kind: type[BaseMessage]) -> str | None:
    """Return the `type` of LangChain's class of a class of messages; None if it has several."""
    ours = next(each for each in kind.__mro__ if each.__module__.startswith(_MESSAGES))
    default = ours.model_fields["type"].default  # type: ignore[attr-defined]
    return default if isinstance(default, str) else None


def message_as_json(message: BaseMessage, around: tuple[int, ...] = ()) -> dict[str, object]:
    """Convert a message to LangChain's form, `{"type": ..., "data": ...}`, with its fields as JSON.

    A message of a user's subclass becomes a message of LangChain's class.

    Args:
        message: The message.
        around: The `id` of each value that contains it.
    """
    name = _type_of(type(message)) or message.type
    return {"type": name, "data": _object({**dict(message), "type": name}, around)}


def message_from_json(data: Mapping[str, object]) -> BaseMessage:
    """Make a message from the form of `message_as_json`."""
    return messages_from_dict([{"type": data["type"], "data": from_json(data["data"])}])[0]


def from_json(value: object) -> Any:
    """Make a value from the form of `as_json`; objects with an unknown tag stay unchanged."""
    match value:
        case dict():
            if value.keys() == {OURS} and isinstance(value[OURS], list) and len(value[OURS]) == 2:
                return _restored(value, *value[OURS])
            return {key: from_json(each) for key, each in value.items()}
        case list():
            return [from_json(each) for each in value]
    return value


def _restored(value: dict[str, object], tag: object, content: Any) -> object:
    match tag, content:
        case "dict", dict():
            return {key: from_json(each) for key, each in content.items()}
        case "items", list():
            return {from_json(key): from_json(each) for key, each in content}
        case "message", {"type": str(), "data": dict()}:
            return message_from_json(content)
        case str(), str() if tag in _TEXTS:
            return _TEXTS[tag][2](content)
        case str(), list() if tag in _LISTS:
            return _LISTS[tag](map(from_json, content))
    return {OURS: from_json(value[OURS])}


def _scalar(value: float | str | None) -> object:
    """Convert a text or number; one of a subclass, such as an `Enum`, becomes its base type."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        return {OURS: ["str", _TEXTS["str"][1](text)]} if _PAIR.search(text) else text
    if isinstance(value, int):
        number = int.__int__(value)
        return number if number.bit_length() < 64 else {OURS: ["int", hex(number)]}
    size = float.__float__(value)
    return size if isfinite(size) else {OURS: ["float", repr(size)]}


def _container(value: object, around: tuple[int, ...]) -> object:
    if type(value) in _TAGS:
        tag = _TAGS[type(value)]
        return {OURS: [tag, _TEXTS[tag][1](value)]}
    match value:
        case dict():
            return _object(value, around)
        case list():
            return [as_json(each, around) for each in value]
        case tuple() | deque():
            tag = "tuple" if isinstance(value, tuple) else "deque"
            return {OURS: [tag, [as_json(each, around) for each in value]]}
        case set() | frozenset():
            tag = "set" if isinstance(value, set) else "frozenset"
            return {OURS: [tag, sorted((as_json(each, around) for each in value), key=json.dumps)]}
        case BaseMessage():
            return {OURS: ["message", message_as_json(value, around)]}
        case BaseModel():
            return _object(value.model_dump(), around)
        case BaseException() | Iterator():
            return _text(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _object({each.name: getattr(value, each.name) for each in fields(value)}, around)
    return as_json(to_jsonable_python(value, fallback=_text, bytes_mode="base64"), around)


def _object(value: Mapping[Any, object], around: tuple[int, ...]) -> dict[str, object]:
    is_plain = {*map(type, value)} <= {str} and "".join(value).isascii()
    if is_plain or all(isinstance(key, str) and isinstance(_scalar(key), str) for key in value):
        keys = value if is_plain else map(str.__str__, value)
        data = dict(zip(keys, [as_json(each, around) for each in value.values()], strict=True))
        return {OURS: ["dict", data]} if OURS in data else data
    return {
        OURS: ["items", [[as_json(key, around), as_json(each, around)] for key, each in value.items()]]
    }


def _text(value: object) -> object:
    try:
        text = (
            shown(value, LONGEST_DATA) if isinstance(value, BaseException | dict | list) else str(value)
        )
    except Exception:
        text = shown(value, LONGEST_DATA)
    return _scalar(_AT.sub("", text))

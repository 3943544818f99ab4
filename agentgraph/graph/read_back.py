"""Returns the value that a saver will return for a written one, or rejects it.

The problem: within a run LangGraph passes on the object that a node wrote. After a pause, a crash or in
the next turn it passes on what the saver made of it: a list in the place of a tuple, an object without
its private fields. So an agent that works before a question fails after it. The rules:

- What a saver would give back is made at the write, by its own serializer, and takes the place of the
  value. A declared type is restored (`type_hints.py`).
- Containers may become plain: a tuple a list, a Counter a dict, an Enum that is a key its value.
- An object must come back as an equal one of its class; else the write is rejected.
- Small plain data is returned as it is: each step writes some.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Protocol, cast

import ormsgpack
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from agentgraph.graph.values import is_same
from agentgraph.safe_repr import shown

_AROUND = 8
"""The levels of lists around a value in what is saved: the serializer limits the depth."""
_LONGEST = 30
"""The most items that are checked here; for longer data the serializer is faster."""
_DEEPEST = 7
"""The most levels of lists and dicts that are checked here."""
_INTEGERS = range(-(2**63), 2**64)
_SCALARS = (str, int, float, bytes, bytearray, memoryview, type(None))
_SEQUENCES = (list, tuple, deque)
_SETS = (set, frozenset)
_SURROGATE = "a text in it has a lone surrogate, which is not a character"


class Serializer(Protocol):
    """Turns values into bytes for a saver, and back."""

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        """Return the name of a format, and a value as bytes in it."""

    def loads_typed(self, data: tuple[str, bytes]) -> object:
        """Return the value of bytes in a format."""


class UnsavableError(ValueError):
    """A value cannot be saved as it is; its text says why."""


def read_back(
    serializer: Serializer, value: object, typed: Callable[[object], object] | None = None
) -> Any:
    """Return a value as a saver will give it back.

    Args:
        serializer: The serializer of the saver.
        value: The value.
        typed: Returns a value of the serializer in its declared type.

    Raises:
        UnsavableError: It cannot be saved, or would not come back as it is.
    """
    form = _form_of(value)
    if form == "plain":
        return value
    packed = _packed(serializer, value)
    if form == "texts":
        return value
    read, is_native = _read(serializer, *packed)
    if typed is not None:
        read = typed(read)
    elif is_native:
        return read
    if not isinstance(value, BaseMessage) and (lost := _lost(value, read)):
        raise UnsavableError(lost)
    return read


def check_savable(serializer: Serializer, value: object) -> None:
    """Refuse a value that cannot be saved as it is.

    Raises:
        UnsavableError: It cannot.
    """
    if _form_of(value) != "plain":
        _packed(serializer, value)


def _packed(serializer: Serializer, value: object) -> tuple[str, bytes]:
    wrapped = value
    for _ in range(_AROUND):
        wrapped = [wrapped]
    try:
        kind, data = serializer.dumps_typed(wrapped)
    except Exception as error:
        raise UnsavableError(str(error).partition("\n")[0] or type(error).__name__) from error
    if (kind != "msgpack" or b"?" in data) and _has_surrogate(value):
        raise UnsavableError(_SURROGATE)
    return kind, data


def _read(serializer: Serializer, kind: str, data: bytes) -> tuple[Any, bool]:
    read: Any = None
    is_native = kind == "msgpack"
    if is_native:
        try:
            read = ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS)
        except ValueError:
            is_native = False  # it has objects
    if not is_native:
        try:
            read = serializer.loads_typed((kind, data))
        except Exception as error:
            raise UnsavableError(str(error).partition("\n")[0] or type(error).__name__) from error
    for _ in range(_AROUND):
        (read,) = read
    return read, is_native


def _form_of(value: object) -> str:
    """Return "plain" for small data that every saver keeps, "texts" if some may have a surrogate.

    All else, and what is in doubt, is "other".
    """
    level: list[Any] = [value]
    form = "plain"
    if isinstance(value, BaseMessage):
        level = [*vars(value).values(), value.__pydantic_extra__]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for each in level:
            kind = type(each)
            if kind is str:
                if not each.isascii():
                    form = "texts"
            elif kind is int:
                if each not in _INTEGERS:
                    return "other"
            elif kind is dict or kind is list:
                if len(each) > _LONGEST:
                    return "other"
                inner += each if kind is list else (*each, *each.values())
            elif not (each is None or kind is bool or kind is float):
                return "other"
        if not inner:
            return form
        level = inner
    return "other"


def _lost(value: Any, read: Any) -> str | None:
    """Return the loss if `read` replaces a value; None if only containers differ."""
    if value is read or (isinstance(value, BaseMessage) and type(read) is type(value)):
        return None
    is_kept = True
    if isinstance(value, Enum) or isinstance(read, bool) or isinstance(value, bool):
        is_kept = False
    elif isinstance(value, _SCALARS):
        is_kept = bool(value == read or (value != value and read != read))
    elif isinstance(value, BaseException):  # LangGraph stores its repr
        is_kept = bool(read == repr(value))
    elif isinstance(value, _SETS):
        is_kept = value == read or (isinstance(read, list) and len(read) == len(value))
    elif isinstance(value, (Mapping, *_SEQUENCES)) and not hasattr(value, "_fields"):
        kinds: Any = Mapping if isinstance(value, Mapping) else _SEQUENCES
        if is_kept := isinstance(read, kinds) and len(read) == len(value):
            return _first_lost(_items(value), _items(read))
    elif is_kept := type(read) is type(value):
        return _lost_inside(value, read)
    return None if is_kept else f"{shown(value)} would be read as {shown(read)}"


def _items(value: Any) -> Iterable[object]:
    return value.values() if isinstance(value, Mapping) else value


def _first_lost(values: Iterable[object], several: Iterable[object]) -> str | None:
    pairs = zip(values, several, strict=True)
    return next((lost for one, other in pairs if (lost := _lost(one, other))), None)


def _lost_inside(value: Any, read: Any) -> str | None:
    for parts, others in zip(_parts(value), _parts(read), strict=True):
        for name, part in parts.items():
            if name not in others:
                return f"its field {name!r} would be lost"
            if lost := _lost(part, others[name]):
                return f"in its field {name!r} {lost}"
    if _parts(value) == () and not is_same(value, read):
        return f"{shown(value)} would be read as {shown(read)}"
    return None


def _parts(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the parts of an object by their names, or nothing if only `==` can compare it."""
    if isinstance(value, BaseModel):
        return value.__dict__, value.__pydantic_private__ or {}, value.__pydantic_extra__ or {}
    if is_dataclass(value):
        own = {each.name: getattr(value, each.name, None) for each in fields(value)}
        return ({**own, **getattr(value, "__dict__", {})},)
    if hasattr(value, "_fields") and isinstance(value, tuple):
        return (cast(Any, value)._asdict(),)
    return ()


def _has_surrogate(value: object) -> bool:
    seen: set[int] = set()
    queue = [value]
    while queue:
        each = queue.pop()
        if isinstance(each, str):
            if not each.isascii() and cannot_be_encoded(each):
                return True
        elif id(each) not in seen:
            seen.add(id(each))
            queue += _inside(each)
    return False


def _inside(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [*value]
    extra = getattr(value, "__pydantic_extra__", None) or {}
    return [*getattr(value, "__dict__", {}).values(), *extra.values()]


def cannot_be_encoded(text: str) -> bool:
    """Return whether a text has a lone surrogate, which is not a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False

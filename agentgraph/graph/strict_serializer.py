"""Reads and writes what a saver stores without running code that the stored data names.

The problem: LangGraph stores an object as the name of its class and its arguments, and on reading
imports and calls whatever the data names. So opening an untrusted SQLite file executes its code.
LangGraph's own strict mode (`LANGGRAPH_STRICT_MSGPACK`) replaces an object of an unknown class by a
dict, with a line in the log: agents then fail far from the cause, or continue with the wrong thing. The
rules:

- An object is rebuilt if its class is one of LangGraph's safe ones (messages, dates, paths, ...), or
  was allowed: by `allow=`, or because the user's own code names it (`named_types.py`). An allowed
  class is looked up among those, and is never imported because the data names it.
- Any other object is an error, which names the class and what to do.
- Data that could not be read back is rejected when it is written: an object is read back before it is
  stored. Messages, and data that JSON has too, need no such check.
- LangGraph's older formats, JSON with constructors and pickle, are not read.
"""

import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cached_property, partial
from typing import Any, NoReturn, cast

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_DELTA_SNAPSHOT,
    EXT_METHOD_SINGLE_ARG,
    EXT_NUMPY_ARRAY,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)
from langgraph.types import Send
from pydantic import BaseModel

from agentgraph.graph.collecting import DECODING
from agentgraph.graph.internals import SAFE_MSGPACK_TYPES, DeltaSnapshot
from agentgraph.graph.signal_handlers import is_of_a_handler
from agentgraph.safe_repr import reason, shown

Key = tuple[str, str]
"""The module and the name of a class."""

_PACKING = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)
"""LangGraph's options for writing."""
_UNPACKING = ormsgpack.OPT_NON_STR_KEYS
"""Its options for reading."""
ORIGINAL = "agentgraph_original"
"""The attribute of a copy of a saver that reads more types: the saver with its threads and locks."""
MALFORMED = "delete the thread, or put a copy of the file in its place"
"""Advice where stored data is malformed."""
_ISO_DATE = ("datetime", "datetime", "fromisoformat")
_PAIR = 2
_KNOWN: dict[Key, type] = {}
"""LangGraph's safe classes that were read before."""


class UnreadableError(ValueError):
    """Something that a saver stores cannot be read, or could not be read if it were stored.

    Attributes:
        advice: The action to take, or the state that holds nevertheless.
    """

    def __init__(self, message: str, advice: str = MALFORMED) -> None:
        super().__init__(message)
        self.advice = advice


class _Failure(threading.local):
    """The error in a function that ormsgpack called: its own error does not say."""

    error: Exception | None = None


_failure = _Failure()


def key_of(kind: type) -> Key:
    """Return the name under which LangGraph stores objects of a class."""
    return kind.__module__, kind.__name__


def is_safe(kind: object) -> bool:
    """Return whether LangGraph has a class among those that are always read."""
    return isinstance(kind, type) and key_of(kind) in SAFE_MSGPACK_TYPES


class UnreadSnapshot(DeltaSnapshot):
    """A snapshot of a whole channel in a list of checkpoints, read when its value is asked for.

    Snapshots are most of the saved data of a long thread: each has all messages before it. A reader
    that lists checkpoints looks for the writes of each step, and seldom needs one.
    """

    _read: Callable[[], object]

    @classmethod
    def of(cls, serializer: "StrictSerializer", packed: bytes) -> "UnreadSnapshot":
        """Return a snapshot that a serializer reads later."""
        made = cls(None)
        made._read = partial(serializer.loads_typed, ("msgpack", packed))
        return made

    @cached_property
    def value(self) -> Any:
        """The value of the channel."""
        return self._read()


_IN_LIST: ContextVar[bool] = ContextVar("in_list", default=False)


@contextmanager
def listing() -> Iterator[None]:
    """List checkpoints in a `with` block: snapshots in them are read when they are asked for."""
    token = _IN_LIST.set(True)
    try:
        yield
    finally:
        _IN_LIST.reset(token)


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer, which rebuilds objects of safe and of allowed classes only.

    Its errors are `UnreadableError`s.
    """

    def __init__(self, allow: Mapping[Key, type]) -> None:
        super().__init__(allowed_msgpack_modules=None)
        self._allowed = dict(allow)

    def allow(self, types: Mapping[Key, type]) -> None:
        """Allow further classes."""
        self._allowed |= types

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        """Return a value as LangGraph stores it.

        Raises:
            UnreadableError: An object in it could not be read back.
            TypeError: LangGraph cannot store it.
        """
        if obj is None or isinstance(obj, bytes | bytearray):
            return super().dumps_typed(obj)
        try:
            return "msgpack", ormsgpack.packb(obj, default=self._part, option=_PACKING)
        except Exception as error:
            if is_of_a_handler(error):
                raise
            raise _cause(error) from error

    def loads_typed(self, data: tuple[str, bytes]) -> object:
        """Return a value that LangGraph has stored.

        Raises:
            UnreadableError: It is malformed, or has an object of a class that is not allowed.
        """
        kind, packed = data
        if (reads := DECODING.get()) is not None and not reads.has_begun:
            reads.begin()
        match kind:
            case "msgpack":
                try:
                    return ormsgpack.unpackb(packed, ext_hook=self._rebuilt, option=_UNPACKING)
                except Exception as error:
                    if is_of_a_handler(error):
                        raise
                    _raise_unreadable(error)
            case "null":
                return None
            case "bytes" | "bytearray" if isinstance(packed, bytes | bytearray):
                return packed if kind == "bytes" else bytearray(packed)
        raise UnreadableError(
            f"a value is stored as {shown(kind)}, which is not read: agentgraph and LangGraph write "
            "'msgpack'"
        )

    def _part(self, value: object) -> object:
        """Return an object in a form that ormsgpack knows; messages come first: each step has some."""
        kind = type(value)
        if isinstance(value, BaseMessage) and (kind.__module__, kind.__name__) in SAFE_MSGPACK_TYPES:
            dumped = value.model_dump()
            if dumped.get("artifact") is not None:
                dumped["artifact"] = self._artifact(
                    getattr(value, "artifact", None), dumped["artifact"]
                )
            parts = (kind.__module__, kind.__name__, dumped, "model_validate_json")
            packed = ormsgpack.packb(parts, default=self._part, option=_PACKING)
            return ormsgpack.Ext(EXT_PYDANTIC_V2, packed)
        if isinstance(value, DeltaSnapshot):
            packed = ormsgpack.packb(value.value, default=self._part, option=_PACKING)
            return ormsgpack.Ext(EXT_DELTA_SNAPSHOT, packed)
        if isinstance(value, BaseException):  # LangGraph stores its repr
            return repr(value)
        return self._checked(value)

    def _artifact(self, artifact: object, dumped: object) -> object:
        """Return the artifact of a tool's message with its objects if they can be read back."""
        try:
            ormsgpack.packb(artifact, default=self._part, option=_PACKING)
        except Exception:
            _failure.error = None
            return dumped
        return artifact

    def _checked(self, value: object) -> object:
        _, packed = super().dumps_typed(value)
        try:
            self.loads_typed(("msgpack", packed))
        except UnreadableError as error:
            _failure.error = error
            raise
        return ormsgpack.unpackb(packed, ext_hook=ormsgpack.Ext)

    def _rebuilt(self, code: int, packed: bytes) -> object:
        if code == EXT_DELTA_SNAPSHOT and _IN_LIST.get():
            return UnreadSnapshot.of(self, packed)
        try:
            parts = ormsgpack.unpackb(packed, ext_hook=self._rebuilt, option=_UNPACKING)
            return self._object(code, parts)
        except Exception as error:
            _failure.error = self._class_error(code, packed) or _cause(error)
            raise

    def _class_error(self, code: int, packed: bytes) -> UnreadableError | None:
        """Return the error for an object whose class is not allowed: what is in it comes second."""
        if code in (EXT_DELTA_SNAPSHOT, EXT_NUMPY_ARRAY):
            return None
        try:
            module, name, *_ = ormsgpack.unpackb(packed, ext_hook=lambda *_: None, option=_UNPACKING)
            self._kind(module, name)
        except UnreadableError as error:
            return error
        except (TypeError, ValueError):
            return None
        return None

    def _object(self, code: int, parts: Any) -> object:
        if code == EXT_DELTA_SNAPSHOT:
            return DeltaSnapshot(parts)
        if code == EXT_NUMPY_ARRAY:
            return _array(*parts)
        module, name, data, *method = parts
        if code == EXT_METHOD_SINGLE_ARG:
            if (module, name, *method) != _ISO_DATE:
                raise _not_allowed(module, name)
            return datetime.fromisoformat(data)
        key = module, name
        kind = self._allowed.get(key) or _KNOWN.get(key) or self._kind(module, name)
        try:
            return _built(code, kind, data)
        except Exception as error:
            if is_of_a_handler(error):
                raise
            raise UnreadableError(
                f"an object of {module}.{name} cannot be rebuilt from what is stored ({reason(error)})",
                "if the class has changed, let it take what it took before",
            ) from error

    def _kind(self, module: str, name: str) -> type:
        """Return the class of an object.

        Raises:
            UnreadableError: It is not allowed.
        """
        key = (module, name)
        if (kind := self._allowed.get(key) or _KNOWN.get(key)) is not None:
            return kind
        if key in SAFE_MSGPACK_TYPES:
            _KNOWN[key] = known = getattr(importlib.import_module(module), name)
            return cast(type, known)
        raise _not_allowed(module, name)


def _cause(error: Exception) -> Exception:
    failed, _failure.error = _failure.error, None
    return failed or error


def _raise_unreadable(error: Exception) -> NoReturn:
    cause = _cause(error)
    if isinstance(cause, UnreadableError):
        raise cause from None
    raise UnreadableError(f"malformed: a value ({reason(cause)})") from cause


def _not_allowed(module: object, name: object) -> UnreadableError:
    return UnreadableError(
        f"objects of {module}.{name} are not read from files unless that is allowed: pass "
        f"allow=['{module}:{name}'] where the file is opened (Runner, sqlite_saver, or --allow "
        f"{module}:{name}), or declare the type with values=",
        "do so only if you trust the file; nothing in it was run",
    )


def _built(code: int, kind: type, data: Any) -> object:
    match code:
        case _ if code == EXT_CONSTRUCTOR_SINGLE_ARG and kind in (set, frozenset):
            return kind(map(_hashable, data))
        case _ if code == EXT_CONSTRUCTOR_SINGLE_ARG:
            return kind(data)
        case _ if code == EXT_CONSTRUCTOR_POS_ARGS:
            if kind is Send:
                return Send(*data[:_PAIR], **dict(zip(["timeout"], data[_PAIR:], strict=False)))
            return kind(*data)
        case _ if code == EXT_CONSTRUCTOR_KW_ARGS:
            return kind(**data)
        case _ if code in (EXT_PYDANTIC_V1, EXT_PYDANTIC_V2):
            return _model(kind, data)
    raise UnreadableError(f"it has the unknown code {code}")


def _hashable(item: object) -> object:
    """Return an item of a set; a list was a tuple, for a set cannot hold a list."""
    return tuple(map(_hashable, item)) if isinstance(item, list) else item


def _model(kind: type[BaseModel], data: Mapping[str, object]) -> object:
    """Return a pydantic object; like LangGraph, without validation if its class has changed."""
    try:
        return kind(**data)
    except Exception:
        made: Callable[..., object] = getattr(kind, "model_construct", None) or kind.construct
        instance = made(**data)
        if isinstance(instance, BaseMessage) and not _is_message(instance):
            raise
        return instance


def _is_message(message: BaseMessage) -> bool:
    """Return whether a message that was not validated has the parts that every reader relies on."""
    return (
        isinstance(message.content, str | list)
        and isinstance(message.additional_kwargs, dict)
        and isinstance(message.response_metadata, dict)
        and isinstance(message.id, str | None)
        and isinstance(getattr(message, "tool_call_id", ""), str)
        and all(
            isinstance(call, dict) and {"name", "args", "id"} <= call.keys()
            for call in getattr(message, "tool_calls", ())
        )
    )


def _array(dtype: str, shape: object, order: object, buffer: bytes) -> object:
    numpy = importlib.import_module("numpy")
    return numpy.frombuffer(buffer, dtype=numpy.dtype(dtype)).reshape(shape, order=order)

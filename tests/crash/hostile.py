"""Values that nobody wishes for, and when what comes back is what went in."""

import atexit
import contextlib
import enum
import math
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

FILE = Path(os.devnull).open()  # noqa: SIM115
"""A file that stays open until the process ends."""
atexit.register(FILE.close)


class Model(BaseModel):
    n: int = 1


@dataclass
class Data:
    n: int = 1


class Colour(enum.Enum):
    RED = "red"


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("it has no repr")

    __str__ = __repr__


class NoEq:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("it cannot be compared")

    __hash__ = object.__hash__


class NoHash:
    def __hash__(self) -> int:
        raise RuntimeError("it cannot be hashed")


class NoCopy:
    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("it cannot be copied")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("it cannot be pickled")


class Array:
    """Compares item by item, as numpy's arrays do, and then has no truth."""

    def __eq__(self, other: object) -> Any:
        return Array()

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None


def deep() -> list[Any]:
    """Return a list of more levels than Python's own recursion goes."""
    made: list[Any] = []
    for _ in range(1999):
        made = [made]
    return made


def cycle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def generator() -> Iterator[int]:
    yield 1


VALUES: dict[str, Callable[[], Any]] = {
    "lock": threading.Lock,
    "file": lambda: FILE,
    "generator": generator,
    "huge int": lambda: 10**30,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "surrogate": lambda: "a\ud800b",
    "NUL": lambda: "a\x00b",
    "long": lambda: "bees hum " * 580_000,
    "bytes": lambda: b"\x00\xff",
    "set": lambda: {1, 2},
    "deep": deep,
    "cycle": cycle,
    "no repr": NoRepr,
    "no eq": NoEq,
    "no hash": NoHash,
    "no copy": NoCopy,
    "model": Model,
    "dataclass": Data,
    "datetime": lambda: datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
    "Decimal": lambda: Decimal("1.5"),
    "UUID": lambda: uuid.UUID(int=7),
    "enum": lambda: Colour.RED,
    "array": Array,
    "empty list": list,
    "empty text": str,
    "None": lambda: None,
}


def comes_back(make: Callable[[], Any], back: Any) -> bool:
    """Return whether what came back is what `make` gives, or its JSON form."""
    forms = [make()]
    if isinstance(forms[0], list):
        return depth(forms[0]) == depth(back)
    with contextlib.suppress(Exception):
        forms.append(to_jsonable_python(make()))
    return any(alike(form, back) for form in forms)


def alike(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        return type(one) is type(other) and (repr(one) == repr(other) or bool(one == other))
    except Exception:
        return False


def depth(value: Any) -> float:
    """Return how many levels a list has: infinitely many where it is inside itself."""
    levels, seen = 0, set()
    while isinstance(value, list):
        if id(value) in seen:
            return math.inf
        seen.add(id(value))
        levels, value = levels + 1, value[0] if value else None
    return levels

"""Random declared types, with values of them."""

import enum
import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import make_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from hypothesis import strategies as st
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

T = TypeVar("T")


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Box(BaseModel, Generic[T]):
    inside: T


class Typed(NamedTuple):
    """A type, and values of it."""

    hint: Any
    values: st.SearchStrategy[Any]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=4)
SCALARS = [
    Typed(int, st.integers(-(2**63), 2**63 - 1)),
    Typed(str, TEXTS),
    Typed(bool, st.booleans()),
    Typed(float, st.floats(allow_nan=False)),
    Typed(bytes, st.binary(max_size=4)),
    Typed(Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=2)),
    Typed(date, st.dates()),
    Typed(datetime, st.datetimes(timezones=st.just(UTC))),
    Typed(timedelta, st.timedeltas()),
    Typed(UUID, st.uuids()),
    Typed(Side, st.sampled_from(Side)),
    Typed(Level, st.sampled_from(Level)),
]
KEYS = [each for each in SCALARS if each.hint in (int, str, date, UUID, Side, Level)]
_numbers = count()


def _some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, max_size=3)


def _named(kind: type) -> type:
    """Put a class where LangGraph finds it by its name."""
    kind.__module__ = __name__
    setattr(sys.modules[__name__], kind.__name__, kind)
    return kind


def _dataclass(inner: Typed, *, is_frozen: bool) -> Typed:
    kind = _named(make_dataclass(f"Data{next(_numbers)}", [("a", inner.hint)], frozen=is_frozen))
    return Typed(kind, st.builds(kind, inner.values))


def _model(inner: Typed) -> Typed:
    kind: Any = create_model(f"Model{next(_numbers)}", a=(inner.hint, ...), __module__=__name__)
    return Typed(_named(kind), st.builds(lambda value: kind(a=value), inner.values))


def _tuple_class(inner: Typed) -> Typed:
    kind: Any = NamedTuple(f"Named{next(_numbers)}", [("a", inner.hint)])  # type: ignore[misc]
    return Typed(_named(kind), st.builds(kind, inner.values))


def _typed_dict(inner: Typed) -> Typed:
    kind: Any = TypedDict(f"Dict{next(_numbers)}", {"a": inner.hint})  # type: ignore[misc]
    return Typed(_named(kind), st.fixed_dictionaries({"a": inner.values}))


def _hashable(inner: Typed) -> list[Typed]:
    return [
        Typed(tuple[inner.hint, ...], _some(inner.values).map(tuple)),
        Typed(frozenset[inner.hint], _some(inner.values).map(frozenset)),
    ]


HASHABLE = st.sampled_from(SCALARS) | st.sampled_from(SCALARS).flatmap(
    lambda inner: st.sampled_from(_hashable(inner)[:1])
)


def _wrapped(inner: Typed) -> st.SearchStrategy[Typed]:
    hint, values = inner
    box = Box[hint]
    makes: list[Callable[[], Typed]] = [
        lambda: Typed(list[hint], _some(values)),
        lambda: Typed(tuple[hint, ...], _some(values).map(tuple)),
        lambda: Typed(tuple[hint, int], st.tuples(values, st.integers(0, 9))),
        lambda: Typed(deque[hint], _some(values).map(deque)),
        lambda: Typed(hint | None, st.none() | values),
        lambda: Typed(box, values.map(lambda value: box(inside=value))),
        lambda: _dataclass(inner, is_frozen=False),
        lambda: _dataclass(inner, is_frozen=True),
        lambda: _model(inner),
        lambda: _tuple_class(inner),
        lambda: _typed_dict(inner),
    ]
    maps = st.sampled_from(KEYS).map(
        lambda key: Typed(dict[key.hint, hint], st.dictionaries(key.values, values, max_size=3))
    )
    return st.sampled_from(makes).map(lambda make: make()) | maps


def _sets(inner: Typed) -> st.SearchStrategy[Typed]:
    several = _some(inner.values)
    return st.sampled_from(
        [Typed(set[inner.hint], several.map(set)), Typed(frozenset[inner.hint], several.map(frozenset))]
    )


COUNTED = Typed(Counter[str], _some(TEXTS).map(Counter))
LEAVES = st.sampled_from([*SCALARS, COUNTED]) | HASHABLE.flatmap(_sets)
TYPES = st.recursive(LEAVES, lambda inner: inner.flatmap(_wrapped), max_leaves=4)
"""Declared types; classes among them are new ones."""

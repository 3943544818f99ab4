"""Copies of values: what users' code reads is its own, and what it wrote is no longer its own.

The problem: a step takes 0.26 ms and a deep copy of a value of 400 kB takes 10 ms, so a value cannot be
copied for each agent that reads it. Without copies, a list that an agent changes in place is changed
for its siblings, for later agents and for the caller, and after a crash or a rewind it is not.

The rules:

- An object in the state is never changed. Where users' code reads, it gets `own(value)`: the value
  itself if that cannot be changed, a copy of small data, and of more an `OwnList` or `OwnDict`, which
  copies each element when it is reached. A message, a pydantic model or a dataclass is copied with its
  fields.
- Where users' code writes, the state gets `detached(value)`: a copy without objects that the writer may
  still change. Elements of an `OwnList` that were not reached are taken as they are, so that a large
  value costs little if it is written again.
- An object of another class is shared, unless its class defines how it is copied (`__deepcopy__`):
  values may be clients or connections.
- A value that contains itself, or is too deep to copy, is taken as it is: no saver can save it.

To C code an `OwnList` is a list, whose elements it reads without our methods. So it finds objects of
the state. That is right for code that only reads, such as a serializer, but a pydantic model would
hold them in a field of the type `list`.
"""

import copy
import pickle
from collections import deque
from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
    ValuesView,
)
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import partial
from io import BytesIO
from operator import is_
from types import FunctionType, MappingProxyType, NoneType
from typing import Any, Protocol, SupportsIndex, TypeVar
from uuid import UUID

from pydantic import BaseModel

V = TypeVar("V")
Copies = Callable[[Any], Any]
"""Returns the copy of an object that is inside another one."""

LEAVES = frozenset(
    [
        *(str, int, float, bool, NoneType, bytes, complex, Decimal, UUID, range),
        *(datetime, date, time, timedelta, timezone, type, FunctionType, frozenset),
    ]
)
"""Types of objects that need no copy: they cannot be changed."""
_SMALL = 100
"""Maximum number of elements in data that is copied at once."""
_RUN = 32
"""Number of elements that an iteration copies at once."""
_PLAIN = LEAVES | {list, dict}
_NONE: Any = object()


class _TooLarge(Exception):
    """Raised where data has more than `_SMALL` elements."""


class OwnList(list[Any]):
    """A list whose elements are shared with another list until they are reached."""

    _shared: Sequence[Any] = ()
    """The other list; an element is shared while both have the same object at its index."""
    _copies: dict[int, Any] | None = None
    """The copies of elements by their ids, if another own list began with the same elements."""

    def _reach(self, index: int, element: object) -> Any:
        """Return an element that may be changed; it replaces a shared one."""
        if index < len(self._shared) and self._shared[index] is element:
            element = _reached(element, self._copies)
            list.__setitem__(self, index, element)
        return element

    def _reach_all(self) -> None:
        for index, element in enumerate(list.__iter__(self)):
            if type(element) not in LEAVES:
                self._reach(index, element)
        self._shared = []

    def __getitem__(self, index: Any) -> Any:
        element = list.__getitem__(self, index)
        if type(element) in LEAVES:
            return element
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = index.__index__()
        return self._reach(at if at >= 0 else at + len(self), element)

    def __iter__(self) -> Iterator[Any]:
        if LEAVES.issuperset(map(type, list.__iter__(self))):
            return list.__iter__(self)
        return self._each()

    def _each(self) -> Iterator[Any]:
        index = 0
        while index < len(self):
            element = list.__getitem__(self, index)
            if type(element) not in LEAVES:
                reached = self._reach(index, element)
                is_small = reached is not element and type(reached) is type(element)
                if is_small and self._copies is None:
                    self._reach_run(index + 1)
                element = reached
            yield element
            index += 1

    def _reach_run(self, begin: int) -> None:
        """Reach the next elements at once, after one that was small: that is much faster."""
        run = list.__getitem__(self, slice(begin, begin + _RUN))
        if _are_same(run, self._shared[begin : begin + _RUN]) and _PLAIN.issuperset(map(type, run)):
            list.__setitem__(self, slice(begin, begin + len(run)), private(run))

    def __reversed__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self) - 1, -1, -1))

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            self._reach_all()
        list.__setitem__(self, index, value)

    def __delitem__(self, index: Any) -> None:
        self._reach_all()
        list.__delitem__(self, index)

    def pop(self, index: SupportsIndex = -1) -> Any:
        """Remove an element and return it."""
        element = self[index]
        if index.__index__() not in (-1, len(self) - 1):
            self._reach_all()
        list.pop(self, index)
        return element

    def insert(self, index: SupportsIndex, element: Any) -> None:
        """Insert an element."""
        self._reach_all()
        list.insert(self, index, element)

    def remove(self, value: Any) -> None:
        """Remove the first element that is equal to a value."""
        self._reach_all()
        list.remove(self, value)

    def reverse(self) -> None:
        """Reverse the order."""
        self._reach_all()
        list.reverse(self)

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """Sort the elements."""
        self._reach_all()
        list.sort(self, key=key, reverse=reverse)

    def copy(self) -> list[Any]:
        """Return a list of the elements."""
        return [*self]

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return copy.deepcopy([*list.__iter__(self)], memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type, tuple[list[Any]]]:
        return list, ([*list.__iter__(self)],)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, list):
            return NotImplemented
        return _joined(self, OwnList([*list.__iter__(self), *other]))

    def __radd__(self, other: Any) -> Any:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> list[Any]:
        return [*self] * times

    __rmul__ = __mul__

    def __imul__(self, times: SupportsIndex) -> Any:
        self._reach_all()
        return list.__imul__(self, times)


class OwnDict(dict[Any, Any]):
    """A dict whose values are shared with another dict until they are reached."""

    _shared: Mapping[Any, Any] = MappingProxyType({})
    """The other dict; a value is shared while both have the same object under its key."""
    _copies: dict[int, Any] | None = None
    """The copies of values by their ids, if another own dict began with the same values."""

    def _reach(self, key: object, value: object) -> Any:
        """Return a value that may be changed; it replaces a shared one."""
        if self._shared.get(key, _NONE) is value:
            value = _reached(value, self._copies)
            dict.__setitem__(self, key, value)
        return value

    def __getitem__(self, key: Any) -> Any:
        value = dict.__getitem__(self, key)
        return value if type(value) in LEAVES else self._reach(key, value)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        value = dict.get(self, key, default)
        return value if type(value) in LEAVES else self._reach(key, value)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, which is the default if it has none."""
        return self[key] if key in self else dict.setdefault(self, key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a key and return its value, or the default."""
        self.get(key)
        return dict.pop(self, key, *default)

    def popitem(self) -> tuple[Any, Any]:
        """Remove the last key, and return it with its value."""
        if self:
            self.get(next(reversed(self)))
        return dict.popitem(self)

    def __iter__(self) -> Iterator[Any]:  # C code that finds none reads the values without us
        return dict.__iter__(self)

    def values(self) -> Any:
        """Return a view of the values."""
        return ValuesView(self)

    def items(self) -> Any:
        """Return a view of the keys with their values."""
        return ItemsView(self)

    def copy(self) -> dict[Any, Any]:
        """Return a dict of the values."""
        return dict(self.items())

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Any, Any]:
        return copy.deepcopy(dict(dict.items(self)), memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type, tuple[dict[Any, Any]]]:
        return dict, (dict(dict.items(self)),)

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, dict):
            return NotImplemented
        return _joined(self, OwnDict({**dict(dict.items(self)), **other}))

    def __ror__(self, other: Any) -> Any:
        return {**other, **self} if isinstance(other, dict) else NotImplemented


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def _sharing(made: Any, shared: object) -> Any:
    made._shared = shared
    return made


def _joined(one: Any, made: Any) -> Any:
    """Return a new own list or dict that begins with the elements of another, which are the same."""
    if one._copies is None:
        one._copies = {}
    made._shared, made._copies = one._shared, one._copies
    return made


def _reached(element: object, copies: dict[int, Any] | None) -> Any:
    try:
        if copies is None:
            return _own(element, {})
        if id(element) not in copies:
            copies[id(element)] = _own(element, {})
        return copies[id(element)]
    except RecursionError:
        return element


def own_list(elements: list[V]) -> list[V]:
    """Return an own list of any length; its elements are copied when they are reached."""
    made: list[V] = _sharing(OwnList(elements), elements)
    return made


def own(value: V) -> V:
    """Return a value that may be changed without an effect on the given one."""
    try:
        made: V = _own(value, {})
        return made
    except RecursionError:
        return value


def _own(value: Any, memo: dict[int, Any]) -> Any:
    """Return an own value; `memo` has the copies of models by the ids of these."""
    kind = type(value)
    if kind in LEAVES:
        return value
    if kind is list or kind is dict:
        try:
            return _small(value, [_SMALL], memo)
        except _TooLarge:
            made = OwnList(value) if kind is list else OwnDict(value)
            return _sharing(made, value)
    if kind is OwnList or kind is OwnDict:
        return _own(detached(value), memo)
    return _copied(value, lambda each: _own(each, memo), memo)


def _small(value: Any, room: list[int], memo: dict[int, Any]) -> Any:
    """Return a copy of data.

    Args:
        value: The data.
        room: The number of elements that it may still have.
        memo: As in `_own`.

    Raises:
        _TooLarge: It has more.
    """
    kind = type(value)
    if kind is not list and kind is not dict:
        return _own(value, memo)
    room[0] -= len(value)
    if room[0] < 0:
        raise _TooLarge
    if kind is list:
        return [each if type(each) in LEAVES else _small(each, room, memo) for each in value]
    return {
        key: each if type(each) in LEAVES else _small(each, room, memo) for key, each in value.items()
    }


class _NotPlain(Exception):
    """Raised where data has an object of a class that is not one of Python's own."""


class _PlainPickler(pickle.Pickler):
    """Pickles plain data alone: a copy by `pickle` is several times as fast as one in Python."""

    def reducer_override(self, value: object) -> Any:
        raise _NotPlain


def _copied_whole(value: Any, *, takes_shared: bool) -> Any:
    file = BytesIO()
    try:
        try:
            _PlainPickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
            return pickle.loads(file.getbuffer())
        except (_NotPlain, pickle.PicklingError):
            return _detached(value, {}, takes_shared=takes_shared)
    except RecursionError:
        return value


class _Copying(Protocol):
    def __call__(self, value: V, /) -> V: ...


detached: _Copying = partial(_copied_whole, takes_shared=True)
"""Returns a value without objects that others may change; lists and dicts are plain ones."""

private: _Copying = partial(_copied_whole, takes_shared=False)
"""Returns a copy of which nothing is shared, in plain lists and dicts.

It is for code that is passed a whole value, and may change it: a graph, or a tool whose arguments
pydantic copies without our methods.
"""


def _detached(value: Any, memo: dict[int, Any], *, takes_shared: bool) -> Any:
    """Return a copy in plain lists and dicts.

    Args:
        value: The value.
        memo: As in `_own`.
        takes_shared: Whether shared elements of an `OwnList` or `OwnDict` are taken as they are.
    """
    kind = type(value)
    if kind in LEAVES:
        return value
    if takes_shared and kind is OwnList:
        return _written_list(value, memo)
    if takes_shared and isinstance(value, OwnDict):
        return _written_dict(value, memo)

    def inner(each: Any) -> Any:
        return each if type(each) in LEAVES else _detached(each, memo, takes_shared=takes_shared)

    if kind is list or kind is OwnList:
        return [inner(each) for each in list.__iter__(value)]
    if kind is dict or isinstance(value, OwnDict):
        return {key: inner(each) for key, each in dict.items(value)}
    return _copied(value, inner, memo)


def _written_list(value: OwnList, memo: dict[int, Any]) -> Any:
    """Return a plain list with the elements that are shared; the shared list if nothing differs."""
    elements, shared = [*list.__iter__(value)], value._shared
    for index, each in enumerate(elements):
        if type(each) not in LEAVES and not (index < len(shared) and shared[index] is each):
            elements[index] = _detached(each, memo, takes_shared=True)
    return shared if _are_same(elements, shared) else elements


def _written_dict(value: OwnDict, memo: dict[int, Any]) -> Any:
    """Return a plain dict with the values that are shared; the shared dict if nothing differs."""
    elements, shared = dict(dict.items(value)), value._shared
    for key, each in elements.items():
        if type(each) not in LEAVES and shared.get(key, _NONE) is not each:
            elements[key] = _detached(each, memo, takes_shared=True)
    is_same = [*elements] == [*shared] and all(map(is_, elements.values(), shared.values()))
    return shared if is_same else elements


def _copied(value: Any, copies: Copies, memo: dict[int, Any]) -> Any:
    """Return a copy of an object that is not a list or dict, with copies inside it."""
    if (made := memo.get(id(value))) is not None:
        return made[1]
    try:
        return _copy(value, copies, memo)
    except RecursionError:  # to catch it here, at each level, would take for ever
        raise
    except Exception:  # it cannot be copied
        return value


def _copy(value: Any, copies: Copies, memo: dict[int, Any]) -> Any:
    kind: Any = type(value)
    if isinstance(value, BaseModel):
        return _fields_copied(_new(kind, value, copies), value, copies, memo)
    if is_dataclass(value):
        return _fields_copied(copy.copy(value), value, copies, memo)
    if isinstance(value, tuple):
        elements = [copies(each) for each in value]
        return value if all(map(is_, elements, value)) else tuple.__new__(kind, elements)
    if isinstance(value, deque | list | MutableMapping):
        made = copy.copy(value)
        for key in range(len(made)) if isinstance(made, Sequence) else [*made]:
            made[key] = copies(value[key])
        return made
    if kind is MappingProxyType:
        return MappingProxyType(copies({**value}))
    if isinstance(value, set | bytearray):
        return copy.copy(value)
    is_copied = hasattr(kind, "__deepcopy__") and not isinstance(value, Enum)
    return copy.deepcopy(value) if is_copied else value


def _new(kind: type[BaseModel], value: BaseModel, copies: Copies) -> BaseModel:
    made = kind.__new__(kind)
    set_attribute = object.__setattr__
    set_attribute(made, "__dict__", {**value.__dict__})
    set_attribute(made, "__pydantic_extra__", copies(value.__pydantic_extra__))
    set_attribute(made, "__pydantic_fields_set__", {*value.__pydantic_fields_set__})
    private = value.__pydantic_private__
    set_attribute(made, "__pydantic_private__", None if private is None else {**private})
    return made


def _fields_copied(made: Any, value: Any, copies: Copies, memo: dict[int, Any]) -> Any:
    memo[id(value)] = value, made
    for name, each in _fields_of(made).items():
        if type(each) not in LEAVES:
            object.__setattr__(made, name, copies(each))
    return made


def _fields_of(made: Any) -> dict[str, Any]:
    if not hasattr(made, "__dict__"):
        return {
            each.name: getattr(made, each.name) for each in fields(made) if hasattr(made, each.name)
        }
    values: dict[str, Any] = made.__dict__
    return values

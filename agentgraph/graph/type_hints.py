"""Gives a value the type that a hint declares, also after a saver has made plain data of it.

The problem: a saver stores a tuple as a list, a Counter as a dict, an Enum that is a key as its value.
A declaration says what they were. pydantic could build them again, but it would convert more than what
a saver has changed (the text "3" to a number), run the validators of a user once more, and leave the
fields of a dataclass as they are. The rules:

- A value that fits strictly stays as it is. So restoring twice changes nothing.
- Else containers and keys get their types, without a validator of an annotation. Their contents stay as
  they are: a saver keeps objects, and plain data that was written for one is read as plain data.
- The fields of a dataclass are restored by the hints of its class, in the object.
"""

import sys
import types
from collections import Counter, OrderedDict, abc, defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from enum import Enum
from functools import cache, cached_property
from itertools import combinations
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    PydanticUserError,
    Strict,
    TypeAdapter,
)
from pydantic_core import to_json
from typing_extensions import TypedDict, is_typeddict

make_typed_dict: Any = TypedDict
"""Makes a type of fields that are known at runtime; a checker wants them written out."""
_SCALARS = (bool, int, float, str, bytes)
_CONTAINERS = (
    *(list, tuple, dict, set, frozenset, deque, Counter, OrderedDict, defaultdict),
    *(abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable, abc.Set, abc.MutableSet),
    *(abc.Mapping, abc.MutableMapping),
)
"""Containers, whose parts are hinted."""
_PLAIN = (str, int, float, bool, type(None))
_OPEN = (Any, object)


class TypedHint:
    """A type hint, by which values are checked and get their types.

    Attributes:
        hint: The hint.
    """

    def __init__(self, hint: object) -> None:
        self.hint = hint

    @cached_property
    def adapter(self) -> TypeAdapter[object]:
        """Checks values as the hint says."""
        return _adapter(self.hint)

    def typed(self, value: object) -> object:
        """Return a value with its type; the value itself if it has it.

        Raises:
            ValueError: It does not fit.
        """
        if self._is_open:
            return value
        try:
            if self._has_nameless:
                raise ValueError("plain data of an object would fit")
            self.adapter.validate_python(value, strict=True)
            fitting = value
        except Exception:  # also of a user's validator
            fitting = self._converted(value)
        return _with_typed_fields(fitting) if self._has_fields else fitting

    def unchanged(self, value: object) -> object:
        """Return a value that fits; a validator for pydantic.

        Plain data becomes an object of a class that LangGraph cannot find by its name.
        """
        if not self.fits(value):
            raise ValueError("it does not fit")
        kind: Any = get_origin(self.hint) or self.hint
        if _is_nameless(kind) and not isinstance(value, kind):
            return self.adapter.validate_json(to_json(value), strict=True)
        return value

    def fits(self, value: object) -> bool:
        """Return whether a value has the type, or its form in JSON."""
        with suppress(Exception):
            self.adapter.validate_python(value, strict=True)
            return True
        with suppress(Exception):
            self.adapter.validate_json(to_json(value), strict=True)
            return True
        return False

    def _converted(self, value: object) -> object:
        with suppress(Exception):
            return self._lenient.validate_python(value)
        if not self.fits(value):
            raise ValueError("it does not fit")
        return value

    @cached_property
    def _lenient(self) -> TypeAdapter[object]:
        return _adapter(_lenient(self.hint))

    @cached_property
    def _is_open(self) -> bool:
        hint = self.hint
        while get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        return hint in _OPEN

    @cached_property
    def _has_nameless(self) -> bool:
        return any(map(_is_nameless, hints_in(self.hint)))

    @cached_property
    def _has_fields(self) -> bool:
        return any(is_dataclass(each) for each in hints_in(self.hint))


def hints_in(hint: object) -> list[object]:
    """Return a hint and those that it is made of, without the fields of classes."""
    every: list[object] = []
    queue = [hint]
    while queue:
        each = queue.pop()
        if any(each is other for other in every):
            continue
        every.append(each)
        if get_origin(each) is not Literal:
            queue += get_args(each)[: 1 if get_origin(each) is Annotated else None]
        queue += [getattr(each, name, None) for name in ("__supertype__", "__value__", "__bound__")]
        if is_typeddict(each) or hasattr(each, "_fields"):
            queue += _hints_of(each).values()
    return every


def _is_nameless(hint: Any) -> bool:
    """Return whether objects of a hint have a class that LangGraph cannot import by its name.

    It reads an object of such a class, one of a generic or one in a function, as plain data.
    """
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or not (issubclass(kind, BaseModel) or is_dataclass(kind)):
        return False
    return getattr(sys.modules.get(kind.__module__), kind.__name__, None) is not kind


def _adapter(hint: Any) -> TypeAdapter[object]:
    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # it has its own config
        return TypeAdapter(hint)


def _lenient(hint: Any, *, is_key: bool = False, around: tuple[object, ...] = ()) -> Any:
    """Return a hint by which containers of another kind are converted, and nothing that is in them.

    Args:
        hint: The hint.
        is_key: Whether it is that of a key, of which a saver makes a text or a number.
        around: The types of dicts that it is inside of.
    """
    hint = getattr(hint, "__supertype__", getattr(hint, "__value__", hint))
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _lenient(arguments[0], is_key=is_key, around=around)
    if origin in (Required, NotRequired):
        return origin[_lenient(arguments[0], around=around)]
    if origin in (Union, types.UnionType):
        several = [_lenient(each, is_key=is_key, around=around) for each in arguments]
        return Union[tuple(several)]  # noqa: UP007
    if is_typeddict(hint):
        return _lenient_dict(hint, around)
    if hint in _OPEN or hint in (None, type(None), Ellipsis) or is_key:
        return hint
    if isinstance(hint, type) and hint in _SCALARS:
        return Annotated[hint, Strict()]
    if hint is bytearray:
        return Annotated[bytearray, BeforeValidator(_as_bytearray)]
    kind = origin or hint
    if not isinstance(kind, type) or not (kind in _CONTAINERS or hasattr(kind, "_fields")):
        return Annotated[Any, PlainValidator(TypedHint(hint).unchanged)]
    maps = issubclass(kind, Mapping)
    several = [
        _lenient(each, is_key=maps and n == 0, around=around) for n, each in enumerate(arguments)
    ]
    return hint if not several else cast(Any, kind)[tuple(several)]


def _as_bytearray(value: object) -> object:
    return bytearray(value) if isinstance(value, bytes) else value


def _lenient_dict(hint: Any, around: tuple[object, ...]) -> Any:
    hints = _hints_of(hint)
    if hint in around or not hints:
        return hint
    inner = {name: _lenient(each, around=(*around, hint)) for name, each in hints.items()}
    missing = {name for name in inner if name in hint.__optional_keys__}
    inner = {n: NotRequired[_bare(each)] if n in missing else each for n, each in inner.items()}
    return make_typed_dict(hint.__name__, inner)


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _with_typed_fields(value: object) -> object:
    if isinstance(value, _PLAIN):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        for name, typed in _field_types(type(value)).items():
            with suppress(AttributeError, ValueError):
                was = getattr(value, name)
                if (now := typed.typed(was)) is not was:
                    object.__setattr__(value, name, now)
        return value
    if isinstance(value, Mapping):
        inside: list[object] = [*value.values()]
    else:
        inside = [*value] if isinstance(value, list | tuple | set | frozenset) else []
    for each in inside:
        _with_typed_fields(each)
    return value


@cache
def _field_types(kind: type) -> Mapping[str, TypedHint]:
    hints = _hints_of(kind)
    typed = {each.name: TypedHint(hints[each.name]) for each in fields(kind) if each.name in hints}
    return {name: each for name, each in typed.items() if _is_known(each)}


def _is_known(typed: TypedHint) -> bool:
    try:
        typed.adapter.rebuild(raise_errors=True)
    except Exception:
        return False
    return True


def _hints_of(kind: object) -> Mapping[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except Exception:  # a name that cannot be found from here
        return {}


_ARRAYS = (list, tuple, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
"""Types whose values are saved as lists."""
_NAMED_KEYS = (UUID, date, datetime, time, str)
"""Types of keys that are saved as texts."""


def alike(hint: object) -> tuple[object, object] | None:
    """Return two members of a union that a saver stores alike, so that nothing can tell them apart.

    >>> alike(dict[str, tuple[int, ...] | list[int]]), alike(tuple[int, ...] | list[str] | None)
    ((tuple[int, ...], list[int]), (tuple[int, ...], list[str]))
    >>> alike(tuple[int, int] | list[str]), alike(list[int] | set[int] | str | None)
    (None, None)
    """
    for union in hints_in(hint):
        members = get_args(union) if get_origin(union) in (Union, types.UnionType) else ()
        for one, other in combinations(members, 2):
            if _are_alike(_inner(one), _inner(other)):
                return one, other
    return None


def _are_alike(one: Any, other: Any) -> bool:
    """Return whether the same saved data may be a value of either type, and differ as such."""
    if one == other:
        return False
    kinds = get_origin(one) or one, get_origin(other) or other
    if set(kinds) == {bytes, bytearray}:
        return True
    if all(kind in _ARRAYS for kind in kinds):
        items = _items_of(one), _items_of(other)
        if tuple in kinds and kinds[0] is not kinds[1]:
            return _may_agree(*items)
        return any(_are_alike(a, b) for a, b in zip(*(each[0] for each in items), strict=False))
    if all(isinstance(kind, type) and issubclass(kind, Mapping) for kind in kinds):
        keys, values = zip(*(_pair(each) for each in (one, other)), strict=True)
        return kinds[0] is not kinds[1] or (_are_keys_alike(*keys) and _overlap(*values))
    return False


def _may_agree(one: tuple[Sequence[Any], bool], other: tuple[Sequence[Any], bool]) -> bool:
    """Return whether two kinds of lists may hold the same: nothing, or items of types that agree."""
    if one[1] and other[1]:
        return True  # both may be empty
    (fixed, _), (rest, is_open) = (other, one) if one[1] else (one, other)
    many = [rest[0]] * len(fixed) if is_open else [*rest]
    return len(many) == len(fixed) and all(map(_overlap, fixed, many))


def _overlap(one: Any, other: Any) -> bool:
    one, other = _inner(one), _inner(other)
    if one == other or one in _OPEN or other in _OPEN or {one, other} == {int, float}:
        return True
    several = [get_args(each) for each in (one, other)]
    for each, them, rest in ((one, several[0], other), (other, several[1], one)):
        if get_origin(each) in (Union, types.UnionType):
            return any(_overlap(member, rest) for member in them)
    kinds = get_origin(one) or one, get_origin(other) or other
    if all(kind in _ARRAYS for kind in kinds):
        return _may_agree(_items_of(one), _items_of(other))
    return all(isinstance(kind, type) and issubclass(kind, Mapping) for kind in kinds)


def _items_of(hint: Any) -> tuple[Sequence[Any], bool]:
    """Return the types of the items of a list or tuple, and whether there may be any number."""
    arguments = get_args(hint)
    if (get_origin(hint) or hint) is tuple and arguments and Ellipsis not in arguments:
        return arguments, False
    return [arguments[0] if arguments else Any], True


def _pair(hint: Any) -> tuple[Any, Any]:
    arguments = get_args(hint)
    key, *rest = arguments or (Any, Any)
    return _inner(key), rest[0] if rest else int


def _are_keys_alike(one: Any, other: Any) -> bool:
    forms = [_key_form(each) for each in (one, other)]
    return one != other and forms[0] == forms[1] is not None


def _key_form(hint: Any) -> type | None:
    if not isinstance(hint, type):
        return None
    if issubclass(hint, Enum):
        return type(next(iter(hint)).value)
    return str if issubclass(hint, _NAMED_KEYS) else hint


def _inner(hint: Any) -> Any:
    return _inner(get_args(hint)[0]) if get_origin(hint) is Annotated else hint

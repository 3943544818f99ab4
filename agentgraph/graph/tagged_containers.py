"""Writes containers in a form that every saver keeps, with their kind: those in an item of an each.

A worker may use its item as a key, and a saver makes a list of a tuple. An item is fixed when the each
begins, so it is kept as it was given.

>>> marked(("tea", 1))
{'$agentgraph': 'tuple', 'of': ['tea', 1]}
>>> unmarked(marked({"at": (1, 2)}))
{'at': (1, 2)}
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final

_MARK: Final = "$agentgraph"
_KINDS: Mapping[str, Callable[[Any], object]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
    "Counter": lambda pairs: Counter(dict(pairs)),
    "OrderedDict": OrderedDict,
    "dict": dict,
}
"""How containers are made of a list of what is in them, of a dict of its pairs."""


def marked(value: object) -> object:
    """Return a value in which containers other than lists and plain dicts say what they are."""
    kind = type(value)
    if kind is list:
        return [marked(each) for each in _any(value)]
    if kind is dict and _MARK not in _any(value) and all(map(_is_plain_key, _any(value))):
        return {name: marked(each) for name, each in _any(value).items()}
    if kind.__name__ not in _KINDS or kind.__module__ not in ("builtins", "collections"):
        return value
    inside = _any(value).items() if isinstance(value, Mapping) else _any(value)
    return {_MARK: kind.__name__, "of": [marked(each) for each in inside]}


def unmarked(value: object) -> Any:
    """Return the object that `marked` got."""
    match value:
        case list():
            return [unmarked(each) for each in value]
        case {"$agentgraph": str(kind), "of": list(inside)} if kind in _KINDS:
            return _KINDS[kind]([unmarked(each) for each in inside])
        case dict():
            return {name: unmarked(each) for name, each in value.items()}
    return value


def _is_plain_key(key: object) -> bool:
    return type(key) in (str, int)


def _any(value: object) -> Any:
    return value

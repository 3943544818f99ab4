"""Conflicts: values that concurrent lanes wrote differently under one name."""

from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import NamedTuple

from agentgraph.graph.internals import overwrite_in
from agentgraph.graph.values import AreConcurrent, Reducers, Write, is_same

_OPERATORS: Sequence[tuple[Sequence[tuple[type | UnionType, str]], str]] = (
    (((list, "list"), (tuple, "tuple"), (str, "str"), (int, "int"), (int | float, "float")), "add"),
    (((dict, "dict"), (set, "set"), (frozenset, "frozenset")), "or_"),
)
"""Types, with their names, and the operator of Python that merges two values of one."""
_OWN_REDUCER = "object, lambda old, new: ..."


def reducer_for(*values: object) -> str:
    """Return the declaration that would merge values: their type, and a reducer for it.

    >>> reducer_for([1], [2]), reducer_for({"a": 1}, {"b": 2}), reducer_for("a", None)
    ('list, operator.add', 'dict, operator.or_', 'object, lambda old, new: ...')
    """
    if any(isinstance(value, bool) for value in values):
        return _OWN_REDUCER
    for kinds, merging in _OPERATORS:
        for kind, name in kinds:
            if all(isinstance(value, kind) for value in values):
                return f"{name}, operator.{merging}"
    return _OWN_REDUCER


class LastWrite(NamedTuple):
    """The last write of a name in one of the joined lanes."""

    number: int
    by: str
    value: object


def conflicts(
    shared_writes: Mapping[int, Sequence[Write]], are_concurrent: AreConcurrent, reducers: Reducers
) -> dict[str, tuple[LastWrite, LastWrite]]:
    """Return two conflicting writes for each name that has a conflict.

    Two writes conflict if they ran concurrently, and differ under one name without a reducer, or both
    overwrite what a reducer has merged. The package's own values have no writer, and never conflict;
    nor do local values, which calls of one lane may both write.

    Args:
        shared_writes: The writes of the joined lanes, by their numbers.
        are_concurrent: Returns whether two of them ran concurrently.
        reducers: How values are merged.
    """
    result: dict[str, tuple[LastWrite, LastWrite]] = {}
    equal: dict[str, list[list[LastWrite]]] = {}
    for number, writes in shared_writes.items():
        for name, mine in _last_writes(number, writes, reducers).items():
            if name in result:
                continue
            groups = equal.setdefault(name, [])
            other = next(_conflicting(mine, groups, are_concurrent), None)
            if other is not None:
                result[name] = (other, mine)
    return result


def _conflicting(
    mine: LastWrite, groups: list[list[LastWrite]], are_concurrent: AreConcurrent
) -> Iterator[LastWrite]:
    """Yield the writes that conflict with one, and add it to the group of its value."""
    group: list[LastWrite] | None = None
    for each in groups:
        if group is None and is_same(each[0].value, mine.value):
            group = each
        else:
            yield from (other for other in each if are_concurrent(other.number, mine.number))
    if group is None:
        groups.append(group := [])
    group.append(mine)


def _last_writes(number: int, writes: Sequence[Write], reducers: Reducers) -> dict[str, LastWrite]:
    """Return the last write of each name that an agent wrote; with a reducer, the last overwriting."""
    named = [(name, each["by"], value) for each in writes for name, value in each["values"].items()]
    last: dict[str, LastWrite] = {}
    for name, by, value in named:
        overwrites, replacement = overwrite_in(value) if name in reducers.channels else (True, value)
        if overwrites:
            last[name] = LastWrite(number, by, replacement)
    return {name: each for name, each in last.items() if each.by and name not in reducers.local}

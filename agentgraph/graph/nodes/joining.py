"""What a node writes that joins lanes or calls: their writes in order, unless two conflict.

Two conflict that ran side by side and wrote different values under one name without a reducer. What
the package keeps itself is written by nobody, and never conflicts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentgraph.errors import ValueConflictError
from agentgraph.graph.comparing import is_same
from agentgraph.graph.nodes.site import Surroundings
from agentgraph.graph.values import Beside, Write
from agentgraph.safe_repr import shown


class _Last(NamedTuple):
    """The last write of a name by one of those that are joined."""

    number: int
    by: str
    value: Any


def joined(
    where: str,
    handed_back: Mapping[int, Sequence[Write]],
    beside: Beside,
    around: Surroundings,
    label: Callable[[int], str] = lambda number: "",
) -> list[Write]:
    """Return what several wrote as the writes of the node that joins them, in order.

    Args:
        where: The address of the node's agent.
        handed_back: The writes of each, by its number, in declared order.
        beside: Tells which of them ran side by side.
        around: What was visible when they began.
        label: Names one by its number, where its address is that of the node's agent.

    Raises:
        ValueConflictError: Two conflict under a name that nothing settles.
        ReducerError: A reducer failed on what they wrote together.
    """
    found = _conflicts(handed_back, beside, around)
    if left := [name for name in found if name not in around.settled]:
        written = [(each.by, shown(each.value)) for each in found[left[0]]]
        labels = [label(each.number) if each.by == where else "" for each in found[left[0]]]
        raise ValueConflictError(where, left, written, labels)
    writes = [write for each in handed_back.values() for write in each]
    if ends := {name: around.settled[name] for name in found}:
        writes.append(Write(by=where, values=ends))
    around.check(where, writes)
    return writes


def _conflicts(
    handed_back: Mapping[int, Sequence[Write]], beside: Beside, around: Surroundings
) -> dict[str, tuple[_Last, _Last]]:
    """Return two writes that conflict, by the name that they have."""
    found: dict[str, tuple[_Last, _Last]] = {}
    equal: dict[str, list[list[_Last]]] = {}
    for number, writes in handed_back.items():
        for name, mine in _last(number, writes).items():
            if name in found or name in around.reducers.channels:
                continue
            groups = equal.setdefault(name, [])
            other = next(_conflicting(mine, groups, beside), None)
            if other is not None:
                found[name] = (other, mine)
    return found


def _conflicting(mine: _Last, groups: list[list[_Last]], beside: Beside) -> Iterator[_Last]:
    """Yield the writes that conflict with one, and put it to those of an equal value."""
    group: list[_Last] | None = None
    for each in groups:
        if group is None and is_same(each[0].value, mine.value):
            group = each
        else:
            yield from (other for other in each if beside(other.number, mine.number))
    if group is None:
        groups.append(group := [])
    group.append(mine)


def _last(number: int, writes: Sequence[Write]) -> dict[str, _Last]:
    """Return the last write of each name, where an agent wrote it."""
    last = {name: _Last(number, each["by"], v) for each in writes for name, v in each["values"].items()}
    return {name: each for name, each in last.items() if each.by}

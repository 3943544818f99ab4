"""Dependencies between steps: their faults, and the order in which the steps can run."""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from agentgraph.safe_repr import shown

T = TypeVar("T")

DependsOn = Mapping[str, Sequence[str]]
"""The names of the steps, in declared order, each with the names of its dependencies."""


def dependency_faults(names: Sequence[str], depends_on: DependsOn) -> Iterator[str]:
    """Yield the faults of the names and dependencies of steps.

    >>> list(dependency_faults(["a", "b"], {"a": ["b"], "b": ["a"]}))
    ["the steps 'a' -> 'b' -> 'a' wait for each other; take one 'depends_on' out"]
    """
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"{names.count(name)} steps are named {shown(name)}; give each its own name"
    known = known_dependencies(depends_on)
    unknown = [
        (name, each)
        for name in depends_on
        for each in depends_on[name]
        if not isinstance(each, str) or each not in depends_on
    ]
    for name, each in unknown:
        there = ", ".join(map(shown, depends_on))
        yield (
            f"the step {shown(name)} depends on {shown(each)}, which is not a step; choose one of: "
            f"{there}"
        )
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        circle = " -> ".join(map(shown, reversed(error.args[1])))
        yield f"the steps {circle} wait for each other; take one 'depends_on' out"


def known_dependencies(depends_on: DependsOn) -> dict[str, list[str]]:
    """Return the names of steps with their dependencies, without those that are not steps."""
    return {
        name: [each for each in names if isinstance(each, str) and each in depends_on]
        for name, names in depends_on.items()
    }


def in_order(depends_on: DependsOn) -> list[str]:
    """Return the names, each after its dependencies, otherwise in declared order.

    >>> in_order({"press": ["write"], "write": ["find"], "find": [], "thank": []})
    ['find', 'write', 'press', 'thank']
    """
    done: dict[str, None] = {}
    stack = [*depends_on][::-1]
    while stack:
        before = [each for each in depends_on[stack[-1]] if each not in done]
        if before:
            stack += before[::-1]
        else:
            done[stack.pop()] = None
    return list(done)


def upstream(depends_on: Mapping[T, Sequence[T]], name: T) -> set[T]:
    """Return the names of all dependencies of a step, direct and indirect."""
    names: set[T] = set()
    queue = [*depends_on[name]]
    while queue:
        each = queue.pop()
        if each not in names:
            names.add(each)
            queue += depends_on.get(each, ())
    return names

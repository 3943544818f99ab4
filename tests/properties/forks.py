"""What comes of branches and steps: their order, their signals, and failures that become messages."""

from collections.abc import Sequence
from typing import NoReturn

import specs
from lanes import Here, Lane


class CollectedError(Exception):
    """The failure of a leaf in a branch where it becomes a message."""

    def __init__(self, leaf: specs.Leaf | specs.Switch, here: Here, text: str) -> None:
        super().__init__(text)
        self.leaf, self.here = leaf, here


def in_order(steps: Sequence[specs.Step]) -> dict[str, specs.Step]:
    """Return steps by name: each after those that it depends on, and else in declared order."""
    declared, order = {step.agent.name: step for step in steps}, {}

    def add(name: str) -> None:
        for before in declared[name].depends_on:
            add(before)
        order.setdefault(name, declared[name])

    for name in declared:
        add(name)
    return order


def joined(signals: Sequence[str | None]) -> str | None:
    """Return the signal that a fork ends with."""
    return "exit" if "exit" in signals else "break_loop" if "break_loop" in signals else None


def collect(
    spec: specs.Leaf | specs.Switch, here: Here, lane: Lane, error: str, emitted: Sequence[str] = ()
) -> NoReturn:
    """Fail in a branch that ends with that; what the call emitted is void."""
    if {"message", "custom", "values"} & set(emitted):
        lane.emit(here, "discarded", None, kept=False)
    lane.emit(here, "error", error, kept=False)
    raise CollectedError(spec, here, error)

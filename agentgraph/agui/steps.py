"""The steps of AG-UI that are open: one for each activation, and for each agent around it.

The problem: AG-UI brackets steps by start and end, while agent events have the address of an agent, but
not its end. The rule: a step is open from the first event in it. It ends when an event shows by its
address and run path that the run has continued elsewhere:

- The run path of an event has the steps that finished before it. So an open step whose own path is a
  beginning of that path has ended, unless it encloses the event.
- Another iteration, attempt or transfer at the same place ends the one before.
- A message of an agent ends the steps inside it, such as agents that it called as tools.

If neither applies (steps of a workflow, calls of a function's agents), a step ends with the step around
it. The name of a step is its address, which is unique in a turn:

    report, report/refine[0], report/refine[0]/writer
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from agentgraph.agents.run_path import RunPath

_COUNTERS = re.compile(r"\[\d+\]|\{\d+\}")
"""Matches the counters of an address that follow each other in time."""
_NAME = re.compile(r"[^(\[{]*")
"""Matches the name of an agent in a part of an address."""


class Steps:
    """The open steps, outermost first."""

    def __init__(self) -> None:
        self._open: dict[str, RunPath] = {}

    def ended_by(self, address: str, path: RunPath, *, is_message: bool) -> list[str]:
        """End the steps that have ended before an event, and return their names, innermost first.

        Args:
            address: The address of the event.
            path: Its run path.
            is_message: Whether the event is a message, which ends the steps inside its agent.
        """
        around = _around(address)
        bases = {_base(each): each for each in around}
        ended = {
            name
            for name, own in self._open.items()
            if name not in around
            and (
                (is_message and _is_inside(name, address))
                or (not _is_inside(name, address) and len(own) < len(path) and path.starts_with(own))
                or bases.get(_base(name), name) != name
            )
        }
        return self._without(name for name in self._open if any(_is_inside(name, e) for e in ended))

    def begun_by(self, address: str, path: RunPath) -> list[str]:
        """Start the steps around an event, and return the names of the new ones."""
        around = _around(address)
        new = [name for name in around if name not in self._open]
        if new:
            paths = dict(zip(around, _paths(around, path), strict=True))
            self._open |= {name: paths[name] for name in new}
        return new

    def ended(self, address: str = "") -> list[str]:
        """End a step and those inside it, or all; return the names, innermost first."""
        return self._without(name for name in self._open if not address or _is_inside(name, address))

    def _without(self, names: Iterator[str]) -> list[str]:
        ended = [*names][::-1]
        for name in ended:
            del self._open[name]
        return ended


def _around(address: str) -> list[str]:
    return [*accumulate(address.split("/"), "{}/{}".format)]


def _is_inside(name: str, other: str) -> bool:
    return name == other or name.startswith(f"{other}/")


def _base(name: str) -> str:
    around, slash, last = name.rpartition("/")
    return around + slash + _COUNTERS.sub("", last)


def _paths(around: Sequence[str], path: RunPath) -> list[RunPath]:
    """Return the run path of each of several agents, the last of which has `path`.

    An agent's name is in the path of each agent inside it; between the two are finished siblings.
    """
    names, end = path.names, len(path)
    paths = [path]
    for name in reversed(around[:-1]):
        own = _name(name)
        end = next((index for index in range(end - 1, 0, -1) if names[index - 1] == own), end)
        paths.append(RunPath(path[:end]))
    return paths[::-1]


def _name(address: str) -> str:
    match = _NAME.match(address.rpartition("/")[2])
    return match[0] if match else ""

"""Run paths: the path of a run to an activation, computed from its place and cursor.

In the tree `loop refine [writer, chat desk (sub-agents: bills, press)]`, the run path of
`refine[1]/desk[1]/press` is `refine/writer/desk/writer/desk/press`.

An address has the number of transfers, but not their targets. Therefore a reader of addresses gets the
targets from `Chains`: a node streams the chain of its transfers before its first event.
"""

import re
import threading
from collections.abc import Sequence

from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.tree.addresses import (
    Cursor,
    attempt,
    iteration,
    number_of_item,
    parse_address,
)
from agentgraph.tree.places import Count, Place, Tree

TransferChain = tuple[str | None, ...]
"""The names that transfers added to the run path, in order, divided by "/"; None if unknown."""
_ROUND = re.compile(r"\[(\d+)\]")


class RunPaths:
    """Computes the run paths of a tree's activations. Safe to share between threads.

    Paths share their beginnings. The paths to the start of each iteration of a loop, and to each
    sub-agent of a composite, are cached, so that the next path costs only its new steps.

    Attributes:
        tree: The tree.
        has_chains: Whether the tree has transfers, which only `Chains` know.
        inner_names: The names of the nodes of each flattened graph, by its agent.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree, self.inner_names = tree, tree.inner_names
        self.has_chains = tree.has_transfers
        self._iterations: dict[Place, tuple[Cursor, list[RunPath]]] = {}
        self._sub_agents: dict[Place, tuple[Cursor, list[RunPath]]] = {}
        self._plain: dict[str, Place] = {}  # a cache by addresses without their numbers
        self._lock = threading.RLock()

    def at(self, place: Place, cursor: Cursor) -> RunPath:
        """Return the run path of an activation."""
        parent = place.parent
        if parent is not None and place.is_target:
            path = self.at(parent, cursor)  # the transfers of the parent's path end here
        else:
            path = self._entered(place, cursor)
        for _ in range(attempt(place, cursor) if place.repeats else 0):
            path = path.append(_step(place, cursor))
        for transfer in cursor[len(place.counts) - 1] if place.counts_transfers else ():
            for name in transfer.split("/") if transfer else ():
                path = path.append(_step(place, cursor, name))
        return path

    def _entered(self, place: Place, cursor: Cursor) -> RunPath:
        parent = place.parent
        if parent is None:
            return RunPath((RunStep(place.name),))
        inside = cursor[: len(parent.counts_inside)]
        with self._lock:
            if place.starts_lane or place.kind.is_inner or parent.kind.chooses:
                return self._inside(parent, inside).append(_step(place, cursor))
            return self._up_to(parent, inside, place.index)

    def _inside(self, parent: Place, cursor: Cursor) -> RunPath:
        inside = self._iteration if parent.kind.loops else self.at
        return inside(parent, cursor)

    def _up_to(self, parent: Place, cursor: Cursor, index: int) -> RunPath:
        around, paths = self._sub_agents.get(parent, ((), []))
        if around != cursor or not paths:
            paths = [self._inside(parent, cursor)]
            self._sub_agents[parent] = (cursor, paths)
        for sibling in self.tree.children[parent][len(paths) - 1 : index + 1]:
            paths.append(paths[-1].append(_step(sibling, cursor)))
        return paths[index + 1]

    def at_message(self, text: str, message: object) -> RunPath | None:
        """Return the run path of the address of a message, in a tree without transfers."""
        return self.of(text)

    def of(self, text: str, turn: int | None = None, chains: "Chains | None" = None) -> RunPath | None:
        """Return the run path of an address; None for an address of another tree.

        Args:
            text: The address.
            turn: The turn of the activation, if there are chains.
            chains: The known chains of transfers. Unknown transfers are left out of the path.
        """
        form, rounds = _ROUND.sub("[]", text), _ROUND.findall(text)
        place = self._plain.get(form)
        if place is not None and len(rounds) == len(place.counts):
            return self.at(place, tuple(map(int, rounds)))
        activation = parse_address(self.tree, text)
        if activation is None:
            return None
        if activation[0].address_template is not None:
            self._plain[form] = activation[0]
        place, cursor = activation
        return self.at(place, cursor if chains is None else chains.completed(turn or 0, place, cursor))

    def _iteration(self, loop: Place, cursor: Cursor) -> RunPath:
        around, starts = self._iterations.get(loop, ((), []))
        if around != cursor[:-1] or not starts:
            starts = [self.at(loop, cursor[:-1])]
            self._iterations[loop] = (cursor[:-1], starts)
        while len(starts) <= cursor[-1]:
            path = starts[-1]
            for child in self.tree.children[loop]:
                path = path.append(RunStep(child.name, len(starts) - 1))
            starts.append(path)
        return starts[cursor[-1]]


class Chains:
    """The known chains of transfers of a thread, with the target of each transfer.

    A chain belongs to the activation at which it began: its turn, place and counters. The node
    identifies the place, because it is the same in a tree that has changed.
    """

    def __init__(self) -> None:
        self._chains: dict[tuple[int, str, Cursor], TransferChain] = {}

    def completed(self, turn: int, place: Place, cursor: Cursor) -> Cursor:
        """Complete a cursor with all known names of transfers, and store the names that it has."""
        known: list[object] = []
        for count, counter in zip(place.counts, cursor, strict=False):
            if count.kind == "transfers" and counter:
                key = turn, count.place.node, tuple(known)
                chain = self._chains.get(key, ())
                counter = tuple(map(_fuller, counter, chain)) + counter[len(chain) :]
                is_longer = len(chain) > len(counter) and chain[: len(counter)] == counter
                self._chains[key] = chain if is_longer else counter
            known.append(counter)
        return (*known, *cursor[len(known) :])


def _step(place: Place, cursor: Cursor, name: str = "") -> RunStep:
    """Return the step of a place in a run path, or of a named target of its transfers."""
    if place.is_item and name in ("", place.name):
        return RunStep(place.name, number_of_item(cursor[place.counts.index(Count(place, "call"))]))
    return RunStep(name or place.name, iteration(place, cursor[: len(place.counts)]))


def _fuller(new: str | None, old: str | None) -> str | None:
    """Merge two names of a transfer, because an address only has the last name of a return."""
    return old if new is None or (old or "").endswith(f"/{new}") else new


def transfers_in(place: Place, cursor: Cursor) -> list[TransferChain]:
    """Return the transfers in a cursor, outermost first."""
    counters = zip(place.counts, cursor, strict=False)
    return [counter for count, counter in counters if count.kind == "transfers"]


def with_names(place: Place, cursor: Cursor, names: Sequence[Sequence[str]]) -> Cursor:
    """Set the last names of the innermost transfers of a cursor, the outermost of these first.

    With `[["bills"]]` the transfers `(None, "triage", None)` become `(None, "triage", "bills")`.
    """
    counters, given = [*cursor], [*names]
    for index, count in reversed([*enumerate(place.counts)]):
        if count.kind == "transfers" and given:
            last = given.pop()
            counters[index] = (*counters[index][: len(counters[index]) - len(last)], *last)
    return tuple(counters)

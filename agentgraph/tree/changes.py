"""Decides whether a thread can continue with a tree that has changed since it last ran.

The saved data of a thread depends on the shape of its tree: the names of nodes, the counters of
cursors, and the order of siblings, which is in run paths. Places of which nothing has run may differ.
So the two trees are compared place by place, from the root, as far as the thread has reached:

| a place                                           | parts that must be the same                     |
|---------------------------------------------------|-------------------------------------------------|
| where nothing has run                             | nothing                                         |
| at which the thread is, and nothing of it has run | its node and its counters                       |
| of a sequential, or a loop                        | the children up to the last that has run        |
| of a loop whose last child has begun              | all its children                                |
| of a parallel, or a workflow                      | the number of its children, and those that ran  |
| of any other agent                                | those inside it that have run, in any order     |
| of a LangGraph graph in progress                  | whether it is flat, its `checkpointer=`, and    |
|                                                   | the nodes that it has reached                   |

"The same" means the name, the kind, whether a check may send it back, and the name of the node, which
also changes when a second agent of its name is added. Instructions, models, functions, tools and limits
are not part of a tree's shape.

Only the outline of the old tree is left, which the thread saves at the start of each turn, and when it
continues with a tree that has changed. So outlines are compared.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice, zip_longest
from types import MappingProxyType
from typing import NotRequired, cast

from typing_extensions import TypedDict

from agentgraph.agents.kinds import KINDS, AgentKind, Kind


class InnerGraph(TypedDict):
    """The shape of a LangGraph graph that a node runs, as plain data."""

    nodes: list[str]
    """The names of its nodes; empty if they are unknown, as for a remote graph."""
    saves: str
    """The storage of its state: its `checkpointer=`, or "remotely"."""


class Outline(TypedDict):
    """The shape of a tree: a place and the places inside it, as plain data."""

    label: str
    """Its line in a diff of outlines: `function greeter`."""
    kind: str
    """The kind of its agent."""
    repeats: bool
    """Whether a check may make it run again."""
    nodes: list[str]
    """The names of its nodes and tasks, its own first."""
    inside: list["Outline"]
    """The places inside it; the called ones come last."""
    graphs: NotRequired[dict[str, InnerGraph]]
    """The graphs that its nodes run, by the names of the nodes; an older version saved none."""


def lines_of(outline: Outline, indent: str = "") -> Iterator[str]:
    """Yield a line for each place."""
    yield f"{indent}{outline['label']}"
    for each in outline["inside"]:
        yield from lines_of(each, f"{indent}  ")


FORMAT = "2"
"""The version of the form of saved threads: increase it when a saved shape changes."""


def fingerprint_of(outline: Outline) -> str:
    """Return the hash of an outline, eight characters, after the version of the saved form."""
    digest = hashlib.sha256(json.dumps(outline, sort_keys=True).encode()).hexdigest()
    return f"{FORMAT}.{digest[:8]}"


def names_in(outline: Outline) -> set[str]:
    """Return the names of the agents in a tree."""
    return {name_of(outline)}.union(*map(names_in, outline["inside"]))


def new_name_in(was: Outline, now: Outline) -> tuple[str, str] | None:
    """Return the only name that is gone and the only new one, if their kind and parent are the same.

    >>> from agentgraph.tree.layout import lay_out
    >>> a, b, c = (function_agent(name, lambda ctx: "Hi.") for name in "abc")
    >>> was, now = (lay_out(sequential("s", agents)).outline for agents in ([a, b], [c, b]))
    >>> new_name_in(was, now), new_name_in(was, was)
    (('a', 'c'), None)
    """
    old, new = dict(_roles_in(was)), dict(_roles_in(now))
    match [*(old.keys() - new.keys())], [*(new.keys() - old.keys())]:
        case [before], [after] if old[before] == new[after]:
            return before, after
    return None


def _roles_in(outline: Outline, around: str = "") -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the name of each agent, with its kind and the name of its parent."""
    yield name_of(outline), (outline["kind"], around)
    for each in outline["inside"]:
        yield from _roles_in(each, name_of(outline))


def nodes_in(outline: Outline) -> set[str]:
    """Return the names of the nodes and tasks in a tree."""
    return {*outline["nodes"]}.union(*map(nodes_in, outline["inside"]))


def graph_nodes_in(outline: Outline) -> set[str]:
    """Return the names of the nodes that run LangGraph graphs.

    An older version did not save this; its result is the nodes of graphs that are not flat.
    """
    is_whole = kind_in(outline).runs_graph and len(outline["nodes"]) == 1
    nodes = outline.get("graphs", outline["nodes"] if is_whole else ())
    return {*nodes}.union(*map(graph_nodes_in, outline["inside"]))


def kind_in(outline: Outline) -> Kind:
    """Return the kind of the agent at a place; a function for an unknown kind.

    Options that change the kind are not in an outline: a graph counts as not flat.
    """
    return KINDS.get(cast(AgentKind, outline["kind"]), KINDS["function"])


def is_called(outline: Outline) -> bool:
    """Return whether an agent is called as a tool, or by a function."""
    return outline["label"].startswith(("tool ", "run "))


def node_at(outline: Outline, address: str) -> str | None:
    """Return the node of the place that an address names; None if the tree has none.

    >>> from agentgraph.tree.layout import lay_out
    >>> outline = lay_out(sequential("report", [function_agent("writer", lambda ctx: "Hi.")])).outline
    >>> node_at(outline, "report/writer{1}")
    'writer'
    """
    first, *rest = (_COUNTERS.sub("", part) for part in address.split("/"))
    here: Outline | None = outline if name_of(outline) == first else None
    for part in rest:
        name, _, nth = part.partition("#")
        same = [each for each in (here["inside"] if here else ()) if name_of(each) == name]
        here = next(iter(same[int(nth or 1) - 1 :]), None)
    return here["nodes"][0] if here else None


def obstacles(
    was: Outline,
    now: Outline,
    visited: Iterable[str | None],
    here: Iterable[str | None] = (),
    graphs: Mapping[str, Set[str]] = MappingProxyType({}),
) -> list[str]:
    """List the reasons why a thread cannot continue with a changed tree; empty if it can.

    >>> from agentgraph.tree.layout import lay_out
    >>> a, b, c, d = (function_agent(name, lambda ctx: "Hi.") for name in "abcd")
    >>> was, now, other = (
    ...     lay_out(sequential("s", agents)).outline for agents in ([a, b, c], [a, b, d], [d, b, c])
    ... )
    >>> obstacles(was, now, ["a"], ["b"]), obstacles(was, other, ["a"], ["b"])
    ([], ['function a is gone from s', 'function d is new in s'])

    Args:
        was: The outline of the tree that the thread last ran with.
        now: The outline of the tree with which it continues.
        visited: The nodes that have run, at least in part.
        here: The nodes that run next; nothing has run of those that are not in `visited`.
        graphs: The nodes whose graphs are in progress, each with the nodes that it has reached.
    """
    comparison = _Comparison(now, {*filter(None, visited)}, {*filter(None, here)}, graphs)
    found = comparison.between(was, now)
    return list(dict.fromkeys(found))


class _Comparison:
    """Compares an old tree and a new one, as far as a thread has reached in the old one."""

    def __init__(
        self, now: Outline, visited: Set[str], here: Set[str], graphs: Mapping[str, Set[str]]
    ) -> None:
        self._visited, self._here, self._graphs = visited, here, graphs
        self._around = dict(_around(now))

    def between(self, old: Outline, new: Outline, around: str = "") -> Iterator[str]:
        """Yield the obstacles between an old and a new place; `around` is the enclosing agent."""
        is_strict = self._has_run(old) or self._here.isdisjoint(old["nodes"])
        if not self._has_run(old) and not self._is_next(old):
            return
        if name_of(old) != name_of(new) or (is_strict and _label(old) != _label(new)):
            yield self._lost(old, around)
        elif old["nodes"][0] != new["nodes"][0]:
            yield f"{_label(old)} shares its name with another agent in only one of the trees"
        elif _counters(old) != _counters(new) or not self._has_nodes(old, new):
            yield f"{old['label']} is {new['label']} now"
        elif changes := [*self._in_graphs(old, new)]:
            yield from changes
        elif is_strict:
            yield from self._inside(old, new)

    def _in_graphs(self, old: Outline, new: Outline) -> Iterator[str]:
        were, are = old.get("graphs", {}), new.get("graphs", {})
        for node in (each for each in old["nodes"] if each in self._graphs):
            was, now = were.get(node), are.get(node)
            if now is None:
                yield f"{old['label']} is {new['label']} now"
                continue
            if was is not None and was["saves"] != now["saves"]:
                yield f"{_label(old)} saves its state by checkpointer={now['saves']} now"
            been = self._graphs[node] or (was["nodes"] if was is not None else ())
            for gone in sorted({*been} - {*now["nodes"]}):
                yield f"node {gone} is gone from the graph of {_label(old)}"

    def _inside(self, old: Outline, new: Outline) -> Iterator[str]:
        was, now, around = old["inside"], new["inside"], name_of(old)
        kind, is_same = kind_in(old), old["kind"] == new["kind"]
        if is_same and not kind.is_node:
            yield from self._in_order(old, now)
            return
        if is_same and kind.is_parallel and not kind.has_items:
            yield from self._pairs(was, now, max(len(was), len(now)), around)
            return
        by_node = {each["nodes"][0]: each for each in now}
        for one in was:
            if same := by_node.get(one["nodes"][0]):
                yield from self.between(one, same, around)
            elif self._has_run(one) or self._is_next(one):
                yield self._lost(one, around)

    def _in_order(self, old: Outline, now: Sequence[Outline]) -> Iterator[str]:
        was, around = old["inside"], name_of(old)
        ran = [n for n, each in enumerate(was, 1) if self._has_run(each) or self._is_next(each)]
        if kind_in(old).loops and self._has_run(was[-1]) and len(now) > len(was):
            yield f"{_label(now[len(was)])} is new in {around}, whose last agent has begun"
        yield from self._pairs(was, now, max(ran, default=0), around)

    def _pairs(
        self, was: Sequence[Outline], now: Sequence[Outline], count: int, around: str
    ) -> Iterator[str]:
        for one, other in islice(zip_longest(was, now), count):
            if one and other and (_label(one) == _label(other) or self._may_be(one, other)):
                yield from self.between(one, other, around)
                continue
            is_new = other and all(_label(other) != _label(each) for each in was)
            if one and not (is_new and any(_label(one) == _label(each) for each in now)):
                yield self._lost(one, around)
            if other and is_new:
                yield f"{_label(other)} is new in {around}"

    def _may_be(self, old: Outline, new: Outline) -> bool:
        return not self._has_run(old) and name_of(old) == name_of(new)

    def _lost(self, old: Outline, around: str) -> str:
        what = _label(old)
        if what not in self._around:
            return f"{what} is gone from {around}" if around else f"the root was {what}"
        there = self._around[what]
        if there == around:
            return f"{what} is at another place in {around}"
        return f"{what} is moved under {there}" if there else f"{what} is the root"

    def _has_nodes(self, old: Outline, new: Outline) -> bool:
        """Return whether a new place has the nodes that the thread needs: the current ones.

        A flattened graph also needs the nodes that the thread has reached, which are in addresses.
        """
        if kind_in(old).runs_graph:
            return not {*old["nodes"]} & (self._here | self._visited) - {*new["nodes"]}
        return self._here.isdisjoint(old["nodes"][1:]) or old["label"] == new["label"]

    def _has_run(self, outline: Outline) -> bool:
        return _has(outline, self._visited)

    def _is_next(self, outline: Outline) -> bool:
        return _has(outline, self._here)


_COUNTERS = re.compile(r"\([^()]*\)|\{\d+\}|\[\d+\]")


def _label(outline: Outline) -> str:
    """Return the kind and the name of a place: its label, without its nodes."""
    return outline["label"].partition(" (")[0]


def name_of(outline: Outline) -> str:
    """Return the name of the agent at a place."""
    return _label(outline).rpartition(" ")[2]


def _counters(outline: Outline) -> tuple[bool, bool, bool]:
    kind = kind_in(outline)
    targets = [each for each in outline["inside"] if not is_called(each)]
    has_transfers = kind.is_swarm or (kind.transfers and bool(targets))
    return outline["repeats"], has_transfers, not kind.is_node


def _around(outline: Outline, around: str = "") -> Iterator[tuple[str, str]]:
    yield _label(outline), around
    for each in outline["inside"]:
        yield from _around(each, name_of(outline))


def _has(outline: Outline, nodes: Set[str]) -> bool:
    is_here = not nodes.isdisjoint(outline["nodes"])
    return is_here or any(_has(each, nodes) for each in outline["inside"])

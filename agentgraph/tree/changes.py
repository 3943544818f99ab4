"""Decides whether a thread can continue with a tree that has changed since it last ran.

What a thread has saved depends on the shape of its tree: the names of nodes, the counters of cursors,
and the order of siblings, which is in run paths. Agents after the place where the thread is have had no
effect yet. So:

- a sequential may have more children at its end, anywhere in the tree;
- in the sequentials around the place where the thread is, if only sequentials enclose them, the
  children after the one that runs may be others, unless the thread was there in an earlier turn;
- all else must be the same. That includes the names of nodes: the node of an agent gets another name
  when a second agent of its name is added.

Of the old tree only its outline is left, which the thread saves at the start of each turn. So outlines
are compared, and the names of nodes are derived from them by the same rule as from a tree.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from agentgraph.tree.kinds import WORK
from agentgraph.tree.places import is_drawable

_LINE = re.compile(r"(?P<indent> *)(?P<role>tool )?(?P<kind>\S+) (?P<name>.*?)(?P<more>( \([^()]*\))*)")
_FURTHER = re.compile(r" \((?:hooks|nodes) (?P<names>[^()]*)\)")


@dataclass(eq=False)
class Outlined:
    """A place of a tree, read from its outline.

    Attributes:
        label: Its line, without the indent.
        kind: The kind of its agent.
        node: The name of its node.
        children: The places inside it; those that it calls come last.
    """

    label: str
    kind: str
    node: str
    children: list["Outlined"] = field(default_factory=list)

    @property
    def nodes(self) -> set[str]:
        """The names of its nodes and tasks."""
        more = match["names"].split(", ") if (match := _FURTHER.search(self.label)) else []
        return {self.node, *(f"{self.node}.{name}" for name in (*WORK.get(self.kind, ()), *more))}


def fingerprint_of(outline: Sequence[str]) -> str:
    """Return a hash of an outline: eight characters."""
    return hashlib.sha256("\n".join(outline).encode()).hexdigest()[:8]


def can_resume(
    was: Sequence[str],
    now: Sequence[str],
    next_node: str | None,
    visited: Collection[str | None],
) -> bool:
    """Return whether a thread of a tree of one outline can continue with a tree of another.

    >>> was = ["sequential s", "  function a", "  human b", "  function c"]
    >>> can_resume(was, ["sequential s", "  function a", "  human b", "  function d"], "b", [])
    True
    >>> can_resume(was, ["sequential s", "  function x", "  human b", "  function c"], "b", [])
    False

    Args:
        was: The outline of the tree that the thread last ran with.
        now: The outline of the tree that it is to continue with.
        next_node: The node at which the thread is; None if it has ended.
        visited: All nodes that it has been at.
    """
    old = parsed(was)
    if next_node is not None and not _has(old, {next_node}):
        return False
    return _fits(old, parsed(now), {next_node} - {None}, visited, leads_here=True)


def _fits(
    old: Outlined,
    new: Outlined,
    here: Collection[str | None],
    visited: Collection[str | None],
    *,
    leads_here: bool,
) -> bool:
    """Return whether a new place may replace an old one.

    `leads_here` says that only sequentials enclose it, so that the children after `here` may differ.
    """
    if (old.label, old.node) != (new.label, new.node):
        return False
    is_sequential = old.kind == "sequential"
    leads_here = leads_here and is_sequential and "(again)" not in old.label
    children = old.children
    at = next((i for i, each in enumerate(children, 1) if _has(each, here)), len(children))
    if leads_here and not any(_has(each, visited) for each in children[at:]):
        children = children[:at]
    if len(new.children) != len(children) and not (is_sequential and len(new.children) > len(children)):
        return False
    pairs = zip(children, new.children, strict=False)
    return all(_fits(*pair, here, visited, leads_here=leads_here) for pair in pairs)


def _has(place: Outlined, nodes: Collection[str | None]) -> bool:
    return any(not each.nodes.isdisjoint(nodes) for each in inside(place))


def parsed(outline: Sequence[str]) -> Outlined:
    """Return the root of an outline, with the names of nodes that `lay_out` gives them."""
    lines = [_LINE.fullmatch(line) for line in outline]
    counts = Counter(line["name"] for line in lines if line)
    taken: set[str] = set()
    around: list[tuple[Outlined, str, Counter[str]]] = []
    root: Outlined | None = None
    for line in filter(None, lines):
        del around[len(line["indent"]) // 2 :]
        name, kind = line["name"], line["kind"]
        segment = path = name
        if around:
            parent, outer, siblings = around[-1]
            is_called = bool(line["role"]) or parent.kind == "each"
            siblings[name] += not is_called
            if not is_called and siblings[name] > 1:
                segment = f"{name}#{siblings[name]}"
            path = f"{outer}.tools.{segment}" if is_called else f"{outer}.{segment}"
        dotted = path if around else f"{path}.root"
        node = name if counts[name] == 1 and is_drawable(name) else dotted
        place = Outlined(line[0].strip(), kind, node)
        while taken & place.nodes:
            place.node += "#"
        taken |= place.nodes
        if around:
            around[-1][0].children.append(place)
        root = root or place
        around.append((place, path, Counter()))
    assert root is not None
    return root


def inside(place: Outlined) -> Iterator[Outlined]:
    """Yield a place and all inside it, in the order of the outline."""
    yield place
    for child in place.children:
        yield from inside(child)

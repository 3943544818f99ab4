"""Whether a thread that one tree left can go on with another: what changed must not matter.

A thread relies on the shape of its tree: the names of nodes, the counters of cursors, and the order
in which siblings stand, for run paths tell of it. It keeps the outline of its tree from the start of
each turn. What stands behind the place where it is has no part in any of this, so:

- a sequential may have further children at its end, wherever it stands;
- of the sequentials around that place, if nothing else is around them, the children behind the one
  that is under way may be others, unless the thread was there in an earlier turn;
- all else is as it was, the names of the nodes too: that of an agent changes where another one of
  its name is added.

Outlines are all that is compared, for of the old tree nothing else is left. A node's name follows
from the outline, as it does from the tree.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from agentgraph.tree.kinds import WORK
from agentgraph.tree.places import is_drawable

_LINE = re.compile(r"(?P<indent> *)(?P<role>tool )?(?P<kind>\S+) (?P<name>.*?)(?P<more>( \([^()]*\))*)")
_HOOKS = re.compile(r" \(hooks (?P<names>[^()]*)\)")


@dataclass(eq=False)
class Outlined:
    """A place of a tree as its outline tells of it.

    Attributes:
        label: Its line, without what says how deep it stands.
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
        hooks = match["names"].split(", ") if (match := _HOOKS.search(self.label)) else []
        return {self.node, *(f"{self.node}.{work}" for work in (*WORK.get(self.kind, ()), *hooks))}


def fingerprint_of(outline: Sequence[str]) -> str:
    """Return the eight characters that stand for an outline."""
    return hashlib.sha256("\n".join(outline).encode()).hexdigest()[:8]


def can_go_on(
    was: Sequence[str],
    now: Sequence[str],
    next_node: str | None,
    visited: Collection[str | None],
) -> bool:
    """Tell whether a thread that a tree of one outline left can go on with one of another.

    >>> was = ["sequential s", "  function a", "  human b", "  function c"]
    >>> can_go_on(was, ["sequential s", "  function a", "  human b", "  function d"], "b", [])
    True
    >>> can_go_on(was, ["sequential s", "  function x", "  human b", "  function c"], "b", [])
    False

    Args:
        was: The outline of the tree that the thread was left by.
        now: That of the tree that is to go on.
        next_node: The node at which the thread is; None where it has ended.
        visited: The nodes at which it ever was.
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
    """Compare two places; one `leads_here` where nothing but sequentials is around it."""
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
    """Return the root of an outline, with the names of nodes as `lay_out` gives them."""
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

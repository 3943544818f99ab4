"""Decides whether a thread can continue with a tree that has changed since it last ran.

What a thread has saved depends on the shape of its tree: the names of nodes, the counters of cursors,
and the order of siblings, which is in run paths. Agents after the place where the thread is have had no
effect yet. So:

- a sequential or a swarm may have more children at its end, anywhere in the tree;
- in the sequentials around the place where the thread is, if only sequentials enclose them, the
  children after the one that runs may be others, unless the thread was there in an earlier turn;
- all else must be the same. That includes the names of nodes: the node of an agent gets another name
  when a second agent of its name is added.

Of the old tree only its outline is left, which the thread saves at the start of each turn. So outlines
are compared.
"""

import hashlib
import json
from collections.abc import Collection, Iterator

from typing_extensions import TypedDict


class Outline(TypedDict):
    """The shape of a tree: a place and those inside it, as plain data."""

    label: str
    """Its line where outlines are compared for people: `function greeter`."""
    kind: str
    """The kind of its agent."""
    repeats: bool
    """Whether a check may make it run again."""
    nodes: list[str]
    """The names of its nodes and tasks, its own first."""
    inside: list["Outline"]
    """The places inside it; those that it calls come last."""


def lines_of(outline: Outline, indent: str = "") -> Iterator[str]:
    """Yield a line for each place."""
    yield f"{indent}{outline['label']}"
    for each in outline["inside"]:
        yield from lines_of(each, f"{indent}  ")


def in_words(was: Outline, now: Outline) -> list[str]:
    """Return what is changed from one outline to another, place by place.

    >>> from agentgraph.tree.places import lay_out
    >>> a, b, c = (function_agent(name, lambda ctx: "Hi.") for name in "abc")
    >>> was, now = (lay_out(sequential("s", each)).outline for each in ([a, b], [c, a]))
    >>> in_words(was, now)
    ['function b is gone from s', 'function c is new in s']
    """
    old, new = dict(_around(was)), dict(_around(now))
    words = []
    for label, around in old.items():
        if label not in new:
            words.append(f"{label} is gone from {around}" if around else f"the root was {label}")
        elif new[label] != around:
            words.append(
                f"{label} is moved under {new[label]}" if new[label] else f"{label} is the root"
            )
    return [*words, *(f"{each} is new in {new[each]}" for each in new if each not in old and new[each])]


def _around(outline: Outline, around: str = "") -> Iterator[tuple[str, str]]:
    """Yield the label of each place, with the name of the place around it."""
    yield outline["label"], around
    for each in outline["inside"]:
        yield from _around(each, outline["nodes"][0])


def fingerprint_of(outline: Outline) -> str:
    """Return a hash of an outline: eight characters."""
    return hashlib.sha256(json.dumps(outline, sort_keys=True).encode()).hexdigest()[:8]


def can_resume(
    was: Outline, now: Outline, next_node: str | None, visited: Collection[str | None]
) -> bool:
    """Return whether a thread of a tree of one outline can continue with a tree of another.

    >>> from agentgraph.tree.places import lay_out
    >>> a, b, c, d = (function_agent(name, lambda ctx: "Hi.") for name in "abcd")
    >>> was, longer, other = (
    ...     lay_out(sequential("s", agents)).outline for agents in ([a, b, c], [a, b, d], [d, b, c])
    ... )
    >>> can_resume(was, longer, "b", []), can_resume(was, other, "b", [])
    (True, False)

    Args:
        was: The outline of the tree that the thread last ran with.
        now: The outline of the tree that it is to continue with.
        next_node: The node at which the thread is; None if it has ended.
        visited: All nodes that it has been at.
    """
    if next_node is not None and not _has(was, {next_node}):
        return False
    return _fits(was, now, {next_node} - {None}, visited, leads_here=True)


def _fits(
    old: Outline,
    new: Outline,
    here: Collection[str | None],
    visited: Collection[str | None],
    *,
    leads_here: bool,
) -> bool:
    """Return whether a new place may replace an old one.

    `leads_here` says that only sequentials enclose it, so that the children after `here` may differ.
    """
    if (old["label"], old["nodes"]) != (new["label"], new["nodes"]):
        return False
    is_sequential = old["kind"] == "sequential"
    leads_here = leads_here and is_sequential and not old["repeats"]
    children = old["inside"]
    at = next((i for i, each in enumerate(children, 1) if _has(each, here)), len(children))
    if leads_here and not any(_has(each, visited) for each in children[at:]):
        children = children[:at]
    extra = len(new["inside"]) - len(children)
    if extra and not (old["kind"] in ("sequential", "swarm") and extra > 0):
        return False
    pairs = zip(children, new["inside"], strict=False)
    return all(_fits(*pair, here, visited, leads_here=leads_here) for pair in pairs)


def _has(outline: Outline, nodes: Collection[str | None]) -> bool:
    is_here = any(node in nodes for node in outline["nodes"])
    return is_here or any(_has(each, nodes) for each in outline["inside"])

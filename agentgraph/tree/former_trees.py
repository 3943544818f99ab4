"""The places of a former tree, made from its outline, for the run paths of its activations.

The agents at these places do nothing: they have the kinds, names and targets of the former agents.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from agentgraph.agents.agents import Agent, CheckedAgent, Composite, HumanAgent, InnerNode, Leaf
from agentgraph.tree.changes import Outline, is_called, kind_in, name_of
from agentgraph.tree.kinds import rules_of
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.rules.row import NOTHING, OutlinedAgent


@dataclass(frozen=True, eq=False)
class FormerTree(Tree):
    """A tree of which only the outline is known."""

    nodes: Mapping[str, Place] = field(default_factory=dict, repr=False)
    """Its places, by the names of their nodes."""

    @property
    def by_node(self) -> Mapping[str, Place]:
        """The places, by the names of their nodes."""
        return self.nodes


def former_tree(outline: Outline) -> FormerTree:
    """Return the tree that an outline describes."""
    children: dict[Place, tuple[Place, ...]] = {}
    called: dict[Place, tuple[Place, ...]] = {}
    nodes: dict[str, Place] = {}

    def place(one: Outline, parent: Place | None, index: int, segment: str, is_called: bool) -> Place:
        agent, (node, *further) = _agent(one), one["nodes"]
        checks = (CheckedAgent(agent=agent, check=NOTHING, repeats=True),) if one["repeats"] else ()
        here = Place(agent, parent, index, segment, node, is_called, checks)
        nodes.update(dict.fromkeys(one["nodes"], here))
        if here.kind.is_flattened:
            names = [each.removeprefix(f"{node}.") for each in further]
            inner = [InnerNode(name=name, node=name) for name in names]
            pairs = enumerate(zip(inner, further, strict=True))
            children[here] = tuple(Place(each, here, n, each.name, at) for n, (each, at) in pairs)
            nodes.update({each.node: each for each in children[here]})
        run, tools = _divided(one)
        if run:
            pairs_ = enumerate(zip(run, _segments(run), strict=True))
            children[here] = tuple(place(each, here, n, part, False) for n, (each, part) in pairs_)
        if tools:
            called[here] = tuple(
                place(each, here, n, name_of(each), True) for n, each in enumerate(tools)
            )
        return here

    root = place(outline, None, 0, name_of(outline), False)
    return FormerTree(cast(Any, root.agent), root, children, called, nodes=nodes)


def _divided(outline: Outline) -> tuple[list[Outline], list[Outline]]:
    inside = outline["inside"]
    if kind_in(outline).has_items:
        return [], inside
    tools = [each for each in inside if is_called(each)]
    return [each for each in inside if not is_called(each)], tools


def _segments(outlines: Sequence[Outline]) -> list[str]:
    seen: Counter[str] = Counter()
    segments: list[str] = []
    for each in outlines:
        name = name_of(each)
        seen[name] += 1
        segments.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return segments


def _agent(outline: Outline) -> Leaf | Composite:
    run, tools = (_named(each) for each in _divided(outline))
    former = OutlinedAgent(name_of(outline), run, tools, is_flat=len(outline["nodes"]) > 1)
    return rules_of(kind_in(outline).name).former(former)


def _named(outlines: Iterable[Outline]) -> tuple[Agent, ...]:
    return tuple(HumanAgent(name=name_of(each), prompt="") for each in outlines)

"""The places of a tree of which only the outline is left, for the run paths of what it ran.

The agents at these places do nothing: they have the kinds, names and targets of those that ran.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from agentgraph.agents.agents import (
    ChatAgent,
    CheckedAgent,
    Composite,
    EachAgent,
    FunctionAgent,
    GraphAgent,
    HumanAgent,
    InnerNode,
    Leaf,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    SwarmAgent,
    SwitchAgent,
    WorkflowAgent,
)
from agentgraph.tree.changes import Outline, is_called, name_of
from agentgraph.tree.places import Place, Tree

_NOTHING: Any = None
"""The model, function or graph of an agent that does nothing."""


@dataclass(frozen=True, eq=False)
class FormerTree(Tree):
    """A tree that is known by its outline alone."""

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
        checks = (CheckedAgent(agent=agent, check=_NOTHING, repeats=True),) if one["repeats"] else ()
        here = Place(agent, parent, index, segment, node, is_called, checks)
        nodes.update(dict.fromkeys(one["nodes"], here))
        if here.kind.is_laid_flat:
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
    """Return the sub-agents of a place, and the agents that it calls any number of times."""
    inside = outline["inside"]
    if outline["kind"] == "each":
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
    """Return an agent of the kind and with the name of a place, which does nothing."""
    name, (run, tools) = name_of(outline), _divided(outline)
    inner: Any = tuple(HumanAgent(name=name_of(each), prompt="") for each in (run or tools))
    match outline["kind"]:
        case "sequential":
            return SequentialAgent(name=name, sub_agents=inner)
        case "loop":
            return LoopAgent(name=name, sub_agents=inner, max_iterations=1)
        case "parallel":
            return ParallelAgent(name=name, sub_agents=inner)
        case "workflow":
            return WorkflowAgent(name=name, steps=())
        case "each":
            return EachAgent(name=name, agent=inner[0], over=_NOTHING)
        case "switch":
            return SwitchAgent(name=name, choose=_NOTHING, cases=_NOTHING)
        case "swarm":
            return SwarmAgent(name=name, sub_agents=inner)
        case "chat":
            return ChatAgent(name=name, model=_NOTHING, sub_agents=inner if run else ())
        case "graph":
            return GraphAgent(name=name, graph=_NOTHING, flat=len(outline["nodes"]) > 1)
        case "human":
            return HumanAgent(name=name, prompt="")
    return FunctionAgent(name=name, fn=_NOTHING, agents=inner)

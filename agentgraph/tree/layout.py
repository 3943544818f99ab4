"""Lays out a tree of agents: makes a place for each occurrence, with names for its nodes."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from agentgraph.agents.agents import (
    Agent,
    checks_of,
    sub_agents,
    unchecked,
)
from agentgraph.agents.kinds import agents_inside, inner_nodes
from agentgraph.tree.places import AS_THEY_ARE, Place, Tree, names_of

_MERMAID_WORDS = frozenset(
    {"_blank", "_parent", "_self", "_top", "call", "class", "classDef", "click", "default", "end"}
    | {"flowchart", "graph", "href", "interpolate", "linkStyle", "style", "subgraph"}
)


def lay_out(root: Agent, known_as: Mapping[str, str] = AS_THEY_ARE) -> Tree:
    """Return the places of a valid tree.

    Args:
        root: Its root agent.
        known_as: The former names of renamed agents, which threads still know.
    """
    counts = Counter(known_as.get(name, name) for name in _names(root))
    children: dict[Place, tuple[Place, ...]] = {}
    called: dict[Place, tuple[Place, ...]] = {}
    taken: set[str] = set()

    def place(
        agent: Agent, parent: Place | None, index: int, segment: str, path: str, is_called: bool = False
    ) -> Place:
        path = f"{path}.{segment}" if path else segment
        dotted = path if parent else f"{path}.root"
        name = known_as.get(agent.name, agent.name)
        node = name if counts[name] == 1 and is_drawable(name) else dotted
        here = Place(unchecked(agent), parent, index, segment, node, is_called, checks_of(agent))
        while not taken.isdisjoint(names := names_of(here)):
            here = replace(here, node=f"{here.node}#")
        taken.update(names)
        if inner := sub_agents(agent):
            children[here] = tuple(
                place(child, here, i, segment, path)
                for i, (child, segment) in enumerate(_segments(inner, known_as))
            )
        if here.kind.is_flattened and (nodes := inner_nodes(here.agent)):
            children[here] = tuple(
                Place(each, here, i, each.name, f"{here.node}.{each.name}")
                for i, each in enumerate(nodes)
            )
            taken.update(child.node for child in children[here])
        if inner := here.kind.called(here.agent):
            called[here] = tuple(
                place(child, here, i, known_as.get(child.name, child.name), f"{path}.tools", True)
                for i, child in enumerate(inner)
            )
        return here

    first = place(root, None, 0, known_as.get(root.name, root.name), "")
    return Tree(root, first, children, called, known_as)


def is_drawable(name: str) -> bool:
    """Return whether Mermaid can read a node of this name; names with a dot are always fine."""
    return name.partition("-")[0] not in _MERMAID_WORDS


def _segments(agents: tuple[Agent, ...], known_as: Mapping[str, str]) -> Iterator[tuple[Agent, str]]:
    seen: Counter[str] = Counter()
    for agent in agents:
        name = known_as.get(agent.name, agent.name)
        seen[name] += 1
        yield agent, name if seen[name] == 1 else f"{name}#{seen[name]}"


def _names(agent: Agent) -> Iterator[str]:
    yield agent.name
    for inner in agents_inside(agent):
        yield from _names(inner)

"""Places: a tree of agents laid out, with the lane and the node of each occurrence."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agentgraph.agents import (
    LEAVES,
    Agent,
    FunctionAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
)
from agentgraph.signals import yields

_MERMAID_WORDS = frozenset(
    {"_blank", "_parent", "_self", "_top", "call", "class", "classDef", "click", "default", "end"}
    | {"flowchart", "graph", "href", "interpolate", "linkStyle", "style", "subgraph"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One occurrence of an agent in a tree.

    Attributes:
        agent: The agent that stands here.
        parent: The place of the composite around it; None at the root.
        index: Which sub-agent of its parent it is, from 0.
        segment: Its part of an address: the name, with `#2` for a second occurrence in one parent.
        node: The name of its node; for a composite without one, a name for messages.
        loops: The places of the loops around it, outermost first: a cursor has a counter for each.
    """

    agent: Agent
    parent: "Place | None"
    index: int
    segment: str
    node: str
    loops: "tuple[Place, ...]" = field(repr=False)

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.agent.name

    @property
    def question_node(self) -> str:
        """The name of the node that asks what this leaf leaves to ask."""
        return f"{self.node}.ask"

    @property
    def starts_lane(self) -> bool:
        """Whether a lane starts here: at the root and at each branch."""
        return self.parent is None or isinstance(self.parent.agent, ParallelAgent)

    @property
    def is_stop(self) -> bool:
        """Whether the place is a node of its lane: a leaf, or the node that runs lanes."""
        return isinstance(self.agent, (*LEAVES, ParallelAgent))


@dataclass(frozen=True, eq=False)
class Tree:
    """The places of a tree.

    Attributes:
        root: The place of the root agent.
        children: The places of each composite's sub-agents, in order.
    """

    root: Place
    children: Mapping[Place, tuple[Place, ...]] = field(repr=False)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """All places, each before those inside it."""
        return tuple(self._walk(self.root))

    @cached_property
    def by_node(self) -> Mapping[str, Place]:
        """The stops of the tree by the names of their nodes, that for questions included."""
        stops = [place for place in self.places if place.is_stop]
        return {node: place for place in stops for node in (place.node, place.question_node)}

    @cached_property
    def outline(self) -> tuple[str, ...]:
        """The shape of the tree, a line for each place: what a thread relies on.

        For a function `greeter` in a loop `l` in a sequence `s` these are
        `('sequential s', '  loop l', '    function greeter')`.
        """
        return tuple(self._outline(self.root, 0))

    @cached_property
    def fingerprint(self) -> str:
        """Eight characters that stand for the outline."""
        return hashlib.sha256("\n".join(self.outline).encode()).hexdigest()[:8]

    @cached_property
    def has_branches(self) -> bool:
        """Whether there is any lane but the outermost."""
        return any(place.starts_lane for place in self.places[1:])

    @cached_property
    def speaks_early(self) -> bool:
        """Whether a generator is among the functions: they speak before their node has ended."""
        agents = (place.agent for place in self.places)
        return any(isinstance(agent, FunctionAgent) and yields(agent.fn) for agent in agents)

    def stops(self, lane: Place) -> Iterator[Place]:
        """Yield the nodes of the lane that starts at `lane`, in the order of the tree."""
        if lane.is_stop:
            yield lane
        else:
            for child in self.children[lane]:
                yield from self.stops(child)

    def _walk(self, place: Place) -> Iterator[Place]:
        yield place
        for child in self.children.get(place, ()):
            yield from self._walk(child)

    def _outline(self, place: Place, depth: int) -> Iterator[str]:
        kind = type(place.agent).__name__.removesuffix("Agent").lower()
        yield f"{'  ' * depth}{kind} {place.name}"
        for child in self.children.get(place, ()):
            yield from self._outline(child, depth + 1)


def lay_out(root: Agent) -> Tree:
    """Return the places of a tree that has no faults."""
    counts = Counter(_names(root))
    children: dict[Place, tuple[Place, ...]] = {}

    def place(agent: Agent, parent: Place | None, index: int, segment: str, path: str) -> Place:
        path = f"{path}.{segment}" if path else segment
        dotted = path if parent else f"{path}.root"
        node = agent.name if counts[agent.name] == 1 and _is_drawable(agent.name) else dotted
        here = Place(agent, parent, index, segment, node, _loops(parent))
        if not isinstance(agent, LEAVES):
            children[here] = tuple(
                place(child, here, i, segment, path)
                for i, (child, segment) in enumerate(_segments(agent.sub_agents))
            )
        return here

    return Tree(place(root, None, 0, root.name, ""), children)


def _is_drawable(name: str) -> bool:
    """Tell whether Mermaid can read a node of this name; one with a dot it always can."""
    return name.partition("-")[0] not in _MERMAID_WORDS


def _loops(parent: Place | None) -> tuple[Place, ...]:
    if parent is None:
        return ()
    return (*parent.loops, parent) if isinstance(parent.agent, LoopAgent) else parent.loops


def _segments(agents: tuple[Agent, ...]) -> Iterator[tuple[Agent, str]]:
    seen: Counter[str] = Counter()
    for agent in agents:
        seen[agent.name] += 1
        nth = seen[agent.name]
        yield agent, agent.name if nth == 1 else f"{agent.name}#{nth}"


def _names(agent: Agent) -> Iterator[str]:
    yield agent.name
    if isinstance(agent, SequentialAgent | ParallelAgent | LoopAgent):
        for child in agent.sub_agents:
            yield from _names(child)

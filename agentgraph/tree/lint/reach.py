"""Findings about agents and tools that nothing can reach."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from agentgraph.agents.agents import SwitchAgent, agent_tools, is_same
from agentgraph.agents.kinds import active_key
from agentgraph.agents.schemas import json_schema
from agentgraph.safe_repr import shown
from agentgraph.tree.lint.accesses import Accesses
from agentgraph.tree.lint.findings import Finding, addresses
from agentgraph.tree.lint.inputs import Inputs
from agentgraph.tree.lint.results import BOOLEANS, results_of
from agentgraph.tree.lint.ways import Ways
from agentgraph.tree.places import Place
from agentgraph.tree.position import next_nodes
from agentgraph.tree.targets import targets

_OPEN = "let an agent lead to it, or take it out"


class Reach:
    """Finds agents and tools that nothing can reach."""

    def __init__(self, ways: Ways, inputs: Inputs) -> None:
        """Make it.

        Args:
            ways: The ways through the tree.
            inputs: The values that runs pass, or that are declared.
        """
        self.ways, self.inputs, self.tree = ways, inputs, ways.tree
        self.accesses = ways.accesses

    def unreachable(self) -> Iterator[Finding]:
        """Yield the agents and tools that nothing can reach."""
        reached = self._reached()
        for place in self.tree.places:
            if place.kind.is_inner or self._is_reached(place, reached):
                continue
            if place.parent is None or self._is_reached(place.parent, reached):
                yield self._finding(place, place.given_name, self._advice(place))

    def _finding(self, place: Place, name: str, advice: str) -> Finding:
        around = place.parent or place
        return Finding(
            kind="unreachable",
            address=place.path,
            name=name,
            way=addresses(self.ways.way_to(self.ways.first(around))) if place.parent else (),
            advice=advice,
        )

    def _is_reached(self, place: Place, reached: set[Place]) -> bool:
        return any(each in reached for each in self.ways.inside(place) if each.is_node)

    def _advice(self, place: Place) -> str:
        around = place.parent
        if around is None:
            return _OPEN
        if place.is_run:
            return f"run it by ctx.run({shown(place.given_name)}, ...), or take it out of agents="
        if place.is_tool:
            return "its enabled= is False; give it a condition, or take the tool out"
        if around.kind.is_swarm:
            return "name it in handoffs=, or in start="
        if around.kind.chooses:
            return "choose= never returns the key of its case; correct the key, or take the case out"
        return (
            "the agent before it always ends the run or the loop; move it before that, or take it out"
        )

    def _reached(self) -> set[Place]:
        found: set[Place] = set()
        queue = [self.ways.first(self.tree.root)]
        while queue:
            place = queue.pop()
            if place not in found:
                found.add(place)
                queue += self._after(place)
                queue += [self.ways.first(lane) for lane in self._lanes(place)]
        return found

    def _after(self, place: Place) -> Iterator[Place]:
        ends = self.accesses.ends(place)
        if place.kind.is_swarm and not self._is_set(place):
            inside = self.tree.children[place]
            yield self.ways.first(inside[getattr(place.agent, "first", 0)])
            return
        if place.kind.chooses and not place.kind.is_swarm:
            chosen = self._chosen(place)
            yield from map(self.ways.first, chosen)
            firsts = {self.ways.first(each) for each in self.tree.children.get(place, ())}
            others = next_nodes(self.tree, place, ends)
            yield from (each for each in others if each is not None and each not in firsts)
            return
        others = next_nodes(self.tree, place, replace(ends, transfer=False))
        yield from (each for each in others if each is not None)
        if ends.transfer:
            yield from self._transfers(place)

    def _transfers(self, place: Place) -> Iterator[Place]:
        codes = [code for tool, code in self.accesses.own(place) if tool is None]
        named = {name for code in codes for name in code.targets}
        is_open = not codes or any(code.targets_all or not code.is_known for code in codes)
        for name, target in targets(self.tree, place).items():
            if is_open or name in named:
                yield self.ways.first(target)

    def _is_set(self, swarm: Place) -> bool:
        """Return whether something else than transfers may make another agent of a swarm active."""
        key = active_key(swarm.agent)
        codes = [code for place in self.tree.places for _, code in self.accesses.own(place)]
        return key in self.inputs.names or any(key in code.writes or code.writes_all for code in codes)

    def _lanes(self, place: Place) -> Iterator[Place]:
        """Yield the lanes that a place may run: of a function only those that it names."""
        codes = [code for tool, code in self.accesses.own(place) if tool is None]
        is_open = not place.kind.runs_agents or any(code.runs_all for code in codes)
        named = {name for code in codes for name in code.runs}
        tools = agent_tools(place.chat) if place.chat is not None else ()
        off = {tool.agent.name for tool in tools if tool.enabled is False}
        for lane in self.tree.lanes(place):
            if (is_open or lane.given_name in named) and lane.given_name not in off:
                yield lane

    def _chosen(self, place: Place) -> list[Place]:
        """Return the agents that a switch may choose."""
        agent = cast(SwitchAgent, place.agent)
        inside = self.tree.children.get(place, ())
        keys = self._keys(agent)
        if keys is None:
            return [*inside]
        chosen = [target for key, target in agent.cases if key in keys]
        chosen += [] if agent.otherwise is None else [agent.otherwise]
        return [each for each in inside if any(_is_target(each, target) for target in chosen)]

    def _keys(self, agent: SwitchAgent) -> frozenset[object] | None:
        if not isinstance(agent.choose, str):
            return results_of(agent.choose)
        if agent.choose in self.inputs.names:
            return None
        return _answers_of(agent.choose, self.accesses)


def _is_target(place: Place, target: object) -> bool:
    """Return whether the target of a case is the agent of a place, or that agent with its checks."""
    inner: object = target
    while hasattr(inner, "check") and hasattr(inner, "agent"):
        inner = inner.agent
    return is_same(place.agent, inner)


def _answers_of(name: str, accesses: Accesses) -> frozenset[object] | None:
    """Return the data that a value may be, if all its writers list them in a schema, or None."""
    places = accesses.tree.places
    if any(accesses.writes_all(each) for each in places):
        return None
    writers = [each for each in places if name in accesses.writes(each)]
    schemas = [getattr(each.agent, "response_schema", None) for each in writers]
    plain = all(getattr(each.agent, "output_key", None) == name for each in writers)
    several = [_listed(schema) for schema in schemas]
    if not plain or not several or None in several:
        return None
    return frozenset(value for each in several for value in each or ())


def _listed(schema: object) -> frozenset[object] | None:
    found = json_schema(cast(Any, schema))
    if not found:
        return None
    if found.get("type") == "boolean":
        return BOOLEANS
    values = found.get("enum", [found["const"]] if "const" in found else None)
    is_plain = isinstance(values, list) and all(isinstance(each, str | int | bool) for each in values)
    return frozenset(values) if is_plain and values else None

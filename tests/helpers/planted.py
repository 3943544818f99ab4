"""Mistakes planted into trees: for each kind of findings, changed trees that have such a mistake."""

import linecache
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import count, islice
from types import ModuleType
from typing import Any

import agentgraph as ag
from agentgraph.agents.agents import Agent, unchecked
from agentgraph.tree.layout import lay_out
from agentgraph.tree.lint.accesses import Accesses
from agentgraph.tree.places import Place

MOST = 3
"""Maximum number of changed trees for a kind."""
Planted = Iterator[ag.Agent]


def spread(trees: Planted) -> list[ag.Agent]:
    """Return at most `MOST` of some changed trees, from all parts of the tree."""
    several = [*trees]
    return [*islice(several[:: max(1, len(several) // MOST)], MOST)]


def replaced(tree: Any, old: object, new: object) -> Any:
    """Return a tree with an agent replaced, wherever it is."""
    if tree is old:
        return new
    if type(tree) is tuple:
        return tuple(replaced(each, old, new) for each in tree)
    if not (is_dataclass(tree) and isinstance(tree, Agent | ag.Step | ag.AgentTool)):
        return tree
    changes = {each.name: replaced(getattr(tree, each.name), old, new) for each in fields(tree)}
    same = all(value is getattr(tree, name) for name, value in changes.items())
    return tree if same else replace(tree, **changes)


def places(tree: ag.Agent) -> list[Place]:
    """Return the places of a tree, one for each agent without a check."""
    seen: dict[int, Place] = {}
    for place in lay_out(tree).places:
        if not place.kind.is_inner and not place.checks:
            seen.setdefault(id(place.agent), place)
    return [*seen.values()]


def may_be_wrapped(place: Place) -> bool:
    """Return whether an agent may be put into another one: nothing else names it."""
    return not place.is_target and place.step is None and not place.is_called


def is_long(ctx: ag.Context) -> bool:
    return len(ctx.messages[-1].text) > 9


def skipped_writers(tree: ag.Agent) -> Planted:
    """Yield trees in which an agent may be skipped whose value a later one needs."""
    accesses = Accesses(lay_out(tree))
    reads = [read for place in accesses.tree.places for read in accesses.reads(place)]
    needed = {each.name for each in reads if each.certainty == "always" and each.phase == "start"}
    for place in places(tree):
        agent: Any = place.agent
        key = getattr(agent, "output_key", None)
        writers = [each for each in accesses.tree.places if key in accesses.writes(each)]
        if key in needed and len(writers) == 1 and not place.starts_lane and may_be_wrapped(place):
            yield replaced(tree, agent, ag.switch("planted", is_long, {True: agent, False: ag.SKIP}))


def unread_writers(tree: ag.Agent) -> Planted:
    """Yield trees with one more agent, which writes a value that nothing reads."""
    writer = ag.function_agent("planted", lambda ctx: ag.SetValues(planted_value=1))
    for place in places(tree):
        agent: Any = place.agent
        if isinstance(agent, ag.SequentialAgent):
            yield replaced(tree, agent, replace(agent, sub_agents=(writer, *agent.sub_agents)))
        elif place.parent is not None and place.kind.is_leaf and may_be_wrapped(place):
            yield replaced(tree, agent, ag.sequential("planted_too", [writer, agent]))


def hidden_histories(tree: ag.Agent) -> Planted:
    """Yield trees in which an instruction names an agent before it, whose messages are hidden."""
    critic = ag.function_agent("planted_critic", lambda ctx: "Too long.")
    for place in places(tree):
        agent: Any = place.agent
        if place.kind.calls_model and isinstance(agent.instruction, str) and may_be_wrapped(place):
            text = f"{agent.instruction}\nDo what the planted_critic wants."
            changed = replace(agent, instruction=text, history="input")
            yield replaced(tree, agent, ag.sequential("planted", [critic, changed]))


def unreachable_agents(tree: ag.Agent) -> Planted:
    """Yield trees with one more agent, after one that always ends the run, or as a tool that is off."""
    late = ag.function_agent("planted", lambda ctx: "Late.")
    end = ag.function_agent("planted_end", lambda ctx: ag.Exit())
    off = ag.agent_tool(late, enabled=False, description="Never.")
    for place in places(tree):
        agent: Any = place.agent
        if place.kind.calls_model:
            yield replaced(tree, agent, replace(agent, tools=(*agent.tools, off)))
        elif isinstance(agent, ag.SequentialAgent):
            yield replaced(tree, agent, replace(agent, sub_agents=(*agent.sub_agents, end, late)))


def endless_loops(tree: ag.Agent) -> Planted:
    """Yield trees in which a chat agent always runs ten times."""
    for place in places(tree):
        agent: Any = place.agent
        if place.kind.calls_model and not place.is_target and place.step is None:
            yield replaced(tree, agent, ag.loop("planted", [agent], max_iterations=10))


def impossible_limits(tree: ag.Agent) -> Planted:
    """Yield trees with a limit above that of an agent around it."""
    for place in places(tree):
        if place.parent is not None:
            agent: Any = place.agent
            around: Any = unchecked(place.parent.agent)  # type: ignore[arg-type]
            inner = replaced(around, agent, replace(agent, limits=ag.Limits(steps=100)))
            yield replaced(tree, around, replace(inner, limits=ag.Limits(steps=90)))
    root: Any = unchecked(tree)
    if len(places(tree)) == 1:
        yield replaced(tree, root, replace(root, limits=ag.Limits(seconds=5), timeout=20))


def conflicts(tree: ag.Agent) -> Planted:
    """Yield trees in which two agents write one value in parallel."""
    left = ag.function_agent("planted_left", lambda ctx: ag.SetValues(planted_value=1))
    right = ag.function_agent("planted_right", lambda ctx: [ag.SetValues(planted_value=2), "So."])
    for place in places(tree):
        agent: Any = place.agent
        if place.kind.calls_model:
            tool = ag.agent_tool(ag.parallel("planted", [left, right]))
            yield replaced(tree, agent, replace(agent, tools=(*agent.tools, tool)))
        elif place.kind.is_leaf and may_be_wrapped(place):
            yield replaced(tree, agent, ag.parallel("planted", [left, right, agent]))


PLANTS: dict[str, Callable[[ag.Agent], Planted]] = {
    "unwritten_value": skipped_writers,
    "unread_value": unread_writers,
    "hidden_history": hidden_histories,
    "unreachable": unreachable_agents,
    "endless_loop": endless_loops,
    "impossible_limit": impossible_limits,
    "conflicting_writes": conflicts,
}
"""For each kind of findings: a function that plants the mistake."""

SITES = (
    r"\[\"({})\"\]",
    r"\{{({})\}}",
    r"output_key=\"({})\"",
    r"errors_key=\"({})\"",
    r"as_=\"({})\"",
    r"SetValues\((?:[\w=\[\]\"., ]*?)\b({})=",
)
"""The places of a name in the source of a tree."""
_numbers = count()


def misspelt(tree: ag.Agent, source: str, load: Callable[[ModuleType], ag.Agent]) -> Planted:
    """Yield trees whose source has a typo in one name of a value, where it matters."""
    accesses = Accesses(lay_out(tree))
    for name in sorted(accesses.read_anywhere & accesses.written_anywhere):
        for site in SITES:
            for found in re.finditer(site.format(re.escape(name)), source):
                changed = f"{source[: found.start(1)]}{typo(name)}{source[found.end(1) :]}"
                mutant = load(module(changed))
                if _matters(mutant, typo(name)):
                    yield mutant


def typo(name: str) -> str:
    """Return a name with two letters in its middle swapped, or with one left out."""
    middle = len(name) // 2
    swapped = name[: middle - 1] + name[middle] + name[middle - 1] + name[middle + 1 :]
    return swapped if swapped != name else name[:middle] + name[middle + 1 :]


def _matters(tree: ag.Agent, name: str) -> bool:
    """Return whether a name is read where it may not be missing, or written."""
    accesses = Accesses(lay_out(tree))
    reads = [read for place in accesses.tree.places for read in accesses.reads(place)]
    if name in accesses.written_anywhere:
        return name not in accesses.read_anywhere
    return any(each.name == name and each.certainty != "optional" for each in reads)


def module(source: str, file: str = "planted.py") -> ModuleType:
    """Return a module made from its source, which `inspect` finds."""
    where = f"<planted {next(_numbers)}>"
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
    made = ModuleType("planted_module")
    made.__file__ = file
    sys.modules[made.__name__] = made  # for type hints
    exec(compile(source, where, "exec"), made.__dict__)
    return made

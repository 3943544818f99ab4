"""Finds every fault of a tree before compilation, and the names of its values."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from agentgraph.agents.agents import (
    Agent,
    AgentTool,
    ChatAgent,
    CheckedAgent,
    Composite,
    EachAgent,
    Handoff,
    Leaf,
    Middleware,
    checks_of,
    handoff_to,
    is_agent,
    sub_agents,
    unchecked,
)
from agentgraph.agents.builders import as_tuple
from agentgraph.agents.kinds import (
    Kind,
    active_key,
    agents_inside,
    changed,
    kind_of,
    peers_of,
    written_keys,
)
from agentgraph.agents.limits import Limits
from agentgraph.agents.middleware import middleware_faults
from agentgraph.agents.prebuilt.plans import PLAN_VALUES, Planned
from agentgraph.agents.signals import BreakLoop, Exit
from agentgraph.agents.templates import names_in
from agentgraph.errors import InvalidAgentError
from agentgraph.safe_repr import shown
from agentgraph.tree.kinds import rules_of
from agentgraph.tree.layout import lay_out
from agentgraph.tree.places import AS_THEY_ARE, Place, Tree
from agentgraph.tree.rules.options import key_faults, shown_name
from agentgraph.tree.rules.row import Around

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*")
MOST_LEVELS = 100
"""Maximum depth of nested agents, because most functions that walk over a tree are recursive."""
_RESERVED = frozenset({"end"})  # a keyword of Mermaid, which cannot draw a node of this name


def validate(
    root: Agent,
    merged: Container[str] | None = (),
    middleware: Iterable[Middleware] = (),
    known_as: Mapping[str, str] = AS_THEY_ARE,
) -> Tree:
    """Check a tree, and return its layout.

    Args:
        root: The root of the tree.
        merged: The names of the values that have a reducer or are local; None if unknown.
        middleware: LangChain middleware for every chat agent, outside its own.
        known_as: The former names of renamed agents, which threads still know.

    Raises:
        InvalidAgentError: The tree has faults; the error lists all of them.
    """
    if _is_too_deep(root):
        fault = f"nested more than {MOST_LEVELS} levels deep; put several into one sequential instead"
        raise InvalidAgentError([f"{shown_name(root)}: its agents are {fault}"])
    outermost = as_tuple(middleware)
    faults = [f"the middleware of the tree: {fault}" for fault in middleware_faults(outermost)]
    if outermost and not faults:
        root = changed(root, lambda chat: replace(chat, middleware=(*outermost, *chat.middleware)))
    if faults := [*faults, *_faults(root, merged)]:
        raise InvalidAgentError(faults)
    return lay_out(root, known_as)


def _is_too_deep(root: Agent) -> bool:
    level = [root]
    for _ in range(MOST_LEVELS):
        level = [child for each in level if is_agent(each) for child in agents_inside(each)]
        if not level:
            return False
    return True


def _faults(root: Agent, merged: Container[str] | None) -> Iterator[str]:
    known: dict[str, Leaf | Composite] = {}
    keepers: dict[str, str] = {}
    for where, agent, around in _walk(root):
        inner = unchecked(agent)
        if not is_agent(inner):
            yield f"{where}: {shown(inner)} is not an agent; {_how_to_make(inner)}"
            continue
        kind, checks = kind_of(inner), checks_of(agent)
        yield from (f"{where}: {fault}" for fault in _common_faults(inner, checks))
        namesake = known.setdefault(shown_name(inner), inner)
        if namesake != inner and not (_is_part(agent) and _is_part(namesake)):
            yield (
                f"{where}: two agents are named {shown(agent.name)}; a name means one agent, rename one"
            )
        yield from (f"{where}: {fault}" for check in checks for fault in check.faults)
        if sum(check.repeats for check in checks) > 1:
            yield f"{where}: it has two validated(...) checks; combine them into one"
        if kind.keeps_active:
            key = str(active_key(inner))
            other = keepers.setdefault(key, agent.name)
            if other != agent.name:
                yield (
                    f"{where}: {shown(other)} and {shown(agent.name)} would both keep who is "
                    f"active in the value {shown(key)}; rename one"
                )
        yield from (f"{where}: {fault}" for fault in rules_of(kind.name).faults(inner, around))
        if kind.is_leaf:
            key_of_leaf = getattr(inner, "output_key", None)
            yield from (f"{where}: {fault}" for fault in key_faults("output_key", key_of_leaf))
        if merged is not None:
            yield from (f"{where}: {fault}" for fault in _shared_keys(inner, kind, merged))


def _common_faults(agent: Leaf | Composite, checks: Iterable[CheckedAgent]) -> Iterator[str]:
    yield from _name_faults(agent.name)
    if not isinstance(agent.description, str):
        yield f"description={shown(agent.description)} is not a text; say what it is for"
    for each in (agent, *checks):
        if not isinstance(each.limits, Limits | None):
            yield f"limits={shown(each.limits)} are none; pass Limits, as in ag.Limits(model_calls=20)"


def _where_it_belongs(it: BreakLoop | Exit | AgentTool | Handoff) -> str:
    if isinstance(it, BreakLoop | Exit):
        return f"a function returns it: return ag.{type(it).__name__}()"
    if isinstance(it, AgentTool):
        return "an agent tool belongs in tools= of a chat agent"
    return "a handoff belongs in sub_agents= of a chat agent, or in the agents of a swarm"


def _how_to_make(it: object) -> str:
    match it:
        case type() if issubclass(it, BreakLoop | Exit):
            return f"it is a class: write ag.{it.__name__}()"
        case type():
            return "it is a class: build an agent with ag.chat_agent, ag.human, ag.sequential, ..."
        case BreakLoop() | Exit() | AgentTool() | Handoff():
            return _where_it_belongs(it)
        case BaseTool():
            return 'it is a tool: pass it in the tools of ag.chat_agent("name", model, tools=[...])'
        case BaseLanguageModel():
            return 'it is a model: pass ag.chat_agent("name", model)'
        case _ if hasattr(it, "get_state"):
            return 'it is a graph of LangGraph: pass ag.graph_agent("name", graph)'
        case _ if hasattr(it, "add_conditional_edges"):
            return 'it is a graph that is not compiled: pass ag.graph_agent("name", graph.compile())'
        case Runnable():
            return 'it is a runnable: pass ag.runnable_agent("name", runnable)'
        case list() | tuple():
            return 'put several agents in one: ag.sequential("name", [...]), ag.parallel("name", [...])'
        case None:
            return "did a function that builds it return nothing?"
        case _ if callable(it):
            return 'make the function one with @ag.agent, or pass ag.function_agent("name", function)'
    return "build one with ag.chat_agent, ag.human, ag.sequential, ..."


def _is_part(agent: Agent) -> bool:
    return getattr(agent, "is_part", False)


def _walk(agent: Agent, around: Around = Around()) -> Iterator[tuple[str, Agent, Around]]:  # noqa: B008
    inner = unchecked(agent)
    if not is_agent(inner):
        yield around.where or "the root", agent, around
        return
    name, kind = shown_name(inner), kind_of(inner)
    where = f"{around.where}/{name}" if around.where and name else around.where or name or "the root"
    yield where, agent, around
    in_loop = around.in_loop or kind.loops
    for child in sub_agents(inner):
        if kind.transfers and is_agent(child):
            reachable = _handoffs_around(child, inner, kind, around)
            yield from _walk(child, Around(where, in_loop, reachable, handoff_to(inner, child)))
        else:
            yield from _walk(child, Around(where, in_loop))
    for child in kind.called(inner):
        yield from _walk(child, Around(where, in_loop and kind.has_items))


def _handoffs_around(
    child: Agent, parent: Leaf | Composite, kind: Kind, around: Around
) -> tuple[Handoff, ...]:
    peers = [handoff_to(parent, peer) for peer in peers_of(parent, child.name)]
    if kind.is_swarm:
        return (*peers, *around.reachable)
    returns = cast(ChatAgent, parent).sub_agents_return
    above = () if returns else (around.own or Handoff(agent=parent),)
    return (*above, *peers)


def _name_faults(name: object) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield (
            f"the name {shown(name)} is not allowed; use letters, digits, '_' and single '-', letter "
            "first"
        )
    elif name in _RESERVED or name.startswith("__"):
        yield f"the name {shown(name)} is reserved; choose another"


def _shared_keys(agent: Leaf | Composite, kind: Kind, merged: Container[str]) -> Iterator[str]:
    each = cast(EachAgent, agent) if kind.has_items and not kind.first_wins else None
    if each is not None and not each.collects:
        for key in dict.fromkeys(written_keys(each.agent)):
            if key not in merged:
                yield (
                    f"all items write the output_key {shown(key)}; collect their results with "
                    f"each(..., output_key=...), declare a reducer for {shown(key)} in values=, or "
                    "keep it in each item by Annotated[..., ag.LOCAL]"
                )
    writers: dict[str, dict[int, str]] = {}
    for i, branch in enumerate(kind.side_by_side(agent)):
        for key in written_keys(branch):
            writers.setdefault(key, {})[i] = shown(getattr(branch, "name", branch))
    what = "steps" if kind.has_steps else "branches"
    for key, names in writers.items():
        if len(names) > 1 and key not in merged:
            yield (
                f"the {what} {' and '.join(names.values())} write the same output_key {shown(key)}; "
                f"give each its own key, declare a reducer for {shown(key)} in values=, or keep it in "
                "each by Annotated[..., ag.LOCAL]"
            )


def value_names(tree: Tree) -> set[str]:
    """Return the names of the values that the tree declares.

    Those are output keys, names in templates, the values of plans, and the state of middleware.
    """
    return {name for place in tree.places for name in _names(place)}


def _names(place: Place) -> Iterator[str]:
    agent, rules = place.agent, place.rules
    if any(isinstance(each.check, Planned) for each in place.checks):
        yield from PLAN_VALUES
    yield from filter(None, (getattr(agent, "output_key", None), active_key(agent)))
    yield from (each.name for each in rules.reads(agent))
    yield from rules.writes(agent)
    for _, template in rules.texts(agent):
        if isinstance(template, str):
            yield from names_in(template)

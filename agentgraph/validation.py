"""Every fault of a tree, found before it is compiled."""

import re
from collections.abc import Iterator
from typing import assert_never

from langchain_core.runnables import Runnable

from agentgraph.agents import (
    COMPOSITES,
    LEAVES,
    Agent,
    ChatAgent,
    Composite,
    FunctionAgent,
    HumanAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
)
from agentgraph.errors import InvalidAgentError
from agentgraph.history import POLICIES
from agentgraph.places import Tree, lay_out
from agentgraph.schemas import schema_fault
from agentgraph.signals import allowed

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*")
_RESERVED = frozenset({"end"})  # a word of Mermaid's: the drawing of such a node is broken


def validate(root: Agent) -> Tree:
    """Return the places of a tree.

    Raises:
        InvalidAgentError: The tree has faults; the error names all of them.
    """
    if faults := list(_faults(root)):
        raise InvalidAgentError(faults)
    return lay_out(root)


def _faults(root: Agent) -> Iterator[str]:
    known: dict[str, Agent] = {}
    for where, agent in _walk(root):
        if not _is_agent(agent):
            yield f"{where}: {agent!r} is no agent; build one with chat_agent, human, sequential, ..."
            continue
        yield from (f"{where}: {fault}" for fault in _name_faults(agent.name))
        namesake = known.setdefault(str(agent.name), agent)
        if namesake is not agent and namesake != agent:
            yield f"{where}: two agents are named {agent.name!r}; a name means one agent, rename one"
        yield from (f"{where}: {fault}" for fault in _own_faults(agent))


def _walk(agent: Agent, around: str = "") -> Iterator[tuple[str, Agent]]:
    name = agent.name if _is_agent(agent) else None
    where = f"{around}/{name}" if around and name else around or str(name or "the root")
    yield where, agent
    if isinstance(agent, COMPOSITES):
        for child in agent.sub_agents:
            yield from _walk(child, where)


def _is_agent(thing: object) -> bool:
    return isinstance(thing, (*LEAVES, *COMPOSITES))


def _name_faults(name: object) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"the name {name!r} is not allowed; use letters, digits, '_' and single '-', letter first"
    elif name in _RESERVED or name.startswith("__"):
        yield f"the name {name!r} is reserved; choose another"


def _own_faults(agent: Agent) -> Iterator[str]:
    match agent:
        case ChatAgent():
            yield from _chat_faults(agent)
        case FunctionAgent():
            if not callable(agent.fn):
                yield f"{agent.fn!r} cannot be called; pass a function that takes a context"
            yield from _history_faults(agent.history)
        case HumanAgent():
            if fault := schema_fault(agent.response_schema):
                yield fault
        case SequentialAgent():
            yield from _sub_agent_faults(agent)
        case ParallelAgent():
            yield from _sub_agent_faults(agent)
            yield from _limit_faults("max_concurrency", agent.max_concurrency)
            yield from _shared_keys(agent)
        case LoopAgent():
            yield from _sub_agent_faults(agent)
            yield from _loop_faults(agent)
        case _:
            assert_never(agent)
    if isinstance(agent, LEAVES):
        yield from _key_faults(agent.output_key)


def _chat_faults(agent: ChatAgent) -> Iterator[str]:
    if not isinstance(agent.model, Runnable):
        yield f"the model {agent.model!r} is no LangChain chat model; pass one, such as ChatOpenAI(...)"
    if not isinstance(agent.instruction, str):
        yield f"the instruction {agent.instruction!r} is no string; pass a template"
    yield from _history_faults(agent.history)


def _history_faults(history: object) -> Iterator[str]:
    if not callable(history) and history not in tuple(POLICIES):
        yield f"unknown history {history!r}; use one of {', '.join(POLICIES)}, or a function"


def _sub_agent_faults(agent: Composite) -> Iterator[str]:
    if not agent.sub_agents:
        yield f"a {_kind(agent)} needs at least one sub-agent"


def _loop_faults(agent: LoopAgent) -> Iterator[str]:
    yield from _limit_faults("max_iterations", agent.max_iterations)
    if agent.until is not None and not callable(agent.until):
        yield f"until={agent.until!r} cannot be called; pass a function that takes a context"
    unbounded = agent.max_iterations is None and agent.until is None
    if unbounded and agent.sub_agents and not any(map(_can_end, agent.sub_agents)):
        yield (
            "nothing can end this loop; give it max_iterations or until, or an agent inside that "
            "may exit or break_loop"
        )


def _kind(agent: Agent) -> str:
    return type(agent).__name__.removesuffix("Agent").lower()


def _key_faults(key: object) -> Iterator[str]:
    if key is not None and (not isinstance(key, str) or not key.isidentifier()):
        yield f"output_key={key!r} cannot stand in a template; use a plain name such as 'draft'"


def _limit_faults(name: str, limit: object) -> Iterator[str]:
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        yield f"{name}={limit!r} is no limit; use a whole number from 1, or None for no bound"


def _shared_keys(agent: ParallelAgent) -> Iterator[str]:
    writers: dict[str, dict[int, str]] = {}
    for i, branch in enumerate(agent.sub_agents):
        for _, inner in _walk(branch):
            if isinstance(inner, LEAVES) and isinstance(inner.output_key, str):
                writers.setdefault(inner.output_key, {})[i] = repr(getattr(branch, "name", branch))
    for key, branches in writers.items():
        if len(branches) > 1:
            yield (
                f"the branches {' and '.join(branches.values())} write one output_key {key!r}; "
                "give each a key of its own"
            )


def _can_end(agent: Agent, nearest: bool = True) -> bool:
    """Tell whether something in a body can end its loop; `nearest` where no other loop is between."""
    match agent:
        case FunctionAgent():
            may = allowed(agent.fn)
            return may.exit or (nearest and may.break_loop)
        case SequentialAgent() | ParallelAgent():
            return any(_can_end(child, nearest) for child in agent.sub_agents)
        case LoopAgent():
            return any(_can_end(child, nearest=False) for child in agent.sub_agents)
        case _:
            return False

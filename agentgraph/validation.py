"""Every fault of a tree, found before it is compiled."""

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, assert_never

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableWithFallbacks
from langchain_core.runnables.retry import RunnableRetry

from agentgraph.agents import (
    COMPOSITES,
    LEAVES,
    Agent,
    AgentTool,
    ChatAgent,
    Composite,
    FunctionAgent,
    GraphAgent,
    HumanAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    agent_tools,
)
from agentgraph.budgets import Summarized, Trimmed
from agentgraph.errors import InvalidAgentError
from agentgraph.history import POLICIES, TRANSFER_PREFIX
from agentgraph.places import Tree, lay_out
from agentgraph.schemas import output_fault, schema_fault
from agentgraph.signals import allowed, is_async
from agentgraph.tools import as_tool, own_tools, tools_may

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
    for where, agent, around in _walk(root):
        if not _is_agent(agent):
            yield f"{where}: {agent!r} is no agent; build one with chat_agent, human, sequential, ..."
            continue
        yield from (f"{where}: {fault}" for fault in _name_faults(agent.name))
        namesake = known.setdefault(str(agent.name), agent)
        if namesake is not agent and namesake != agent:
            yield f"{where}: two agents are named {agent.name!r}; a name means one agent, rename one"
        yield from (f"{where}: {fault}" for fault in _own_faults(agent))
        if isinstance(agent, ChatAgent) and agent.break_tool and not around.in_loop:
            yield f"{where}: there is no loop around it that break_tool=True could end; leave it out"


class _Around(NamedTuple):
    """What is around an agent: in words, and whether there is a loop that it can break out of."""

    where: str = ""
    in_loop: bool = False


def _walk(agent: Agent, around: _Around = _Around()) -> Iterator[tuple[str, Agent, _Around]]:  # noqa: B008
    name = agent.name if _is_agent(agent) else None
    where = (
        f"{around.where}/{name}" if around.where and name else around.where or str(name or "the root")
    )
    yield where, agent, around
    in_loop = around.in_loop or isinstance(agent, LoopAgent)
    if isinstance(agent, (ChatAgent, *COMPOSITES)):
        for child in agent.sub_agents:
            yield from _walk(child, _Around(where, in_loop))
    if isinstance(agent, ChatAgent):
        for tool in agent_tools(agent):
            yield from _walk(tool.agent, _Around(where))


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
            yield from _policy_faults(agent)
            if isinstance(agent.history, Summarized):
                yield "only a chat agent can have a summary written; use trimmed(...) for a function"
        case GraphAgent():
            yield from _graph_faults(agent)
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
    yield from _limit_faults("max_iterations", agent.max_iterations)
    yield from _word_faults("on_max_iterations", agent.on_max_iterations, ("raise", "answer"))
    yield from _word_faults("on_tool_error", agent.on_tool_error, ("return", "raise"))
    if not callable(agent.unknown_tool):
        yield from _word_faults("unknown_tool", agent.unknown_tool, ("return", "raise"))
    if agent.model_input is not None and not _is_hook(agent.model_input):
        yield (
            f"model_input={agent.model_input!r} cannot be used; pass a sync function of the messages, "
            "or of a context and the messages"
        )
    if fault := output_fault(agent.output_schema):
        yield fault
    yield from _policy_faults(agent)
    yield from _tool_faults(agent)


def _is_hook(fn: Any) -> bool:
    if not callable(fn) or is_async(fn):
        return False
    signature = inspect.signature(fn)
    for arguments in ([None], [None, None]):
        with suppress(TypeError):
            signature.bind(*arguments)
            return True
    return False


def _graph_faults(agent: GraphAgent) -> Iterator[str]:
    graph = agent.graph
    if not (isinstance(graph, Runnable) and hasattr(graph, "get_graph") and hasattr(graph, "nodes")):
        if not hasattr(graph, "assistant_id"):  # a graph on a server
            yield f"{graph!r} is no compiled LangGraph graph; call compile() on its builder"
    elif "messages" not in getattr(graph, "channels", {"messages": None}):
        yield "the state of its graph has no 'messages'; add them, as in MessagesState"
    if agent.input is not None and not callable(agent.input):
        yield f"input={agent.input!r} cannot be called; pass a function that takes a context"
    yield from _history_faults(agent.history)
    yield from _policy_faults(agent)
    if isinstance(agent.history, Summarized):
        yield "only a chat agent can have a summary written; use trimmed(...) for a graph"


def _policy_faults(agent: ChatAgent | FunctionAgent | GraphAgent) -> Iterator[str]:
    given = agent.retry
    several = given if isinstance(given, Sequence) and not hasattr(given, "max_attempts") else [given]
    if given is not None and not all(hasattr(each, "max_attempts") for each in several):
        yield f"retry={given!r} is no policy; pass langgraph.types.RetryPolicy(...), or several"
    limit = agent.timeout
    seconds = limit.total_seconds() if isinstance(limit, timedelta) else limit
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
    if limit is not None and not is_number and not hasattr(limit, "run_timeout"):
        yield f"timeout={limit!r} is no timeout; pass seconds above 0, a timedelta, or a TimeoutPolicy"


def _tool_faults(agent: ChatAgent) -> Iterator[str]:
    tools: list[Any] = []
    for given in agent.tools:
        if isinstance(given, Mapping):
            continue
        if isinstance(given, AgentTool) and not _is_agent(given.agent):
            continue  # told where the agent should stand
        try:
            tools.append(as_tool(given))
        except Exception as error:
            reason = str(error).partition("\n")[0]
            yield (
                f"no tool can be made of {given!r} ({reason}); pass a LangChain tool, or a function "
                "with a docstring"
            )
    sub_agents = [each for each in agent.sub_agents if _is_agent(each)]
    names = [tool.name for tool in (*tools, *own_tools(agent, sub_agents))]
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{count} tools are named {name!r}; a name means one tool, rename the others"
    yield from (
        f"the tool name {tool.name!r} begins as those of transfers do; rename the tool"
        for tool in tools
        if tool.name.startswith(TRANSFER_PREFIX)
    )
    for what, wanted in (("return_directly", agent.return_directly), ("approve", agent.approve)):
        unknown = [] if callable(wanted) else [name for name in wanted if name not in names]
        if unknown:
            there = ", ".join(names) or "none"
            named = ", ".join(map(repr, unknown))
            yield f"{what} names {named}, which is no tool of it; its tools: {there}"
    for model in _toolless(agent.model) if names else ():
        instead = (
            "use retry= instead" if isinstance(model, RunnableRetry) else "pass one with bind_tools"
        )
        yield f"the model {type(model).__name__} takes no tools; {instead}"


def _toolless(model: object) -> Iterator[object]:
    """Yield the models that take no tools; a chat model that does not has LangChain's own method."""
    if isinstance(model, RunnableWithFallbacks):
        for each in model.runnables:
            yield from _toolless(each)
    elif isinstance(model, BaseChatModel):
        if type(model).bind_tools is BaseChatModel.bind_tools:
            yield model
    elif isinstance(model, Runnable) and not hasattr(model, "bind_tools"):
        yield model


def _word_faults(name: str, word: object, words: tuple[str, ...]) -> Iterator[str]:
    if word not in words:
        yield f"{name}={word!r} is not known; use {' or '.join(map(repr, words))}"


def _history_faults(history: object) -> Iterator[str]:
    if isinstance(history, Trimmed | Summarized):
        yield from _limit_faults("max_tokens", history.max_tokens)
        history = history.history
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
        for _, inner, _ in _walk(branch):
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
        case ChatAgent():
            may = tools_may(agent)
            ends = may.exit or (nearest and may.break_loop)
            return ends or any(_can_end(child, nearest) for child in agent.sub_agents)
        case SequentialAgent() | ParallelAgent():
            return any(_can_end(child, nearest) for child in agent.sub_agents)
        case LoopAgent():
            return any(_can_end(child, nearest=False) for child in agent.sub_agents)
        case _:
            return False

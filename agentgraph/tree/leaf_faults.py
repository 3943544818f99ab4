"""Finds the faults of leaves: chat agents and their tools, functions, graphs, human agents."""

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast, get_args

from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable, RunnableWithFallbacks
from langchain_core.runnables.retry import RunnableRetry
from langchain_core.tools import BaseTool

from agentgraph.agents.agents import (
    Agent,
    AgentTool,
    ArgsSchema,
    Caching,
    ChatAgent,
    Composite,
    FunctionAgent,
    GraphAgent,
    Handoff,
    HumanAgent,
    Leaf,
    Step,
    agent_tools,
    handoff_to,
    unchecked,
)
from agentgraph.agents.budgets import PolicyWord, Summarized, Trimmed
from agentgraph.agents.functions import gives_one_value, is_async, is_hook
from agentgraph.agents.limits import limit_faults, word_faults
from agentgraph.agents.middleware import DECISIONS, SUMMARY, middleware_faults, tools_of
from agentgraph.agents.schemas import answer_tools, output_fault, schema_fault
from agentgraph.agents.signals import ResponseSchema
from agentgraph.agents.tools import AgentCall, as_tool, is_async_tool, own_tools
from agentgraph.safe_repr import reason, shown

LONGEST_TOOL_NAME = 64
"""How many characters providers take as the name of a tool."""
_ASKS = "HumanInTheLoopMiddleware"
"""LangChain's middleware that asks a person to agree to tool calls, as `approve=` does."""
_RULE = ("allowed_decisions", "description", "args_schema", "when")
"""What a rule of its `interrupt_on` may have."""


def chat_faults(agent: ChatAgent, beside: Sequence[Handoff], *, in_loop: bool) -> Iterator[str]:
    """Yield what is wrong with a chat agent, which may also transfer to those above and beside it."""
    yield from agent.faults
    if not (isinstance(agent.model, Runnable) or _is_name(agent.model) or _is_chooser(agent.model)):
        yield (
            f"the model {shown(agent.model)} is not a LangChain chat model; pass one, such as "
            "ChatOpenAI(...), a name, such as 'openai:gpt-5', or a function of a context"
        )
    if not (isinstance(agent.instruction, str | SystemMessage) or _is_chooser(agent.instruction)):
        yield (
            f"the instruction {shown(agent.instruction)} cannot be used; pass a template, a "
            "SystemMessage, or a function of a context"
        )
    yield from _history_faults(agent.history)
    yield from limit_faults("max_iterations", agent.max_iterations)
    yield from word_faults("on_max_iterations", agent.on_max_iterations, ("raise", "answer"))
    yield from tool_error_faults(agent.on_tool_error)
    if not callable(agent.unknown_tool):
        yield from word_faults("unknown_tool", agent.unknown_tool, ("return", "raise"))
    if agent.model_input is not None and not is_hook(agent.model_input):
        yield (
            f"model_input={shown(agent.model_input)} cannot be used; pass a function of the "
            "messages, or of a context and the messages"
        )
    if fault := output_fault(agent.output_schema):
        yield fault
    handles: object = getattr(agent.output_schema, "handle_errors", None)
    if is_async(handles):
        yield (
            f"handle_errors={shown(handles)} of its output_schema is async, and LangChain calls it "
            "synchronously; pass a sync function"
        )
    yield from policy_faults(agent)
    yield from middleware_faults(agent.middleware)
    yield from _summary_faults(agent)
    yield from _approval_faults(agent)
    yield from _tool_faults(agent, beside)
    for name, given in (("peers", agent.peers), ("sticky", agent.sticky)):
        if not isinstance(given, bool):
            yield f"{name}={shown(given)} is neither True nor False"
    if agent.sticky and (agent.sub_agents_return or not agent.sub_agents):
        yield "sticky=True needs sub_agents, and those of a supervisor return to it; leave it out"
    if agent.break_tool and not in_loop:
        yield "break_tool=True needs an enclosing loop; leave it out"


def function_faults(agent: FunctionAgent) -> Iterator[str]:
    """Yield what is wrong with a function agent."""
    if isinstance(agent.fn, type):
        yield (
            f"{shown(agent.fn)} is a class; pass a function that takes a context, or an instance that "
            f"can be called: {agent.fn.__name__}()"
        )
    elif not callable(agent.fn):
        yield f"{shown(agent.fn)} cannot be called; pass a function that takes a context"
    names = [getattr(each, "name", None) for each in agent.agents]
    for name in dict.fromkeys(each for each in names if each is not None and names.count(each) > 1):
        yield f"agents= has {shown(name)} twice; once is enough for any number of calls"
    if agent.agents and agent.cache_policy is not None:
        yield "a function that runs agents cannot have a cache_policy=; give it to those agents"
    yield from _history_faults(agent.history)
    yield from policy_faults(agent)
    yield from _cache_faults(agent.cache_policy)
    if isinstance(agent.history, Summarized):
        yield "only a chat agent can have a summary written; use trimmed(...) for a function"


def graph_faults(agent: GraphAgent) -> Iterator[str]:
    """Yield what is wrong with a graph agent."""
    graph = agent.graph
    if not (isinstance(graph, Runnable) and hasattr(graph, "get_graph") and hasattr(graph, "nodes")):
        if not hasattr(graph, "assistant_id"):  # a graph on a server
            yield f"{shown(graph)} is not a compiled LangGraph graph; call compile() on its builder"
    elif agent.output is None and "messages" not in getattr(graph, "channels", {"messages": None}):
        yield (
            "the state of its graph has no 'messages'; add them, as in MessagesState, or pass output=, "
            "a function from the state to what the agent says"
        )
    yield from _stop_faults(graph)
    yield from flat_faults(agent)
    if agent.input is not None and not gives_one_value(agent.input):
        yield f"input={shown(agent.input)} cannot be used; pass a function of a context"
    if agent.output is not None and not gives_one_value(agent.output):
        yield f"output={shown(agent.output)} cannot be used; pass a function of the state"
    yield from _history_faults(agent.history)
    yield from policy_faults(agent)
    yield from _cache_faults(agent.cache_policy)
    if isinstance(agent.history, Summarized):
        yield "only a chat agent can have a summary written; use trimmed(...) for a graph"


def _stop_faults(graph: object, inside: str = "") -> Iterator[str]:
    """Yield where a graph, or a graph in its nodes, stops without a question."""
    for option in ("interrupt_before", "interrupt_after"):
        if names := getattr(graph, f"{option}_nodes", ()):
            yield (
                f"its graph{inside} is compiled with {option}={shown(names)}, where it would stop "
                "without a question; compile it without, and call interrupt() in a node, or put "
                "human(...) before the agent"
            )
    for name, node in getattr(graph, "nodes", {}).items():
        for inner in getattr(node, "subgraphs", ()):
            yield from _stop_faults(inner, f" in the node {name!r}{inside}")


def human_faults(agent: HumanAgent) -> Iterator[str]:
    """Yield what is wrong with an agent that asks a person."""
    if fault := schema_fault(agent.response_schema):
        yield fault


def tool_error_faults(option: object) -> Iterator[str]:
    """Yield what is wrong with `on_tool_error`."""
    kinds = option if isinstance(option, tuple) and option else (option,)
    is_known = all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)
    if isinstance(option, str):
        is_known = option in ("return", "raise") or len(option.split()) > 1
    elif not isinstance(option, type | tuple):
        is_known = is_hook(option)
    if not is_known:
        yield (
            f"on_tool_error={shown(option)} is not known; use 'return' or 'raise', types of "
            "exceptions, a sentence for the model, or a function of the exception"
        )


def is_agent(thing: object) -> bool:
    """Return whether something is an agent."""
    return isinstance(thing, Agent) and isinstance(unchecked(thing), Leaf | Composite)


def _is_name(model: object) -> bool:
    return isinstance(model, str) and bool(model.strip())


def _is_chooser(fn: object) -> bool:
    """Return whether something is a function that takes a context."""
    if not callable(fn) or isinstance(fn, type) or not gives_one_value(fn):
        return False
    try:
        inspect.signature(fn).bind(None)
    except TypeError:
        return False
    return True


def policy_faults(agent: ChatAgent | FunctionAgent | GraphAgent | Step) -> Iterator[str]:
    """Yield what is wrong with `retry` and `timeout`."""
    retry = agent.retry
    several = retry if isinstance(retry, Sequence) and not hasattr(retry, "max_attempts") else [retry]
    if retry is not None and not all(hasattr(each, "max_attempts") for each in several):
        yield (
            f"retry={shown(retry)} is not a retry policy; pass langgraph.types.RetryPolicy(...), or "
            "several"
        )
    limit = agent.timeout
    seconds = limit.total_seconds() if isinstance(limit, timedelta) else limit
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
    if limit is not None and not is_number and not hasattr(limit, "run_timeout"):
        yield (
            f"timeout={shown(limit)} is not a timeout; pass seconds above 0, a timedelta, or a "
            "TimeoutPolicy"
        )


def _cache_faults(policy: Caching) -> Iterator[str]:
    """Yield what is wrong with `cache_policy`."""
    if policy is None:
        return
    if not (hasattr(policy, "key_func") and hasattr(policy, "ttl")):
        yield (
            f"cache_policy={shown(policy)} is not a cache policy; pass langgraph.types.CachePolicy(...)"
        )
        return
    if not gives_one_value(policy.key_func):
        yield (
            f"the key_func {shown(policy.key_func)} of its cache_policy cannot be used; pass a "
            "function of a context"
        )
    ttl = policy.ttl
    if ttl is not None and (not isinstance(ttl, int | float) or isinstance(ttl, bool) or ttl <= 0):
        yield f"the ttl {shown(ttl)} of its cache_policy is not a time; pass seconds above 0, or None"


def _approval_faults(agent: ChatAgent) -> Iterator[str]:
    yield from word_faults("interrupt_mode", agent.interrupt_mode, ("batched", "per_call"))
    rules = agent.approve
    if callable(rules) and not gives_one_value(rules):
        yield f"approve={shown(rules)} is a generator function; pass a function of a call"
    for name, rule in rules.items() if isinstance(rules, Mapping) else ():
        if fault := _rule_fault(rule):
            yield f"approve[{shown(name)}] {fault}"
    if rules and _has_kind(agent, _ASKS):
        yield f"it has both approve= and a {_ASKS}, which would ask twice; leave one out"


def _summary_faults(agent: ChatAgent) -> Iterator[str]:
    policy = agent.history
    if not isinstance(policy, Summarized):
        return
    if not (isinstance(policy.model, Runnable) or _is_name(policy.model)):
        yield (
            f"the summarising model {shown(policy.model)} is not a LangChain chat model; pass one, "
            "such as ChatOpenAI(...), or a name, such as 'openai:gpt-5-mini'"
        )
    if policy.instruction is not None and not isinstance(policy.instruction, str):
        yield (
            f"the instruction {shown(policy.instruction)} of summarized(...) is not a text; pass one, "
            "or leave it out"
        )
    if _has_kind(agent, SUMMARY):
        yield (
            f"it has both history=summarized(...) and a {SUMMARY}, its own or one of the whole tree, "
            "which would sum up twice; leave one out"
        )


def _has_kind(agent: ChatAgent, kind: str) -> bool:
    """Return whether an agent has middleware of a class, a subclass of it, or of the same name."""
    kinds = (each.__name__ for given in agent.middleware for each in type(given).__mro__)
    return kind in (*kinds, *(getattr(each, "name", None) for each in agent.middleware))


def _rule_fault(rule: object) -> str | None:
    """Return what is wrong with a rule of LangChain's `interrupt_on`; None if nothing is."""
    if isinstance(rule, bool):
        return None
    if not isinstance(rule, Mapping):
        return f"is {shown(rule)}; use True, False, or a mapping as LangChain's InterruptOnConfig"
    if unknown := sorted(map(str, rule.keys() - _RULE)):
        return f"has unknown keys {', '.join(map(shown, unknown))}; use {', '.join(_RULE)}"
    allowed = rule.get("allowed_decisions")
    is_list = isinstance(allowed, list | tuple) and bool(allowed)
    if not is_list or any(each not in DECISIONS for each in allowed or ()):
        return f"allows {shown(allowed)}; give it allowed_decisions, of {', '.join(DECISIONS)}"
    when, about = rule.get("when", bool), rule.get("description", "")
    if not gives_one_value(when):
        return f"has when={shown(when)}; pass a function of a request"
    if not isinstance(about, str) and not gives_one_value(about):
        return f"has description={shown(about)}; pass a text, or a function of a call"
    return None


def _agent_tool_faults(tool: AgentTool) -> Iterator[str]:
    yield from word_faults("history of an agent_tool", tool.history, ("input", "shared"))
    named = f"the agent tool {shown(getattr(tool.agent, 'name', tool.agent))} has"
    if fault := arguments_fault(tool.args_schema):
        yield f"{named} {fault}"
    if tool.output is not None and not gives_one_value(tool.output):
        yield f"{named} output={shown(tool.output)}; pass a function of a reply"
    enabled = tool.enabled
    is_name = isinstance(enabled, str) and enabled.isidentifier()
    if not (is_name or isinstance(enabled, bool | None) or gives_one_value(enabled)):
        yield (
            f"{named} enabled={shown(enabled)}; pass True or False, the name of a value, or a "
            "function of a context"
        )


def arguments_fault(schema: ArgsSchema) -> str | None:
    """Return what is wrong with an `args_schema`; None if nothing is."""
    if schema is None:
        return None
    if fault := schema_fault(cast(ResponseSchema, schema)):
        what = f"is {fault.partition(' is ')[2]}"
    elif answer_tools(schema):
        return None
    else:
        what = "does not describe an object"
    return (
        f"args_schema={shown(schema)}, which {what}; pass a pydantic model, or the JSON schema of an "
        "object"
    )


def _length_faults(named: Iterable[Agent | BaseTool]) -> Iterator[str]:
    """Yield which tools that are named after agents have names that providers refuse."""
    names = (each.name for each in named if isinstance(each, BaseTool) or is_agent(each))
    for name in dict.fromkeys(each for each in names if len(each) > LONGEST_TOOL_NAME):
        yield (
            f"the tool {shown(name)}, which has the name of an agent, is {len(name)} characters long; "
            f"providers take at most {LONGEST_TOOL_NAME}; shorten the agent's name, or pass "
            "handoff(agent, name=...) for one that it hands over to"
        )


def _tool_faults(agent: ChatAgent, beside: Sequence[Handoff]) -> Iterator[str]:
    tools: list[BaseTool] = []
    for given in (*tools_of(agent.middleware), *agent.tools):
        if isinstance(given, Mapping):
            continue
        if isinstance(given, AgentTool):
            yield from _agent_tool_faults(given)
            if not is_agent(given.agent) or arguments_fault(given.args_schema):
                continue  # reported there, or at the place of the agent
        try:
            tools.append(as_tool(given))
        except Exception as error:
            yield (
                f"{shown(given)} cannot be used as a tool ({reason(error)}); pass a LangChain tool, or "
                "a function with a docstring"
            )
    inside = [handoff_to(agent, each) for each in agent.sub_agents if is_agent(each)]
    names_inside = {each.agent.name for each in inside}
    around = {each.agent.name: each for each in reversed(beside)}  # the nearest counts
    targets = [*inside, *(each for name, each in around.items() if name not in names_inside)]
    targets = [
        replace(each, args_schema=None) if arguments_fault(each.args_schema) else each
        for each in targets
    ]
    own = own_tools(agent, targets)
    names = [tool.name for tool in (*tools, *own)]
    yield from _length_faults([*(tool.agent for tool in agent_tools(agent)), *own])
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{count} tools are named {shown(name)}; a name means one tool, rename the others"
    yield from (
        f"the tool {shown(name)} has the name of the output schema; rename the tool, or give the "
        "schema another title"
        for name in answer_tools(agent.output_schema)
        if name in names
    )
    for what, wanted in (("return_directly", agent.return_directly), ("approve", agent.approve)):
        unknown = [] if callable(wanted) else [name for name in wanted if name not in names]
        if unknown:
            known = ", ".join(names) or "none"
            named = ", ".join(map(shown, unknown))
            yield f"{what} names {named}, which is not one of its tools: {known}"
    yield from _tool_timeout_faults(agent, tools)
    for model in toolless(agent.model) if names else ():
        instead = (
            "use retry= instead" if isinstance(model, RunnableRetry) else "pass one with bind_tools"
        )
        yield f"the model {type(model).__name__} takes no tools; {instead}"


def _tool_timeout_faults(agent: ChatAgent, tools: Sequence[BaseTool]) -> Iterator[str]:
    timeout = agent.tool_timeout
    named = timeout if isinstance(timeout, Mapping) else {}
    alone = () if isinstance(timeout, Mapping) or timeout is None else (timeout,)
    for limit in (*named.values(), *alone):
        seconds = limit.total_seconds() if isinstance(limit, timedelta) else limit
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds <= 0:
            yield f"tool_timeout={shown(limit)} is not a timeout; pass seconds above 0, or a timedelta"
    plain = [tool for tool in tools if not isinstance(tool, AgentCall)]
    stoppable = [tool.name for tool in plain if is_async_tool(tool)]
    if unknown := [name for name in named if name not in stoppable]:
        yield (
            f"tool_timeout names {', '.join(map(shown, unknown))}, which is not one of its async tools "
            f"(only an async call can be stopped): {', '.join(stoppable) or 'none'}"
        )


def toolless(model: object) -> Iterator[object]:
    """Yield the models that take no tools: they lack `bind_tools`, or have LangChain's default one."""
    from langchain_core.language_models import BaseChatModel  # costly, and trees without models exist

    if isinstance(model, RunnableWithFallbacks):
        for each in model.runnables:
            yield from toolless(each)
    elif isinstance(model, BaseChatModel):
        if type(model).bind_tools is BaseChatModel.bind_tools:
            yield model
    elif isinstance(model, Runnable) and not hasattr(model, "bind_tools"):
        yield model


def _history_faults(history: object) -> Iterator[str]:
    if isinstance(history, Trimmed | Summarized):
        yield from limit_faults("max_tokens", history.max_tokens)
        if not callable(history.token_counter) or is_async(history.token_counter):
            yield (
                f"token_counter={shown(history.token_counter)} cannot be used; pass a sync function of "
                "a list of messages, such as len"
            )
        history = history.history
    words = get_args(PolicyWord)
    if callable(history) and not gives_one_value(history):
        yield f"history={shown(history)} cannot be used; pass a function of entries"
    elif not callable(history) and not (isinstance(history, str) and history in words):
        yield f"unknown history {shown(history)}; use one of {', '.join(words)}, or a function"


_INSTEAD = "pass flat=False"


def flat_faults(agent: GraphAgent) -> Iterator[str]:
    """Yield why the graph of an agent with `flat=True` cannot be laid flat."""
    if not isinstance(agent.flat, bool):
        yield f"flat={shown(agent.flat)} is not known; use True or False"
        return
    if not agent.flat:
        return
    builder = getattr(agent.graph, "builder", None)
    if not hasattr(builder, "waiting_edges"):
        yield (
            f"flat=True takes a compiled StateGraph, such as that of create_agent(...), not "
            f"{shown(agent.graph)}; {_INSTEAD}"
        )
        return
    if agent.cache_policy is not None:
        yield f"cache_policy= is for a whole run of a graph, and flat=True runs its nodes; {_INSTEAD}"
    yield from (f"flat=True: {fault} {_INSTEAD}" for fault in _faults(agent.graph, builder))


def _faults(graph: object, builder: Any) -> Iterator[str]:
    if hasattr(graph, "agent"):
        yield "its graph is a compiled tree of agents; put the tree there as it is, or"
    for start, ends in sorted(_several_edges(builder).items()):
        yield f"its graph goes on from {start!r} at {' and '.join(map(repr, ends))} at the same time;"
    for starts, end in sorted(builder.waiting_edges):
        yield f"its graph waits for {' and '.join(map(repr, starts))} before {end!r};"
    if "__root__" in builder.channels:
        yield "the state of its graph has no named keys;"
    for name, node in builder.nodes.items():
        if node.cache_policy is not None:
            yield f"its node {name!r} has a cache_policy;"
        if node.is_error_handler or node.error_handler_node is not None:
            yield f"its node {name!r} has, or is, an error handler;"


def _several_edges(builder: Any) -> dict[str, list[str]]:
    """Return the nodes with several static edges, which are all taken."""
    ends: dict[str, list[str]] = {}
    for start, end in sorted(builder.edges):
        ends.setdefault(start, []).append(end)
    return {start: several for start, several in ends.items() if len(several) > 1}

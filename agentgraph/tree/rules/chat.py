"""The rules of chat agents, with their tools, approvals and summaries."""

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable, RunnableWithFallbacks
from langchain_core.runnables.retry import RunnableRetry
from langchain_core.tools import BaseTool

from agentgraph.agents.agents import (
    Agent,
    AgentTool,
    ChatAgent,
    Handoff,
    agent_tools,
    handoff_to,
    is_agent,
)
from agentgraph.agents.budgets import Summarized
from agentgraph.agents.deadlines import timeout_fault
from agentgraph.agents.functions import gives_one_value, is_async, is_hook
from agentgraph.agents.langchain_values import is_tool
from agentgraph.agents.limits import limit_faults, word_faults
from agentgraph.agents.middleware import DECISIONS, SUMMARY, middleware_faults, tools_of
from agentgraph.agents.schemas import answer_tools, output_fault
from agentgraph.agents.tools import AgentCall, as_tool, function_of, is_async_tool, own_tools, tool_name
from agentgraph.safe_repr import reason, shown
from agentgraph.tree.rules.handoffs import handoff_faults
from agentgraph.tree.rules.options import (
    LONGEST_TOOL_NAME,
    arguments_fault,
    history_asked,
    history_faults,
    is_name,
    policy_faults,
)
from agentgraph.tree.rules.row import NOTHING, Around, NamedValue, OwnFunction, Rules

_ASKS = "HumanInTheLoopMiddleware"
"""LangChain's middleware that asks a person to agree to tool calls, as `approve=` does."""
_RULE = ("allowed_decisions", "description", "args_schema", "when")
"""The keys of a rule of its `interrupt_on`."""


def _faults_of(agent: ChatAgent, around: Around) -> Iterator[str]:
    yield from agent.faults
    if not (isinstance(agent.model, Runnable) or is_name(agent.model) or _is_chooser(agent.model)):
        yield (
            f"the model {shown(agent.model)} is not a LangChain chat model; pass one, such as "
            "ChatOpenAI(...), a name, such as 'openai:gpt-5', or a function of a context"
        )
    if not (isinstance(agent.instruction, str | SystemMessage) or _is_chooser(agent.instruction)):
        yield (
            f"the instruction {shown(agent.instruction)} cannot be used; pass a template, a "
            "SystemMessage, or a function of a context"
        )
    yield from history_faults(agent.history)
    yield from limit_faults("max_iterations", agent.max_iterations)
    yield from word_faults("on_max_iterations", agent.on_max_iterations, ("raise", "answer"))
    yield from _tool_error_faults(agent.on_tool_error)
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
    yield from _tool_faults(agent, around.reachable)
    for name, given in (("peers", agent.peers), ("sticky", agent.sticky)):
        if not isinstance(given, bool):
            yield f"{name}={shown(given)} is neither True nor False"
    if agent.sticky and (agent.sub_agents_return or not agent.sub_agents):
        yield "sticky=True needs sub_agents, and those of a supervisor return to it; leave it out"
    if agent.break_tool and not around.in_loop:
        yield "break_tool=True needs an enclosing loop; leave it out"
    yield from handoff_faults(agent.by_handoff)


def _tool_error_faults(option: object) -> Iterator[str]:
    kinds = option if isinstance(option, tuple) and option else (option,)
    is_known = all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)
    if isinstance(option, str):
        is_known = option in ("return", "raise") or len(option.split()) > 1
    elif not isinstance(option, type | tuple):
        is_known = is_hook(option)
    if not is_known:
        yield (
            f"on_tool_error={shown(option)} is not known; choose one of: 'return', 'raise', types of "
            "exceptions, a sentence for the model, or a function of the exception"
        )


def _is_chooser(fn: object) -> bool:
    if not callable(fn) or isinstance(fn, type) or not gives_one_value(fn):
        return False
    try:
        inspect.signature(fn).bind(None)
    except TypeError:
        return False
    return True


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
    if agent.approve_timeout is not None:
        yield from _approve_timeout_faults(agent)


def _approve_timeout_faults(agent: ChatAgent) -> Iterator[str]:
    timeout, rules = agent.approve_timeout, agent.approve
    if fault := timeout_fault(timeout, "approve_timeout"):
        yield fault
    if not rules:
        yield f"approve_timeout={shown(timeout)} needs approve=, the calls that a person must approve"
    for name, rule in rules.items() if isinstance(rules, Mapping) else ():
        allowed = rule.get("allowed_decisions") if isinstance(rule, Mapping) else DECISIONS
        if isinstance(allowed, list | tuple) and "reject" not in allowed:
            yield (
                f"approve_timeout={shown(timeout)} rejects calls, which approve[{shown(name)}] does "
                "not allow; add 'reject' to its allowed_decisions"
            )


def _summary_faults(agent: ChatAgent) -> Iterator[str]:
    policy = agent.history
    if not isinstance(policy, Summarized):
        return
    if not (isinstance(policy.model, Runnable) or is_name(policy.model)):
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


def _length_faults(named: Iterable[Agent | BaseTool]) -> Iterator[str]:
    names = (each.name for each in named if isinstance(each, BaseTool) or is_agent(each))
    for name in dict.fromkeys(each for each in names if len(each) > LONGEST_TOOL_NAME):
        yield (
            f"the tool {shown(name)}, which has the name of an agent, is {len(name)} characters long; "
            f"providers take at most {LONGEST_TOOL_NAME}; shorten the agent's name, or pass "
            "handoff(agent, name=...) for a target of transfers"
        )


def _tool_faults(agent: ChatAgent, reachable: Sequence[Handoff]) -> Iterator[str]:
    tools: list[BaseTool] = []
    for given in (*tools_of(agent.middleware), *agent.tools):
        if isinstance(given, Mapping):
            if any(callable(each) or is_tool(each) for each in given.values()):
                yield f"tools={shown(given)} is a mapping; pass a list of the tools: tools=[...]"
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
    around = {each.agent.name: each for each in reversed(reachable)}  # the nearest counts
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
    """Yield the models that take no tools: without `bind_tools`, or with LangChain's default one."""
    from langchain_core.language_models import BaseChatModel  # a slow import; some trees have no models

    if isinstance(model, RunnableWithFallbacks):
        for each in model.runnables:
            yield from toolless(each)
    elif isinstance(model, BaseChatModel):
        if type(model).bind_tools is BaseChatModel.bind_tools:
            yield model
    elif isinstance(model, Runnable) and not hasattr(model, "bind_tools"):
        yield model


def _asked(agent: ChatAgent) -> Iterator[tuple[str, object]]:
    for name in ("model", "instruction", "on_tool_error", "unknown_tool", "model_input"):
        yield name, getattr(agent, name)
    for tool in agent_tools(agent):
        for name in ("output", "enabled"):
            yield f"{name} of the agent tool {tool.agent.name!r}, ", getattr(tool, name)
    yield from _asked_of_calls(agent.approve)
    yield from history_asked(agent)


def _asked_of_calls(rules: object) -> Iterator[tuple[str, object]]:
    if not isinstance(rules, Mapping):
        yield "approve", rules
        return
    for name, rule in rules.items():
        if isinstance(rule, Mapping):
            yield from (
                (f"approve[{name!r}]: {part}", rule.get(part)) for part in ("when", "description")
            )


def _state_of(agent: ChatAgent) -> Iterator[str]:
    for each in agent.middleware:
        yield from getattr(each.state_schema, "__annotations__", ())


def _reads(agent: ChatAgent) -> Iterator[NamedValue]:
    yield from (NamedValue("middleware", name, may_be_missing=True) for name in _state_of(agent))
    for tool in agent_tools(agent):
        if isinstance(tool.enabled, str):
            yield NamedValue("enabled", tool.enabled, may_be_missing=True)


def _own(agent: ChatAgent) -> Iterator[OwnFunction]:
    for given in (*agent.tools, *tools_of(agent.middleware)):
        if not isinstance(given, AgentTool | Mapping):
            yield OwnFunction(function_of(given), tool_name(given))


def _hidden(agent: ChatAgent) -> tuple[bool, bool]:
    """Middleware of LangChain uses no values but those of its state."""
    is_any = any(type(each).__module__.partition(".")[0] != "langchain" for each in agent.middleware)
    return is_any, is_any


CHAT = Rules(
    faults=_faults_of,
    asked=_asked,
    texts=lambda agent: [("its instruction", agent.instruction)],
    reads=_reads,
    writes=_state_of,
    own=_own,
    hidden=_hidden,
    former=lambda was: ChatAgent(name=was.name, model=NOTHING, sub_agents=was.sub_agents),
)

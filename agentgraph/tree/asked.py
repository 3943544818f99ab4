"""Which functions of users a place asks, by the options that have them.

A function that is known to be async is refused before a sync run begins; one that turns out to be async
is refused where it is asked (`graph/nodes/asking.py`). Function agents and tools are not asked but run,
also by sync runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import Runnable

from agentgraph.agents.agents import (
    ChatAgent,
    CheckedAgent,
    EachAgent,
    FunctionAgent,
    GraphAgent,
    LoopAgent,
    Step,
    SwitchAgent,
    agent_tools,
)
from agentgraph.agents.budgets import history_function
from agentgraph.agents.functions import function_in
from agentgraph.agents.prebuilt.runnable import RunsRunnable


def functions_asked(
    agent: object, step: Step | None, checks: Sequence[CheckedAgent], retry: Any
) -> Iterator[tuple[str, object]]:
    """Yield the functions that are asked at a place, each with the name of its option.

    Args:
        agent: The agent there.
        step: The step of a workflow that runs there.
        checks: The checks of the agent.
        retry: The policies of the place.
    """
    several = [*_of_agent(agent), *_of_policies(retry)]
    if step is not None:
        several += [("when", step.when), ("input", step.input)]
    several += [("check", each.check) for each in checks]
    for slot, fn in several:
        inner = function_in(fn)
        if callable(inner) and not isinstance(inner, type | Runnable):
            yield slot, inner


def _of_agent(agent: object) -> list[tuple[str, object]]:
    match agent:
        case ChatAgent():
            names = ("model", "instruction", "on_tool_error", "unknown_tool", "model_input")
            own = [(name, getattr(agent, name)) for name in names]
            tools = [
                (f"{name} of the agent tool {tool.agent.name!r}, ", getattr(tool, name))
                for tool in agent_tools(agent)
                for name in ("output", "enabled")
            ]
            return [*own, *tools, *_of_approval(agent), ("history", history_function(agent.history))]
        case FunctionAgent():
            own = [("history", history_function(agent.history)), *_of_cache(agent)]
            if isinstance(agent.fn, RunsRunnable):
                own += [("input", agent.fn.input), ("output", agent.fn.output)]
            return own
        case GraphAgent():
            own = [("input", agent.input), ("output", agent.output)]
            return [*own, ("history", history_function(agent.history)), *_of_cache(agent)]
        case EachAgent():
            return [("over", agent.over), ("key", agent.key), ("input", agent.input)]
        case LoopAgent():
            return [("until", agent.until)]
        case SwitchAgent():
            return [("choose", agent.choose)]
    return []


def _of_approval(agent: ChatAgent) -> Iterator[tuple[str, object]]:
    rules = agent.approve
    if not isinstance(rules, Mapping):
        yield "approve", rules
        return
    for name, rule in rules.items():
        if isinstance(rule, Mapping):
            yield from (
                (f"approve[{name!r}]: {part}", rule.get(part)) for part in ("when", "description")
            )


def _of_cache(agent: FunctionAgent | GraphAgent) -> Iterator[tuple[str, object]]:
    if agent.cache_policy is not None:
        yield "key_func", agent.cache_policy.key_func


def _of_policies(retry: Any) -> Iterator[tuple[str, object]]:
    """Yield the functions that decide whether a failure is retried."""
    for policy in retry if isinstance(retry, list | tuple) and not _is_policy(retry) else [retry]:
        if _is_policy(policy):
            yield "retry_on", policy.retry_on


def _is_policy(thing: object) -> bool:
    return hasattr(thing, "max_attempts")

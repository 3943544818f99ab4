"""The faults of options shared by several kinds of agents."""

from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from inspect import signature
from typing import cast, get_args

from agentgraph.agents.agents import (
    Agent,
    ArgsSchema,
    Caching,
    ChatAgent,
    FunctionAgent,
    GraphAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    Step,
)
from agentgraph.agents.budgets import PolicyWord, Summarized, Trimmed, history_function
from agentgraph.agents.dependencies import DependsOn, upstream
from agentgraph.agents.functions import gives_one_value, is_async
from agentgraph.agents.kinds import kind_of
from agentgraph.agents.limits import limit_faults
from agentgraph.agents.schemas import answer_tools, schema_fault
from agentgraph.agents.signals import ResponseSchema
from agentgraph.agents.templates import bare_in, results_in, unreadable_in
from agentgraph.safe_repr import LONGEST, cut, printable, shown
from agentgraph.tree.rules.row import Around

LONGEST_TOOL_NAME = 64
"""Maximum number of characters that providers accept in the name of a tool."""


def shown_name(agent: Agent) -> str:
    """Return the name of an agent for messages, even if the name is invalid."""
    name: object = agent.name
    return printable(cut(name, LONGEST)) if isinstance(name, str) else shown(name)


def policy_faults(agent: ChatAgent | FunctionAgent | GraphAgent | Step) -> Iterator[str]:
    """Yield the faults of `retry` and `timeout`."""
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


def cache_faults(policy: Caching) -> Iterator[str]:
    """Yield the faults of `cache_policy`."""
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


def history_faults(history: object) -> Iterator[str]:
    """Yield the faults of a `history`."""
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
        yield f"unknown history {shown(history)}; choose one of: {', '.join(words)}, or a function"


def arguments_fault(schema: ArgsSchema) -> str | None:
    """Return the fault of an `args_schema`, or None."""
    if schema is None:
        return None
    if fault := schema_fault(cast(ResponseSchema, schema)):
        what = f"is {fault.partition(' is ')[2].partition('; pass')[0]}"
    elif answer_tools(schema):
        return None
    else:
        what = "does not describe an object"
    return (
        f"args_schema={shown(schema)}, which {what}; pass a pydantic model, or the JSON schema of an "
        "object"
    )


def is_name(model: object) -> bool:
    """Return whether a value can be the name of a model."""
    return isinstance(model, str) and bool(model.strip())


def key_faults(option: str, key: object) -> Iterator[str]:
    """Yield the faults of an option that is the name of a value, or None."""
    if key is not None and (not isinstance(key, str) or not key.isidentifier()):
        yield f"{option}={shown(key)} cannot be used in a template; use a plain name such as 'draft'"


def source_faults(option: str, source: object) -> Iterator[str]:
    """Yield the faults of an option that is the name of a value, or a function of a context."""
    if not (isinstance(source, str) and source.isidentifier()) and not gives_one_value(source):
        yield (
            f"{option}={shown(source)} cannot be used; pass the name of a value, or a function of a "
            "context"
        )
    yield from arity_faults(option, source)


def arity_faults(option: str, fn: object, *arguments: str) -> Iterator[str]:
    """Yield the fault of a function that cannot be called with its arguments, by default a context."""
    if not callable(fn):
        return
    with suppress(ValueError):  # some functions that are written in C have no signature
        called = signature(fn, follow_wrapped=False)
        try:
            called.bind(*arguments or (None,))
        except TypeError:
            takes = called.replace(return_annotation=called.empty)
            needed = " and ".join(arguments) or "a Context"
            count = "two arguments" if len(arguments) > 1 else "one argument"
            yield f"{option}={shown(fn)} takes {takes}; it takes {count}, {needed}"


def sub_agent_faults(agent: SequentialAgent | ParallelAgent | LoopAgent, _: Around) -> Iterator[str]:
    """Yield the faults of the sub-agents of a composite."""
    if not agent.sub_agents:
        yield f"a {kind_of(agent).name} needs at least one sub-agent"


def input_faults(
    template: object, what: str, name: str, depends_on: DependsOn, keyed: Container[str] = ()
) -> Iterator[str]:
    """Yield the faults of the input of a step or an item.

    Args:
        template: The input.
        what: The name of the input for messages.
        name: The name of the step.
        depends_on: The dependencies of all steps.
        keyed: The names of the steps with an output key.
    """
    if template is None or gives_one_value(template):
        return
    if not isinstance(template, str):
        yield (
            f"{what} is {shown(template)} and cannot be used; pass a template, or a function of a "
            "context"
        )
        return
    for text in unreadable_in(template):
        yield (
            f"{what} names {text}, which cannot be read; use ${{results.STEP}} for what a step said, "
            "or ${VALUE} for a value of the run"
        )
    for text in dict.fromkeys(bare_in(template)):
        inside = text.strip("{} ")
        yield (
            f"{what} has {text}, which is sent unchanged; write ${{{inside}}} for the value, or "
            f"{{{{{inside}}}}} for the braces"
        )
    for result, fields in dict.fromkeys(results_in(template)):
        if wrong := _result_fault(result, name, depends_on):
            yield f"{what} names ${{results.{result}{fields}}}, which {wrong}"
        elif fields and result not in keyed:
            yield (
                f"{what} names ${{results.{result}{fields}}}, but {shown(result)} has no output_key; "
                f"give it one, or write ${{results.{result}}} for what it says"
            )


def _result_fault(name: str, step: str, depends_on: DependsOn) -> str | None:
    """Return the reason why a step's input cannot use the result of a step; None if it can."""
    if name in upstream(depends_on, step):
        return None
    if name not in depends_on:
        others = ", ".join(shown(each) for each in depends_on if each != step) or "none but itself"
        return f"is not a step; choose one of: {others}"
    if name == step or step in upstream(depends_on, name):
        return "runs after it; take it out"
    return f"does not come before it; add {shown(name)} to its depends_on, or take it out"


def history_asked(agent: ChatAgent | FunctionAgent | GraphAgent) -> list[tuple[str, object]]:
    """Return the function that selects the messages for an agent, if it has one."""
    return [("history", history_function(agent.history))]


def cache_asked(agent: FunctionAgent | GraphAgent) -> list[tuple[str, object]]:
    """Return the function that makes the key of a cached result, if it has one."""
    policy = agent.cache_policy
    return [] if policy is None else [("key_func", policy.key_func)]

"""The rules of function agents."""

from collections.abc import Iterator
from types import BuiltinFunctionType

from agentgraph.agents.agents import FunctionAgent
from agentgraph.agents.budgets import Summarized
from agentgraph.agents.habits.values import UPDATES, node_faults
from agentgraph.agents.prebuilt.runnable import RunsRunnable
from agentgraph.safe_repr import shown
from agentgraph.tree.rules.options import (
    cache_asked,
    cache_faults,
    history_asked,
    history_faults,
    policy_faults,
)
from agentgraph.tree.rules.row import Around, OwnFunction, Rules


def _faults(agent: FunctionAgent, _: Around) -> Iterator[str]:
    code, hints = getattr(agent.fn, "__code__", None), getattr(agent.fn, "__annotations__", {})
    takes_one = (  # what this cannot tell at once is looked at more closely below
        isinstance(agent.fn, BuiltinFunctionType)
        if code is None
        else code.co_argcount == 1 and not code.co_kwonlyargcount
    )
    returned = hints.get("return")
    kind = returned if isinstance(returned, str) else getattr(returned, "__name__", "")
    if isinstance(agent.fn, type):
        yield (
            f"{shown(agent.fn)} is a class; pass a function that takes a context, or an instance that "
            f"can be called: {agent.fn.__name__}()"
        )
    elif not callable(agent.fn):
        yield f"{shown(agent.fn)} cannot be called; pass a function that takes a context"
    elif not takes_one or kind.partition("[")[0] in UPDATES:
        yield from node_faults(agent.fn, kind)
    names = [getattr(each, "name", None) for each in agent.agents]
    for name in dict.fromkeys(each for each in names if each is not None and names.count(each) > 1):
        yield f"agents= has {shown(name)} twice; once is enough for any number of calls"
    if agent.agents and agent.cache_policy is not None:
        yield "a function that runs agents cannot have a cache_policy=; give it to those agents"
    yield from history_faults(agent.history)
    yield from policy_faults(agent)
    yield from cache_faults(agent.cache_policy)
    if isinstance(agent.history, Summarized):
        yield "only a chat agent can have a summary written; use trimmed(...) for a function"


def _asked(agent: FunctionAgent) -> list[tuple[str, object]]:
    own = [*history_asked(agent), *cache_asked(agent)]
    if isinstance(agent.fn, RunsRunnable):
        own += [("input", agent.fn.input), ("output", agent.fn.output)]
    return own


def _own(agent: FunctionAgent) -> list[OwnFunction]:
    return [] if isinstance(agent.fn, RunsRunnable) else [OwnFunction(agent.fn)]


FUNCTION = Rules(faults=_faults, asked=_asked, own=_own)

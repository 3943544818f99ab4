"""The users' functions that a place calls, by their options.

A sync run rejects a function that is known to be async before it starts, and a function that returns an
awaitable at its call (`graph/nodes/asking.py`). Function agents and tools may be async in sync runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from langchain_core.runnables import Runnable

from agentgraph.agents.agents import CheckedAgent, Step
from agentgraph.agents.functions import function_in


def user_functions(
    own: Iterable[tuple[str, object]], step: Step | None, checks: Sequence[CheckedAgent], retry: Any
) -> Iterator[tuple[str, object]]:
    """Yield the users' functions of a place, each with the name of its option.

    Args:
        own: The functions of the agent, by the rules of its kind.
        step: The step of a workflow that runs there.
        checks: The checks of the agent.
        retry: The policies of the place.
    """
    several = [*own, *_of_policies(retry)]
    if step is not None:
        several += [("when", step.when), ("input", step.input)]
    several += [("check", each.check) for each in checks]
    for slot, fn in several:
        inner = function_in(fn)
        if callable(inner) and not isinstance(inner, type | Runnable):
            yield slot, inner


def _of_policies(retry: Any) -> Iterator[tuple[str, object]]:
    for policy in retry if isinstance(retry, list | tuple) and not _is_policy(retry) else [retry]:
        if _is_policy(policy):
            yield "retry_on", policy.retry_on


def _is_policy(thing: object) -> bool:
    return hasattr(thing, "max_attempts")

"""Reads an option that is the name of a value, or a function of a context: `choose`, `when`."""

from collections.abc import Awaitable, Callable, Coroutine

from agentgraph.agents.agents import Source
from agentgraph.agents.context import Context
from agentgraph.agents.functions import is_async
from agentgraph.errors import AgentGraphError, MissingValueError
from agentgraph.graph.nodes.stopping import run_in_thread, stoppable
from agentgraph.graph.sync_async import Call, Calls
from agentgraph.tree.places import needs_await

MISSING = object()
"""What is read where the run has no value of the name."""


def look_up(
    option: str, source: Source, context: Context, *, may_be_missing: bool = False
) -> Calls[object]:
    """Return the value that an option names, or what its function returns.

    On the event loop a sync function is called in a thread.

    Args:
        option: The name of the option, for errors.
        source: The option.
        context: What the function gets; its values are looked at.
        may_be_missing: Whether a missing value is `MISSING`, and no error.

    Raises:
        MissingValueError: The run has no value of the name.
        AgentGraphError: A sync run cannot await an async function.
    """
    if callable(source):
        return (yield Call(_call, _await, (option, source, context)))
    value = context.values.get(source, MISSING)
    if value is MISSING and not may_be_missing:
        there = [each for each in context.values if each.isidentifier()]
        raise MissingValueError(context.name, source, there, context.address, option)
    return value


def _call(option: str, source: Callable[[Context], object], context: Context) -> object:
    value = source(context)
    if isinstance(value, Coroutine):
        value.close()
        raise AgentGraphError(f"{context.address}: {needs_await(option, source)}")
    return value


async def _await(option: str, source: Callable[[Context], object], context: Context) -> object:
    value = source(context) if is_async(source) else await run_in_thread(source, context)
    if isinstance(value, Awaitable):
        with stoppable():
            return await value
    return value

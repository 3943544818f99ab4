"""Calls of LangGraph graphs, sync or async, so that a tree and a graph written by hand run alike."""

import asyncio
from typing import Any

from helpers import Drive, Sync
from langchain_core.messages import BaseMessage
from langgraph.graph import START, StateGraph

SAID: Any = {"messages": [{"role": "user", "content": "Go."}]}
"""The input with which most graphs are called."""


def invoke(drive: Drive, graph: Any, *args: Any, **options: Any) -> Any:
    """Return the output of a graph, by `invoke` or `ainvoke`."""
    if drive is Sync:
        return graph.invoke(*args, **options)
    return asyncio.run(graph.ainvoke(*args, **options))


def stream(drive: Drive, graph: Any, *args: Any, **options: Any) -> list[Any]:
    """Return the parts of a graph's stream, by `stream` or `astream`."""
    if drive is Sync:
        return list(graph.stream(*args, **options))

    async def astream() -> list[Any]:
        return [part async for part in graph.astream(*args, **options)]

    return asyncio.run(astream())


def in_turn(state: Any, *nodes: Any, context_schema: Any = None, **options: Any) -> Any:
    """Return a graph, written as the guides do, that runs its nodes one after the other.

    Args:
        state: The type of its state.
        *nodes: Its nodes; each is named like its function.
        context_schema: The type of its context.
        **options: How it is compiled.
    """
    builder = StateGraph(state, context_schema=context_schema).add_sequence(nodes)
    return builder.add_edge(START, nodes[0].__name__).compile(**options)


def last(output: Any) -> str:
    """Return the text of the last message."""
    message: BaseMessage = output["messages"][-1]
    return message.text

"""Lets each node of a foreign graph stop by itself, as the steps of a lane do.

The problem: an async run of a graph is one coroutine, in which LangGraph runs all nodes. If a stop
cancelled it, what a function in a thread gives would be lost although its work is done: a sync node
beside async ones, or a sync tool, which `ToolNode` calls from a coroutine.

The rule: LangGraph begins no further step of a stopped graph, as for lanes, and each node is cancelled
or waited for according to what it runs. A `ToolNode` is waited for if one of the tools that it calls
is sync, because it writes the results of all its calls at once.

Graphs that a user's function calls are part of that function.
"""

import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.graph import START
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel

from agentgraph.agents.tools import is_async_tool
from agentgraph.graph.graphs import RootGraph
from agentgraph.graph.history import calls_of
from agentgraph.graph.nodes.stopping import stoppable


def stoppable_graph(graph: Pregel[Any, Any, Any, Any]) -> Pregel[Any, Any, Any, Any]:
    """Return a copy of a graph for async runs whose nodes stop by themselves; of a tree, the tree."""
    if isinstance(graph, RootGraph):
        return graph
    copied = copy.copy(graph)
    copied.nodes = {name: _copied(name, node) for name, node in graph.nodes.items()}
    return copied


def stoppable_node(node: Any) -> Runnable[Any, Any]:
    """Return the runnable of a node (LangGraph's `PregelNode`) that stops by itself in async runs."""
    if isinstance(node.bound, Pregel):
        inner = node.copy({"bound": stoppable_graph(node.bound)})
        return cast(Runnable[Any, Any], inner.node)
    return _StoppableNode(node)


def _copied(name: str, node: Any) -> Any:
    if name == START:
        return node
    copied = node.copy({})
    copied.node = stoppable_node(node)  # in the place of LangGraph's cached property
    return copied


class _StoppableNode(Runnable[Any, Any]):
    """A node of a graph that is cancelled when the run stops, or waited for if it runs in a thread."""

    def __init__(self, node: Any) -> None:
        self._bound, self._node = node.bound, node.node

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        return self._node.invoke(input, config, **options)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        with stoppable(is_thread=_runs_in_threads(self._bound, input)):
            return await self._node.ainvoke(input, config, **options)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        with stoppable(is_thread=_runs_in_threads(self._bound, input)):
            async for part in self._node.astream(input, config, **options):
                yield part


def _runs_in_threads(bound: Any, given: Any) -> bool:
    """Return whether LangGraph runs a node, or a tool that it calls, in a thread."""
    if isinstance(bound, ToolNode):
        tools = bound.tools_by_name
        called = (tools.get(call["name"]) for call in _calls_in(given))
        return any(tool is not None and not is_async_tool(tool) for tool in called)
    return getattr(getattr(bound, "afunc", None), "func", None) is run_in_executor


def _calls_in(given: Any) -> Sequence[Any]:
    """Return the tool calls in the input of a `ToolNode`: in its last message, or sent to it."""
    if isinstance(given, Mapping) and "tool_call" in given:
        return [given["tool_call"]]
    if isinstance(given, list) and given and isinstance(given[-1], dict) and "args" in given[-1]:
        return given
    lists = given.values() if isinstance(given, Mapping) else [getattr(given, "messages", given)]
    messages = [each for several in lists if isinstance(several, list) for each in several]
    asking = (each for each in reversed(messages) if isinstance(each, AIMessage))
    return calls_of(next(asking, AIMessage("")))

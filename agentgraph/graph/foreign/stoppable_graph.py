"""Lets each node of a LangGraph graph stop by itself, as the steps of a lane do.

The problem: an async run of a graph is one coroutine, in which LangGraph runs all nodes. If a stop
cancelled it, the result of a function in a thread would be lost although its work is done: a sync node
that runs with async ones, or a sync tool, which `ToolNode` calls from a coroutine.

The rule: LangGraph begins no further step of a stopped graph, as for lanes, and each node is cancelled
or waited for according to what it runs. A `ToolNode` is waited for if one of the tools that it calls
is sync, because it writes the results of all its calls at once.

A node that fails lets LangGraph cancel the others of its step. So its failure waits for those that run
in threads, in the same graph or in graphs inside it.

Graphs that a user's function calls are part of that function.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from itertools import accumulate
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.errors import GraphBubbleUp
from langgraph.graph import START
from langgraph.pregel import Pregel

from agentgraph.agents.tools import is_async_tool
from agentgraph.graph.graph_classes import RootGraph
from agentgraph.graph.internals import PregelNode, RunnableCallable
from agentgraph.graph.nodes.stopping import keep_outcome, stoppable
from agentgraph.graph.open_types import AnyRunnable
from agentgraph.graph.paired_calls import calls_of

AnyGraph = Pregel[Any, Any, Any, Any]
"""A compiled graph of LangGraph, with any state."""


class _Threads:
    """The nodes of a graph, and of the graphs inside it, that run in threads now."""

    def __init__(self) -> None:
        self._running: dict[tuple[object, str], set[asyncio.Future[None]]] = {}

    @contextmanager
    def running(self, config: RunnableConfig) -> Iterator[None]:
        """Hold back failures of other nodes while a `with` block waits for a thread."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        runs = [(loop, namespace) for namespace in accumulate(_enclosing(config), "{}|{}".format)]
        for run in runs:
            self._running.setdefault(run, set()).add(ended)
        try:
            yield
        finally:
            ended.set_result(None)
            for run in runs:
                self._running[run].discard(ended)
                if not self._running[run]:
                    del self._running[run]

    async def ended(self, config: RunnableConfig) -> None:
        """Wait until no other node runs in a thread after one has failed."""
        run = asyncio.get_running_loop(), "|".join(_enclosing(config))
        while running := self._running.get(run):
            await asyncio.wait(running)


def _enclosing(config: RunnableConfig) -> list[str]:
    return str(config["configurable"]["checkpoint_ns"]).split("|")[:-1]


def stoppable_graph(graph: AnyGraph, threads: _Threads | None = None) -> AnyGraph:
    """Return a copy of a graph for async runs whose nodes stop by themselves; of a tree, the tree.

    Args:
        graph: The graph.
        threads: The nodes in threads of the graph around it, if there is one.
    """
    if isinstance(graph, RootGraph):
        return graph
    copied, threads = copy.copy(graph), threads or _Threads()
    copied.nodes = {name: _copied(name, node, threads) for name, node in graph.nodes.items()}
    return copied


def stoppable_node(node: PregelNode, threads: _Threads | None = None) -> AnyRunnable:
    """Return the runnable of a node (LangGraph's `PregelNode`) that stops by itself in async runs."""
    threads = threads or _Threads()
    if isinstance(node.bound, Pregel):
        inner = node.copy({"bound": stoppable_graph(node.bound, threads)})
        return _StoppableNode(inner, threads, nullcontext)
    return _StoppableNode(node.copy({"bound": _keeping_outcome(node.bound)}), threads, stoppable)


def _keeping_outcome(bound: AnyRunnable) -> AnyRunnable:
    """Return the runnable of a node; what an async function returned is not dropped by a stop."""
    if not isinstance(bound, RunnableCallable) or bound.afunc is None or _is_sync(bound):
        return bound
    afunc = bound.afunc

    async def kept(*args: object, **options: object) -> object:
        returned = await afunc(*args, **options)
        if not isinstance(returned, Runnable):  # which LangGraph runs next
            keep_outcome()
        return returned

    keeping = copy.copy(bound)
    keeping.afunc = kept
    return keeping


def _copied(name: str, node: PregelNode, threads: _Threads) -> PregelNode:
    if name == START:
        return node
    copied = node.copy({})
    copied.node = stoppable_node(node, threads)  # in the place of LangGraph's cached property
    return copied


class _StoppableNode(AnyRunnable):
    """A node of a graph that is cancelled when the run stops, or waited for if it runs in a thread."""

    def __init__(
        self, node: Any, threads: _Threads, scope: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self._bound, self._node = node.bound, node.node
        self._threads, self._scope = threads, scope

    def invoke(self, input: object, config: RunnableConfig | None = None, **options: object) -> object:
        return self._node.invoke(input, config, **options)

    async def ainvoke(
        self, input: object, config: RunnableConfig | None = None, **options: object
    ) -> object:
        async with self._guarded(input, config or {}):
            return await self._node.ainvoke(input, config, **options)

    async def astream(
        self, input: object, config: RunnableConfig | None = None, **options: object
    ) -> AsyncIterator[object]:
        async with self._guarded(input, config or {}):
            async for part in self._node.astream(input, config, **options):
                yield part

    @asynccontextmanager
    async def _guarded(self, node_input: object, config: RunnableConfig) -> AsyncIterator[None]:
        try:
            if _runs_in_threads(self._bound, node_input):
                with stoppable(is_thread=True), self._threads.running(config):
                    yield
            else:
                with self._scope():
                    yield
        except GraphBubbleUp:
            raise
        except Exception:
            with stoppable():
                await self._threads.ended(config)
            raise


def _runs_in_threads(bound: object, node_input: object) -> bool:
    from langgraph.prebuilt import ToolNode  # most runs have none, and it imports much

    if isinstance(bound, ToolNode):
        tools = bound.tools_by_name
        called = (tools.get(call["name"]) for call in _calls_in(node_input))
        return any(tool is not None and not is_async_tool(tool) for tool in called)
    return _is_sync(bound)


def _is_sync(bound: object) -> bool:
    return getattr(getattr(bound, "afunc", None), "func", None) is run_in_executor


def _calls_in(node_input: object) -> Sequence[Any]:
    """Return the tool calls in the input of a `ToolNode`: in its last message, or sent to it."""
    if isinstance(node_input, Mapping) and "tool_call" in node_input:
        return [node_input["tool_call"]]
    if (
        isinstance(node_input, list)
        and node_input
        and isinstance(node_input[-1], dict)
        and "args" in node_input[-1]
    ):
        return node_input
    lists = (
        node_input.values()
        if isinstance(node_input, Mapping)
        else [getattr(node_input, "messages", node_input)]
    )
    messages = [each for several in lists if isinstance(several, list) for each in several]
    asking = (each for each in reversed(messages) if isinstance(each, AIMessage))
    return calls_of(next(asking, AIMessage("")))

"""How LangGraph runs our nodes: traced where somebody listens, and else on a shorter way.

LangGraph starts a node's run before the node, with metadata that are the same each time. An address
depends on the position, which is in the node's input. So LangGraph's runnable of a node stands in
another one, which adds metadata first.

Most runs have no callbacks. Then nobody hears that the node's run begins and ends, and the node runs
without it. What it returns says already which channels are written and which node is next, so both are
written at once; LangGraph's own writers, which find that out by calling functions, serve `update_state`
and drawings.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextvars import copy_context
from functools import cache, cached_property
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph.state import CompiledStateGraph

from agentgraph.graph.internals import (
    SEND,
    TRIGGER,
    ChannelWrite,
    PregelNode,
    RunnableSeq,
    StreamingHandler,
)
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.state import Update


class TracedNode(Runnable[Any, Any]):
    """Runs a node in the place of LangGraph's runnable, with the metadata of the activation."""

    def __init__(self, node: PregelNode, node_context: NodeContext) -> None:
        self._node, self._bound, self._node_context = node, node.bound, node_context

    @cached_property
    def _traced(self) -> RunnableSeq:
        """What LangGraph makes of the node; made when first needed, as LangGraph does."""
        node = self._node
        return RunnableSeq(self._bound, *node.flat_writers, trace_policy=node.trace_policy)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run the node."""
        if config is None or _is_heard(config):
            return self._traced.invoke(input, self._marked(input, config), **options)
        context, own = copy_context(), _unnamed(config)
        context.run(var_child_runnable_config.set, own)
        update = context.run(self._bound.invoke, input, own, **options)
        _write(update, config)
        return update

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run the node on the event loop."""
        if config is None or _is_heard(config):
            return await self._traced.ainvoke(input, self._marked(input, config), **options)
        context, own = copy_context(), _unnamed(config)
        context.run(var_child_runnable_config.set, own)
        running = self._bound.ainvoke(input, own, **options)
        update = await asyncio.create_task(running, context=context)
        _write(update, config)
        return update

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """Run the node, and yield what it writes."""
        return self._traced.stream(input, self._marked(input, config), **options)

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run the node on the event loop, and yield what it writes."""
        return self._traced.astream(input, self._marked(input, config), **options)

    def _marked(self, state: Any, config: RunnableConfig | None) -> RunnableConfig | None:
        callbacks = (config or {}).get("callbacks")
        handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks
        if not config or not handlers:
            return config
        is_traced = not all(isinstance(each, StreamingHandler) for each in handlers)
        own = self._node_context.metadata(state.get("position"), has_path=is_traced)
        return {**config, "metadata": {**config.get("metadata", {}), **own}}


def _is_heard(config: RunnableConfig) -> bool:
    """Return whether a handler may hear of a node's run: LangGraph adds none to a manager."""
    callbacks = config.get("callbacks")
    return not isinstance(callbacks, BaseCallbackManager) or bool(callbacks.handlers)


def _unnamed(config: RunnableConfig) -> RunnableConfig:
    """Return a node's config for what runs in it, whose runs are not named as the node's."""
    own = config.copy()
    own.pop("run_name", None)
    own.pop("run_id", None)
    return own


def _write(update: Update, config: RunnableConfig) -> None:
    """Write the update of a node, and start the next one."""
    writes: list[tuple[str, Any]] = [*update.items()]
    if node := update["position"]["next"]:
        writes.append((f"{TRIGGER}{node}", None))
    config["configurable"][SEND](writes)


def trace(graph: CompiledStateGraph[Any, Any, Any, Any], node: Any) -> None:
    """Run a graph's node in this way, if LangGraph runs nodes first and only then writes."""
    if _is_known():
        run: Any = graph.nodes[node.name]
        run.node = TracedNode(run, node.node_context)  # in the place of LangGraph's cached property


@cache
def _is_known() -> bool:
    """Return whether what LangGraph makes of a node is what ours stands for."""
    bound, writer = ChannelWrite(()), ChannelWrite(())
    made = PregelNode(channels=[], triggers=[], bound=bound, writers=[writer]).node
    return type(made) is RunnableSeq and [*map(id, made.steps)] == [id(bound), id(writer)]

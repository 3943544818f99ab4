"""How LangGraph runs our nodes: with a trace where callbacks are set, and else in fewer calls.

LangGraph starts a node's run before the node, with metadata that are the same each time. An address
depends on the position, which is in the node's input. So LangGraph's runnable of a node is inside
another one, which adds metadata first.

Most runs have no callbacks. Then nothing observes that the node's run begins and ends, and the node
runs without it. Its result already says which channels are written and which node is next, so both are
written at once; LangGraph's own writers, which find that out by calling functions, serve `update_state`
and drawings.
"""

import asyncio
from collections.abc import AsyncIterator
from contextvars import copy_context
from functools import cache, cached_property

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from agentgraph.graph.internals import (
    SEND,
    TRIGGER,
    ChannelWrite,
    PregelNode,
    RunnableSeq,
    StreamingHandler,
)
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.open_types import Graph
from agentgraph.graph.spans import SPANS, SpannedNode, Spans
from agentgraph.graph.state import LaneState, Update
from agentgraph.graph.sync_async import arun_calls, run_calls


class TracedNode(Runnable[LaneState, object]):
    """Runs a node in the place of LangGraph's runnable, with the metadata of the activation."""

    def __init__(self, node: PregelNode, node_context: NodeContext) -> None:
        self._node, self._bound, self._node_context = node, node.bound, node_context

    @cached_property
    def _traced(self) -> RunnableSeq:
        """LangGraph's form of the node; made when first needed, as LangGraph does."""
        node = self._node
        return RunnableSeq(self._bound, *node.flat_writers, trace_policy=node.trace_policy)

    @cached_property
    def _spanned(self) -> SpannedNode:
        name, context = self._bound.name or "", self._node_context
        is_hook = name in context.place.nodes.middleware
        return SpannedNode(context, self._node.trace_policy, name if is_hook else "")

    def invoke(
        self, input: LaneState, config: RunnableConfig | None = None, **options: object
    ) -> object:
        """Run the node."""
        if config is None or (own := _unobserved(config)) is None:
            observed = run_calls(self._observed(input, config))
            return self._traced.invoke(input, observed, **options)
        context = copy_context()
        context.run(var_child_runnable_config.set, own)
        update = context.run(self._bound.invoke, input, own, **options)
        _write(update, config)
        return update

    async def ainvoke(
        self, input: LaneState, config: RunnableConfig | None = None, **options: object
    ) -> object:
        """Run the node on the event loop."""
        if config is None or (own := _unobserved(config)) is None:
            observed = await arun_calls(self._observed(input, config))
            return await self._traced.ainvoke(input, observed, **options)
        context = copy_context()
        context.run(var_child_runnable_config.set, own)
        running = self._bound.ainvoke(input, own, **options)
        update = await asyncio.create_task(running, context=context)
        _write(update, config)
        return update

    async def astream(
        self, input: LaneState, config: RunnableConfig | None = None, **options: object
    ) -> AsyncIterator[object]:
        """Run the node on the event loop, and yield what LangGraph's runnable yields."""
        observed = await arun_calls(self._observed(input, config))
        async for part in self._traced.astream(input, observed, **options):
            yield part

    async def _observed(self, state: LaneState, config: RunnableConfig | None) -> RunnableConfig | None:
        spans: Spans | None = config["configurable"].get(SPANS) if config else None
        if config is not None and spans is not None:
            return await spans.enter(self._spanned, state, config)
        return self._marked(state, config)

    def _marked(self, state: LaneState, config: RunnableConfig | None) -> RunnableConfig | None:
        callbacks = (config or {}).get("callbacks")
        handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks
        if not config or not handlers:
            return config
        is_traced = not all(isinstance(each, StreamingHandler) for each in handlers)
        own = self._node_context.metadata(state.get("position"), has_path=is_traced)
        return {**config, "metadata": {**config.get("metadata", {}), **own}}


def _unobserved(config: RunnableConfig) -> RunnableConfig | None:
    """Return a node's config for what runs in it, whose runs are not named as the node's.

    None if a handler may hear of the node's run: LangGraph adds none to a manager.
    """
    callbacks = config.get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager) or callbacks.handlers:
        return None
    own = config.copy()
    own.pop("run_name", None)
    own.pop("run_id", None)
    return own


def _write(update: Update, config: RunnableConfig) -> None:
    writes: list[tuple[str, object]] = [*update.items()]
    if node := update["position"]["next"]:
        writes.append((f"{TRIGGER}{node}", None))
    config["configurable"][SEND](writes)


def trace(graph: Graph, name: str, node_context: NodeContext) -> None:
    """Run a node of a graph in this way, if LangGraph runs nodes first and only then writes."""
    if _is_known():
        run = graph.nodes[name]
        run.node = TracedNode(run, node_context)  # in the place of LangGraph's cached property


@cache
def _is_known() -> bool:
    bound, writer = ChannelWrite(()), ChannelWrite(())
    made = PregelNode(channels=[], triggers=[], bound=bound, writers=[writer]).node
    return type(made) is RunnableSeq and [*map(id, made.steps)] == [id(bound), id(writer)]

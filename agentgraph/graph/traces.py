"""What traces say of a node's run: which agent it is, at which address, and how the run got there.

LangGraph starts a node's run before the node, with metadata that are the same each time. An address
depends on the position, which is in the node's input. So the class of LangGraph's runnable of a node is
changed to one that adds metadata first. Without callbacks it does nothing.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langgraph._internal._runnable import RunnableSeq
from langgraph.graph.state import CompiledStateGraph

from agentgraph.graph.nodes.context import NodeContext


class TracedNode(RunnableSeq):
    """LangGraph's runnable of a node, whose runs have the metadata of their activation."""

    node_context: NodeContext

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run the node."""
        return super().invoke(input, self._marked(input, config), **options)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run the node on the event loop."""
        return await super().ainvoke(input, self._marked(input, config), **options)

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """Run the node, and yield what it writes."""
        return super().stream(input, self._marked(input, config), **options)

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run the node on the event loop, and yield what it writes."""
        return super().astream(input, self._marked(input, config), **options)

    def _marked(self, state: Any, config: RunnableConfig | None) -> RunnableConfig | None:
        callbacks = (config or {}).get("callbacks")
        handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks
        if not config or not handlers:
            return config
        is_traced = not all(isinstance(each, _StreamingCallbackHandler) for each in handlers)
        own = self.node_context.metadata(state.get("position"), has_path=is_traced)
        return {**config, "metadata": {**config.get("metadata", {}), **own}}


def trace(graph: CompiledStateGraph[Any, Any, Any, Any], node: Any) -> None:
    """Add the metadata of activations to the runs of a graph's node."""
    runnable = cast(TracedNode, graph.nodes[node.name].node)
    runnable.__class__ = TracedNode
    runnable.node_context = node.node_context

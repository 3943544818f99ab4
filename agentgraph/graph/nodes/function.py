"""The node of a function agent: calls the function and handles what it returns or yields."""

from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import aclosing, closing
from functools import cached_property
from typing import Any, cast

from langchain_core.runnables.config import var_child_runnable_config

from agentgraph.agents.agents import FunctionAgent
from agentgraph.agents.functions import is_async
from agentgraph.agents.signals import Capabilities
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.caching import Caching
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.items import Items
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.stopping import run_coroutine, run_in_thread, stoppable
from agentgraph.graph.sync_async import arun_calls, run_calls


class FunctionNode(LeafNode):
    """Calls the function; what a generator yields is emitted as it is yielded."""

    def __init__(self, node_context: NodeContext, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.agent = cast(FunctionAgent, node_context.place.agent)
        super().__init__(
            node_context,
            retry=node_context.place.policy("retry"),
            timeout=node_context.place.policy("timeout"),
        )
        self.caching = Caching(node_context, self.agent.fn) if self.agent.cache_policy else None

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is called on the event loop."""
        return is_async(self.agent.fn)

    def run(self, activation: Activation) -> None:
        """Call the function; a coroutine runs in a separate event loop."""
        if self.caching is not None and run_calls(self.caching.replays(activation)):
            return
        call = FunctionCall(self, activation)
        left = call.start()
        if left is not None:
            run_coroutine(call.finish(left))
        call.end()

    async def arun(self, activation: Activation) -> None:
        """Call the function; a sync one in a thread."""
        if self.caching is not None and await arun_calls(self.caching.replays(activation)):
            return
        call = FunctionCall(self, activation)
        if acall := getattr(self.agent.fn, "acall", None):
            left = acall(activation.context(self.agent.history))
        else:
            left = call.start() if self.is_async else await run_in_thread(call.start)
        if left is not None:
            await call.finish(left)
        call.end()


class FunctionCall:
    """One call of the function of an agent."""

    def __init__(self, node: FunctionNode, activation: Activation) -> None:
        """Make a call; LangChain and LangGraph find its config in the function.

        Args:
            node: The node.
            activation: The activation.
        """
        self._node, self._activation = node, activation
        self._items = Items(activation, node.capabilities)
        config = activation.config
        metadata = {**config.get("metadata", {}), **activation.mark}  # it assigns chunks to the agent
        var_child_runnable_config.set(self._items.config({**config, "metadata": metadata}))

    def start(self) -> Awaitable[Any] | AsyncGenerator[Any] | None:
        """Call the function and take its items; if it is async, return what to await."""
        agent = self._node.agent
        given: Any = agent.fn(self._activation.context(agent.history))
        if isinstance(given, AsyncGenerator | Awaitable):
            return given
        if isinstance(given, Generator):
            with closing(given):
                self._follow(given)
        else:
            self._items.take(given)
        return None

    async def finish(self, left: Awaitable[Any] | AsyncGenerator[Any]) -> None:
        """Await the function, and take its items."""
        with stoppable():
            if not isinstance(left, AsyncGenerator):
                self._items.take(await left)
                return
            async with aclosing(left):
                async for item in left:
                    if self._items.take(item, live=True):
                        break

    def end(self) -> None:
        """Say what is left, void what was only streamed, and write the output."""
        self._items.end()
        if key := self._node.agent.output_key:
            text = self._activation.last_text()
            if text is not None:
                self._activation.set_values({key: text})

    def _follow(self, given: Generator[Any, None, Any]) -> None:
        """Take the items that a generator yields, and the one that it returns."""
        while True:
            try:
                item = next(given)
            except StopIteration as end:
                self._items.take(end.value, live=True)
                return
            if self._items.take(item, live=True):
                return

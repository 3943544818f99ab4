"""The node of a function agent: calls the function, and passes on what it returns or yields."""

from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import aclosing, closing
from functools import cached_property
from typing import cast

from langchain_core.runnables.config import var_child_runnable_config

from agentgraph.agents.agents import FunctionAgent
from agentgraph.agents.context import Context
from agentgraph.agents.functions import is_async, is_awaitable
from agentgraph.agents.signals import Capabilities
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.caching import Caching
from agentgraph.graph.nodes.callers import CALLER
from agentgraph.graph.nodes.calling import run_coroutine, run_in_thread
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.function_output import FunctionOutput
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.replies import LISTENING, RECEIVER, REPLY_COUNTER
from agentgraph.graph.nodes.stopping import stop_if_discarded, stoppable
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
        rest = call.start()
        if rest is not None:
            run_coroutine(call.finish(rest))
        call.end()

    async def arun(self, activation: Activation) -> None:
        """Call the function; a sync one in a thread."""
        if self.asks_history:
            await arun_calls(activation.view.ask_history())
        if self.caching is not None and await arun_calls(self.caching.replays(activation)):
            return
        call = FunctionCall(self, activation)
        if acall := getattr(self.agent.fn, "acall", None):
            rest = acall(activation.view.context(activation.view.history))
        else:
            rest = call.start() if self.is_async else await run_in_thread(call.start)
        if rest is not None:
            await call.finish(rest)
        call.end()


class FunctionCall:
    """One call of the function of an agent."""

    def __init__(
        self, node: FunctionNode, activation: Activation, context: Context | None = None
    ) -> None:
        """Make a call; LangChain and LangGraph find its config in the function.

        Args:
            node: The node.
            activation: The activation.
            context: The argument of the function, if it is made already.
        """
        self._node, self._activation, self._context = node, activation, context
        self._items = FunctionOutput(activation, node.capabilities)
        config = activation.config
        metadata = {**config.get("metadata", {}), **activation.mark}  # it assigns chunks to the agent
        var_child_runnable_config.set(self._items.config({**config, "metadata": metadata}))
        CALLER.set(activation.view.caller)
        RECEIVER.set(activation.output)
        LISTENING.set(REPLY_COUNTER if activation.output.replies is None else None)

    def start(self) -> Awaitable[object] | AsyncGenerator[object] | None:
        """Call the function and take its items; if it is async, return what to await."""
        view = self._activation.view
        output: object = self._node.agent.fn(self._context or view.context(view.history))
        if isinstance(output, AsyncGenerator):
            return output
        if isinstance(output, Awaitable) and is_awaitable(output):
            return output
        if isinstance(output, Generator):
            with closing(output):
                self._follow(output)
        else:
            self._items.take(output)
        return None

    async def finish(self, rest: Awaitable[object] | AsyncGenerator[object]) -> None:
        """Await the function, and take its items."""
        with stoppable():
            if not isinstance(rest, AsyncGenerator):
                self._items.take(await rest)
                return
            async with aclosing(rest):
                async for item in rest:
                    if self._items.take(item, live=True):
                        break

    def end(self) -> None:
        """Emit the rest, discard output that was only streamed, and write the output."""
        self._items.end()
        if key := self._node.agent.output_key:
            text = self._activation.output.last_text()
            if text is not None:
                self._activation.output.set_values({key: text})

    def _follow(self, generator: Generator[object, None, object]) -> None:
        while True:
            try:
                item = next(generator)
            except StopIteration as end:
                self._items.take(end.value, live=True)
                return
            if self._items.take(item, live=True):
                return
            stop_if_discarded()

"""The node of a chat agent: asks the model, and says its reply."""

from typing import cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    SystemMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import RunnableConfig

from agentgraph.agents import ChatAgent
from agentgraph.errors import InvalidOutputError
from agentgraph.nodes.activation import Activation, Site
from agentgraph.nodes.leaf import LeafNode
from agentgraph.templates import fill


class ModelNode(LeafNode):
    """Asks the model; its tokens stream with the agent's name and address in their metadata."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.agent = cast(ChatAgent, site.place.agent)

    def run(self, activation: Activation) -> None:
        """Ask the model once."""
        sent = self._sent(activation)
        self._take(activation, self.agent.model.invoke(sent, _marked(activation)))

    async def arun(self, activation: Activation) -> None:
        """Ask the model once, without blocking the event loop."""
        sent = self._sent(activation)
        self._take(activation, await self.agent.model.ainvoke(sent, _marked(activation)))

    def _sent(self, activation: Activation) -> list[BaseMessage]:
        history = activation.context(self.agent.history).messages
        instruction = fill(self.agent.instruction, activation.values, self.agent.name)
        return [SystemMessage(instruction), *history] if instruction else history

    def _take(self, activation: Activation, reply: object) -> None:
        if isinstance(reply, str):
            reply = AIMessage(reply)
        if isinstance(reply, AIMessageChunk):
            reply = message_chunk_to_message(reply)
        if not isinstance(reply, AIMessage):
            raise InvalidOutputError(
                f"{activation.address}: the model gave {type(reply).__name__}, not an AIMessage; "
                "pass a chat model, or a runnable that ends in one"
            )
        activation.say(reply)
        if self.agent.output_key:
            activation.set_values({self.agent.output_key: str(reply.text)})


def _marked(activation: Activation) -> RunnableConfig:
    config = activation.config
    mark = {"agent_name": activation.name, "agent_address": activation.address}
    return {**config, "metadata": {**config.get("metadata", {}), **mark}}

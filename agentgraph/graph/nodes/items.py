"""What functions return or yield: messages, chunks, signals, values; each is taken in order."""

from typing import Any

from langchain_core.messages import (
    BaseMessage,
    BaseMessageChunk,
)
from langchain_core.runnables import RunnableConfig

from agentgraph.agents.schemas import json_schema, schema_fault
from agentgraph.agents.signals import (
    Ask,
    BreakLoop,
    Capabilities,
    Custom,
    Exit,
    KeptValues,
    SetValues,
    TransferTo,
)
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.chunks import Chunks, streams_chunks
from agentgraph.graph.state import Question
from agentgraph.graph.values import Write
from agentgraph.safe_repr import shown


class Items:
    """Takes what the function of an agent gives."""

    def __init__(self, activation: Activation, capabilities: Capabilities) -> None:
        """Begin without items.

        Args:
            activation: The activation of the agent.
            capabilities: What the agent may do.
        """
        self._activation, self._capabilities = activation, capabilities
        self._chunks = Chunks(activation) if streams_chunks(activation.config) else None

    def config(self, config: RunnableConfig) -> RunnableConfig:
        """Return a config for the function, whose models are listened to if chunks are streamed."""
        return config if self._chunks is None else self._chunks.config(config)

    def end(self) -> None:
        """Say the last chunks, and void those that belong to no message."""
        if self._chunks is not None:
            self._end_chunks(self._chunks, live=False)
            self._chunks.void()

    def take(self, given: Any, *, live: bool = False) -> bool:
        """Take an item, or items up to one that ends the activation; return whether there was one."""
        if isinstance(given, list | tuple):
            return any(self._take_one(item, live=live) for item in given)
        return self._take_one(given, live=live)

    def _take_one(self, item: Any, *, live: bool) -> bool:
        """Take an item; return whether it ends the activation."""
        activation = self._activation
        if isinstance(item, BaseMessageChunk):
            self._take_chunk(item, live=live)
            return False
        if (chunks := self._chunks) is not None:
            self._end_chunks(chunks, live=live)
        match item:
            case None:
                return False
            case str():
                streamed_id = None if chunks is None else chunks.id_of(item)
                activation.say(item, streamed_id, live=live)
            case BaseMessage():
                activation.take(item, "function", live=live)
            case Custom(data=data):
                activation.emit_note("custom", activation.plain("custom data", data))
            case KeptValues(values=values, kept=kept):
                activation.write([Write(by="", values=dict(values))])
                activation.keep(kept)
            case SetValues(values=values):
                activation.set_values(values)
            case Exit() | BreakLoop() | TransferTo() | Ask():
                self._end_with(item)
                return True
            case _:
                raise InvalidOutputError(
                    f"{activation.address}: the function gave {shown(item)}; return or yield a string, "
                    "a LangChain message, Exit(), BreakLoop(), TransferTo(...), Ask(...), "
                    "Custom(...), SetValues(...) or None, or a list of these"
                )
        return False

    def _take_chunk(self, chunk: BaseMessageChunk, *, live: bool) -> None:
        """Add a chunk to its message; one with another id begins a new message."""
        if (chunks := self._chunks) is None:
            chunks = self._chunks = Chunks(self._activation)
        if not chunks.continues(chunk):
            self._end_chunks(chunks, live=live)
        chunks.add(chunk)

    def _end_chunks(self, chunks: Chunks, *, live: bool) -> None:
        """Say the message that the last chunks make."""
        if (whole := chunks.end()) is not None:
            self._activation.take(whole, "function", live=live)

    def _end_with(self, item: Exit | BreakLoop | TransferTo | Ask) -> None:
        """End the activation as the function wants."""
        activation, may = self._activation, self._capabilities
        match item:
            case Exit():
                self._permit(item, may.exit)
                activation.signal("exit")
            case BreakLoop():
                self._permit(item, may.break_loop)
                activation.signal("break_loop")
            case TransferTo(agent_name=target):
                self._permit(item, may.transfer)
                activation.transfer(known_target(activation, target))
            case Ask():
                self._permit(item, may.ask)
                question = _question(activation, item)
                activation.continue_at(activation.node_context.place.nodes.question, ask=question)

    def _permit(self, item: Any, permitted: bool) -> None:
        if not permitted:
            kind = type(item).__name__
            raise InvalidOutputError(
                f"{self._activation.address}: the function gave {kind}, which its return annotation "
                f"does not name; add it, as in `-> str | {kind}`, so that the graph has an edge for it"
            )


def take_output(activation: Activation, given: Any) -> None:
    """Take what the `output` of a graph agent returned.

    Raises:
        InvalidOutputError: It is not something that an agent says or sets.
    """
    items = Items(activation, Capabilities())
    for item in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(item, str | BaseMessage | Custom | SetValues | None):
            raise InvalidOutputError(
                f"{activation.address}: output= returned {shown(item)}; return a text, a message, "
                "SetValues(...), Custom(...), None, or a list of these"
            )
        items.take(item)
    items.end()


def known_target(activation: Activation, target: str) -> str:
    """Return the name of an agent that the activation may transfer to."""
    there = activation.node_context.targets
    if target not in there:
        names = ", ".join(map(repr, there)) or "none: only agents in a chat agent's sub_agents can"
        raise InvalidOutputError(
            f"{activation.address}: cannot transfer to {shown(target)} from here; possible: {names}"
        )
    return target


def _question(activation: Activation, ask: Ask) -> Question:
    if fault := schema_fault(ask.response_schema):
        raise InvalidOutputError(f"{activation.address}: {fault}")
    value = activation.plain("the question", ask.value)
    question = Question(value=value, response_schema=json_schema(ask.response_schema))
    activation.check("the question", question)
    return question

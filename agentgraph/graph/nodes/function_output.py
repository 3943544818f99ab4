"""The output of functions: messages, chunks, signals and values, each taken in order."""

from typing import Any

from langchain_core.messages import BaseMessage, BaseMessageChunk
from langchain_core.runnables import RunnableConfig

from agentgraph.agents.agents import is_agent
from agentgraph.agents.deadlines import deadline_faults
from agentgraph.agents.habits.values import instead_of, is_short_message
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
from agentgraph.graph.deadlines import deadline_of
from agentgraph.graph.lane_position import Question, details_of, question_data
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.function_chunks import Chunks
from agentgraph.graph.nodes.replies import Replies, stream_handlers
from agentgraph.graph.values import Write
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import places_to


class FunctionOutput:
    """Takes the output of the function of an agent."""

    def __init__(self, activation: Activation, capabilities: Capabilities) -> None:
        """Begin without items.

        Args:
            activation: The activation of the agent.
            capabilities: The actions that the agent may take.
        """
        self._activation, self._capabilities = activation, capabilities
        self._chunks: Chunks | None = None
        if stream_handlers(activation.config):
            activation.output.replies = Replies(activation.output)
            self._chunks = Chunks(activation)

    def config(self, config: RunnableConfig) -> RunnableConfig:
        """Return a config for the function that receives its models' streamed chunks."""
        replies = self._activation.output.replies
        return config if replies is None else replies.config(config)

    def end(self) -> None:
        """Say the last chunks."""
        if self._chunks is not None:
            self._end_chunks(self._chunks, live=False)

    def take(self, output: object, *, live: bool = False) -> bool:
        """Take an item, or items up to one that ends the activation; return whether there was one."""
        if isinstance(output, list | tuple) and not (
            type(output) is tuple and is_short_message(output)
        ):
            return any(self._take_one(item, live=live) for item in output)
        return self._take_one(output, live=live)

    def _take_one(self, item: object, *, live: bool) -> bool:
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
                activation.output.emit_text(item, streamed_id, live=live)
            case BaseMessage():
                activation.output.take(item, "function", live=live)
            case Custom(data=data):
                activation.output.emit_note("custom", activation.output.plain("custom data", data))
            case KeptValues(values=values, kept=record):
                activation.output.write([Write(by="", values=dict(values))])
                activation.output.keep(record)
            case SetValues(values=values):
                activation.output.emit_values(values, live=live)
            case Exit() | BreakLoop() | TransferTo() | Ask():
                self._end_with(item)
                return True
            case _:
                instead = instead_of(item) or (
                    "return or yield a string, a LangChain message, Exit(), BreakLoop(), "
                    "TransferTo(...), Ask(...), Custom(...), SetValues(...) or None, or a list of these"
                )
                raise InvalidOutputError(
                    f"{activation.address}: the function returned {shown(item)}; {instead}"
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
        if (whole := chunks.end()) is not None:
            self._activation.output.take(whole, "function", live=live)

    def _end_with(self, item: Exit | BreakLoop | TransferTo | Ask) -> None:
        activation, may = self._activation, self._capabilities
        match item:
            case Exit():
                self._permit(item, may.exit)
                activation.signal("exit", details_of(item, activation.address))
            case BreakLoop():
                self._permit(item, may.break_loop)
                check_loop(activation)
                activation.signal("break_loop", details_of(item, activation.address))
            case TransferTo(agent_name=target):
                self._permit(item, may.transfer)
                activation.transfer(known_target(activation, target))
            case Ask():
                self._permit(item, may.ask)
                question = _question(activation, item)
                question_node = activation.node_context.place.nodes.question
                activation.continue_at(question_node, ask=question, asked=activation.view.asked + 1)

    def _permit(self, item: object, permitted: bool) -> None:
        if not permitted:
            kind = type(item).__name__
            raise InvalidOutputError(
                f"{self._activation.address}: the function returned {kind}, which its return "
                f"annotation does not name; add it, as in `-> str | {kind}`, "
                "so that the graph has an edge for it"
            )


def take_output(activation: Activation, output: object) -> None:
    """Take what the `output` of a graph agent returned.

    Raises:
        InvalidOutputError: It is not something that an agent says or sets.
    """
    items = FunctionOutput(activation, Capabilities())
    for item in output if isinstance(output, list | tuple) else [output]:
        if not isinstance(item, str | BaseMessage | Custom | SetValues | None):
            raise InvalidOutputError(
                f"{activation.address}: output= returned {shown(item)}; return a text, a message, "
                "SetValues(...), Custom(...), None, or a list of these"
            )
        items.take(item)
    items.end()


def check_loop(activation: Activation) -> None:
    """Reject a `BreakLoop` outside every loop; an agent that runs alone, as its own lane, ends.

    In an agent that a tool or a function runs, the loops around the caller count: it ends none of them.

    Raises:
        InvalidOutputError: No loop is around the activation.
    """
    place = activation.node_context.place
    is_alone = place.parent is None or place.is_tool or place.is_run
    if not is_alone and not any(each.kind.loops for each in places_to(place)):
        raise InvalidOutputError(
            f"{activation.address}: the function returned BreakLoop(), but no loop is around it; "
            "put it in a loop, or return Exit() to end the run"
        )


def known_target(activation: Activation, target: Any) -> str:
    """Return the name of an agent that the activation may transfer to."""
    there = activation.node_context.targets
    if not isinstance(target, str) or target not in there:
        if is_agent(target):
            raise InvalidOutputError(
                f"{activation.address}: TransferTo takes a name, and got an agent; write "
                f"ag.TransferTo({target.name!r})"
            )
        names = ", ".join(map(repr, there)) or "none: only agents in a chat agent's sub_agents can"
        raise InvalidOutputError(
            f"{activation.address}: cannot transfer to {shown(target)} from here; possible: {names}"
        )
    return str(target)


def _question(activation: Activation, ask: Ask) -> Question:
    if fault := schema_fault(ask.response_schema):
        raise InvalidOutputError(f"{activation.address}: {fault}")
    for fault in deadline_faults(ask.timeout, ask.default, ask.response_schema):
        raise InvalidOutputError(f"{activation.address}: Ask(...): {fault}")
    value = activation.output.plain("the question", ask.value)
    deadline = deadline_of(ask.timeout, ask.default)
    question = question_data(value, json_schema(ask.response_schema), deadline)
    saved: Question = activation.output.saved("the question", question)
    return saved

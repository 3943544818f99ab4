"""The node of a function agent: calls the function and handles what it returns or yields.

The chunks that a function yields, or that models stream which it calls.

LangGraph streams the chunks of models by a callback handler. Chunks that a function yields itself are
passed to the same handler, unless their model has streamed them already. In version v3 of its streams
LangGraph streams what `model.invoke` gives as events of content blocks, and what `model.stream` gives
only at its end, as one chunk: so chunks that a function yields before are passed on there.

What functions return or yield: messages, chunks, signals, values; each is taken in order.
"""

from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import aclosing, closing
from functools import cached_property
from typing import cast
from uuid import uuid4

from langchain_core.messages import (
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    message_chunk_to_message,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph.message import push_message

from agentgraph.agents.agents import FunctionAgent
from agentgraph.agents.context import Context
from agentgraph.agents.functions import is_async
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
from agentgraph.graph.internals import StreamMessagesHandlerV2
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.caching import Caching
from agentgraph.graph.nodes.callers import CALLER
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.replies import (
    HEARER,
    LISTENER,
    LISTENING,
    Replies,
    stream_handlers,
)
from agentgraph.graph.nodes.stopping import (
    run_coroutine,
    run_in_thread,
    stop_if_unwanted,
    stoppable,
)
from agentgraph.graph.stamps import renamed
from agentgraph.graph.state import Question
from agentgraph.graph.sync_async import arun_calls, run_calls
from agentgraph.graph.values import Write
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import way_to


class Chunks:
    """Joins the chunks that a function yields to messages, and streams them.

    A message ends where something else is yielded, where a chunk says that it is the last, and where
    one comes with another id. All chunks of one call of a model have one id: see `Replies`.
    """

    def __init__(self, activation: Activation) -> None:
        self._activation, self._replies = activation, activation.output.replies
        self._handlers = stream_handlers(activation.config)
        self._is_v3 = all(isinstance(each, StreamMessagesHandlerV2) for each in self._handlers)
        self._joined: BaseMessageChunk | None = None
        self._ids: set[str] = set()
        self._ended: dict[str | None, BaseMessageChunk] = {}
        self._renamed: dict[str, str] = {}

    def id_of(self, text: str) -> str | None:
        """Return the id of the streamed message with a text, for what a function says; None if none."""
        streamed = self._replies.texts.items() if self._replies else ()
        return next((key for key, each in streamed if each == text), None)

    def continues(self, chunk: BaseMessageChunk) -> bool:
        """Return whether a chunk belongs to the message that is being joined, or begins one."""
        joined = self._joined
        return joined is None or (not _is_last(joined) and chunk.id in (None, *self._ids))

    def add(self, chunk: BaseMessageChunk) -> None:
        """Add a chunk to its message, and stream it; not if it changes a message of the history."""
        self._ids.update([chunk.id] if chunk.id else [])
        if self._joined is not None:
            chunk = chunk.model_copy(update={"id": self._joined.id})
        else:
            chunk = self._first(chunk)
        self._joined = chunk if self._joined is None else self._joined + chunk
        if self._replies is not None and self._is_ours:
            self._replies.add(str(chunk.id), str(chunk.text))
        if self._handlers and self._is_passed_on:
            push_message(chunk, state_key=None)

    def _first(self, chunk: BaseMessageChunk) -> BaseMessageChunk:
        """Return the first chunk of a message, or one that goes on with a message that has ended."""
        output, replies, key = self._activation.output, self._replies, chunk.id or str(uuid4())
        key = self._renamed.get(key, key)
        self._joined = self._ended.get(key)
        is_streamed = replies is not None and key in replies.texts
        is_known = output.own_message(key) is not None
        if replies is not None and not (is_streamed or is_known) and output.is_taken(key):
            self._renamed[key] = replies.new_id()
            key = self._renamed[key]
            chunk = renamed(chunk, key)
        self._is_ours = not is_streamed and not is_known
        is_over = any(key in each.seen for each in self._handlers)
        self._is_passed_on = self._is_ours or (self._is_v3 and not is_over)
        return chunk if chunk.id == key else chunk.model_copy(update={"id": key})

    def end(self) -> BaseMessage | None:
        """Return the message that the chunks make, if there are any; a later chunk may add to it."""
        if self._joined is None:
            return None
        ended, self._joined, self._ids = self._joined, None, set()
        if not _is_last(ended):
            self._ended[ended.id] = ended
        return message_chunk_to_message(ended)


def _is_last(chunk: BaseMessageChunk) -> bool:
    """Return whether a model has said that no chunk follows."""
    return isinstance(chunk, AIMessageChunk) and chunk.chunk_position == "last"


class Items:
    """Takes what the function of an agent gives."""

    def __init__(self, activation: Activation, capabilities: Capabilities) -> None:
        """Begin without items.

        Args:
            activation: The activation of the agent.
            capabilities: What the agent may do.
        """
        self._activation, self._capabilities = activation, capabilities
        self._chunks: Chunks | None = None
        if stream_handlers(activation.config):
            activation.output.replies = Replies(activation.output)
            self._chunks = Chunks(activation)

    def config(self, config: RunnableConfig) -> RunnableConfig:
        """Return a config for the function, whose models are heard if chunks are streamed."""
        replies = self._activation.output.replies
        return config if replies is None else replies.config(config)

    def end(self) -> None:
        """Say the last chunks."""
        if self._chunks is not None:
            self._end_chunks(self._chunks, live=False)

    def take(self, output: object, *, live: bool = False) -> bool:
        """Take an item, or items up to one that ends the activation; return whether there was one."""
        if isinstance(output, list | tuple):
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
                activation.output.say(item, streamed_id, live=live)
            case BaseMessage():
                activation.output.take(item, "function", live=live)
            case Custom(data=data):
                activation.output.emit_note("custom", activation.output.plain("custom data", data))
            case KeptValues(values=values, kept=record):
                activation.output.write([Write(by="", values=dict(values))])
                activation.output.keep(record)
            case SetValues(values=values):
                activation.output.give_values(values, live=live)
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
            self._activation.output.take(whole, "function", live=live)

    def _end_with(self, item: Exit | BreakLoop | TransferTo | Ask) -> None:
        """End the activation as the function wants."""
        activation, may = self._activation, self._capabilities
        match item:
            case Exit():
                self._permit(item, may.exit)
                activation.signal("exit")
            case BreakLoop():
                self._permit(item, may.break_loop)
                check_loop(activation)
                activation.signal("break_loop")
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
                f"{self._activation.address}: the function gave {kind}, which its return annotation "
                f"does not name; add it, as in `-> str | {kind}`, so that the graph has an edge for it"
            )


def take_output(activation: Activation, output: object) -> None:
    """Take what the `output` of a graph agent returned.

    Raises:
        InvalidOutputError: It is not something that an agent says or sets.
    """
    items = Items(activation, Capabilities())
    for item in output if isinstance(output, list | tuple) else [output]:
        if not isinstance(item, str | BaseMessage | Custom | SetValues | None):
            raise InvalidOutputError(
                f"{activation.address}: output= returned {shown(item)}; return a text, a message, "
                "SetValues(...), Custom(...), None, or a list of these"
            )
        items.take(item)
    items.end()


def check_loop(activation: Activation) -> None:
    """Refuse a `BreakLoop` outside every loop; an agent that runs alone, as a lane of its own, ends.

    In an agent that a tool or a function runs, the loops around the caller count: it ends none of them.

    Raises:
        InvalidOutputError: No loop is around the activation.
    """
    place = activation.node_context.place
    is_alone = place.parent is None or place.is_tool or place.is_run
    if not is_alone and not any(each.kind.goes_round for each in way_to(place)):
        raise InvalidOutputError(
            f"{activation.address}: the function gave BreakLoop(), but no loop is around it; put it in "
            "a loop, or return Exit() to end the run"
        )


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
    value = activation.output.plain("the question", ask.value)
    question = Question(value=value, response_schema=json_schema(ask.response_schema))
    saved: Question = activation.output.saved("the question", question)
    return saved


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
        self._items = Items(activation, node.capabilities)
        config = activation.config
        metadata = {**config.get("metadata", {}), **activation.mark}  # it assigns chunks to the agent
        var_child_runnable_config.set(self._items.config({**config, "metadata": metadata}))
        CALLER.set(activation.view.caller)
        HEARER.set(activation.output)
        LISTENING.set(LISTENER if activation.output.replies is None else None)

    def start(self) -> Awaitable[object] | AsyncGenerator[object] | None:
        """Call the function and take its items; if it is async, return what to await."""
        view = self._activation.view
        output: object = self._node.agent.fn(self._context or view.context(view.history))
        if isinstance(output, AsyncGenerator | Awaitable):
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
        """Say what is left, void what was only streamed, and write the output."""
        self._items.end()
        if key := self._node.agent.output_key:
            text = self._activation.output.last_text()
            if text is not None:
                self._activation.output.set_values({key: text})

    def _follow(self, generator: Generator[object, None, object]) -> None:
        """Take the items that a generator yields, and the one that it returns."""
        while True:
            try:
                item = next(generator)
            except StopIteration as end:
                self._items.take(end.value, live=True)
                return
            if self._items.take(item, live=True):
                return
            stop_if_unwanted()

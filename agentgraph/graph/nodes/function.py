"""The node of a function agent: calls the function and handles what it returns or yields."""

from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import aclosing, closing
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    RemoveMessage,
)
from langchain_core.runnables.config import var_child_runnable_config

from agentgraph.agents.agents import FunctionAgent
from agentgraph.agents.functions import allowed, is_async
from agentgraph.agents.schemas import json_schema, schema_fault
from agentgraph.agents.signals import (
    Ask,
    BreakLoop,
    Custom,
    Exit,
    KeptValues,
    SetValues,
    Signal,
    TransferTo,
)
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.history import is_word
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.chunks import Chunks
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.stopping import run_coroutine, run_in_thread, stoppable
from agentgraph.graph.state import Question, address_of, is_remove_all, speaker_of, stamped
from agentgraph.graph.values import Write, is_same
from agentgraph.safe_repr import shown


class FunctionNode(LeafNode):
    """Calls the function; what a generator yields is emitted as it is yielded."""

    def __init__(self, node_context: NodeContext) -> None:
        self.agent = cast(FunctionAgent, node_context.place.agent)
        super().__init__(
            node_context,
            retry=node_context.place.policy("retry"),
            timeout=node_context.place.policy("timeout"),
        )
        self.capabilities = allowed(self.agent.fn)
        self.is_async = is_async(self.agent.fn)

    def run(self, activation: Activation) -> None:
        """Call the function; a coroutine runs in a separate event loop."""
        call = FunctionCall(self, activation)
        left = call.start()
        if left is not None:
            run_coroutine(call.finish(left))
        call.end()

    async def arun(self, activation: Activation) -> None:
        """Call the function; a sync one in a thread."""
        call = FunctionCall(self, activation)
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
        self._node, self._activation, self._chunks = node, activation, Chunks(activation)
        config = activation.config
        metadata = {**config.get("metadata", {}), **activation.mark}  # it assigns chunks to the agent
        var_child_runnable_config.set(self._chunks.config({**config, "metadata": metadata}))

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
            self._take(given)
        return None

    async def finish(self, left: Awaitable[Any] | AsyncGenerator[Any]) -> None:
        """Await the function, and take its items."""
        with stoppable():
            if not isinstance(left, AsyncGenerator):
                self._take(await left)
                return
            async with aclosing(left):
                async for item in left:
                    if self._take(item, live=True):
                        break

    def end(self) -> None:
        """Say what is left, void what was only streamed, and write the output."""
        self._chunks.end(live=False)
        self._chunks.void()
        text = self._activation.last_text()
        if self._node.agent.output_key and text is not None:
            self._activation.set_values({self._node.agent.output_key: text})

    def _follow(self, given: Generator[Any, None, Any]) -> None:
        """Take the items that a generator yields, and the one that it returns."""
        while True:
            try:
                item = next(given)
            except StopIteration as end:
                self._take(end.value, live=True)
                return
            if self._take(item, live=True):
                return

    def _take(self, given: Any, *, live: bool = False) -> bool:
        """Take an item, or items up to one that ends the activation; return whether there was one."""
        items = given if isinstance(given, list | tuple) else (given,)
        return any(self._take_one(item, live=live) for item in items)

    def _take_one(self, item: Any, *, live: bool) -> bool:
        """Take an item; return whether it ends the activation."""
        activation = self._activation
        if isinstance(item, BaseMessageChunk):
            self._chunks.add(item, live=live)
            return False
        self._chunks.end(live=live)
        match item:
            case None:
                return False
            case str():
                activation.emit_message(AIMessage(item), live=live)
            case BaseMessage():
                _say(activation, item, live=live)
            case Custom(data=data):
                activation.emit_note("custom", activation.plain("custom data", data))
            case KeptValues(values=values):
                activation.write([Write(by="", values=dict(values))])
            case SetValues(values=values):
                activation.set_values(values)
            case Exit():
                return self._signal("exit", item, self._node.capabilities.exit)
            case BreakLoop():
                return self._signal("break_loop", item, self._node.capabilities.break_loop)
            case TransferTo(agent_name=target):
                self._permit(item, self._node.capabilities.transfer)
                activation.transfer(known_target(activation, target))
                return True
            case Ask():
                self._permit(item, self._node.capabilities.ask)
                question = _question(activation, item)
                activation.continue_at(self._node.node_context.place.question_node, ask=question)
                return True
            case _:
                raise InvalidOutputError(
                    f"{activation.address}: the function gave {shown(item)}; return or yield a string, "
                    "a LangChain message or chunk, Exit(), BreakLoop(), TransferTo(...), Ask(...), "
                    "Custom(...), SetValues(...) or None, or a list of these"
                )
        return False

    def _signal(self, signal: Signal, item: Any, permitted: bool) -> bool:
        self._permit(item, permitted)
        self._activation.signal(signal)
        return True

    def _permit(self, item: Any, permitted: bool) -> None:
        if not permitted:
            kind = type(item).__name__
            raise InvalidOutputError(
                f"{self._activation.address}: the function gave {kind}, which its return annotation "
                f"does not name; add it, as in `-> str | {kind}`, so that the graph has an edge for it"
            )


def _say(activation: Activation, message: BaseMessage, *, live: bool) -> None:
    """Emit a message, or replace the one in the history that has its id.

    A human message under the id of another agent's message does not replace it: functions see other
    agents' messages as human messages.
    """
    if isinstance(message, RemoveMessage):
        _remove(activation, message)
        return
    was = activation.current_message(message.id) if message.id else None
    if was is None:
        activation.emit_message(message, live=live)
        return
    at, is_human = address_of(was), isinstance(message, HumanMessage)
    if is_same(message, was) or (at is not None and is_same(stamped(message, at), stamped(was, at))):
        return
    if at is None and is_human and was.type == "human":
        if any(each.id == was.id for each in activation.written_here):
            activation.replace_user_message(message)
    elif at is None:
        activation.emit_message(message, live=live)
    elif not is_human or speaker_of(was) == activation.name:
        activation.replace_message(message, was)


def _remove(activation: Activation, removal: RemoveMessage) -> None:
    """Remove a message from the history. A word becomes void; a call or its result stays.

    A removal of all messages is ignored: it is for an agent's context, and a function has none.
    """
    was = None if is_remove_all(removal) else activation.current_message(removal.id)
    if was is None:
        return
    if address_of(was) is None:
        activation.emit_message(removal)
    elif is_word(was):
        activation.remove_message(str(was.id))


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

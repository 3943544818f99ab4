"""The node of a chat agent: asks the model, and says its reply."""

from collections.abc import Callable, Generator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple, cast
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig

from agentgraph.addresses import address
from agentgraph.agents import Agent, ChatAgent
from agentgraph.budgets import Record, Summarized, record_of, since, split, summary_request
from agentgraph.chat.calls import with_ids, without_calls
from agentgraph.chat.output import keep_reply, schema_text, unfit
from agentgraph.context import Context
from agentgraph.errors import InvalidOutputError, MaxIterationsError
from agentgraph.history import calls_of
from agentgraph.nodes.activation import Activation
from agentgraph.nodes.leaf import LeafNode
from agentgraph.nodes.site import Site
from agentgraph.nodes.stopping import stoppable
from agentgraph.places import has_tools
from agentgraph.position import earlier
from agentgraph.shown import shown
from agentgraph.signals import takes_two
from agentgraph.state import address_of
from agentgraph.templates import fill
from agentgraph.tools import provider_tools, run_tools, transfers_text

_CORRECTIONS = 2
"""How often a reply that does not fit goes back to the model."""


class _Asked(NamedTuple):
    """One call of a model."""

    model: Any
    messages: list[BaseMessage]
    config: RunnableConfig


Talk = Generator[_Asked, Any, None]
"""Yields calls of models, and is sent the replies: sync and async share all but the call."""


class ModelNode(LeafNode):
    """Asks the model; its tokens stream with the agent's name and address in their metadata."""

    def __init__(self, site: Site) -> None:
        self.agent = cast(ChatAgent, site.place.agent)
        super().__init__(site, retry=site.place.policy("retry"), timeout=site.place.policy("timeout"))
        self.runs_tools = has_tools(site.place)
        self.model = _with_tools(self.agent, site.target_agents)
        added = (transfers_text(site.target_agents), schema_text(self.agent))
        self.added = [text for text in added if text]
        self.hook = _hook(self.agent.model_input)

    def run(self, activation: Activation) -> None:
        """Ask the model once, and again where its reply does not fit."""
        talk, reply = self._talk(activation), None
        while (asked := _next(talk, reply)) is not None:
            reply = asked.model.invoke(asked.messages, asked.config)

    async def arun(self, activation: Activation) -> None:
        """Ask the model as `run` does, without blocking the event loop."""
        talk, reply = self._talk(activation), None
        while (asked := _next(talk, reply)) is not None:
            with stoppable(is_thread=_is_sync(asked.model)):
                reply = await asked.model.ainvoke(asked.messages, asked.config)

    def _talk(self, activation: Activation) -> Talk:
        asked = activation.progress.get("model_calls", 0)
        is_last = self._is_last(activation, asked)
        model = self.agent.model if is_last else self.model
        context = activation.context(self.agent.history)
        sent = yield from self._sent(activation, context)
        for _ in range(1 + _CORRECTIONS):
            hooked = self.hook(activation, context, sent)
            reply = _message(activation, (yield _Asked(model, hooked, _marked(activation))))
            reply = _with_new_id(reply, activation.seen.messages)
            asked += 1
            if is_last:
                reply = without_calls(reply)
            calls = self.runs_tools and bool(calls_of(reply))
            fault = None if calls else unfit(self.agent, reply)
            if fault is None:
                self._take(activation, reply, asked, calls)
                return
            sent = [*sent, reply, HumanMessage(f"{fault} Reply again, with the JSON alone.")]
        raise InvalidOutputError(
            f"{activation.address}: none of {1 + _CORRECTIONS} replies fits the output_schema. {fault} "
            "Use a model that keeps to schemas, or a simpler schema"
        )

    def _is_last(self, activation: Activation, asked: int) -> bool:
        """Tell whether the model is asked for its answer without tools; it may not be at all."""
        bound = self.agent.max_iterations
        asked += self._asked_before(activation)
        if bound is None or asked < bound:
            return False
        if self.agent.on_max_iterations == "answer":
            return True
        raise MaxIterationsError(
            f"{activation.address}: the model was asked {asked} time{'s' * (asked > 1)} and still "
            "calls tools; raise max_iterations, then resume, or use on_max_iterations='answer' for an "
            "answer without tools"
        )

    def _asked_before(self, activation: Activation) -> int:
        """Return how often the model was asked before sub-agents handed back: each time it spoke."""
        before = {
            address(self.site.place, cursor) for cursor in earlier(self.site.place, activation.cursor)
        }
        if not before:
            return 0
        this_turn = takewhile(address_of, reversed(activation.seen.messages))
        return sum(message.type == "ai" and address_of(message) in before for message in this_turn)

    def _sent(
        self, activation: Activation, context: Context
    ) -> Generator[_Asked, Any, list[BaseMessage]]:
        """Return what the model is sent: the instruction, and the history within its budget."""
        policy, history = self.agent.history, context.messages
        if isinstance(policy, Summarized):
            history = yield from _summed_up(activation, policy, history)
        instruction = fill(self.agent.instruction, activation.values, self.agent.name)
        system = "\n\n".join(text for text in (instruction, *self.added) if text)
        return [SystemMessage(system), *history] if system else history

    def _take(self, activation: Activation, reply: AIMessage, asked: int, calls: bool) -> None:
        if not calls:
            activation.say(reply)
            keep_reply(activation, self.agent, str(reply.text))
            return
        reply = with_ids(reply)
        activation.say(reply)
        ids = [call["id"] for call in reply.tool_calls if self._needs_approval(call)]
        place = self.site.place
        node = place.approve_node if ids else place.tools_node
        activation.stay(node, chat={**activation.progress, "model_calls": asked, "approve": ids})

    def _needs_approval(self, call: Any) -> bool:
        approve = self.agent.approve
        return bool(approve(call)) if callable(approve) else call["name"] in approve


def _with_tools(agent: ChatAgent, targets: Sequence[Agent]) -> Runnable[Any, Any]:
    offered = [*run_tools(agent, targets), *provider_tools(agent)]
    return cast(Any, agent.model).bind_tools(offered) if offered else agent.model


def _is_sync(model: Any) -> bool:
    """Return whether LangChain runs a model in a thread, which is waited for where the run stops."""
    while isinstance(model, RunnableBinding):
        model = model.bound
    kind = type(model)
    return isinstance(model, BaseChatModel) and (
        kind._agenerate is BaseChatModel._agenerate and kind._astream is BaseChatModel._astream
    )


def _next(talk: Talk, reply: Any) -> _Asked | None:
    try:
        return talk.send(reply)
    except StopIteration:
        return None


def _summed_up(
    activation: Activation, policy: Summarized, history: list[BaseMessage]
) -> Generator[_Asked, Any, list[BaseMessage]]:
    """Return the history behind the last summary, summed up again where it is too long.

    The record is a value of the run, under a key that no template can name.
    """
    key = f"{activation.name}.summary"
    record: Record | None = activation.values.get(key)
    seen = since(history, record)
    if policy.token_counter(seen) <= policy.max_tokens:
        return seen
    older, newest = split(seen, policy)
    if not any(message.id for message in older):
        return seen
    reply = yield _Asked(policy.model, summary_request(older, policy), activation.config)
    record = record_of(older, str(_message(activation, reply).text))
    activation.keep({key: record})
    return [*since(older, record), *newest]


def _hook(
    fn: Callable[..., list[BaseMessage]] | None,
) -> Callable[[Activation, Context, list[BaseMessage]], list[BaseMessage]]:
    """Return what has the last word on the messages: a function of these, or of a context too."""
    if fn is None:
        return lambda activation, context, messages: messages
    takes_context = takes_two(fn)

    def hook(
        activation: Activation, context: Context, messages: list[BaseMessage]
    ) -> list[BaseMessage]:
        given = fn(context, messages) if takes_context else fn(messages)
        if not isinstance(given, list) or not all(isinstance(each, BaseMessage) for each in given):
            raise InvalidOutputError(
                f"{activation.address}: model_input gave {shown(given)}; return the list of messages "
                "that the model is to be sent"
            )
        return given

    return hook


def _message(activation: Activation, reply: object) -> AIMessage:
    if isinstance(reply, str):
        reply = AIMessage(reply)
    if isinstance(reply, AIMessageChunk):
        reply = message_chunk_to_message(reply)
    if not isinstance(reply, AIMessage):
        raise InvalidOutputError(
            f"{activation.address}: the model gave {type(reply).__name__}, not an AIMessage; "
            "pass a chat model, or a runnable that ends in one"
        )
    return reply


def _with_new_id(reply: AIMessage, messages: Sequence[BaseMessage]) -> AIMessage:
    """Return a reply that replaces no earlier message: some models repeat their ids."""
    if reply.id and reply.id in [message.id for message in messages]:
        return reply.model_copy(update={"id": str(uuid4())})
    return reply


def _marked(activation: Activation) -> RunnableConfig:
    config = activation.config
    return {**config, "metadata": {**config.get("metadata", {}), **activation.mark}}

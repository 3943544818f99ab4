"""The node of a chat agent: asks the model, with the middleware around that, and says its reply."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    ToolMessage,
)

from agentgraph.addresses import address
from agentgraph.budgets import Record, Summarized, record_of, since, split, summary_request
from agentgraph.chat.agent import BuiltAgent
from agentgraph.chat.asking import Asking, asked_in, message_of, model_hook
from agentgraph.chat.calls import with_ids, with_saved_calls, without_calls
from agentgraph.chat.output import keep_reply
from agentgraph.chat.step import Step
from agentgraph.chat.talking import Call, Talk, arun_talk, run_talk
from agentgraph.errors import InvalidOutputError, MaxIterationsError
from agentgraph.history import call_id, calls_of
from agentgraph.nodes.activation import Activation
from agentgraph.nodes.leaf import LeafNode
from agentgraph.position import earlier
from agentgraph.saving import serializer_of
from agentgraph.shown import shown
from agentgraph.state import Leaving, address_of


class ModelNode(LeafNode):
    """Asks the model; its tokens stream with the agent's name and address in their metadata."""

    def __init__(self, built: BuiltAgent) -> None:
        site = built.site
        super().__init__(site, retry=site.place.policy("retry"), timeout=site.place.policy("timeout"))
        self.built, self.agent = built, built.agent
        self.hook = model_hook(self.agent.model_input)
        self.node = built.flat.model if built.wraps_model else None
        self.model = None if built.wraps_model else built.model

    def run(self, activation: Activation) -> None:
        """Ask the model once, and again where its reply does not fit."""
        self.built.check_mode(activation, "sync")
        with asked_in(self._asking(activation)) as asking:
            run_talk(self._talk(asking))

    async def arun(self, activation: Activation) -> None:
        """Ask the model as `run` does, without blocking the event loop."""
        self.built.check_mode(activation, "async")
        with asked_in(self._asking(activation)) as asking:
            await arun_talk(self._talk(asking))

    def _asking(self, activation: Activation) -> Asking:
        return Asking(
            activation,
            self.agent,
            activation.context(self.agent.history),
            self.hook,
            self.built.system(activation.values),
            self.built.runs_tools,
            self._is_last(activation, activation.progress.get("model_calls", 0)),
        )

    def _talk(self, asking: Asking) -> Talk[None]:
        activation = asking.activation
        seen = yield from self._seen(activation, asking.context.messages)
        step = self.built.step(activation, seen) if self.built.middleware else None
        seen = seen if step is None else step.messages
        if self.node is None or step is None:
            model = self.agent.model if asking.is_last else self.model
            head = [asking.system] if asking.system else []
            self._take(asking, [(yield from asking.ask(model, [*head, *seen]))], step)
            return
        given = yield Call(self.node, step.state, activation.config)
        messages, update = _replied(given, seen)
        step.merge(update)
        self._take(asking, messages, step)

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

    def _seen(self, activation: Activation, history: list[BaseMessage]) -> Talk[list[BaseMessage]]:
        """Return the history within its budget."""
        policy = self.agent.history
        if isinstance(policy, Summarized):
            return (yield from _summed_up(activation, policy, history))
        return history

    def _take(self, asking: Asking, messages: list[BaseMessage], step: Step | None) -> None:
        """Say what was added, and go on with the calls of the last message of the model."""
        activation = asking.activation
        asked = activation.progress.get("model_calls", 0) + max(asking.replies, 1)
        reply = next((each for each in reversed(messages) if isinstance(each, AIMessage)), None)
        if reply is None:
            raise InvalidOutputError(
                f"{activation.address}: the middleware gave no AIMessage in the place of the model's "
                "reply; return what the handler gives, or an AIMessage"
            )
        made = self._made(asking, reply)
        for message in messages:
            activation.say(made if message is reply else message)
        if step is not None:
            step.say()
        if (hook := self.site.place.after_model_node) is not None:
            self.built.go_on(activation, hook, step, model_calls=asked)
        elif self.built.runs_tools and calls_of(made):
            answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
            self._go_on(activation, made, answered, asked, step)
        else:
            is_last = self.site.place.after_agent_node is None
            if is_last:
                keep_reply(activation, self.agent, str(made.text))
            self.built.leave(activation, Leaving(keeps=not is_last), step)

    def _made(self, asking: Asking, reply: AIMessage) -> AIMessage:
        """Return a reply with ids of its own, that the middleware left as the agent may give it."""
        reply = _with_new_id(reply, asking.activation.seen.messages)
        reply = with_saved_calls(reply, serializer_of(asking.activation.config))
        if asking.is_last and calls_of(reply):
            reply = without_calls(reply)
        if self.built.runs_tools and calls_of(reply):
            return with_ids(reply)
        if self.built.wraps_model and (fault := asking.fault(reply)):
            raise InvalidOutputError(
                f"{asking.activation.address}: the middleware gave {shown(reply.text)} as the reply. "
                f"{fault} Give a reply that fits, or raise an error"
            )
        return reply

    def _go_on(
        self,
        activation: Activation,
        reply: AIMessage,
        answered: set[str],
        asked: int,
        step: Step | None,
    ) -> None:
        """Run the calls of a reply that have no result yet; where all have, ask the model again."""
        if any(call_id(call) not in answered for call in calls_of(reply)):
            self.built.go_on(activation, self.site.place.tools_node, step, model_calls=asked)
            return
        count = activation.progress.get("tool_calls", 0) + len(calls_of(reply))
        node = self.site.place.round_node
        self.built.go_on(activation, node, step, model_calls=asked, tool_calls=count)


def _replied(given: Any, seen: list[BaseMessage]) -> tuple[list[BaseMessage], list[Any]]:
    """Return the messages that stand for the model's reply, and what else middleware updates.

    LangChain's node gives all messages again where it added results that were missing.
    """
    replied, *others = given
    held = {id(message) for message in seen}
    said = [each for each in replied.update["messages"] if id(each) not in held]
    return [each for each in said if not isinstance(each, RemoveMessage)], others


def _summed_up(
    activation: Activation, policy: Summarized, history: list[BaseMessage]
) -> Talk[list[BaseMessage]]:
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
    reply = yield Call(policy.model, summary_request(older, policy), activation.config)
    record = record_of(older, str(message_of(activation, reply).text))
    activation.keep({key: record})
    return [*since(older, record), *newest]


def _with_new_id(reply: AIMessage, messages: Sequence[BaseMessage]) -> AIMessage:
    """Return a reply that replaces no earlier message: some models repeat their ids."""
    if reply.id and any(message.id == reply.id for message in messages):
        return reply.model_copy(update={"id": str(uuid4())})
    return reply

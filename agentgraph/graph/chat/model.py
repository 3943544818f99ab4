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

from agentgraph.agents.context import Context
from agentgraph.errors import InvalidOutputError, MaxIterationsError
from agentgraph.graph.chat.agent import BuiltAgent
from agentgraph.graph.chat.asking import CORRECTIONS, Asking, asked_in, model_hook, unfit
from agentgraph.graph.chat.calls import with_ids, with_saved_calls, without_calls
from agentgraph.graph.chat.output import Kept, keep, keep_text, kept, told
from agentgraph.graph.chat.step import Step
from agentgraph.graph.chat.talking import Call, Talk, arun_talk, run_talk
from agentgraph.graph.history import call_id, calls_of
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.saving import serializer_of
from agentgraph.graph.state import Leaving, address_of, with_id
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import address
from agentgraph.tree.position import earlier


class ModelNode(LeafNode):
    """Asks the model; its tokens stream with the agent's name and address in their metadata."""

    def __init__(self, built: BuiltAgent) -> None:
        site = built.site
        super().__init__(site, retry=site.place.policy("retry"), timeout=site.place.policy("timeout"))
        self.built, self.agent = built, built.agent
        self.hook = model_hook(self.agent.model_input)
        self.node = built.flat.model if built.takes_node else None

    def run(self, activation: Activation) -> None:
        """Ask the model once, and again where its reply does not fit."""
        self.built.check_mode(activation, "sync")
        context = activation.context(self.agent.history)
        model = self.built.models.model(context)
        with asked_in(self._asking(activation, context, model)) as asking:
            run_talk(self._talk(asking))

    async def arun(self, activation: Activation) -> None:
        """Ask the model as `run` does, without blocking the event loop."""
        self.built.check_mode(activation, "async")
        context = activation.context(self.agent.history)
        model = await self.built.models.amodel(context)
        with asked_in(self._asking(activation, context, model)) as asking:
            await arun_talk(self._talk(asking))

    def _asking(self, activation: Activation, context: Context, model: Any) -> Asking:
        return Asking(
            activation,
            context,
            self.hook,
            model,
            self.built.system(context),
            self.built.runs_tools,
            self._is_last(activation, activation.progress.get("model_calls", 0)),
            self.built.wanted,
        )

    def _talk(self, asking: Asking) -> Talk[None]:
        activation = asking.activation
        seen = asking.context.messages
        has_step = self.built.middleware or self.node is not None
        step = self.built.step(activation, seen) if has_step else None
        seen = seen if step is None else step.messages
        if self.node is None or step is None:
            model = asking.model
            if not asking.is_last:
                model = self.built.bound(activation.address, model)
            head = [asking.system] if asking.system else []
            reply = yield from asking.ask(model, [*head, *seen], self.built.wanted)
            if step is not None:
                step.answer = None
            self._take(asking, [reply], step, [])
            return
        replied, *others = yield Call(self.node, step.state, step.config())
        step.answer = replied.update.get("structured_response")
        self._take(asking, _new(replied.update["messages"], seen), step, others)

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

    def _take(
        self, asking: Asking, messages: list[BaseMessage], step: Step | None, updates: list[Any]
    ) -> None:
        """Say what was added, and go on with the calls of the last message of the model.

        What middleware updates besides comes after the reply.
        """
        activation = asking.activation
        asked = activation.progress.get("model_calls", 0) + max(asking.replies, 1)
        reply = next((each for each in reversed(messages) if isinstance(each, AIMessage)), None)
        if reply is None:
            raise InvalidOutputError(
                f"{activation.address}: the middleware gave no AIMessage in the place of the model's "
                "reply; return what the handler gives, or an AIMessage"
            )
        made = self._made(asking, reply)
        if step is not None and updates:
            made = with_id(made, str(uuid4()))
            messages = [made if each is reply else with_id(each, str(uuid4())) for each in messages]
            reply = made
            step.merge_after(messages, updates)
        answer = self._answer(asking, made, step)
        data = kept(activation, answer)
        for message in messages:
            activation.say(made if message is reply else told(message, answer, data))
        if step is not None:
            step.answer = answer
            step.say()
        answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
        calls = [call_id(call) for call in calls_of(made)]
        is_open = self.built.runs_tools and not asking.is_last and not answered.issuperset(calls)
        counts = {"model_calls": asked}
        if answer is None and _answers(asking, made):
            counts["misfits"] = self._misfits(activation, messages)
        if (hook := self.site.place.after_model_node) is not None:
            self.built.go_on(activation, hook, step, **counts)
        elif is_open:
            self.built.go_on(activation, self.site.place.tools_node, step, **counts)
        elif data is None and calls and answered.issuperset(calls):
            count = activation.progress.get("tool_calls", 0) + len(calls)
            self.built.go_on(activation, self.site.place.round_node, step, tool_calls=count, **counts)
        else:
            self._end(asking, data, str(made.text), step)

    def _end(self, asking: Asking, data: Kept | None, text: str, step: Step | None) -> None:
        """End with an answer, or with a text."""
        activation = asking.activation
        is_last = self.site.place.after_agent_node is None
        if is_last and data is not None:
            keep(activation, self.agent, data["data"])
        elif is_last:
            keep_text(activation, self.agent, asking.wanted, text)
        self.built.leave(activation, Leaving(keeps=not is_last), step)

    def _made(self, asking: Asking, reply: AIMessage) -> AIMessage:
        """Return a reply with ids of its own, and without calls where it may have none."""
        reply = _with_new_id(reply, asking.activation.seen.messages)
        reply = with_saved_calls(reply, serializer_of(asking.activation.config))
        if asking.is_last and not _answers(asking, reply):
            reply = without_calls(reply)
        return with_ids(reply) if self.built.runs_tools and calls_of(reply) else reply

    def _answer(self, asking: Asking, reply: AIMessage, step: Step | None) -> Any:
        """Return the answer that is wanted, if the reply gives it."""
        if step is not None and step.answer is not None:
            return step.answer
        if asking.wanted is None or _answers(asking, reply):
            return None
        if self.built.runs_tools and calls_of(reply):
            return None
        try:
            return asking.wanted.read(str(reply.text))
        except ValueError as error:
            raise InvalidOutputError(
                f"{asking.activation.address}: the middleware gave {shown(reply.text)} as the reply. "
                f"The reply does not fit the schema: {error}. Give a reply that fits, or raise an error"
            ) from None

    def _misfits(self, activation: Activation, messages: list[BaseMessage]) -> int:
        """Return how many replies in a row called for an answer with arguments that do not fit.

        Raises:
            InvalidOutputError: There were enough of them.
        """
        count = activation.progress.get("misfits", 0) + 1
        if count > CORRECTIONS:
            results = [str(each.text) for each in messages if isinstance(each, ToolMessage)]
            raise unfit(activation, results[0] if results else None)
        return count


def _answers(asking: Asking, reply: AIMessage) -> bool:
    """Return whether a reply calls a tool that stands for the answer."""
    return asking.wanted is not None and bool(asking.wanted.calls(reply))


def _new(messages: Sequence[BaseMessage], seen: list[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that stand for the model's reply.

    LangChain's node gives all messages again where it added results that were missing.
    """
    held = {id(message) for message in seen}
    said = [each for each in messages if id(each) not in held]
    return [each for each in said if not isinstance(each, RemoveMessage)]


def _with_new_id(reply: AIMessage, messages: Sequence[BaseMessage]) -> AIMessage:
    """Return a reply that replaces no earlier message: some models repeat their ids."""
    if reply.id and reply.id in [message.id for message in messages]:
        return reply.model_copy(update={"id": str(uuid4())})
    return reply

"""The nodes of a chat agent that ask its model and run the hooks of its middleware."""

from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from typing import cast
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.graph import END

from agentgraph.agents.agents import Retry, Timeout
from agentgraph.agents.middleware import ASKS
from agentgraph.agents.schemas import answer_tools
from agentgraph.agents.signals import Exit
from agentgraph.agents.tools import provider_tools
from agentgraph.errors import InvalidOutputError, MaxIterationsError
from agentgraph.graph.chat.agent import BuiltAgent
from agentgraph.graph.chat.calls import (
    last_reply,
    results_after,
    with_ids,
    with_saved_calls,
    without_calls,
)
from agentgraph.graph.chat.middleware import answer_schema, is_chosen
from agentgraph.graph.chat.model_call import CORRECTIONS, Asking, models_asked, unfit
from agentgraph.graph.chat.models import BoundModels, ainvoke, invoke
from agentgraph.graph.chat.output import AnswerFormat, saved_answer, with_json_answer, write_value
from agentgraph.graph.chat.step import Step, in_config, is_update
from agentgraph.graph.lane_position import ChatEnding, SavedAnswer, add_details, details_of
from agentgraph.graph.message_changes import with_id
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import awaited
from agentgraph.graph.nodes.leaf import TalkNode
from agentgraph.graph.nodes.swarm import active_of, enter_active
from agentgraph.graph.paired_calls import call_id, calls_of
from agentgraph.graph.saving import serializer_of
from agentgraph.graph.stamps import address_of, renamed
from agentgraph.graph.sync_async import Call, Calls
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import address
from agentgraph.tree.position import earlier_cursors


class ChatNode(TalkNode):
    """A node of a chat agent."""

    def __init__(self, built: BuiltAgent, *, retry: Retry = None, timeout: Timeout = None) -> None:
        super().__init__(built.node_context, retry=retry, timeout=timeout)
        self.built, self.agent = built, built.agent
        self.mode_faults = built.mode_faults

    def continues_in_sub_agent(self, activation: Activation) -> bool:
        """Go to the sub-agent that is active, if there is one; return whether it goes there.

        Only the first node of an activation does.
        """
        place = self.node_context.place
        if self.name != place.nodes.entry or activation.view.progress:
            return False
        active = active_of(activation, [place, *self.node_context.tree.children[place]])
        if active is None or active is place:
            return False
        enter_active(activation, active)
        return True

    def read_mail(self, activation: Activation) -> None:
        """Take the messages that are sent to the run, in the node at which a round begins.

        They come before the hooks that see what the model is sent, and after the results of calls.
        """
        if self.name == self.node_context.place.nodes.round:
            activation.read_mail()


class ModelNode(ChatNode):
    """Asks the model, and emits its reply.

    The tokens stream with the agent's name and address in their metadata.
    """

    def __init__(self, built: BuiltAgent) -> None:
        policy = built.node_context.place.policy
        super().__init__(built, retry=policy("retry"), timeout=policy("timeout"))
        self.node = built.flat.nodes["model"].bound if built.takes_node else None
        self._tools, self._bound = [*built.tools, *provider_tools(self.agent)], BoundModels()
        self._shares_state = built.shares_state("wrap_model_call")

    @property
    def needs_no_graph(self) -> bool:
        """Whether the agent only asks its model, once."""
        built = self.built
        has_more = built.runs_tools or built.keeps_record or built.takes_node
        return not (has_more or answer_tools(self.agent.output_schema))

    def talk(self, activation: Activation) -> Calls[None]:
        """Ask the model, again if its reply does not fit."""
        if self.agent.sticky and self.continues_in_sub_agent(activation):
            return _nothing()
        if activation.mailbox is not None and not activation.mailbox.is_empty:
            self.read_mail(activation)
        if activation.meter is not None:
            activation.meter.check_model_call()
        return self._talk(activation)

    async def _asking(self, activation: Activation) -> Asking:
        """Return the request to the model; the functions in its options are called."""
        if self.asks_history:
            await activation.view.ask_history()
        context = activation.view.context(activation.view.history)
        model: object = self.built.models.fixed
        if model is None:
            model = await self.built.models.chosen(context)
        system = await self.built.system(context)
        is_last, no_tools = self._is_last(activation), frozenset[str]()
        return Asking(
            activation,
            context,
            self.agent.model_input,
            model,
            system,
            self.built.runs_tools,
            is_last,
            self.built.answer_format,
            await self.built.disabled(context) if self.built.switched else no_tools,
        )

    async def _talk(self, activation: Activation) -> None:
        asking = await self._asking(activation)
        seen = asking.context.seen
        if isinstance(asking.model, str):
            asking.model = await self.built.models.named.model(asking.model, activation.address)
        has_record = self.built.keeps_record and activation.view.record
        has_step = self.built.middleware or self.node is not None or has_record
        step = asking.step = self.built.step(activation, seen) if has_step else None
        seen = seen if step is None else step.messages
        if self.node is None or step is None:
            model = asking.model
            if (tools := self._offered(asking)) and not asking.is_last:
                model = self._bound.bound(activation.address, model, tools)
            head = [asking.system] if asking.system else []
            reply = await asking.ask(model, [*head, *seen], self.built.answer_format)
            if step is not None:
                step.answer = None
            self._take(asking, [reply], [])
            return
        config = step.config()
        state = step.state(is_shared=self._shares_state)
        with models_asked(asking), in_config(config):
            replied, *others = await Call(invoke, ainvoke, (self.node, state, config))
        if asking.fatal is not None:
            raise asking.fatal  # whatever middleware made of it
        step.emit_sent()
        step.answer = replied.update.get("structured_response")
        self._take(asking, _new(replied.update["messages"], state["messages"]), others)

    def _offered(self, asking: Asking) -> Sequence[object]:
        if not asking.disabled:
            return self._tools
        return [each for each in self._tools if _name_of(each) not in asking.disabled]

    def _is_last(self, activation: Activation) -> bool:
        """Return whether the model must answer without tools; raise if it may not be asked again."""
        bound = self.agent.max_iterations
        asked = activation.view.progress.get("model_calls", 0)
        asked += self._replies_before(activation) if self.agent.sub_agents_return else 0
        if bound is None or asked < bound:
            return False
        if self.agent.on_max_iterations == "answer":
            return True
        raise MaxIterationsError(
            f"{activation.address}: the model was asked {asked} time{'s' * (asked > 1)} and still "
            "calls tools; raise max_iterations, then resume, or use on_max_iterations='answer' for an "
            "answer without tools"
        )

    def _replies_before(self, activation: Activation) -> int:
        tree, place = self.node_context.tree, self.node_context.place
        before = [address(place, each) for each in earlier_cursors(tree, place, activation.cursor)]
        this_turn = takewhile(address_of, reversed(activation.view.state.messages))
        return sum(message.type == "ai" and address_of(message) in before for message in this_turn)

    def _take(self, asking: Asking, messages: list[BaseMessage], updates: list[object]) -> None:
        """Emit the new messages, then run the calls of the model's last one.

        Other updates of the middleware come after the reply.
        """
        activation, step, reply = asking.activation, asking.step, last_reply(messages)
        if reply is None:
            raise InvalidOutputError(
                f"{activation.address}: the middleware returned no AIMessage for the model's reply; "
                "return what the handler returns, or an AIMessage"
            )
        made = self._finished(asking, reply)
        if step is not None and updates:
            messages = [made if each is reply else with_id(each, str(uuid4())) for each in messages]
            reply = made
            step.merge_after(messages, updates)
        answer = step.answer if step is not None else None
        if answer is None and asking.answer_format is not None:
            answer = self._read(asking, asking.answer_format, made)
        data = None if answer is None else saved_answer(activation, answer)
        for message in messages:
            if message is reply:
                activation.output.emit_stamped(made)
            else:
                activation.output.emit_message(with_json_answer(message, answer, data))
        if step is not None:
            step.answer = answer
            step.emit_changes()
        self._go_on(asking, made, messages, data)

    def _go_on(
        self, asking: Asking, made: AIMessage, messages: list[BaseMessage], data: SavedAnswer | None
    ) -> None:
        activation, step, place = asking.activation, asking.step, self.node_context.place
        progress, calls = activation.view.progress, calls_of(made)
        open_ids = {*map(call_id, calls)} - results_after(None, messages)
        counts = {"model_calls": progress.get("model_calls", 0) + max(asking.replies, 1)}
        is_answered = step is not None and step.answer is not None
        if not is_answered and asking.answer_format is not None and asking.answer_format.calls(made):
            counts["misfits"] = self._misfits(activation, messages)
        if place.nodes.after_model is not None:
            self.built.continue_at(activation, place.nodes.after_model, step, **counts)
        elif open_ids and self.built.runs_tools and not asking.is_last:
            self.built.continue_at(activation, self.built.tools_node, step, **counts)
        elif data is None and calls and not open_ids:
            counts["tool_calls"] = progress.get("tool_calls", 0) + len(calls)
            self.built.continue_at(activation, place.nodes.round, step, **counts)
        else:
            is_last = place.nodes.after_agent is None
            if is_last and self.built.keeps_answer:
                write_value(activation, self.agent, data, asking.answer_format, str(made.text))
            self.built.end_after_hooks(activation, ChatEnding(keeps=not is_last), step)

    def _finished(self, asking: Asking, reply: AIMessage) -> AIMessage:
        """Return a reply with its stamp and unique ids, without calls if it must not have any."""
        activation, answer_format = asking.activation, asking.answer_format
        replies, content = activation.output.replies, asking.reply and asking.reply.content
        if replies is not None and reply.content != content and replies.has_assigned(str(reply.id)):
            reply = renamed(reply, str(uuid4()))  # middleware returned another message in its place
        if calls_of(reply):
            reply = with_saved_calls(reply, serializer_of(activation.config))
        if asking.is_last and not (answer_format is not None and answer_format.calls(reply)):
            reply = without_calls(reply)
        has_calls = self.built.runs_tools and calls_of(reply)
        reply = with_ids(activation.view, reply) if has_calls else reply
        return activation.output.stamped(reply)

    def _read(self, asking: Asking, answer_format: AnswerFormat, reply: AIMessage) -> object:
        """Return the structured answer in a reply's text; None if the reply has tool calls."""
        if answer_format.calls(reply) or (self.built.runs_tools and calls_of(reply)):
            return None
        try:
            return answer_format.read(str(reply.text))
        except ValueError as error:
            raise InvalidOutputError(
                f"{asking.activation.address}: the middleware returned {shown(reply.text)} as the "
                f"reply, which does not fit the schema: {error}. Return one that fits, or raise"
            ) from None

    def _misfits(self, activation: Activation, messages: list[BaseMessage]) -> int:
        """Count the replies in a row whose structured answer did not fit the schema.

        Raises:
            InvalidOutputError: There were more than `CORRECTIONS`.
        """
        count = activation.view.progress.get("misfits", 0) + 1
        if count > CORRECTIONS:
            results = [str(each.text) for each in messages if isinstance(each, ToolMessage)]
            raise unfit(activation, results[0] if results else None)
        return count


class HookNode(ChatNode):
    """Runs a LangChain hook, and continues at the node that LangChain's own edge chooses."""

    def __init__(self, built: BuiltAgent, hook: str) -> None:
        super().__init__(built)
        self.hook = hook
        self.name = built.node_context.place.nodes.hook(hook)
        node = built.flat.nodes[hook]
        self.runnable, self.policies["trace_policy"] = node.bound, node.trace_policy
        self._shares_state = built.shares_state(hook)
        self.may_exit = built.may_exit(hook)

    async def talk(self, activation: Activation) -> None:
        """Run the hook; add an answer schema to the questions of human-in-the-loop middleware."""
        if self.agent.sticky and self.continues_in_sub_agent(activation):
            return
        if activation.mailbox is not None and not activation.mailbox.is_empty:
            self.read_mail(activation)
        if self.asks_history:
            await activation.view.ask_history()
        step = self.built.step(activation)
        config = step.config()
        try:
            with in_config(config):
                state = step.state(is_shared=self._shares_state)
                returned = await Call(invoke, ainvoke, (self.runnable, state, config))
                if returned is not None and type(returned) is not dict:
                    returned = await self._update(activation, returned)
        except GraphInterrupt as paused:
            for asked in paused.args[0]:
                if asked.response_schema is None:
                    asked.response_schema = answer_schema(asked.value, self.built.tools)
            raise
        is_exit = isinstance(returned, Exit)
        step.merge(None if is_exit else returned)
        step.emit_changes()
        if is_exit:
            self._exit(activation, step, cast(Exit, returned))
            return
        to = self._successor(activation, step)
        self._go_on(activation, step, to)

    def _successor(self, activation: Activation, step: Step) -> str:
        """Return LangChain's name of the node after the hook.

        Raises:
            InvalidOutputError: The hook jumps where it may not.
        """
        shared_state = partial(step.state, is_shared=True)
        try:
            return self.built.flat.route(self.hook, shared_state, activation.config)
        except KeyError as error:
            raise InvalidOutputError(
                f"{activation.address}: the hook {self.hook!r} returned jump_to={step.jump_to!r}; "
                "name it in the hook's can_jump_to, and jump to tools where there are some"
            ) from error

    def _exit(self, activation: Activation, step: Step, signal: Exit) -> None:
        """End the run, after the hooks that come last."""
        details = details_of(signal, activation.address)
        if self.hook.endswith(".after_agent"):
            before = activation.view.progress.get("ending", ChatEnding(keeps=True))
            how = ChatEnding(signal="exit", keeps=before.get("keeps", False))
        else:
            reply = last_reply(step.messages)
            asked = {*map(call_id, calls_of(reply))} if reply else set()
            how = ChatEnding(signal="exit", keeps=asked <= results_after(reply, step.messages))
        add_details(how, details)
        if not self.hook.endswith(".after_agent"):
            self.built.end_after_hooks(activation, how, step)
        elif (to := self._successor(activation, step)) == END:
            self.built.end(activation, how, step)
        else:
            node = self.node_context.place.nodes.hook(to)
            self.built.continue_at(activation, node, step, ending=how)

    async def _update(self, activation: Activation, returned: object) -> object:
        """Return the update of a hook, awaited, if it is a valid one.

        Raises:
            InvalidOutputError: It is none.
        """
        returned = await awaited(activation.address, "middleware", self.hook, returned)
        is_told = isinstance(returned, Exit) and returned.reason is not None
        if is_update(returned) or (is_told and self.may_exit):
            return returned
        middleware, _, hook = self.hook.rpartition(".")
        where = f"{activation.address}: {hook} of the middleware {middleware!r} returned"
        if isinstance(returned, Exit) and not is_told:
            raise InvalidOutputError(
                f"{where} {returned!r}, which does not say why the run ends; return "
                "ag.Exit(reason='...'), or a dict of the state, a Command, or None"
            )
        if isinstance(returned, Exit):
            raise InvalidOutputError(
                f"{where} Exit, which its return annotation does not name; add it, as in "
                "`-> dict | ag.Exit | None`, so that the graph has an edge for it"
            )
        raise InvalidOutputError(
            f"{where} {shown(returned)}, which is not an update; return a dict of the state, a "
            "Command, or None"
        )

    def _go_on(self, activation: Activation, step: Step, to: str) -> None:
        """Write where the agent continues: in approval, a hook, its tools, or at its end."""
        place = self.node_context.place
        if self.hook == ASKS and is_chosen(step.own):
            self.built.continue_at(activation, place.nodes.approve, step)
            return
        reply = last_reply(step.messages)
        is_exit = to == END or place.nodes.hook(to) == place.nodes.after_agent
        if is_exit or (to == "tools" and reply is not None):
            self._answer_or_end(activation, step, to, reply)
            return
        node = place.node if to == "model" else place.nodes.hook(to)
        count = activation.view.progress.get("tool_calls", 0)
        if node == place.nodes.round and self.hook.endswith(".after_model") and reply:
            count += len(calls_of(reply))  # a new round begins
        self.built.continue_at(activation, node, step, tool_calls=count)

    def _answer_or_end(
        self, activation: Activation, step: Step, to: str, reply: AIMessage | None
    ) -> None:
        asked = {*map(call_id, calls_of(reply))} if reply else set()
        is_open = not asked <= results_after(reply, step.messages)
        retries = step.jump_to is None and self.hook.endswith(".after_model") and is_open
        if reply is not None and (to == "tools" or (retries and self.built.runs_tools)):
            self.built.continue_at(activation, self.node_context.place.nodes.tools, step)
        elif self.hook.endswith(".after_agent"):
            how = activation.view.progress.get("ending", ChatEnding(keeps=True))
            leave = self.built.end if to == END else self.built.end_after_hooks
            leave(activation, how, step)
        else:
            self.built.end_after_hooks(activation, ChatEnding(keeps=not is_open), step)


def _name_of(tool: object) -> object:
    return getattr(tool, "name", None)


async def _nothing() -> None:
    """Make no call."""


def _new(messages: Sequence[BaseMessage], seen: list[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that replace the model's reply.

    LangChain's node returns all messages if it added missing results.
    """
    held = {id(message) for message in seen}
    new = [each for each in messages if id(each) not in held]
    return [each for each in new if not isinstance(each, RemoveMessage)]

"""One run of the node that asks the model: the request, corrections, and the reply."""

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import RunnableConfig

from agentgraph.agents.functions import takes_two
from agentgraph.agents.templates import with_text
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.chat.calls import with_answers_refused, with_ids, without_calls
from agentgraph.graph.chat.models import ainvoke, has_cache, invoke
from agentgraph.graph.chat.output import AnswerFormat
from agentgraph.graph.chat.step import Step
from agentgraph.graph.copied_values import detached, own_list
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.context import ActivationContext
from agentgraph.graph.nodes.replies import Replies, stream_handlers
from agentgraph.graph.paired_calls import call_id, calls_of
from agentgraph.graph.sync_async import Call
from agentgraph.graph.unstamped import unstamped
from agentgraph.safe_repr import shown

CORRECTIONS = 2
"""How often a reply that does not fit goes back to the model."""


@dataclass
class Asking:
    """One run of the node that asks the model.

    Attributes:
        activation: The activation of the agent.
        context: The agent's context.
        hook: Its `model_input`, which sees the final messages and may change them.
        model: The model, before middleware may choose another one.
        system: The system message, or None.
        runs_tools: Whether tool calls of a reply are run.
        is_last: Whether the model is asked for its answer without tools.
        answer_format: The format that its answer must fit, after middleware; None for any text.
        disabled: The names of the tools that the model is not offered.
        replies: How many replies there were.
        reply: The last one, as it was given to middleware.
        step: The messages that the agent sees, and the state of its middleware; None without
            middleware.
        recorder: Asks the model, or returns its recorded reply; None if nothing is recorded.
        fatal: A failure of the recorder, which no code may handle.
    """

    activation: Activation
    context: ActivationContext
    hook: Callable[..., object] | None
    model: object
    system: SystemMessage | None
    runs_tools: bool
    is_last: bool
    answer_format: AnswerFormat | None
    disabled: Set[str] = frozenset()
    replies: int = field(default=0, init=False)
    reply: AIMessage | None = field(default=None, init=False)
    step: Step | None = field(default=None, init=False)
    recorder: "Recorder | None" = field(default=None, init=False)
    fatal: Exception | None = field(default=None, init=False)

    @classmethod
    def current(cls) -> "Asking | None":
        """Return the run of the node around, for middleware that wraps its calls; None outside."""
        return ASKING.get(None)

    async def ask(
        self, model: object, messages: Sequence[BaseMessage], answer_format: AnswerFormat | None
    ) -> AIMessage:
        """Ask a model; ask it again if its reply does not fit the wanted answer.

        If the reply also calls tools, these calls run, and the call with the answer gets the error as
        its result, as in LangChain.

        Raises:
            InvalidOutputError: No reply fits.
        """
        self.answer_format, outer = answer_format, self.activation.config
        if getattr(outer.get("callbacks"), "handlers", None) and stream_handlers(outer):
            replies = self.activation.output.replies or Replies(self.activation.output)
            self.activation.output.replies = replies
            outer = replies.config(outer)
        metadata = {**outer.get("metadata", {}), **self.activation.mark}
        config: RunnableConfig = {**outer, "metadata": metadata}
        sent = (
            list(messages)
            if answer_format is None
            else with_system(messages, answer_format.instruction())
        )
        for _ in range(1 + CORRECTIONS):
            hooked = sent if self.hook is None else await self._hooked(self.hook, sent)
            hooked = unstamped(hooked) if has_cache(model) else hooked
            if self.recorder is None:
                reply = await Call(invoke, ainvoke, (model, hooked, config))
            else:
                reply = await self.recorder.model(self, model, hooked, config)
            if type(reply) is not AIMessage:
                reply = message_of(self.activation, reply)
            self.replies += 1
            is_answer = answer_format is not None and bool(answer_format.calls(reply))
            if is_answer or self.is_last:
                view = self.activation.view
                reply = with_ids(view, reply) if is_answer else without_calls(reply)
            fault = None if answer_format is None else self._fault(reply, answer_format)
            if answer_format is None or fault is None:
                self.reply = reply
                return reply
            if self._runs_others(reply, answer_format):
                fault = str(answer_format.call_fault(reply))
                self.reply = with_answers_refused(reply, answer_format.schemas, fault)
                return self.reply
            sent = [*sent, reply, *_correction_request(reply, fault, answer_format)]
        raise unfit(self.activation, fault)

    def _runs_others(self, reply: AIMessage, answer_format: AnswerFormat) -> bool:
        others = [call for call in reply.tool_calls if call["name"] not in answer_format.schemas]
        return self.runs_tools and not self.is_last and bool(others)

    async def _hooked(
        self, hook: Callable[..., object], messages: list[BaseMessage]
    ) -> list[BaseMessage]:
        seen = own_list(messages)
        arguments = (self.context, seen) if takes_two(hook) else (seen,)
        result = await asked(self.context.address, "model_input", hook, *arguments)
        is_list = isinstance(result, Sequence) and not isinstance(result, str)
        if not is_list or not all(isinstance(each, BaseMessage) for each in result):
            raise InvalidOutputError(
                f"{self.activation.address}: model_input returned {shown(result)}; return the list of "
                "messages that the model is to be sent"
            )
        return detached(seen) if result is seen else list(result)

    def _fault(self, reply: AIMessage, answer_format: AnswerFormat) -> str | None:
        """Return why a reply does not fit the wanted answer, as a sentence; None if it fits.

        Calls that carry an answer are checked by LangChain's node, except what it lets pass.
        """
        if fault := answer_format.call_fault(reply):
            return f"The reply does not fit the schema: {fault}."
        if answer_format.calls(reply) or (self.runs_tools and calls_of(reply)):
            return None
        try:
            answer_format.read(str(reply.text))
        except ValueError as error:
            return f"The reply does not fit the schema: {error}."
        return None


class Recorder(Protocol):
    """The recorder of the replies of models."""

    async def model(
        self, asking: Asking, model: object, messages: Sequence[BaseMessage], config: RunnableConfig
    ) -> object:
        """Ask a model, or return or raise what it replied before."""


def _correction_request(reply: AIMessage, fault: str, answer_format: AnswerFormat) -> list[BaseMessage]:
    """Return the messages that ask for a correction; each tool call gets a result."""
    text = f"{fault} {answer_format.retry_request()}"
    if not answer_format.call_fault(reply):
        return [HumanMessage(text)]
    return [
        ToolMessage(text, name=each["name"], tool_call_id=call_id(each), status="error")
        for each in calls_of(reply)
    ]


ASKING: ContextVar[Asking] = ContextVar("asking")
"""The run of a node in which a model is asked."""


@contextmanager
def models_asked(asking: Asking) -> Iterator[None]:
    """Make the run of a node known to the models that are asked in a `with` block."""
    token = ASKING.set(asking)
    try:
        yield
    finally:
        ASKING.reset(token)


def message_of(activation: Activation, reply: object) -> AIMessage:
    """Return a reply of a model as a message."""
    if isinstance(reply, str):
        reply = AIMessage(reply)
    if isinstance(reply, AIMessageChunk):
        reply = message_chunk_to_message(reply)
    if not isinstance(reply, AIMessage):
        raise InvalidOutputError(
            f"{activation.address}: the model returned {type(reply).__name__}, not an AIMessage; "
            "pass a chat model, or a runnable that ends in one"
        )
    return reply


def unfit(activation: Activation, fault: str | None) -> InvalidOutputError:
    """Return the error for a model whose replies do not fit."""
    head = f"{activation.address}: none of {1 + CORRECTIONS} replies fits the output_schema."
    text = " ".join(each.strip() for each in (head, fault) if each)
    return InvalidOutputError(f"{text} Use a model that keeps to schemas, or a simpler schema")


def with_system(messages: Sequence[BaseMessage], text: str | None) -> list[BaseMessage]:
    """Return messages with a text added to the system message, or as a new one."""
    if text is None:
        return list(messages)
    first = messages[0] if messages else None
    if isinstance(first, SystemMessage):
        return [with_text(first, text), *messages[1:]]
    return [SystemMessage(text), *messages]

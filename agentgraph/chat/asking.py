"""What is ours around a model that LangChain's node asks.

LangChain's node binds the tools, sends the system message and the messages, and calls the middleware
around that. Ours happens closest to the model, whichever one the middleware chose: `model_input`, the
mark on the chunks, replies that go back for a correction, the last answer without tools. Inside the
user's middleware a model is put there that does it; so the user's see the real model, and the system
message, which middleware of ours outside theirs fills in. Each layer costs, and LangChain's node does.
So where no middleware wraps the call, `Asking.ask` is all there is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import RunnableBinding, RunnableConfig, RunnableWithFallbacks
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentgraph.agents import ChatAgent
from agentgraph.chat.calls import without_calls
from agentgraph.chat.output import unfit
from agentgraph.chat.talking import Call, Talk, arun_talk, run_talk
from agentgraph.context import Context
from agentgraph.errors import InvalidOutputError
from agentgraph.history import calls_of
from agentgraph.nodes.activation import Activation
from agentgraph.shown import shown
from agentgraph.signals import takes_two

CORRECTIONS = 2
"""How often a reply that does not fit goes back to the model."""

Hook = Callable[[Activation, Context, list[BaseMessage]], list[BaseMessage]]
"""Has the last word on the messages that a model is sent."""


@dataclass
class Asking:
    """One run of the node that asks the model.

    Attributes:
        activation: The activation of the agent.
        agent: The agent.
        context: What the agent knows.
        hook: Its `model_input`.
        system: The system message; None where there is none.
        runs_tools: Whether a reply with calls leads to tools.
        is_last: Whether the model is asked for its answer without tools.
        replies: How many replies there were.
    """

    activation: Activation
    agent: ChatAgent
    context: Context
    hook: Hook
    system: SystemMessage | None
    runs_tools: bool
    is_last: bool
    replies: int = field(default=0, init=False)

    def ask(self, model: Any, messages: Sequence[BaseMessage]) -> Talk[AIMessage]:
        """Ask a model, and again where its reply does not fit the output schema.

        Raises:
            InvalidOutputError: No reply fits.
        """
        sent = list(messages)
        for _ in range(1 + CORRECTIONS):
            hooked = self.hook(self.activation, self.context, sent)
            reply = message_of(
                self.activation, (yield Call(model, hooked, self._marked(self.activation.config)))
            )
            self.replies += 1
            if self.is_last:
                reply = without_calls(reply)
            fault = self.fault(reply)
            if fault is None:
                return reply
            sent = [*sent, reply, HumanMessage(f"{fault} Reply again, with the JSON alone.")]
        raise InvalidOutputError(
            f"{self.activation.address}: none of {1 + CORRECTIONS} replies fits the output_schema. "
            f"{fault} Use a model that keeps to schemas, or a simpler schema"
        )

    def fault(self, reply: BaseMessage) -> str | None:
        """Return why a reply cannot be the last one, in a sentence; None if it can, or is not."""
        if self.runs_tools and calls_of(reply):
            return None
        return unfit(self.agent, reply)

    def _marked(self, config: RunnableConfig) -> RunnableConfig:
        return {**config, "metadata": {**config.get("metadata", {}), **self.activation.mark}}


_ASKING: ContextVar[Asking] = ContextVar("asking")
"""The run of a node in which a model is asked."""


@contextmanager
def asked_in(asking: Asking) -> Iterator[Asking]:
    """Make the run of a node known to the models that it asks in a `with` block."""
    token = _ASKING.set(asking)
    try:
        yield asking
    finally:
        _ASKING.reset(token)


class AskedModel:
    """Stands in for a model; it has all attributes of it."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._bound: tuple[list[Any], Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **settings: Any) -> "_Asked":
        """Return the model with tools, unless it is asked for its last answer."""
        if _ASKING.get().is_last:
            return self.bind(**settings)
        if tool_choice is not None:
            settings["tool_choice"] = tool_choice
        if settings:
            return _Asked(with_tools(self.model, tools, **settings))
        if self._bound is None or not _are_same(self._bound[0], tools):
            self._bound = (list(tools), with_tools(self.model, tools))
        return _Asked(self._bound[1])

    def bind(self, **settings: Any) -> "_Asked":
        """Return the model with settings."""
        return _Asked(self.model.bind(**settings) if settings else self.model)


class _Asked:
    """A model with tools and settings, as LangChain's node calls it."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def invoke(self, messages: list[BaseMessage]) -> AIMessage:
        return run_talk(_ASKING.get().ask(self._model, messages))

    async def ainvoke(self, messages: list[BaseMessage]) -> AIMessage:
        return await arun_talk(_ASKING.get().ask(self._model, messages))


class Instructing(AgentMiddleware[Any, Any, Any]):
    """Outside the user's middleware: the system message of this activation."""

    @property
    def name(self) -> str:
        """The name that no middleware of users has."""
        return "agentgraph.instruction"

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Ask with the system message."""
        return handler(request.override(system_message=_ASKING.get().system))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Ask with the system message."""
        return await handler(request.override(system_message=_ASKING.get().system))


class StandingIn:
    """Inside the user's middleware: puts a stand-in in the place of the model that these chose."""

    def __init__(self, model: Any) -> None:
        self._own = AskedModel(model)

    def __call__(self, request: Any) -> Any:
        """Return a request to the stand-in."""
        model = request.model
        return request.override(model=self._own if model is self._own.model else AskedModel(model))


def with_tools(model: Any, tools: Sequence[Any], **settings: Any) -> Any:
    """Return a model with tools, and with all that was bound to it before.

    LangChain's own `bind_tools` drops what `bind`, `with_config` or `bind_tools` bound before. A tool
    that was bound in another form, such as with `strict=True`, stays in that form.
    """
    if isinstance(model, RunnableWithFallbacks):
        runnables = [with_tools(each, tools, **settings) for each in model.runnables]
        return model.model_copy(update={"runnable": runnables[0], "fallbacks": runnables[1:]})
    if not isinstance(model, RunnableBinding):
        return model.bind_tools(tools, **settings)
    kept = {name: value for name, value in model.kwargs.items() if name not in {"tools", *settings}}
    bound = with_tools(model.bound, _in_form(tools, model.kwargs.get("tools", ())), **settings)
    return model.model_copy(update={"bound": bound, "kwargs": kept})


def model_hook(fn: Callable[..., list[BaseMessage]] | None) -> Hook:
    """Return a `model_input`, a function of the messages or of a context too, with one signature."""
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


def message_of(activation: Activation, reply: object) -> AIMessage:
    """Return a reply of a model as a message."""
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


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _in_form(tools: Sequence[Any], bound: Sequence[Any]) -> list[Any]:
    """Return tools, those that were bound before in the form that they were bound in."""
    forms = {_name(each): each for each in bound}
    named = [(_name(tool) if bound else None, tool) for tool in tools]
    others = [form for name, form in forms.items() if name not in [each for each, _ in named]]
    return [*(forms.get(name, tool) for name, tool in named), *others]


def _name(tool: Any) -> Any:
    """Return the name of a tool in any form; of one that a provider runs, what tells it apart."""
    if isinstance(tool, dict):
        return tool.get("function", tool).get("name") or str(tool)
    return getattr(tool, "name", None) or convert_to_openai_tool(tool)["function"]["name"]

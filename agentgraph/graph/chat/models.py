"""The models of a chat agent: which one is asked, with which tools, and how.

A model is an object, a name that LangChain knows, or the result of a function.

The problem: middleware may choose another model or change the request, and must see the real model and
the real system message, as in LangChain. But some things must happen to every request, whichever model
was chosen: `model_input`, metadata that assigns chunks to the agent, corrections of replies that do not
fit, and the last answer without tools.

The rule, from the outside in:
1. `Instructing` sets the model and the system message of this step, where they can change.
2. The user's middleware runs.
3. `UseStandIn` replaces the model that was chosen by a `StandInModel` with the same attributes.
4. LangChain's node binds the tools and calls the stand-in, which asks the model by `Asking.ask`.

Each layer costs time. Without wrapping middleware and response format, only `Asking.ask` runs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import langchain.chat_models.base
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.structured_output import ToolStrategy
from langchain.chat_models import init_chat_model
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableWithFallbacks,
)
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentgraph.agents.agents import ChatAgent
from agentgraph.agents.context import Context
from agentgraph.agents.functions import takes_two
from agentgraph.agents.templates import with_text
from agentgraph.errors import AgentGraphError, InvalidOutputError
from agentgraph.graph.chat.calls import with_answers_refused, with_ids, without_calls
from agentgraph.graph.chat.output import AnswerFormat, answer_format_of
from agentgraph.graph.chat.step import Step
from agentgraph.graph.copied_values import detached, own_list
from agentgraph.graph.graph_classes import unstamped
from agentgraph.graph.history import call_id, calls_of
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.context import ActivationContext
from agentgraph.graph.nodes.replies import Replies, stream_handlers
from agentgraph.graph.nodes.stopping import Contained, stoppable
from agentgraph.graph.open_types import AnyRunnable
from agentgraph.graph.sync_async import Call, arun_calls, run_calls
from agentgraph.safe_repr import reason, shown
from agentgraph.tree.rules.chat import toolless


class Models:
    """The models of an agent; a model given by name is made when it is first needed.

    Attributes:
        fixed: The model, if it is an object; else None.
    """

    def __init__(self, agent: ChatAgent) -> None:
        self._model = agent.model
        self.fixed = agent.model if isinstance(agent.model, Runnable) else None
        self._named: dict[str, object] = {}

    async def chosen(self, context: Context) -> object:
        """Return the model for one step, or its name, if the model is not fixed.

        Raises:
            InvalidOutputError: The function returned something else.
        """
        model: Any = self._model
        if not isinstance(model, str):
            model = await asked(context.address, "model", model, context)
        if not isinstance(model, Runnable | str):
            raise InvalidOutputError(
                f"{context.address}: the function model= returned {shown(model)}; return a LangChain "
                "chat model, or a name such as 'openai:gpt-5'"
            )
        return model

    async def named(self, name: str, where: str) -> object:
        """Return a model by its name; async runs make it in a thread, because that imports packages."""
        if name not in self._named:
            made = await Call(model_named, _amodel_named, (name, where))
            self._named.setdefault(name, made)
        return self._named[name]


def model_named(name: str, where: str) -> object:
    """Return the model that LangChain makes for a name; `where` begins the text of errors.

    Raises:
        AgentGraphError: LangChain cannot make the model.
    """
    try:
        return init_chat_model(name)
    except Exception as error:
        raise AgentGraphError(
            f"{where}: LangChain's init_chat_model cannot make the model {name!r} "
            f"({reason(error)}); install the provider's package, set its key in the "
            "environment, or pass a model object"
        ) from error


async def _amodel_named(name: str, where: str) -> object:
    return await asyncio.to_thread(model_named, name, where)


def providers() -> list[str]:
    """Return the names of the providers whose models LangChain makes by name."""
    return list(getattr(langchain.chat_models.base, "_BUILTIN_PROVIDERS", ()))


def takes_tools(model: object) -> bool:
    """Return whether tools can be bound to a model."""
    return next(iter(toolless(model)), None) is None


def check_tools(where: str, model: object) -> None:
    """Refuse a model without `bind_tools`, for an agent with tools.

    Raises:
        InvalidOutputError: The model has no `bind_tools`.
    """
    for core in toolless(model):
        raise InvalidOutputError(
            f"{where}: the model {type(core).__name__} takes no tools; choose one with bind_tools"
        )


def core_of(model: object) -> object:
    """Return the chat model inside others; its profile has which structured output it supports.

    Of several with fallbacks it is the first without structured output, or else the first.
    """
    while isinstance(model, RunnableBinding):
        model = model.bound
    if not isinstance(model, RunnableWithFallbacks):
        return model
    cores = [core_of(each) for each in model.runnables]
    lacking = (e for e in cores if not (getattr(e, "profile", None) or {}).get("structured_output"))
    return next(lacking, cores[0])


def has_cache(model: object) -> bool:
    """Return whether LangChain may cache the replies of a model.

    Its keys hold the metadata of messages, so such a model is sent messages without our stamps.
    """
    while isinstance(model, RunnableBinding):
        model = model.bound
    if isinstance(model, RunnableWithFallbacks):
        return any(map(has_cache, model.runnables))
    return get_llm_cache() is not None or getattr(model, "cache", None) not in (None, False)


def invoke(runnable: Any, *arguments: object) -> Any:
    """Invoke a runnable."""
    try:
        return runnable.invoke(*arguments)
    except BaseException:
        with Contained():  # a `StopIteration` would end the calls
            raise


async def ainvoke(runnable: Any, *arguments: object) -> Any:
    """Invoke a runnable on the event loop; it is cancelled when the run stops."""
    with stoppable(is_thread=_is_sync(runnable)):
        return await runnable.ainvoke(*arguments)


def _is_sync(model: Any) -> bool:
    """Return whether LangChain runs a model in a thread, which a stopping run must wait for."""
    while isinstance(model, RunnableBinding):
        model = model.bound
    kind = type(model)
    return isinstance(model, BaseChatModel) and (
        kind._agenerate is BaseChatModel._agenerate and kind._astream is BaseChatModel._astream
    )


def with_tools(model: Any, tools: Sequence[object], **settings: object) -> object:
    """Return a model with tools, which keeps all that was bound to it before.

    LangChain's own `bind_tools` drops what `bind`, `with_config` or `bind_tools` bound before. A tool
    that was bound in another form, such as with `strict=True`, stays in that form.
    """
    if isinstance(model, RunnableWithFallbacks):
        runnables = [with_tools(each, tools, **settings) for each in model.runnables]
        return model.model_copy(update={"runnable": runnables[0], "fallbacks": runnables[1:]})
    if not isinstance(model, RunnableBinding):
        bound = model.bind_tools(tools, **settings)
        return bound if tools else _without_tools(bound)
    others = {name: value for name, value in model.kwargs.items() if name not in {"tools", *settings}}
    bound = with_tools(model.bound, _in_form(tools, model.kwargs.get("tools", ())), **settings)
    return model.model_copy(update={"bound": bound, "kwargs": others})


def _without_tools(bound: object) -> object:
    """Return a model without a bound empty list of tools: providers refuse one."""
    if not isinstance(bound, RunnableBinding) or "tools" not in bound.kwargs:
        return bound
    others = {name: value for name, value in bound.kwargs.items() if name != "tools"}
    return bound.model_copy(update={"kwargs": others})


class BoundModels:
    """Binds the tools of an agent to models; the last bound model is reused."""

    def __init__(self) -> None:
        self._last: tuple[object, list[object], object] = (None, [], None)

    def bound(self, where: str, model: object, tools: Sequence[object]) -> object:
        """Return a model with tools, for the agent at an address."""
        last, known, _ = self._last
        if last is not model or [*map(id, known)] != [*map(id, tools)]:
            check_tools(where, model)
            self._last = (model, list(tools), with_tools(model, tools))
        return self._last[2]


def _in_form(tools: Sequence[object], bound: Sequence[object]) -> list[object]:
    """Return tools; one that was bound before keeps the form that it was bound in."""
    forms = {_name(each): each for each in bound}
    named = [(_name(tool) if bound else None, tool) for tool in tools]
    others = [form for name, form in forms.items() if name not in [each for each, _ in named]]
    return [*(forms.get(name, tool) for name, tool in named), *others]


def _name(tool: Any) -> object:
    """Return the name of a tool in any form; a provider's own tool without a name as text."""
    if isinstance(tool, dict):
        return tool.get("function", tool).get("name") or str(tool)
    return getattr(tool, "name", None) or convert_to_openai_tool(tool)["function"]["name"]


CORRECTIONS = 2
"""How often a reply that does not fit goes back to the model."""
_ANSWERING = {"response_format", "strict"}
"""LangChain's settings that make a provider keep to a schema."""


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
        answer_format: What its answer must fit, after middleware; None for any text.
        disabled: The names of the tools that the model is not offered.
        replies: How many replies there were.
        reply: The last one, as it was given to middleware.
        step: What the agent sees, and the state of its middleware; None without middleware.
        recorder: Asks the model, or gives what it replied before; None if nothing is recorded.
        fatal: A failure of the recorder, which nobody may handle.
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
        return _ASKING.get(None)

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
            sent = [*sent, reply, *_again(reply, fault, answer_format)]
        raise unfit(self.activation, fault)

    def _runs_others(self, reply: AIMessage, answer_format: AnswerFormat) -> bool:
        """Return whether a reply has readable calls of tools beside its answer: these are run."""
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
    """What records the replies of models."""

    async def model(
        self, asking: Asking, model: object, messages: Sequence[BaseMessage], config: RunnableConfig
    ) -> object:
        """Ask a model, or return or raise what it replied before."""


def _again(reply: AIMessage, fault: str, answer_format: AnswerFormat) -> list[BaseMessage]:
    """Return the messages that ask for a correction; each tool call gets a result."""
    text = f"{fault} {answer_format.again()}"
    if not answer_format.call_fault(reply):
        return [HumanMessage(text)]
    return [
        ToolMessage(text, name=each["name"], tool_call_id=call_id(each), status="error")
        for each in calls_of(reply)
    ]


_ASKING: ContextVar[Asking] = ContextVar("asking")
"""The run of a node in which a model is asked."""


@contextmanager
def asked_in(asking: Asking) -> Iterator[None]:
    """Make the run of a node known to the models that are asked in a `with` block."""
    token = _ASKING.set(asking)
    try:
        yield
    finally:
        _ASKING.reset(token)


class StandInModel:
    """Replaces a model; has all attributes of the chat model inside it."""

    def __init__(self, model: AnyRunnable, answer_format: AnswerFormat | None) -> None:
        """Replace a model.

        Args:
            model: The model, with what was bound to it.
            answer_format: What its answer must fit.
        """
        self._model, self._answer_format = model, answer_format
        self._core = core_of(model)
        self._bound = BoundModels()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of the chat model inside, by which LangChain chooses a strategy.

        For a model without tools it is this class, so that the answer is a text.
        """
        return type(self._core) if takes_tools(self._model) else StandInModel

    def __getattr__(self, name: str) -> object:
        return getattr(self._core, name)

    def bind_tools(
        self, tools: Sequence[object], *, tool_choice: object = None, **settings: object
    ) -> "_BoundStandIn":
        """Return the model with tools; for the last answer only with those that carry an answer."""
        asking, answer_format = _ASKING.get(), self._answer_format
        chosen = {**settings, **({} if tool_choice is None else {"tool_choice": tool_choice})}
        if answer_format is None or answer_format.response_format is None:
            if asking.is_last:
                return self.bind(**settings)
            if chosen:
                return _BoundStandIn(with_tools(self._model, tools, **chosen), answer_format)
            return _BoundStandIn(
                self._bound.bound(asking.activation.address, self._model, tools), answer_format
            )
        answers = [tool for tool in tools if getattr(tool, "name", None) in answer_format.schemas]
        if not takes_tools(self._model):
            if not asking.is_last and len(answers) < len(tools):
                check_tools(asking.activation.address, self._model)
            return self.bind(**{key: settings[key] for key in settings.keys() - _ANSWERING})
        is_tool = isinstance(answer_format.response_format, ToolStrategy)
        how: Literal["provider", "tool"] = (
            "provider" if "response_format" in settings and not is_tool else "tool"
        )
        if asking.is_last:
            tools = answers if how == "tool" else []
        return _BoundStandIn(with_tools(self._model, tools, **chosen), replace(answer_format, how=how))

    def bind(self, **settings: object) -> "_BoundStandIn":
        """Return the model with settings."""
        return _BoundStandIn(
            self._model.bind(**settings) if settings else self._model, self._answer_format
        )


class _BoundStandIn:
    """A model with tools and settings; LangChain's node calls it."""

    def __init__(self, model: object, answer_format: AnswerFormat | None) -> None:
        self._model, self._answer_format = model, answer_format

    def invoke(self, messages: list[BaseMessage]) -> AIMessage:
        return run_calls(_ASKING.get().ask(self._model, messages, self._answer_format))

    async def ainvoke(self, messages: list[BaseMessage]) -> AIMessage:
        return await arun_calls(_ASKING.get().ask(self._model, messages, self._answer_format))


class Instructing(AgentMiddleware):
    """Sets the model and the system message of this step; outside the user's middleware."""

    @property
    def name(self) -> str:
        """A name that no user's middleware has."""
        return "agentgraph.instruction"

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse:
        """Ask the model of this step, with its system message."""
        return handler(instructed(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Ask the model of this step, with its system message."""
        return await handler(instructed(request))


def instructed(request: ModelRequest) -> ModelRequest:
    """Return a request with the model, the system message and the tools of this step."""
    asking = _ASKING.get()
    if disabled := asking.disabled:
        tools = [tool for tool in getattr(request, "tools", ()) if _name(tool) not in disabled]
        request = _changed(request, tools=tools)
    return _changed(request, model=asking.model, system_message=asking.system)


class UseStandIn:
    """Replaces the model that the user's middleware chose by a `StandInModel`."""

    def __init__(self, answer_format: AnswerFormat | None, *, is_ours: bool) -> None:
        """Make the change for an agent.

        Args:
            answer_format: What the answer must fit, unless middleware changes that.
            is_ours: Whether no user's middleware sees the request; then model and system message of
                the step are set here.
        """
        self._own, self._is_ours = answer_format, is_ours
        self._last: tuple[object, AnswerFormat | None, object] = (None, None, None)

    def __call__(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the stand-in as its model."""
        of_step = instructed(request) if self._is_ours else request
        answer_format = self._answer_format(of_step.response_format)
        if self._last[0] is not of_step.model or self._last[1] is not answer_format:
            self._last = (of_step.model, answer_format, StandInModel(of_step.model, answer_format))
        return _changed(of_step, model=self._last[2])

    def _answer_format(self, response_format: object) -> AnswerFormat | None:
        """Return what the answer must fit; middleware may have changed it for this call."""
        is_own = response_format is (self._own.response_format if self._own else None)
        return self._own if is_own else answer_format_of(response_format)


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


def unfit(activation: Activation, fault: str | None) -> InvalidOutputError:
    """Return the error for a model whose replies do not fit."""
    head = f"{activation.address}: none of {1 + CORRECTIONS} replies fits the output_schema."
    text = " ".join(each.strip() for each in (head, fault) if each)
    return InvalidOutputError(f"{text} Use a model that keeps to schemas, or a simpler schema")


def _changed(request: ModelRequest, **attributes: object) -> ModelRequest:
    """Return a changed request; not by its `override`, which sets warning filters for all threads."""
    changed = copy(request)
    for name, value in attributes.items():
        object.__setattr__(changed, name, value)
    return changed


def with_system(messages: Sequence[BaseMessage], text: str | None) -> list[BaseMessage]:
    """Return messages with a text added to the system message, or as a new one."""
    if text is None:
        return list(messages)
    first = messages[0] if messages else None
    if isinstance(first, SystemMessage):
        return [with_text(first, text), *messages[1:]]
    return [SystemMessage(text), *messages]

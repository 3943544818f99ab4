"""A stand-in model, which middleware may replace and LangChain's node calls.

The problem: middleware may choose another model or change the request, and must see the real model and
the real system message, as in LangChain. But some things must happen to every request, whichever model
was chosen: `model_input`, metadata that assigns chunks to the agent, corrections of replies that do not
fit, and the last answer without tools.

The rule, from the outside in:
1. `Instructing` sets the model and the system message of this step, where they can change.
2. The user's middleware runs.
3. `UseStandIn` replaces the model that was chosen by a `StandInModel` with the same attributes.
4. LangChain's node binds the tools and calls the stand-in model: it calls `Asking.ask`.

Each layer costs time. Without wrapping middleware and response format, only `Asking.ask` runs.
"""

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Literal

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.graph.chat.model_call import ASKING
from agentgraph.graph.chat.models import (
    BoundModels,
    check_tools,
    core_of,
    name_of_tool,
    takes_tools,
    with_tools,
)
from agentgraph.graph.chat.output import AnswerFormat, answer_format_of
from agentgraph.graph.open_types import AnyRunnable
from agentgraph.graph.sync_async import arun_calls, run_calls

_ANSWERING = {"response_format", "strict"}
"""LangChain's settings that make a provider keep to a schema."""


class StandInModel:
    """Replaces a model; has all attributes of the chat model inside it."""

    def __init__(self, model: AnyRunnable, answer_format: AnswerFormat | None) -> None:
        """Replace a model.

        Args:
            model: The model, with what was bound to it.
            answer_format: The format that its answer must fit.
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
        asking, answer_format = ASKING.get(), self._answer_format
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
        return run_calls(ASKING.get().ask(self._model, messages, self._answer_format))

    async def ainvoke(self, messages: list[BaseMessage]) -> AIMessage:
        return await arun_calls(ASKING.get().ask(self._model, messages, self._answer_format))


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
    asking = ASKING.get()
    if disabled := asking.disabled:
        tools = [tool for tool in getattr(request, "tools", ()) if name_of_tool(tool) not in disabled]
        request = _changed(request, tools=tools)
    return _changed(request, model=asking.model, system_message=asking.system)


class UseStandIn:
    """Replaces the model that the user's middleware chose by a `StandInModel`."""

    def __init__(self, answer_format: AnswerFormat | None, *, is_ours: bool) -> None:
        """Make the change for an agent.

        Args:
            answer_format: The format that the answer must fit, unless middleware changes that.
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
        """Return the format of the answer; middleware may have changed it for this call."""
        is_own = response_format is (self._own.response_format if self._own else None)
        return self._own if is_own else answer_format_of(response_format)


def _changed(request: ModelRequest, **attributes: object) -> ModelRequest:
    """Return a changed request; not by its `override`, which sets warning filters for all threads."""
    changed = copy(request)
    for name, value in attributes.items():
        object.__setattr__(changed, name, value)
    return changed

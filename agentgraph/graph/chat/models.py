"""The model of a chat agent: an object, a name of LangChain's, or what a function chooses."""

import asyncio
from collections.abc import Sequence
from typing import Any

import langchain.chat_models.base
from langchain.chat_models import init_chat_model
from langchain_core.runnables import Runnable, RunnableBinding, RunnableWithFallbacks
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentgraph.agents.agents import ChatAgent
from agentgraph.agents.context import Context
from agentgraph.errors import AgentGraphError, InvalidOutputError
from agentgraph.graph.chat.talking import Call, Talk
from agentgraph.safe_repr import reason, shown
from agentgraph.tree.leaf_faults import toolless


class Models:
    """The models of an agent. What a name stands for is made when it is first asked."""

    def __init__(self, agent: ChatAgent) -> None:
        self._given: Any = agent.model
        self._named: dict[str, Any] = {}

    @property
    def is_chosen(self) -> bool:
        """Whether the model is not there yet."""
        return not isinstance(self._given, Runnable)

    def chosen(self, context: Context) -> Any:
        """Return the model for one step, or its name.

        Raises:
            InvalidOutputError: The function gave something else.
        """
        given = self._given
        if not isinstance(given, Runnable | str):
            given = given(context)
        if not isinstance(given, Runnable | str):
            raise InvalidOutputError(
                f"{context.address}: the function model= gave {shown(given)}; return a LangChain chat "
                "model, or a name such as 'openai:gpt-5'"
            )
        return given

    def named(self, name: str, where: str) -> Talk[Any]:
        """Return the model of a name; async runs make it in a thread, for that imports packages."""
        if name not in self._named:
            made = yield Call(model_named, _amodel_named, (name, where))
            self._named.setdefault(name, made)
        return self._named[name]


def model_named(name: str, where: str) -> Any:
    """Return the model of a name of LangChain's, for what is at `where`.

    Raises:
        AgentGraphError: The name does not become a model.
    """
    try:
        return init_chat_model(name)
    except Exception as error:
        raise AgentGraphError(
            f"{where}: LangChain's init_chat_model cannot make the model {name!r} "
            f"({reason(error)}); install the provider's package, set its key in the "
            "environment, or pass a model object"
        ) from error


async def _amodel_named(name: str, where: str) -> Any:
    return await asyncio.to_thread(model_named, name, where)


def providers() -> list[str]:
    """Return the names of the providers whose models LangChain makes by name."""
    return list(getattr(langchain.chat_models.base, "_BUILTIN_PROVIDERS", ()))


def takes_tools(model: Any) -> bool:
    """Return whether tools can be bound to a model."""
    return next(iter(toolless(model)), None) is None


def check_tools(where: str, model: Any) -> None:
    """Refuse a model for an agent with tools that takes none.

    Raises:
        InvalidOutputError: The model that was chosen takes none.
    """
    for core in toolless(model):
        raise InvalidOutputError(
            f"{where}: the model {type(core).__name__} takes no tools; choose one with bind_tools"
        )


def core_of(model: Any) -> Any:
    """Return the chat model inside others, whose profile says how an answer may be asked for.

    Of several that fall back on each other it is one without structured output, if there is any.
    """
    while isinstance(model, RunnableBinding):
        model = model.bound
    if not isinstance(model, RunnableWithFallbacks):
        return model
    cores = [core_of(each) for each in model.runnables]
    lacking = (e for e in cores if not (getattr(e, "profile", None) or {}).get("structured_output"))
    return next(lacking, cores[0])


def with_tools(model: Any, tools: Sequence[Any], **settings: Any) -> Any:
    """Return a model with tools, and with all that was bound to it before.

    LangChain's own `bind_tools` drops what `bind`, `with_config` or `bind_tools` bound before. A tool
    that was bound in another form, such as with `strict=True`, stays in that form.
    """
    if isinstance(model, RunnableWithFallbacks):
        runnables = [with_tools(each, tools, **settings) for each in model.runnables]
        return model.model_copy(update={"runnable": runnables[0], "fallbacks": runnables[1:]})
    if not isinstance(model, RunnableBinding):
        bound = model.bind_tools(tools, **settings)
        return bound if tools else _without_tools(bound)
    kept = {name: value for name, value in model.kwargs.items() if name not in {"tools", *settings}}
    bound = with_tools(model.bound, _in_form(tools, model.kwargs.get("tools", ())), **settings)
    return model.model_copy(update={"bound": bound, "kwargs": kept})


def _without_tools(bound: Any) -> Any:
    """Return a model without the empty list of tools that was bound: providers refuse one."""
    if not isinstance(bound, RunnableBinding) or "tools" not in bound.kwargs:
        return bound
    kept = {name: value for name, value in bound.kwargs.items() if name != "tools"}
    return bound.model_copy(update={"kwargs": kept})


class BoundModels:
    """Models with the tools of an agent, the last one kept."""

    def __init__(self) -> None:
        self._last: tuple[Any, list[Any], Any] = (None, [], None)

    def bound(self, where: str, model: Any, tools: Sequence[Any]) -> Any:
        """Return a model with tools, for the agent at an address."""
        last, known, _ = self._last
        if last is not model or [*map(id, known)] != [*map(id, tools)]:
            check_tools(where, model)
            self._last = (model, list(tools), with_tools(model, tools))
        return self._last[2]


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

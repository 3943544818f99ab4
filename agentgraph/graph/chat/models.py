"""The models of a chat agent, and the tools that are bound to them.

A model is an object, a name that LangChain knows, or the result of a function.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableBinding, RunnableWithFallbacks
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentgraph.agents.agents import ChatAgent
from agentgraph.agents.context import Context
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.named_models import NamedModels
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.calling import Contained
from agentgraph.graph.nodes.stopping import stoppable
from agentgraph.safe_repr import shown
from agentgraph.tree.rules.chat import toolless


class Models:
    """The models of an agent.

    Attributes:
        fixed: The model, if it is an object; else None.
        named: The models that agents of the tree name.
    """

    def __init__(self, agent: ChatAgent, named: NamedModels) -> None:
        self._model, self.named = agent.model, named
        self.fixed = agent.model if isinstance(agent.model, Runnable) else None

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
    """Return a model without a bound empty list of tools, because providers reject one."""
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
    forms = {name_of_tool(each): each for each in bound}
    named = [(name_of_tool(tool) if bound else None, tool) for tool in tools]
    others = [form for name, form in forms.items() if name not in [each for each, _ in named]]
    return [*(forms.get(name, tool) for name, tool in named), *others]


def name_of_tool(tool: Any) -> object:
    """Return the name of a tool in any form; a provider's own tool without a name as text."""
    if isinstance(tool, dict):
        return tool.get("function", tool).get("name") or str(tool)
    return getattr(tool, "name", None) or convert_to_openai_tool(tool)["function"]["name"]

"""The tools of a chat agent: its own, wrapped ones, agents as tools, `exit`, `break_loop`, transfers.

LangChain returns a runnable from `with_retry()`, `with_fallbacks([...])` or `with_config(...)`, without
a tool's name and arguments. `WrappedTool` is a tool that calls the runnable and has these.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import cache, lru_cache, wraps
from typing import Annotated, Any, NamedTuple, cast

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolOutputMixin
from langchain_core.runnables import RunnableConfig, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, tool
from pydantic import BaseModel, Field

from agentgraph.agents.agents import Agent, AgentTool, ArgsSchema, ChatAgent, Handoff
from agentgraph.agents.functions import Fn, allowed, gives_command, is_async, then
from agentgraph.agents.middleware import tools_of
from agentgraph.agents.schemas import answer_tools, json_schema
from agentgraph.agents.signals import (
    BreakLoop,
    Capabilities,
    Exit,
    JsonSchema,
    ResponseSchema,
    TransferTo,
)
from agentgraph.agents.tool_results import HANDOFF, LONG_RUNNING, TRANSFERRED, Content
from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import reason, shown

CallId = Annotated[str, InjectedToolCallId]
"""A parameter that LangChain fills with the id of the call."""


class Request(BaseModel):
    """The arguments of an agent as a tool."""

    request: str = Field(description="The task for the agent, with all that it has to know.")


class AgentCall(BaseTool):
    """An agent as a tool, as the model sees it; the tool node runs the agent."""

    args_schema: type[BaseModel] | dict[str, Any] = Request

    def _run(self, **_: object) -> str:
        raise NotImplementedError(f"the agent {self.name!r} only runs in the graph of its caller")


class HandoffCall(AgentCall):
    """A handoff tool with arguments, as the model sees it; the tool node makes the handoff."""

    handoff: Any

    def _run(self, **_: object) -> str:
        raise NotImplementedError(f"{self.name!r} only transfers in the graph of its caller")


def as_tool(thing: object) -> BaseTool:
    """Convert a tool in any accepted form to a LangChain tool; a function needs a docstring."""
    if isinstance(thing, AgentTool):
        about = thing.description or thing.agent.description
        return AgentCall(
            name=thing.agent.name,
            description=about or f"Asks the agent {thing.agent.name}.",
            args_schema=_arguments(thing.args_schema),
        )
    if isinstance(thing, Handoff):
        raise TypeError("a handoff belongs in sub_agents=")
    if isinstance(thing, Agent):
        raise TypeError("an agent becomes a tool by agent_tool(agent)")
    if not isinstance(thing, BaseTool) and (inner := inner_tool(thing)) is not None:
        return wrapped(thing, inner).with_inner(as_tool)
    langchain_tool = thing if isinstance(thing, BaseTool) or not callable(thing) else tool(thing)
    if not isinstance(langchain_tool, BaseTool):
        raise TypeError("it is not a function")
    if not isinstance(langchain_tool, StructuredTool) or langchain_tool.response_format != "content":
        return langchain_tool
    functions = {"func": _several(langchain_tool.func), "coroutine": _several(langchain_tool.coroutine)}
    return langchain_tool.model_copy(update=functions)


def _arguments(schema: ArgsSchema) -> type[BaseModel] | JsonSchema:
    """Return the arguments of an agent as a tool in LangChain's form: a model or a JSON schema."""
    if schema is None:
        return Request
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema
    made = json_schema(cast(ResponseSchema, schema)) or {}
    return {"title": "Arguments", "description": "", **made}


def long_running(tool: object) -> BaseTool:
    """Make a tool whose real result comes later, from outside the run.

    The model gets the first result of the tool, such as "The request is filed.", and the turn
    continues. `Runner.thread(id).open_calls` lists such calls. A later turn passes the result of one,
    as `run(ToolMessage("Approved.", tool_call_id=...))`. The model reads it as a message of the user
    that names the tool and the call, at the end of the history, because its call has a result already.
    If several open calls have one `tool_call_id`, pass the `id` that each of them has in `open_calls`.

    >>> from agentgraph.testing import ScriptedChatModel, call, calls, transcript
    >>> def file(what: str) -> str:
    ...     "Files a request."
    ...     return "It is filed."
    >>> model = ScriptedChatModel(responses=[calls(call("file", what="bees")), "Filed.", "Fine."])
    >>> runner = Runner(chat_agent("clerk", model, tools=[long_running(file)]))
    >>> _ = runner.invoke("File bees.", thread_id="1")
    >>> (filed,) = runner.thread("1").open_calls
    >>> result = ToolMessage("Approved.", tool_call_id=filed.tool_call_id)
    >>> transcript(runner.run(result, thread_id="1"))
    ['clerk: Fine.']

    Args:
        tool: A LangChain tool, or a function with a docstring.

    Returns:
        The tool, for `chat_agent(tools=[...])`.

    Raises:
        AgentGraphError: `tool` is neither.
    """
    try:
        made = as_tool(None if isinstance(tool, AgentTool) else tool)
    except Exception as error:
        raise AgentGraphError(
            f"long_running({shown(tool)}): pass a LangChain tool, or a function with a docstring "
            f"({reason(error)})"
        ) from error
    return made.model_copy(update={"metadata": {**(made.metadata or {}), LONG_RUNNING: True}})


def is_long_running(tool: BaseTool) -> bool:
    """Return whether the real result of a tool comes later."""
    return bool((tool.metadata or {}).get(LONG_RUNNING))


def _several(fn: Fn | None) -> Fn | None:
    """Make a function that wraps texts in `Content` if it returns them in a list with signals.

    LangChain joins a list to one text unless each item is a `ToolOutputMixin`.
    """
    if fn is None:
        return None

    @wraps(fn)
    def call(*args: object, **kwargs: object) -> object:
        returned = fn(*args, **kwargs)
        if hasattr(type(returned), "__await__"):
            return then(returned, lambda come: _apart(come()))
        return _apart(returned)

    @wraps(fn)
    async def acall(*args: object, **kwargs: object) -> object:
        return _apart(await fn(*args, **kwargs))

    return acall if is_async(fn) else call


def _apart(returned: object) -> object:
    if not isinstance(returned, list | tuple):
        return returned
    if not any(isinstance(item, ToolOutputMixin) for item in returned):
        return returned
    return [item if isinstance(item, ToolOutputMixin) else Content(item) for item in returned]


def destination(thing: object) -> str | None:
    """Return the agent that a handoff tool names as its target in its metadata, or None."""
    metadata = getattr(inner_tool(thing), "metadata", None) or {}
    return metadata.get(HANDOFF) if isinstance(metadata, Mapping) else None


def without_tools(agent: ChatAgent, targets: Iterable[Handoff]) -> list[Handoff]:
    """Return the targets for which the agent has no custom handoff tool.

    A handoff tool names its target in its metadata, or it returns a LangGraph `Command` and has the
    same name as the transfer tool made here.
    """
    everything = (*agent.tools, *tools_of(agent.middleware))
    functions = [each for each in everything if not isinstance(each, AgentTool | Mapping)]
    handing = [each for each in functions if callable(fn := function_of(each)) and gives_command(fn)]
    names = {tool_name(each) for each in handing}
    destinations = {destination(each) for each in functions}
    return [
        target
        for target in targets
        if target.agent.name not in destinations and target.tool_name not in names
    ]


def tool_name(thing: object) -> str:
    """Return the name of a tool in any accepted form."""
    inner = inner_tool(thing)
    return inner.name if inner else str(getattr(thing, "__name__", ""))


def own_tools(agent: ChatAgent, targets: Iterable[Handoff]) -> list[BaseTool]:
    """Return the tools made here: `exit`, `break_loop`, and one for each agent to transfer to."""
    return [
        *([_tool_of(_exit, "exit")] if agent.exit_tool else []),
        *([_tool_of(_break_loop, "break_loop")] if agent.break_tool else []),
        *(_transfer_tool(target) for target in without_tools(agent, targets)),
    ]


def run_tools(agent: ChatAgent, targets: Iterable[Handoff]) -> list[BaseTool]:
    """Return all tools of a chat agent that the graph runs, those of its middleware first.

    Raises:
        Exception: LangChain cannot make a tool from a given value.
    """
    own = (each for each in agent.tools if not isinstance(each, Mapping))
    return [*map(as_tool, (*tools_of(agent.middleware), *own)), *own_tools(agent, targets)]


def seconds_for(agent: ChatAgent, tool: str) -> float | None:
    """Return the maximum seconds of a call of a tool; None for no limit."""
    limit = agent.tool_timeout
    seconds = limit.get(tool) if isinstance(limit, Mapping) else limit
    return seconds.total_seconds() if isinstance(seconds, timedelta) else seconds


def is_async_tool(tool: BaseTool) -> bool:
    """Return whether a tool is async; only then can a call be stopped."""
    tool = inner_tool(tool) or tool
    tool = tool.inner if isinstance(tool, WrappedTool) else tool
    if isinstance(tool, StructuredTool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


def provider_tools(agent: ChatAgent) -> list[dict[str, object]]:
    """Return the tools that the model's provider runs."""
    return [dict(each) for each in agent.tools if isinstance(each, Mapping)]


def transfers_text(targets: Iterable[Handoff]) -> str:
    """Return the text about the transfer tools for the instruction; empty without targets."""
    lines = [
        f"- {target.tool_name}: {target.about or f'the agent {target.agent.name}'}"
        for target in targets
    ]
    if not lines:
        return ""
    head = "You can hand the conversation over to another agent, who continues, with these tools:"
    return "\n".join([head, *lines])


def tool_capabilities(agent: ChatAgent) -> Capabilities:
    """Return the capabilities of a chat agent's tools, by their return annotations."""
    capabilities = Capabilities(
        proceed=bool(agent.return_directly or answer_tools(agent.output_schema)),
        exit=agent.exit_tool,
        break_loop=agent.break_tool,
        transfer=True,
    )
    for each in (*agent.tools, *tools_of(agent.middleware)):
        capabilities |= Capabilities(
            proceed=bool(getattr(inner_tool(each) or each, "return_direct", False))
        )
        if not isinstance(each, AgentTool | Mapping):
            by_type = allowed(function_of(each))
            capabilities |= Capabilities(
                proceed=False, exit=by_type.exit, break_loop=by_type.break_loop
            )
    return capabilities


def function_of(thing: object) -> Fn:
    """Return the function of a tool."""
    thing = inner_tool(thing) or thing
    if not isinstance(thing, BaseTool):
        return thing  # type: ignore[return-value]
    function = getattr(thing, "func", None) or getattr(thing, "coroutine", None)
    return function or thing._run


def _exit(tool_call_id: CallId, final_result: str = "") -> list[ToolMessage | Exit]:
    """End the whole run, with a final result for the user."""
    return [ToolMessage(final_result, tool_call_id=tool_call_id), Exit()]


def _break_loop(tool_call_id: CallId, final_result: str = "") -> list[ToolMessage | BreakLoop]:
    """End the current loop, with its final result."""
    return [ToolMessage(final_result, tool_call_id=tool_call_id), BreakLoop()]


@cache
def _tool_of(fn: Fn, name: str) -> BaseTool:
    """Return the tool of one of our functions, cached because LangChain makes two models for it."""
    return StructuredTool.from_function(fn, name=name)


def _transfer_tool(target: Handoff) -> BaseTool:
    agent = target.agent.name
    about = f"Hand over to {agent}. {target.about}".strip()
    if target.args_schema is None:
        return _plain_transfer_tool(agent, target.tool_name, about)
    return HandoffCall(
        name=target.tool_name,
        description=about,
        args_schema=_arguments(target.args_schema),
        metadata={HANDOFF: agent},
        handoff=target,
    )


@lru_cache(maxsize=1024)
def _plain_transfer_tool(agent: str, name: str, about: str) -> BaseTool:
    """Return a cached tool that transfers to an agent."""

    def transfer(tool_call_id: CallId) -> list[ToolMessage | TransferTo]:
        mark = {TRANSFERRED: agent}
        done = f"Transferred to {agent}."
        result = ToolMessage(done, tool_call_id=tool_call_id, additional_kwargs=mark)
        return [result, TransferTo(agent)]

    metadata = {HANDOFF: agent}
    return StructuredTool.from_function(transfer, name=name, description=about, metadata=metadata)


class Passed(NamedTuple):
    """Carries an exception past retries and fallbacks, which must not handle it."""

    error: Exception


class WrappedTool(BaseTool):
    """A tool called through the runnable that wraps it; the model sees the wrapped tool.

    Attributes:
        inner: The wrapped tool.
        runnable: The runnable that wraps it.
    """

    inner: BaseTool
    runnable: Any

    @property
    def tool_call_schema(self) -> Any:
        """The arguments that the model sees."""
        return self.inner.tool_call_schema

    def get_input_schema(self, config: RunnableConfig | None = None) -> Any:
        """Return the arguments, including injected ones."""
        return self.inner.get_input_schema(config)

    @property
    def func(self) -> Fn | None:
        """The function of the tool, if it has one."""
        return getattr(self.inner, "func", None)

    @property
    def coroutine(self) -> Fn | None:
        """The coroutine function of the tool, if it has one."""
        return getattr(self.inner, "coroutine", None)

    def with_inner(self, change: Callable[[BaseTool], object]) -> "WrappedTool":
        """Return a copy with each tool in its runnable changed."""
        return self.model_copy(update={"runnable": _changed(self.runnable, change)})

    def invoke(self, input: object, config: RunnableConfig | None = None, **kwargs: object) -> object:
        """Call the runnable."""
        return _raised(self.runnable.invoke(input, config, **kwargs))

    async def ainvoke(
        self, input: object, config: RunnableConfig | None = None, **kwargs: object
    ) -> object:
        """Call the runnable on the event loop."""
        return _raised(await self.runnable.ainvoke(input, config, **kwargs))

    def _run(self, *args: object, **kwargs: object) -> object:
        return self.inner._run(*args, **kwargs)


def inner_tool(thing: object) -> BaseTool | None:
    """Return the tool that a runnable wraps, or None.

    >>> from langchain_core.tools import tool
    >>> @tool
    ... def search(topic: str) -> str:
    ...     "Search the library."
    ...     return topic
    >>> inner_tool(search.with_retry().with_config(tags=["library"])).name
    'search'
    """
    if isinstance(thing, RunnableWithFallbacks):
        thing = thing.runnable
    while isinstance(thing, RunnableBindingBase):
        thing = thing.bound
    if isinstance(thing, RunnableWithFallbacks):
        return inner_tool(thing)
    return thing if isinstance(thing, BaseTool) else None


def wrapped(runnable: object, inner: BaseTool) -> WrappedTool:
    """Return a tool for a runnable that wraps a tool."""
    return WrappedTool(
        name=inner.name,
        description=inner.description,
        args_schema=inner.args_schema,
        return_direct=inner.return_direct,
        response_format=inner.response_format,
        metadata=inner.metadata,
        tags=inner.tags,
        extras=inner.extras,
        inner=inner,
        runnable=runnable,
    )


def _changed(runnable: object, change: Callable[[BaseTool], object]) -> object:
    """Return a runnable with each tool in it changed."""
    if isinstance(runnable, BaseTool):
        return change(runnable)
    if isinstance(runnable, RunnableWithFallbacks):
        fallbacks = [_changed(each, change) for each in runnable.fallbacks]
        inner = _changed(runnable.runnable, change)
        return runnable.model_copy(update={"runnable": inner, "fallbacks": fallbacks})
    if isinstance(runnable, RunnableBindingBase):
        return runnable.model_copy(update={"bound": _changed(runnable.bound, change)})
    return runnable


def _raised(result: object) -> object:
    if isinstance(result, Passed):
        raise result.error
    return result

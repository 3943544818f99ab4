"""How one tool call is run: through LangGraph's `ToolNode`, with agents and actions that it lacks.

`ToolNode` checks arguments, injects state, store and runtime, and makes messages of results and
errors. What it invokes stands in for the tool: it takes the actions out of what a tool returned,
or runs the lane of an agent.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple, cast

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolInvocationError

from agentgraph.agents import AgentTool, ChatAgent, agent_tools
from agentgraph.chat.outcome import Outcome
from agentgraph.errors import InvalidOutputError, LimitError
from agentgraph.failures import failures
from agentgraph.history import RESPONDED
from agentgraph.nodes.lane import Lane, LaneResult, last_text
from agentgraph.nodes.site import Site, Surroundings
from agentgraph.nodes.stopping import Stop, stoppable
from agentgraph.nodes.threads import Contained, run_coroutine
from agentgraph.position import may_do_by_tools
from agentgraph.shown import shown_error
from agentgraph.state import TaskResult
from agentgraph.tools import AgentCall, Request, run_tools

_SCOPE = "agentgraph"
"""The key under which a call takes its scope through `ToolNode`."""


class Scope(NamedTuple):
    """What is known where one call runs.

    Attributes:
        outcome: Collects what the call comes to.
        control: Stops the lanes that calls run.
        seen: What is visible to it: calls that run in turn see the values that those before wrote.
    """

    outcome: Outcome
    control: Stop
    seen: Surroundings

    @property
    def name(self) -> str:
        """The name of the tool that is called."""
        return str(self.outcome.opened.call["name"])


class CallRunner:
    """Runs the tool calls of one chat agent, each by itself.

    Attributes:
        agents: What runs for the tools that are agents, by name.
        returning: The names of the tools whose result ends the agent.
    """

    def __init__(self, site: Site, lanes: Sequence[Lane]) -> None:
        agent = cast(ChatAgent, site.place.agent)
        tools = [_guarded(tool) for tool in run_tools(agent, site.target_agents)]
        self.agents = {
            lane.place.name: _LaneTool(site, lane, tool)
            for lane, tool in zip(lanes, agent_tools(agent), strict=True)
        }
        self.returning = {*agent.return_directly, *(t.name for t in tools if t.return_direct)}
        self._may, self._unknown_tool = may_do_by_tools(site.place), agent.unknown_tool
        self._known = {tool.name for tool in tools}
        more: Any = {"handle_tool_errors": _error_text} if agent.on_tool_error == "return" else {}
        self._tool_node = ToolNode(
            tools, wrap_tool_call=self._wrap, awrap_tool_call=self._awrap, **more
        )

    def run(self, scope: Scope) -> TaskResult:
        """Run a call, and return what it came to."""
        outcome = scope.outcome
        with outcome.activation.reported(outcome.opened.number), Contained():
            outcome.add(self._answer(outcome) or self._tool_node.invoke(_payload(scope)))
            return outcome.result(self._may)

    async def arun(self, scope: Scope) -> TaskResult:
        """Run a call on the event loop, as `run` does."""
        outcome = scope.outcome
        with outcome.activation.reported(outcome.opened.number), Contained():
            outcome.add(self._answer(outcome) or await self._tool_node.ainvoke(_payload(scope)))
            return outcome.result(self._may)

    def _answer(self, outcome: Outcome) -> dict[str, Any] | None:
        """Return the result of a call for which no tool runs, if this is one."""
        message = self._decided(outcome) or self._unreadable(outcome) or self._unknown(outcome)
        return {"messages": [message]} if message else None

    def _decided(self, outcome: Outcome) -> ToolMessage | None:
        """Return what a person answered in the place of the tool, worded as LangChain does."""
        call = outcome.opened.call
        decision = outcome.activation.progress.get("decisions", {}).get(str(call["id"]), {})
        match decision.get("type"), decision.get("message"):
            case "respond", message:
                given = outcome.message(str(message))
                return given.model_copy(update={"additional_kwargs": {RESPONDED: True}})
            case "reject", None | "":
                return outcome.message(
                    f"User rejected the tool call for `{call['name']}` with id {call['id']}. The tool "
                    "was not executed. Do not retry this tool call unless the user explicitly requests "
                    "it.",
                    failed=True,
                )
            case "reject", reason:
                text = f"User rejected the tool call for `{call['name']}` with reason: {reason}"
                return outcome.message(text, failed=True)
        return None

    def _unreadable(self, outcome: Outcome) -> ToolMessage | None:
        call, error = outcome.opened.call, outcome.opened.error
        if error is None:
            return None
        return outcome.message(
            f"Error: the arguments of {call['name']} cannot be read: {error}. Call it again, with "
            "arguments that are a JSON object.",
            failed=True,
        )

    def _unknown(self, outcome: Outcome) -> ToolMessage | None:
        call, unknown = outcome.opened.call, self._unknown_tool
        if str(call["name"]) in self._known or unknown == "return":
            return None
        if unknown == "raise":
            raise InvalidOutputError(
                f"{outcome.activation.address}: the model called {call['name']!r}, which is no tool of "
                f"it; there are: {', '.join(sorted(self._known))}"
            )
        return outcome.message(unknown(call["name"], call["args"]))

    def _wrap(self, request: Any, execute: Callable[[Any], Any]) -> Any:
        return execute(request.override(tool=self._runs(request.tool)))

    async def _awrap(self, request: Any, execute: Callable[[Any], Any]) -> Any:
        return await execute(request.override(tool=self._runs(request.tool)))

    def _runs(self, tool: Any) -> Any:
        """Return what `ToolNode` is to invoke in the place of a tool."""
        if isinstance(tool, AgentCall):
            return self.agents[tool.name]
        return tool and _ActingTool(tool)


class _ActingTool:
    """A tool that may return actions."""

    def __init__(self, tool: Any) -> None:
        self.tool = tool

    def invoke(self, call: Any, config: RunnableConfig) -> Any:
        is_async_only = getattr(self.tool, "coroutine", None) and not getattr(self.tool, "func", None)
        if is_async_only:
            return run_coroutine(self.ainvoke(call, config))
        return call[_SCOPE].outcome.take(self.tool.invoke(call, config))

    async def ainvoke(self, call: Any, config: RunnableConfig) -> Any:
        with stoppable(is_thread=_is_guarded(self.tool)):
            returned = await self.tool.ainvoke(call, config)
        return call[_SCOPE].outcome.take(returned)


class _LaneTool:
    """An agent as a tool: a call runs its lane."""

    def __init__(self, site: Site, lane: Lane, tool: AgentTool) -> None:
        self.site, self.lane, self.tool = site, lane, tool

    def invoke(self, call: Any, config: RunnableConfig) -> ToolMessage:
        scope = call[_SCOPE]
        with _told(scope.outcome):
            return self._result(scope, self.lane.run(*self._arguments(scope, call)))

    async def ainvoke(self, call: Any, config: RunnableConfig) -> ToolMessage:
        scope = call[_SCOPE]
        with _told(scope.outcome):
            return self._result(scope, await self.lane.arun(*self._arguments(scope, call)))

    def _arguments(self, scope: Scope, call: Any) -> Any:
        activation, number = scope.outcome.activation, scope.outcome.opened.number
        request = HumanMessage(Request.model_validate(call["args"]).request)
        around = scope.seen.messages if self.tool.history == "shared" else ()
        surroundings = replace(scope.seen, messages=[*around, request])
        return self.site, (*activation.cursor, number), surroundings, scope.control

    def _result(self, scope: Scope, result: LaneResult) -> ToolMessage:
        scope.outcome.write(result["values"])
        before = scope.outcome.activation.seen.transfers
        scope.outcome.add_transfers(result.get("transfers", before) - before)
        return scope.outcome.message(last_text(result))


def _guarded(tool: BaseTool) -> BaseTool:
    """Return a tool whose function is guarded where it is called.

    LangChain calls it in a task of its own, and goes on for a while when it has ended: what would end
    the event loop must be caught before, and when it has ended it is not to be cancelled any more.
    """
    if not isinstance(tool, StructuredTool):
        return tool
    functions = {"func": _contained(tool.func), "coroutine": _stoppable(tool.coroutine)}
    return tool.model_copy(update=functions)


def _contained(fn: Callable[..., Any] | None) -> Callable[..., Any] | None:
    if fn is None:
        return None

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with Contained(in_task=True):
            return fn(*args, **kwargs)

    return call


def _stoppable(fn: Callable[..., Any] | None) -> Callable[..., Any] | None:
    if fn is None:
        return None

    @wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with Contained(in_task=True), stoppable():
            return await fn(*args, **kwargs)

    return call


def _is_guarded(tool: Any) -> bool:
    """Return whether a tool needs no guard around all of its call: its function has one, or is sync."""
    is_sync = isinstance(tool, BaseTool) and type(tool)._arun is BaseTool._arun
    return isinstance(tool, StructuredTool) or is_sync


def _error_text(error: Exception) -> str:
    """Return what the model is told of an exception, worded as LangGraph does.

    Raises:
        LimitError: That is no matter of the model's: the turn has reached its end.
    """
    if isinstance(error, LimitError):
        raise error
    if isinstance(error, ToolInvocationError):
        return str(error.message)
    return f"Error: {shown_error(error)}\n Please fix your mistakes."


@contextmanager
def _told(outcome: Outcome) -> Iterator[None]:
    """Tell of failures inside an agent, for its caller may go on with them."""
    try:
        yield
    except GraphBubbleUp:
        raise
    except Exception as error:
        for at, shown in failures(error):
            outcome.tell("error", [at, shown])
        raise


def _payload(scope: Scope) -> dict[str, Any]:
    """Return the input of `ToolNode` for one call, with the state that tools may ask for."""
    seen = scope.seen
    return {
        "__type": "tool_call_with_context",
        "tool_call": {**scope.outcome.opened.call, _SCOPE: scope},
        "state": {"messages": list(seen.messages), "values": dict(seen.values)},
    }

"""How one tool call is run: through LangGraph's `ToolNode`, with agents and actions that it lacks.

`ToolNode` checks arguments, injects state, store and runtime, and makes messages of results and
errors. What it invokes stands in for the tool: it takes the actions out of what a tool returned,
or runs the lane of an agent.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp, is_invalid_resume

from agentgraph.agents import AgentTool, agent_tools
from agentgraph.chat.agent import BuiltAgent
from agentgraph.chat.guarding import guarded, is_guarded
from agentgraph.chat.laid_flat import InnerWraps
from agentgraph.chat.outcome import Outcome
from agentgraph.errors import InvalidOutputError, LimitError
from agentgraph.failures import failures
from agentgraph.nodes.lane import Lane, LaneResult, last_text
from agentgraph.nodes.site import Site, Surroundings
from agentgraph.nodes.stopping import Stop, stoppable, stopping_itself
from agentgraph.nodes.threads import Contained, run_coroutine
from agentgraph.position import may_do_by_tools
from agentgraph.shown import shown_error
from agentgraph.state import TaskResult, with_id
from agentgraph.tools import AgentCall, Request, run_tools


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


_SCOPE: ContextVar[Scope] = ContextVar("scope")
"""The scope of the call that runs: through `ToolNode` and middleware, which make calls anew."""


class CallRunner:
    """Runs the tool calls of one chat agent, each by itself.

    Attributes:
        agents: What runs for the tools that are agents, by name.
        returning: The names of the tools whose result ends the agent.
    """

    def __init__(self, built: BuiltAgent, lanes: Sequence[Lane]) -> None:
        self._built, agent, site = built, built.agent, built.site
        tools = run_tools(agent, site.target_agents)
        self.agents = {
            lane.place.name: _LaneTool(site, lane, tool)
            for lane, tool in zip(lanes, agent_tools(agent), strict=True)
        }
        self.returning = {*agent.return_directly, *(t.name for t in tools if t.return_direct)}
        self._may, self._unknown_tool = may_do_by_tools(site.place), agent.unknown_tool
        self._known = {tool.name for tool in tools}

        self._tool_node = built.tool_node(InnerWraps(self._wrap, self._awrap))

    def run(self, scope: Scope) -> TaskResult:
        """Run a call, and return what it came to."""
        outcome = scope.outcome
        with outcome.activation.reported(outcome.opened.number), Contained(), _in_scope(scope):
            outcome.add(self._answer(outcome) or self._run(scope))
            return outcome.result(self._may)

    async def arun(self, scope: Scope) -> TaskResult:
        """Run a call on the event loop, as `run` does."""
        outcome = scope.outcome
        with outcome.activation.reported(outcome.opened.number), Contained(), _in_scope(scope):
            outcome.add(self._answer(outcome) or await self._arun(scope))
            return outcome.result(self._may)

    def _run(self, scope: Scope) -> Any:
        try:
            return self._tool_node.invoke(self._payload(scope))
        except Exception as error:
            return self._failed(scope.outcome, error)

    async def _arun(self, scope: Scope) -> Any:
        try:
            with stoppable() if self._built.wraps_tools else nullcontext():
                return await self._tool_node.ainvoke(self._payload(scope))
        except Exception as error:
            return self._failed(scope.outcome, error)

    def _failed(self, outcome: Outcome, error: Exception) -> dict[str, Any]:
        """Return what the model is told of a failure that no middleware took.

        Raises:
            Exception: The failure itself: it is not the model's matter.
        """
        if isinstance(error, _UnknownToolError):
            raise error.error
        is_control = isinstance(error, GraphBubbleUp | LimitError) or is_invalid_resume(error)
        if is_control or self._built.agent.on_tool_error == "raise":
            raise error
        text = f"Error: {shown_error(error)}\n Please fix your mistakes."
        return {"messages": [outcome.message(text, failed=True)]}

    def _answer(self, outcome: Outcome) -> dict[str, Any] | None:
        """Return the result of a call for which no tool runs, if this is one."""
        message = self._unreadable(outcome)
        if message is None and not self._built.wraps_tools:
            message = self._unknown(outcome)
        return {"messages": [message]} if message else None

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
        answer = self._unknown_inside(request)
        return answer or execute(request.override(tool=self._runs(request)))

    async def _awrap(self, request: Any, execute: Callable[[Any], Any]) -> Any:
        answer = self._unknown_inside(request)
        return answer or await execute(request.override(tool=self._runs(request)))

    def _unknown_inside(self, request: Any) -> ToolMessage | None:
        """Return the answer to a call to which no middleware gave a tool either."""
        if request.tool is not None:
            return None
        try:
            return self._unknown(_SCOPE.get().outcome)
        except Exception as error:
            raise _UnknownToolError(error) from error

    def _runs(self, request: Any) -> Any:
        """Return what `ToolNode` is to invoke in the place of a tool."""
        tool, _SCOPE.get().outcome.tool = request.tool, request.tool_call["name"]
        if isinstance(tool, AgentCall):
            return self.agents[tool.name]
        is_own = tool is None or tool is self._tool_node.tools_by_name.get(tool.name)
        return tool and _ActingTool(tool if is_own else guarded(tool))

    def _payload(self, scope: Scope) -> dict[str, Any]:
        """Return the input of `ToolNode` for one call, with the state that tools may ask for."""
        seen = scope.seen
        values = dict(seen.values)
        state = self._built.state(scope.outcome.activation, values)
        return {
            "__type": "tool_call_with_context",
            "tool_call": scope.outcome.opened.call,
            "state": {**state, "values": values, "messages": list(seen.messages)},
        }


class _UnknownToolError(Exception):
    """Takes what a call to an unknown tool raised out of `ToolNode`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class _ActingTool:
    """A tool that may return actions; where middleware calls it again, the last time counts."""

    def __init__(self, tool: Any) -> None:
        self.tool = tool

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tool, name)

    def invoke(self, call: Any, config: RunnableConfig) -> Any:
        is_async_only = getattr(self.tool, "coroutine", None) and not getattr(self.tool, "func", None)
        if is_async_only:
            return run_coroutine(self.ainvoke(call, config))
        outcome = _SCOPE.get().outcome
        outcome.restart()
        return outcome.take(self.tool.invoke(call, config))

    async def ainvoke(self, call: Any, config: RunnableConfig) -> Any:
        outcome = _SCOPE.get().outcome
        outcome.restart()
        with stoppable(is_thread=is_guarded(self.tool)):
            returned = await self.tool.ainvoke(call, config)
        return outcome.take(returned)


class _LaneTool:
    """An agent as a tool: a call runs its lane, once, however often middleware calls it."""

    def __init__(self, site: Site, lane: Lane, tool: AgentTool) -> None:
        self.site, self.lane, self.tool = site, lane, tool

    def invoke(self, call: Any, config: RunnableConfig) -> ToolMessage:
        scope = _SCOPE.get()
        with _told(scope.outcome):
            if scope.outcome.came is None:
                self._take(scope, self.lane.run(*self._arguments(scope, call)))
        return scope.outcome.message(scope.outcome.came)

    async def ainvoke(self, call: Any, config: RunnableConfig) -> ToolMessage:
        scope = _SCOPE.get()
        with _told(scope.outcome):
            if scope.outcome.came is None:
                with stopping_itself():
                    result = await self.lane.arun(*self._arguments(scope, call))
                self._take(scope, result)
        return scope.outcome.message(scope.outcome.came)

    def _arguments(self, scope: Scope, call: Any) -> Any:
        activation, number = scope.outcome.activation, scope.outcome.opened.number
        said = HumanMessage(Request.model_validate(call["args"]).request)
        request = with_id(said, f"{activation.address} {number}")
        around = scope.seen.messages if self.tool.history == "shared" else ()
        surroundings = replace(scope.seen, messages=[*around, request])
        return self.site, (*activation.cursor, number), surroundings, scope.control

    def _take(self, scope: Scope, result: LaneResult) -> None:
        scope.outcome.write(result["values"])
        before = scope.outcome.activation.seen.transfers
        scope.outcome.add_transfers(result.get("transfers", before) - before)
        scope.outcome.came = last_text(result)


@contextmanager
def _in_scope(scope: Scope) -> Iterator[None]:
    token = _SCOPE.set(scope)
    try:
        yield
    finally:
        _SCOPE.reset(token)


@contextmanager
def _told(outcome: Outcome) -> Iterator[None]:
    """Tell of failures inside an agent, for its caller may go on with them; and keep the failure."""
    if outcome.failure is not None:
        raise outcome.failure
    try:
        yield
    except GraphBubbleUp:
        raise
    except Exception as error:
        for at, shown in failures(error):
            outcome.tell("error", [at, shown])
        outcome.failure = error
        raise

"""How one tool call is run: through LangGraph's `ToolNode`, with agents and actions that it lacks.

`ToolNode` checks arguments, injects state, store and runtime, and makes messages of results and
errors. What it invokes stands in for the tool: it takes the actions out of what a tool returned,
or runs the lane of an agent.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import get_runtime

from agentgraph.agents.agents import agent_tools
from agentgraph.agents.tools import AgentCall, destination, run_tools, seconds_for
from agentgraph.errors import InvalidOutputError, LimitError
from agentgraph.graph.chat.acting import (
    SCOPE,
    ActingTool,
    LaneTool,
    Scope,
    context_parameters,
    in_scope,
)
from agentgraph.graph.chat.agent import BuiltAgent
from agentgraph.graph.chat.calls import OpenCall
from agentgraph.graph.chat.guarding import guarded
from agentgraph.graph.chat.laid_flat import InnerWraps, arun_call, injects_state, run_call
from agentgraph.graph.chat.outcome import Outcome
from agentgraph.graph.chat.state_access import with_state
from agentgraph.graph.chat.tool_errors import told_of
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.stopping import run_off_loop, stoppable
from agentgraph.graph.nodes.telling import Writer, with_writer
from agentgraph.graph.state import TaskResult
from agentgraph.tree.position import may_do_by_tools

_PASSED_OVER = "Not carried out: of several transfers in one message only the last one is."


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
            lane.place.name: LaneTool(site, lane, tool)
            for lane, tool in zip(lanes, agent_tools(agent), strict=True)
        }
        self.returning = {*agent.return_directly, *(t.name for t in tools if t.return_direct)}
        self._may, self._unknown_tool = may_do_by_tools(site.place), agent.unknown_tool
        self._known = {tool.name for tool in tools}
        self._handing_over = {tool.name for tool in tools if destination(tool) in site.targets}

        self._tool_node = built.tool_node(InnerWraps(self._wrap, self._awrap))
        found = self._tool_node.tools_by_name
        self._contexts = {name: context_parameters(tool) for name, tool in found.items()}
        self._see_state = {name for name in found if injects_state(self._tool_node, name)}

    def run(self, scope: Scope) -> TaskResult:
        """Run a call, and return what it came to."""
        outcome = scope.outcome
        with _reported(outcome), self._in_scope(scope):
            outcome.add(self._answer(scope) or self._run(scope), scope.state)
            return outcome.result(self._may)

    async def arun(self, scope: Scope) -> TaskResult:
        """Run a call on the event loop, as `run` does."""
        outcome = scope.outcome
        with _reported(outcome), self._in_scope(scope):
            outcome.add(self._answer(scope) or await self._arun(scope), scope.state)
            return outcome.result(self._may)

    def _run(self, scope: Scope) -> Any:
        try:
            call, runtime = scope.outcome.opened.call, self._runtime(scope)
            return run_off_loop(run_call, self._tool_node, call, runtime)
        except Exception as error:
            return self._failed(scope.outcome, error)

    async def _arun(self, scope: Scope) -> Any:
        try:
            with stoppable() if self._built.wraps_tools else nullcontext():
                call, runtime = scope.outcome.opened.call, self._runtime(scope)
                return await arun_call(self._tool_node, call, runtime)
        except Exception as error:
            return self._failed(scope.outcome, error)

    def _failed(self, outcome: Outcome, error: Exception) -> ToolMessage:
        """Return what the model is told of a failure that no middleware took.

        Raises:
            Exception: The failure itself: it is not the model's matter.
        """
        if isinstance(error, _UnknownToolError):
            raise error.error
        is_control = isinstance(error, GraphBubbleUp | LimitError) or is_invalid_resume(error)
        told = None if is_control else told_of(error, self._built.agent.on_tool_error)
        if told is None:
            raise error
        return outcome.message(told, failed=True)

    def transfers(self, opened: OpenCall, tool: str) -> bool:
        """Return whether a call that runs a tool is known to hand over."""
        return tool in self._handing_over and opened.error is None

    def _answer(self, scope: Scope) -> ToolMessage | None:
        """Return the result of a call for which no tool runs, if this is one."""
        outcome = scope.outcome
        message = self._unreadable(outcome)
        if scope.is_passed_over:
            message = outcome.message(_PASSED_OVER, failed=True)
        if message is None and not self._built.wraps_tools:
            message = self._unknown(outcome)
        return message

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
            return self._unknown(SCOPE.get().outcome)
        except Exception as error:
            raise _UnknownToolError(error) from error

    def _runs(self, request: Any) -> Any:
        """Return what `ToolNode` is to invoke in the place of a tool."""
        tool, SCOPE.get().outcome.tool = request.tool, request.tool_call["name"]
        if isinstance(tool, AgentCall):
            return self.agents[tool.name]
        if tool is None:
            return None
        name = str(tool.name)
        if tool is self._tool_node.tools_by_name.get(name):
            return ActingTool(tool, self._contexts[name], self._seconds(name))
        return ActingTool(guarded(tool), context_parameters(tool), self._seconds(name))

    def _seconds(self, name: str) -> float | None:
        return seconds_for(self._built.agent, name)

    def _in_scope(self, scope: Scope) -> AbstractContextManager[None]:
        """Make the call known to what runs for it, and lead LangGraph's ways to the agent's state."""
        names = self._built.channels.names
        config = with_writer(get_config(), Writer(scope.outcome.teller))
        return in_scope(scope, with_state(config, names, scope.state, scope.update))

    def _runtime(self, scope: Scope) -> ToolRuntime:
        """Return what LangGraph gives to tools, with the state where something asks for it."""
        call, runtime = scope.outcome.opened.call, get_runtime()
        is_seen = self._built.wraps_tools or call["name"] in self._see_state
        return ToolRuntime(
            state=scope.state() if is_seen else {},
            context=runtime.context,
            config=get_config(),
            stream_writer=runtime.stream_writer,
            tool_call_id=call["id"],
            store=runtime.store,
            tools=[*self._tool_node.tools_by_name.values()],
            execution_info=runtime.execution_info,
            server_info=runtime.server_info,
        )


def _reported(outcome: Outcome) -> AbstractContextManager[None]:
    return outcome.activation.reported(outcome.opened.number, outcome.teller)


class _UnknownToolError(Exception):
    """Takes what a call to an unknown tool raised out of `ToolNode`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error

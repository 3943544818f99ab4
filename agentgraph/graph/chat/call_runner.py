"""Runs one tool call through LangGraph's `ToolNode`.

`ToolNode` checks arguments, injects state, store and runtime, and turns results and errors into
messages. It invokes a wrapper in place of the tool (`called_tools.py`), which takes the actions out of
what the tool returned, or runs the lane of an agent.
"""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from functools import partial
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import (
    INVALID_TOOL_NAME_ERROR_TEMPLATE,
)
from langgraph.runtime import get_runtime

from agentgraph.agents.agents import agent_tools
from agentgraph.agents.tools import (
    AgentCall,
    HandoffCall,
    destination,
    tool_capabilities,
)
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.chat.agent import BuiltAgent, guarded, steers
from agentgraph.graph.chat.called_tools import ActingTool, HandoffTool, LaneTool
from agentgraph.graph.chat.flattened import arun_call, injects_state, run_call
from agentgraph.graph.chat.tool_call import RUNNING, RunningCall
from agentgraph.graph.chat.tool_errors import ERROR_TEXT, UnknownToolError, error_result, handled_types
from agentgraph.graph.chat.tool_parameters import injected, validated
from agentgraph.graph.copied_values import private
from agentgraph.graph.foreign.flat_graph import with_state
from agentgraph.graph.foreign.handoffs import PASSED_OVER
from agentgraph.graph.history import unchanged
from agentgraph.graph.internals import RESUME_MAP, RESUMING
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.callers import CALLER
from agentgraph.graph.nodes.calling import run_off_loop
from agentgraph.graph.nodes.emitter import Writer, with_writer
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.parking import check_parked, park, take_answers
from agentgraph.graph.nodes.reporter import Reporter
from agentgraph.graph.nodes.stopping import stoppable
from agentgraph.graph.stamps import now
from agentgraph.graph.sync_async import Call
from agentgraph.graph.task_results import TaskResult
from agentgraph.safe_repr import shown_error


class CallRunner:
    """Runs single tool calls of one chat agent.

    Attributes:
        agents: The wrappers of the tools that are agents, by name.
        returning: The names of the tools whose result ends the agent.
        handing_over: The names of the tools that transfer to another agent.
    """

    def __init__(self, built: BuiltAgent, lanes: Sequence[Lane]) -> None:
        self._built, agent, node_context, tools = built, built.agent, built.node_context, built.tools
        self.agents = {
            lane.place.given_name: LaneTool(node_context, lane, tool)
            for lane, tool in zip(lanes, agent_tools(agent), strict=True)
        }
        self.returning = {*agent.return_directly, *(t.name for t in tools if t.return_direct)}
        self.handing_over = {tool.name for tool in tools if destination(tool) in node_context.targets}
        self._may, self._unknown_tool = tool_capabilities(agent), agent.unknown_tool
        on_tool_error = agent.on_tool_error
        self._marks = on_tool_error != "raise" and issubclass(
            InvalidOutputError, handled_types(on_tool_error)
        )
        self._names = [tool.name for tool in tools]
        self._known = set(self._names)
        self._tool_node = built.tool_node(self._ready)
        by_name = self._tool_node.tools_by_name
        self._acting = {name: ActingTool(tool, agent) for name, tool in by_name.items()}
        self._see_state = {name for name in by_name if injects_state(self._tool_node, name)}
        self._fields = {name: validated(self._tool_node, name) for name in self._see_state}
        self._shares_state = built.shares_state("wrap_tool_call")

    def reads_state(self, calls: Sequence[RunningCall]) -> bool:
        """Return whether a tool or middleware reads the agent's state in one of several calls."""
        return self._built.wraps_tools or any(each.tool_name in self._see_state for each in calls)

    async def talk(self, running: RunningCall) -> TaskResult:
        """Run a call, and return its result."""
        activation, number = running.activation, running.opened.number
        running.began = now()
        reporter = Reporter(activation, number, running.emitter, emits=running.parks)
        with reporter, self._in_scope(running):
            if activation.node_config["configurable"].get(RESUMING) and (
                failed := await running.failed_before()
            ):
                running.fail(ERROR_TEXT.format(shown_error(failed)))
                return running.result(self._may)
            running.add(await self._answer(running) or await self._run_tool(running))
            try:
                running.save(marks=self._marks)
            except InvalidOutputError as error:
                await self._unsaved(running, error)
            return running.result(self._may)

    async def talk_in_task(self, running: RunningCall) -> TaskResult:
        """Run a call concurrently with others, or after them, unless the run was stopped meanwhile.

        Raises:
            Parked: It waits for an answer, and others may run.
            GraphDrained: It was stopped, and the run brings no answers that a call may have to take.
        """
        config = running.activation.config
        if not config["configurable"].get(RESUME_MAP):
            running.control.begin_step(config)
        if not running.parks:
            return await self.talk(running)
        check_parked(running.control)
        take_answers(running.control)
        try:
            return await self.talk(running)
        except GraphInterrupt as paused:
            await park(paused.args[0], running.activation.node_config, running.control)

    async def _run_tool(self, running: RunningCall) -> object:
        node, call = self._tool_node, running.opened.call
        came, failed = None, None
        try:
            arguments = (node, private(call), self._runtime(running))
            came = await Call(partial(run_off_loop, run_call), self._arun_call, arguments)
        except Exception as error:
            failed = error
        if running.fatal is not None:
            raise running.fatal  # whatever middleware made of it
        return came if failed is None else await self._failed(running, failed)

    async def _arun_call(self, node: ToolNode, call: ToolCall, runtime: ToolRuntime) -> object:
        if not self._built.wraps_tools:
            return await arun_call(node, call, runtime)
        with stoppable():
            return await arun_call(node, call, runtime)

    async def _unsaved(self, running: RunningCall, error: InvalidOutputError) -> None:
        """Replace a tool result that cannot be saved by an error that the model reads.

        Raises:
            InvalidOutputError: The failure itself, if `on_tool_error` does not cover it. It is saved: a
                resume returns it to the model, and does not run the tool again.
        """
        how, at = self._built.agent.on_tool_error, running.activation.address
        content = await error_result(error, how, at)
        if content is None:
            await running.save_failure(error)
            raise error
        running.fail(content)

    async def _failed(self, running: RunningCall, error: Exception) -> ToolMessage:
        """Return the message to the model for a failure that no middleware handled.

        Raises:
            Exception: The failure itself, if `on_tool_error` does not cover it.
        """
        if isinstance(error, UnknownToolError):
            raise error.error
        how, at = self._built.agent.on_tool_error, running.activation.address
        content = None if steers(error) else await error_result(error, how, at)
        if content is None:
            raise error
        return running.message(content, failed=True)

    async def _answer(self, running: RunningCall) -> ToolMessage | None:
        """Return the result if no tool has to run: a passed-over, unreadable or unknown call."""
        if running.is_ignored:
            return running.message(PASSED_OVER, failed=True)
        call, error = running.opened.call, running.opened.error
        if error is not None:
            return running.message(
                f"Error: the arguments of {call['name']} cannot be read: {error}. Call it again, with "
                "arguments that are a JSON object.",
                failed=True,
            )
        if self._built.switched and (disabled := await self._disabled(running)):
            answer = await self._unknown(running, disabled)
            return answer or self._not_offered(running, disabled)
        if call["name"] in self._known or self._built.wraps_tools:
            return None
        return await self._unknown(running)

    async def _disabled(self, running: RunningCall) -> Set[str]:
        """Return the names of the tools that are not enabled, if the call is of one of them."""
        name = running.opened.call["name"]
        if all(tool.agent.name != name for tool in self._built.switched):
            return frozenset()
        context = running.activation.view.context(unchanged, running.current)
        disabled = await self._built.disabled(context)
        return disabled if name in disabled else frozenset()

    def _not_offered(self, running: RunningCall, disabled: Set[str]) -> ToolMessage:
        """Return the answer to a call of a tool that is not enabled: LangGraph's for an unknown one."""
        tools = ", ".join(name for name in self._names if name not in disabled)
        text = INVALID_TOOL_NAME_ERROR_TEMPLATE.format(
            requested_tool=running.opened.call["name"], available_tools=tools
        )
        return running.message(text, failed=True)

    async def _unknown(
        self, running: RunningCall, disabled: Set[str] = frozenset()
    ) -> ToolMessage | None:
        """Return the answer to a call of an unknown tool; None if LangGraph answers it."""
        call, unknown = running.opened.call, self._unknown_tool
        if unknown == "return":
            return None
        if unknown == "raise":
            raise InvalidOutputError(
                f"{running.activation.address}: the model called the unknown tool {call['name']!r}; "
                f"the agent's tools: {', '.join(sorted(self._known - disabled))}"
            )
        at = running.activation.address
        answer = await asked(at, "unknown_tool", unknown, call["name"], call["args"])
        return running.message(answer)

    def _ready(self, request: Any) -> object:
        """Return a request whose tool is our wrapper; or the calls that give that or an answer.

        If not even middleware supplied a tool, `unknown_tool` may answer.
        """
        return self._readied(request) if request.tool is not None else self._answered(request)

    async def _answered(self, request: Any) -> object:
        """Return the answer to a call of an unknown tool, or the request if LangGraph answers it."""
        try:
            is_known = str(request.tool_call["name"]) in self._known
            answer = None if is_known else await self._unknown(RUNNING.get())
        except Exception as error:
            raise UnknownToolError(error) from error
        return self._readied(request) if answer is None else answer

    def _readied(self, request: Any) -> object:
        running, tool = RUNNING.get(), request.tool
        running.tool, running.arguments = request.tool_call["name"], request.tool_call["args"]
        if isinstance(tool, HandoffCall):
            return request.override(tool=HandoffTool(tool))
        if isinstance(tool, AgentCall):
            return request.override(tool=self.agents[tool.name])
        if tool is None:
            return request.override(tool=None)
        acting = self._acting.get(str(tool.name))
        if acting is None or acting.tool is not tool:
            acting = ActingTool(guarded(tool), self._built.agent)
        return request.override(tool=acting)

    @contextmanager
    def _in_scope(self, running: RunningCall) -> Iterator[None]:
        config = get_config()
        if self._built.wraps_tools:
            config = running.activation.with_place(config)
        if running.emitter is not running.activation.output.emitter:
            config = with_writer(config, Writer(running.emitter))
        config = with_state(config, self._built.channels.names, running.read, running.send)
        token, outer = RUNNING.set(running), var_child_runnable_config.set(config)
        around = CALLER.set(running.caller)
        try:
            yield
        finally:
            CALLER.reset(around)
            var_child_runnable_config.reset(outer)
            RUNNING.reset(token)

    def _runtime(self, running: RunningCall) -> ToolRuntime:
        """Return the `ToolRuntime`, with the state only if something reads it: it is costly."""
        call, runtime = running.opened.call, get_runtime()
        reads_state = call["name"] in self._see_state
        is_seen = self._built.wraps_tools or reads_state
        state = running.state(is_shared=self._shares_state and not reads_state) if is_seen else {}
        if reads_state:
            state = injected(state, self._fields[call["name"]])
        return ToolRuntime(
            state=state,
            context=runtime.context,
            config=get_config(),
            stream_writer=runtime.stream_writer,
            tool_call_id=call["id"],
            store=runtime.store,
            tools=[*self._tool_node.tools_by_name.values()],
            execution_info=runtime.execution_info,
            server_info=runtime.server_info,
        )

"""Runs one tool call through LangGraph's `ToolNode`, and adds agents as tools and actions.

`ToolNode` checks arguments, injects state, store and runtime, and turns results and errors into
messages. It invokes a wrapper in place of the tool, which takes the actions out of what the tool
returned, or runs the lane of an agent.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import (
    INVALID_TOOL_NAME_ERROR_TEMPLATE,
    TOOL_INVOCATION_ERROR_TEMPLATE,
)
from langgraph.runtime import get_runtime

from agentgraph.agents.agents import AgentTool, ArgsSchema, ChatAgent, agent_tools
from agentgraph.agents.schemas import plain, typed
from agentgraph.agents.tools import (
    AgentCall,
    HandoffCall,
    Request,
    destination,
    is_async_tool,
    seconds_for,
    tool_capabilities,
)
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.chat.agent import BuiltAgent, guarded, steers
from agentgraph.graph.chat.calls import before_calls
from agentgraph.graph.chat.flattened import arun_call, injects_state, run_call
from agentgraph.graph.chat.output import reply_of
from agentgraph.graph.chat.tool_call import RUNNING, RunningCall
from agentgraph.graph.chat.tool_errors import ERROR_TEXT, UnknownToolError, error_result, handled_types
from agentgraph.graph.chat.tool_parameters import context_parameters, injected, validated
from agentgraph.graph.copied_values import private
from agentgraph.graph.failures import add_note, is_fatal
from agentgraph.graph.foreign.flat_graph import with_state
from agentgraph.graph.foreign.handoffs import PASSED_OVER
from agentgraph.graph.history import unchanged
from agentgraph.graph.internals import RESUME_MAP, RESUMING
from agentgraph.graph.nodes.activation import without_place
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.callers import CALLER
from agentgraph.graph.nodes.calling import remember_loop, run_coroutine, run_off_loop
from agentgraph.graph.nodes.context import NodeContext, RunState
from agentgraph.graph.nodes.emitter import Writer, with_writer
from agentgraph.graph.nodes.lane import Lane, LaneCall, LaneResult, last_text
from agentgraph.graph.nodes.reporter import Reporter
from agentgraph.graph.nodes.stopping import stoppable, wait_for_lane
from agentgraph.graph.nodes.tasks import request_of
from agentgraph.graph.nodes.view import View
from agentgraph.graph.stamps import now
from agentgraph.graph.sync_async import Call, arun_calls, run_calls
from agentgraph.graph.task_results import TaskResult
from agentgraph.safe_repr import as_json, shown_error
from agentgraph.tree.addresses import Cursor, address, entered, is_in_call, numbered_call


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
        return self._built.wraps_tools or any(each.wanted in self._see_state for each in calls)

    async def talk(self, running: RunningCall) -> TaskResult:
        """Run a call, and return its result."""
        activation, number = running.activation, running.opened.number
        running.began = now()
        with Reporter(activation, number, running.emitter), self._in_scope(running):
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
        """Run a call beside or after others, unless the run was stopped meanwhile.

        Raises:
            GraphDrained: It was stopped, and the run brings no answers that a call may have to take.
        """
        if not running.activation.config["configurable"].get(RESUME_MAP):
            running.control.begin_step(running.activation.config)
        return await self.talk(running)

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
        """Have the model read that what a tool gave cannot be saved.

        Raises:
            InvalidOutputError: The failure itself, if `on_tool_error` does not cover it. It is saved: a
                resume gives it to the model, and does not run the tool again.
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
        """Return a request whose tool is our wrapper."""
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
        """Set `RUNNING`, and redirect LangGraph's reads and writes of state to the agent's."""
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


class ActingTool:
    """Wraps a tool that may return actions; if middleware calls it again, the last call counts."""

    def __init__(self, tool: BaseTool, agent: ChatAgent) -> None:
        """Wrap a tool of an agent; the agent says how long an async call may take."""
        self.tool, self._contexts = tool, context_parameters(tool)
        seconds = seconds_for(agent, str(tool.name))
        self._seconds = seconds if seconds and is_async_tool(tool) else None

    def __getattr__(self, name: str) -> object:
        return getattr(self.tool, name)

    def invoke(self, call: ToolCall, config: RunnableConfig) -> object:
        """Call the tool."""
        is_async_only = getattr(self.tool, "coroutine", None) and not getattr(self.tool, "func", None)
        if is_async_only:
            return run_coroutine(self.ainvoke(call, config))
        running = RUNNING.get()
        running.restart()
        call = self._with_context(call, running) if self._contexts else call
        if running.recorder is not None:
            return running.take(run_calls(running.recorder.tool(running, self.tool, call, config)))
        return running.take(self.tool.invoke(call, config))

    async def ainvoke(self, call: ToolCall, config: RunnableConfig) -> object:
        """Call the tool on the event loop."""
        running = RUNNING.get()
        running.restart()
        remember_loop()
        with stoppable(is_thread=True):
            call = self._with_context(call, running) if self._contexts else call
            if running.recorder is None:
                called = self.tool.ainvoke(call, config)
            else:
                called = arun_calls(running.recorder.tool(running, self.tool, call, config))
            returned = await self._in_time(called)
        return running.take(returned)

    async def _in_time(self, called: Awaitable[object]) -> object:
        if self._seconds is None:
            return await called
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await called
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"the tool took longer than {self._seconds} s") from None

    def _with_context(self, call: ToolCall, running: RunningCall) -> ToolCall:
        context: Any = running.activation.view.context(unchanged, running.seen)
        context.call = running
        return {**call, "args": {**call["args"], **dict.fromkeys(self._contexts, context)}}


class HandoffTool:
    """Wraps a handoff tool with arguments: a call hands over with these as the task."""

    def __init__(self, tool: HandoffCall) -> None:
        self.tool = tool

    def invoke(self, call: ToolCall, config: RunnableConfig) -> object:
        """Hand over."""
        running, handoff = RUNNING.get(), self.tool.handoff
        running.restart()
        try:
            arguments = arguments_of(handoff.args_schema, call)
        except ValueError as error:
            return _misfit(running, self.tool.name, error)
        return running.transfer_with_task(handoff, arguments)

    async def ainvoke(self, call: ToolCall, config: RunnableConfig) -> object:
        """Hand over."""
        return self.invoke(call, config)


class LaneTool:
    """Wraps an agent as a tool: a call runs its lane.

    If middleware calls it again, that is another attempt in a new lane, and the last attempt counts.
    The outcomes of earlier attempts are saved, so a resume does not run them again.
    """

    def __init__(self, node_context: NodeContext, lane: Lane, tool: AgentTool) -> None:
        self.node_context, self.lane, self.tool = node_context, lane, tool

    def invoke(self, call: ToolCall, config: RunnableConfig) -> ToolMessage:
        """Run the lane."""
        return run_calls(self._talk(RUNNING.get(), call))

    async def ainvoke(self, call: ToolCall, config: RunnableConfig) -> ToolMessage:
        """Run the lane on the event loop."""
        running = RUNNING.get()
        async with running.attempts.lock:
            return await arun_calls(self._talk(running, call))

    async def _talk(self, running: RunningCall, call: ToolCall) -> ToolMessage:
        if running.fatal is not None:
            raise running.fatal
        attempts, place = running.attempts, self.lane.place
        try:
            arguments = arguments_of(self.tool.args_schema, call)
        except ValueError as error:
            return _misfit(running, place.given_name, error)
        if (outcome := await attempts.next()) is not None:
            return running.message(outcome["came"])
        running.restart()
        cursor = (
            *running.activation.cursor,
            numbered_call(running.opened.number, attempts.current),
        )
        with attempts.running(address(place, entered(place, cursor)), place.node):
            try:
                lane_call = self._lane_call(running, arguments, cursor)
                with _without_place():
                    outcome = await Call(self.lane.attempt, self._aattempt, (lane_call,))
                await self._take(running, *outcome)
            except GraphBubbleUp:
                raise
            except Exception as error:
                if is_fatal(error):
                    running.fatal = error
                # The caller may handle it; then questions still open in this lane are void.
                running.is_in_failed = lambda at: is_in_call(self.node_context.tree, at, place, cursor)
                running.emitter.add_errors(error)
                raise
        return running.message(attempts.came)

    async def _aattempt(self, lane_call: LaneCall) -> tuple[LaneResult, Exception | None]:
        wait_for_lane()
        return await self.lane.aattempt(lane_call)

    def _lane_call(
        self, running: RunningCall, arguments: Mapping[str, object], cursor: Cursor
    ) -> LaneCall:
        view, number = running.activation.view, running.opened.number
        surroundings = call_state(self.tool, view, running.current, number, arguments)
        namespace = running.attempts.namespace()
        return LaneCall(self.node_context, cursor, lambda: surroundings, running.control, namespace)

    async def _take(self, running: RunningCall, result: LaneResult, error: Exception | None) -> None:
        running.attempts.message_ids = [message.id for message in result["messages"]]
        if error is not None:
            raise error
        running.write(self.node_context.reducers.handed_back(result["values"]))
        running.attempts.came = await self._output(running, result)

    async def _output(self, running: RunningCall, result: LaneResult) -> str | list[Any]:
        """Return what the model reads of the result of the lane, as LangChain keeps it in a message."""
        if self.tool.output is None:
            return last_text(result)
        reply = reply_of(result, self.node_context, self.lane.place)
        slot = f"output of the agent tool {self.lane.place.name!r}, "
        try:
            at = running.activation.address
            given = await asked(at, slot, self.tool.output, reply)
            return running.message(plain(given)).content
        except Exception as error:
            add_note(error, f"It was `output` of the agent tool {self.lane.place.name!r} that failed.")
            raise


def _misfit(running: RunningCall, name: str, error: ValueError) -> ToolMessage:
    """Return the answer to a call whose arguments do not fit: LangGraph's for a tool."""
    text = TOOL_INVOCATION_ERROR_TEMPLATE.format(
        tool_name=name, tool_kwargs=running.opened.call["args"], error=error
    )
    return running.message(text, failed=True)


def arguments_of(schema: ArgsSchema, call: ToolCall) -> Any:
    """Return the arguments of a call of an agent as plain data.

    Raises:
        ValueError: They do not fit.
    """
    return plain(typed(schema or Request, call["args"]))


def call_state(tool: AgentTool, view: View, seen: RunState, number: int, arguments: Any) -> RunState:
    """Return the state that an agent sees that a tool call runs.

    Args:
        tool: The agent.
        view: What its caller sees.
        seen: The state of that, with what earlier calls wrote.
        number: The number of the call.
        arguments: Its arguments.
    """
    made_of = f"{view.address} {number}"
    if tool.args_schema is None:
        request = request_of(arguments["request"], made_of)
    else:
        request = request_of(as_json(arguments), made_of)
        seen = replace(seen, values={**seen.values, **seen.reducers.all_typed(arguments)})
    around = before_calls(view, seen.messages) if tool.history == "shared" else ()
    return replace(seen, messages=[*around, request])


@contextmanager
def _without_place() -> Iterator[None]:
    """Keep the place that the caller's middleware sees from the lane of an agent that it calls."""
    config = without_place(get_config())
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)

"""The wrappers that LangGraph's `ToolNode` calls in place of tools, handoffs and agents."""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import (
    TOOL_INVOCATION_ERROR_TEMPLATE,
)

from agentgraph.agents.agents import AgentTool, ArgsSchema, ChatAgent
from agentgraph.agents.schemas import plain, typed
from agentgraph.agents.tools import (
    HandoffCall,
    Request,
    is_async_tool,
    seconds_for,
)
from agentgraph.graph.chat.calls import before_calls
from agentgraph.graph.chat.output import reply_of
from agentgraph.graph.chat.step import in_config
from agentgraph.graph.chat.tool_call import RUNNING, RunningCall
from agentgraph.graph.chat.tool_parameters import context_parameters
from agentgraph.graph.failures import add_note, is_fatal
from agentgraph.graph.history import unchanged
from agentgraph.graph.nodes.activation import without_place
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.calling import remember_loop, run_coroutine
from agentgraph.graph.nodes.context import NodeContext, RunState
from agentgraph.graph.nodes.emitter import TOOL_CALL
from agentgraph.graph.nodes.lane import Lane, LaneCall, LaneResult, last_text
from agentgraph.graph.nodes.stopping import stoppable, wait_for_lane
from agentgraph.graph.nodes.tasks import request_of
from agentgraph.graph.nodes.view import View
from agentgraph.graph.sync_async import Call, arun_calls, run_calls
from agentgraph.safe_repr import as_json
from agentgraph.tree.addresses import Cursor, address, entered, is_in_call, numbered_call


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
        running.begin()
        call = self._with_context(call, running) if self._contexts else call
        if running.recorder is not None:
            return running.take(run_calls(running.recorder.tool(running, self.tool, call, config)))
        return running.take(self.tool.invoke(call, config))

    async def ainvoke(self, call: ToolCall, config: RunnableConfig) -> object:
        """Call the tool on the event loop."""
        running = RUNNING.get()
        running.begin()
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
    """Wraps a handoff tool with arguments: a call transfers with these as the task."""

    def __init__(self, tool: HandoffCall) -> None:
        self.tool = tool

    def invoke(self, call: ToolCall, config: RunnableConfig) -> object:
        """Hand over."""
        running, handoff = RUNNING.get(), self.tool.handoff
        running.begin()
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
        running.has_run |= attempts.current > 0
        running.begin()
        cursor = (
            *running.activation.cursor,
            numbered_call(running.opened.number, attempts.current),
        )
        with attempts.running(address(place, entered(place, cursor)), place.node):
            try:
                lane_call = self._lane_call(running, arguments, cursor)
                config = without_place(get_config())
                in_call = {**config["configurable"], TOOL_CALL: running.emitter.calls}
                with in_config({**config, "configurable": in_call}):
                    outcome = await Call(self.lane.attempt, self._aattempt, (lane_call,))
                await self._take(running, *outcome)
            except GraphBubbleUp:
                raise
            except Exception as error:
                if is_fatal(error):
                    running.fatal = error
                # The caller may handle it; then questions still open in this lane are discarded.
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
        return LaneCall(
            self.node_context,
            cursor,
            lambda: surroundings,
            running.control,
            running.attempts.namespace(),
            around=running.activation.node_config if running.parks else None,
            again=running.is_resumed,
        )

    async def _take(self, running: RunningCall, result: LaneResult, error: Exception | None) -> None:
        running.attempts.message_ids = [message.id for message in result["messages"]]
        if error is not None:
            raise error
        running.write(self.node_context.reducers.shared_writes(result["values"]))
        running.attempts.came = await self._output(running, result)

    async def _output(self, running: RunningCall, result: LaneResult) -> str | list[Any]:
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
        view: The messages that its caller sees.
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

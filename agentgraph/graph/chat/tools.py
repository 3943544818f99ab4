"""The node that runs the tool calls of a chat agent.

Each of several calls is a LangGraph task: LangGraph saves its result, so no call runs twice, and each
answer reaches the call that asked. A single call runs in the node itself, unless it runs a lane.

Runs one tool call through LangGraph's `ToolNode`, and adds agents as tools and actions.

`ToolNode` checks arguments, injects state, store and runtime, and turns results and errors into
messages. It invokes a wrapper in place of the tool, which takes the actions out of what the tool
returned, or runs the lane of an agent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from inspect import unwrap
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from langchain_core.messages import BaseMessage, ToolCall, ToolMessage
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

from agentgraph.agents.agents import AgentTool, ArgsSchema, ChatAgent, OnToolError, agent_tools
from agentgraph.agents.context import Context
from agentgraph.agents.middleware import Mode
from agentgraph.agents.schemas import plain, typed
from agentgraph.agents.tools import (
    AgentCall,
    HandoffCall,
    Request,
    destination,
    function_of,
    is_async_tool,
    seconds_for,
    tool_capabilities,
)
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.chat.agent import BuiltAgent, guarded, steers
from agentgraph.graph.chat.calls import before_calls, last_message, open_calls
from agentgraph.graph.chat.channels import own_state
from agentgraph.graph.chat.flattened import (
    arun_call,
    edited_calls,
    injected_fields,
    injects_state,
    run_call,
)
from agentgraph.graph.chat.nodes import ChatNode
from agentgraph.graph.chat.output import reply_of, write_value
from agentgraph.graph.chat.step import Step
from agentgraph.graph.chat.tool_call import RUNNING, RunningCall
from agentgraph.graph.copied_values import private
from agentgraph.graph.failures import add_note, is_fatal
from agentgraph.graph.foreign.flat_graph import with_state
from agentgraph.graph.foreign.handoffs import PASSED_OVER
from agentgraph.graph.history import calls_of, unchanged
from agentgraph.graph.internals import RESUME_MAP, RESUMING
from agentgraph.graph.lane_position import ChatEnding, Progress
from agentgraph.graph.nodes.activation import Activation, without_place
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.callers import CALLER
from agentgraph.graph.nodes.context import NodeContext, RunState
from agentgraph.graph.nodes.emitter import Writer, with_writer
from agentgraph.graph.nodes.lane import Lane, LaneCall, LaneResult, last_text
from agentgraph.graph.nodes.reporter import Reporter
from agentgraph.graph.nodes.schedule import (
    Schedule,
    TaskCall,
    talk_tasks,
    tasks_call,
)
from agentgraph.graph.nodes.stopping import (
    Stop,
    inner_stop,
    keep_loop,
    run_coroutine,
    run_off_loop,
    stoppable,
    wait_for_lane,
)
from agentgraph.graph.nodes.tasks import request_of
from agentgraph.graph.nodes.view import View
from agentgraph.graph.stamps import now
from agentgraph.graph.stored_values import notes_in
from agentgraph.graph.sync_async import Call, arun_calls, run_calls
from agentgraph.graph.task_results import TaskResult
from agentgraph.graph.values import Write
from agentgraph.safe_repr import as_json, shown_error
from agentgraph.tree.addresses import Cursor, address, entered, is_in_call, numbered_call

_ERROR_TEXT = "Error: {}\n Please fix your mistakes."


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
        self._fields = {name: _validated(self._tool_node, name) for name in self._see_state}
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
                running.fail(_ERROR_TEXT.format(shown_error(failed)))
                return running.result(self._may)
            running.add(await self._answer(running) or await self._ran(running))
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

    async def _ran(self, running: RunningCall) -> object:
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
            await running.keep_failure(error)
            raise error
        running.fail(content)

    async def _failed(self, running: RunningCall, error: Exception) -> ToolMessage:
        """Return the message to the model for a failure that no middleware handled.

        Raises:
            Exception: The failure itself, if `on_tool_error` does not cover it.
        """
        if isinstance(error, _UnknownToolError):
            raise error.error
        how, at = self._built.agent.on_tool_error, running.activation.address
        content = None if steers(error) else await error_result(error, how, at)
        if content is None:
            raise error
        return running.message(content, failed=True)

    async def _answer(self, running: RunningCall) -> ToolMessage | None:
        """Return the result if no tool has to run: a passed-over, unreadable or unknown call."""
        if running.is_passed_over:
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
            raise _UnknownToolError(error) from error
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
            state = _injected(state, self._fields[call["name"]])
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
        keep_loop()
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
        return running.hand_over(handoff, arguments)

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
        surroundings = seen_in_call(self.tool, view, running.current, number, arguments)
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


def seen_in_call(tool: AgentTool, view: View, seen: RunState, number: int, arguments: Any) -> RunState:
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


def _validated(node: ToolNode, name: str) -> list[str | None]:
    """Return the keys of the state that a tool gets as pydantic copies them; None for all of it.

    Of a state that may be any dict pydantic copies nothing inside it.
    """
    fields, hints = injected_fields(node, name), hints_of(node.tools_by_name[name])
    return [key for each, key in fields.items() if key is not None or not _is_open(hints.get(each))]


def _is_open(hint: object) -> bool:
    """Return whether a type is a dict of anything."""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return kind is dict or (get_origin(kind) is dict and get_args(kind)[1] in (Any, object))


def _injected(state: dict[str, Any], fields: Sequence[str | None]) -> dict[str, Any]:
    """Return the state with own values in plain lists and dicts where pydantic copies them."""
    if None in fields:
        return private(state)
    return {**state, **{field: private(state[field]) for field in fields if field in state}}


def context_parameters(tool: BaseTool) -> tuple[str, ...]:
    """Return the names of the parameters of a tool that are annotated with `Context`.

    >>> from langchain_core.tools import tool
    >>> def count(word: str, ctx: Context) -> int:
    ...     "Count a word in all messages."
    ...     return sum(message.text.count(word) for message in ctx.messages)
    >>> context_parameters(tool(count))
    ('ctx',)
    """
    hints = hints_of(tool).items()
    return tuple(name for name, hint in hints if name != "return" and _has_context(hint))


def hints_of(tool: BaseTool) -> dict[str, object]:
    """Return the types of the parameters of a tool."""
    hints = get_type_hints(unwrap(function_of(tool)), include_extras=True)
    return {**tool.get_input_schema().__annotations__, **hints}


def _has_context(hint: object) -> bool:
    return (get_origin(hint) or hint) is Context or any(map(_has_context, get_args(hint)))


class _UnknownToolError(Exception):
    """Carries the error of a call to an unknown tool through `ToolNode`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


async def error_result(error: Exception, on_tool_error: OnToolError, where: str = "") -> object:
    r"""Return the tool result for an exception; None if it must fail the agent.

    >>> def unreachable(error: ConnectionError) -> str:
    ...     return "The library is closed."
    >>> run_calls(error_result(ConnectionError("no route"), unreachable))
    'The library is closed.'
    >>> run_calls(error_result(ValueError("no topic"), unreachable))
    >>> run_calls(error_result(ValueError("no topic"), (ValueError, KeyError)))
    "Error: ValueError('no topic')\n Please fix your mistakes."
    """
    if on_tool_error == "raise" or not isinstance(error, handled_types(on_tool_error)):
        return None
    if on_tool_error == "return" or isinstance(on_tool_error, type | tuple):
        return _ERROR_TEXT.format(shown_error(error))
    if isinstance(on_tool_error, str):
        return on_tool_error
    return await asked(where, "on_tool_error", on_tool_error, error)


def handled_types(on_tool_error: OnToolError) -> tuple[type[Exception], ...]:
    """Return the types of exceptions that go back to the model.

    For a function these are the types that annotate its first parameter.
    """
    if isinstance(on_tool_error, tuple):
        return on_tool_error
    if isinstance(on_tool_error, type):
        return (on_tool_error,)
    return (Exception,) if isinstance(on_tool_error, str) else _annotated(on_tool_error)


def _annotated(function: Callable[..., object]) -> tuple[type[Exception], ...]:
    try:
        hints = get_type_hints(getattr(function, "__func__", function))
    except Exception:  # the annotation cannot be resolved
        return (Exception,)
    named = [hint for name, hint in hints.items() if name != "return"][:1]
    kinds = [kind for hint in named for kind in (get_args(hint) or (hint,))]
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)) or (
        Exception,
    )


def _changes_messages(result: TaskResult) -> bool:
    return any("messages" in update for update in result.get("state", ()))


class ToolsNode(ChatNode):
    """Runs the open calls of the agent's last message, and continues with their results."""

    def __init__(self, built: BuiltAgent, lanes: Sequence[Lane]) -> None:
        super().__init__(built)
        place = built.node_context.place
        self.name, self.runner = place.nodes.tools, CallRunner(built, lanes)
        names = {"": place.nodes.call, **{lane.place.given_name: lane.place.node for lane in lanes}}
        self.tasks = {tool: talk_tasks(name, self.runner.talk_in_task) for tool, name in names.items()}

    async def talk(self, activation: Activation) -> None:
        """Run the calls."""
        control = inner_stop()
        if self.runner.agents:
            await activation.read_lanes()
        calls, hands_over, is_alone = self._calls(activation, control)
        if self.asks_history and self.runner.reads_state(calls):
            await activation.view.ask_history()
        if hands_over:
            activation.count_transfer()  # before anything says that it was carried out
        if is_alone:
            results = [await self.runner.talk(calls[0])]
        else:
            is_beside = self.agent.parallel_tools
            needs = [() if is_beside or n == 0 else (n - 1,) for n in range(len(calls))]
            schedule = Schedule(needs, control)
            results = [*(await tasks_call(schedule, self._starter(calls, schedule))).values()]
        if self.asks_history and any(map(_changes_messages, results)):
            await activation.view.ask_history()
        self._take(activation, results, is_alone=is_alone, is_granted=hands_over)

    def _calls(self, activation: Activation, control: Stop) -> tuple[list[RunningCall], bool, bool]:
        """Return the open calls, whether one is a transfer, and whether there is one alone.

        Only the last of several transfers is made. A call alone runs in the node itself, if it needs no
        lane, and emits as the node does, unless middleware may make it again.
        """
        built, step = self.built, cache(lambda: self.built.step(activation))
        edited = edited_calls(own_state(activation, built.channels)) if built.wraps_tools else {}
        calls: list[RunningCall] = []
        last_transfer: RunningCall | None = None
        every, emitter, is_alone = open_calls(activation.view), activation.output.emitter, False
        for opened in every:
            wanted = str(edited.get(str(opened.call["id"]), opened.call)["name"])
            is_alone = len(every) == 1 and wanted not in self.runner.agents
            if built.wraps_tools or not is_alone:
                emitter = activation.output.new_emitter(is_concurrent=True)
            running = RunningCall(
                built, activation, opened, wanted, emitter, control, step, is_beside=len(every) > 1
            )
            if wanted in self.runner.handing_over and opened.error is None:
                if last_transfer is not None:
                    last_transfer.is_passed_over = True
                last_transfer = running
            calls.append(running)
        return calls, last_transfer is not None, is_alone

    def _starter(
        self, calls: Sequence[RunningCall], schedule: Schedule
    ) -> Callable[[Mode, int, TaskCall], object]:
        """Return a function that starts a task; in sequence, a call sees what earlier calls wrote."""
        last: list[tuple[RunningCall, Any]] = []

        def start(mode: Mode, number: int, call: TaskCall) -> object:
            running = calls[number]
            if last and not self.agent.parallel_tools:
                before, future = last.pop()
                self._continue(running, before, future.result())
            tasks = self.tasks.get(running.wanted, self.tasks[""])
            future = call(tasks[mode], running)
            last[:] = [(running, future)]
            return future

        return start

    def _continue(self, running: RunningCall, before: RunningCall, result: TaskResult) -> None:
        """Show a call the values and state that the call before it left."""
        running.seen, running.step = before.seen, before.step
        running.before = [*before.before, *result.get("state", ())]
        if result["values"]:
            writes = self.node_context.reducers.loaded(result["values"])
            running.seen = running.seen.with_new((), writes)
        if "state" in result:
            running.step = cache(partial(self._merged, running.activation, None, running.before))

    def _merged(
        self,
        activation: Activation,
        visible: Sequence[BaseMessage] | None,
        updates: Sequence[Mapping[str, object]],
    ) -> Step:
        """Return a step whose state includes updates of calls."""
        step = self.built.step(activation, visible)
        step.merge_calls(updates)
        return step

    def _merged_with(self, activation: Activation, updates: Sequence[Mapping[str, object]]) -> Step:
        """Return a step that has taken all updates of calls, also of what the agent sees."""
        is_seen = any("messages" in update for update in updates)
        step = self._merged(activation, None if is_seen else (), updates)
        step.say()
        return step

    def _take(
        self,
        activation: Activation,
        results: Sequence[TaskResult],
        *,
        is_alone: bool,
        is_granted: bool,
    ) -> None:
        """Write the results in the order of the calls; the one that ends the agent comes last.

        The node saves the other events of a single call; those of several are saved by their tasks.

        Args:
            activation: The activation of the agent.
            results: The results of the calls.
            is_alone: Whether there is a single call, which ran in the node itself.
            is_granted: Whether a transfer is counted already.
        """
        ending, how = self._decide(results)
        if is_granted and how != "transfer_to":
            activation.uncount_transfer()
        if any(result["values"] for result in results):
            activation.output.write(self._joined(activation, results))
        updates: list[Mapping[str, object]] = []
        for result in results:
            updates += result.get("state", ())
        ordered = results if ending is None else sorted(results, key=lambda each: each is ending)
        for result in ordered:
            notes = notes_in(result) if is_alone else ()
            activation.output.add_emitted(result["messages"], notes)
        step = self._merged_with(activation, updates) if updates else None
        if how == "" and any("break_loop" in result["acts"] for result in results):
            activation.output.emit_note("break_loop")  # outside a loop it has no effect
        if ending is not None:
            self._end(activation, ending, how, step, is_granted=is_granted)
        elif activation.view.progress.get("answer"):
            self.built.leave(activation, ChatEnding(keeps=True), step)
        else:
            self._ask_again(activation, step)

    def _joined(self, activation: Activation, results: Sequence[TaskResult]) -> list[Write]:
        """Return the values that the calls wrote, in the order of the calls."""
        is_beside = self.agent.parallel_tools
        written = {result["number"]: result["values"] for result in results}

        def label(number: int) -> str:
            opened = {each.number: each.call["name"] for each in open_calls(activation.view)}
            return f"{opened[number]}, call {number}"

        seen, at = activation.view.state, activation.address
        return seen.joined(at, written, lambda *_: is_beside, label, are_lanes=False)

    def _decide(self, results: Sequence[TaskResult]) -> tuple[TaskResult | None, str]:
        """Return the result that ends the agent, and how; the last one if there are several."""
        for act in ("exit", "break_loop", "transfer_to", "leaving", "ends"):
            for result in reversed(results):
                if act in result["acts"] and (act != "break_loop" or self.node_context.place.in_loop):
                    return result, act
        for result in reversed(results):
            for message in result["messages"]:
                is_result = isinstance(message, ToolMessage) and message.status == "success"
                if is_result and message.name in self.runner.returning:
                    return result, ""
        return None, ""

    def _ask_again(self, activation: Activation, step: Step | None) -> None:
        before = activation.view.progress
        count = before.get("tool_calls", 0) + len(calls_of(last_message(activation.view)))
        progress: Progress = {"model_calls": before.get("model_calls", 0), "tool_calls": count}
        if step is not None and (passed := step.keep()):
            progress["passed"] = passed
        activation.continue_at(self.node_context.place.nodes.round, chat=progress)

    def _end(
        self,
        activation: Activation,
        ending: TaskResult,
        how: str,
        step: Step | None,
        *,
        is_granted: bool,
    ) -> None:
        """End the agent with the action or the result of a call."""
        leaving, is_last = ChatEnding(), self.node_context.place.nodes.after_agent is None
        match how:
            case "exit" | "break_loop":
                leaving["signal"] = how
            case "leaving":
                leaving["leaving"] = ending["acts"]["leaving"]
            case "transfer_to":
                leaving["target"] = ending["acts"]["transfer_to"]
                if "task" in ending["acts"]:
                    leaving["task"] = ending["acts"]["task"]
                if is_granted:
                    leaving["granted"] = True
        is_kept = how not in ("transfer_to", "leaving")
        self.built.leave(activation, ChatEnding(**leaving, keeps=is_kept and not is_last), step)
        if is_kept and is_last:
            text = activation.output.last_text() or ""
            write_value(activation, self.agent, None, self.built.answer_format, text)

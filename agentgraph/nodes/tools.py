"""The node that runs the tools of a chat agent: a LangGraph task for each of several calls.

LangGraph's `ToolNode` checks arguments, injects state, store and runtime, and makes messages of
results and errors. Here is what it does not know: actions as results, agents as tools, what a
person decided, and that each call is a task, so that none runs twice. A call that is alone needs no
task but the node, unless it runs a lane.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, cast

from langchain_core.messages import HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolInvocationError
from langgraph.runtime import RunControl

from agentgraph.agents import AgentTool, ChatAgent, agent_tools
from agentgraph.errors import InvalidOutputError
from agentgraph.failures import failures
from agentgraph.history import calls_of
from agentgraph.nodes.activation import Activation, Site, Surroundings
from agentgraph.nodes.calls import last_message, open_calls
from agentgraph.nodes.lane import Lane, LaneResult
from agentgraph.nodes.outcome import Outcome
from agentgraph.nodes.output import keep_result
from agentgraph.nodes.tasks import SharedControl, arun_tasks, check_threads, named_task, run_tasks
from agentgraph.nodes.threads import run_coroutine
from agentgraph.position import may_do_by_tools
from agentgraph.state import LaneState, TaskResult, Update
from agentgraph.tools import AgentCall, Request, given_tools, own_tools

_INSTEAD = "or make it more than {}"
_SCOPE = "agentgraph"
"""The key under which a call takes its scope through `ToolNode`."""


class _Scope(NamedTuple):
    """What the task of one call knows."""

    outcome: Outcome
    control: RunControl

    @property
    def name(self) -> str:
        """The name of the tool that is called."""
        return str(self.outcome.opened.call["name"])


class ToolsNode(Runnable[LaneState, Update]):
    """Runs the open calls of the agent's last message, and goes on with what they come to."""

    def __init__(self, site: Site, lanes: Sequence[Lane]) -> None:
        self.site = site
        self.name = site.place.tools_node
        self.agent = cast(ChatAgent, site.place.agent)
        self.lanes = tuple(lanes)
        targets = [target.agent for target in site.targets.values()]
        tools = [*given_tools(self.agent), *own_tools(self.agent, targets)]
        self.may = may_do_by_tools(site.place)
        self.known = {tool.name for tool in tools}
        self.returning = {*self.agent.return_directly, *(t.name for t in tools if t.return_direct)}
        self.agents = {
            lane.place.name: _LaneTool(site, lane, tool)
            for lane, tool in zip(lanes, agent_tools(self.agent), strict=True)
        }
        more: Any = {"handle_tool_errors": _error_text} if self.agent.on_tool_error == "return" else {}
        self.tool_node = ToolNode(tools, wrap_tool_call=self._wrap, awrap_tool_call=self._awrap, **more)
        names = {"": site.place.call_task, **{lane.place.name: lane.place.node for lane in lanes}}
        self.tasks = {tool: named_task(name, self._run) for tool, name in names.items()}
        self.atasks = {tool: named_task(name, self._arun) for tool, name in names.items()}

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the calls in threads."""
        check_threads(self.site.place.tools_node, config or {}, _INSTEAD)
        activation, control = Activation(self.site, input, config or {}), SharedControl()
        with activation.reported():
            scopes = _scopes(activation, input, control)
            if self._is_task(scopes):
                return self._update(activation, input, [self._run(scopes[0])], by_tasks=False)
            starts = [partial(self._task(self.tasks, scope), scope) for scope in scopes]
            results = run_tasks(starts, control, in_order=not self.agent.parallel_tools)
            return self._update(activation, input, results)

    async def ainvoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the calls on the event loop."""
        activation, control = Activation(self.site, input, config or {}), SharedControl()
        with activation.reported():
            scopes = _scopes(activation, input, control)
            if self._is_task(scopes):
                return self._update(activation, input, [await self._arun(scopes[0])], by_tasks=False)
            starts = [partial(self._task(self.atasks, scope), scope) for scope in scopes]
            results = await arun_tasks(starts, control, in_order=not self.agent.parallel_tools)
            return self._update(activation, input, results)

    def _is_task(self, scopes: Sequence[_Scope]) -> bool:
        """Tell whether the node itself serves as the task: for one call alone, of a plain tool."""
        return len(scopes) == 1 and scopes[0].name not in self.agents

    def _task(self, tasks: dict[str, Callable[..., Any]], scope: _Scope) -> Callable[..., Any]:
        return tasks.get(scope.name, tasks[""])

    def _run(self, scope: _Scope) -> TaskResult:
        outcome = scope.outcome
        with outcome.activation.reported(outcome.opened.number):
            outcome.add(self._answer(outcome) or self.tool_node.invoke(_payload(scope)))
            return outcome.result(self.may)

    async def _arun(self, scope: _Scope) -> TaskResult:
        outcome = scope.outcome
        with outcome.activation.reported(outcome.opened.number):
            outcome.add(self._answer(outcome) or await self.tool_node.ainvoke(_payload(scope)))
            return outcome.result(self.may)

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
                return outcome.message(str(message))
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
        call, unknown = outcome.opened.call, self.agent.unknown_tool
        if str(call["name"]) in self.known or unknown == "return":
            return None
        if unknown == "raise":
            raise InvalidOutputError(
                f"{outcome.activation.address}: the model called {call['name']!r}, which is no tool of "
                f"it; there are: {', '.join(sorted(self.known))}"
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

    def _update(
        self,
        activation: Activation,
        state: LaneState,
        results: Sequence[TaskResult],
        *,
        by_tasks: bool = True,
    ) -> Update:
        """Say the results in the order of the calls, but last the one that ends the agent."""
        ending, how = self._decide(results)
        activation.said_by_tasks = by_tasks
        for result in results:
            activation.set_values(result["values"])
        for result in sorted(results, key=lambda each: each is ending):
            activation.say_all(result["messages"], [] if by_tasks else result["position"]["told"])
        if ending is None:
            self._ask_again(activation, state)
        self._steer(activation, ending, how, results)
        return activation.update()

    def _decide(self, results: Sequence[TaskResult]) -> tuple[TaskResult | None, str]:
        """Return the result that ends the agent, if one does, and how; of several the last."""
        acts = ("exit", "break_loop", "transfer_to")
        for act in acts if self.site.place.in_loop else ("exit", "transfer_to"):
            for result in reversed(results):
                if act in result["acts"]:
                    return result, act
        return next((result for result in reversed(results) if self._returns(result)), None), ""

    def _ask_again(self, activation: Activation, state: LaneState) -> None:
        before = activation.progress
        count = before.get("tool_calls", 0) + len(calls_of(last_message(activation, state)))
        progress = {"model_calls": before.get("model_calls", 0), "tool_calls": count}
        activation.stay(self.site.place.node, chat=progress)

    def _steer(
        self,
        activation: Activation,
        ending: TaskResult | None,
        how: str,
        results: Sequence[TaskResult],
    ) -> None:
        match how:
            case "exit" | "break_loop":
                activation.signal(how)
            case "transfer_to" if ending:
                activation.transfer(ending["acts"]["transfer_to"])
                return
            case _ if any("break_loop" in result["acts"] for result in results):
                activation.tell("break_loop")  # there is no loop: it changes nothing
        if ending and self.agent.output_key:
            keep_result(activation, self.agent, activation.last_text() or "")

    def _returns(self, result: TaskResult) -> bool:
        messages = [m for m in result["messages"] if isinstance(m, ToolMessage)]
        return any(m.name in self.returning and m.status == "success" for m in messages)


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
        return call[_SCOPE].outcome.take(await self.tool.ainvoke(call, config))


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

    def _arguments(self, scope: _Scope, call: Any) -> Any:
        activation, number = scope.outcome.activation, scope.outcome.opened.number
        request = HumanMessage(Request.model_validate(call["args"]).request)
        around = activation.seen.messages if self.tool.history == "shared" else ()
        surroundings = Surroundings([*around, request], activation.seen.values)
        return self.site, (*activation.cursor, number), surroundings, scope.control

    def _result(self, scope: _Scope, result: LaneResult) -> ToolMessage:
        scope.outcome.set_values(result["values"])
        said = [m for m in result["messages"] if not isinstance(m, RemoveMessage)]
        return scope.outcome.message(str(said[-1].text) if said else "")


def _error_text(error: Exception) -> str:
    """Return what the model is told of an exception, worded as LangGraph does."""
    if isinstance(error, ToolInvocationError):
        return str(error.message)
    return f"Error: {error!r}\n Please fix your mistakes."


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


def _scopes(activation: Activation, state: LaneState, control: RunControl) -> list[_Scope]:
    return [_Scope(Outcome(activation, each), control) for each in open_calls(activation, state)]


def _payload(scope: _Scope) -> dict[str, Any]:
    """Return the input of `ToolNode` for one call, with the state that tools may ask for."""
    seen = scope.outcome.activation.seen
    return {
        "__type": "tool_call_with_context",
        "tool_call": {**scope.outcome.opened.call, _SCOPE: scope},
        "state": {"messages": list(seen.messages), "values": dict(seen.values)},
    }

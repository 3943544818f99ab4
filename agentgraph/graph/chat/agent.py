"""The parts shared by the nodes of one chat agent: model, tools, middleware, LangChain nodes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from functools import cached_property, wraps
from typing import Any, cast

import langchain.agents.middleware
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.prebuilt import ToolNode

from agentgraph.agents.agents import AgentTool, ChatAgent, Middleware, agent_tools
from agentgraph.agents.budgets import Summarized, Trimmed
from agentgraph.agents.context import Context
from agentgraph.agents.functions import may_give_command
from agentgraph.agents.middleware import Mode, any_has, has, may_exit, mode_fault
from agentgraph.agents.templates import fill, is_filled, with_text
from agentgraph.agents.tools import (
    Passed,
    WrappedTool,
    function_of,
    is_long_running,
    provider_tools,
    run_tools,
    transfers_text,
    without_tools,
)
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.chat.channels import Channels
from agentgraph.graph.chat.flattened import flattened, wrap_inside
from agentgraph.graph.chat.middleware import Approval, Summarizing
from agentgraph.graph.chat.models import Models
from agentgraph.graph.chat.output import answer_format_of, restored, saved_answer, write_value
from agentgraph.graph.chat.stand_in_model import Instructing, UseStandIn
from agentgraph.graph.chat.step import Step
from agentgraph.graph.failures import add_note, is_fatal
from agentgraph.graph.foreign.flat_graph import FlatGraph
from agentgraph.graph.lane_position import ChatEnding, details_in
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.calling import Contained, awaited_in_thread
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.stopping import stoppable
from agentgraph.graph.open_types import AnyRunnable
from agentgraph.graph.stamps import address_of
from agentgraph.safe_repr import shown


class BuiltAgent:
    """The parts that the nodes of a chat agent share.

    `create_agent` is called only where the agent has middleware or a response format.

    Attributes:
        node_context: The place of the agent.
        agent: The agent.
        tools: The tools that it runs.
        long_running: The names of the tools whose real results come later.
        switched: The agents as tools that the model may not be offered.
        middleware: Its middleware, including ours for approval and summaries.
        wraps_model: Whether middleware wraps model calls.
        wraps_tools: Whether middleware wraps tool calls.
        runs_tools: Whether it has any tools to run.
        keeps_record: Whether what it sees may differ from the history: it has middleware, or a tool
            that may return a command.
        answer_format: The format that its answer must fit; None for any text.
        takes_node: Whether LangChain's node asks the model.
        models: Its model, or how to get it.
        channels: The state channels of its middleware.
        keeps_edits: Whether what middleware made of the history stays for the next activation.
        mode_faults: Which middleware a sync or an async run cannot call, and what to do.
        keeps_answer: Whether its answer is saved, or written as a value.
        tools_node: The name of the node that runs its tools.
    """

    def __init__(self, node_context: NodeContext) -> None:
        self.node_context, self.agent = node_context, cast(ChatAgent, node_context.place.agent)
        self.tools = run_tools(self.agent, node_context.handoffs)
        self.long_running = frozenset(tool.name for tool in self.tools if is_long_running(tool))
        self.switched = [tool for tool in agent_tools(self.agent) if tool.enabled is not None]
        self.middleware = self._all_middleware()
        self.wraps_model = any_has(self.middleware, "wrap_model_call")
        self.wraps_tools = any_has(self.middleware, "wrap_tool_call")
        self.answer_format = answer_format_of(self.agent.output_schema)
        self.keeps_answer = self.answer_format is not None or bool(self.agent.output_key)
        has_format = self.answer_format is not None and self.answer_format.response_format is not None
        self.takes_node = self.wraps_model or has_format
        self.models = Models(self.agent, node_context.named)
        self._transfers = transfers_text(without_tools(self.agent, node_context.handoffs))
        self.runs_tools, self.tools_node = node_context.place.has_tools, node_context.place.nodes.tools
        self.keeps_record = bool(self.middleware) or any(map(_may_command, self.agent.tools))
        policy = self.agent.history
        while isinstance(policy, Summarized | Trimmed):
            policy = policy.history
        self.keeps_edits = policy in ("shared", "path", "own")
        modes: tuple[Mode, ...] = ("sync", "async")
        middleware = self.agent.middleware
        self.mode_faults = {mode: f for mode in modes if (f := mode_fault(middleware, mode))}
        instruction = self.agent.instruction
        self._is_fixed = isinstance(instruction, SystemMessage) or (
            isinstance(instruction, str) and not is_filled(instruction)
        )
        self._system = self._system_message(instruction, {}) if self._is_fixed else None
        self.channels = Channels(
            self.flat.channels if self.middleware else {}, node_context.reducers.names
        )

    @cached_property
    def flat(self) -> FlatGraph:
        """LangChain's graph of the agent; built when first used."""
        agent, middleware = self.agent, list(self.middleware)
        is_chosen = not isinstance(agent.model, Runnable)
        if self.wraps_model and (is_chosen or self.switched or not self._is_fixed):
            middleware = [Instructing(), *middleware]
        graph = create_agent(
            cast(Any, None if is_chosen else agent.model),
            [*map(guarded, self.tools), *provider_tools(agent)],
            system_prompt=self._system,
            response_format=self.answer_format.response_format if self.answer_format else None,
            middleware=middleware,
        )
        return flattened(graph, UseStandIn(self.answer_format, is_ours=not self.wraps_model))

    def step(self, activation: Activation, visible: Sequence[BaseMessage] | None = None) -> Step:
        """Return the state for one run of a node.

        Args:
            activation: The activation of the agent.
            visible: The messages that the agent sees. None: read them from the history, where calls may
                still be without results.
        """
        is_open = visible is None
        messages = activation.view.visible(activation.view.history) if visible is None else visible
        return Step(
            activation,
            self.channels,
            messages,
            answer=restored(self.answer_format, activation.view.progress.get("answer")),
            keeps_edits=self.keeps_edits,
            is_open=is_open,
        )

    def shares_state(self, method: str) -> bool:
        """Return whether the middleware with a method, or of a hook's node, gets the state itself.

        LangChain's own middleware does: it changes nothing in place, and copies cost time.
        """
        name, _, hook = method.rpartition(".")
        several = [each for each in self.middleware if has(each, hook) and name in ("", each.name)]
        return all(map(_changes_nothing, several))

    def may_exit(self, method: str) -> bool:
        """Return whether a hook may return `Exit`."""
        name, _, hook = method.rpartition(".")
        return may_exit([each for each in self.middleware if name in ("", each.name)], hook)

    def continue_at(
        self, activation: Activation, node: str, step: Step | None, **changes: object
    ) -> None:
        """Continue the activation at another node."""
        progress = {"model_calls": 0, **activation.view.progress, **changes}
        progress.pop("passed", None)
        if step is not None:
            if passed := step.save_edits():
                progress["passed"] = passed
            if step.answer is not None or "answer" in progress:
                progress["answer"] = saved_answer(activation, step.answer)
        activation.continue_at(node, chat=progress)

    def end_after_hooks(self, activation: Activation, how: ChatEnding, step: Step | None) -> None:
        """End the activation, after its `after_agent` hooks."""
        node = self.node_context.place.nodes.after_agent
        if node is None:
            self.end(activation, how, step)
        else:
            self.continue_at(activation, node, step, ending=how)

    def end(self, activation: Activation, how: ChatEnding, step: Step | None) -> None:
        """End the activation."""
        if "leaving" in how:
            activation.leave_tree(how["leaving"])
        elif "target" in how:
            is_granted = how.get("granted", False)
            activation.transfer(how["target"], task=how.get("task"), is_granted=is_granted)
        elif "signal" in how:
            activation.signal(how["signal"], details_in(how))
        if how.get("keeps"):
            self._write_value(activation, step)
        if step is not None:
            step.save_edits()

    def _write_value(self, activation: Activation, step: Step | None) -> None:
        if step is None:
            answer = activation.view.progress.get("answer")
        else:
            answer = saved_answer(activation, step.answer)
        if answer is not None or step is not None:
            text = _last_text(activation, step) if step is not None else ""
            write_value(activation, self.agent, answer, self.answer_format, text)

    def _all_middleware(self) -> list[Middleware]:
        """Return the user's middleware and ours; approval of single calls is the outermost."""
        middleware, policy = list(self.agent.middleware), self.agent.history
        for recorder in [each for each in middleware if hasattr(each, "with_recorded_decisions")]:
            middleware = [cast(Any, recorder).with_recorded_decisions(each) for each in middleware]
        if isinstance(policy, Summarized):
            middleware.append(Summarizing(self.agent.name, policy))
        if not self.node_context.place.asks_approval:
            return middleware
        approval = Approval(self.agent, self.tools)
        return (
            [approval, *middleware]
            if self.agent.interrupt_mode == "per_call"
            else [*middleware, approval]
        )

    def tool_node(self, prepare: Callable[[object], object]) -> ToolNode:
        """Return the node that runs tool calls; `prepare` changes requests inside the middleware."""
        pregel_node = self.flat.nodes.get("tools") if self.middleware else None
        node = pregel_node.bound if pregel_node else ToolNode([guarded(tool) for tool in self.tools])
        wrap_inside(node, prepare)
        return node

    async def disabled(self, context: Context) -> Set[str]:
        """Return the names of the tools that the model is not offered now."""
        names: set[str] = set()
        for tool in self.switched:
            if not await self._is_enabled(tool, context):
                names.add(tool.agent.name)
        return names

    async def _is_enabled(self, tool: AgentTool, context: Context) -> bool:
        enabled = tool.enabled
        if isinstance(enabled, str):
            return bool(context.values.get(enabled))
        if not callable(enabled):
            return bool(enabled)
        slot = f"enabled of the agent tool {tool.agent.name!r}, "
        try:
            return bool(await asked(context.address, slot, enabled, context))
        except Exception as error:
            add_note(error, f"It was `enabled` of the agent tool {tool.agent.name!r} that failed.")
            raise

    async def system(self, context: Context) -> SystemMessage | None:
        """Return the system message of one step.

        Raises:
            InvalidOutputError: The function `instruction=` returned something else.
        """
        if self._is_fixed:
            return self._system
        instruction: Any = self.agent.instruction
        if not isinstance(instruction, str):
            instruction = await asked(context.address, "instruction", instruction, context)
            if not isinstance(instruction, str | SystemMessage):
                raise InvalidOutputError(
                    f"{context.address}: the function instruction= returned {shown(instruction)}; "
                    "return a template, or a SystemMessage"
                )
        return self._system_message(instruction, context.values)

    def _system_message(self, instruction: Any, values: Mapping[str, object]) -> SystemMessage | None:
        if isinstance(instruction, str):
            text = fill(instruction, values, self.agent.name)
            instruction = SystemMessage(text) if text or self._transfers else None
        return with_text(instruction, self._transfers) if self._transfers else instruction


def _changes_nothing(middleware: object) -> bool:
    """Return whether a middleware is LangChain's own, and passes the state to no function of a user."""
    kind = type(middleware)
    is_own = getattr(langchain.agents.middleware, kind.__name__, None) is kind
    return is_own and kind is not HumanInTheLoopMiddleware


def _may_command(tool: object) -> bool:
    return not isinstance(tool, AgentTool | Mapping) and may_give_command(function_of(tool))


def _last_text(activation: Activation, step: Step) -> str:
    new, at = activation.output.message_ids, activation.address
    mine = (m for m in reversed(step.messages) if address_of(m) == at or m.id in new)
    return next((str(m.text) for m in mine if m.type in ("ai", "tool")), "")


def guarded(tool: BaseTool) -> BaseTool:
    """Return a tool whose function is guarded from inside.

    LangChain calls the function in a separate task. So exceptions that would end the event loop must be
    caught in it, and a function that has returned must not be cancelled while LangChain finishes.
    """
    if isinstance(tool, WrappedTool):
        return tool.with_inner(lambda inner: _PassesErrors(guarded(inner)))
    called = type(tool)._arun
    if called is BaseTool._arun:
        return tool
    if not isinstance(tool, StructuredTool) or called is not StructuredTool._arun:
        return _guarded_class(tool)
    fn, coroutine = tool.func, tool.coroutine

    def call(*args: object, **kwargs: object) -> object:
        with Contained(in_task=True):
            returned = fn(*args, **kwargs)  # type: ignore[misc]
            is_async = hasattr(type(returned), "__await__")
            return awaited_in_thread(returned) if is_async else returned

    functions = {
        "func": fn and wraps(fn)(call),
        "coroutine": coroutine and _guarded_coroutine(coroutine),
    }
    return tool.model_copy(update=functions)


def _guarded_coroutine(coroutine: Callable[..., Awaitable[object]]) -> Callable[..., object]:
    @wraps(coroutine)
    async def acall(*args: object, **kwargs: object) -> object:
        with Contained(in_task=True), stoppable():
            return await coroutine(*args, **kwargs)

    return acall


def _guarded_class(tool: BaseTool) -> BaseTool:
    """Return a tool whose class has the functions: a copy that calls those of the tool itself.

    No field of the model holds them. They may keep something on the tool.
    """
    copied = tool.model_copy()
    object.__setattr__(copied, "_run", tool._run)
    object.__setattr__(copied, "_arun", _guarded_coroutine(tool._arun))
    return copied


class _PassesErrors(AnyRunnable):
    """A tool that returns exceptions that steer the run, so that no retry or fallback handles them."""

    def __init__(self, tool: BaseTool) -> None:
        self._tool = tool

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: object) -> object:
        try:
            return self._tool.invoke(input, config, **kwargs)
        except Exception as error:
            return _passed(error)

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: object
    ) -> object:
        try:
            return await self._tool.ainvoke(input, config, **kwargs)
        except Exception as error:
            return _passed(error)


def _passed(error: Exception) -> Passed:
    if steers(error):
        return Passed(error)
    raise error


def steers(error: Exception) -> bool:
    """Return whether an exception steers the run, so that no tool, retry or model may handle it."""
    return isinstance(error, GraphBubbleUp) or is_fatal(error) or is_invalid_resume(error)

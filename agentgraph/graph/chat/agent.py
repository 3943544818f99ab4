"""A chat agent as LangChain builds it: its nodes, with what is ours put in; built as it is compiled."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable
from langgraph.prebuilt import ToolNode

from agentgraph.agents.agents import ChatAgent
from agentgraph.agents.budgets import Summarized, Trimmed
from agentgraph.agents.context import Context
from agentgraph.agents.middleware import Mode, any_has, mode_fault
from agentgraph.agents.templates import fill, is_filled, with_text
from agentgraph.agents.tools import provider_tools, run_tools, transfers_text, without_tools
from agentgraph.errors import AgentGraphError, InvalidOutputError
from agentgraph.graph.chat.approve import Approval
from agentgraph.graph.chat.asking import Instructing, StandingIn
from agentgraph.graph.chat.guarding import guarded
from agentgraph.graph.chat.laid_flat import FlatAgent, InnerWraps, laid_flat, wrap_inside
from agentgraph.graph.chat.models import BoundModels, Models
from agentgraph.graph.chat.output import keep, keep_text, kept, restored, wanted_by
from agentgraph.graph.chat.step import Channels, Step
from agentgraph.graph.chat.summary import Summarizing
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import Site
from agentgraph.graph.state import Leaving, address_of
from agentgraph.safe_repr import shown
from agentgraph.tree.places import has_tools


class BuiltAgent:
    """What the nodes of a chat agent share; where it has no middleware, nothing of `create_agent`.

    Attributes:
        site: Its place.
        agent: The agent.
        tools: The tools that it runs.
        middleware: Its middleware, that of approval and of a summary included.
        wraps_model: Whether middleware wraps the calls of the model.
        wraps_tools: Whether middleware wraps tool calls.
        runs_tools: Whether it has any tools to run.
        wanted: What its answer must fit; None for any text.
        takes_node: Whether LangChain's node asks the model.
        models: Its model.
    """

    def __init__(self, site: Site) -> None:
        self.site, self.agent = site, cast(ChatAgent, site.place.agent)
        self.tools = run_tools(self.agent, site.target_agents)
        self.middleware = self._with_ours()
        self.wraps_model = any_has(self.middleware, "wrap_model_call")
        self.wraps_tools = any_has(self.middleware, "wrap_tool_call")
        self.wanted = wanted_by(self.agent.output_schema)
        has_format = self.wanted is not None and self.wanted.response_format is not None
        self.takes_node = self.wraps_model or has_format
        self.models = Models(self.agent)
        self._bound = BoundModels()
        self._transfers = transfers_text(without_tools(self.agent, site.target_agents))
        self.runs_tools = has_tools(site.place)
        policy = self.agent.history
        while isinstance(policy, Summarized | Trimmed):
            policy = policy.history
        self._keeps_edits = policy in ("shared", "path", "own")
        modes: tuple[Mode, ...] = ("sync", "async")
        self._mode_faults = {mode: mode_fault(self.agent.middleware, mode) for mode in modes}
        instruction = self.agent.instruction
        self._is_fixed = isinstance(instruction, SystemMessage) or (
            isinstance(instruction, str) and not is_filled(instruction)
        )
        self._system = self._written(instruction, {}) if self._is_fixed else None

    @cached_property
    def flat(self) -> FlatAgent:
        """The nodes; only an agent with middleware or a response format has them."""
        agent, given = self.agent, list(self.middleware)
        if self.wraps_model and (self.models.is_chosen or not self._is_fixed):
            given = [Instructing(), *given]
        return laid_flat(
            agent.model if isinstance(agent.model, Runnable) else None,
            [*map(guarded, self.tools), *provider_tools(agent)],
            system_message=self._system,
            response_format=self.wanted.response_format if self.wanted else None,
            middleware=given,
            inside=StandingIn(self.wanted, is_ours=not self.wraps_model),
        )

    @cached_property
    def _bindable(self) -> list[Any]:
        return [*self.tools, *provider_tools(self.agent)]

    def bound(self, where: str, model: Any) -> Any:
        """Return a model with all tools, for calls that no node of LangChain's makes."""
        return self._bound.bound(where, model, self._bindable) if self._bindable else model

    @cached_property
    def channels(self) -> Channels:
        """The channels of the state of its middleware."""
        found = self.flat.channels if self.middleware else {}
        return Channels(found, self.site.reducers.names)

    def step(self, activation: Activation, visible: Sequence[BaseMessage] | None = None) -> Step:
        """Return a run of one of the nodes, before it is run; without messages, in their middle."""
        is_open = visible is None
        found = activation.visible(self.agent.history) if visible is None else visible
        return Step(
            activation,
            self.channels,
            found,
            answer=restored(self.wanted, activation.progress.get("answer")),
            keeps_edits=self._keeps_edits,
            is_open=is_open,
        )

    def go_on(self, activation: Activation, node: str, step: Step | None, **changes: Any) -> None:
        """Go on at another node of the activation."""
        progress = {"model_calls": 0, **activation.progress, **changes}
        progress.pop("passed", None)
        if step is not None:
            if passed := step.keep():
                progress["passed"] = passed
            if step.answer is not None or "answer" in progress:
                progress["answer"] = kept(activation, step.answer)
        activation.stay(node, chat=progress)

    def leave(self, activation: Activation, how: Leaving, step: Step | None) -> None:
        """End the activation, by way of the hooks that come last."""
        node = self.site.place.after_agent_node
        if node is None:
            self.end(activation, how, step)
        else:
            self.go_on(activation, node, step, ending=how)

    def end(self, activation: Activation, how: Leaving, step: Step | None) -> None:
        """End the activation."""
        if "target" in how:
            activation.transfer(how["target"])
        elif "signal" in how:
            activation.signal(how["signal"])
        if how.get("keeps"):
            self._keep(activation, step)
        if step is not None:
            step.keep()

    def _keep(self, activation: Activation, step: Step | None) -> None:
        """Write what the agent came to as its value."""
        found = activation.progress.get("answer") if step is None else kept(activation, step.answer)
        if found is not None:
            keep(activation, self.agent, found["data"])
        elif step is not None:
            keep_text(activation, self.agent, self.wanted, _last_text(activation, step))

    def _with_ours(self) -> list[Any]:
        """Return all middleware; where each call asks for itself it does before any other runs it."""
        given, policy = list(self.agent.middleware), self.agent.history
        if isinstance(policy, Summarized):
            given.append(Summarizing(self.agent.name, policy))
        if not self.site.place.asks_approval:
            return given
        approval = Approval(self.agent, self.tools)
        return [approval, *given] if self.agent.interrupt_mode == "per_call" else [*given, approval]

    def tool_node(self, inner: InnerWraps) -> ToolNode:
        """Return what runs tool calls, with an `inner` wrap inside the middleware."""
        found = self.flat.tools if self.middleware else None
        node = found or ToolNode([guarded(tool) for tool in self.tools])
        wrap_inside(node, inner)
        return node

    def system(self, context: Context) -> SystemMessage | None:
        """Return the system message of one step.

        Raises:
            InvalidOutputError: The function that gives it gave something else.
        """
        if self._is_fixed:
            return self._system
        given: Any = self.agent.instruction
        if not isinstance(given, str):
            given = given(context)
            if not isinstance(given, str | SystemMessage):
                raise InvalidOutputError(
                    f"{context.address}: the function instruction= gave {shown(given)}; return a "
                    "template, or a SystemMessage"
                )
        return self._written(given, context.values)

    def check_mode(self, activation: Activation, mode: Mode) -> None:
        """Refuse to run where middleware has a method for the other kind of runs only.

        Raises:
            AgentGraphError: It has; a `Runner` says it before it runs.
        """
        if fault := self._mode_faults[mode]:
            raise AgentGraphError(f"{activation.address}: {fault}")

    def _written(self, given: Any, values: Mapping[str, Any]) -> SystemMessage | None:
        if isinstance(given, str):
            text = fill(given, values, self.agent.name)
            given = SystemMessage(text) if text or self._transfers else None
        return with_text(given, self._transfers) if self._transfers else given


def _last_text(activation: Activation, step: Step) -> str:
    """Return the text of the last message of the activation, which may have been said just now."""
    new, at = activation.said_ids, activation.address
    mine = (m for m in reversed(step.messages) if address_of(m) == at or m.id in new)
    return next((str(m.text) for m in mine if m.type in ("ai", "tool")), "")

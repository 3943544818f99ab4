"""A chat agent as LangChain builds it: its nodes, with what is ours put in; built as it is compiled."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from langchain_core.messages import BaseMessage, SystemMessage
from langgraph.prebuilt import ToolNode

from agentgraph.agents import ChatAgent
from agentgraph.budgets import Summarized, Trimmed
from agentgraph.chat.approve import Approval
from agentgraph.chat.asking import Instructing, StandingIn, with_tools
from agentgraph.chat.guarding import guarded
from agentgraph.chat.laid_flat import FlatAgent, InnerWraps, laid_flat, wrap_inside
from agentgraph.chat.output import keep_result, schema_text
from agentgraph.chat.step import Channels, Step
from agentgraph.errors import AgentGraphError
from agentgraph.middleware import Mode, any_has, mode_fault
from agentgraph.nodes.activation import Activation
from agentgraph.nodes.site import Site
from agentgraph.places import has_tools
from agentgraph.state import Leaving, address_of
from agentgraph.templates import fill, is_filled
from agentgraph.tools import provider_tools, run_tools, transfers_text, without_tools


class BuiltAgent:
    """What the nodes of a chat agent share; where it has no middleware, nothing of `create_agent`.

    Attributes:
        site: Its place.
        agent: The agent.
        tools: The tools that it runs.
        middleware: Its middleware, that of approval included.
        wraps_model: Whether middleware wraps the calls of the model.
        wraps_tools: Whether middleware wraps tool calls.
        runs_tools: Whether it has any tools to run.
    """

    def __init__(self, site: Site) -> None:
        self.site, self.agent = site, cast(ChatAgent, site.place.agent)
        self.tools = run_tools(self.agent, site.target_agents)
        self.middleware = self._with_approval()
        self.wraps_model = any_has(self.middleware, "wrap_model_call")
        self.wraps_tools = any_has(self.middleware, "wrap_tool_call")
        added = (transfers_text(without_tools(self.agent, site.target_agents)), schema_text(self.agent))
        self._added = [text for text in added if text]
        self.runs_tools = has_tools(site.place)
        policy = self.agent.history
        while isinstance(policy, Summarized | Trimmed):
            policy = policy.history
        self._keeps_edits = policy in ("shared", "path", "own")
        modes: tuple[Mode, ...] = ("sync", "async")
        self._mode_faults = {mode: mode_fault(self.agent.middleware, mode) for mode in modes}
        self._is_filled = is_filled(self.agent.instruction)
        self._system: list[SystemMessage | None] = [] if self._is_filled else [self._written({})]

    @cached_property
    def flat(self) -> FlatAgent:
        """The nodes; only an agent with middleware has them."""
        agent, given = self.agent, list(self.middleware)
        system = None if self._is_filled else self._written({})
        if self.wraps_model and self._is_filled:
            given = [Instructing(), *given]
        tools, inside = [*map(guarded, self.tools), *provider_tools(agent)], StandingIn(agent.model)
        return laid_flat(agent.model, tools, system_message=system, middleware=given, inside=inside)

    @cached_property
    def model(self) -> Any:
        """The model with all tools, for calls that no middleware wraps."""
        tools = [*self.tools, *provider_tools(self.agent)]
        return with_tools(self.agent.model, tools) if tools else self.agent.model

    @cached_property
    def channels(self) -> Channels:
        """The channels of the state of its middleware."""
        found = self.flat.channels if self.middleware else {}
        return Channels(found, self.site.reducers.names)

    def step(self, activation: Activation, visible: Sequence[BaseMessage] | None = None) -> Step:
        """Return a run of one of the nodes, before it is run; without messages, in their middle."""
        is_open = visible is None
        found = activation.visible(self.agent.history) if visible is None else visible
        keeps = self._keeps_edits
        return Step(activation, self.channels, found, keeps_edits=keeps, is_open=is_open)

    def go_on(self, activation: Activation, node: str, step: Step | None, **changes: Any) -> None:
        """Go on at another node of the activation."""
        progress = {"model_calls": 0, **activation.progress, **changes}
        progress.pop("passed", None)
        if step is not None and (passed := step.keep()):
            progress["passed"] = passed
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
        if how.get("keeps") and step is not None:
            keep_result(activation, self.agent, _last_text(activation, step))
        if step is not None:
            step.keep()

    def _with_approval(self) -> list[Any]:
        """Return all middleware; where each call asks for itself it does before any other runs it."""
        given = list(self.agent.middleware)
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

    def system(self, values: Mapping[str, Any]) -> SystemMessage | None:
        """Return the system message of an activation that found these values."""
        return self._written(values) if self._is_filled else self._system[0]

    def check_mode(self, activation: Activation, mode: Mode) -> None:
        """Refuse to run where middleware has a method for the other kind of runs only.

        Raises:
            AgentGraphError: It has; a `Runner` says it before it runs.
        """
        if fault := self._mode_faults[mode]:
            raise AgentGraphError(f"{activation.address}: {fault}")

    def _written(self, values: Mapping[str, Any]) -> SystemMessage | None:
        instruction = fill(self.agent.instruction, values, self.agent.name)
        text = "\n\n".join(each for each in (instruction, *self._added) if each)
        return SystemMessage(text) if text else None


def _last_text(activation: Activation, step: Step) -> str:
    """Return the text of the last message of the activation, which may have been said just now."""
    mine = (m for m in reversed(step.messages) if address_of(m) in (None, activation.address))
    return next((str(m.text) for m in mine if m.type in ("ai", "tool")), "")

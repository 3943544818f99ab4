"""A chat agent as LangChain builds it: its nodes, with what is ours put in; built as it is compiled."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

from langchain_core.messages import SystemMessage
from langgraph.prebuilt import ToolNode

from agentgraph.agents import ChatAgent
from agentgraph.chat.asking import Instructing, StandingIn, with_tools
from agentgraph.chat.guarding import guarded
from agentgraph.chat.laid_flat import FlatAgent, InnerWraps, laid_flat, wrap_inside
from agentgraph.chat.output import schema_text
from agentgraph.errors import AgentGraphError
from agentgraph.middleware import Mode, any_has, mode_fault
from agentgraph.nodes.activation import Activation
from agentgraph.nodes.site import Site
from agentgraph.templates import fill, is_filled
from agentgraph.tools import provider_tools, run_tools, transfers_text


class BuiltAgent:
    """What the nodes of a chat agent share; where it has no middleware, nothing of `create_agent`.

    Attributes:
        site: Its place.
        agent: The agent.
        wraps_model: Whether middleware wraps the calls of the model.
        wraps_tools: Whether middleware wraps tool calls.
    """

    def __init__(self, site: Site) -> None:
        self.site, self.agent = site, cast(ChatAgent, site.place.agent)
        self._tools = run_tools(self.agent, site.target_agents)
        self.wraps_model = any_has(self.agent.middleware, "wrap_model_call")
        self.wraps_tools = any_has(self.agent.middleware, "wrap_tool_call")
        added = (transfers_text(site.target_agents), schema_text(self.agent))
        self._added = [text for text in added if text]
        modes: tuple[Mode, ...] = ("sync", "async")
        self._mode_faults = {mode: mode_fault(self.agent.middleware, mode) for mode in modes}
        self._is_filled = is_filled(self.agent.instruction)
        self._system: list[SystemMessage | None] = [] if self._is_filled else [self._written({})]

    @cached_property
    def flat(self) -> FlatAgent:
        """The nodes; only an agent with middleware has them."""
        agent, given = self.agent, [*self.agent.middleware, StandingIn(self.agent.model)]
        system = None if self._is_filled else self._written({})
        if self._is_filled:
            given.insert(0, Instructing())
        tools = [*map(guarded, self._tools), *provider_tools(agent)]
        return laid_flat(agent.model, tools, system_message=system, middleware=given)

    @cached_property
    def model(self) -> Any:
        """The model with all tools, for calls that no middleware wraps."""
        tools = [*self._tools, *provider_tools(self.agent)]
        return with_tools(self.agent.model, tools) if tools else self.agent.model

    def tool_node(self, inner: InnerWraps) -> ToolNode:
        """Return what runs tool calls, with an `inner` wrap inside the middleware."""
        found = self.flat.tools if self.agent.middleware else None
        node = found or ToolNode([guarded(tool) for tool in self._tools])
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

"""The names of the nodes and tasks of a place: `writer`, `writer.tools`, `writer.Cap.before_model`."""

from dataclasses import dataclass
from functools import cached_property

from agentgraph.agents.agents import ChatAgent
from agentgraph.agents.budgets import Summarized
from agentgraph.agents.middleware import ASKS, HOOKS, SUMS_UP, hooks_in


@dataclass(frozen=True)
class Nodes:
    """The names of the nodes and tasks of a place.

    Attributes:
        own: The node of the agent itself; of a chat agent it calls the model.
        agent: The agent, if it is a chat agent.
        asks_approval: Whether a person must agree to its tool calls.
    """

    own: str
    agent: ChatAgent | None
    asks_approval: bool

    @property
    def question(self) -> str:
        """The node that asks the questions of a function agent."""
        return f"{self.own}.ask"

    @property
    def tools(self) -> str:
        """The node that runs the tools of a chat agent."""
        return f"{self.own}.tools"

    @property
    def approve(self) -> str:
        """The node that asks a person to agree to tool calls."""
        return f"{self.own}.approve"

    @property
    def call(self) -> str:
        """The task that runs a tool call."""
        return f"{self.own}.call"

    def hook(self, hook: str) -> str:
        """Return the node of a middleware's hook."""
        return self.approve if hook == ASKS else f"{self.own}.{hook}"

    @cached_property
    def hooks(self) -> tuple[str, ...]:
        """The names of all hooks of a chat agent's middleware, ours included."""
        if self.agent is None:
            return ()
        return tuple(name for hook in HOOKS for name in self._hooks(hook))

    @cached_property
    def entry(self) -> str:
        """The node at which an activation begins."""
        return self._first("before_agent") or self.round

    @cached_property
    def round(self) -> str:
        """The node at which each round of a chat agent begins."""
        return self._first("before_model") or self.own

    @cached_property
    def after_model(self) -> str | None:
        """The first hook after the model; None where there is none."""
        return self._first("after_model")

    @cached_property
    def after_agent(self) -> str | None:
        """The first hook at the end of an activation; None where there is none."""
        return self._first("after_agent")

    def _first(self, hook: str) -> str | None:
        return next(map(self.hook, self._hooks(hook)), None)

    def _hooks(self, hook: str) -> list[str]:
        """Return the names of a hook in the order in which they run.

        Summarization runs last before the model: it sees the messages that other middleware left. One
        question for all calls of a message is asked first after the model, as the innermost hook. With
        a question for each call it is asked last, when all other middleware has seen the calls.
        """
        if self.agent is None:
            return []
        names = hooks_in(self.agent.middleware, hook)
        if hook == "before_model" and isinstance(self.agent.history, Summarized):
            return [*names, SUMS_UP]
        if hook != "after_model" or not self.asks_approval:
            return names
        return [*names, ASKS] if self.agent.interrupt_mode == "per_call" else [ASKS, *names]

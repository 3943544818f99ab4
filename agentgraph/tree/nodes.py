"""The names of the nodes and tasks of a place: `writer`, `writer.tools`, `writer.Cap.before_model`."""

from dataclasses import dataclass
from typing import Self

from agentgraph.agents.agents import ChatAgent
from agentgraph.agents.budgets import Summarized
from agentgraph.agents.middleware import ASKS, HOOKS, SUMS_UP, hooks_in


@dataclass(frozen=True, slots=True)
class Nodes:
    """The names of the nodes and tasks of a place.

    Attributes:
        own: The node of the agent itself; for a chat agent, the node that calls the model.
        entry: The node at which an activation starts.
        round: The node at which each round of a chat agent starts.
        after_model: The first hook after the model, or None.
        after_agent: The first hook at the end of an activation, or None.
        hooks: The names of all hooks of a chat agent's middleware, including ours.
    """

    own: str
    entry: str
    round: str
    after_model: str | None = None
    after_agent: str | None = None
    hooks: tuple[str, ...] = ()

    @classmethod
    def of(cls, own: str, agent: ChatAgent | None, *, asks_approval: bool) -> Self:
        """Return the names for a place.

        Args:
            own: The node of its agent.
            agent: The agent, if it is a chat agent.
            asks_approval: Whether a person must agree to its tool calls.
        """
        plain = cls(own, own, own)
        if agent is None:
            return plain
        hooks = {hook: _hooks(agent, hook, asks_approval=asks_approval) for hook in HOOKS}
        first = {hook: plain.hook(names[0]) for hook, names in hooks.items() if names}
        begins = first.get("before_model", own)
        return cls(
            own,
            first.get("before_agent", begins),
            begins,
            first.get("after_model"),
            first.get("after_agent"),
            tuple(name for names in hooks.values() for name in names),
        )

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

    @property
    def middleware(self) -> list[str]:
        """The nodes of the hooks of middleware."""
        return [self.hook(hook) for hook in self.hooks if hook != ASKS]

    def hook(self, hook: str) -> str:
        """Return the node of a middleware's hook."""
        return self.approve if hook == ASKS else f"{self.own}.{hook}"


def _hooks(agent: ChatAgent, hook: str, *, asks_approval: bool) -> list[str]:
    """Return the names of a hook in the order in which they run.

    Summarization runs last before the model, so that it sees the messages after all other middleware.
    One question for all calls of a message is asked first after the model, as the innermost hook. With
    one question per call, questions are asked last, when all other middleware has seen the calls.
    """
    names = hooks_in(agent.middleware, hook)
    if hook == "before_model" and isinstance(agent.history, Summarized):
        return [*names, SUMS_UP]
    if hook != "after_model" or not asks_approval:
        return names
    return [*names, ASKS] if agent.interrupt_mode == "per_call" else [ASKS, *names]

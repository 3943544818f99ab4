"""Runs trees on one thread, in memory or in a file, and reads its values."""

from pathlib import Path
from typing import Any

from forked import CONFIG as CONFIG
from forked import Opened
from helpers import Drive
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag


class Thread:
    """A thread whose runs may end in an error, and which several trees may run.

    Attributes:
        error: The error of the last call, if there was one.
    """

    def __init__(self, drive: Drive, path: Path | None = None) -> None:
        self.drive, self.path = drive, path
        self.memory = InMemorySaver()
        self.error: Any = None

    def run(self, tree: ag.Agent, schema: Any = None, **options: Any) -> list[ag.AgentEvent]:
        return self.call(tree, schema, "run", "Go.", thread_id="t", **options)

    def resume(
        self, tree: ag.Agent, schema: Any = None, *answers: Any, **options: Any
    ) -> list[ag.AgentEvent]:
        return self.call(tree, schema, "resume", "t", *answers, **options)

    def events(self, tree: ag.Agent, schema: Any = None) -> list[ag.AgentEvent]:
        return self.call(tree, schema, "events", "t")

    def pending(self, tree: ag.Agent, schema: Any = None) -> list[ag.Interrupt]:
        return self._opened(tree, schema).pending()

    def values(self, tree: ag.Agent, schema: Any = None) -> dict[str, Any]:
        """Return the values of the thread's last checkpoint."""
        return dict(self._opened(tree, schema).state().values["values"])

    def call(
        self, tree: ag.Agent, schema: Any, method: str, *args: Any, **options: Any
    ) -> list[ag.AgentEvent]:
        """Return the events of a call, up to its error if there is one."""
        events: list[ag.AgentEvent] = []
        self.error = None
        try:
            self._opened(tree, schema).collect(events, method, *args, **options)
        except Exception as error:
            self.error = error
        return events

    def _opened(self, tree: ag.Agent, schema: Any) -> Opened:
        return Opened(self.drive, tree, self.path, memory=self.memory, values=schema)


class Counted:
    """A function agent's function that writes values, and counts how often it ran."""

    def __init__(self, *writes: dict[str, Any]) -> None:
        self.writes, self.runs = writes, 0
        self.saw: list[dict[str, Any]] = []

    def __call__(self, ctx: ag.Context) -> Any:
        self.runs += 1
        self.saw.append(dict(ctx.values))
        yield from (ag.SetValues(**each) for each in self.writes)


def writes(name: str, *values: dict[str, Any], **options: Any) -> ag.Agent:
    """Return a function agent that writes values, one mapping after the other."""
    return ag.function_agent(name, Counted(*values), **options)


def runs_of(agent: Any) -> int:
    """Return how often an agent of `writes` ran."""
    return int(agent.fn.runs)


def saw(agent: Any) -> list[dict[str, Any]]:
    """Return the values that an agent of `writes` found, by run."""
    found: list[dict[str, Any]] = agent.fn.saw
    return found

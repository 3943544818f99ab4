"""Runs trees on one thread, in memory or on disk with a new runner each time, and reads its values."""

import asyncio
from pathlib import Path
from typing import Any

from helpers import Drive, Sync
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag

CONFIG = {"configurable": {"thread_id": "t"}}


class Thread:
    """A thread whose runs may end in an error.

    Attributes:
        error: How the last call failed, if it did.
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
        def read(saver: Any) -> list[ag.Interrupt]:
            return ag.Runner(tree, checkpointer=saver, values=schema).pending("t")

        return self._with_saver(read)

    def values(self, tree: ag.Agent, schema: Any = None) -> dict[str, Any]:
        """Return the values of the thread's last checkpoint."""

        def read(saver: Any) -> dict[str, Any]:
            graph = ag.compile_agent(tree, checkpointer=saver, values=schema)
            return dict(graph.get_state(CONFIG).values["values"])

        return self._with_saver(read)

    def call(
        self, tree: ag.Agent, schema: Any, method: str, *args: Any, **options: Any
    ) -> list[ag.AgentEvent]:
        """Return the events of a call, up to its error if there is one."""
        told: list[ag.AgentEvent] = []
        name = method if self.drive is Sync else f"a{method}"

        def begin(saver: Any) -> Any:
            runner = ag.Runner(tree, checkpointer=saver, values=schema)
            return getattr(runner, name)(*args, **options)

        self.error = None
        try:
            if self.drive is Sync:
                self._with_saver(lambda saver: _follow(told, begin(saver)))
            else:
                asyncio.run(self._acall(told, begin))
        except Exception as error:
            self.error = error
        return told

    async def _acall(self, told: list[ag.AgentEvent], begin: Any) -> None:
        if self.path is None:
            await _afollow(told, begin(self.memory))
            return
        async with ag.async_sqlite_saver(self.path) as saver:
            await _afollow(told, begin(saver))

    def _with_saver(self, use: Any) -> Any:
        if self.path is None:
            return use(self.memory)
        with ag.sqlite_saver(self.path) as saver:
            return use(saver)


def _follow(told: list[ag.AgentEvent], events: Any) -> None:
    told.extend(events)  # keeps those before an error


async def _afollow(told: list[ag.AgentEvent], events: Any) -> None:
    async for event in events:
        told.append(event)


class Counted:
    """A function agent's function that writes values, and counts how often it ran."""

    def __init__(self, *writes: dict[str, Any], text: str = "") -> None:
        self.writes, self.text, self.runs = writes, text, 0
        self.saw: list[dict[str, Any]] = []

    def __call__(self, ctx: ag.Context) -> Any:
        self.runs += 1
        self.saw.append(dict(ctx.values))
        yield from (ag.SetValues(**each) for each in self.writes)
        if self.text:
            yield self.text


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

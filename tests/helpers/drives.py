"""Drivers that run trees: sync or async, in memory, in a file or in a database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, closing, nullcontext
from itertools import islice
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from helpers.databases import Place, asaver_at, saver_at


class Sync:
    run = staticmethod(ag.Runner.run)
    resume = staticmethod(ag.Runner.resume)


class Async:
    @staticmethod
    def run(runner: ag.Runner, *args: Any, **options: Any) -> Iterator[ag.AgentEvent]:
        return driven(runner.arun(*args, **options))

    @staticmethod
    def resume(runner: ag.Runner, *args: Any, **options: Any) -> Iterator[ag.AgentEvent]:
        return driven(runner.aresume(*args, **options))


def driven(events: AsyncIterator[ag.AgentEvent]) -> Iterator[ag.AgentEvent]:
    """Yield the items of an async iterator, in a new event loop."""

    async def following() -> ag.AgentEvent | None:
        return await anext(events, None)

    with asyncio.Runner() as loop:
        while (event := loop.run(following())) is not None:
            yield event


Drive = type[Sync] | type[Async]


def fresh(drive: Drive, path: Place, agent: Any, method: str, *args: Any, **options: Any) -> Any:
    """Return the result of a method of a new runner on a file or a database, as a list."""
    found: list[Any] = []
    collect(found, drive, path, agent, method, *args, **options)
    return found


def collect(
    events: list[Any], drive: Drive, path: Place, agent: Any, method: str, *args: Any, **options: Any
) -> None:
    """Add to `events` what a method of a new runner on a file or a database yields, as it comes."""
    if drive is Sync:
        with saver_at(path) as saver:
            events.extend(getattr(ag.Runner(agent, checkpointer=saver), method)(*args, **options))
        return

    async def acollect() -> None:
        async with asaver_at(path) as saver:
            runner = ag.Runner(agent, checkpointer=saver)
            async for event in getattr(runner, f"a{method}")(*args, **options):
                events.append(event)

    asyncio.run(acollect())


class Disk:
    """Runs a tree on a file or a database, each time with a new runner, as another process would."""

    def __init__(self, drive: Drive, path: Place) -> None:
        self.drive, self.path = drive, path
        self.heard: list[ag.AgentEvent] = []
        """All events of the runs and resumes that ended without an error."""

    def run(self, tree: ag.Agent, text: str = "Go.") -> list[ag.AgentEvent]:
        events: list[ag.AgentEvent] = fresh(self.drive, self.path, tree, "run", text, thread_id="t")
        self.heard += events
        return events

    def resume(self, tree: ag.Agent, *answers: Any) -> list[ag.AgentEvent]:
        events: list[ag.AgentEvent] = fresh(self.drive, self.path, tree, "resume", "t", *answers)
        self.heard += events
        return events

    def events(self, tree: ag.Agent) -> list[ag.AgentEvent]:
        return list(fresh(self.drive, self.path, tree, "events", "t"))

    def fail(self, tree: ag.Agent, method: str, error: type[Exception]) -> list[ag.AgentEvent]:
        """Run or resume up to an error, and return the events before it."""
        events: list[ag.AgentEvent] = []
        call: Any = {"run": (("Go.",), {"thread_id": "t"}), "resume": (("t",), {})}
        args, options = call[method]
        with pytest.raises(error):
            collect(events, self.drive, self.path, tree, method, *args, **options)
        return events


def failing(
    events: Iterable[ag.AgentEvent], error: type[Exception]
) -> tuple[list[ag.AgentEvent], Exception]:
    """Return the events of a run that ends in an error, and the error."""
    found: list[ag.AgentEvent] = []
    with pytest.raises(error) as caught:
        found.extend(events)
    return found, caught.value


THREAD: Any = {"configurable": {"thread_id": "t"}}
"""The config of the thread "t" for LangGraph."""


class Session:
    """A thread, used sync or async, in memory, a file or a database.

    In memory a tree has one runner; else each call has a new one, as in another process.
    """

    def __init__(self, tree: ag.Agent, drive: Drive, path: Place | None = None) -> None:
        self.tree, self.drive, self.path, self.memory = tree, drive, path, InMemorySaver()
        self.id = "t"
        self._in_memory: ag.Runner | None = None

    def runner(self, saver: Any) -> ag.Runner:
        made = self._in_memory
        if self.path is not None or made is None or made.agent is not self.tree:
            made = self._in_memory = ag.Runner(self.tree, checkpointer=saver)
        return made

    def use(self, act: Callable[[ag.Runner], Any], aact: Callable[[ag.Runner], Any]) -> Any:
        """Return the result of `act` for a new runner; in an async session, that of `aact`."""
        if self.drive is Sync:
            opened = nullcontext(self.memory) if self.path is None else saver_at(self.path)
            with opened as saver:
                return act(self.runner(saver))

        async def in_a_loop() -> Any:
            opened = nullcontext(self.memory) if self.path is None else asaver_at(self.path)
            async with opened as saver:
                return await aact(self.runner(saver))

        return asyncio.run(in_a_loop())

    def follow(
        self,
        method: str,
        *args: Any,
        hear: Callable[[ag.AgentEvent], None],
        left: int | None = None,
        **options: Any,
    ) -> None:
        """Hear the events of a call up to its end, or close it after `left` of them."""

        def act(runner: ag.Runner) -> None:
            events = getattr(runner, method)(*args, **options)
            with nullcontext() if left is None else closing(events):
                for event in islice(events, left):
                    hear(event)

        async def aact(runner: ag.Runner) -> None:
            events, heard = getattr(runner, f"a{method}")(*args, **options), 0
            async with nullcontext() if left is None else aclosing(events):
                while heard != left and (event := await anext(events, None)) is not None:
                    hear(event)
                    heard += 1

        self.use(act, aact)

    def events(self) -> list[ag.AgentEvent]:
        events: list[ag.AgentEvent] = []
        self.follow("events", self.id, hear=events.append)
        return events

    def thread(self) -> ag.Thread:
        found: ag.Thread = self.use(lambda r: r.thread(self.id), lambda r: r.athread(self.id))
        return found

    def visits(self) -> list[ag.Visit]:
        return list(self.use(lambda r: r.visits(self.id), lambda r: r.avisits(self.id)))

    def pending(self) -> list[ag.Interrupt]:
        return list(self.use(lambda runner: runner.pending(self.id), lambda r: r.apending(self.id)))

    def state(self) -> dict[str, Any]:
        """Return the values of the thread's last checkpoint."""
        at: Any = {"configurable": {"thread_id": self.id}}
        found = self.use(lambda r: r.graph.get_state(at), lambda r: r.graph.aget_state(at))
        return dict(found.values)

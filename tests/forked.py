"""A thread that is run, resumed and forked, sync or async, in memory or in a file."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from helpers import Drive, Sync, standing
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.threads.replay import last_turn
from agentgraph.tree.validation import validate

CONFIG: Any = {"configurable": {"thread_id": "t"}}
FORKS = ("edited and resumed", "edited and invoked", "invoked")
"""The ways in which a thread is forked."""
_ALL: Any = {
    "stream_mode": list(ag.STREAM_MODES),
    "subgraphs": True,
    "version": "v2",
    "durability": "sync",
}


class Counted:
    """Makes function agents that say their name and how many were asked before, so each text once."""

    def __init__(self) -> None:
        self._count = count()

    def __call__(self, name: str, **options: Any) -> ag.Agent:
        def say(ctx: ag.Context) -> str:
            return f"{name}{next(self._count)}"

        return ag.function_agent(name, say, **options)


class Opened:
    """A tree and a saver: runs methods of a runner, on a file with a new runner each time."""

    def __init__(
        self,
        drive: Drive,
        tree: ag.Agent,
        path: Path | None = None,
        *,
        memory: InMemorySaver | None = None,
        values: Any = None,
    ) -> None:
        self.drive, self.tree, self.path, self._values = drive, tree, path, values
        self._in_memory = None if path else self._on(memory or InMemorySaver())

    def collect(self, into: list[Any], method: str, *args: Any, **options: Any) -> None:
        """Add to a list what a method of a runner yields, also if it raises in the end."""
        if self.drive is Sync:
            with self.runner() as runner:
                into.extend(getattr(runner, method)(*args, **options))
            return

        async def collect(runner: ag.Runner) -> None:
            async for event in getattr(runner, f"a{method}")(*args, **options):
                into.append(event)

        self.asked(collect)

    def pending(self) -> list[ag.Interrupt]:
        return self.either(lambda runner: runner.pending("t"), lambda runner: runner.apending("t"))

    def state(self, at: Any = CONFIG) -> Any:
        return self.either(
            lambda runner: runner.graph.get_state(at), lambda runner: runner.graph.aget_state(at)
        )

    def either(self, do: Any, ado: Any) -> Any:
        """Call a function with a sync runner, or await another one with an async runner."""
        if self.drive is Sync:
            with self.runner() as runner:
                return do(runner)
        return self.asked(ado)

    @contextmanager
    def runner(self) -> Iterator[ag.Runner]:
        if self._in_memory:
            yield self._in_memory
        else:
            with ag.sqlite_saver(str(self.path)) as saver:
                yield self._on(saver)

    def asked(self, ask: Any) -> Any:
        async def opened() -> Any:
            if self._in_memory:
                return await ask(self._in_memory)
            async with ag.async_sqlite_saver(str(self.path)) as saver:
                return await ask(self._on(saver))

        return asyncio.run(opened())

    def _on(self, saver: Any) -> ag.Runner:
        return ag.Runner(self.tree, checkpointer=saver, values=self._values)


class Thread(Opened):
    """A thread whose events are kept.

    Attributes:
        told: The events that readers of the runs received, by their ids.
        heard: All of them but chunks, in order.
    """

    def __init__(self, drive: Drive, tree: ag.Agent, path: Path | None = None) -> None:
        super().__init__(drive, tree, path)
        self.told: dict[str, ag.AgentEvent] = {}
        self.heard: list[ag.AgentEvent] = []
        self._begun = 0

    def run(self, text: str = "Go.", **options: Any) -> list[str]:
        return self._noted("run", text, thread_id="t", **options)

    def resume(self, *answers: Any, **options: Any) -> list[str]:
        return self._noted("resume", "t", *answers, **options)

    def replay(self, at: Any) -> list[str]:
        """Continue from a checkpoint as `graph.invoke(None, config)` does."""

        def go_on(runner: ag.Runner) -> list[ag.AgentEvent]:
            return list(ag.translate(self.tree, runner.graph.stream(None, at, **_ALL)))

        async def ago_on(runner: ag.Runner) -> list[ag.AgentEvent]:
            parts = runner.graph.astream(None, at, **_ALL)
            return [event async for event in ag.atranslate(self.tree, parts)]

        return self._note(self.either(go_on, ago_on))

    def edit(self, at: Any, values: Any = None, **options: Any) -> Any:
        """Edit the state at a checkpoint, and return the config of the one that this makes."""
        self._begun = len(self.heard)
        update = {"values": {"edited": True}} if values is None and not options else values
        return self.either(
            lambda runner: runner.graph.update_state(at, update, **options),
            lambda runner: runner.graph.aupdate_state(at, update, **options),
        )

    def fork(self, how: str, at: Any) -> list[str]:
        """Continue from a checkpoint in one of several ways."""
        match how:
            case "edited and resumed":
                self.edit(at)
                return self.resume()
            case "edited and invoked":
                return self.replay(self.edit(at))
            case "invoked":
                return self.replay(at)
        raise ValueError(how)

    def events(self) -> list[ag.AgentEvent]:
        """Return the events of the thread: some of those that readers received, in that order.

        What a run made void may be of a line that the thread goes back to later. But it makes nothing
        void that leads to the head where it ends.
        """
        events: list[ag.AgentEvent] = []
        self.collect(events, "events", "t")
        before = [event for event in self.heard[: self._begun] if event.kind != "discarded"]
        once = {(event.id, event.time): event for event in before}
        left = standing([*once.values(), *self.heard[self._begun :]])
        assert events == [event for event in left if event in events]
        assert len({event.id for event in events}) == len(events)
        return events

    def lines(self) -> list[str]:
        return lines(self.events())

    def check_pending(self, *addresses: str) -> None:
        """Check which questions are pending, for us and for LangGraph."""
        questions = self.pending()
        assert [question.address for question in questions] == list(addresses)
        assert {each.id for each in self.state().interrupts} == {question.id for question in questions}

    def last_turn(self) -> list[str]:
        """Return what `watch` shows of the turn so far: texts and questions."""
        reads = last_turn(validate(self.tree), "t")
        came = self.either(
            lambda runner: runner.engine.read(reads, "t"),
            lambda runner: runner.engine.aread(reads, "t"),
        )
        return lines(event for event in came if isinstance(event, ag.AgentEvent))

    def history(self) -> list[Any]:
        """Return the states at all checkpoints of the root, the newest first."""

        async def ahistory(runner: ag.Runner) -> list[Any]:
            return [state async for state in runner.graph.aget_state_history(CONFIG)]

        return self.either(lambda runner: list(runner.graph.get_state_history(CONFIG)), ahistory)

    def before(self, node: str, nth: int = 0) -> Any:
        """Return the config of the first checkpoint at which a node is next, or of a later one."""
        return [each.config for each in self.history()[::-1] if each.next == (node,)][nth]

    def _noted(self, method: str, *args: Any, **options: Any) -> list[str]:
        came: list[ag.AgentEvent] = []
        try:
            self.collect(came, method, *args, **options)
        finally:
            said = self._note(came)
        return said

    def _note(self, events: Iterable[ag.AgentEvent]) -> list[str]:
        told = [replace(event, thread_id="t") for event in events]
        self._begun = len(self.heard)
        self.heard += [event for event in told if not event.partial]
        self.told.update((event.id, event) for event in told)
        return lines(told)


def lines(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return texts and questions, in short."""
    whole = [event for event in events if not event.partial and event.kind != "discarded"]
    return [event.text or f"{event.agent_name}?" for event in whole]

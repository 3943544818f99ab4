"""A thread driven sync or async, in memory or on a file, that can be edited and forked."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Annotated, Any

from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.journal.replay import last_turn
from helpers import Drive, Sync, unvoided
from helpers.databases import Place, asaver_at, saver_at

CONFIG: Any = {"configurable": {"thread_id": "t"}}


_ALL: Any = {
    "stream_mode": list(ag.STREAM_MODES),
    "subgraphs": True,
    "version": "v2",
    "durability": "sync",
}
FORKS = ("edited and resumed", "edited and invoked", "invoked")
"""The ways in which a thread is forked."""


class Counted:
    """Function agents that say their name and how many were asked before them, so each word once."""

    def __init__(self) -> None:
        self._count = count()

    def __call__(self, name: str, **options: Any) -> ag.Agent:
        def say(ctx: ag.Context) -> str:
            return f"{name}{next(self._count)}"

        return ag.function_agent(name, say, **options)


class Thread:
    """A thread in memory, or in a file or a database with a new runner each time."""

    def __init__(self, drive: Drive, tree: ag.Agent, path: Place | None = None) -> None:
        self.drive, self.tree, self.path = drive, tree, path
        self.values: Any = None
        """The declaration of the values."""
        self._memory = InMemorySaver()
        self._in_memory: ag.Runner | None = None
        self.told: dict[str, ag.AgentEvent] = {}
        """The events that the readers of the runs received, by id."""
        self.heard: list[ag.AgentEvent] = []
        """All of them except chunks, in order."""
        self._begun = 0

    def run(self, text: str = "Go.", **options: Any) -> list[str]:
        return self._tell("run", text, thread_id="t", **options)

    def resume(self, *answers: Any, **options: Any) -> list[str]:
        return self._tell("resume", "t", *answers, **options)

    def rewind(self, at: str, **options: Any) -> list[str]:
        return self._tell("rewind", "t", at, **options)

    def visited(self) -> list[ag.Visit]:
        """Return the visits of the thread."""
        if self.drive is Sync:
            with self._runner() as runner:
                return runner.visits("t")
        visits: list[ag.Visit] = self._asked(lambda runner: runner.avisits("t"))
        return visits

    def declare(self, **fields: tuple[type, Any]) -> None:
        """Declare values from now on, each with its type and its reducer."""
        make: Any = TypedDict
        declared = {name: Annotated[kind, reducer] for name, (kind, reducer) in fields.items()}
        self.values, self._in_memory = make("Values", declared), None

    def become(self, tree: ag.Agent) -> None:
        """Go on with another tree."""
        self.tree, self._in_memory = tree, None

    def replay(self, at: Any) -> list[str]:
        """Go on from a checkpoint as `graph.invoke(None, config)` does."""
        if self.drive is Sync:
            with self._runner() as runner:
                return self._note(ag.translate(self.tree, runner.graph.stream(None, at, **_ALL)))

        async def resumed(runner: ag.Runner) -> list[ag.AgentEvent]:
            parts = runner.graph.astream(None, at, **_ALL)
            return [event async for event in ag.atranslate(self.tree, parts)]

        return self._note(self._asked(resumed))

    def edit(self, at: Any, values: Any = None, **options: Any) -> Any:
        """Edit the state at a checkpoint, and return the config of the one that this makes."""
        self._begun = len(self.heard)
        update = {"values": {"edited": True}} if values is None and not options else values
        if self.drive is Sync:
            with self._runner() as runner:
                return runner.graph.update_state(at, update, **options)
        return self._asked(lambda runner: runner.graph.aupdate_state(at, update, **options))

    def fork(self, how: str, at: Any) -> list[str]:
        """Go on from a checkpoint in one of several ways."""
        match how:
            case "edited and resumed":
                self.edit(at)
                return self.resume()
            case "edited and invoked":
                return self.replay(self.edit(at))
            case "invoked":
                return self.replay(at)
        raise ValueError(how)

    def spent(self) -> ag.Spent:
        """Return the usage of the thread."""
        if self.drive is Sync:
            with self._runner() as runner:
                return runner.thread("t").spent

        async def read(runner: ag.Runner) -> ag.Spent:
            return (await runner.athread("t")).spent

        spent: ag.Spent = self._asked(read)
        return spent

    def events(self) -> list[ag.AgentEvent]:
        """Return the events of the thread: some of those that readers received, in that order.

        Events that a run discarded may belong to a line that the thread returns to later. But a run
        discards nothing that leads to its latest checkpoint.
        """
        events = self._call("events", "t")
        before = [event for event in self.heard[: self._begun] if event.kind != "discarded"]
        once = {(event.id, event.time): event for event in before}
        left = unvoided([*once.values(), *self.heard[self._begun :]])
        assert events == [event for event in left if event in events]
        assert len({event.id for event in events}) == len(events)
        return events

    def lines(self) -> list[str]:
        return lines(self.events())

    def pending(self) -> list[ag.Interrupt]:
        if self.drive is Sync:
            with self._runner() as runner:
                return runner.pending("t")
        return self._asked(lambda runner: runner.apending("t"))

    def check_pending(self, *addresses: str) -> None:
        """Check which questions wait, by us and by LangGraph."""
        questions = self.pending()
        assert [question.address for question in questions] == list(addresses)
        assert {each.id for each in self.state().interrupts} == {question.id for question in questions}

    def last_turn(self) -> list[str]:
        """Return the lines that `watch` shows of the turn so far: messages, and the ends of agents."""
        if self.drive is Sync:
            with self._runner() as runner:
                came = runner.engine.read(last_turn, "t")
        else:
            came = self._asked(lambda runner: runner.engine.aread(last_turn, "t"))
        return lines(event for event in came if isinstance(event, ag.AgentEvent))

    def state(self, at: Any = CONFIG) -> Any:
        if self.drive is Sync:
            with self._runner() as runner:
                return runner.graph.get_state(at)
        return self._asked(lambda runner: runner.graph.aget_state(at))

    def history(self) -> list[Any]:
        """Return the states at all checkpoints of the root, the newest first."""
        if self.drive is Sync:
            with self._runner() as runner:
                return list(runner.graph.get_state_history(CONFIG))

        async def collect(runner: ag.Runner) -> list[Any]:
            return [state async for state in runner.graph.aget_state_history(CONFIG)]

        return self._asked(collect)

    def before(self, node: str, nth: int = 0) -> Any:
        """Return the config of the first checkpoint at which a node is next, or of a later one."""
        return [each.config for each in self.history()[::-1] if each.next == (node,)][nth]

    def _tell(self, method: str, *args: Any, **options: Any) -> list[str]:
        came: list[ag.AgentEvent] = []
        try:
            self._call(method, *args, into=came, **options)
        finally:
            said = self._note(came)
        return said

    def _note(self, events: Iterable[ag.AgentEvent]) -> list[str]:
        told = [replace(event, thread_id="t") for event in events]
        self._begun = len(self.heard)
        self.heard += [event for event in told if not event.partial]
        self.told.update((event.id, event) for event in told)
        return lines(told)

    def _call(
        self, method: str, *args: Any, into: list[ag.AgentEvent] | None = None, **options: Any
    ) -> list[ag.AgentEvent]:
        came = [] if into is None else into
        if self.drive is Sync:
            with self._runner() as runner:
                came.extend(getattr(runner, method)(*args, **options))
            return came

        async def collect(runner: ag.Runner) -> None:
            async for event in getattr(runner, f"a{method}")(*args, **options):
                came.append(event)

        self._asked(collect)
        return came

    @contextmanager
    def _runner(self) -> Iterator[ag.Runner]:
        if self.path is None:
            yield self._kept()
            return
        with saver_at(self.path) as saver:
            yield self._with(saver)

    def _kept(self) -> ag.Runner:
        """Return the runner in memory, a new one only after a change."""
        if self._in_memory is None:
            self._in_memory = self._with(self._memory)
        return self._in_memory

    def _with(self, saver: Any) -> ag.Runner:
        return ag.Runner(self.tree, checkpointer=saver, values=self.values)

    def _asked(self, ask: Any) -> Any:
        async def opened() -> Any:
            if self.path is None:
                return await ask(self._kept())
            async with asaver_at(self.path) as saver:
                return await ask(self._with(saver))

        return asyncio.run(opened())


def lines(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return the messages and questions, in short."""
    whole = [event for event in events if not event.partial and event.kind != "discarded"]
    return [event.text or f"{event.agent_name}?" for event in whole]

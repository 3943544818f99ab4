"""Runs a compiled tree on a thread that it holds. The only file that consumes a stream."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing, suppress
from functools import partial
from math import inf
from typing import Any, NamedTuple, TypeVar, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from agentgraph.agents.limits import Limits, check_limits
from agentgraph.agents.middleware import Mode
from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent
from agentgraph.events.translation import Translator, is_of_an_agent
from agentgraph.graph.failures import failures
from agentgraph.graph.nodes.context import LIMITS
from agentgraph.graph.nodes.stopping import Stop
from agentgraph.graph.nodes.telling import TOLD_BEFORE
from agentgraph.threads.going_on import GoingOn, going_on, keep_heard
from agentgraph.threads.locks import ahold, hold
from agentgraph.threads.reader import Reader, config_of
from agentgraph.threads.runs import AsyncRun, Driver, Heard, Run, Source
from agentgraph.threads.savers import is_of_database, saver_error
from agentgraph.threads.threads import Reads, keep_failure
from agentgraph.tree.places import Tree

Parts = Generator[Any, None, None]
AsyncParts = AsyncGenerator[Any, None]
Begin = Callable[[], Reads[Any]]
"""Checks the thread, and returns what LangGraph is to be given; run while the thread is held."""
See = Callable[[Any], Any]
"""Is shown each part of a stream before it is told, and returns it; some tell what runs."""

T = TypeVar("T")

_LEFT = "the run was left"
"""Why branches that are still running stop behind their step; a run that has ended has none."""


class How(NamedTuple):
    """How a run is streamed, and what it may use.

    Attributes:
        stream: Whether replies of models are told in chunks, too.
        limits: What the turn may use, where it is not what was compiled.
        see: Is shown each part of the stream before it is told.
    """

    stream: bool
    limits: Limits | None = None
    see: See | None = None


class Engine:
    """Runs a compiled tree on threads that it holds, and reads them.

    Attributes:
        tree: The tree.
        graph: The LangGraph graph that it was compiled to.
        saver: Where the threads are kept.
    """

    def __init__(
        self,
        tree: Tree,
        graph: CompiledStateGraph[Any, Any, Any, Any],
        saver: BaseCheckpointSaver[Any],
    ) -> None:
        self.tree, self.graph, self.saver = tree, graph, saver
        reader = Reader(saver, graph)
        self.read, self.aread, self.check_saver = reader.read, reader.aread, reader.check_sync

    def run(self, begin: Begin, thread_id: str, how: How) -> Run:
        """Admit a run, and return its events."""
        check_limits(how.limits)
        held = hold(self.saver, thread_id)
        try:
            given = self.read(begin(), thread_id)
            on = self.read(going_on(self.tree, thread_id, given), thread_id)
        except BaseException:
            held.release()
            raise
        return Run(self._events(given, thread_id, how, on), held)

    def arun(self, begin: Begin, thread_id: str, how: How) -> AsyncRun:
        """Return the events of a run that is admitted when it is awaited."""

        async def admit() -> Source:
            check_limits(how.limits)
            self._check_mode("async")
            held = await ahold(self.saver, thread_id)
            try:
                given = await self.aread(begin(), thread_id)
                on = await self.aread(going_on(self.tree, thread_id, given), thread_id)
            except BaseException:
                held.release()
                raise
            control, heard = Stop(), Heard()
            events = self._aevents(given, thread_id, how, control, on, heard)
            stops = partial(control.stop, _LEFT), partial(control.abandon, _LEFT)
            return Driver(events, *stops, held, heard)

        return AsyncRun(admit)

    def _events(
        self, given: Any, thread_id: str, how: How, on: GoingOn
    ) -> Generator[AgentEvent, None, None]:
        """Yield the events of a run, and keep what was heard as it ends."""
        heard = Heard()
        try:
            for event in on.first:
                yield event
            heard.upto = on.begin.time
            with closing(self._told(given, thread_id, how, on, heard)) as told:
                for event in told:
                    heard.take(event)
                    yield event
        finally:
            with suppress(Exception):  # without the mark it is told again
                self.read(keep_heard(heard.upto), thread_id)

    def _told(
        self, given: Any, thread_id: str, how: How, on: GoingOn, heard: Heard
    ) -> Generator[AgentEvent, None, None]:
        translator, control = self._translator(thread_id, on), Stop()
        options = self._options(thread_id, how, control, on)
        self.read(on.keep(), thread_id)
        try:
            with closing(cast(Parts, self.graph.stream(given, **options))) as stream:
                parts = _seen(stream, control, how.see)  # closed behind the stop, not by the loop
                try:
                    for part in parts:
                        yield from translator.feed(part)
                finally:
                    control.stop(_LEFT)
            heard.upto = inf
        except BaseException as error:
            if is_of_an_agent(error):
                told = list(translator.fail(error))
                if failures(error):
                    self.read(keep_failure(error, translator.failures), thread_id)
                yield from told
                if not (failures(error) or is_of_database(error)):  # nothing, if nobody heard of it
                    self.read(keep_failure(error, translator.failures), thread_id)
                heard.upto = inf
            self._raise_of_saver(error, thread_id, heard)
            raise

    async def _aevents(
        self,
        given: Any,
        thread_id: str,
        how: How,
        control: Stop,
        on: GoingOn,
        heard: Heard,
    ) -> AsyncGenerator[AgentEvent, None]:
        for event in on.first:
            yield event
        if control.drain_requested:  # it was left before anything began
            return
        heard.upto = on.begin.time
        translator = self._translator(thread_id, on)
        options = self._options(thread_id, how, control, on)
        await self.aread(on.keep(), thread_id)
        try:
            async with aclosing(cast(AsyncParts, self.graph.astream(given, **options))) as stream:
                async for part in _aseen(stream, control, how.see):
                    for event in translator.feed(part):
                        yield event
            if not control.drain_requested:
                heard.upto = inf
        except BaseException as error:
            if failures(error) or (is_of_an_agent(error) and not control.drain_requested):
                told = list(translator.fail(error))
                if failures(error):
                    kept = keep_failure(error, translator.failures)
                    await self.aread(kept, thread_id)
                for event in told:
                    yield event
                if not (failures(error) or is_of_database(error)):  # nothing, if nobody heard of it
                    kept = keep_failure(error, translator.failures)
                    await self.aread(kept, thread_id)
                if not control.drain_requested:
                    heard.upto = inf
            self._raise_of_saver(error, thread_id, heard)
            raise
        finally:
            with suppress(Exception):  # without the mark it is told again
                await self.aread(keep_heard(heard.upto), thread_id)

    def _translator(self, thread_id: str, on: GoingOn) -> Translator:
        return Translator(self.tree, thread_id, begin=on.begin, waiting=on.questions)

    def _raise_of_saver(self, error: BaseException, thread_id: str, heard: Heard) -> None:
        """Raise a failure of the database as ours; what was heard cannot be kept there either."""
        if is_of_database(error):
            heard.upto = None
            raise saver_error(error, self.saver, thread_id) from error

    def _options(self, thread_id: str, how: How, control: Stop, on: GoingOn) -> dict[str, Any]:
        """Return how streams are run: each step is on disk before the next one starts.

        Only what the tree needs is asked for: each mode but "updates" makes LangGraph run every
        step in another thread.
        """
        modes = [
            "updates",
            *["custom"] * (self.tree.speaks_early or self.tree.runs_tasks),
            *["messages"] * how.stream,
        ]
        modes += ["tasks"] if how.see else []
        config = config_of(thread_id)
        config["configurable"][TOLD_BEFORE] = on.before
        if how.limits is not None:
            config["configurable"][LIMITS] = how.limits
        return {
            "config": config,
            "stream_mode": modes,
            "subgraphs": self.tree.runs_tasks,
            "control": control,
            "durability": "sync",
            "version": "v2",
        }

    def check_sync(self, instead: str = "arun and aresume", these: str = "these") -> None:
        """Refuse a saver, an agent or a timeout that only the async calls can serve."""
        self.check_saver()
        self._check_mode("sync")
        if self.tree.timed:
            named = ", ".join(place.name for place in self.tree.timed)
            raise AgentGraphError(
                f"{named}: timeout= needs {instead}: a sync call cannot be stopped; use {these}, or "
                "leave it out and set a timeout on the model"
            )

    def _check_mode(self, mode: Mode) -> None:
        if fault := self.tree.mode_fault(mode):
            raise AgentGraphError(fault)


def _seen(stream: Parts, control: Stop, see: See | None) -> Iterator[Any]:
    """Yield the parts of a stream, shown before; raise what was carried out of it."""
    with control.raising():
        yield from map(see, stream) if see else stream


async def _aseen(stream: AsyncParts, control: Stop, see: See | None) -> AsyncIterator[Any]:
    with control.raising():
        async for part in stream:
            yield see(part) if see else part

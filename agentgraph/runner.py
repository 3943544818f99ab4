"""Runs a compiled tree on threads: run, resume, replay. The only file that consumes a stream."""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore

from agentgraph.agents import Agent
from agentgraph.beginnings import UNANSWERED, Input, as_input, new_turn, resumption
from agentgraph.compiler import compile_tree
from agentgraph.errors import AgentGraphError
from agentgraph.events import AgentEvent, Interrupt
from agentgraph.failures import failures
from agentgraph.going_on import GoingOn, going_on, keep_left
from agentgraph.limits import Limits, check_limits
from agentgraph.live.activity import Activity
from agentgraph.live.screens import Screen, screen_for
from agentgraph.live.watched import Watched
from agentgraph.locks import ahold, hold
from agentgraph.middleware import Mode
from agentgraph.nodes.site import LIMITS
from agentgraph.nodes.stopping import Stop
from agentgraph.nodes.telling import TOLD_BEFORE
from agentgraph.pending import pending
from agentgraph.reader import Reader, config_of
from agentgraph.replay import recalled, replayed
from agentgraph.runs import AsyncRun, Driver, Heard, Run, Source, Told
from agentgraph.savers import is_of_database, saver_error
from agentgraph.shown import shown
from agentgraph.threads import Reads, keep_failure
from agentgraph.translation import Translator, is_of_an_agent
from agentgraph.validation import validate
from agentgraph.values import declared

if TYPE_CHECKING:
    from rich.console import Console

Parts = Generator[Any, None, None]
AsyncParts = AsyncGenerator[Any, None]
Begin = Callable[[], Reads[Any]]
"""Checks the thread, and returns what LangGraph is to be given; run while the thread is held."""
See = Callable[[Any], Any]
"""Is shown each part of a stream before it is told, and returns it; some tell what runs."""


_LEFT = "the run was left"
"""Why branches that are still running stop behind their step; a run that has ended has none."""


class _How(NamedTuple):
    """How a run is streamed, and what it may use.

    Attributes:
        stream: Whether replies of models are told in chunks, too.
        limits: What the turn may use, where it is not what was compiled.
        see: Is shown each part of the stream before it is told.
    """

    stream: bool
    limits: Limits | None = None
    see: See | None = None


class Runner:
    """Runs a tree of agents on threads, and tells what it does as `AgentEvent`s.

    >>> runner = Runner(human("boss", "Print it?"))
    >>> [event.kind for event in runner.run("Go.", thread_id="monday")]
    ['interrupted']
    >>> [event.text for event in runner.resume("monday", "yes")]
    ['yes']

    Attributes:
        agent: The root of the tree.
        graph: The LangGraph graph that it was compiled to.
        saver: Where the threads are kept.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
        store: BaseStore | None = None,
        values: Any = None,
        limits: Limits | None = None,
        middleware: Iterable[Any] = (),
    ) -> None:
        """Compile `agent`.

        Args:
            agent: The root of the tree.
            checkpointer: LangGraph's saver for the threads; without one they are kept in memory.
            store: LangGraph's store, for `ctx.runtime.store`.
            values: Declares values and their reducers, as for `compile_agent`.
            limits: What a turn may use, where a run says nothing else.
            middleware: LangChain's middleware that every chat agent has, as for `compile_agent`.

        Raises:
            InvalidAgentError: The tree has faults; the error names all of them.
            AgentGraphError: `limits` are no `Limits`.
        """
        self.agent = agent
        self.saver = InMemorySaver() if checkpointer is None else checkpointer
        reducers = declared(values)
        self._tree = validate(agent, reducers.channels, middleware)
        self._watched = ("", Activity(self._tree))
        self.graph = compile_tree(
            self._tree, reducers, limits=limits, checkpointer=self.saver, store=store
        )
        self._reader = Reader(self.saver, self.graph)

    def run(
        self,
        messages: Input,
        *,
        thread_id: str | None = None,
        values: Mapping[str, Any] | None = None,
        stream: bool = False,
        drop_pending: bool = False,
        limits: Limits | None = None,
    ) -> Run:
        """Run a turn, and give its events as they happen.

        Args:
            messages: The input: a text, a message, or a list of messages.
            thread_id: The thread to run on; without one a new thread, named on every event.
            values: Values for the run, written over those of the thread.
            stream: Whether to tell a model's reply in chunks too, as `partial` events.
            drop_pending: Whether questions that wait on the thread are dropped.
            limits: What the turn may use; without them those of the runner.

        Returns:
            An iterator of the events, which holds the thread until it ends, is closed, or is dropped.
            An exception in an agent is reported as an event, then raised; `resume` tries the failed
            step again and nothing that had finished. Of ours these are `MissingValueError`,
            `InvalidOutputError`, `MaxIterationsError`, `CheckFailedError`, `StepFailedError`,
            `ValueConflictError` and `LimitError`.

        Raises:
            PendingInterruptError: Questions wait on the thread.
            ThreadBusyError: Another run is under way on the thread.
            AgentGraphError: The input cannot be read or saved, the thread's id is no text that can be
                kept, an agent has a timeout, or the saver serves the async calls only.
            SaverError: The saver cannot be read or written.
        """
        thread_id = str(uuid4()) if thread_id is None else thread_id
        given = as_input(messages, values)
        self._reader.check_sync()
        self._check_sync()
        begin = partial(new_turn, self._tree, thread_id, given, drop_pending)
        return self._run(begin, thread_id, _How(stream, limits))

    def query(self, text: str, **options: Any) -> Run:
        """Run a turn on a text, as `run` does: `query("Go.")` is `run("Go.")`.

        Args:
            text: The input.
            **options: Those of `run`.

        Returns:
            The events, as `run` does.
        """
        return self.run(text, **options)

    def resume(
        self,
        thread_id: str,
        answers: Any = UNANSWERED,
        *,
        values: Mapping[str, Any] | None = None,
        stream: bool = False,
        limits: Limits | None = None,
    ) -> Run:
        """Go on where a thread stopped: at its questions, or at the step that failed.

        Args:
            thread_id: The thread.
            answers: Answers by the id or the address of their question, all or some; with one
                question pending a bare answer will do. A dict is read as such a map if one of its
                keys is an id, or an address of the tree. None is an answer; leave it out to go on
                without one.
            values: Values to write before going on.
            stream: Whether to tell a model's reply in chunks too.
            limits: What the rest of the turn may use; without them those of the runner.

        Returns:
            The events, as `run` does. Questions left unanswered are told to be void and told again,
            under the same ids. Where the step that goes on was killed or left, the first event makes
            void what it had told, and what is kept of it is told again. On a thread that has ended
            there is nothing to do, and no event.

        Raises:
            UnknownThreadError: The saver knows nothing of the thread.
            UnknownInterruptError: An answer to a question that is not pending.
            InvalidAnswerError: An answer that does not fit its question's schema.
            TreeChangedError: The thread was left by a tree of another shape.
            ThreadBusyError: Another run is under way on the thread.
            AgentGraphError: An answer has no JSON form, an agent has a timeout, or the saver
                serves async calls only.
        """
        self._reader.check_sync()
        self._check_sync()
        begin = partial(resumption, self._tree, thread_id, answers, values)
        return self._run(begin, thread_id, _How(stream, limits))

    def watch(
        self,
        messages: Input | None = None,
        *,
        thread_id: str | None = None,
        answers: Any = UNANSWERED,
        values: Mapping[str, Any] | None = None,
        drop_pending: bool = False,
        console: "Console | Screen | None" = None,
    ) -> Watched:
        """Run a turn, or without `messages` go on with a thread, and show it as it runs.

        A live tree shows what runs, what waits, what each agent said last, and its times and
        tokens: in a notebook below the cell, at a terminal below the events, which scroll as lines.
        In a pipe there are only the lines. Where a thread goes on, the tree shows what this turn had
        done before, too, with times where this runner watched it.

        ```
        runner.watch("Go.", thread_id="monday")
        runner.watch(thread_id="monday", answers="yes")
        ```

        Args:
            messages: The input, as in `run`; without it the thread goes on, as in `resume`.
            thread_id: The thread; for a turn a new one if left out.
            answers: Answers to questions of the thread, as in `resume`.
            values: Values for the run.
            drop_pending: Whether a turn drops the questions that wait on the thread.
            console: A console of rich, to show it there.

        Returns:
            The events, chunks aside, as a sequence with `thread_id`, `text` (what was said last)
            and `pending` (the questions).

        Raises:
            Exception: Of an agent; the tree shows where it failed. `watch(thread_id=...)` tries the
                failed step again.
            AgentGraphError: As `run` and `resume`; and the package `rich` is missing.
        """
        self._reader.check_sync()
        self._check_sync("await runner.awatch(...)", "that")
        screen = screen_for(console)
        begin, thread_id = self._beginning(messages, thread_id, answers, values, drop_pending)
        told: list[AgentEvent] = []
        with self._run(begin, thread_id, _How(screen.streams, see=screen.see)) as events:
            activity = self._reader.read(self._activity(thread_id, messages is None), thread_id)
            self._watched = (thread_id, activity)
            with screen.watching(self._tree, activity):
                for event in events:
                    screen.tell(event)
                    told += [] if event.partial else [event]
        return Watched(thread_id, told, self.pending(thread_id) if _asked(told) else ())

    async def awatch(
        self,
        messages: Input | None = None,
        *,
        thread_id: str | None = None,
        answers: Any = UNANSWERED,
        values: Mapping[str, Any] | None = None,
        drop_pending: bool = False,
        console: "Console | Screen | None" = None,
    ) -> Watched:
        """Run or go on as `watch` does, on the event loop."""
        screen = screen_for(console)
        begin, thread_id = self._beginning(messages, thread_id, answers, values, drop_pending)
        told: list[AgentEvent] = []
        async with self._arun(begin, thread_id, _How(screen.streams, see=screen.see)) as events:
            activity = await self._reader.aread(self._activity(thread_id, messages is None), thread_id)
            self._watched = (thread_id, activity)
            with screen.watching(self._tree, activity):
                async for event in events:
                    screen.tell(event)
                    told += [] if event.partial else [event]
        return Watched(thread_id, told, await self.apending(thread_id) if _asked(told) else ())

    def pending(self, thread_id: str) -> list[Interrupt]:
        """Return the questions that wait for answers, in the order of the tree.

        Args:
            thread_id: The thread.

        Raises:
            UnknownThreadError: The saver knows nothing of the thread.
            TreeChangedError: The thread was left by a tree of another shape.
            AgentGraphError: The saver serves async calls only.
        """
        self._reader.check_sync()
        return self._reader.read(pending(self._tree, thread_id), thread_id)

    def events(self, thread_id: str) -> Iterator[AgentEvent]:
        """Yield the events of a thread again, chunks aside, from the saver alone.

        They are those that were streamed and not told to be `discarded` later, in the order of the
        streams, equal to them with ids, times and steps. Of a thread that was forked (`update_state`
        on an older checkpoint, or a run from there) they are those of the line that leads to its latest
        checkpoint. Where a bare graph ran it, and not a runner, a failure is told while the thread
        stands at it, and of a tool that asked several times the last question.

        Args:
            thread_id: The thread.

        Raises:
            UnknownThreadError: The saver knows nothing of the thread.
            TreeChangedError: The thread was left by a tree of another shape.
            AgentGraphError: The saver serves async calls only.
        """
        self._reader.check_sync()
        return iter(self._reader.read(replayed(self._tree, thread_id), thread_id))

    def arun(
        self,
        messages: Input,
        *,
        thread_id: str | None = None,
        values: Mapping[str, Any] | None = None,
        stream: bool = False,
        drop_pending: bool = False,
        limits: Limits | None = None,
    ) -> AsyncRun:
        """Run a turn as `run` does, on the event loop.

        What `run` refuses at the call is refused where the result is awaited, or at the first event:

        ```
        run = await runner.arun("Go.", thread_id="monday")
        async for event in run:
            ...
        ```
        """
        thread_id = str(uuid4()) if thread_id is None else thread_id

        def begin() -> Reads[Any]:
            return new_turn(self._tree, thread_id, as_input(messages, values), drop_pending)

        return self._arun(begin, thread_id, _How(stream, limits))

    def aquery(self, text: str, **options: Any) -> AsyncRun:
        """Run a turn on a text as `query` does, on the event loop."""
        return self.arun(text, **options)

    def aresume(
        self,
        thread_id: str,
        answers: Any = UNANSWERED,
        *,
        values: Mapping[str, Any] | None = None,
        stream: bool = False,
        limits: Limits | None = None,
    ) -> AsyncRun:
        """Go on where a thread stopped as `resume` does, on the event loop; it may be awaited, too."""
        begin = partial(resumption, self._tree, thread_id, answers, values)
        return self._arun(begin, thread_id, _How(stream, limits))

    async def apending(self, thread_id: str) -> list[Interrupt]:
        """Return the questions that wait for answers, as `pending` does."""
        return await self._reader.aread(pending(self._tree, thread_id), thread_id)

    def aevents(self, thread_id: str) -> AsyncRun:
        """Give the events of a thread again, as `events` does.

        Returns:
            The events; what `events` refuses is refused where this is awaited, or at the first event.
        """

        async def admit() -> Source:
            return Told(await self._reader.aread(replayed(self._tree, thread_id), thread_id))

        return AsyncRun(admit)

    def _beginning(
        self,
        messages: Input | None,
        thread_id: str | None,
        answers: Any,
        values: Mapping[str, Any] | None,
        drop_pending: bool,
    ) -> tuple[Begin, str]:
        """Return how what is to be watched begins, and its thread."""
        if messages is not None:
            if answers is not UNANSWERED:
                raise AgentGraphError(
                    f"answers={shown(answers)} are for a thread that goes on: leave the messages out"
                )
            thread_id = str(uuid4()) if thread_id is None else thread_id
            return partial(
                new_turn, self._tree, thread_id, as_input(messages, values), drop_pending
            ), thread_id
        if thread_id is None:
            raise AgentGraphError("there is nothing to watch: pass messages, or a thread_id to go on")
        return partial(resumption, self._tree, thread_id, answers, values), thread_id

    def _activity(self, thread_id: str, goes_on: bool) -> Reads[Activity]:
        """Return what is known of the tree: of a thread that goes on what it did in this turn.

        How long that took is known only of what was watched.
        """
        thread, activity = self._watched
        if not goes_on or thread != thread_id:
            activity = Activity(self._tree)
        if goes_on:
            activity.recall((yield from recalled(self._tree, thread_id)))
        return activity

    def _run(self, begin: Begin, thread_id: str, how: "_How") -> Run:
        """Admit a run, and return its events."""
        check_limits(how.limits)
        held = hold(self.saver, thread_id)
        try:
            given = self._reader.read(begin(), thread_id)
            on = self._reader.read(going_on(self._tree, thread_id, given), thread_id)
        except BaseException:
            held.release()
            raise
        return Run(self._events(given, thread_id, how, on), held)

    def _arun(self, begin: Begin, thread_id: str, how: "_How") -> AsyncRun:
        """Return the events of a run that is admitted when it is awaited."""

        async def admit() -> Source:
            check_limits(how.limits)
            self._check_mode("async")
            held = await ahold(self.saver, thread_id)
            try:
                given = await self._reader.aread(begin(), thread_id)
                on = await self._reader.aread(going_on(self._tree, thread_id, given), thread_id)
            except BaseException:
                held.release()
                raise
            control, heard = Stop(), Heard()
            events = self._aevents(given, thread_id, how, control, on, heard)
            stops = partial(control.stop, _LEFT), partial(control.abandon, _LEFT)
            return Driver(events, *stops, held, heard)

        return AsyncRun(admit)

    def _events(
        self, given: Any, thread_id: str, how: "_How", on: GoingOn
    ) -> Generator[AgentEvent, None, None]:
        """Yield the events of a run, and keep what was heard where its reader leaves."""
        heard = Heard()
        try:
            for event in on.first:
                yield event
            heard.upto = on.begin.time
            with closing(self._told(given, thread_id, how, on)) as told:
                for event in told:
                    heard.take(event)
                    yield event
        except (GeneratorExit, KeyboardInterrupt):
            if heard.upto is not None:
                with suppress(Exception):  # nobody is there to be told
                    self._reader.read(keep_left(heard.upto), thread_id)
            raise

    def _told(
        self, given: Any, thread_id: str, how: "_How", on: GoingOn
    ) -> Generator[AgentEvent, None, None]:
        translator, control = self._translator(thread_id, on), Stop()
        options = self._options(thread_id, how, control, on)
        self._reader.read(on.keep(), thread_id)
        try:
            with closing(cast(Parts, self.graph.stream(given, **options))) as stream:
                parts = _seen(stream, control, how.see)  # closed behind the stop, not by the loop
                try:
                    for part in parts:
                        yield from translator.feed(part)
                finally:
                    control.stop(_LEFT)
        except BaseException as error:
            if is_of_an_agent(error):
                told = list(translator.fail(error))
                if failures(error):
                    self._reader.read(keep_failure(error, translator.failures), thread_id)
                yield from told
                if not (failures(error) or is_of_database(error)):  # nothing, if nobody heard of it
                    self._reader.read(keep_failure(error, translator.failures), thread_id)
            self._raise_of_saver(error, thread_id)
            raise

    async def _aevents(
        self,
        given: Any,
        thread_id: str,
        how: "_How",
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
        await self._reader.aread(on.keep(), thread_id)
        try:
            async with aclosing(cast(AsyncParts, self.graph.astream(given, **options))) as stream:
                async for part in _aseen(stream, control, how.see):
                    for event in translator.feed(part):
                        yield event
        except BaseException as error:
            if failures(error) or (is_of_an_agent(error) and not control.drain_requested):
                told = list(translator.fail(error))
                if failures(error):
                    kept = keep_failure(error, translator.failures)
                    await self._reader.aread(kept, thread_id)
                for event in told:
                    yield event
                if not (failures(error) or is_of_database(error)):  # nothing, if nobody heard of it
                    kept = keep_failure(error, translator.failures)
                    await self._reader.aread(kept, thread_id)
            self._raise_of_saver(error, thread_id)
            raise
        finally:
            if control.drain_reason == _LEFT:
                with suppress(Exception):  # nobody is there to be told
                    await self._reader.aread(keep_left(heard.upto), thread_id)

    def _translator(self, thread_id: str, on: GoingOn) -> Translator:
        return Translator(self._tree, thread_id, begin=on.begin, waiting=on.questions)

    def _raise_of_saver(self, error: BaseException, thread_id: str) -> None:
        if is_of_database(error):
            raise saver_error(error, self.saver, thread_id) from error

    def _options(self, thread_id: str, how: "_How", control: Stop, on: GoingOn) -> dict[str, Any]:
        """Return how streams are run: each step is on disk before the next one starts.

        Only what the tree needs is asked for: each mode but "updates" makes LangGraph run every
        step in another thread.
        """
        modes = [
            "updates",
            *["custom"] * (self._tree.speaks_early or self._tree.runs_tasks),
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
            "subgraphs": self._tree.runs_tasks,
            "control": control,
            "durability": "sync",
            "version": "v2",
        }

    def _check_sync(self, instead: str = "arun and aresume", these: str = "these") -> None:
        self._check_mode("sync")
        if self._tree.timed:
            named = ", ".join(place.name for place in self._tree.timed)
            raise AgentGraphError(
                f"{named}: timeout= needs {instead}: a sync call cannot be stopped; use {these}, or "
                "leave it out and set a timeout on the model"
            )

    def _check_mode(self, mode: Mode) -> None:
        if fault := self._tree.mode_fault(mode):
            raise AgentGraphError(fault)


def _seen(stream: Parts, control: Stop, see: See | None) -> Iterator[Any]:
    """Yield the parts of a stream, shown before; raise what was carried out of it."""
    with control.raising():
        yield from map(see, stream) if see else stream


async def _aseen(stream: AsyncParts, control: Stop, see: See | None) -> AsyncIterator[Any]:
    with control.raising():
        async for part in stream:
            yield see(part) if see else part


def _asked(told: Sequence[AgentEvent]) -> bool:
    return any(event.kind == "interrupted" for event in told)

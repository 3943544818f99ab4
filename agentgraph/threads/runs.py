"""The iterators of events of `Runner.run` and `arun`, which lock their thread until they end.

**Sync and async.** What a run does is written once. `Execution.generator` yields calls (of LangGraph's
stream, of the saver), which are made sync or async (`graph/sync_async.py`), and events, which `Run` or
`AsyncRun` hands to the caller.

**Runs that are closed early.** Finished work must not run again when the thread is resumed. A sync run
is advanced by one thread at a time: by `__next__`, or by `close`, which has it stop and waits for its
turn. An async run has active work: coroutines can be cancelled, but functions in threads cannot, so
they are awaited and their results saved (`graph/nodes/stopping.py`). Closing LangGraph's async stream
would cancel its tasks without saving. So `Driver` reads the stream in a separate task, one event for
each one asked for. When the caller closes the run, the task reads on to the end, where stopping takes
effect, and then unlocks the thread. A new run on that thread waits for it.
"""

import asyncio
import sys
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate
from types import TracebackType
from typing import Any, NoReturn, Self

import anyio
from langgraph.errors import GraphDrained

from agentgraph.agents.habits.names import hints_names
from agentgraph.errors import AgentGraphError, SaverError
from agentgraph.events.events import AgentEvent
from agentgraph.events.translation import Translator, is_of_an_agent
from agentgraph.graph.failures import failures, unmark_run
from agentgraph.graph.guarded_saver import GuardedSaver, SaverFailure, saver_error
from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.open_types import Saver
from agentgraph.graph.outside import is_collecting, is_within, outside
from agentgraph.graph.signal_handlers import is_of_a_handler
from agentgraph.graph.stamps import cursor_of
from agentgraph.graph.sync_async import Advance, Call, Calls, awaiting, close, get_next
from agentgraph.journal.answers import Resumption
from agentgraph.journal.continuation import Continuation, save_received
from agentgraph.journal.forked import OfProcess
from agentgraph.journal.lines import save_failure, save_notes
from agentgraph.journal.locks import ThreadLock
from agentgraph.journal.replay import discarded_note, learn_of
from agentgraph.journal.schema import ALL
from agentgraph.journal.soundness import is_met_by_langgraph, unfit
from agentgraph.journal.thread_pages import save_metadata
from agentgraph.journal.thread_saver import TaskWrite, ThreadSaver
from agentgraph.threads.live.active_run import ActiveRun, check_loop
from agentgraph.threads.live.following import AsyncFollow
from agentgraph.threads.live.loop_end import run_task
from agentgraph.threads.live.process_end import close_at_end
from agentgraph.threads.run_log import RunLog, logged

RunGenerator = Generator[Call | AgentEvent, Any, None]
PartHook = Callable[[Any], object]
"""Called with each part of the stream before it is translated; returns the part to translate."""

_ASKED_TWICE = (
    "an event of this run is being asked for already, by other code or by the run itself; ask for one "
    "at a time"
)
_STOP_REASON = "the run was left"
"""The reason that branches which are still running see when they stop after their step."""


class Execution:
    """One run, from its first event to its last, as a generator of events and calls.

    It also saves how far the caller read, so that the next run knows which events are new to it.

    Attributes:
        control: Stops the run.
        received: The cursor of the last event that the caller read; `ALL` if it read all. None while it
            has read only replayed events, or if this cannot be known: then nothing is saved, and the
            next run treats this one as killed.
        is_closed: Whether the caller of an async run has closed it.
        generator: Yields the events of the run, and calls to be made.
        resume_paused: Resumes it where it pauses and can continue; None if it cannot.
        metadata: The metadata that it was given in its config.
        has_threads: Whether its stream has threads that wait for the next part.
        run_id: The id that it was given in its config; None without one.
        origin: How it begins, for the log.
    """

    stream: object
    run_id: object = None
    has_threads = False
    _has_begun = _has_stopped = _is_paused = False
    _log: RunLog | None = None
    _continuation: Continuation
    _answers: Sequence[TaskWrite]

    def __init__(
        self,
        thread: ThreadSaver,
        saver: GuardedSaver,
        on_part: PartHook | None,
        active_run: ActiveRun,
        enter: "Callable[[Execution], Calls[None]] | None" = None,
        origin: str = "",
    ) -> None:
        """Make it.

        Args:
            thread: The thread.
            saver: The saver of the run.
            on_part: Called with each part of the stream before it is translated.
            active_run: How the rest of the process reaches the run.
            enter: Begins it when its first event is asked for; else it has been begun, or has nothing
                to run.
            origin: How it begins, for the log.
        """
        self._thread, self._saver, self._on_part, self._enter = thread, saver, on_part, enter
        self.origin = origin
        self.active_run, self.control = active_run, active_run.control
        self._feed = active_run.feed
        self._discarded: list[AgentEvent] = []
        self._is_replaying = False
        self.received: str | None = None
        self.is_closed = False
        self.resume_paused: ResumePaused | None = None
        self.metadata: Mapping[str, object] = {}
        self.generator = self._events()

    @property
    def thread_id(self) -> str:
        """The thread."""
        return self._thread.thread_id

    @property
    def tree_name(self) -> str:
        """The name of the root of the tree."""
        return self._thread.tree.root.name

    @property
    def saver(self) -> Saver:
        """The saver of the thread."""
        return self._thread.saver

    def begin(self, stream: object, on: Continuation, resumed: Resumption | None = None) -> None:
        """Begin it.

        Args:
            stream: LangGraph's stream, sync or async.
            on: How it continues the thread.
            resumed: The answers with which it does so.
        """
        self.stream, self._continuation = stream, on
        self._answers = [*resumed.answers.values()] if resumed else ()
        self.active_run.desk.open(resumed.ids if resumed else ())
        self._has_begun = True
        self._feed.base = max(self._feed.base, on.begin.number)

    def delivered(self, event: AgentEvent) -> None:
        """Note that the caller has read an event, and tell it to those who follow the run."""
        if self.received is not None and not (event.output and event.output.partial):
            self.received = max(self.received, event.cursor or "")
            if not self._is_replaying:
                self._feed.recent.append(event)
                if event.action is not None and event.action.discarded:
                    self._discarded.append(event)
                if self._log is not None and (
                    event.error or (event.action is not None and event.action.interrupted)
                ):
                    self._log.event(event)
        if self._feed.subscribers:
            for tell in [*self._feed.subscribers]:
                tell(event)

    def missed(self, event: AgentEvent) -> None:
        """Note that the caller has not read an event: the next run reports what was discarded."""
        if not self._is_replaying and event.action is not None and event.action.discarded:
            self._discarded.append(event)

    def _events(self) -> RunGenerator:
        if self._enter is not None:
            yield from awaiting(self._enter(self))
        if not self._has_begun:
            return
        with logged(self) as self._log:
            yield from self._until_pause()
            while (
                self.resume_paused
                and not self.control.drain_requested
                and (yield from awaiting(self.resume_paused(self)))
            ):
                yield from self._until_pause()

    def status(self, error: BaseException | None) -> str:
        """Return the status in which it ends: that of the thread, or "left" by its caller.

        Args:
            error: The exception that ends it; None if none does.
        """
        if self._has_stopped:
            return "stopped"
        is_left = self.control.drain_requested and not self.active_run.is_stopped
        if error is not None:
            return "failed" if isinstance(error, Exception) and not self.is_closed else "left"
        return "left" if is_left else "paused" if self._is_paused else "done"

    def _until_pause(self) -> RunGenerator:
        on, self._is_paused = self._continuation, False
        if on.checkpoint is not None:
            yield from awaiting(save_notes(self._thread, on.checkpoint, on.notes_before))
        self._is_replaying = True
        yield from on.replayed
        self._is_replaying = False
        if self.control.drain_requested and not self.active_run.is_stopped:
            return  # it was closed before anything began
        self.received = cursor_of(on.begin.number)
        try:
            if on.checkpoint is not None:
                yield from awaiting(save_notes(self._thread, on.checkpoint, on.notes_after))
            for answer in self._answers:
                yield from awaiting(self._thread.put_write(*answer))
            yield from self._streamed()
            yield from awaiting(self._check_saver())
        except BaseException as error:
            is_of_saver = isinstance(error, SaverError) and not failures(error)
            if is_of_saver or isinstance(error, GeneratorExit):  # the latter if its event loop is gone
                self.received = None  # as after a kill: no call can be made
            elif isinstance(error, Exception):
                yield from awaiting(self._check_saver())
            raise
        finally:
            try:
                if self.received is not None:
                    yield from awaiting(self.active_run.end_answers())
                yield from awaiting(self._save_discarded())
                if self.metadata and on.checkpoint is not None and self.received is not None:
                    yield from awaiting(save_metadata(self._thread, self.metadata))
                reason = self.active_run.stop_reason if self._has_stopped else None
                yield from awaiting(save_received(self._thread, self.received, stop_reason=reason))
                yield from awaiting(self.active_run.mark_requests(self._thread))
            except Exception as error:  # without the marks the next run reads and replays more
                if is_of_a_handler(error):
                    raise

    async def _check_saver(self) -> None:
        """Check a saver that is not known, once.

        Raises:
            UnfitSaverError: It lost what this run has saved.
        """
        if (trial := self._saver.trial) is not None:
            await trial.check()

    def _streamed(self) -> RunGenerator:
        on, thread, feed = self._continuation, self._thread, self._feed
        translator = Translator(
            thread.tree,
            thread.thread_id,
            begin=on.begin,
            waiting=on.questions,
            paths=thread.paths,
            typed=thread.reducers.all_typed,
        )
        learn_of(translator, thread.tree, on.ends)  # the first event may be one of a failure
        try:
            with self.control.raising():
                next_part = get_next(self.stream)
                while (part := (yield next_part)) is not None:
                    if part["type"] == "updates" and not part["ns"]:
                        self._is_paused |= INTERRUPT in part["data"]
                        for update in part["data"].values():  # without a call: it is made at each step
                            if type(update) is dict and "position" in update and "number" not in update:
                                del feed.recent[: feed.older]  # it is of a step, not of a task
                                feed.older = len(feed.recent)  # the one before is saved
                    yield from translator.feed(self._on_part(part) if self._on_part else part)
                    if self._discarded:
                        yield from awaiting(self._save_discarded())
            self._saver.check()
            if not self.control.drain_requested:
                self.received = ALL
        except GeneratorExit:
            raise
        except BaseException as error:
            yield from self._interrupted(error, translator)

    def _interrupted(self, error: BaseException, translator: Translator) -> RunGenerator:
        """Yield and save how the run has ended by an exception, and raise it; a stop just ends it."""
        was_stopped = self.control.drain_requested
        self.control.stop(_STOP_REASON)
        with suppress(SaverFailure):
            yield close(self.stream)  # after the stop, so that no further step is awaited
        if isinstance(error, GraphDrained) and self.active_run.is_stopped and not self.is_closed:
            self._has_stopped, self.received = True, ALL
            return
        if (leaves := self._saver.error(error)) is not None:
            raise leaves from leaves.__cause__
        on, thread = self._continuation, self._thread
        if on.begin.number and not failures(error) and is_met_by_langgraph(error):
            raise saver_error(unfit(error), thread.saver, thread.thread_id) from error
        if failures(error) or (is_of_an_agent(error) and not was_stopped):
            yield from self._failed(error, translator)
            self.received = self.received if was_stopped or self.is_closed else ALL
        elif isinstance(error, KeyboardInterrupt):
            yield from translator.unfinished()
        unmark_run(error)
        try:
            raise error
        finally:
            del error  # it would hold this frame, and the frame it

    async def _save_discarded(self) -> None:
        discards, self._discarded = self._discarded, []
        if discards and (saved := await self._thread.written()) is not None:
            await save_notes(self._thread, saved.config, [*map(discarded_note, discards)])

    def _failed(self, error: BaseException, translator: Translator) -> RunGenerator:
        """Yield and save how the run failed.

        An agent's failure is saved before its events are yielded. Any other is saved after them, so
        only if the caller has read them.
        """
        failed = list(translator.fail(error))
        if failures(error):
            yield from awaiting(save_failure(self._thread, error, translator.failures))
        yield from failed
        if not failures(error):
            yield from awaiting(save_failure(self._thread, error, translator.failures))


ResumePaused = Callable[[Execution], Calls[bool]]


class _RunClosed(BaseException):
    """Thrown into the generator of a sync run that its caller closes."""


@hints_names("Run")
class Run(Iterator[AgentEvent]):
    """An iterator of a run's events, each as it happens.

    The thread is locked until the iterator ends, is closed, or is garbage-collected. As a context
    manager it closes itself. One thread at a time can ask for an event; any may close the run.

    Attributes:
        thread_id: The thread.
    """

    def __init__(
        self, execution: Execution, lock: ThreadLock, advance: Callable[..., AgentEvent | None]
    ) -> None:
        self._execution, self._advance = execution, advance
        self.thread_id = execution.thread_id
        self._turn = threading.RLock()  # in a `with` block, so that no signal comes between
        self._consumer: int | None = None  # the thread that has the turn
        self._owner, self._has_begun = OfProcess(), False
        self._lock = lock

    @property
    def is_read(self) -> bool:
        """Whether a thread waits for its next event."""
        return self._consumer is not None

    def __repr__(self) -> str:
        hint = "" if self._has_begun else ": nothing has run; iterate over it to run it"
        return f"<Run of thread {self.thread_id!r}{hint}>"

    def __next__(self) -> AgentEvent:
        """Return the next event.

        Raises:
            Exception: An agent failed; raised after its error event.
            AgentGraphError: Another thread, or the run itself, asks for an event already; or the run is
                one of the process from which this one was forked; or this thread runs the event loop
                of an async run on the same file.
        """
        if self._consumer is not None or self._execution.is_closed:
            self._raise_unavailable()
        self._owner.check(self.thread_id)
        if not self._has_begun:
            self._start()
        with self._turn:
            try:
                self._consumer = threading.get_ident()
                event = self._advance()
                if event is not None and not self._execution.is_closed:
                    self._execution.delivered(event)
                    return event
                if event is not None:
                    self._execution.missed(event)
                self._end(_RunClosed())
            except BaseException as error:
                self._end(error)
                if not (self._execution.is_closed and isinstance(error, Exception)):
                    raise
            finally:
                self._consumer = None
        raise StopIteration

    def close(self) -> None:
        """Stop the run. Functions that are running are waited for, and their results are saved.

        Another thread that waits for an event finds the iterator at its end. A run that is closed by
        its own code, or by a signal handler while an event is awaited, ends after this call.
        """
        if not (self._lock.released.done() or self._owner.is_foreign):
            self._stop()
            if self._consumer == threading.get_ident() or is_within(self._execution.control):
                self._finish_in_thread()
            else:
                self._finish()

    def __del__(self) -> None:
        if not hasattr(self, "_lock") or self._lock.released.done():
            return
        if self._owner.is_foreign:
            self._owner.keep(self._execution)
            return
        self._stop()
        if (is_collecting() or is_within(self._execution.control)) and not sys.is_finalizing():
            self._finish_in_thread()
        else:
            self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._has_begun = True
        if self._execution.has_threads:
            close_at_end(self)
        try:
            check_loop(self._execution.saver, self.thread_id)
        except AgentGraphError:
            self.close()
            raise

    def _raise_unavailable(self) -> NoReturn:
        if self._execution.is_closed:
            raise StopIteration
        raise AgentGraphError(_ASKED_TWICE)

    def _stop(self) -> None:
        """Have the run stop as soon as it can, and the next one on the thread wait for that."""
        self._execution.is_closed = True
        self._lock.closing = self._execution.control
        self._execution.control.stop(_STOP_REASON)

    def _finish(self) -> None:
        with self._turn:
            try:
                self._consumer = threading.get_ident()
                self._end(_RunClosed())
            finally:
                self._consumer = None

    def _finish_in_thread(self) -> None:
        """Finish in another thread: this code may hold what is needed for it."""
        threading.Thread(target=self._finish, name="agentgraph-close").start()

    def _end(self, error: BaseException) -> None:
        """Throw an exception into the generator unless that has ended, and unlock the thread."""
        generator = self._execution.generator
        step: Advance[AgentEvent] | None = partial(generator.throw, error)
        try:
            with suppress(_RunClosed):
                while getgeneratorstate(generator) != GEN_CLOSED:
                    if (event := self._advance(step)) is not None:
                        self._execution.missed(event)
                    step = None
        finally:
            try:
                self._lock.release()
            except BaseException:  # of a signal handler: the second call does what the first left
                self._lock.release()
                raise


@hints_names("AsyncRun")
class AsyncRun(AsyncIterator[AgentEvent]):
    """An async iterator of a run's events, each as it happens.

    Await it first to learn before the first event whether the run is rejected; otherwise the first
    event raises the error. The thread is locked from then on, until the iterator ends, is closed, or is
    garbage-collected. As an async context manager it closes itself.

    ```
    run = await runner.arun("Go.", thread_id="monday")  # raises if the run is refused
    async for event in run:
        ...
    ```

    Attributes:
        thread_id: The thread.
    """

    _source: "Source | None" = None
    _starting: "Future[None] | None" = None  # while it is being started; done after that
    _is_closed = False

    def __init__(self, thread_id: str, start: "Callable[[], Awaitable[Source]]") -> None:
        self.thread_id, self._start = thread_id, start

    def __repr__(self) -> str:
        has_begun = self._source is not None or self._starting is not None or self._is_closed
        hint = "" if has_begun else ": nothing has run; iterate over it with `async for` to run it"
        return f"<AsyncRun of thread {self.thread_id!r}{hint}>"

    async def __anext__(self) -> AgentEvent:
        """Return the next event.

        Raises:
            Exception: An agent failed; raised after its error event.
            AgentGraphError: Another task, or the run itself, asks for an event already.
        """
        if (source := await self._started()) is None:
            raise StopAsyncIteration
        return await anext(source)

    def __await__(self) -> Generator[object, None, Self]:
        yield from self._started().__await__()
        return self

    async def aclose(self) -> None:
        """Stop the run: cancel its coroutines, await its functions in threads and save their results.

        A second cancellation of the caller ends the wait; a function that is then still running runs
        again when the thread is resumed. A run that has not begun never does.
        """
        self._is_closed = True
        if (admission := self._starting) is not None:
            await asyncio.wrap_future(admission)
        if self._source is not None:
            await self._source.aclose()

    @property
    def follows(self) -> bool:
        """Whether it follows a run, or waits for one: then closing it leaves that run alone."""
        return isinstance(self._source, AsyncFollow)

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if isinstance(self._source, Driver):
            self._source.drop()

    async def _started(self) -> "Source | None":
        """Return the driver of the events; None if the run was closed before it began."""
        if self._source is not None or self._is_closed:
            return self._source
        if self._starting is not None:
            raise AgentGraphError(_ASKED_TWICE)
        self._starting = starting = Future[None]()
        starting.set_running_or_notify_cancel()  # no longer cancelled with one who waits for it
        try:
            self._source = await self._start()
            if self._is_closed:
                await self._source.aclose()
        finally:
            self._starting = None
            starting.set_result(None)
        return self._source


class Driver(AsyncIterator[AgentEvent]):
    """Reads a run in a separate task, and keeps its thread locked until that task is done."""

    def __init__(
        self,
        execution: Execution,
        lock: ThreadLock,
        advance: Callable[..., Awaitable[AgentEvent | None]],
    ) -> None:
        self._execution, self._lock, self._advance = execution, lock, advance
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[AgentEvent | None] | None = None
        self._requested = asyncio.Event()

    async def __anext__(self) -> AgentEvent:
        """Return the next event; if the caller is cancelled, close the run first.

        Raises:
            Exception: An agent failed; raised after its error event.
        """
        if self._execution.is_closed or (self._task is not None and self._task.done()):
            raise StopAsyncIteration
        if self._answer is not None and not self._answer.done():
            raise AgentGraphError(_ASKED_TWICE)
        answer: asyncio.Future[AgentEvent | None] = self._loop.create_future()
        self._answer = answer
        self._requested.set()
        if self._task is None:
            self._task = run_task(self._loop, self._drive(), outside(), self._close)
        try:
            event = await answer
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """Close the run and wait until it has ended; a second cancellation ends the wait."""
        is_inside = is_within(self._execution.control)
        if asyncio.get_running_loop() is not self._loop:
            self.drop()
            if not is_inside:
                await asyncio.wrap_future(self._lock.released)
            return
        self._close()
        if self._task is None or self._task.done() or is_inside:
            return
        with anyio.CancelScope(shield=True):  # anyio repeats a cancellation until it takes effect
            try:
                await asyncio.wait({self._task})
            except asyncio.CancelledError:
                self._execution.control.abandon(_STOP_REASON)
                raise

    def drop(self) -> None:
        """Close the run without waiting, from any thread."""
        self._mark()
        if self._loop.is_closed():
            self._lock.release()
        elif not (self._execution.is_closed or (self._task is not None and self._task.done())):
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        if self._task is None:
            self._lock.release()
        elif not self._execution.is_closed and not self._task.done():
            self._mark()
            self._execution.control.stop(_STOP_REASON)
        self._execution.is_closed = True
        self._requested.set()

    def _mark(self) -> None:
        self._lock.loop, self._lock.closing = self._loop, self._execution.control

    async def _drive(self) -> None:
        failure: BaseException | None = None
        try:
            while (event := await self._advance()) is not None:
                try:
                    await self._deliver(event)
                except asyncio.CancelledError as error:  # the loop ends: save how far the caller read
                    await self._advance(partial(self._execution.generator.throw, error))
        except BaseException as error:
            failure = error
        try:
            await self._execution.active_run.end_polling()
            await self._lock.arelease()
        finally:
            self._end(failure)
            failure = None  # it would hold itself

    async def _deliver(self, event: AgentEvent) -> None:
        """Hand over an event, then wait until the next one is asked for or the run is closed."""
        if self._execution.is_closed:
            self._execution.missed(event)
            return
        self._requested.clear()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(event)
            self._execution.delivered(event)
        await self._requested.wait()

    def _end(self, error: BaseException | None) -> None:
        self._lock.release()
        if self._answer is None or self._answer.done():
            return
        if error is None or (self._execution.is_closed and isinstance(error, Exception)):
            self._answer.set_result(None)
        else:
            self._answer.set_exception(error)


Source = Driver | AsyncFollow | AsyncGenerator[AgentEvent, None]
"""Where an `AsyncRun` gets its events once it has begun."""

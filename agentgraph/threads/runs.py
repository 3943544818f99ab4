"""A run as its caller has it: an iterator of events that holds its thread until the run is over.

What a run does is written once, for sync and async: a `Telling` yields what it asks (a part of
LangGraph's stream, or something of the saver) and what it tells, and is sent the answers.

LangGraph itself has no lock: of several runs on one thread all succeed, and the last one wins. So one
run at a time holds a thread: in this process, and on a SQLite file in all processes.

A sync run that is left stops where it is. An async run that is left must stop its coroutines, but wait
for functions in threads and keep what they give (`graph.nodes.stopping`). Closing the stream would
cancel its tasks instead. So the stream is driven by a task of its own, an event each time one is asked
for. When the run is left, that task drives it to its end, and only then is the thread free: who wants
it waits for that.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, Self

import anyio
from langgraph.checkpoint.base import BaseCheckpointSaver

from agentgraph.errors import ThreadBusyError
from agentgraph.events.events import AgentEvent
from agentgraph.events.translation import Translator, is_of_an_agent
from agentgraph.graph.failures import failures
from agentgraph.graph.nodes.stopping import Stop
from agentgraph.safe_repr import shown
from agentgraph.threads.replay import GoingOn, keep_heard
from agentgraph.threads.savers import is_of_database, lock_file, saver_error, unlock_file
from agentgraph.threads.threads import (
    Close,
    NextPart,
    Request,
    checked_id,
    keep_failure,
    keep_notes,
)
from agentgraph.tree.places import Tree

Story = Generator[Request | AgentEvent, Any, None]
Step = Callable[[], Any]
"""Lets a story go on: sends an answer into it, or throws an error."""
See = Callable[[Any], Any]
"""Is shown each part of a stream before it is told, and returns it; some tell what runs."""

_LEFT = "the run was left"
"""Why branches that are still running stop behind their step; a run that has ended has none."""
_guard = threading.RLock()  # a run that is collected as garbage is released wherever that happens
_held: "dict[tuple[str | int, str], Hold]" = {}
"""Who holds a thread, by the file of a saver, or the id of one without a file, and the thread."""


class Hold:
    """A thread of a saver, held by one run until it is released.

    Attributes:
        over: Done when it is released.
        closing: The event loop on which a run that was left is ending; None while the run is held.
    """

    def __init__(self, key: tuple[str | int, str]) -> None:
        self._key = key
        self.over: Future[None] = Future()
        self.closing: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others have the thread; a second time changes nothing."""
        with _guard:
            if not self.over.done():
                del _held[self._key]
                path, thread_id = self._key
                if isinstance(path, str):
                    unlock_file(path, thread_id)
                self.over.set_result(None)


def hold(saver: Any, thread_id: str) -> Hold:
    """Hold a thread of a saver, once a run on it that was left has ended.

    Raises:
        ThreadBusyError: Another run holds it.
    """
    while isinstance(taken := _take(saver, thread_id), Future):
        taken.result()
    return taken


async def ahold(saver: Any, thread_id: str) -> Hold:
    """Hold a thread of a saver as `hold` does, without blocking the event loop."""
    while isinstance(taken := _take(saver, thread_id, waits_on_loop=True), Future):
        await asyncio.wrap_future(taken)
    return taken


def _take(saver: Any, thread_id: str, *, waits_on_loop: bool = False) -> Hold | Future[None]:
    """Return the hold on a thread, or what is done when a run that is closing has ended."""
    path: str | None = getattr(saver, "path", None)
    key = (path or id(saver), checked_id(thread_id))
    with _guard:
        if (other := _held.get(key)) is not None:
            if other.closing is not None and (waits_on_loop or other.closing is not _running_loop()):
                return other.over
        elif not path or lock_file(path, thread_id):
            _held[key] = Hold(key)
            return _held[key]
    raise ThreadBusyError(
        f"thread {shown(thread_id)} is busy: another run is under way on it; wait for its end (an "
        "iterator that was left early ends when it is closed), or use another thread_id",
        thread_id,
    )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Telling:
    """What a run does from its first event to its last, and up to where its reader heard that.

    Attributes:
        control: Stops it.
        upto: The time of the last event that was heard, in seconds since 1970; None before those that
            are not only told again.
        is_left: Whether the reader of an async run has left it.
        story: What it does, one thing at a time.
        stream: LangGraph's stream, sync or async.
    """

    stream: Any

    def __init__(
        self, tree: Tree, saver: BaseCheckpointSaver[Any], thread_id: str, on: GoingOn, see: See | None
    ) -> None:
        self._tree, self._saver, self._thread_id = tree, saver, thread_id
        self._on, self._see = on, see
        self.control = Stop()
        self.upto: float | None = None
        self.is_left = False
        self.story = self._told()

    def heard(self, event: AgentEvent) -> None:
        """Note that the reader is given an event."""
        if self.upto is not None and not event.partial:
            self.upto = max(self.upto, event.time or 0.0)

    def _told(self) -> Story:
        on = self._on
        if on.beside is not None:
            yield from keep_notes(on.beside, on.mark)
        yield from on.first
        if self.control.drain_requested:  # it was left before anything began
            return
        self.upto = on.begin.time
        try:
            if on.beside is not None:
                yield from keep_notes(on.beside, on.notes)
            yield from self._streamed()
        except GeneratorExit:  # its event loop is gone, and nobody answers any more
            self.upto = None
            raise
        finally:
            with suppress(Exception):  # without the mark it is told again
                yield from keep_heard(self.upto)

    def _streamed(self) -> Story:
        on = self._on
        translator = Translator(self._tree, self._thread_id, begin=on.begin, waiting=on.questions)
        try:
            with self.control.raising():
                while (part := (yield NextPart(self.stream))) is not None:
                    yield from translator.feed(self._see(part) if self._see else part)
            if not self.control.drain_requested:
                self.upto = inf
        except GeneratorExit:
            raise
        except BaseException as error:
            was_stopped = self.control.drain_requested
            self.control.stop(_LEFT)
            yield Close(self.stream)  # behind the stop, so that it waits for no more steps
            if failures(error) or (is_of_an_agent(error) and not was_stopped):
                yield from self._failed(error, translator)
                self.upto = self.upto if was_stopped or self.is_left else inf
            if is_of_database(error):
                self.upto = None  # it cannot be kept there
                raise saver_error(error, self._saver, self._thread_id) from error
            raise

    def _failed(self, error: BaseException, translator: Translator) -> Story:
        """Tell and keep how the run failed; nothing is kept of a failure that nobody heard of."""
        told = list(translator.fail(error))
        if failures(error):
            yield from keep_failure(error, translator.failures)
        yield from told
        if not (failures(error) or is_of_database(error)):
            yield from keep_failure(error, translator.failures)


class _Left(BaseException):
    """Is thrown into the story of a sync run that is left."""


class Run(Iterator[AgentEvent]):
    """The events of a run, each when it happens.

    It holds its thread until it ends, is closed, or is dropped. It is a context manager that closes it.
    """

    def __init__(self, telling: Telling, hold: Hold, go_on: Callable[..., AgentEvent | None]) -> None:
        self._telling, self._hold, self._go_on = telling, hold, go_on

    def __next__(self) -> AgentEvent:
        """Return the next event.

        Raises:
            Exception: Of an agent, after the event that tells it.
        """
        try:
            if (event := self._go_on()) is None:
                raise StopIteration
        except BaseException:
            self._hold.release()
            raise
        self._telling.heard(event)
        return event

    def close(self) -> None:
        """Stop the run. Functions that are running are waited for, and what they give is kept."""
        try:
            with suppress(_Left):
                self._go_on(partial(self._telling.story.throw, _Left()))
        finally:
            self._hold.release()

    __del__ = close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncRun(AsyncIterator[AgentEvent]):
    """The events of a run on the event loop, each when it happens.

    It may be awaited first: then the run is admitted, or refused, before the first event. It is an
    async context manager that closes it. It holds its thread from then on, until it ends, is closed, or
    is dropped.

    ```
    run = await runner.arun("Go.", thread_id="monday")  # raises what there is to refuse
    async for event in run:
        ...
    ```
    """

    _source: "Source | None" = None

    def __init__(self, admit: "Callable[[], Awaitable[Source]]") -> None:
        self._admit = admit

    async def __anext__(self) -> AgentEvent:
        """Return the next event.

        Raises:
            Exception: Of an agent, after the event that tells it.
        """
        return await anext(await self._admitted())

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._admitted().__await__()
        return self

    async def aclose(self) -> None:
        """Stop the run. Coroutines are cancelled; functions in threads are waited for and kept.

        A second cancellation of the caller ends the wait; a function that is still running then runs
        again when the thread is resumed.
        """
        if self._source is not None:
            await self._source.aclose()

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if isinstance(self._source, Driver):
            self._source.drop()

    async def _admitted(self) -> "Source":
        if self._source is None:
            self._source = await self._admit()
        return self._source


class Driver(AsyncIterator[AgentEvent]):
    """Drives a run in a task of its own, and holds its thread until that task is over."""

    def __init__(
        self, telling: Telling, hold: Hold, go_on: Callable[..., Awaitable[AgentEvent | None]]
    ) -> None:
        self._telling, self._hold, self._go_on = telling, hold, go_on
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[AgentEvent | None] | None = None
        self._wanted = asyncio.Event()

    async def __anext__(self) -> AgentEvent:
        """Return the next event; where the caller is cancelled, close first.

        Raises:
            Exception: Of an agent, after the event that tells it.
        """
        if self._telling.is_left or (self._task is not None and self._task.done()):
            raise StopAsyncIteration
        answer: asyncio.Future[AgentEvent | None] = self._loop.create_future()
        self._answer = answer
        self._wanted.set()
        if self._task is None:
            self._task = self._loop.create_task(self._drive())
        try:
            event = await answer
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """Leave the run, and wait until it has ended; a second cancellation does not wait."""
        self._leave()
        if self._task is None or self._task.done():
            return
        with anyio.CancelScope(shield=True):  # anyio repeats a cancellation until it is heeded
            try:
                await asyncio.wait({self._task})
            except asyncio.CancelledError:
                self._telling.control.abandon(_LEFT)
                raise

    def drop(self) -> None:
        """Leave the run without waiting, from any thread."""
        self._hold.closing = self._loop
        if self._loop.is_closed():
            self._hold.release()
        elif not (self._telling.is_left or (self._task is not None and self._task.done())):
            self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        if self._task is None:
            self._hold.release()
        elif not self._telling.is_left and not self._task.done():
            self._hold.closing = self._loop
            self._telling.control.stop(_LEFT)
        self._telling.is_left = True
        self._wanted.set()

    async def _drive(self) -> None:
        try:
            while (event := await self._go_on()) is not None:
                try:
                    await self._give(event)
                except asyncio.CancelledError as error:  # the loop ends: what was heard is kept
                    await self._go_on(partial(self._telling.story.throw, error))
        except BaseException as error:
            self._end(error)
        else:
            self._end(None)

    async def _give(self, event: AgentEvent) -> None:
        """Hand over an event, and wait until the next one is wanted, or nobody wants any more."""
        if self._telling.is_left:
            return
        self._wanted.clear()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(event)
            self._telling.heard(event)
        await self._wanted.wait()

    def _end(self, error: BaseException | None) -> None:
        self._hold.release()
        if self._answer is None or self._answer.done():
            return
        if error is None:
            self._answer.set_result(None)
        else:
            self._answer.set_exception(error)


Source = Driver | AsyncGenerator[AgentEvent, None]
"""Where the events of an `AsyncRun` come from, once it is admitted."""

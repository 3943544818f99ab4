"""What a run gives its caller: an iterator of events that holds the thread until the run is over.

A sync run is a generator, and what it runs stops when that is closed. An async run that is left must
stop its coroutines, but wait for functions in threads and keep what they give (`graph.nodes.stopping`).
Closing LangGraph's stream would cancel its tasks instead. So the stream is driven by a task of its own,
an event each time one is asked for. When the run is left, that task drives it to its end, and only then
is the thread free.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Protocol, Self

import anyio

from agentgraph.events.events import AgentEvent
from agentgraph.threads.locks import Hold

EventStream = AsyncIterator[AgentEvent]


class Run(Iterator[AgentEvent]):
    """The events of a run, each when it happens.

    It holds its thread until it ends, is closed, or is dropped. It is a context manager that closes it.
    """

    def __init__(self, events: Generator[AgentEvent, None, None], hold: Hold) -> None:
        self._events, self._hold = events, hold

    def __next__(self) -> AgentEvent:
        """Return the next event.

        Raises:
            Exception: Of an agent, after the event that tells it.
        """
        try:
            return next(self._events)
        except BaseException:
            self._hold.release()
            raise

    def close(self) -> None:
        """Stop the run. Functions that are running are waited for, and what they give is kept."""
        try:
            self._events.close()
        finally:
            self._hold.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Source(Protocol):
    """Where the events of an `AsyncRun` come from, once it is admitted."""

    async def next(self) -> AgentEvent | None:
        """Return the next event, or None at the end."""

    async def close(self) -> None:
        """End it, and wait until it has ended."""

    def drop(self) -> None:
        """End it without waiting."""


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

    _source: Source | None = None

    def __init__(self, admit: Callable[[], Awaitable[Source]]) -> None:
        self._admit = admit

    async def __anext__(self) -> AgentEvent:
        """Return the next event.

        Raises:
            Exception: Of an agent, after the event that tells it.
        """
        event = await (await self._admitted()).next()
        if event is None:
            raise StopAsyncIteration
        return event

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._admitted().__await__()
        return self

    async def aclose(self) -> None:
        """Stop the run. Coroutines are cancelled; functions in threads are waited for and kept.

        A second cancellation of the caller ends the wait; a function that is still running then runs
        again when the thread is resumed.
        """
        if self._source is not None:
            await self._source.close()

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._source is not None:
            self._source.drop()

    async def _admitted(self) -> Source:
        if self._source is None:
            self._source = await self._admit()
        return self._source


class Told:
    """The source of events that are all there."""

    def __init__(self, events: list[AgentEvent]) -> None:
        self._left = iter(events)

    async def next(self) -> AgentEvent | None:
        """Return the next event, or None at the end."""
        return next(self._left, None)

    async def close(self) -> None:
        """Drop those that are left."""
        self.drop()

    def drop(self) -> None:
        """Drop those that are left."""
        self._left = iter(())


class Heard:
    """What the reader of a run has heard.

    Attributes:
        upto: The time of the last event, in seconds since 1970; None before those that only tell again.
    """

    def __init__(self) -> None:
        self.upto: float | None = None

    def take(self, event: AgentEvent) -> None:
        """Take an event that the reader is given."""
        if self.upto is not None and not event.partial:
            self.upto = max(self.upto, event.time or 0.0)


class Driver:
    """Drives a stream of events in a task of its own, and holds its thread until that task is over."""

    def __init__(
        self,
        events: EventStream,
        stop: Callable[[], None],
        abandon: Callable[[], None],
        hold: Hold,
        heard: Heard,
    ) -> None:
        """Make a driver inside an event loop.

        Args:
            events: The stream.
            stop: Makes the stream come to its end soon.
            abandon: Makes it do so without waiting for functions in threads.
            hold: The thread, released when it has.
            heard: Takes what the reader is given.
        """
        self._heard = heard
        self._events, self._stop, self._abandon, self._hold = events, stop, abandon, hold
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[AgentEvent | None] | None = None
        self._wanted = asyncio.Event()
        self._is_left = False

    async def next(self) -> AgentEvent | None:
        """Return the next event, or None at the end; where the caller is cancelled, close first."""
        if self._is_left or (self._task is not None and self._task.done()):
            return None
        answer: asyncio.Future[AgentEvent | None] = self._loop.create_future()
        self._answer = answer
        self._wanted.set()
        if self._task is None:
            self._task = self._loop.create_task(self._drive())
        try:
            return await answer
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """Leave the stream, and wait until it has ended; a second cancellation does not wait."""
        self._leave()
        if self._task is None or self._task.done():
            return
        with anyio.CancelScope(shield=True):  # anyio repeats a cancellation until it is heeded
            try:
                await asyncio.wait({self._task})
            except asyncio.CancelledError:
                self._abandon()
                raise

    def drop(self) -> None:
        """Leave the stream without waiting, from any thread."""
        self._hold.closing = self._loop
        if self._loop.is_closed():
            self._hold.release()
        elif not (self._is_left or (self._task is not None and self._task.done())):
            self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        if self._task is None:
            self._hold.release()
        elif not self._is_left and not self._task.done():
            self._hold.closing = self._loop
            self._stop()
        self._is_left = True
        self._wanted.set()

    async def _drive(self) -> None:
        try:
            async for event in self._events:
                await self._give(event)
        except BaseException as error:
            self._hold.release()
            self._end(error)
        else:
            self._hold.release()
            self._end(None)

    async def _give(self, event: AgentEvent) -> None:
        """Hand over an event, and wait until the next one is wanted, or nobody wants any more."""
        if self._is_left:
            return
        self._wanted.clear()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(event)
            self._heard.take(event)
        await self._wanted.wait()

    def _end(self, error: BaseException | None) -> None:
        answer = self._answer
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)

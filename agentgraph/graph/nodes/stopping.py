"""How what runs is stopped: a run that is left, and the lanes beside one that failed.

When a stop is asked for, three kinds of things may be under way:

- A lane between two of its steps. It does not begin the next one: LangGraph asks its `RunControl`
  before each step.
- A coroutine. It is cancelled where it awaits, and its step counts as not done.
- A function in a thread, which cannot be cancelled. It is waited for, and what it gives is kept.

So what has ended never runs again. Cancelling the tasks of LangGraph instead would drop what
functions in threads are about to give. A `Stop` is a `RunControl` that also cancels coroutines.
Stops are nested as lanes are: a stop reaches all that runs inside.

Users' functions are called by way of this module: sync ones of async runs in threads, coroutines of
sync runs in an event loop of their own, and `Contained`, so that none ends what runs it.
"""

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl, get_runtime

RESUME_MAP = "__pregel_resume_map"
"""Where LangGraph keeps the answers that a run is resumed with, in `config["configurable"]`."""


class Stop(RunControl):
    """Stops what runs inside a run, a fork, or a node of tool calls.

    Attributes:
        around: The control around it, whose stop is one of this, too.
        carried: What is to be raised where the run was started, once all has stopped.
    """

    __slots__ = ("_cancels", "_lock", "_waits", "around", "carried")

    def __init__(self, around: RunControl | None = None) -> None:
        super().__init__()
        self.around = around
        self.carried: BaseException | None = None
        self._cancels: set[Callable[[], None]] = set()
        self._waits: set[Callable[[], None]] = set()
        self._lock = threading.Lock()

    def begin_step(self, config: RunnableConfig) -> None:
        """Note that a node begins: LangGraph asked some time before whether to stop.

        Raises:
            GraphDrained: It is not to run any more.
        """
        if self.drain_requested:
            raise GraphDrained(self.drain_reason or "stopped")

    def fail_next(self) -> None:
        """Note that the next step only raises how this one failed: it is to come."""

    def stop(self, reason: str) -> None:
        """Stop lanes after their step, and coroutines at once."""
        self.request_drain(reason)
        self._call(self._cancels)

    def abandon(self, reason: str) -> None:
        """Stop, and do not even wait for functions in threads: their steps count as not done."""
        self.stop(reason)
        self._call(self._waits)

    @property
    def drain_requested(self) -> bool:
        """Whether the lanes inside are to stop after their step."""
        return super().drain_requested or (self.around is not None and self.around.drain_requested)

    @property
    def drain_reason(self) -> str | None:
        """Why they are to stop."""
        return super().drain_reason or (self.around.drain_reason if self.around else None)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise what was carried out of the run where the run stops in a `with` block."""
        try:
            yield
        except GraphDrained:
            if self.carried is None:
                raise
            raise self.carried from None

    @contextmanager
    def cancelling(self, cancel: Callable[[], None], *, is_thread: bool) -> Iterator[None]:
        """Call `cancel` where this, or a stop around it, stops within a `with` block.

        Where a thread is waited for it is called only when that is abandoned.
        """
        stops = list(self.chain())
        for stop in stops:
            with stop._lock:
                (stop._waits if is_thread else stop._cancels).add(cancel)
        try:
            yield
        finally:
            for stop in stops:
                with stop._lock:
                    (stop._waits if is_thread else stop._cancels).discard(cancel)

    def _call(self, cancels: set[Callable[[], None]]) -> None:
        with self._lock:
            found = list(cancels)
        for cancel in found:
            cancel()

    def chain(self) -> Iterator["Stop"]:
        """Yield this stop, and those around it."""
        stop: RunControl | None = self
        while isinstance(stop, Stop):
            yield stop
            stop = stop.around


class LaneStop(Stop):
    """Stops one lane, but not before its first step, and a step that only fails.

    The first step may have the answer of a person to take.
    """

    __slots__ = ("_begun", "_fails_next")

    def __init__(self, around: RunControl) -> None:
        super().__init__(around)
        self._begun = self._fails_next = False

    @property
    def drain_requested(self) -> bool:
        """Whether the lane is to stop after its step."""
        return self._begun and not self._fails_next and super().drain_requested

    def begin_step(self, config: RunnableConfig) -> None:
        """Note that a node of the lane begins; the first one may have an answer to take."""
        may_answer = not self._begun and bool(config.get("configurable", {}).get(RESUME_MAP))
        is_due = may_answer or self._fails_next
        self._begun, self._fails_next = True, False
        if not is_due:
            super().begin_step(config)

    def fail_next(self) -> None:
        """Let the next step come, even when the lane is to stop."""
        self._fails_next = True


def carried(error: BaseException) -> BaseException:
    """Stop the run to raise `error` where it was started, and return what to raise here instead.

    In a run without a `Stop` that is the error itself.
    """
    control = get_runtime().control
    if not isinstance(control, Stop):
        return error
    *_, outermost = control.chain()
    outermost.carried = outermost.carried or error
    outermost.stop("a function ended the process")
    return GraphDrained("a function ended the process")


def inner_stop() -> Stop:
    """Return a stop for what a node runs, inside the one that the node runs in."""
    return Stop(get_runtime().control)


def stoppable(*, is_thread: bool = False) -> AbstractContextManager[None]:
    """Cancel what is awaited in a `with` block when the run is stopped; a thread when it is abandoned.

    Raises:
        GraphDrained: It was.
    """
    control = get_runtime().control
    return _stoppable(control, is_thread) if isinstance(control, Stop) else nullcontext()


@contextmanager
def _stoppable(control: Stop, is_thread: bool) -> Iterator[None]:
    scope = _Scope(control, _INNERMOST.get())
    token = _INNERMOST.set(scope)
    try:
        if is_thread:
            scope.hold_around()
        with control.cancelling(scope.cancel, is_thread=is_thread):
            try:
                yield
            except BaseException as error:
                if scope.close():
                    raise GraphDrained(control.drain_reason or "stopped") from error
                raise
            scope.close()
    finally:
        _INNERMOST.reset(token)


def wait_for_lane() -> None:
    """Let the lane that is awaited next stop by itself: coroutines around it are not cancelled."""
    control = get_runtime().control
    if isinstance(control, Stop):
        _Scope(control, _INNERMOST.get()).hold_around()


class _Scope:
    """Cancels the current task from any thread, until it is closed, as `asyncio.timeout` does.

    Once a thread has been waited for inside it, it is not cancelled any more: what the thread gives is
    kept, and has a way to go through the coroutines around it.
    """

    def __init__(self, control: Stop, around: "_Scope | None") -> None:
        self._control, self._around = control, around
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._is_open, self._is_cancelled = True, False
        self._is_held = False

    def cancel(self) -> None:
        if self._is_held:
            return
        with suppress(RuntimeError):  # the loop was closed: nothing runs there any more
            self._loop.call_soon_threadsafe(self._cancel)

    def close(self) -> bool:
        """Take the cancellation back, and tell whether there was one, and none of someone else's."""
        self._is_open = False
        if not self._is_cancelled or self._task is None:
            return False
        self._is_cancelled = False
        return self._task.uncancel() == 0

    def hold_around(self) -> None:
        """Keep the scopes around this one, of the same run, from being cancelled."""
        chain, around = list(self._control.chain()), self._around
        while around is not None and around._control in chain:
            around._is_held = True
            around = around._around

    def _cancel(self) -> None:
        if self._is_open and self._task is not None and not self._is_held:
            self._is_cancelled = True
            self._task.cancel()


_INNERMOST: ContextVar[_Scope | None] = ContextVar("innermost", default=None)
"""The scope in which something is awaited, if any."""


T = TypeVar("T")

_THREADS = ThreadPoolExecutor(max_workers=1024, thread_name_prefix="agentgraph")
"""Where sync functions wait in an async run, so that as many branches as there are wait at once."""


async def run_in_thread(fn: Callable[..., T], *arguments: Any) -> T:
    """Call a sync function without blocking the event loop."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    with stoppable(is_thread=True):
        running = loop.run_in_executor(_THREADS, context.run, _outcome, fn, *arguments)
        given, error = await running
    if error is not None:  # asyncio's futures refuse some exceptions, and copy others
        raise error
    return cast(T, given)


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from sync code, also where an event loop runs in this thread."""
    return cast(T, run_off_loop(asyncio.run, coroutine))


def run_off_loop(fn: Callable[..., T], *arguments: Any) -> T:
    """Call a function that may run an event loop: in a thread where one runs in this, as in Jupyter."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return fn(*arguments)
    context = contextvars.copy_context()
    return _THREADS.submit(context.run, fn, *arguments).result()


class Contained:
    """Lets nothing out of a function that would end what runs it.

    `StopIteration` becomes a `RuntimeError`, as in generators (PEP 479). What would end a task or the
    event loop, with all that runs beside, is carried to the caller of the run; but a cancellation that
    was asked for stays one. This is no `@contextmanager`: `contextlib` raises `StopIteration` again.
    """

    __slots__ = ("_in_task", "_task")

    def __init__(self, *, in_task: bool = False) -> None:
        """Make a guard.

        Args:
            in_task: Whether it is known that a task waits for the function, maybe for its thread.
        """
        self._in_task = in_task

    def __enter__(self) -> None:
        self._task = _current_task()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None and (contained := self.contained(error)) is not error:
            raise contained from error

    def contained(self, error: BaseException) -> BaseException:
        """Return what is let out in the place of an exception: mostly the exception itself."""
        copied = self._in_task and isinstance(error, concurrent.futures.CancelledError)
        if copied or isinstance(error, StopIteration | StopAsyncIteration):
            return RuntimeError(f"the function raised {type(error).__name__}")
        ends_task = isinstance(error, GeneratorExit | asyncio.CancelledError)
        in_task = self._in_task or self._task is not None
        ends_loop = in_task and isinstance(error, SystemExit | KeyboardInterrupt)
        return carried(error) if (ends_task or ends_loop) and not self._is_asked_for(error) else error

    def _is_asked_for(self, error: BaseException) -> bool:
        if isinstance(error, GeneratorExit):  # else the coroutine was thrown away
            return self._task is not _current_task()
        return is_cancelled(error)


def is_cancelled(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of the task that runs now."""
    task = _current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and bool(task.cancelling())


def _outcome(fn: Callable[..., T], *arguments: Any) -> tuple[T | None, BaseException | None]:
    try:
        with Contained():
            return fn(*arguments), None
    except BaseException as error:
        return None, error


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None

"""Stops a run that is abandoned, and the other lanes when one fails.

Nothing that ended may run again on a resume. Cancelling LangGraph's tasks would break this: a function
in a thread cannot be cancelled, and its result would be lost although its work is done. So a `Stop`,
which is LangGraph's `RunControl`, treats the three things that may be running differently:

- A lane between two steps does not begin the next one: LangGraph asks its `RunControl` before each.
- A coroutine is cancelled where it awaits, and its step counts as not done. Once it has returned, what
  encloses it in the step is not cancelled: LangChain may still be telling tracers of its result.
- A function in a thread is waited for, and its result is saved. Coroutines that enclose it are not
  cancelled meanwhile, or the result would have no way out. A generator whose work is discarded,
  whatever it yields, is closed where it yields.

Stops are nested like lanes: a stop reaches everything inside. An example: under `on_error="fail"` the
branch `a` fails while `b` waits for a model in a coroutine and `c` sends a mail in a thread. `b` is
cancelled, `c` ends and is saved; a resume runs `a` and `b` again. Only work that must come to its end
whatever else fails, such as the undo of a step, is stopped by the end of the run alone.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary, WeakSet

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl, get_runtime

from agentgraph.graph.internals import RESUME_MAP
from agentgraph.graph.nodes.desk import Desk
from agentgraph.graph.nodes.mailbox import Mailbox
from agentgraph.graph.saving import loop_around


class Stop(RunControl):
    """Stops everything that runs inside a run, a parallel node, or a node of tool calls.

    Attributes:
        outer: The enclosing control; its stop stops this one, too.
        mailbox: Has the messages that are sent to the run meanwhile; None if it takes none.
        desk: Takes the answers to its questions meanwhile; None if it takes none.
        carried: The exception to raise where the run was started, after everything has stopped.
    """

    __slots__ = (
        *("_cancels", "_is_abandoned", "_is_requested", "_is_unwanted", "_lock", "_stops", "_waits"),
        *("carried", "desk", "mailbox", "outer"),
    )

    def __init__(self, outer: RunControl | None = None) -> None:
        super().__init__()
        self._is_requested = self._is_unwanted = self._is_abandoned = False
        self._stops = 0
        self.outer = outer
        around = outer if isinstance(outer, Stop) else None
        self.mailbox: Mailbox | None = around.mailbox if around else None
        self.desk: Desk | None = around.desk if around else None
        self.carried: BaseException | None = None
        self._cancels: set[Callable[[], None]] = set()
        self._waits: set[Callable[[], None]] = set()
        self._lock = threading.RLock()  # reentrant: a signal handler may close a run

    def begin_step(self, config: RunnableConfig) -> None:
        """Check once more whether a node may begin: LangGraph asked some time ago.

        Raises:
            GraphDrained: A stop was requested since.
        """
        if self.drain_requested:
            raise GraphDrained(self.drain_reason or "stopped")

    def fail_next(self) -> None:
        """Allow one more step, which only raises the failure of this one."""

    def stop(self, reason: str) -> None:
        """Stop lanes after their current step, and coroutines at once."""
        self.request_drain(reason)
        self._stops += 1
        self._call(self._cancels)

    def throw_away(self, reason: str) -> None:
        """Stop work whose result is no longer needed; generators stop at their next yield."""
        self._is_unwanted = True
        self.stop(reason)

    @property
    def is_discarded(self) -> bool:
        """Whether the work inside is discarded, whatever it returns."""
        return any(stop._is_unwanted for stop in self.chain())

    def abandon(self, reason: str) -> None:
        """Stop without waiting for functions in threads: their steps count as not done."""
        self._is_abandoned = True
        self.stop(reason)
        self._call(self._waits)

    def request_drain(self, reason: str = "shutdown") -> None:
        """Stop lanes after their current step."""
        super().request_drain(reason)
        self._is_requested = True

    @property
    def drain_requested(self) -> bool:
        """Whether the lanes inside stop after their current step: asked before each step."""
        return self._is_requested or (self.outer is not None and self.outer.drain_requested)

    @property
    def drain_reason(self) -> str | None:
        """Why they stop."""
        return super().drain_reason or (self.outer.drain_reason if self.outer else None)

    @property
    def stops(self) -> int:
        """How many stops reach what runs inside since the current step began."""
        return self._stops + (self.outer.stops if isinstance(self.outer, Stop) else 0)

    @property
    def is_abandoned(self) -> bool:
        """Whether no function in a thread is waited for any more."""
        return any(stop._is_abandoned for stop in self.chain())

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise the carried exception when the run in a `with` block has stopped."""
        try:
            yield
        except GraphDrained:
            if self.carried is None:
                raise
            raise self.carried from None

    @contextmanager
    def cancelling(self, cancel: Callable[[], None], *, is_thread: bool) -> Iterator[None]:
        """Call `cancel` when this or an enclosing stop is requested during a `with` block.

        For a thread it is called only by `abandon`.
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
            callbacks = list(cancels)
        for cancel in callbacks:
            cancel()

    def chain(self) -> Iterator["Stop"]:
        """Yield this stop and the enclosing ones, the innermost first."""
        stop: RunControl | None = self
        while isinstance(stop, Stop):
            yield stop
            stop = stop.outer


class NotStarted(GraphDrained):
    """Raised where a lane is stopped before its first step in this run.

    Attributes:
        control: The control of the node that runs the lane.
    """

    def __init__(self, reason: str, control: RunControl | None) -> None:
        super().__init__(reason)
        self.control = control


TaskConfigs = tuple[RunnableConfig, RunnableConfig]
"""LangGraph's configs of a node and of a task that it runs."""


class LaneStop(Stop):
    """Stops one lane, but not before its first step, which may have an answer to take.

    A step that only raises a failure is not stopped, either.

    Attributes:
        task: The task that runs it; None if it runs without its graph.
    """

    __slots__ = ("_begun", "_fails_next", "_stops_before", "task")

    def __init__(self, outer: RunControl, task: TaskConfigs | None = None) -> None:
        super().__init__(outer)
        self.task = task
        self._begun = self._fails_next = False
        self._stops_before = 0

    @property
    def stops(self) -> int:
        """How many stops reach what runs inside since the current step began in spite of others."""
        return super().stops - self._stops_before

    @property
    def drain_requested(self) -> bool:
        """Whether the lane stops after its current step."""
        return self._begun and not self._fails_next and super().drain_requested

    def begin_step(self, config: RunnableConfig) -> None:
        """Check whether a node of the lane may begin; the first one may if it has an answer to take."""
        is_first = not self._begun
        may_answer = is_first and bool(config.get("configurable", {}).get(RESUME_MAP))
        is_due = may_answer or self._fails_next
        self._begun, self._fails_next = True, False
        if is_due:
            self._stops_before += self.stops
        elif self.drain_requested:
            reason = self.drain_reason or "stopped"
            raise NotStarted(reason, self.outer) if is_first else GraphDrained(reason)

    def fail_next(self) -> None:
        """Allow the next step, even when the lane is being stopped."""
        self._fails_next = True


def carried(error: BaseException) -> BaseException:
    """Stop the run so that `error` is raised where it was started; return the exception to raise here.

    Without a `Stop` (the graph runs without a `Runner`) that is the error itself.
    """
    control = get_runtime().control
    if not isinstance(control, Stop):
        return error
    *_, outermost = control.chain()
    outermost.carried = outermost.carried or error
    outermost.stop("a function ended the process")
    return GraphDrained("a function ended the process")


class NodeStop(Stop):
    """Stops the lanes or calls of one node."""

    __slots__ = ("__weakref__",)


def inner_stop(*, is_owed: bool = False) -> Stop:
    """Return a stop for the lanes or calls of the current node, nested in the node's own.

    Args:
        is_owed: Whether they must end, such as what undoes a step: then only the run stops them, and
            no failure of another lane around the node.
    """
    control = get_runtime().control
    while is_owed and isinstance(control, NodeStop | LaneStop):
        control = control.outer
    stop = NodeStop(control)
    _stop_with_loop(stop)
    return stop


_STOPS: WeakKeyDictionary[object, WeakSet[Stop]] = WeakKeyDictionary()
"""The work that is running in each of LangGraph's loops."""


def _stop_with_loop(stop: Stop) -> None:
    """Have the lanes or calls of a node stop when an exception ends LangGraph's loop, such as Ctrl-C.

    The node runs in a thread; LangGraph waits for it before it lets the exception out of the loop.
    """
    loop, _ = loop_around(get_config())
    if loop is None or loop.is_nested or not isinstance(loop.stack, ExitStack):
        return  # a nested loop runs in a thread, where no Ctrl-C arrives; coroutines are cancelled
    if (stops := _STOPS.get(loop)) is None:
        stops = _STOPS[loop] = WeakSet()
        loop.stack.push(partial(_stop_all, stops))
    stops.add(stop)


def _stop_all(stops: WeakSet[Stop], _: object, error: BaseException | None, __: object) -> None:
    if error is not None:
        for stop in [*stops]:
            stop.stop(f"the run was ended by {type(error).__name__}")


def stop_if_discarded() -> None:
    """Stop work that is discarded, whatever it returns.

    Raises:
        GraphDrained: It is.
    """
    control = get_runtime().control
    if isinstance(control, Stop) and control.is_discarded:
        raise GraphDrained(control.drain_reason or "stopped")


def stoppable(*, is_thread: bool = False) -> AbstractContextManager[None]:
    """Cancel a `with` block when the run is stopped; one that awaits a thread when it is abandoned.

    Raises:
        GraphDrained: It was cancelled.
    """
    control = get_runtime().control
    return _stoppable(control, is_thread) if isinstance(control, Stop) else nullcontext()


@contextmanager
def _stoppable(control: Stop, is_thread: bool) -> Iterator[None]:
    scope = _Scope(control, _INNERMOST.get())
    token = _INNERMOST.set(scope)
    try:
        if is_thread:
            scope.hold_outer()
        with control.cancelling(scope.cancel, is_thread=is_thread):
            if scope.is_late(is_thread=is_thread):
                scope.cancel()
            try:
                yield
            except BaseException as error:
                if scope.close():
                    raise GraphDrained(control.drain_reason or "stopped") from error
                raise
            scope.close()
    finally:
        _INNERMOST.reset(token)


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Cancel a `with` block that takes longer; a thread in it is awaited, as where a run is stopped.

    Raises:
        TimeoutError: It was cancelled; the cancellation is its cause.
    """
    control = get_runtime().control
    scope = _Scope(control if isinstance(control, Stop) else Stop(), _INNERMOST.get())
    token = _INNERMOST.set(scope)
    timer = asyncio.get_running_loop().call_later(seconds, scope.cancel)
    try:
        try:
            yield
        except BaseException as error:
            if scope.close():
                raise TimeoutError from error
            raise
        scope.close()
    finally:
        timer.cancel()
        _INNERMOST.reset(token)


def wait_for_lane() -> None:
    """Let the lane that is awaited next stop by itself: enclosing coroutines are not cancelled."""
    control = get_runtime().control
    if isinstance(control, Stop):
        _Scope(control, _INNERMOST.get()).hold_outer()


def keep_outcome() -> None:
    """Let what encloses a function that has ended in this step end as well, up to the saved result.

    LangChain passes the result of a tool to tracers and handlers in threads, and awaits them. If the
    step were cancelled there, the function would run again although its work is done.
    """
    control, scope = get_runtime().control, _INNERMOST.get()
    while scope is not None and scope.control is control:
        scope.is_held, scope = True, scope.outer


class _Scope:
    """Cancels the current task from any thread until it is closed, like `asyncio.timeout`.

    It is not cancelled any more once a thread is awaited inside it: the thread's result passes through
    this coroutine before it is saved.
    """

    def __init__(self, control: Stop, outer: "_Scope | None") -> None:
        self.control, self.outer = control, outer
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._is_open, self.is_held = True, False
        self._cancels = 0  # two who close a run may each cancel the task

    def cancel(self) -> None:
        if self.is_held:
            return
        with suppress(RuntimeError):  # the loop is closed: nothing runs in it
            self._loop.call_soon_threadsafe(self._cancel)

    def is_late(self, *, is_thread: bool) -> bool:
        """Return whether the stop that was to cancel it came before it was open.

        Work that has ended inside an enclosing scope that is held is on its way out, and continues.
        """
        if is_thread:
            return self.control.is_abandoned
        return self.control.stops > 0 and not any(each.is_held for each in self._enclosing())

    def close(self) -> bool:
        """Undo its cancellations; return whether there were any, and none by other code."""
        self._is_open = False
        if not self._cancels or self._task is None:
            return False
        while self._cancels:
            self._cancels -= 1
            left = self._task.uncancel()
        return left == 0

    def hold_outer(self) -> None:
        """Keep the enclosing scopes of the same run from being cancelled."""
        for outer in self._enclosing():
            outer.is_held = True

    def _enclosing(self) -> Iterator["_Scope"]:
        chain, outer = list(self.control.chain()), self.outer
        while outer is not None and outer.control in chain:
            yield outer
            outer = outer.outer

    def _cancel(self) -> None:
        if self._is_open and self._task is not None and not self.is_held:
            self._cancels += 1
            self._task.cancel()


_INNERMOST: ContextVar[_Scope | None] = ContextVar("innermost", default=None)
"""The innermost open scope of this coroutine, if any."""


T = TypeVar("T")

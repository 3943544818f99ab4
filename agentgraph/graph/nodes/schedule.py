"""When lanes and tool calls run: each as soon as those are done that it needs, if it may begin at all.

A LangGraph task is known by its name and its place in the order of calls. What the node decides by
what has finished must be no part of that, or a resume would look for the results elsewhere and run
finished lanes again. So each lane has a fixed number, the same in sync and async runs, and its
task is called under that number when the lane may begin: one that waits for others holds no thread.

On a resume the lanes that had finished have their results as soon as their tasks are called; the others
come to their gates and wait there, until it is known which they are. The results are noted in the order
in which the lanes finished, so that the same gates open as before.

`gated_task` makes the tasks, `Schedule` decides, `run_tasks` and `arun_tasks` call and wait.
"""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, InvalidStateError, wait
from heapq import heappop, heappush
from inspect import iscoroutinefunction
from typing import Any, Literal, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphDrained, GraphInterrupt
from langgraph.func import task

from agentgraph.errors import AgentGraphError
from agentgraph.graph.failures import Failure, each_once, failures, is_fatal, raise_together
from agentgraph.graph.nodes.stopping import Stop

_FEWEST_THREADS = 3
Y = TypeVar("Y")
S = TypeVar("S")

Start = Callable[[], Any]
"""Starts a task, and returns its future."""


class _Wrapped(Exception):
    """Takes an exception through futures that would hand on a copy of it, without its notes."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error

    def __repr__(self) -> str:
        return repr(self.error)


_COPIED = (TimeoutError, CancelledError, InvalidStateError)
"""The exceptions of which futures of one kind hand a copy to those of the other."""


def unwrapped(error: BaseException) -> BaseException:
    """Return what the function of a task raised, where its future has `error`."""
    return error.error if isinstance(error, _Wrapped) else error


def gated_task(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that starts `run` as a LangGraph task that waits at its gate first.

    Its first argument is called when the task arrives there, and returns the gate.
    """

    def call(arrive: Callable[[], Future[None]], *arguments: Any) -> Any:
        try:
            arrive().result()
            return run(*arguments)
        except _COPIED as error:
            raise _Wrapped(error) from error

    async def acall(arrive: Callable[[], Future[None]], *arguments: Any) -> Any:
        try:
            await asyncio.wrap_future(arrive())
            return await run(*arguments)
        except _COPIED as error:
            raise _Wrapped(error) from error

    as_task: Callable[..., Any] = task(name=name)
    return cast(Callable[..., Any], as_task(acall if iscoroutinefunction(run) else call))


def numbered_caller(first: int) -> Callable[[int, Start], Any]:
    """Return what starts tasks as those that their node calls at given places, in any order.

    LangGraph counts the calls of a node, and knows a task by its count. To start tasks as they become
    ready, and find their results again on a resume, this gives it the counts; it takes them in the
    order in which tasks are started, on an event loop a little later.

    Args:
        first: The place of the first of the tasks.
    """
    places: deque[int] = deque()
    counter = get_config()["configurable"]["__pregel_scratchpad"].call_counter
    counter._counter = places.popleft

    def call(number: int, start: Start) -> Any:
        places.append(first + number)
        return start()

    return call


def watched(future: asyncio.Future[Any]) -> asyncio.Future[Any]:
    """Return a future whose exception nobody has to ask for: a node that is cancelled does not."""
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


def check_threads(node: str, config: RunnableConfig, instead: str) -> None:
    """Refuse a pool in which the node and the stream leave no thread for a task: all would wait."""
    threads = config.get("max_concurrency")
    if threads is not None and threads < _FEWEST_THREADS:
        raise AgentGraphError(
            f"max_concurrency={threads} in the config leaves no thread for the tasks of {node}; "
            f"leave it out there, {instead.format(threads)}"
        )


def slots(config: RunnableConfig | None) -> int | None:
    """Return how many tasks LangGraph runs at a time beside the node that calls them; None for all."""
    bound = (config or {}).get("max_concurrency")
    return None if bound is None else max(bound - 1, 1)


Steps = Generator["int | list[Any]", Any, None]
"""What runs the lanes: yields the number of a task to call, and is sent its future; or futures, one of
which is to be waited for."""


class Schedule:
    """Opens the gates of what one node runs, its lanes or its calls; told of each that has ended.

    Attributes:
        gates: Where the task of each lane waits until it may begin.
        arrived: Done when it has come there.
        wake: Done when a lane asks that is held.
        results: What the lanes came to that have ended, by their numbers.
        control: Stops the lanes that run.
    """

    def __init__(
        self,
        needs: Sequence[Collection[int]],
        control: Stop,
        *,
        on_error: Literal["fail", "wait", "collect", "first"] = "fail",
        in_steps: bool = False,
        is_final: bool = False,
        at_once: int | None = None,
    ) -> None:
        """Make a schedule.

        Args:
            needs: The numbers of the lanes that each lane needs done, all of them smaller than its own.
            control: Stops the lanes that run.
            on_error: What becomes of the others when one fails; of "first" when one succeeds.
            in_steps: Whether none begins any more when one failed, or ended with a signal.
            is_final: Whether a failure is a result that is kept, and with "fail" ends all for good.
            at_once: How many run at the same time; None for all.
        """
        self.gates: list[Future[None]] = [Future() for _ in needs]
        self.arrived: list[Future[None]] = [Future() for _ in needs]
        self.results: dict[int, Any] = {}
        self.control = control
        self.wake: Future[None] = Future()
        self._held: dict[int, Future[None]] = {}
        self._lock = threading.Lock()
        self._needs, self._on_error, self._in_steps = needs, on_error, in_steps
        self._is_final = is_final and on_error == "fail"
        self._at_once = len(needs) if at_once is None else at_once
        self._slots = len(needs) + 1
        self._opened: list[int] = []
        self._waiting = dict.fromkeys(range(len(needs)))
        self._missing = [len({*each}) for each in needs]
        self._needed_by: dict[int, list[int]] = defaultdict(list)
        for number, each in enumerate(needs):
            for need in {*each}:
                self._needed_by[need].append(number)
        self._ready = [number for number, missing in enumerate(self._missing) if not missing]
        self._raised: dict[int, BaseException] = {}
        self._unneeded: set[int] = set()

    def arrive(self, number: int) -> Future[None]:
        """Return the gate at which a lane waits that has come there."""
        self.arrived[number].set_result(None)
        return self.gates[number]

    def hold(self, number: int) -> Future[None]:
        """Return where a lane waits that asks, until it is known whether its question is needed.

        It is not once another one was first, or failed for good; what was asked stays pending also
        where the node that called the task has gone on.
        """
        held: Future[None] = Future()
        if not (self._is_final or self._on_error == "first"):
            held.set_result(None)
            return held
        with self._lock:
            self._held[number] = held
            if not self.wake.done():
                self.wake.set_result(None)
        return held

    def record(self, ended: Mapping[int, Any]) -> None:
        """Take what lanes came to, by their numbers, as futures; and open the gates that it opens.

        They are taken in the order in which they ended, also where a resume has them all at once: so
        those begin again that had begun before something ended that lets no more begin. But where one
        failed for good, none does.
        """
        with self._lock:
            self.wake = Future() if self.wake.done() else self.wake
        order = sorted(ended, key=lambda number: _when(ended[number]))
        order.sort(key=lambda number: not self._ends_all(ended[number]))
        if not any(map(self._ends_all, ended.values())):
            self._open()
        for number in order:
            self._take(number, ended[number])
            self._stop_unneeded(number)
            self._open()

    def close(self) -> None:
        """End the tasks that wait at their gates, in a way that a resume calls them again."""
        for number in self._waiting:
            if not self.gates[number].done():
                self.gates[number].set_exception(GraphDrained("it has not begun"))
        self._waiting.clear()
        self._release(GraphDrained("it is not needed any more"))

    def finished(self) -> dict[int, Any]:
        """Return what the lanes came to, once all tasks have ended.

        Raises:
            BaseException: The first failure, if it is not "first" and one has succeeded; before all
                others one that is no `Exception`, whatever `on_error` says.
            GraphInterrupt: All questions.
            GraphDrained: The run was stopped.
        """
        raised = [self._raised[number] for number in sorted(self._raised)]
        failed = sorted(filter(is_failure, raised), key=is_fatal, reverse=True)
        if failed and is_fatal(failed[0]):
            raise_together(failed, ())
        if self.is_decided:
            first = min(self.results, key=lambda number: self.results[number]["finished"])
            return {first: self.results[first]}
        paused = [error for error in raised if isinstance(error, GraphInterrupt)]
        questions = each_once(asked for error in paused for asked in error.args[0])
        if failed and not (questions and self._on_error == "first"):
            raise_together(failed, questions)
        if questions:
            raise GraphInterrupt(questions)
        stopped = [n for n, error in self._raised.items() if not isinstance(error, GraphInterrupt)]
        if left := [number for number in stopped if number not in self._unneeded]:
            raise self._raised[left[0]]
        return dict(sorted(self.results.items()))

    def failures(self) -> list[Failure]:
        """Return where lanes failed and how, each as an address and a `repr`."""
        return [failure for error in self._raised.values() for failure in failures(error)]

    def steps(self, slots: int | None = None) -> Steps:
        """Run the lanes, each when it may begin; the caller calls the tasks and waits.

        First those are called that are ready to begin, until it is known which have results that were
        kept: whether one has is known when those that it needs have theirs.

        Args:
            slots: How many tasks LangGraph runs at a time; None for all.
        """
        futures: dict[int, Any] = {}
        self._slots = slots or self._slots
        waiting, most = 0, min(self._at_once, self._slots)
        for number, needs in enumerate(self._needs):
            if waiting < most and all(need in futures and _has_result(futures[need]) for need in needs):
                futures[number] = yield number
                waiting += not futures[number].done()
        running = dict(futures)
        while True:
            ended = {number: each for number, each in running.items() if each.done()}
            self.record(ended)
            running = {number: each for number, each in running.items() if number not in ended}
            opened, self._opened = self._opened, []
            for number in opened:
                if number not in futures:
                    running[number] = futures[number] = yield number
            if not running:
                return
            yield [*running.values()]

    @property
    def is_decided(self) -> bool:
        """Whether the first success is there, and nobody waits for the others."""
        return self._on_error == "first" and bool(self.results)

    def _ends_all(self, future: Any) -> bool:
        """Tell whether a lane failed for good."""
        has_come = not future.cancelled() and future.exception() is None
        return self._is_final and has_come and "failed" in future.result()

    def _take(self, number: int, future: Any) -> None:
        self._waiting.pop(number, None)  # it had ended before
        if future.cancelled():
            self._raised[number] = GraphDrained("it is not needed any more")
        elif (error := future.exception()) is not None:
            self._raised[number] = unwrapped(error)
        else:
            self.results[number] = future.result()
            for other in self._needed_by[number]:
                self._missing[other] -= 1
                if not self._missing[other]:
                    heappush(self._ready, other)

    def _is_fatal(self, number: int) -> bool:
        error = self._raised.get(number)
        return error is not None and is_failure(error) and is_fatal(error)

    def _has_failed(self) -> bool:
        return any("failed" in result for result in self.results.values())

    def _stop_unneeded(self, number: int) -> None:
        """Stop what is not needed any more, now that a lane has ended."""
        result, error = self.results.get(number), self._raised.get(number)
        failed = (result is not None and "failed" in result) or is_failure(error)
        if self.is_decided or self._is_fatal(number) or (failed and self._on_error == "fail"):
            self._unneeded.update(range(len(self.gates)))
            self.control.stop("another one was first, or failed")
        if self._in_steps and (failed or (result is not None and result["signal"])):
            self._unneeded.update(self._waiting)
            self.close()

    def _open(self) -> None:
        """Open the gates of those that have what they need; close all when nothing runs any more.

        A lane that begins when all are to stop does nothing, and one that goes on takes the step first
        that a person answered.
        """
        if self.is_decided or (self._is_final and self._has_failed()):
            self.close()
            return
        begun = len(self.gates) - len(self._waiting)
        running = begun - len(self.results) - len(self._raised) - len(self._held)
        while self._ready and running < self._at_once:
            if (number := heappop(self._ready)) not in self._waiting:
                continue
            del self._waiting[number]
            self._opened.append(number)
            if not self.gates[number].done():  # it was cancelled
                self.gates[number].set_result(None)
            running += 1
        if running == 0:
            self._release(None)
            self.close()
        elif len(self._held) >= self._slots:  # those hold what the others need to run
            self._release(None)

    def _release(self, why_not: GraphDrained | None) -> None:
        """Let the lanes ask that are held, or end them."""
        with self._lock:
            held, self._held = self._held, {}
        for each in held.values():
            if each.done():
                continue
            if why_not is None:
                each.set_result(None)
            else:
                each.set_exception(why_not)


def _has_result(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def is_failure(error: BaseException | None) -> bool:
    """Return whether what a lane raised is a failure, and not a question or a stop."""
    return error is not None and not isinstance(error, GraphBubbleUp)


def _when(future: Any) -> tuple[bool, int]:
    """Sort key: finish time; failed and cancelled tasks last."""
    if future.cancelled() or future.exception() is not None:
        return True, 0
    return False, future.result().get("finished", 0)


def run_tasks(starts: Sequence[Start], schedule: Schedule, first: int = 0) -> dict[int, Any]:
    """Run tasks in threads, and return what they came to, as `Schedule.finished`.

    Args:
        starts: Start the tasks.
        schedule: When each may begin.
        first: The number of the first task among all that the node calls.
    """
    call, steps, future = numbered_caller(first), schedule.steps(), None
    try:
        while (step := send_next(steps, future)) is not None:
            if isinstance(step, int):
                future = call(step, starts[step])
            else:
                wait({*step, schedule.wake}, return_when=FIRST_COMPLETED)
    finally:
        schedule.control.request_drain("nobody waits any more")
        schedule.close()
    return schedule.finished()


async def arun_tasks(
    starts: Sequence[Start], schedule: Schedule, first: int = 0, slots: int | None = None
) -> dict[int, Any]:
    """Run tasks on the event loop, as `run_tasks` does.

    Args:
        starts: Start the tasks.
        schedule: When each may begin.
        first: The number of the first task among all that the node calls.
        slots: How many tasks LangGraph runs at a time; None for all.
    """
    call, steps, future = numbered_caller(first), schedule.steps(slots), None
    try:
        while (step := send_next(steps, future)) is not None:
            if isinstance(step, int):
                future = watched(call(step, starts[step]))
                if not schedule.gates[step].done():  # has it a result, or does it wait there?
                    await _one_of([future, asyncio.wrap_future(schedule.arrived[step])])
            else:
                await _one_of([*step, asyncio.wrap_future(schedule.wake)])
    finally:
        schedule.close()
    return schedule.finished()


def send_next(items: Generator[Y, S, None], value: S | None) -> Y | None:
    """Return what a generator yields next when it is sent a value; None at its end."""
    try:
        return items.send(cast(S, value))
    except StopIteration:
        return None


async def _one_of(futures: list[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)

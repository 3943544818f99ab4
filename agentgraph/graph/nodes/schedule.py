"""Decides when the lanes or tool calls of one node run, so that a resume finds their results again.

The problem
-----------
A node runs its lanes as LangGraph tasks (`langgraph.func.task`): the result of a task is saved when it
ends, and a resume, which runs the node again from its top, gets it back without running the task again.
But LangGraph identifies a task by its name and by its *call number*: how many tasks the node has called
before it. A scheduler that calls each task as soon as the ones it needs are done calls them in an order
that depends on timing. Take the steps a, b, c (needs a) and d (needs b):

    first run   call 0: a   call 1: b   b ends, call 2: d   a ends, call 3: c   d ends   killed in c
    resume      call 0: a   call 1: b   both have results, and c comes first: call 2: c   call 3: d

Call 2 was d. Now LangGraph finds no result for "c as call 2" and "d as call 3", and runs d again: a
payment that d makes is made twice.

Ways that are not good enough
-----------------------------
- *Call all tasks first, in declared order; each waits for the ones it needs.* The numbers are stable,
  but each waiting task holds a thread, and with a bounded pool the tasks that could run get none.
- *Call in waves.* The numbers are stable, but each step waits for the slowest of the wave before it.
- *A graph node for each step, and edges.* Those run in waves, too (LangGraph's supersteps), and a
  question in one step stops the others.
- *Save when each task ended, and take the results in that order.* Necessary, but not enough: a task
  that failed, asked or was killed had a number, and has no result to say when it was called.

The rule
--------
1. Each lane has a fixed number: its index in the list of what the node runs. Its task is always called
   under this number, in whatever order tasks are called (`task_calls.py`).
2. A task is called when its lane may begin, and waits at its *gate* first (`gated_task.py`). One whose
   saved result is found (`graph/saving.py`) is not called: a call takes milliseconds. Calling it is the
   only sure way to learn whether it has one: then its future is done at once. Otherwise it arrives at
   the gate, and nothing of the lane has run.
3. A result carries the time at which its lane ended. On a resume the results are recorded in this
   order, so the same gates open as before: a lane that had begun before another one failed or exited
   begins again, and one that had not begun then does not begin now.

The example again, with numbers a=0, b=1, c=2, d=3:

    first run   call 0 and 1   b ends, call 3: d   a ends, call 2: c   d ends   killed in c
    resume      0, 1 and 3: saved results   call 2 waits at its gate   gate 2 opens: only c runs

`Schedule` decides, with plain futures and no LangGraph; `run_tasks` and `arun_tasks` in `task_calls.py`
call the tasks and wait. A lane that is one leaf waits at its gate too, but runs without a task
(`leaf_pool.py`), under the id that its task would have; its task is called only if it needs one.

Questions
---------
LangGraph keeps a question that a task raises until the node ends. So the task of a lane that pauses
saves its questions itself, and ends by `Parked`: the lane holds no thread, and no place of others. Once
one of them is answered (`desk.py`), its task is called again under the same number, when there is a
place. If nothing else runs, the node raises the questions of all parked lanes. Another lane that wins,
cancels them or fails permanently makes them needless before that.
"""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from heapq import heappop, heappush
from typing import Any, Literal

from langgraph.errors import GraphBubbleUp, GraphDrained, GraphInterrupt
from langgraph.types import Interrupt

from agentgraph.graph.failures import Failure, each_once, failures, is_fatal, raise_together
from agentgraph.graph.nodes.concurrency import AT_ONCE, Places, Room
from agentgraph.graph.nodes.decisions import Turns, decided
from agentgraph.graph.nodes.gated_task import unwrapped
from agentgraph.graph.nodes.parking import Parked, end_wait
from agentgraph.graph.nodes.stopping import Stop

AnyFuture = Future[Any] | asyncio.Future[Any]
"""The future of a task: of a thread's, or of the event loop's."""


class Found:
    """The outcome of a task whose result is saved, with what a schedule asks of a future that is done.

    A resume finds thousands, and a future is five objects, with a lock.
    """

    __slots__ = ("_result",)

    def __init__(self, result: Any) -> None:
        self._result = result

    def done(self) -> Literal[True]:
        """Return True."""
        return True

    def cancelled(self) -> Literal[False]:
        """Return False."""
        return False

    def exception(self) -> None:
        """Return None."""

    def result(self) -> Any:
        """Return the saved result."""
        return self._result


Outcome = AnyFuture | Found
"""The outcome of a task."""
Steps = Generator[int | Future[None], Outcome, None]
"""A generator that yields either the number of a task to call, and is sent its outcome; or a future for
which the caller waits."""


_DONE = Future[None]()
_DONE.set_result(None)


class _Futures(Sequence[Future[None]]):
    """Futures by number, made when they are needed: only those of lanes that have begun are."""

    def __init__(self, count: int) -> None:
        self._count, self._made = count, dict[int, Future[None]]()

    def __len__(self) -> int:
        return self._count

    def renew(self, number: int) -> None:
        """Have a lane that is to run again wait again."""
        self._made.pop(number, None)

    def let_go(self, number: int) -> None:
        """Have one future represent all that are done and not needed any more."""
        made = self._made.get(number)
        if made is not None and made.done() and not made.cancelled() and made.exception() is None:
            self._made[number] = _DONE

    @property
    def made(self) -> Sequence[Future[None]]:
        """Those that are there."""
        return [*self._made.values()]

    def __getitem__(self, number: Any) -> Any:
        if not 0 <= number < self._count:
            raise IndexError(number)
        return self._made.get(number) or self._made.setdefault(number, Future())

    def __iter__(self) -> Iterator[Future[None]]:
        return map(self.__getitem__, range(self._count))


class Schedule:
    """Opens the gates of the lanes (or tool calls) of one node, as others end.

    Attributes:
        gates: The future that the task of each lane waits for before it begins.
        arrived: Done when that task waits at its gate.
        wake: Done when a lane has ended, or may continue after an answer.
        again: The leaves that continue in tasks, with their results so far, by number.
        ready: The jobs of lanes that have begun, and may have to continue in another task, by number.
        resumed: The lanes that continue after an answer, by number, each with the questions so far.
        needless: The numbers of parked lanes that are not needed any more.
        keeps_graphs: Whether lanes that are one leaf run in their graphs all the same.
        may_be_decided: Whether it runs lanes of which one may decide for all.
        results: The results of the lanes that ended, by number.
        turns: Lets lanes that have ended be judged; None if the first success wins unasked.
        is_decided: Whether one lane has won under `on_error="first"`, or has cancelled the others.
        control: Stops the running lanes.
    """

    def __init__(
        self,
        needs: Sequence[Collection[int]],
        control: Stop,
        *,
        on_error: Literal["fail", "wait", "collect", "first"] = "fail",
        in_steps: bool = False,
        is_final: bool = False,
        is_over: bool = False,
        at_once: int = AT_ONCE,
    ) -> None:
        """Make a schedule.

        Args:
            needs: For each lane the numbers of the lanes that must be done first, all smaller than its.
            control: Stops the running lanes.
            on_error: How the others are treated when one fails; with "first" when one succeeds.
            in_steps: Whether no other lane begins after one that failed or ended with a signal.
            is_final: Whether a failure is saved as a result; with "fail" it then ends all permanently.
            is_over: Whether a lane of the node has failed permanently before; then no question is
                asked.
            at_once: How many lanes run at the same time.
        """
        self.gates, self.arrived = _Futures(len(needs)), _Futures(len(needs))
        self.again: dict[int, Any] = {}
        self.ready: dict[int, Any] = {}
        self.resumed: dict[int, set[str]] = {}
        self.needless: set[int] = set()
        self.keeps_graphs = self.may_be_decided = False
        self.results: dict[int, Any] = {}
        self.control = control
        self.wake: Future[None] = Future()
        self._parked: dict[int, Parked] = {}
        self._is_closed = False
        self._lock = threading.Lock()
        self._needs, self._on_error, self._in_steps = needs, on_error, in_steps
        self._is_final = is_final and on_error == "fail"
        self._is_over = is_over
        self._at_once = at_once
        self._places: Places | None = None
        self._depth, self._left = 0, set[int]()
        self.is_decided = False
        self.turns: Turns | None = None
        self._running: dict[int, Outcome] = {}
        self._joined: Collection[int] = ()
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
        self._ended, self._again, self._woken = deque[int](), deque[int](), deque[int]()
        self._called_first: set[int] = set()

    def arrive(self, number: int) -> Future[None]:
        """Note that the task of a lane waits, and return its gate."""
        self.arrived[number].set_result(None)
        gate: Future[None] = self.gates[number]
        return gate

    def find_decision(self, saved: Iterable[Any]) -> None:
        """Look whether the lanes were decided before a resume: then none of them runs any more.

        Args:
            saved: The results that tasks of the node have saved.
        """
        results = {each["number"]: each for each in saved if "finished" in each and "number" in each}
        joined = decided(results, first_wins=self._on_error == "first")
        if joined is not None:
            self.is_decided, self._joined = True, joined.keys()

    def saved(self) -> dict[int, Any]:
        """Return the results that are saved by now, by number."""
        running = [(number, each) for number, each in [*self._running.items()] if _has_result(each)]
        return {number: each.result() for number, each in running} | self.results

    def may_pool(self, number: int) -> bool:
        """Return whether a leaf may run without a task."""
        return not self.keeps_graphs and number not in self.again

    def call_task(self, number: int, begun: object) -> None:
        """Have the task of a lane called, whose leaf has run without one, and needs one."""
        with self._lock:
            self.again[number] = begun
            self._again.append(number)
            self._ring()

    def _note(self, number: int, _: object) -> None:
        with self._lock:
            self._ended.append(number)
            self._ring()

    def _ring(self) -> None:
        if not self.wake.done():
            self.wake.set_result(None)

    def record(self, ended: Mapping[int, Outcome]) -> None:
        """Record lanes that ended, as futures by their numbers, and open gates for the others.

        On a resume many are recorded at once. They are taken in the order in which they ended, so that
        lanes begin again which had begun before one that lets no other begin. But if one failed
        permanently, none begins.
        """
        with self._lock:
            self.wake = Future() if self.wake.done() else self.wake
        while self._woken:
            self._resume(self._woken.popleft())
        order = sorted(ended, key=lambda number: _when(ended[number]))
        last = [each for each in order if self._ends_all(ended[each])] if self._is_final else []
        if last:
            order.sort(key=lambda number: number not in last)
        else:
            self._open()
        for number in order:
            self._take(number, ended[number])
            self._stop_unneeded(number)
            self._open()
        if self._parked and self.is_over:
            self._end_parked()

    def close(self) -> None:
        """End the tasks that wait at their gates, so that a resume calls them again.

        No parked lane continues any more.
        """
        self._is_closed = True
        if self._parked and (desk := self.control.desk) is not None:
            if self.is_decided:
                desk.discard(self._all_unanswered())
            else:
                self._rests()
        for number in self._waiting:
            if not self.gates[number].done():
                self.gates[number].set_exception(GraphDrained("it has not begun"))
        self._waiting.clear()
        if self._places is not None:
            self._places.refuse(self.gates.made, GraphDrained("it has not begun"))

    def finished(self) -> dict[int, object]:
        """Return the results of the lanes by number, after all tasks have ended.

        Raises:
            BaseException: The first failure, unless "first" has a success. One that is not an
                `Exception` (such as `SystemExit`) comes before all others, whatever `on_error` is.
            GraphInterrupt: The questions of all lanes.
            GraphDrained: The run was stopped.
        """
        raised = [self._raised[number] for number in sorted(self._raised)]
        failed = sorted(filter(is_failure, raised), key=is_fatal, reverse=True)
        if failed and is_fatal(failed[0]):
            raise_together(failed, ())
        if (joined := decided(self.results, first_wins=self._on_error == "first")) is not None:
            return joined
        others = self._raised | (self._parked if self._is_over else {})
        questions = each_once(self._questions())
        is_judged = self.turns is not None and bool(self.results)  # and nothing was accepted
        if failed and not (is_judged or (questions and self._on_error == "first")):
            raise_together(failed, questions)
        if questions:
            raise GraphInterrupt(questions)
        stopped = [n for n, error in others.items() if not isinstance(error, GraphInterrupt)]
        if is_judged:  # failures are part of the answer that none was accepted, stops are not
            stopped = [n for n in stopped if not is_failure(others[n])]
        if numbers := [number for number in stopped if number not in self._unneeded]:
            raise others[numbers[0]]
        return dict(sorted(self.results.items()))

    def _questions(self) -> Iterator[Interrupt]:
        """Yield the questions of the lanes, in the order of the lanes."""
        every = self._raised | ({} if self._is_over else self._parked)
        for _, error in sorted(every.items()):
            if isinstance(error, GraphInterrupt | Parked):
                yield from error.questions if isinstance(error, Parked) else error.args[0]

    def failures(self) -> list[Failure]:
        """Return the failures of the lanes."""
        return [failure for error in self._raised.values() for failure in failures(error)]

    def steps(self, room: Room, depth: int = 0) -> Steps:
        """Run the lanes, each when it may begin; the caller calls the tasks and waits for futures.

        First it calls the tasks that may have saved results: those whose needs all have one. It stops
        when as many tasks wait at their gates as may run at once.

        Args:
            room: How many tasks LangGraph runs at once.
            depth: How deep in the tree the node is.
        """
        self._at_once = min(self._at_once, room.at_once)
        self._places, self._depth = room.places, depth
        running, have_results, waiting = self._running, set[int](), 0
        called = self._called_first
        if self.is_decided:
            for number in self._joined:
                running[number] = yield from self._called(number)
            self.record(running)
            return
        for number, needs in enumerate(self._needs):
            if waiting < self._at_once and have_results.issuperset(needs):
                running[number] = yield from self._called(number)
                called.add(number)
                if _has_result(running[number]):
                    have_results.add(number)
                waiting += not running[number].done()
        while True:
            ended = {number: running[number] for number in _taken(self._ended)}
            self.record(ended)
            for number in ended:
                del running[number]
            opened, self._opened = self._opened, []
            opened = [number for number in opened if number not in called]
            for number in (*opened, *_taken(self._again)):
                running[number] = yield from self._called(number)
            if not running and self._is_closed:
                return
            if not (self._ended or self._again or self._woken):
                yield self.wake

    def _called(self, number: int) -> Generator[int, Outcome, Outcome]:
        future = yield number
        if isinstance(future, Found) or future.done():
            self._note(number, future)
        else:
            future.add_done_callback(partial(self._note, number))
        return future

    @property
    def is_over(self) -> bool:
        """Whether a lane has failed permanently, and nothing else stops the others."""
        outer = self.control.outer
        return self._is_over and not (outer is not None and outer.drain_requested)

    def _ends_all(self, future: Outcome) -> bool:
        has_come = not future.cancelled() and future.exception() is None
        return has_come and "failed" in future.result()

    def _take(self, number: int, future: Outcome) -> None:
        if number in self._waiting:
            del self._waiting[number]  # it had ended before
        elif self._places is not None:
            self._leave(number)
        if future.cancelled():
            self._raised[number] = GraphDrained("it is not needed any more")
        elif (error := future.exception()) is not None:
            if isinstance(error, Parked):
                self._park(number, error)
            else:
                self._raised[number] = unwrapped(error)
        else:
            self.results[number] = result = future.result()
            if self._on_error == "first":
                self.is_decided |= result.get("accepted", True)
            elif "stays" in result:
                self.is_decided = True
            self.gates.let_go(number)
            for other in self._needed_by[number]:
                self._missing[other] -= 1
                if not self._missing[other]:
                    heappush(self._ready, other)

    def _park(self, number: int, parked: Parked) -> None:
        self._parked[number] = parked
        if (desk := self.control.desk) is not None:
            desk.park(self._unanswered(number), partial(self._wake, number))

    def _unanswered(self, number: int) -> set[str]:
        """Return the questions of a parked lane, without those after which it has continued."""
        return {each.id for each in self._parked[number].questions} - self.resumed.get(number, set())

    def _all_unanswered(self) -> list[str]:
        return [each for number in self._parked for each in self._unanswered(number)]

    def _wake(self, number: int) -> None:
        with self._lock:
            self._woken.append(number)
            self._ring()

    def _resume(self, number: int) -> None:
        """Have a parked lane continue as soon as there is a place, if it has an answer."""
        desk = self.control.desk
        if self._is_closed or desk is None or number not in self._parked:
            return
        if not (answered := desk.answered(self._unanswered(number))):
            return
        self.resumed[number] = self.resumed.get(number, set()) | answered
        del self._parked[number]
        self.gates.renew(number)
        self.arrived.renew(number)
        self._left.discard(number)
        self._called_first.discard(number)
        self._waiting[number] = None
        heappush(self._ready, number)

    def _end_parked(self) -> None:
        """Have parked lanes end that are not needed any more: their tasks return results."""
        for number in self._parked:
            self.arrived.renew(number)
            self.needless.add(number)
            self._again.append(number)
        self._parked.clear()

    def _rests(self) -> bool:
        """Return whether no parked lane continues: no answer to one is on its way."""
        return not self._parked or end_wait(self.control, self._all_unanswered())

    def _is_fatal(self, number: int) -> bool:
        error = self._raised.get(number)
        return error is not None and is_failure(error) and is_fatal(error)

    def _has_failed(self) -> bool:
        return any("failed" in result for result in self.results.values())

    def _stop_unneeded(self, number: int) -> None:
        result, error = self.results.get(number), self._raised.get(number)
        failed = (result is not None and "failed" in result) or is_failure(error)
        self._is_over |= self._is_final and result is not None and "failed" in result
        if self.is_decided or self._is_fatal(number) or (failed and self._on_error == "fail"):
            self._unneeded.update(range(len(self.gates)))
            stop = self.control.throw_away if self.is_decided else self.control.stop
            stop("another one was first, or failed")
        if self._in_steps and (failed or (result is not None and result["signal"])):
            shut = (number for number, gate in enumerate(self.gates) if not gate.done())
            self._unneeded.update(self._waiting, shut)
            self.close()

    def _open(self) -> None:
        """Open the gates of lanes whose needs are done; close all when nothing runs any more.

        Gates open even while all are being stopped: a new lane then does nothing, and one that is
        resumed takes the step that a person answered.
        """
        if self.is_decided or (self._is_final and self._has_failed()):
            self.close()
            return
        begun = len(self.gates) - len(self._waiting)
        running = begun - len(self.results) - len(self._raised) - len(self._parked)
        while self._ready and running < self._at_once:
            if (number := heappop(self._ready)) not in self._waiting:
                continue
            del self._waiting[number]
            self._opened.append(number)
            if self._places is not None:
                self._places.enter(self.gates[number], self._depth)
            elif not self.gates[number].done():  # it was cancelled
                self.gates[number].set_result(None)
            running += 1
        if running == 0 and self._rests():
            self.close()

    def _leave(self, number: int) -> None:
        """Give the place of a lane back, once; one that still waits for it needs none."""
        if self._places is None or number in self._left:
            return
        gate = self.gates[number]
        if gate.cancel() or gate.cancelled():
            return
        if gate.exception() is None:
            self._left.add(number)
            self._places.leave()


def _taken(numbers: deque[int]) -> Iterator[int]:
    while numbers:
        yield numbers.popleft()


def _has_result(future: Outcome) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def is_failure(error: BaseException | None) -> bool:
    """Return whether an exception is a failure, and not a question or a stop."""
    return error is not None and not isinstance(error, GraphBubbleUp)


def _when(future: Outcome) -> tuple[bool, int]:
    """Sort key: finish time; failed and cancelled tasks last."""
    if future.cancelled() or future.exception() is not None:
        return True, 0
    return False, future.result().get("finished", 0)

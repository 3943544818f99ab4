"""The node of an agent whose sub-agents run in lanes: runs and joins these."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache, partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp, GraphDrained, GraphInterrupt

from agentgraph.agents.dependencies import upstream
from agentgraph.agents.middleware import Mode
from agentgraph.agents.signals import Signal
from agentgraph.graph.failures import Failure, failures, is_fatal, mark_failure
from agentgraph.graph.lane_position import Position, SignalDetails, details_in
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import NodeContext, RunState
from agentgraph.graph.nodes.decisions import Turns
from agentgraph.graph.nodes.gated_task import GatedTask, TaskCall, talk_tasks
from agentgraph.graph.nodes.lane import (
    Lane,
    LaneCall,
    LaneResult,
    Way,
    continued,
    without_running,
)
from agentgraph.graph.nodes.leaf_lane import LeafLane
from agentgraph.graph.nodes.metering import metered
from agentgraph.graph.nodes.parking import check_parked, park
from agentgraph.graph.nodes.reporter import Reporter
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.stopping import NotStarted
from agentgraph.graph.nodes.task_calls import arun_tasks, run_tasks
from agentgraph.graph.pictures import Picture, picture_of
from agentgraph.graph.stamps import home_at, speaker_at, stamped
from agentgraph.graph.state import LaneState, Update
from agentgraph.graph.sync_async import Call, Calls, arun_calls, run_calls
from agentgraph.graph.values import AreConcurrent, Write
from agentgraph.tree.addresses import Cursor, address, entered, is_inside

Results = Mapping[int, LaneResult]
"""The results of lanes, by their numbers."""


T = TypeVar("T")
_SIGNALS: tuple[Signal, ...] = ("exit", "break_loop")
"""The signals of lanes; the first counts most."""


_Ended = tuple[LaneResult, Exception | None]
"""The result of a lane until it ended or failed, and the failure if it did."""


class Job(NamedTuple):
    """One run of a lane by a node.

    Attributes:
        lane: The index of the lane.
        cursor: The counters that enclose the lane.
        sees: Returns the state that the lane sees, given the results of the jobs that it needs.
        needs: The numbers of the jobs that must be done first, all smaller than its own.
        if_begun: Whether it runs only if an earlier run of its node had begun it.
        asks: Finds the state that the lane sees by asking a function of the user's; None if `sees`
            needs none.
    """

    lane: int
    cursor: Cursor
    sees: Callable[[Results], RunState]
    needs: tuple[int, ...] = ()
    if_begun: bool = False
    asks: Callable[[Results], Calls[RunState]] | None = None


class LanesNode(Runnable[LaneState, Update]):
    """Runs lanes; a subclass says which, when each may begin, and how failures are treated.

    Attributes:
        may_skip: Whether `not_run` is asked before each lane runs.
        first: The call number of the first lane's task in the node.
    """

    may_skip = False
    first = 0

    def __init__(self, node_context: NodeContext, lanes: Sequence[Lane]) -> None:
        self.node_context, self.lanes = node_context, lanes
        self.name = node_context.place.node
        self.tasks = [self._tasks(lane) for lane in lanes]

    @abstractmethod
    async def jobs(self, activation: Activation) -> Sequence[Job]:
        """Return the jobs, each after those that it needs."""

    @abstractmethod
    def schedule(self, jobs: Sequence[Job]) -> Schedule:
        """Return when each job may begin."""

    @property
    def picture(self) -> Picture:
        """The drawing inside the node."""
        return picture_of(self.lanes)

    async def not_run(self, activation: Activation, job: Job, results: Results) -> LaneResult | None:
        """Return the result of a job whose lane is not run at all; None if it is run."""
        return None

    def keeps_graphs(self, activation: Activation) -> bool:
        """Return whether lanes that are one leaf run in their graphs all the same."""
        return False

    def keeps_failure(self, lane: Lane) -> bool:
        """Return whether the failure of a lane is a saved result, so that a resume does not run it."""
        return False

    def instead(self, error: str) -> Sequence[BaseMessage]:
        """Return the messages that replace those of a lane whose failure is saved."""
        return ()

    def joining(self, activation: Activation, results: Iterable[LaneResult]) -> list[BaseMessage]:
        """Return the changes of the history that lanes hand back."""
        return [each for result in results for each in result["messages"]]

    async def verdict(self, activation: Activation, job: Job, result: LaneResult) -> object:
        """Return whether the reply of a lane wins; asked where the schedule has `turns`."""
        return True

    def keep(self, activation: Activation, jobs: Sequence[Job], results: Results) -> None:
        """Keep what an enclosing agent needs of the results."""

    def finish(self, activation: Activation, results: Results) -> None:
        """Run after all lanes have ended."""

    async def afinish(self, activation: Activation, results: Results) -> None:
        """Run after all lanes have ended, on the event loop."""

    def failure(self, activation: Activation, error: BaseException) -> BaseException:
        """Return the error to raise when lanes failed with `error`."""
        return error

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: object) -> Update:
        """Run the lanes in threads."""
        activation = Activation(self.node_context, input, config or {}, runs_lanes=True)
        with Reporter(activation), self._naming(activation):
            if activation.meter is None:
                return self._act(activation)
            return run_calls(metered(activation, activation.meter, self._act, self._aact))

    async def ainvoke(
        self, input: LaneState, config: RunnableConfig | None = None, **_: object
    ) -> Update:
        """Run the lanes on the event loop."""
        activation = Activation(self.node_context, input, config or {}, runs_lanes=True)
        with Reporter(activation), self._naming(activation):
            if activation.meter is None:
                return await self._aact(activation)
            return await arun_calls(metered(activation, activation.meter, self._act, self._aact))

    def _act(self, activation: Activation) -> Update:
        """Run the lanes, unless they have ended before, and return the update."""
        if not activation.has_ended:
            run_calls(activation.read_lanes())
            jobs = run_calls(self.jobs(activation))
            schedule = self.schedule(jobs)
            schedule.keeps_graphs = self.keeps_graphs(activation)
            schedule.may_be_decided = True
            start = partial(self._start, activation, jobs, schedule, "sync")
            results = run_tasks(start, schedule, self.first)
            self.finish(activation, results)
            self._join(activation, jobs, results, schedule.failures())
        asks = self.node_context.has_boundary
        return self._with_text(
            activation, run_calls(activation.awaited_update()) if asks else activation.update()
        )

    async def _aact(self, activation: Activation) -> Update:
        if not activation.has_ended:
            await arun_calls(activation.read_lanes())
            jobs = await arun_calls(self.jobs(activation))
            schedule = self.schedule(jobs)
            schedule.keeps_graphs = self.keeps_graphs(activation)
            schedule.may_be_decided = True
            start = partial(self._start, activation, jobs, schedule, "async")
            results = await arun_tasks(start, schedule, self.first)
            await self.afinish(activation, results)
            self._join(activation, jobs, results, schedule.failures())
        asks = self.node_context.has_boundary
        return self._with_text(
            activation, await arun_calls(activation.awaited_update()) if asks else activation.update()
        )

    def _start(
        self,
        activation: Activation,
        jobs: Sequence[Job],
        schedule: Schedule,
        mode: Mode,
        number: int,
        call: TaskCall,
    ) -> object:
        job = jobs[number]
        return call(self.tasks[job.lane][mode], activation, job, schedule, number)

    def _with_text(self, activation: Activation, update: Update) -> Update:
        if activation.text is not None:
            update["position"]["text"] = activation.text
        return update

    @contextmanager
    def _naming(self, activation: Activation) -> Iterator[None]:
        """Raise what `failure` returns for an error, unless the lanes ended in an earlier step."""
        try:
            yield
        except GraphBubbleUp:
            raise
        except Exception as error:
            if activation.has_ended:
                raise
            marked = mark_failure(
                error, activation.address, activation.name, activation.output.emitter.step
            )
            named = self.failure(activation, marked)
            raise named from (marked.__cause__ if named is marked else marked)

    def _tasks(self, lane: Lane) -> dict[Mode, GatedTask]:
        return talk_tasks(lane.place.node, partial(self._run, lane), is_leaf=isinstance(lane, LeafLane))

    async def _run(
        self,
        lane: Lane,
        activation: Activation,
        job: Job,
        schedule: Schedule,
        number: int,
        began: int = 0,
    ) -> LaneResult:
        """Run a lane, and return its result.

        Args:
            lane: The lane.
            activation: The activation of the node.
            job: Which run of the lane.
            schedule: The schedule.
            number: The number of the job.
            began: When it began, in microseconds, if it is a leaf that runs without a task; else 0.
        """
        ended, in_pool, began = None, began > 0, began or time.time_ns() // 1000
        if number in schedule.needless:
            return self._stopped(activation, job)
        if (desk := schedule.control.desk) is not None and desk.parked:
            check_parked(schedule.control)
        try:
            try:
                if number in schedule.ready:
                    job = schedule.ready[number]
                elif self.may_skip or job.if_begun or job.asks is not None:
                    job, ended = await self._begun(activation, job, schedule)
                    schedule.ready[number] = job
                call = self._call(activation, job, schedule, number, in_pool=in_pool)
                ended = ended or await Call(lane.attempt, lane.aattempt, (call,))
                if schedule.turns is not None and ended[1] is None:
                    judged = self._judged(activation, job, schedule.turns, ended[0])
                    if isinstance(lane, LeafLane) and call.way != "graph":
                        judged = self._judged_leaf(activation, ended[0], judged)
                    ended = await judged
            except GraphInterrupt as paused:
                if in_pool:
                    raise
                if schedule.is_over:
                    raise GraphDrained("it is not needed any more") from None
                await park(paused.args[0], activation.node_config, schedule.control)
        except GraphDrained as stop:
            if not _is_final(stop, activation, schedule):
                raise
            return self._stopped(activation, job)
        return self._result(activation, job, schedule, (number, began), *ended)

    async def _judged(
        self, activation: Activation, job: Job, turns: Turns, result: LaneResult
    ) -> _Ended:
        """Return a result with the verdict on it, when it is its turn; or why there is none."""
        turn = turns.enter()
        try:
            await _held(turn)
            if turns.is_over:
                raise GraphDrained("another one was accepted")
            verdict, failed = await self._tried(job, self.verdict(activation, job, result))
            if failed is not None:
                return result, failed
            turns.is_over = result["accepted"] = bool(verdict)
        finally:
            turns.leave(turn)
        if not verdict:
            self._discard(activation, job, result)
        return result, None

    async def _judged_leaf(
        self, activation: Activation, result: LaneResult, judged: Calls[_Ended]
    ) -> _Ended:
        """Return a judged result of a leaf; if it is not judged, its events are discarded.

        Then its result is not saved: another one was accepted, or a resume runs it again.
        """
        ended: _Ended | None = None
        try:
            ended = await judged
            return ended
        finally:
            if ended is None or ended[1] is not None:
                position: Any = result.get("position") or {}
                notes = position.get("told") or ()
                said = [each.id for each in result.get("messages", ())]
                emitter = activation.output.new_emitter(is_concurrent=True)
                emitter.discard([*said, *map(itemgetter(0), notes)])

    def _discard(self, activation: Activation, job: Job, result: LaneResult) -> None:
        """Discard the events of a lane that has lost, by a note in its result."""
        emitter = activation.output.new_emitter(is_concurrent=True)
        emitter.discard(emitter.ids_at(self._inside(job)))
        if notes := emitter.end():
            at = self._address(job)
            position = result.get("position") or Position(next=None, cursor=[], tree="", at=at)
            result["position"] = {**position, "told": [*position.get("told", []), *notes]}

    async def _begun(
        self, activation: Activation, job: Job, schedule: Schedule
    ) -> tuple[Job, _Ended | None]:
        """Return a job after what is asked before it begins, and how it ended if it does not run."""
        ended = None
        if self.may_skip or job.if_begun:
            ended = await self._not_run(activation, job, schedule)
        if job.asks is not None and not ended:
            job, ended = await self._asked(job, job.asks, schedule)
        return job, ended

    async def _not_run(self, activation: Activation, job: Job, schedule: Schedule) -> _Ended | None:
        """Return the result of a lane that is not run, or why that is not known; None if it is run."""
        result, failed = await self._tried(job, self.not_run(activation, job, schedule.results))
        if failed is not None:
            return without_running(), failed
        return (result, None) if result else None

    async def _asked(
        self, job: Job, asks: Callable[[Results], Calls[RunState]], schedule: Schedule
    ) -> tuple[Job, _Ended | None]:
        """Return a job with the state that its lane sees; or why that is not known, a failure of it."""
        seen, failed = await self._tried(job, asks(schedule.results))
        if seen is None:
            return job, (without_running(), failed)
        return job._replace(sees=lambda _: seen), None

    async def _tried(self, job: Job, calls: Calls[T]) -> tuple[T | None, Exception | None]:
        try:
            return await calls, None
        except GraphBubbleUp:
            raise
        except Exception as error:
            return None, error
        except BaseException as error:
            raise self._marked(job, error)  # noqa: B904

    def _call(
        self, activation: Activation, job: Job, schedule: Schedule, number: int, *, in_pool: bool
    ) -> LaneCall:
        see, again = partial(job.sees, schedule.results), number in schedule.resumed
        way: Way = "pool" if in_pool else "graph" if schedule.keeps_graphs or again else "task"
        call = LaneCall(
            self.node_context,
            job.cursor,
            see,
            schedule.control,
            way=way,
            around=activation.node_config,
            again=again,
        )
        if number not in schedule.again or again:
            return call
        return continued(call, schedule.again[number])

    def _result(
        self,
        activation: Activation,
        job: Job,
        schedule: Schedule,
        run: tuple[int, int],
        result: LaneResult,
        error: Exception | None,
    ) -> LaneResult:
        """Return the result of a lane with its finish time, which is after those that it needed.

        Args:
            activation: The activation of the node that runs the lanes.
            job: The job.
            schedule: The schedule.
            run: The number of the lane, and when it began.
            result: Its result.
            error: How it failed.
        """
        if error is not None:
            self._keep_failure(activation, job, result, error)
        elif "stopped" in result:
            return self._stopped(activation, job)
        before = [schedule.results[need]["finished"] + 1 for need in job.needs]
        result["number"], result["began"] = run
        if "cancels" in result:
            stays = schedule.saved()
            result["stays"] = sorted(stays)
            before += [each["finished"] + 1 for each in stays.values()]
        result["finished"] = max([time.time_ns() // 1000, *before])
        if job.needs:
            result["needs"] = [*job.needs]
        return result

    def _keep_failure(
        self, activation: Activation, job: Job, result: LaneResult, error: Exception
    ) -> None:
        """Add a failure and the messages that replace the lane's to its result, and emit them.

        Raises:
            BaseException: The failure, if it is not saved as a result.
        """
        lane, marked = self.lanes[job.lane], self._marked(job, error)
        if is_fatal(marked) or not self.keeps_failure(lane):
            raise marked
        at, text, _ = failures(marked)[0]
        emitter = activation.output.new_emitter(is_concurrent=True)
        emitter.discard_questions(self._inside(job))
        emitter.add_errors(marked)
        name = speaker_at(home_at(at, activation.node_context.paths.inner_names))
        instead = [stamped(message, at, name) for message in self.instead(text)]
        for message in instead:
            emitter.add_message(message)
        result["messages"] = [*result["messages"], *instead]
        result["failed"] = text
        result["position"] = Position(next=None, cursor=[], tree="", at=at, told=emitter.end())

    def _stopped(self, activation: Activation, job: Job) -> LaneResult:
        """Return the result of a lane that is stopped permanently; its questions need no answer."""
        emitter, at = activation.output.new_emitter(is_concurrent=True), self._address(job)
        emitter.discard_questions(self._inside(job))
        result = without_running("stopped")
        if notes := emitter.end():
            result["position"] = Position(next=None, cursor=[], tree="", at=at, told=notes)
        return result

    def _marked(self, job: Job, error: BaseException) -> BaseException:
        """Return an exception that names the first agent of a lane, unless it names one inside."""
        return mark_failure(error, self._address(job), self.lanes[job.lane].place.name)

    def _address(self, job: Job) -> str:
        place = self.lanes[job.lane].place
        return address(place, entered(place, job.cursor))

    def _join(
        self, activation: Activation, jobs: Sequence[Job], results: Results, failed: Sequence[Failure]
    ) -> None:
        ended = results.values()
        signals = {result["signal"] for result in ended}
        if signal := next((each for each in _SIGNALS if each in signals), None):
            activation.signal(signal, joined_details(signal, ended), is_emitted=True)
        activation.output.add_emitted(self.joining(activation, ended))
        activation.output.write(self._writes(activation, jobs, results))
        if not self.lanes[0].place.is_called:  # an item's lane starts with a fresh record
            activation.output.keep_changes(*(each.get("middleware", {}) for each in ended))
        self.keep(activation, jobs, results)
        for number in [number for number in range(len(jobs)) if number not in results]:
            if discarded := activation.output.emitter.ids_at(self._inside(jobs[number])):
                activation.output.emitter.add_note("discarded", [*dict.fromkeys(discarded)])
        for failure in failed:
            activation.output.emitter.add_error(failure)

    def _inside(self, job: Job) -> Callable[[str], bool]:
        place = self.lanes[job.lane].place
        cursor = entered(place, job.cursor)
        return lambda at: is_inside(self.node_context.tree, at, place, cursor)

    def _writes(self, activation: Activation, jobs: Sequence[Job], results: Results) -> list[Write]:
        shared_writes = {number: result["values"] for number, result in results.items()}
        return activation.view.state.joined(
            activation.address, shared_writes, are_concurrent([job.needs for job in jobs])
        )


def joined_details(signal: Signal, results: Iterable[LaneResult]) -> SignalDetails:
    """Return the details of a signal with which lanes ended: first those of one that cancels."""
    with_signal = [details_in(each) for each in results if each["signal"] == signal]
    with_signal.sort(key=lambda each: "cancels" not in each)
    details = SignalDetails()
    for each in reversed(with_signal):
        details.update(each)
    return details


def are_concurrent(every: Sequence[Sequence[int]]) -> AreConcurrent:
    """Return a function that returns whether two jobs may run concurrently: neither needs the other.

    Args:
        every: For each job the numbers of those that it needs.
    """
    needs = dict(enumerate(every))
    before = cache(partial(upstream, needs))
    return lambda one, other: one not in before(other) and other not in before(one)


def _is_final(stop: GraphDrained, activation: Activation, schedule: Schedule) -> bool:
    """Return whether a stopped lane never continues, because another one has failed permanently.

    A lane that an earlier run left in the middle of a step continues if this one did not begin that
    step
    again: what the step has done is not known.
    """
    is_left = isinstance(stop, NotStarted) and stop.control is schedule.control
    return schedule.is_over and not (is_left and activation.is_resumed)


async def _held(future: Future[None]) -> None:
    await Call(future.result, partial(asyncio.wrap_future, future))

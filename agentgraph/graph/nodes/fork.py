"""The node of a fork: it runs lanes as LangGraph tasks, and joins what they came to."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, NoReturn, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from agentgraph.agents.agents import EachAgent, Item, ParallelAgent
from agentgraph.agents.dependencies import in_order, upstream
from agentgraph.agents.signals import Signal
from agentgraph.graph.failures import Failure, failures, is_fatal, mark_failure
from agentgraph.graph.middleware_state import Changes, collected
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import Site, Surroundings, joined
from agentgraph.graph.nodes.ending import Ending
from agentgraph.graph.nodes.lane import Lane, LaneCall, LaneResult, last_text
from agentgraph.graph.nodes.schedule import (
    Schedule,
    arun_tasks,
    check_threads,
    gated,
    named_task,
    run_tasks,
    slots,
)
from agentgraph.graph.nodes.stopping import Contained, Stop, begin_step, inner_stop, is_cancelled
from agentgraph.graph.nodes.telling import Teller
from agentgraph.graph.state import Border, LaneState, Position, Update, stamped, with_id
from agentgraph.graph.values import Beside, Write
from agentgraph.tree.addresses import Cursor, address, as_cursor, entered, is_inside

_INSTEAD = "and bound the branches with parallel(..., max_concurrency={})"

Results = Mapping[int, LaneResult]
"""What lanes came to, by their numbers."""


class Fork(NamedTuple):
    """One activation of a fork.

    Attributes:
        address: Its address.
        cursor: The counters at it.
        around: What is visible at it.
        control: Stops its lanes.
        teller: Tells what the fork itself tells.
    """

    address: str
    cursor: Cursor
    around: Surroundings
    control: Stop
    teller: Teller


class Job(NamedTuple):
    """One lane that a fork is to run.

    Attributes:
        lane: Which of the node's lanes.
        cursor: The counters around the lane.
        sees: Called for what the lane is to see, with what the others came to that it needs.
        needs: The numbers of the jobs that must be done before, all before this one.
    """

    lane: int
    cursor: Cursor
    sees: Callable[[Results], Surroundings]
    needs: tuple[int, ...] = ()


class ForkNode(Runnable[LaneState, Update]):
    """Runs lanes; a kind of fork says which, when each may begin, and what comes of failures."""

    def __init__(self, site: Site, lanes: Sequence[Lane]) -> None:
        self.site, self.lanes = site, lanes
        self.name = site.place.node
        self.tasks = [named_task(lane.place.node, gated(self._runner(lane))) for lane in lanes]
        self.atasks = [named_task(lane.place.node, gated(self._arunner(lane))) for lane in lanes]

    @abstractmethod
    def jobs(self, fork: Fork) -> list[Job]:
        """Return what is to run, each job behind those that it needs."""

    def keeps_failure(self, lane: Lane) -> bool:
        """Tell whether the failure of a lane is a result like others, which a resume finds again."""
        return False

    @abstractmethod
    def schedule(self, fork: Fork, jobs: Sequence[Job]) -> Schedule:
        """Return when it runs."""

    def instead(self, error: str) -> Sequence[BaseMessage]:
        """Return what is said in the place of what a lane did not come to, if failures are kept."""
        return ()

    def values(self, fork: Fork, results: Results) -> dict[str, Any]:
        """Return the values that the fork itself writes."""
        return {}

    def finish(self, fork: Fork, results: Results) -> None:
        """Do what is left when all lanes have ended."""

    async def afinish(self, fork: Fork, results: Results) -> None:
        """Do what is left, on the event loop."""

    def failure(self, fork: Fork, error: Exception) -> Exception:
        """Return the error that is raised where lanes failed with `error`."""
        return error

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the lanes in threads."""
        if (update := self._at_border(input, config or {})) is not None:
            return update
        check_threads(self.site.place.node, config or {}, _INSTEAD)
        fork = self._fork(input, config or {})
        try:
            jobs = self.jobs(fork)
            schedule = self.schedule(fork, jobs)
            results = run_tasks(_starts(self.tasks, fork, jobs, schedule), schedule)
            self.finish(fork, results)
            return self._update(fork, jobs, results, schedule.failures())
        except GraphBubbleUp:
            raise
        except BaseException as error:
            self._raise(fork, error)

    async def ainvoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the lanes on the event loop."""
        if (update := self._at_border(input, config or {})) is not None:
            return update
        fork = self._fork(input, config or {})
        try:
            jobs = self.jobs(fork)
            schedule = self.schedule(fork, jobs)
            starts = _starts(self.atasks, fork, jobs, schedule)
            results = await arun_tasks(starts, schedule, slots=slots(config))
            await self.afinish(fork, results)
            return self._update(fork, jobs, results, schedule.failures())
        except GraphBubbleUp:
            raise
        except BaseException as error:
            self._raise(fork, error)

    def _at_border(self, state: LaneState, config: RunnableConfig) -> Update | None:
        """Return what the node writes whose lanes ended in a step before; None where they did not."""
        if "border" not in (state.get("position") or {}):
            return None
        activation = Activation(self.site, state, config)
        if not activation.has_ended:
            return None
        with activation.reported(), Contained():
            return activation.update()

    def _fork(self, state: LaneState, config: RunnableConfig) -> Fork:
        begin_step(config)
        cursor = as_cursor(self.site.arrived(state.get("position"))["cursor"])
        around = self.site.surroundings(state, config)
        at = self.site.address(cursor)
        teller = Teller(around.clock, at, config, is_beside=True)
        return Fork(at, cursor, around, inner_stop(), teller)

    def _raise(self, fork: Fork, error: BaseException) -> NoReturn:
        """Raise an error that says where it arose; here, if it does not say so yet."""
        if is_cancelled(error):
            raise error
        error = mark_failure(error, fork.address, self.site.place.name, fork.teller.step)
        named = self.failure(fork, error) if isinstance(error, Exception) else error
        fork.teller.failed(named)
        raise named from (error.__cause__ if named is error else error)

    def _runner(self, lane: Lane) -> Callable[..., LaneResult]:
        def run(fork: Fork, job: Job, schedule: Schedule, number: int) -> LaneResult:
            see = partial(job.sees, schedule.results)
            try:
                ended = lane.attempt(LaneCall(self.site, job.cursor, see, fork.control))
            except GraphInterrupt:
                schedule.hold(number).result()
                raise
            return _finished(self._kept(fork, lane, job, *ended), job, schedule.results, number)

        return run

    def _arunner(self, lane: Lane) -> Callable[..., Any]:
        async def run(fork: Fork, job: Job, schedule: Schedule, number: int) -> LaneResult:
            see = partial(job.sees, schedule.results)
            try:
                ended = await lane.aattempt(LaneCall(self.site, job.cursor, see, fork.control))
            except GraphInterrupt:
                await asyncio.wrap_future(schedule.hold(number))
                raise
            return _finished(self._kept(fork, lane, job, *ended), job, schedule.results, number)

        return run

    def _kept(
        self, fork: Fork, lane: Lane, job: Job, result: LaneResult, error: Exception | None
    ) -> LaneResult:
        """Return the result of a lane, with how it failed where that is kept; that is told at once."""
        if error is None:
            return result
        place = lane.place
        marked = mark_failure(error, address(place, entered(place, job.cursor)), place.name)
        if is_fatal(marked) or not self.keeps_failure(lane):
            raise marked
        at, shown, _ = failures(marked)[0]
        teller = fork.teller.beside()
        teller.void_questions(self._inside(lane, job))
        teller.fail(marked)
        instead = [stamped(message, at) for message in self.instead(shown)]
        for message in instead:
            teller.say(message)
        position = Position(next=None, cursor=[], tree="", at=at, told=teller.end())
        messages = [*result["messages"], *instead]
        return {**result, "messages": messages, "failed": shown, "position": position}

    def _update(
        self, fork: Fork, jobs: Sequence[Job], results: Results, failed: Sequence[Failure]
    ) -> Update:
        signals = {result["signal"] for result in results.values()}
        signal: Signal | None = (
            "exit" if "exit" in signals else "break_loop" if "break_loop" in signals else None
        )
        messages = [message for result in results.values() for message in result["messages"]]
        writes = self._writes(fork, jobs, results)
        ending = Ending(
            self.site,
            fork.cursor,
            Border(signal=signal, given=[]) if signal else Border(given=[]),
            lambda: fork.around.with_new(messages, writes),
            transfers=_transfers(fork, results),
        )
        position = ending.position({})
        position["at"] = fork.address
        for number, job in enumerate(jobs):
            if number not in results:
                fork.teller.void(fork.teller.told_where(self._inside(self.lanes[job.lane], job)))
        for failure in failed:
            fork.teller.error(failure)
        ending.tell(fork.teller)
        if notes := fork.teller.end():
            position["told"] = notes
        position["clock"] = fork.around.clock.state
        update = Update(position=position)
        if messages:
            update["messages"] = messages
        if writes:
            update["values"] = self.site.update(writes)
        if changes := self._changes(results):
            update["middleware"] = changes
        return ending.onto(update)

    def _inside(self, lane: Lane, job: Job) -> Callable[[str], bool]:
        """Return what tells whether an address is inside a lane that a job runs."""
        place, cursor = lane.place, entered(lane.place, job.cursor)
        return lambda at: is_inside(self.site.tree, at, place, cursor)

    def _changes(self, results: Results) -> Changes:
        """Return what middleware changed in the lanes; what ran for one call or item begins anew."""
        lanes = [lane for lane in self.lanes if not lane.place.is_called]
        return collected({}, [each.get("middleware", {}) for each in results.values() if lanes])

    def _writes(self, fork: Fork, jobs: Sequence[Job], results: Results) -> list[Write]:
        """Return what the lanes wrote, in declared order, and then what the fork itself writes."""
        handed_back = {number: result["values"] for number, result in results.items()}
        writes = joined(fork.address, handed_back, _beside(jobs), fork.around)
        own = self.values(fork, results)
        return [*writes, Write(by="", values=own)] if own else writes


def _beside(jobs: Sequence[Job]) -> Beside:
    """Return what tells whether two jobs may run at the same time: neither needs the other."""
    needs = {number: job.needs for number, job in enumerate(jobs)}
    before = cache(partial(upstream, needs))
    return lambda one, other: one not in before(other) and other not in before(one)


def _transfers(fork: Fork, results: Results) -> int:
    """Return how many transfers there were in this turn, those of all lanes included."""
    before = fork.around.transfers
    return before + sum(result.get("transfers", before) - before for result in results.values())


def _starts(
    tasks: Sequence[Callable[..., Any]], fork: Fork, jobs: Sequence[Job], schedule: Schedule
) -> list[Callable[[], Any]]:
    return [
        partial(tasks[job.lane], partial(schedule.arrive, n), fork, job, schedule, n)
        for n, job in enumerate(jobs)
    ]


def _finished(result: LaneResult, job: Job, results: Results, number: int) -> LaneResult:
    before = [results[need]["finished"] + 1 for need in job.needs]
    return {**result, "finished": max([time.time_ns(), *before]), "number": number}


class ParallelNode(ForkNode):
    """Runs the branches; each goes as far as it can before the run pauses."""

    def __init__(self, site: Site, lanes: Sequence[Lane]) -> None:
        self.agent = cast(ParallelAgent, site.place.agent)
        super().__init__(site, lanes)

    def jobs(self, fork: Fork) -> list[Job]:
        """Return a job for each branch."""
        return [Job(n, fork.cursor, lambda _: fork.around) for n in range(len(self.lanes))]

    def schedule(self, fork: Fork, jobs: Sequence[Job]) -> Schedule:
        """Return that all may begin, as many at once as the agent allows."""
        needs = [job.needs for job in jobs]
        limit = self.agent.max_concurrency
        return Schedule(needs, fork.control, on_error=self.agent.on_error, at_once=limit)

    def keeps_failure(self, lane: Lane) -> bool:
        """Tell whether failures become messages."""
        return self.agent.on_error == "collect"

    def instead(self, error: str) -> list[BaseMessage]:
        """Return the message that an error becomes."""
        return [AIMessage(f"Failed: {error}")]


class EachNode(ForkNode):
    """Runs the agent's lane for each item; each sees its request, and what those before it said."""

    def jobs(self, fork: Fork) -> list[Job]:
        """Return a job for each item."""
        items = self._items(fork)
        numbers = {name: number for number, name in enumerate(items)}

        def job(item: Item) -> Job:
            needs = tuple(numbers[name] for name in item.depends_on)
            names = dict(zip(needs, item.depends_on, strict=True))

            def sees(results: Results) -> Surroundings:
                said = [f"{name}: {last_text(results[need])}" for need, name in names.items()]
                request = HumanMessage("\n\n".join([item.request, *said]))
                given = with_id(request, f"{fork.address} {item.name}")
                values = {**fork.around.values, **item.values}
                return replace(fork.around, messages=[given], values=values)

            return Job(0, (*fork.cursor, numbers[item.name]), sees, needs)

        return [job(item) for item in items.values()]

    def schedule(self, fork: Fork, jobs: Sequence[Job]) -> Schedule:
        """Return that each begins when those that it needs are done."""
        return Schedule([job.needs for job in jobs], fork.control, in_steps=True)

    def values(self, fork: Fork, results: Results) -> dict[str, Any]:
        """Return the last messages by the names of the items, as the agent's value."""
        key = cast(EachAgent, self.site.place.agent).output_key
        return {
            key: {
                name: last_text(results[n]) for n, name in enumerate(self._items(fork)) if n in results
            }
        }

    def _items(self, fork: Fork) -> dict[str, Item]:
        """Return the items by their names, each behind those that it depends on."""
        agent = cast(EachAgent, self.site.place.agent)
        items = {item.name: item for item in agent.items(fork.around.values)}
        order = in_order({name: item.depends_on for name, item in items.items()})
        return {name: items[name] for name in order}

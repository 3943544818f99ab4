"""Calls the tasks of a node as its `Schedule` says, and waits for what they give."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from functools import cached_property, partial
from typing import Any, TypeVar, cast

from langgraph.config import get_config

from agentgraph.agents.middleware import Mode
from agentgraph.graph.internals import MISSING, SCRATCHPAD
from agentgraph.graph.leaf_tasks import leaf_tasks
from agentgraph.graph.nodes.concurrency import room_in
from agentgraph.graph.nodes.gated_task import GatedTask, Start, TaskCall
from agentgraph.graph.nodes.leaf_pool import LeafPool
from agentgraph.graph.nodes.schedule import Found, Schedule, Steps
from agentgraph.graph.result_saver import result_saver
from agentgraph.graph.saving import saved_results
from agentgraph.graph.spans import in_node
from agentgraph.graph.sync_async import Call

Y = TypeVar("Y")
S = TypeVar("S")


def tasks_call(
    schedule: Schedule,
    start: Callable[[Mode, int, TaskCall], object],
) -> Call:
    """Return the call that runs tasks, and returns their results by number.

    Args:
        schedule: Decides when each may begin.
        start: Calls the task with a number in a mode, by the function that it is given, and returns its
            future.
    """

    def run() -> dict[int, object]:
        return run_tasks(partial(start, "sync"), schedule)

    async def arun() -> dict[int, object]:
        return await arun_tasks(partial(start, "async"), schedule)

    return Call(run, arun)


class _Calls:
    """Calls the tasks of a node, each under its call number, in any order; or finds their results.

    It replaces LangGraph's call counter for this run of the node. LangGraph takes a number for each
    call in the order of the calls, on an event loop a little later: hence the queue.
    """

    def __init__(self, schedule: Schedule, first: int) -> None:
        """Begin before the first call.

        Args:
            schedule: Has the gates of the tasks.
            first: The call number of the first task.
        """
        self._config = config = get_config()
        self._schedule, self._first = schedule, first
        self._numbers: deque[int] = deque()
        self._saved, self._task = saved_results(config)
        if self._saved and schedule.may_be_decided:
            schedule.find_decision(self._saved.values())
        self._saver, self.room = result_saver(config), room_in(config)
        self.places, self.depth = self.room.places, config["configurable"]["checkpoint_ns"].count("|")
        config["configurable"][SCRATCHPAD].call_counter._counter = self._numbers.popleft

    def start(self, number: int, start: Start) -> Any:
        """Call a task, unless its result is saved, and return its future."""
        return start(number, partial(self._call, number))

    @cached_property
    def _pool(self) -> LeafPool | None:
        """Runs leaves without tasks; None where LangGraph must call the tasks."""
        tasks = leaf_tasks(self._config)
        return None if tasks is None else LeafPool(self._schedule, tasks)

    def steps(self) -> Steps:
        """Return the steps of the schedule; while it runs, the node lends its place to the tasks."""
        if self.places is not None:
            self.places.leave()
        return self._schedule.steps(self.room, self.depth)

    def take_back(self) -> None:
        """Take the place of the node again, where an exception ends it."""
        if self.places is not None:
            self.places.take()

    def _call(self, number: int, task: GatedTask, *arguments: object) -> object:
        place = self._first + number
        if (result := self._saved.get(self._task(task.name, place), MISSING)) is not MISSING:
            return Found(result)
        if task.is_leaf and self._schedule.may_pool(number) and self._pool is not None:
            return self._pool.call(number, place, task, arguments)
        self._numbers.append(place)
        entry = (partial(self._schedule.arrive, number), self._saver, arguments)
        if not getattr(self._config.get("callbacks"), "handlers", None):
            return task.call(entry)
        with in_node(self._config):
            return task.call(entry)


def watched(future: asyncio.Future[object]) -> asyncio.Future[object]:
    """Mark a future's exception as retrieved: a cancelled node does not, and asyncio would log it."""
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


def run_tasks(start: Start, schedule: Schedule, first: int = 0) -> dict[int, Any]:
    """Run tasks in threads, and return the results as `Schedule.finished` does.

    Args:
        start: Calls the task with a number.
        schedule: Decides when each may begin.
        first: The call number of the first task in its node.
    """
    calls, future = _Calls(schedule, first), None
    steps = calls.steps()
    try:
        while (step := send_next(steps, future)) is not None:
            if isinstance(step, int):
                future = calls.start(step, start)
            else:
                step.result()
    except BaseException:
        calls.take_back()
        raise
    finally:
        schedule.control.request_drain("the waiting call has ended")
        schedule.close()
    if calls.places is not None:
        calls.places.back(calls.depth)
    return schedule.finished()


async def arun_tasks(start: Start, schedule: Schedule, first: int = 0) -> dict[int, Any]:
    """Run tasks on the event loop, as `run_tasks` does.

    Args:
        start: Calls the task with a number.
        schedule: Decides when each may begin.
        first: The call number of the first task in its node.
    """
    calls, future = _Calls(schedule, first), None
    steps = calls.steps()
    try:
        while (step := send_next(steps, future)) is not None:
            if isinstance(step, int):
                future = calls.start(step, start)
                if isinstance(future, asyncio.Future):
                    await _arrived(watched(future), schedule, step)
            else:
                await asyncio.wrap_future(step)
    except BaseException:
        calls.take_back()
        raise
    finally:
        schedule.close()
    if calls.places is not None:
        await calls.places.aback(calls.depth)
    return schedule.finished()


def send_next(items: Generator[Y, S, None], value: S | None) -> Y | None:
    """Send a value into a generator and return the next item that it yields; None at its end."""
    try:
        return items.send(cast(S, value))
    except StopIteration:
        return None


async def _arrived(future: asyncio.Future[object], schedule: Schedule, number: int) -> None:
    """Wait until a task that is called has a result or waits at its gate, if that is not open."""
    if not (future.done() or schedule.gates[number].done()):
        arrived = asyncio.wrap_future(schedule.arrived[number])
        await asyncio.wait([future, arrived], return_when=asyncio.FIRST_COMPLETED)

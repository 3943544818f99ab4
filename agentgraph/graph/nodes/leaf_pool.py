"""Runs the leaves of one node without a LangGraph task for each.

A task costs more than a small leaf: LangGraph prepares its config in several merges, looks through all
tasks of the node, makes four futures with locks, and passes work to two threads. Here a few workers
take leaves from a queue, and in async runs each leaf is an asyncio task. The result of a leaf is saved
under the id that LangGraph would have assigned to its task (`graph/leaf_tasks.py`), before the next one
begins: a resume finds it, and so does LangGraph if it calls the task after all.

It calls the task after all where a leaf needs one (`NeedsTask`): it asks, or it has begun in a graph in
an earlier run. And there is no pool where a consumer watches the tasks themselves, or has policies for
them.
"""

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from threading import Lock
from time import time_ns
from typing import Any, NamedTuple

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import (
    GraphBubbleUp,
    GraphDrained,
    GraphInterrupt,
    NodeCancelledError,
    ParentCommand,
)
from langgraph.types import Command

from agentgraph.graph.guarded_saver import SaverFailure
from agentgraph.graph.internals import ERROR, RETURN, namespace_around
from agentgraph.graph.leaf_tasks import LeafTask, LeafTasks
from agentgraph.graph.nodes.calling import is_cancelled
from agentgraph.graph.nodes.gated_task import Entry, GatedTask
from agentgraph.graph.nodes.lane import BegunLeaf, NeedsTask
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.result_saver import ResultSaver
from agentgraph.graph.sync_async import Call, arun_calls, run_calls, running_loop


class _Leaf(NamedTuple):
    """A leaf that runs as soon as its gate is open.

    Attributes:
        number: Its number in the schedule.
        place: The call number that its task would have.
        task: The task that would be called.
        arguments: With which arguments.
        future: Receives its result.
    """

    number: int
    place: int
    task: GatedTask
    arguments: tuple[object, ...]
    future: Future[Any]


class LeafPool:
    """Runs leaves of one node."""

    def __init__(self, schedule: Schedule, tasks: LeafTasks) -> None:
        """Begin in the context of the node.

        Args:
            schedule: Has the gates of the leaves.
            tasks: Makes the stand-ins for their tasks.
        """
        self._schedule, self._tasks = schedule, tasks
        self._context = copy_context()
        self._queue: deque[_Leaf] = deque()
        self._lock, self._saving, self._is_coming = Lock(), Lock(), False

    def call(
        self, number: int, place: int, task: GatedTask, arguments: tuple[object, ...]
    ) -> Future[Any]:
        """Have a leaf run once its gate is open, and return the future of its result."""
        leaf = _Leaf(number, place, task, arguments, Future())
        self._schedule.gates[number].add_done_callback(partial(self._begin, leaf))
        return leaf.future

    def _begin(self, leaf: _Leaf, gate: Future[None]) -> None:
        if gate.cancelled():
            leaf.future.set_exception(GraphDrained("it has not begun"))
        elif (why_not := gate.exception()) is not None:
            leaf.future.set_exception(why_not)
        elif (loop := self._tasks.event_loop) is None:
            self._queue.append(leaf)
            self._add_worker()
        elif loop is running_loop():
            self._abegin(leaf)
        else:
            loop.call_soon_threadsafe(self._abegin, leaf)

    def _add_worker(self) -> None:
        """Add a worker for what is in the queue, unless one is on its way: that adds the next one."""
        with self._lock:
            if self._is_coming or not self._queue:
                return
            self._is_coming = True
        try:
            self._context.copy().run(self._tasks.submit, self._work, __reraise_on_exit__=False)
        except RuntimeError:  # the run ends; who works already takes what is left
            self._is_coming = False

    def _work(self) -> None:
        self._is_coming = False
        with suppress(IndexError):
            while True:
                leaf, began = self._queue.popleft(), time_ns() // 1000  # in order in all threads
                self._add_worker()
                self._context.copy().run(self._run, leaf, began)
                del leaf

    def _abegin(self, leaf: _Leaf) -> None:
        how = {"__cancel_on_exit__": True, "__reraise_on_exit__": False, "__next_tick__": True}
        begin = partial(self._tasks.submit, __name__=leaf.task.name, **how)
        running = self._context.copy().run(begin, self._arun, leaf)
        running.add_done_callback(partial(self._left, leaf))

    def _left(self, leaf: _Leaf, running: asyncio.Future[None]) -> None:
        if running.cancelled():
            leaf.future.set_exception(GraphDrained("it is not needed any more"))
        elif (error := running.exception()) is not None:
            leaf.future.set_exception(error)

    def _run(self, leaf: _Leaf, began: int) -> None:
        try:
            run_calls(self._talk(leaf, began))
        except BaseException as error:  # of the saver, where it is not an `Exception`
            leaf.future.set_exception(error)

    async def _arun(self, leaf: _Leaf) -> None:
        await arun_calls(self._talk(leaf, time_ns() // 1000))

    async def _talk(self, leaf: _Leaf, began: int) -> None:
        task = self._tasks.made(leaf.task.name, leaf.place)
        var_child_runnable_config.set(task.config)
        saver = self._tasks.saver
        try:
            result = await self._call_of(leaf, task, began)
            if saver is not None:
                put = partial(self._put, saver)
                await Call(put, saver.aput, (result, task.id, leaf.place))
            self._tasks.stream(task, result)
        except BaseException as error:
            if is_cancelled(error):
                raise
            await self._fail(leaf, task, error)
        else:
            leaf.future.set_result(result)

    def _put(self, saver: ResultSaver, *result: Any) -> None:
        """Save a result, one at a time: else each waits for all those before it (`GuardedSaver`)."""
        with self._saving:
            saver.put(*result)

    def _call_of(self, leaf: _Leaf, task: LeafTask, began: int) -> Call:
        run = leaf.task.run
        if not self._tasks.has_handlers:
            return Call(run, run, (*leaf.arguments, began))
        runnable = leaf.task.runnable
        entry: Entry = (_opened, None, (*leaf.arguments, began))
        awaited = partial(_streamed, runnable, task) if self._tasks.is_streamed else runnable.ainvoke
        return Call(runnable.invoke, awaited, (((entry,), {}), task.config))

    async def _fail(self, leaf: _Leaf, task: LeafTask, error: BaseException) -> None:
        if isinstance(error, NeedsTask | GraphInterrupt):
            begun = error.begun if isinstance(error, NeedsTask) else BegunLeaf()
            self._schedule.call_task(leaf.number, begun)
            return
        if isinstance(error, asyncio.CancelledError):
            error = _raised_by_itself(task, error)
        if isinstance(error, ParentCommand):
            _lead_out(task, error)
        elif isinstance(error, Exception) and not isinstance(error, GraphBubbleUp):
            error.add_note(f"During task with name '{task.name}' and id '{task.id}'")
        saver = self._tasks.saver
        if saver is not None and not isinstance(error, GraphBubbleUp | SaverFailure):
            with suppress(Exception, SaverFailure):  # it ends the run where LangGraph saves next
                await Call(saver.put, saver.aput, (error, task.id, leaf.place, ERROR))
        leaf.future.set_exception(error)


_OPEN: Future[None] = Future()
_OPEN.set_result(None)


def _opened() -> Future[None]:
    return _OPEN


async def _streamed(runnable: Any, task: LeafTask, *arguments: Any) -> Any:
    async for _ in runnable.astream(*arguments):
        pass
    return next(value for channel, value in task.writes if channel == RETURN)


def _raised_by_itself(task: LeafTask, error: BaseException) -> BaseException:
    cancelled = NodeCancelledError(task.name)
    cancelled.__cause__ = error
    return cancelled


def _lead_out(task: LeafTask, error: ParentCommand) -> None:
    command: Command[Any] = error.args[0]
    if command.graph == Command.PARENT:
        around = namespace_around(task.config["configurable"]["checkpoint_ns"])
        error.args = (replace(command, graph=around),)

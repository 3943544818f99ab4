"""The node of a Parallel: runs its branches as LangGraph tasks, and joins their results."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import RunControl

from agentgraph.addresses import Cursor, as_cursor
from agentgraph.agents import ParallelAgent
from agentgraph.nodes.lane import Lane, LaneResult
from agentgraph.nodes.site import Site, Surroundings
from agentgraph.nodes.tasks import SharedControl, arun_tasks, check_threads, named_task, run_tasks
from agentgraph.signals import Signal
from agentgraph.state import LaneState, Update

_INSTEAD = "and bound the branches with parallel(..., max_concurrency={})"


class _Call(NamedTuple):
    """What one activation of the node gives all its lanes."""

    surroundings: Surroundings
    cursor: Cursor
    control: RunControl
    slots: Any


class LanesNode(Runnable[LaneState, Update]):
    """Runs the branches at the same time; each goes as far as it can before the run pauses."""

    def __init__(self, site: Site, lanes: Sequence[Lane]) -> None:
        self.site = site
        self.name = site.place.node
        self.agent = cast(ParallelAgent, site.place.agent)
        self.tasks = [named_task(lane.place.node, self._runner(lane)) for lane in lanes]
        self.atasks = [named_task(lane.place.node, self._arunner(lane)) for lane in lanes]

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the lanes in threads."""
        check_threads(self.site.place.node, config or {}, _INSTEAD)
        limit = self.agent.max_concurrency
        slots = nullcontext() if limit is None else threading.Semaphore(limit)
        call = self._call(input, config or {}, slots)
        return self._update(call, run_tasks([_start(run, call) for run in self.tasks], call.control))

    async def ainvoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the lanes on the event loop."""
        limit = self.agent.max_concurrency
        slots = nullcontext() if limit is None else asyncio.Semaphore(limit)
        call = self._call(input, config or {}, slots)
        results = await arun_tasks([_start(run, call) for run in self.atasks], call.control)
        return self._update(call, results)

    def _call(self, state: LaneState, config: RunnableConfig, slots: Any) -> _Call:
        cursor = as_cursor(self.site.arrived(state.get("position"))["cursor"])
        return _Call(self.site.surroundings(state, config), cursor, SharedControl(), slots)

    def _runner(self, lane: Lane) -> Callable[[_Call], LaneResult]:
        def run(call: _Call) -> LaneResult:
            with call.slots:
                return lane.run(self.site, call.cursor, call.surroundings, call.control)

        return run

    def _arunner(self, lane: Lane) -> Callable[[_Call], Any]:
        async def run(call: _Call) -> LaneResult:
            async with call.slots:
                return await lane.arun(self.site, call.cursor, call.surroundings, call.control)

        return run

    def _update(self, call: _Call, results: Sequence[LaneResult]) -> Update:
        signals = {result["signal"] for result in results}
        signal: Signal | None = (
            "exit" if "exit" in signals else "break_loop" if "break_loop" in signals else None
        )
        messages = [message for result in results for message in result["messages"]]
        values = {key: value for result in results for key, value in result["values"].items()}
        update = Update(
            position=self.site.behind(
                call.cursor, signal, lambda: call.surroundings.with_new(messages, values)
            )
        )
        if messages:
            update["messages"] = messages
        if values:
            update["values"] = values
        return update


def _start(run: Callable[[_Call], Any], call: _Call) -> Callable[[], Any]:
    return lambda: run(call)

"""The node of a Parallel: runs its lanes as LangGraph tasks, and joins their results.

All tasks are called at once and in declared order, for a task is known by its place in the
order of calls: that is how a finished branch keeps its result over a resume or a crash.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext
from typing import Any, NamedTuple, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.func import task
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl, get_runtime
from langgraph.types import Interrupt
from typing_extensions import TypedDict

from agentgraph.agents import ParallelAgent
from agentgraph.errors import AgentGraphError
from agentgraph.failures import join_failures
from agentgraph.nodes.activation import SURROUNDINGS, Site, Surroundings
from agentgraph.places import Place
from agentgraph.position import Cursor, start
from agentgraph.signals import Signal
from agentgraph.state import LaneState, Update

_FEWEST_THREADS = 3


class LaneResult(TypedDict):
    """What a lane hands back: only what is new."""

    messages: list[BaseMessage]
    values: dict[str, Any]
    signal: Signal | None


class Lane(NamedTuple):
    """One branch: its place, and the graph that it was compiled to."""

    place: Place
    graph: CompiledStateGraph[Any, Any, Any, Any]


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
        self.lanes = tuple(lanes)
        self.tasks = [_task(lane, self._runner(lane)) for lane in lanes]
        self.atasks = [_task(lane, self._arunner(lane)) for lane in lanes]

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the lanes in threads."""
        _check_threads(self.site.place.node, config or {})
        limit = self.agent.max_concurrency
        slots = nullcontext() if limit is None else threading.Semaphore(limit)
        call = self._call(input, config or {}, slots)
        futures: list[Future[LaneResult]] = [run(call) for run in self.tasks]
        pending: Collection[Future[LaneResult]] = futures
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                _stop_others(done, call.control)
        finally:
            call.control.request_drain("nobody waits any more")
        return self._joined(call, futures)

    async def ainvoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the lanes on the event loop."""
        limit = self.agent.max_concurrency
        slots = nullcontext() if limit is None else asyncio.Semaphore(limit)
        call = self._call(input, config or {}, slots)
        futures = [cast("asyncio.Future[LaneResult]", run(call)) for run in self.atasks]
        pending: Collection[asyncio.Future[LaneResult]] = futures
        while pending:
            done, pending = await asyncio.wait(pending, return_when=FIRST_COMPLETED)
            _stop_others(done, call.control)
        return self._joined(call, futures)

    def _call(self, state: LaneState, config: RunnableConfig, slots: Any) -> _Call:
        cursor = tuple(self.site.arrived(state.get("position"))["cursor"])
        return _Call(self.site.surroundings(state, config), cursor, _SharedControl(), slots)

    def _runner(self, lane: Lane) -> Callable[[_Call], LaneResult]:
        def run(call: _Call) -> LaneResult:
            with call.slots:
                return _result(lane.graph.invoke(**self._arguments(lane, call)))

        return run

    def _arunner(self, lane: Lane) -> Callable[[_Call], Any]:
        async def run(call: _Call) -> LaneResult:
            async with call.slots:
                return _result(await lane.graph.ainvoke(**self._arguments(lane, call)))

        return run

    def _arguments(self, lane: Lane, call: _Call) -> dict[str, Any]:
        begins = start(self.site.tree, lane.place, call.cursor)
        return {
            "input": {"position": self.site.position(begins)},
            "config": {"configurable": {SURROUNDINGS: call.surroundings}},
            "control": _LaneControl(call.control),
        }

    def _joined(self, call: _Call, futures: Sequence[Any]) -> Update:
        """Return the results in declared order; else raise the first failure, or all questions."""
        raised = [error for future in futures if (error := future.exception()) is not None]
        failed = [error for error in raised if not isinstance(error, GraphBubbleUp)]
        if failed:
            join_failures(failed[0], failed[1:])
            raise failed[0]
        questions: list[Interrupt] = []
        for error in raised:
            if not isinstance(error, GraphInterrupt):
                raise error
            questions.extend(error.args[0])
        if questions:
            raise GraphInterrupt(questions)
        return self._update(call, [future.result() for future in futures])

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


class _SharedControl(RunControl):
    """Stops all lanes of one node; heeds the run's own control too."""

    __slots__ = ("_around",)

    def __init__(self) -> None:
        super().__init__()
        self._around = get_runtime().control

    @property
    def drain_requested(self) -> bool:
        around = self._around
        return super().drain_requested or (around is not None and around.drain_requested)

    @property
    def drain_reason(self) -> str | None:
        return super().drain_reason or (self._around.drain_reason if self._around else None)


class _LaneControl(RunControl):
    """Stops one lane behind a step; one that goes on takes a step first, maybe with an answer.

    LangGraph asks once before each step, and the first step of a new lane is only its input's.
    """

    __slots__ = ("_begun", "_shared")

    def __init__(self, shared: RunControl) -> None:
        super().__init__()
        self._shared, self._begun = shared, False

    @property
    def drain_requested(self) -> bool:
        begun, self._begun = self._begun, True
        return begun and self._shared.drain_requested

    @property
    def drain_reason(self) -> str | None:
        return self._shared.drain_reason


def _task(lane: Lane, run: Callable[[_Call], Any]) -> Callable[[_Call], Any]:
    as_task: Callable[..., Any] = task(name=lane.place.node)
    return cast("Callable[[_Call], Any]", as_task(run))


def _stop_others(done: Collection[Any], control: RunControl) -> None:
    errors = [future.exception() for future in done]
    if any(error is not None and not isinstance(error, GraphBubbleUp) for error in errors):
        control.request_drain("another branch failed")


def _check_threads(node: str, config: RunnableConfig) -> None:
    """Refuse a pool in which the node and the stream leave no thread for a lane: all would wait."""
    threads = config.get("max_concurrency")
    if threads is not None and threads < _FEWEST_THREADS:
        raise AgentGraphError(
            f"max_concurrency={threads} in the config leaves no thread for the branches of {node}; "
            f"leave it out there, and bound them with parallel(..., max_concurrency={threads})"
        )


def _result(state: dict[str, Any]) -> LaneResult:
    return LaneResult(
        messages=state.get("messages", []),
        values=state.get("values", {}),
        signal=state["position"].get("signal"),
    )

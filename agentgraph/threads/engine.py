"""Runs a compiled tree on threads and reads their state; all calls to LangGraph are here."""

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph.state import CompiledStateGraph

from agentgraph.agents.limits import Limits, check_limits
from agentgraph.agents.middleware import Mode
from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent
from agentgraph.graph.guarded_saver import GuardedSaver, saver_error
from agentgraph.graph.internals import SAVER
from agentgraph.graph.nodes.context import LIMITS
from agentgraph.graph.nodes.emitter import EMITTED_BEFORE, Before
from agentgraph.graph.saving import save_fault
from agentgraph.graph.values import Reducers
from agentgraph.threads.beginning import Begin
from agentgraph.threads.checks import check_known, check_types, checked_id
from agentgraph.threads.config import check_config, config_of, context_as, merged
from agentgraph.threads.locks import ThreadLock, is_locked
from agentgraph.threads.nesting import await_outside, call_outside
from agentgraph.threads.pending import Resumption
from agentgraph.threads.replay import continuation
from agentgraph.threads.requests import (
    CloseStream,
    DeleteThread,
    FindSaveFault,
    GetCheckpoint,
    GetNextPart,
    GetState,
    IsRunning,
    ListCheckpoints,
    ListNamespaces,
    ListThreads,
    OfThread,
    PutCheckpoint,
    PutWrite,
    PutWrites,
    Reads,
    Request,
    SaverRequest,
)
from agentgraph.threads.runs import Advance, AsyncRun, Driver, Execution, PartHook, Run
from agentgraph.threads.savers import namespaces_since, saver_fault
from agentgraph.threads.soundness import SENSELESS, check_sound, unfit
from agentgraph.tree.places import Tree

T = TypeVar("T")

_FIRST = ({"source": "input", "step": -1}, {"source": "update", "step": 0})
"""The metadata of the first checkpoint of a thread, or of a lane; also if it began with an edit."""


class RunOptions(NamedTuple):
    """The options of a run.

    Attributes:
        stream: Whether models' replies are streamed in chunks too.
        limits: The limits of the turn; None for those that the graph was compiled with.
        config: LangGraph's config, merged with the engine's.
        context: LangGraph's runtime context; None for the engine's.
        on_part: Called with each part of the stream before it is translated.
        values: The values that the caller passes.
    """

    stream: bool
    limits: Limits | None = None
    config: RunnableConfig | None = None
    context: Any = None
    on_part: PartHook | None = None
    values: Mapping[str, Any] | None = None


class Engine:
    """Runs a compiled tree on threads, and reads their state.

    Attributes:
        tree: The tree.
        graph: The LangGraph graph that it was compiled to.
        saver: The saver that stores the threads.
        reducers: How values are merged, and their types.
        config: The config of all runs.
        context: The runtime context of runs without their own.
    """

    def __init__(
        self,
        tree: Tree,
        graph: CompiledStateGraph[Any, Any, Any, Any],
        saver: BaseCheckpointSaver[Any],
        reducers: Reducers,
        config: RunnableConfig | None = None,
        context: Any = None,
    ) -> None:
        self.tree, self.graph, self.saver, self.reducers = tree, graph, saver, reducers
        self.config, self.context = check_config(config), context_as(graph.context_schema, context)

    def run(self, begin: Begin, thread_id: str, how: RunOptions) -> Run:
        """Check and start a run, and return its events."""
        self.check_sync()
        check_limits(how.limits)
        lock = ThreadLock(self.saver, thread_id)
        try:
            lock.acquire()
            admitted = self._admitted(begin(), thread_id, how, "sync")
            execution = call_outside(self._read, admitted, thread_id)
            advance = partial(call_outside, self._read, execution.generator, thread_id)
            return Run(execution, lock, advance)
        except BaseException:
            lock.release()
            raise

    def arun(self, begin: Begin, thread_id: str, how: RunOptions) -> AsyncRun:
        """Return the events of a run, which is checked and started when it is awaited."""

        async def admit() -> Driver:
            check_limits(how.limits)
            if fault := self.tree.mode_faults["async"]:
                raise AgentGraphError(fault)
            lock = ThreadLock(self.saver, thread_id)
            try:
                await lock.aacquire()
                execution = await self.aread(
                    self._admitted(begin(), thread_id, how, "async"), thread_id
                )
                advance = partial(self._aread, execution.generator, thread_id)
                return Driver(execution, lock, advance)
            except BaseException:
                lock.release()
                raise

        return AsyncRun(admit)

    def _admitted(
        self, reads: Reads[Any], thread_id: str, how: RunOptions, mode: Mode
    ) -> Reads[Execution]:
        """Return the events of a run, after the checks of its start."""
        given = yield from self._making_sense(reads, thread_id)
        resumed = given if isinstance(given, Resumption) else None
        given = resumed.given if resumed else given
        yield from check_types(self.reducers, given)
        yield from check_known(self.tree, self.reducers, how.values)
        on = yield from self._making_sense(continuation(self.tree, thread_id, given), thread_id)
        saver = GuardedSaver(self.saver, thread_id)
        answers = [*resumed.answers.values()] if resumed else []
        execution = Execution(self.tree, saver, thread_id, on, how.on_part, answers)
        stream = self.graph.stream if mode == "sync" else self.graph.astream
        options = self._options(thread_id, how, saver, on.before)
        given = resumed.left if resumed else given
        execution.stream = stream(given, control=execution.control, **options)
        return execution

    def _options(
        self, thread_id: str, how: RunOptions, saver: GuardedSaver, before: Before
    ) -> dict[str, Any]:
        """Return the options of LangGraph's stream: each step is saved before the next one starts.

        Only the stream modes that the tree needs are requested: every mode except "updates" makes
        LangGraph run each step in another thread.
        """
        modes = [
            "updates",
            *["custom"] * (self.tree.speaks_early or self.tree.runs_tasks),
            *["messages"] * how.stream,
            *["tasks"] * (how.on_part is not None),
        ]
        further = {SAVER: saver, EMITTED_BEFORE: before}
        if how.limits is not None:
            further[LIMITS] = how.limits
        context = context_as(self.graph.context_schema, how.context)
        return {
            "config": merged(thread_id, self.config, how.config, further=further),
            "context": self.context if context is None else context,
            "stream_mode": modes,
            "subgraphs": self.tree.runs_tasks,
            "durability": "sync",
            "version": "v2",
        }

    def locked(self, reads: Reads[T], thread_id: str, *others: str) -> T:
        """Answer the requests of a generator while no run can use the thread, or the others."""
        self.check_saver()
        locks = self._locks(thread_id, *others)
        try:
            for lock in locks:
                lock.acquire()
            return call_outside(self._read, self._making_sense(reads, thread_id), thread_id)
        finally:
            for lock in locks:
                lock.release()

    async def alocked(self, reads: Reads[T], thread_id: str, *others: str) -> T:
        """Answer the requests of a generator on the event loop, as `locked` does."""
        self.check_saver("async")
        locks = self._locks(thread_id, *others)
        try:
            for lock in locks:
                await lock.aacquire()
            return await await_outside(self._aread(self._making_sense(reads, thread_id), thread_id))
        finally:
            for lock in locks:
                lock.release()

    def _locks(self, *threads: str) -> list[ThreadLock]:
        return [ThreadLock(self.saver, each) for each in dict.fromkeys(map(checked_id, threads))]

    def check_sync(self, instead: str = "arun and aresume", these: str = "these") -> None:
        """Refuse a saver, an agent or a timeout that needs the async methods."""
        self.check_saver()
        if fault := self.tree.mode_faults["sync"]:
            raise AgentGraphError(fault)
        if self.tree.timed:
            named = ", ".join(place.name for place in self.tree.timed)
            raise AgentGraphError(
                f"{named}: timeout= needs {instead}: a sync call cannot be stopped; use {these}, or "
                "leave it out and set a timeout on the model"
            )

    def check_saver(self, mode: Mode = "sync") -> None:
        """Refuse a saver without the methods of a mode."""
        if fault := saver_fault(self.saver, mode):
            raise AgentGraphError(fault)

    def read(self, reads: Reads[T], thread_id: str) -> T:
        """Answer the requests of a generator, and return its result."""
        self.check_saver()
        return call_outside(self._read, self._making_sense(reads, thread_id), thread_id)

    async def aread(self, reads: Reads[T], thread_id: str) -> T:
        """Answer the requests of a generator on the event loop, and return its result."""
        self.check_saver("async")
        return await await_outside(self._aread(self._making_sense(reads, thread_id), thread_id))

    def _making_sense(self, reads: Reads[T], thread_id: str) -> Reads[T]:
        """Return the result of a generator that reads a thread; it runs no code of users.

        Raises:
            SaverError: Each stored value is sound, but they do not fit together.
        """
        try:
            return (yield from reads)
        except AgentGraphError:
            raise
        except SENSELESS as error:
            raise saver_error(unfit(error), self.saver, thread_id) from error

    def _read(self, reads: Generator[Any, Any, T], thread_id: str, step: Advance | None = None) -> T:
        """Answer the requests of a generator, and return its result, or the next event that it yields.

        Args:
            reads: The generator.
            thread_id: The thread.
            step: Advances the generator; by default it is sent None.

        Raises:
            SaverError: The saver failed.
        """
        step = step or partial(reads.send, None)
        while True:
            try:
                asked = step()
            except StopIteration as end:
                return cast(T, end.value)
            finally:
                del step  # an error in it would hold itself
            if isinstance(asked, AgentEvent):
                return cast(T, asked)
            try:
                step = partial(reads.send, self._answer(asked, thread_id))
            except BaseException as error:
                step = partial(reads.throw, self._named(error, asked, thread_id))

    async def _aread(
        self, reads: Generator[Any, Any, T], thread_id: str, step: Advance | None = None
    ) -> T:
        step = step or partial(reads.send, None)
        while True:
            try:
                asked = step()
            except StopIteration as end:
                return cast(T, end.value)
            finally:
                del step
            if isinstance(asked, AgentEvent):
                return cast(T, asked)
            try:
                step = partial(reads.send, await self._aanswer(asked, thread_id))
            except BaseException as error:
                step = partial(reads.throw, self._named(error, asked, thread_id))

    def _answer(self, asked: Request, thread_id: str) -> Any:
        if isinstance(asked, GetNextPart):  # as most requests are
            return next(asked.stream, None)
        match asked:
            case FindSaveFault(value):
                return save_fault(self.saver.serde, value)
            case ListThreads():
                found = [each for first in _FIRST for each in self.saver.list(None, filter=first)]
                return self._sound(found)
            case OfThread(other, reads):
                return self._read(reads, other)
            case IsRunning():
                return is_locked(self.saver, thread_id)
            case ListNamespaces(since):
                return namespaces_since(self.saver, thread_id, since)
            case ListCheckpoints():
                config = config_of(thread_id, asked.namespace)
                return self._sound([*self.saver.list(config, **_bounds(asked))])
        owner, method, *given = self._call(asked, thread_id)
        return self._checked(asked, getattr(owner, method)(*given))

    async def _aanswer(self, asked: Request, thread_id: str) -> Any:
        if isinstance(asked, GetNextPart):
            return await anext(asked.stream, None)
        match asked:
            case FindSaveFault(value):
                return save_fault(self.saver.serde, value)
            case ListThreads():
                found = [e for first in _FIRST async for e in self.saver.alist(None, filter=first)]
                return self._sound(found)
            case OfThread(other, reads):
                return await self._aread(reads, other)
            case IsRunning():
                return is_locked(self.saver, thread_id)
            case ListNamespaces(since):
                return namespaces_since(self.saver, thread_id, since)
            case ListCheckpoints():
                config = config_of(thread_id, asked.namespace)
                listed = self.saver.alist(config, **_bounds(asked))
                return self._sound([each async for each in listed])
        owner, method, *given = self._call(asked, thread_id)
        return self._checked(asked, await getattr(owner, f"a{method}")(*given))

    def _checked(self, asked: SaverRequest, answer: Any) -> Any:
        """Return the answer to a request; a checkpoint is sound."""
        if isinstance(asked, GetCheckpoint) and answer is not None:
            self._sound([answer])
        return answer

    def _sound(self, every: list[CheckpointTuple]) -> list[CheckpointTuple]:
        """Return checkpoints whose form is sound.

        They are a list: a saver's lock is held until its generator has ended.
        """
        for saved in every:
            check_sound(self.tree, saved)
        return every

    def _call(self, asked: SaverRequest, thread_id: str) -> tuple[Any, ...]:
        """Return what answers a request: an object, the name of its sync method, and the arguments."""
        match asked:
            case GetCheckpoint():
                return self.saver, "get_tuple", config_of(thread_id, *asked)
            case GetState():
                return self.graph, "get_state", config_of(thread_id, *asked)
            case PutCheckpoint(config, saved):
                versions = saved.checkpoint["channel_versions"]
                return self.saver, "put", config, saved.checkpoint, saved.metadata, versions
            case PutWrites():
                return self.saver, "put_writes", *asked
            case DeleteThread():
                return self.saver, "delete_thread", thread_id
            case PutWrite(saved, task_id, channel, value):
                return self.saver, "put_writes", saved.config, [(channel, value)], task_id
            case CloseStream(stream):
                return stream, "close"

    def _named(self, error: BaseException, asked: Request, thread_id: str) -> BaseException:
        """Return the error to raise for one that a request met; the saver's become a `SaverError`."""
        is_ours = isinstance(error, AgentGraphError) or isinstance(asked, GetNextPart | CloseStream)
        if is_ours or not isinstance(error, Exception):
            return error
        named = saver_error(error, self.saver, thread_id)
        named.__cause__ = error
        return named


def _bounds(asked: ListCheckpoints) -> dict[str, Any]:
    """Return the arguments by which a saver lists only some checkpoints."""
    before = asked.before and {"configurable": {"checkpoint_id": asked.before}}
    return {"before": before, "limit": asked.limit}

"""Runs a compiled tree on threads and reads their state, sync and async."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from agentgraph.agents.limits import Limits, check_limits
from agentgraph.agents.middleware import Mode
from agentgraph.errors import AgentGraphError
from agentgraph.graph.deadlines import DEADLINES
from agentgraph.graph.graph_classes import RootGraph
from agentgraph.graph.guarded_saver import GuardedSaver, Order
from agentgraph.graph.internals import SAVER
from agentgraph.graph.nodes.emitter import EMITTED_BEFORE
from agentgraph.graph.nodes.spending import LIMITS, Counts
from agentgraph.graph.open_types import Graph, Saver
from agentgraph.graph.outside import await_outside, call_outside
from agentgraph.graph.sync_async import Calls, arun_calls, run_calls
from agentgraph.graph.values import Reducers
from agentgraph.journal.answers import Resumption, names_of, resumption
from agentgraph.journal.continuation import Continuation, continuation
from agentgraph.journal.locks import ThreadLock, holding
from agentgraph.journal.pending import pending_at
from agentgraph.journal.saved import Saved
from agentgraph.journal.savers.known import Fitness
from agentgraph.journal.savers.opening import saver_fault
from agentgraph.journal.soundness import P, Reads, T, check_sound, checked_read
from agentgraph.journal.spent import counts_at
from agentgraph.journal.thread_config import checked_id
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.turn_records import put_turn
from agentgraph.safe_repr import nearest, shown
from agentgraph.threads.begin import Advance, Begin, NewTurn, Resume
from agentgraph.threads.config import check_config, context_as, merged
from agentgraph.threads.live.active_run import ActiveRun
from agentgraph.threads.live.following import AsyncFollow, Follow, Following, check_follow, followed
from agentgraph.threads.live.run_answers import keep_requested
from agentgraph.threads.live.watcher import start_watching, watch
from agentgraph.threads.next_begin import check_new, next_begin
from agentgraph.threads.rewinds.kept_states import put_missing_states
from agentgraph.threads.rewinds.rewinding import RewindArguments, TurnStart, commit, new_line
from agentgraph.threads.runs import AsyncRun, Driver, Execution, PartHook, ResumePaused, Run
from agentgraph.threads.turns import new_turn
from agentgraph.tree.places import Tree
from agentgraph.tree.prices import cost_fault
from agentgraph.tree.run_paths import RunPaths
from agentgraph.tree.validation import value_names

Former = Callable[[ThreadSaver], "Calls[Engine | None]"]
"""Returns the engine for a thread that knows agents under other names; None for other threads."""


class RunOptions(NamedTuple):
    """The options of a run.

    Attributes:
        stream: Whether models' replies are streamed in chunks too.
        limits: The limits of the turn; None for those that the graph was compiled with.
        config: LangGraph's config, merged with the engine's.
        context: LangGraph's runtime context; None for the engine's.
        on_part: Called with each part of the stream before it is translated.
        values: The values that the caller passes.
        later: Answers to questions that the run asks, by address.
        before: Takes the counted spending of the turn before the run, if that is exact; None if the
            caller needs none.
    """

    stream: bool
    limits: Limits | None = None
    config: RunnableConfig | None = None
    context: object = None
    on_part: PartHook | None = None
    values: Mapping[str, object] | None = None
    later: Mapping[str, object] | None = None
    before: list[Counts] | None = None


class Engine:
    """Runs a compiled tree on threads, and reads their state.

    Attributes:
        tree: The tree.
        graph: The LangGraph graph that it was compiled to.
        saver: The saver that stores the threads.
        reducers: How values are merged, and their types.
        config: The config of all runs.
        context: The runtime context of runs without their own.
        former: Gives the engine for a thread that knows agents under other names; None if none does.
        fitness: The missing abilities of the saver, and the check of one that is not known.
    """

    def __init__(
        self,
        tree: Tree,
        graph: Graph,
        saver: Saver,
        reducers: Reducers,
        config: RunnableConfig | None = None,
        context: object = None,
        former: "Former | None" = None,
        fitness: Fitness | None = None,
    ) -> None:
        self.fitness = fitness or Fitness()
        self.tree, self.graph, self.saver, self.reducers = tree, graph, saver, reducers
        self.former = former
        self.config = {} if config is None else check_config(config)
        self.context = context_as(graph.context_schema, context)
        self._paths = RunPaths(tree)
        self._saver_faults = {mode: saver_fault(saver, mode) for mode in tree.mode_faults}

    def run(self, begin: Begin, thread_id: str, how: RunOptions) -> Run:
        """Check and start a run, and return its events; it begins a turn, resumes one, or goes back."""
        self.check_sync()
        thread, active_run = self.thread(thread_id), ActiveRun(start_watching)
        lock = ThreadLock(self.saver, thread_id, active_run, _advice(begin, thread_id))
        active_run.released = lock.released
        try:
            lock.acquire()
            execution = call_outside(run_calls, self._execution(thread, begin, how, active_run, "sync"))
            watch(self.saver)
            advance = partial(call_outside, run_calls, execution.generator)
            return Run(execution, lock, advance)
        except BaseException:
            lock.release()
            raise

    def arun(self, begin: Begin, thread_id: str, how: RunOptions) -> AsyncRun:
        """Return the events of a run, which is checked and started when it is awaited."""
        return AsyncRun(thread_id, partial(self.adriver, begin, thread_id, how))

    async def adriver(self, begin: Begin, thread_id: str, how: RunOptions) -> Driver:
        """Check and start a run on the event loop."""
        self.check_async()
        thread, active_run = self.thread(thread_id), ActiveRun(start_watching)
        active_run.loop = asyncio.get_running_loop()
        lock = ThreadLock(self.saver, thread_id, active_run, _advice(begin, thread_id))
        active_run.released = lock.released
        try:
            await lock.aacquire()
            self.check_saver("async")
            execution_of = partial(self._execution, thread, begin, how, active_run, "async")
            execution = await await_outside(lambda: arun_calls(execution_of()))
            watch(self.saver)
            advance = partial(arun_calls, execution.generator)
            return Driver(execution, lock, advance)
        except BaseException:
            try:
                await lock.arelease()
            finally:
                lock.release()
            raise

    def follow(self, thread_id: str, after: str | None) -> Follow:
        """Return the events of a thread after a cursor, and those to come."""
        self.check_saver()
        following = call_outside(run_calls, self._followed(self.thread(thread_id), after))
        return Follow(thread_id, following)

    def afollow(self, thread_id: str, after: str | None) -> AsyncRun:
        """Return the events of a thread, as `follow` does; errors are raised when it is awaited."""

        async def start() -> AsyncFollow:
            self.check_saver("async")
            followed = partial(self._followed, self.thread(thread_id), after)
            return AsyncFollow(await await_outside(lambda: arun_calls(followed())))

        return AsyncRun(thread_id, start)

    async def _followed(self, thread: ThreadSaver, after: str | None) -> Following:
        _, thread = await self.for_thread(thread)
        await checked_read(check_follow, thread, after)
        return followed(thread, after)

    async def _execution(
        self, thread: ThreadSaver, begin: Begin, how: RunOptions, active_run: ActiveRun, mode: Mode
    ) -> Execution:
        engine, thread = await self.for_thread(thread)
        if engine is not self:
            return await engine._execution(thread, begin, how, active_run, mode)
        if isinstance(begin, Advance):
            await checked_read(keep_requested, thread)
            needed = await checked_read(next_begin, thread, begin)
            if needed is None:
                return Execution(thread, self._guarded(thread), how.on_part, active_run)
            begin = needed
        if (named := cast(RootGraph, self.graph).named).unmade:
            await named.make()  # before anything of a run is read or saved
        is_turn, own = isinstance(begin, NewTurn), getattr(begin, "request", None)
        await checked_read(active_run.read_requests, thread, begins_turn=is_turn, own=own)
        if isinstance(begin, RewindArguments | TurnStart):
            return await self._rewinding(thread, begin, how, active_run, mode)
        head = await checked_read(ThreadSaver.checkpoint, thread)  # no other code writes: it is locked
        graph_input: object
        if isinstance(begin, NewTurn):
            waiting, given = active_run.waiting, begin[:3]
            turn_input = await checked_read(new_turn, thread, head, *given, waiting)
            if begin.record is not None:
                check_new(thread, begin.record, turn_input["messages"])
            graph_input = turn_input
        else:
            graph_input = await checked_read(resumption, thread, head, *begin)
            await self._count_before(thread, head, how)
        resumed = graph_input if isinstance(graph_input, Resumption) else None
        graph_input = resumed.command if resumed else graph_input
        if self.reducers.fields:
            await _check_types(thread, self.reducers, graph_input)
            await _check_known(thread, self.reducers, how.values)
        on = await checked_read(continuation, thread, head, graph_input)
        if on.rewound is not None:
            await checked_read(put_missing_states, thread, on.rewound)
        saver = self._guarded(thread)
        origin = "new input" if is_turn else "answers" if resumed and resumed.answers else "a resume"
        execution = Execution(thread, saver, how.on_part, active_run, origin=origin)
        graph_input = resumed.rest if resumed else graph_input
        stream = self._stream(execution, graph_input, on, how, saver, mode)
        execution.begin(stream, on, resumed)
        if isinstance(begin, NewTurn) and begin.record is not None:
            await checked_read(put_turn, thread, begin.record)
        if how.later:
            execution.resume_paused = self._answer_later(thread, dict(how.later), how, saver, mode)
        return execution

    async def _rewinding(
        self,
        thread: ThreadSaver,
        back: RewindArguments | TurnStart,
        how: RunOptions,
        active_run: ActiveRun,
        mode: Mode,
    ) -> Execution:
        """Return the events of a run that goes back, after the checks of its start.

        The thread is not changed before its first event is asked for.
        """
        if self.reducers.fields and back.values:
            await _check_types(thread, self.reducers, {"values": back.values})
            await _check_known(thread, self.reducers, back.values)
        prepared = await checked_read(new_line, thread, back)
        saver = self._guarded(thread)
        self._options(thread.thread_id, how, saver, Continuation())  # rejected before any write

        async def enter(execution: Execution) -> None:
            await commit(thread, prepared.copies, prepared.states)
            head = await thread.checkpoint()
            await self._count_before(thread, head, how)
            on = await checked_read(continuation, thread, head, None)
            execution.begin(self._stream(execution, None, on, how, saver, mode), on)

        origin = f"a rewind to {shown(back.at)}"
        execution = Execution(thread, saver, how.on_part, active_run, enter, origin)
        execution.resume_paused = self._answer_later(thread, dict(prepared.later), how, saver, mode)
        return execution

    def _answer_later(
        self,
        thread: ThreadSaver,
        later: dict[str, object],
        how: RunOptions,
        saver: GuardedSaver,
        mode: Mode,
    ) -> ResumePaused:
        async def resume_paused(execution: Execution) -> bool:
            head = await thread.checkpoint() if later else None
            questions = [] if head is None else await checked_read(pending_at, thread, head)
            names = {name for each in questions for name in names_of(each)}
            answers = {key: later.pop(key) for key in [*later] if key in names}
            if not answers:
                return False
            resumed: Any = await checked_read(resumption, thread, head, answers, None)
            on = await checked_read(continuation, thread, head, resumed.command)
            stream = self._stream(execution, resumed.rest, on, how, saver, mode)
            execution.begin(stream, on, resumed)
            return True

        return resume_paused

    async def _count_before(self, thread: ThreadSaver, head: Saved | None, how: RunOptions) -> None:
        graph = cast(RootGraph, self.graph)
        if how.before is not None and (self.tree.has_decision_models or graph.prices is not None):
            how.before.append(await checked_read(counts_at, thread, head))

    def _guarded(self, thread: ThreadSaver) -> GuardedSaver:
        order = Order() if self.tree.runs_tasks else None
        return GuardedSaver(self.saver, thread.thread_id, order=order, trial=self.fitness.trial)

    def _stream(
        self,
        execution: Execution,
        graph_input: object,
        on: Continuation,
        how: RunOptions,
        saver: GuardedSaver,
        mode: Mode,
    ) -> object:
        stream = self.graph.stream if mode == "sync" else self.graph.astream
        options = self._options(execution.thread_id, how, saver, on)
        execution.metadata = options["config"].get("metadata") or {}
        execution.has_threads = len(options["stream_mode"]) > 1 or options["subgraphs"]
        execution.run_id = options["config"].get("run_id")
        return stream(graph_input, control=execution.control, **options)

    def _options(
        self,
        thread_id: str,
        how: RunOptions,
        saver: GuardedSaver,
        on: Continuation,
    ) -> dict[str, Any]:
        """Return the options of LangGraph's stream: each step is saved before the next one starts.

        Only the stream modes that the tree needs are requested: every mode except "updates" makes
        LangGraph run each step in another thread.
        """
        modes = [
            "updates",
            *["custom"] * (how.stream or self.tree.emits_early or self.tree.runs_tasks),
            *["messages"] * how.stream,
            *["tasks"] * (how.on_part is not None),
        ]
        further = {SAVER: saver, EMITTED_BEFORE: on.before, DEADLINES: on.deadlines}
        if how.limits is not None:
            further[LIMITS] = self._checked_limits(how.limits)
        context, schema = how.context, self.graph.context_schema
        return {
            "config": merged(thread_id, self.config, how.config, further),
            "context": self.context if context is None else context_as(schema, context),
            "stream_mode": modes,
            "subgraphs": self.tree.runs_tasks,
            "durability": "sync",
            "version": "v2",
        }

    def _checked_limits(self, limits: Limits) -> Limits:
        checked = check_limits(limits)
        if checked.cost is not None and cast(RootGraph, self.graph).prices is None:
            raise AgentGraphError(cost_fault(self.tree, checked))
        return checked

    async def locked(self, thread: ThreadSaver, reads: Callable[..., Calls[T]], *others: str) -> T:
        """Read or write a thread while no run can use it, or the others, which `reads` takes too."""
        ids = dict.fromkeys(map(checked_id, (thread.thread_id, *others)))
        return await holding(self.saver, ids, reads(thread, *others))

    def check_sync(self, instead: str = "arun and aresume", these: str = "these") -> None:
        """Refuse a saver, an agent or a timeout that needs the async methods."""
        graph = cast(RootGraph, self.graph)
        if fault := self._saver_faults["sync"] or self.tree.mode_faults["sync"] or graph.prices_fault:
            raise AgentGraphError(fault)
        if self.tree.timed:
            named = ", ".join(place.name for place in self.tree.timed)
            raise AgentGraphError(
                f"{named}: timeout= needs {instead}: a sync call cannot be stopped; use {these}, or "
                "leave it out and set a timeout on the model"
            )

    def check_async(self) -> None:
        """Refuse an agent that needs the sync methods."""
        if fault := self.tree.mode_faults["async"]:
            raise AgentGraphError(fault)

    def check_saver(self, mode: Mode = "sync") -> None:
        """Refuse a saver without the methods of a mode."""
        if fault := self._saver_faults[mode]:
            raise AgentGraphError(fault)

    def read(self, reads: Reads[P, T], thread_id: str, *args: P.args, **more: P.kwargs) -> T:
        """Read or write a thread, and return the result of the function that does it."""
        self.check_saver()
        thread = self.thread(thread_id)
        return call_outside(run_calls, self._reading(reads, thread, *args, **more))

    async def aread(self, reads: Reads[P, T], thread_id: str, *args: P.args, **more: P.kwargs) -> T:
        """Read or write a thread on the event loop, as `read` does."""
        self.check_saver("async")
        thread = self.thread(thread_id)
        reading = partial(self._reading, reads, thread, *args, **more)
        return await await_outside(lambda: arun_calls(reading()))

    async def _reading(
        self, reads: Reads[P, T], thread: ThreadSaver, *args: P.args, **more: P.kwargs
    ) -> T:
        """Return the result of a function that reads a thread, with the tree's names that it knows."""
        _, thread = await self.for_thread(thread)
        return await checked_read(reads, thread, *args, **more)

    async def for_thread(self, thread: ThreadSaver) -> "tuple[Engine, ThreadSaver]":
        """Return the engine for a thread, by the names that it has for agents; and the thread in it."""
        former = None
        if self.former is not None and thread.thread_id:
            former = await self.former(thread)
        if former is None:
            return self, thread
        return former, former.thread(thread.thread_id, thread.saver)

    def thread(self, thread_id: str, saver: Saver | None = None) -> ThreadSaver:
        """Return a thread, in the engine's saver or another one."""
        check = partial(check_sound, self.tree)
        own = self.tree, self.graph, saver or self.saver, check, thread_id, self._paths
        return ThreadSaver(*own, missing=self.fitness.missing)


def _advice(begin: Begin, thread_id: str) -> str:
    """Return the advice for a caller whose run finds another one on the thread."""
    if not isinstance(begin, Resume):
        return ""
    return f"call answer({shown(thread_id)}, ...) to answer its questions, "


async def _check_types(saver: ThreadSaver, reducers: Reducers, graph_input: object) -> None:
    """Refuse input with values that do not fit their declared types, after their reducers.

    Args:
        saver: The thread.
        reducers: How values are merged, and their types.
        graph_input: The input of a graph: a state, a command, or None.

    Raises:
        AgentGraphError: A value does not fit.
        ReducerError: A reducer failed.
    """
    update = graph_input.update if isinstance(graph_input, Command) else graph_input
    values = update.get("values") if isinstance(update, Mapping) else None
    if values:
        present = (await saver.state()).values.get("values", {})
        reducers.merged(present, values)


async def _check_known(
    saver: ThreadSaver, reducers: Reducers, values: Mapping[str, object] | None
) -> None:
    """Refuse a value whose name is a typo of one that a declared schema makes known.

    That is a name that nothing knows, close to one that is known: to the schema, the agents, or the
    thread, where lanes may have written values that conflict.

    Raises:
        AgentGraphError: There is such a name.
    """
    if not values or values.keys() <= reducers.fields.keys():
        return
    state = await saver.state()
    known = {*reducers.fields, *value_names(saver.tree), *state.values.get("values", {})}
    typos = {name: near for name in values.keys() - known if (near := nearest(str(name), known))}
    if not typos:
        return
    written = {name for saved in await saver.checkpoints() for name in _written_in(saved)}
    for name in (name for name in values if name in typos.keys() - written):
        raise AgentGraphError(
            f"values: no schema, agent or thread knows {shown(name)}; did you mean {typos[name]!r}? "
            f"Write that, or declare {shown(name)} in the schema"
        )


def _written_in(saved: Saved) -> Iterator[str]:
    """Yield the names of the values that a lane had written, or a lane that ended in the step after."""
    for state in (saved.checkpoint["channel_values"], *saved.results.values()):
        writes = state.get("values")
        for write in writes if isinstance(writes, list) else ():
            yield from write["values"]

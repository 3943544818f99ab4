"""Makes the calls of `ctx.run`: each runs an agent in a lane, by a LangGraph task."""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import replace
from typing import Any, NamedTuple, cast

from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphDrained, GraphInterrupt
from langgraph.func import task

from agentgraph.agents.agents import HistoryPolicy
from agentgraph.agents.entries import Reply
from agentgraph.agents.kinds import output_keys
from agentgraph.errors import AgentGraphError
from agentgraph.graph.copied_values import own, own_list
from agentgraph.graph.failures import as_data, from_data, is_fatal, mark_failure
from agentgraph.graph.guarded_saver import saver_failure
from agentgraph.graph.history import REQUEST
from agentgraph.graph.internals import SCRATCHPAD
from agentgraph.graph.message_changes import with_id
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.concurrency import CallPlaces, Places, room_in
from agentgraph.graph.nodes.context import ActivationContext, RunState
from agentgraph.graph.nodes.lane import Lane, LaneCall, LaneResult, last_text, value_of, without_running
from agentgraph.graph.nodes.parked_calls import ParkedCalls
from agentgraph.graph.nodes.parking import Parked, check_parked, park
from agentgraph.graph.nodes.saved_calls import CallResult, SavedCalls, UnendedCall, number_of
from agentgraph.graph.nodes.schedule import AnyFuture
from agentgraph.graph.nodes.stopping import Stop, inner_stop, wait_for_lane
from agentgraph.graph.nodes.task_calls import watched
from agentgraph.graph.read_back import cannot_be_encoded
from agentgraph.graph.result_saver import save_result
from agentgraph.graph.spans import of_task
from agentgraph.graph.stamps import now
from agentgraph.graph.sync_async import Call, Calls, arun_calls, run_calls
from agentgraph.graph.task_results import TAG
from agentgraph.graph.values import Write
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import Cursor, address, entered, key_counter

_GRACE_SECONDS = 0.05
"""How many seconds later than saved results a call fails again that the function has given up."""


class CallPaused(BaseException):
    """Raised in a function where an agent that it runs waits: no `except Exception` catches it."""


class CallFailed(GraphBubbleUp):
    """Carries the failure of a call: LangGraph saves no error for it.

    Attributes:
        error: The failure.
        is_final: Whether it ends the run whatever the function catches.
    """

    def __init__(self, error: BaseException, *, is_final: bool = False) -> None:
        super().__init__()
        self.error, self.is_final = error, is_final


class CalledLane(NamedTuple):
    """The lane of an agent that a function runs, and the tasks that run it."""

    lane: Lane
    task: Callable[..., Any]
    atask: Callable[..., Any]


def called_lane(lane: Lane) -> CalledLane:
    """Return a lane with its tasks."""

    def run(ran: Callable[..., Calls[CallResult]], *arguments: object) -> CallResult:
        return run_calls(ran(*arguments))

    async def arun(ran: Callable[..., Calls[CallResult]], *arguments: object) -> CallResult:
        return await arun_calls(ran(*arguments))

    as_task: Callable[..., Any] = task(name=lane.place.node)
    return CalledLane(lane, as_task(run), as_task(arun))


class RunCall:
    """One call of an agent by the function.

    Attributes:
        lane: The lane of the agent.
        call: The identity of the call: its number, or its key as a counter.
        made: Number of calls that the function had made before.
        after: The earlier calls whose outcomes the function had, as in `Position`.
        request: The request to the agent.
        control: Stops the lane.
        future: Done when the lane has ended or is parked; None before the call begins.
        coroutine: The coroutine that the function awaits, if there is one.
        began: When it began, in microseconds.
        see: The state that the agent sees; None before it begins.
        resumed: The questions after which it has continued in this run.
        failure: How it failed, once that is known.
        result: Its result, once that is known.
        is_reported: Whether its failure is an event already.
        is_delivered: Whether the function has its outcome.
        is_abandoned: Whether the function awaits it no more, now or before a resume.
        is_left: Whether it was stopped because the function failed, so that it runs again.
        is_late: Whether it failed after another call had paused, so that the function has not seen it.
    """

    def __init__(self, lane: Lane, call: int | str, made: int, request: str, control: Stop) -> None:
        self.lane, self.call, self.request, self.control = lane, call, request, control
        self.made, self.after = made, list[int]()
        self.future: Any = None
        self.coroutine: Coroutine[object, object, Reply] | None = None
        self.began, self.see, self.resumed = 0, cast(RunState | None, None), set[str]()
        self.failure: Exception | None = None
        self.result: CallResult | None = None
        self.is_reported = self.is_delivered = self.is_late = False
        self.is_abandoned = self.is_left = False

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self.lane.place.name

    @property
    def questions(self) -> set[str] | None:
        """The questions for whose answers it waits; None if it is not parked."""
        error = None if self.future.cancelled() else self.future.exception()
        if not isinstance(error, Parked):
            return None
        return {each.id for each in error.questions} - self.resumed

    def unended(self, **more: object) -> UnendedCall:
        """Return the saved form of a call while it has no result."""
        own = {"agentgraph": "unended", "call": self.call, "agent": self.agent, "request": self.request}
        abandoned = {"given_up": True} if self.is_abandoned else {}
        return cast(UnendedCall, {**own, **abandoned, "saved": now(), **more})


class RunCalls:
    """The calls of one activation.

    Attributes:
        activation: The activation.
        saved: The saved forms of the calls.
        calls: The calls in the order in which the function makes them, by number or key.
        pauses: The pauses of those that wait for answers.
        stops: The other scopes that have stopped calls.
    """

    def __init__(
        self,
        activation: Activation,
        lanes: Mapping[str, CalledLane],
        *,
        is_async: bool,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Begin before the first call.

        Args:
            activation: The activation.
            lanes: The lanes of the agents, by their names.
            is_async: Whether the function awaits its calls.
            loop: The event loop of an async run.
        """
        self.activation = activation
        self._lanes, self._is_async, self._loop = lanes, is_async, loop
        self._context, self._lock = copy_context(), threading.RLock()
        self._numbers: deque[int] = deque()
        config = get_config()
        if getattr(callbacks := config.get("callbacks"), "handlers", None):
            own: RunnableConfig = {**config, "callbacks": of_task(callbacks)}
            self._context.run(var_child_runnable_config.set, own)
        config["configurable"][SCRATCHPAD].call_counter._counter = self._numbers.popleft
        self.saved = SavedCalls(activation, (each.lane.place.node for each in lanes.values()))
        self.calls: dict[object, RunCall] = {}
        self.pauses: list[GraphInterrupt] = []
        self.stops: list[BaseException] = []
        self._control = inner_stop()
        room, depth = room_in(config), config["configurable"]["checkpoint_ns"].count("|")
        self._places = CallPlaces(room.places or Places(room.at_once), depth)
        self._next, self._is_closed, self._is_pausing = 0, False, False
        self._parked = ParkedCalls(self._control, self._has_ended)
        self._folded: list[Write] = []
        self._order: deque[RunCall | list[Write]] = deque()

    def context(self, history: HistoryPolicy) -> ActivationContext:
        """Return the context for the function."""
        context = self.activation.view.context(history)
        context.runs = self
        return context

    def run(self, name: str, request: str, key: str | int | None) -> Reply | Awaitable[Reply]:
        """Run an agent; in a coroutine what is returned is awaited."""
        each = self._new(name, request, key)
        if self._is_async:
            each.coroutine = self._awaited(each)
            return each.coroutine
        if self._loop is None:
            self._run_in_thread(each)
        else:  # a sync function of an async run, in a thread
            asyncio.run_coroutine_threadsafe(self._run_call(each), self._loop).result()
        return self._outcome(each)

    def _new(self, name: str, request: str, key: str | int | None) -> RunCall:
        where = self.activation.address
        if not isinstance(name, str) or name not in self._lanes:
            names = ", ".join(map(repr, self._lanes))
            raise AgentGraphError(
                f"{where}: ctx.run({shown(name)}): agents= declares only {names}; pass a name of these"
            )
        if not isinstance(request, str):
            raise AgentGraphError(
                f"{where}: ctx.run({name!r}): the request {shown(request)} is not a text; pass one, "
                f"as in ctx.run({name!r}, 'Find bees.')"
            )
        if key is not None and (isinstance(key, bool) or not isinstance(key, str | int) or key == ""):
            raise AgentGraphError(
                f"{where}: ctx.run({name!r}): key={shown(key)} is neither a text nor a whole number"
            )
        if cannot_be_encoded(request):
            raise AgentGraphError(
                f"{where}: ctx.run({name!r}): the request {shown(request)} has a lone surrogate, which "
                "is not a character; remove it"
            )
        if isinstance(key, str) and cannot_be_encoded(key):
            raise AgentGraphError(
                f"{where}: ctx.run({name!r}): key={shown(key)} has a lone surrogate, which is not a "
                "character"
            )
        with self._lock:
            if self._is_closed:
                raise AgentGraphError(
                    f"{where}: ctx.run({name!r}) was called after the function had ended"
                )
            self._check_active()
            call: int | str = self._next if key is None else key_counter(key)
            self._next += key is None
            if call in self.calls:
                raise AgentGraphError(
                    f"{where}: ctx.run({name!r}): the key {shown(key)} is used twice, by the request "
                    f"{shown(self.calls[call].request)} too; give each call its own key (addresses "
                    "show the first 40 characters)"
                )
            made, control = len(self.calls), Stop(self._control)
            each = RunCall(self._lanes[name].lane, call, made, str(request), control)
            if (before := self.saved.before(call)) is not None:
                self._check_same(each, before["agent"], before["request"])
            self.calls[call] = each
            self._order += [self._written_since(), each]
            return each

    def _has_ended(self) -> bool:
        return bool(self.pauses or self.stops or self._is_pausing or self._is_closed)

    def _check_active(self) -> None:
        if self.pauses or self.stops or self._is_pausing:
            raise CallPaused("the run pauses, and the function with it")

    def _check_same(self, each: RunCall, agent: str, request: str) -> None:
        if (agent, request) != (each.agent, each.request):
            raise AgentGraphError(
                f"{self.activation.address}: its call {shown(each.call)} was "
                f"ctx.run({agent!r}, {shown(request)}) before the resume, and is "
                f"ctx.run({each.agent!r}, {shown(each.request)}) now; a function must make the same "
                "calls in the same order each time: take time and chance out of it, or give each call "
                "a key="
            )

    async def _awaited(self, each: RunCall) -> Reply:
        if self._loop is None or self._loop is asyncio.get_running_loop():
            await self._run_call(each)
        else:  # in a thread with its own event loop
            there = asyncio.run_coroutine_threadsafe(self._run_call(each), self._loop)
            await asyncio.wrap_future(there)
        return self._outcome(each)

    def _run_in_thread(self, each: RunCall) -> None:
        """Run a call until it has ended, or pauses the function."""
        with self._parked.running():
            gate: Future[None] | None = self._places.enter()
            while gate is not None:
                gate.result()
                self._begin_in(gate, each)
                wait([each.future])
                gate = run_calls(self._next_gate(each))

    async def _run_call(self, each: RunCall) -> None:
        """Run a call until it has ended, or pauses the function; one that is left is stopped."""
        with self._parked.running():
            gate: Future[None] | None = self._places.enter()
            while gate is not None:
                await self._run_in_place(gate, each)
                try:
                    gate = await arun_calls(self._next_gate(each))
                except asyncio.CancelledError:
                    if self._is_closed:
                        raise
                    self._pause()
                    return

    async def _run_in_place(self, gate: Future[None], each: RunCall) -> None:
        """Wait for a place, and until the lane has ended or is parked."""
        try:
            await asyncio.wrap_future(gate)
        except asyncio.CancelledError:
            if not gate.cancel():
                self._places.leave(gate)
            self._abandon(each)
            each.failure = self._abandoned_error(each) if each.is_abandoned else None
            raise
        self._begin_in(gate, each)
        future = each.future
        if isinstance(future, Future):  # an async function of a sync run
            future = watched(asyncio.wrap_future(future))
        try:
            if each.is_abandoned:
                await asyncio.sleep(
                    _GRACE_SECONDS
                )  # a caller that cancelled it sees the outcomes of others first again
            await asyncio.wait([future])
        except asyncio.CancelledError:
            self._abandon(each)
            raise

    async def _next_gate(self, each: RunCall) -> Future[None] | None:
        """Return the gate of a call that asks, after an answer; None if it has ended, or pauses."""
        if (questions := each.questions) is None:
            return None
        if answered := await self._parked.answered(questions):
            each.resumed |= answered
            return self._places.enter()
        self._pause()
        return None

    def _pause(self) -> None:
        self._is_pausing = True
        self._parked.look_again()

    def _abandon(self, each: RunCall, *, has_failed: bool = False) -> None:
        """Stop a call that the function awaits no more, unless the whole run stops or pauses.

        Args:
            each: The call.
            has_failed: Whether the function has failed, and will make the call again.
        """
        if not (self.pauses or self._is_pausing or self._control.drain_requested or each.is_left):
            each.is_abandoned, each.is_left = not has_failed, has_failed
            stop = each.control.stop if has_failed else each.control.throw_away
            stop("it is not awaited")

    def _begin_in(self, gate: Future[None], each: RunCall) -> None:
        """Begin a call that has a place, and give that back when its lane has ended."""
        try:
            self._check_active()
            self._begin(each)
        except BaseException:
            self._places.leave(gate)
            raise
        each.future.add_done_callback(lambda _: self._places.leave(gate))

    def _begin(self, each: RunCall) -> None:
        before = self.saved.before(each.call)
        if each.see is not None:
            self._start(each, each.see)
        elif before is not None and before[TAG] == "call":
            each.future = self._done(before)
        elif before is not None and "failed" in before and not before.get("again"):
            each.future = self._done(CallFailed(from_data(before["failed"])))
            each.is_reported, each.is_abandoned = "position" in before, before.get("given_up", False)
        else:
            with self._lock:
                each.began, each.see = now(), self._sees(each)
                self._start(each, each.see)

    def _start(self, each: RunCall, see: RunState) -> None:
        """Call the task of a call, unless the function has ended meanwhile."""
        called = self._lanes[each.agent]
        start = called.task if self._loop is None else called.atask
        with self._lock:
            if self._is_closed:
                raise CallPaused("the function has ended")
            self._numbers.append(number_of(each.call))
            each.future = self._context.copy().run(start, self._run_lane, each, see)
            if isinstance(each.future, asyncio.Future):
                watched(each.future)

    def _done(self, outcome: object) -> AnyFuture:
        future: AnyFuture = Future() if self._loop is None else self._loop.create_future()
        future.set_result(outcome)
        return future

    # values

    def writes(self) -> list[Write]:
        """Return the writes of the function and of its finished calls, in the order of the calls.

        The order in which calls end is by chance, and another one after a resume.
        """
        reducers = self.activation.node_context.reducers
        while self._order and (writes := _written(self._order[0])) is not None:
            self._folded = reducers.collected(self._folded, writes)
            self._order.popleft()
        rest = [writes for each in self._order if (writes := _written(each)) is not None]
        return reducers.folded(self._folded, [*rest, self.activation.output.writes])

    def _written_since(self) -> list[Write]:
        output = self.activation.output
        written, output.writes = output.writes, []
        return written

    # in the task

    async def _run_lane(self, each: RunCall, see: RunState) -> CallResult:
        """Run the lane of a call, and return its result.

        Raises:
            CallFailed: It failed.
            Parked: It waits for an answer.
        """
        if (desk := each.control.desk) is not None and desk.parked:
            check_parked(each.control)
        if (request := await self.saved.in_flight()) is not None:
            self._check_same(each, each.agent, request)
        place, cursor = each.lane.place, self.cursor(each)
        around = self.activation.node_config
        call = LaneCall(
            self.activation.node_context,
            cursor,
            lambda: see,
            each.control,
            request=each.request,
            after=each.after,
            around=around,
            again=bool(each.resumed),
        )
        try:
            result, error = await Call(Lane.attempt, _aattempt, (each.lane, call))
        except GraphInterrupt as paused:
            await self.saved.save(each.unended())
            await park(paused.args[0], around, each.control)
        if error is None:
            return await self._ended(each, result)
        at = address(place, entered(place, cursor))
        marked = cast(Exception, mark_failure(error, at, place.name))
        is_final = is_fatal(marked) or saver_failure(self.activation.node_config, marked) is not None
        if not is_final:
            await self.saved.save(each.unended(failed=as_data(marked)))
        raise CallFailed(marked, is_final=is_final)

    def cursor(self, each: RunCall) -> Cursor:
        """Return the counters around the lane of a call."""
        return (*self.activation.cursor, each.call)

    def _sees(self, each: RunCall) -> RunState:
        """Return the state that the agent sees: its request, and the values as they are now."""
        request = request_to(self.activation.address, each.call, each.request)
        seen, writes = self.activation.view.seen, self.writes()
        open_ = [one for one in self._order if isinstance(one, RunCall)]  # itself is one of them
        each.after = [open_[0].made, *(one.made for one in open_ if one.is_delivered)]
        return replace(seen.with_new((), writes) if writes else seen, messages=[request])

    async def _ended(self, each: RunCall, result: LaneResult) -> CallResult:
        place, reducers = each.lane.place, self.activation.node_context.reducers
        came = CallResult(
            agentgraph="call",
            messages=[],
            values=reducers.shared_writes(result["values"]),
            number=number_of(each.call),
            call=each.call,
            made=each.made,
            agent=each.agent,
            request=each.request,
            text=last_text(result),
            said=[each for each in result["messages"] if not isinstance(each, RemoveMessage)],
            data=value_of(result, reducers, frozenset(output_keys(place.agent))),
            began=each.began,
            ended=now(),
        )
        if "answered" in result:
            came["answered"] = result["answered"]
        await save_result(came, self.activation.node_config)
        return came

    # outcomes

    def _outcome(self, each: RunCall) -> Reply:
        with self._lock:
            each.is_delivered = True
            self.note(each)
            if self._has_ended():
                self._parked.look_again()
            if each.failure is not None:
                raise each.failure
            self._check_active()
            return self._reply(cast(CallResult, each.result))

    def note(self, each: RunCall) -> None:
        """Note how a call has ended."""
        future = each.future
        outcome = asyncio.CancelledError() if future.cancelled() else future.exception()
        outcome = outcome or future.result()
        match outcome:
            case CallFailed(is_final=False, error=Exception() as error):
                each.failure, each.is_late = error, bool(self.pauses)
            case CallFailed(error=error):
                self.stops.append(error)
            case Parked():
                self.pauses.append(GraphInterrupt(outcome.questions))
            case GraphDrained() | asyncio.CancelledError() if each.is_left:
                pass
            case GraphDrained() | asyncio.CancelledError() if each.is_abandoned:
                each.failure = self._abandoned_error(each)
            case BaseException():
                self.stops.append(outcome)
            case _:
                each.result = self._typed(each, outcome)

    def _typed(self, each: RunCall, result: CallResult) -> CallResult:
        """Return a result, which may come from a saver, with the declared types of its values."""
        reducers = self.activation.node_context.reducers
        if not reducers.fields:
            return result
        written = without_running()
        written["values"] = reducers.loaded(result["values"])
        names = frozenset(output_keys(each.lane.place.agent))
        data = value_of(written, reducers, names, result["data"])
        return {**result, "values": written["values"], "data": data}

    def _abandoned_error(self, each: RunCall) -> Exception:
        place = each.lane.place
        at = address(place, entered(place, self.cursor(each)))
        error = TimeoutError("the function does not await it any more")
        return cast(Exception, mark_failure(error, at, place.name))

    def _reply(self, result: CallResult) -> Reply:
        values = self.activation.view.state.reducers.applied({}, result["values"])
        data = result["data"]
        if "answered" in result:
            from agentgraph.graph.chat.output import restored_at

            data = restored_at(self.activation.node_context.tree, **result["answered"])
        return Reply(
            result["text"], data=own(data), values=own(values), messages=own_list(result["said"])
        )

    def close(self, error: BaseException | None) -> None:
        """Note that the function has ended; calls that it left are stopped, unless the run pauses."""
        has_failed = isinstance(error, Exception)
        with self._lock:
            self._is_closed = True
            self._is_pausing |= isinstance(error, CallPaused | GraphBubbleUp)
        self._parked.look_again()
        for each in self.running():
            self._abandon(each, has_failed=has_failed)

    def cut_off(self) -> None:
        """Stop the calls that run, also where the run pauses; they run again on a resume."""
        for each in self.running():
            each.is_left = True
            each.control.stop("the function was cancelled")

    def running(self) -> list[RunCall]:
        """Return the calls that have begun and not ended."""
        return [each for each in self.calls.values() if each.future and not each.future.done()]


def request_to(caller: str, call: int | str, request: str) -> HumanMessage:
    """Return the message that an agent sees that a function runs.

    Args:
        caller: The address of the function.
        call: The identity of the call.
        request: Its request.
    """
    message = HumanMessage(request, additional_kwargs={REQUEST: True})
    return with_id(message, f"{caller} {call}")


async def _aattempt(lane: Lane, call: LaneCall) -> tuple[LaneResult, Exception | None]:
    wait_for_lane()
    return await lane.aattempt(call)


def _written(each: RunCall | Sequence[Write]) -> Sequence[Write] | None:
    """Return the writes of the function or of a call; None if the function has not its outcome."""
    if not isinstance(each, RunCall):
        return each
    if each.result is not None and each.is_delivered:
        return each.result["values"]
    return () if each.is_delivered else None

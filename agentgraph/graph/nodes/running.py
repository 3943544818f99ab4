"""The node of a function that runs agents: `ctx.run` runs each call in a lane of its own.

The problem: the function is plain Python, and begins anew on each resume. So each call must be found
again, a question inside must pause the function wherever it stands and whatever it catches, and nothing
that ended may run again.

The rule:

- Each call is a LangGraph task. It is known by its key, else by its number among the calls without one;
  its saved result has the agent and the request, so that a function that asks something else on a
  resume is found out.
- A call that pauses raises `CallPaused` in the function, which is no `Exception`. From then on all
  calls of the activation pause at once. However the function ends then, the node waits for the calls
  under way and pauses with all their questions.
- A call that fails raises its exception in the function, and the failure is saved. If the function ends
  by it, the call runs again on a resume, from its failed step. If not, the function has caught it: then
  it is an error event, and a resume raises it again without running the agent.
- Results are saved with the checkpoint of the step. An `Ask` begins a new one, so the position carries
  what the calls before it gave.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from inspect import CORO_CREATED, getcoroutinestate
from operator import itemgetter
from typing import Any, NotRequired, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.func import task
from langgraph.runtime import get_runtime
from typing_extensions import TypedDict

from agentgraph.agents.agents import output_keys
from agentgraph.agents.context import Reply
from agentgraph.agents.signals import Capabilities
from agentgraph.errors import AgentGraphError, InvalidOutputError
from agentgraph.graph.failures import as_data, each_once, from_data, is_fatal, mark_failure
from agentgraph.graph.guarded_saver import saver_failure
from agentgraph.graph.history import REQUEST
from agentgraph.graph.internals import MISSING, RESUMING, RETURN, SCRATCHPAD
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import NodeContext, RunState
from agentgraph.graph.nodes.function import FunctionCall, FunctionNode
from agentgraph.graph.nodes.lane import Lane, LaneCall, LaneResult, last_text, value_of
from agentgraph.graph.nodes.schedule import check_threads, watched
from agentgraph.graph.nodes.stopping import Stop, run_coroutine, run_in_thread, wait_for_lane
from agentgraph.graph.saving import save_result, saved_results, saver_of, step_config
from agentgraph.graph.state import Position, with_id
from agentgraph.graph.sync_async import Call, Calls, arun_calls, run_calls
from agentgraph.graph.values import Write
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import Cursor, address, entered, is_in_call, key_counter
from agentgraph.tree.places import Place, Tree

_KEYED = 2**40
"""Call numbers of LangGraph from here on are made of keys."""


class CallPaused(BaseException):
    """Raised in a function where an agent that it runs waits: no `except Exception` catches it."""


class CallResult(TypedDict):
    """The saved result of a call; a task's result whose `messages` join no history."""

    messages: list[BaseMessage]
    """None."""
    values: list[Write]
    number: int
    call: int | str
    agent: str
    request: str
    text: str
    said: list[BaseMessage]
    """What the lane said."""
    data: object
    """The value of the agent's last `output_key`, or its structured answer as plain data."""
    answered: NotRequired[list[Any]]
    """The structured answer: the address of who gave it, and the answer."""
    began: int
    ended: int


class Record(TypedDict):
    """What is saved of a call that paused or failed, under an id that no task has."""

    call: int | str
    agent: str
    request: str
    failed: NotRequired[Mapping[str, object]]
    """The failure, as data."""
    saved: int
    """When, in nanoseconds: of several the last one counts."""
    again: NotRequired[bool]
    """Whether the function ended by the failure, so that the call runs again."""
    position: NotRequired[Position]
    """The notes of the failure."""


class _Failed(GraphBubbleUp):
    """Carries the failure of a call, which the function may handle: LangGraph saves no error for it."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class _Run:
    """One call of an agent by the function."""

    def __init__(self, lane: Lane, call: int | str, request: str, control: Stop) -> None:
        self.lane, self.call, self.request, self.number = lane, call, request, _number(call)
        self.future: Any = None
        self.control = control
        self.failure: Exception | None = None
        self.is_reported = self.is_delivered = False
        self.result: CallResult | None = None
        self.coroutine: Coroutine[Any, Any, Reply] | None = None

    @property
    def agent(self) -> str:
        return self.lane.place.name

    def record(self, **more: Any) -> Record:
        return cast(
            Record,
            {
                "call": self.call,
                "agent": self.agent,
                "request": self.request,
                "saved": time.time_ns(),
                **more,
            },
        )


class RunningNode(FunctionNode):
    """Calls a function that runs agents."""

    runs_lanes = True

    def __init__(
        self, node_context: NodeContext, capabilities: Capabilities, lanes: Sequence[Lane]
    ) -> None:
        super().__init__(node_context, capabilities)
        self.lanes = {lane.place.name: lane for lane in lanes}
        self.tasks = {lane.place.name: (_task(lane), _atask(lane)) for lane in lanes}

    def run(self, activation: Activation) -> None:
        """Call the function, and wait for the agents that it runs."""
        check_threads(self.node_context.place.node, activation.node_config, "or make it more than {}")
        runs = Runs(self, activation)
        run_calls(runs.read())
        call, error = FunctionCall(self, activation, runs.context()), None
        try:
            rest = call.start()
            if rest is not None:
                run_coroutine(call.finish(rest))
        except BaseException as raised:
            error = raised
        runs.close(error)
        wait([each.future for each in runs.under_way()])
        run_calls(runs.end(error))
        call.end()

    async def arun(self, activation: Activation) -> None:
        """Call the function on the event loop or in a thread, and wait for the agents that it runs."""
        runs = Runs(self, activation, asyncio.get_running_loop())
        await arun_calls(runs.read())
        call, error = FunctionCall(self, activation, runs.context()), None
        try:
            rest = call.start() if self.is_async else await run_in_thread(call.start)
            if rest is not None:
                await call.finish(rest)
        except BaseException as raised:
            error = raised
        runs.close(error)
        if running := [each.future for each in runs.under_way()]:
            await asyncio.wait(running)
        await arun_calls(runs.end(error))
        call.end()


def _task(lane: Lane) -> Callable[..., Any]:
    def run(runs: "Runs", each: _Run, see: RunState) -> CallResult:
        began = time.time_ns()
        try:
            ended = lane.attempt(runs.lane_call(each, see))
        except GraphInterrupt:
            run_calls(runs.save(each.record()))
            raise
        return run_calls(runs.ended(each, began, *ended))

    as_task: Callable[..., Any] = task(name=lane.place.node)
    return cast(Callable[..., Any], as_task(run))


def _atask(lane: Lane) -> Callable[..., Any]:
    async def run(runs: "Runs", each: _Run, see: RunState) -> CallResult:
        began = time.time_ns()
        wait_for_lane()
        try:
            ended = await lane.aattempt(runs.lane_call(each, see))
        except GraphInterrupt:
            await arun_calls(runs.save(each.record()))
            raise
        return await arun_calls(runs.ended(each, began, *ended))

    as_task: Callable[..., Any] = task(name=lane.place.node)
    return cast(Callable[..., Any], as_task(run))


class Runs:
    """The calls of one activation, in the order in which the function makes them."""

    def __init__(
        self,
        node: RunningNode,
        activation: Activation,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Begin before the first call.

        Args:
            node: The node.
            activation: The activation.
            loop: The event loop of an async run.
        """
        self._node, self._activation, self._loop = node, activation, loop
        self._context, self._lock = copy_context(), threading.RLock()
        self._numbers: deque[int] = deque()
        config = get_config()
        config["configurable"][SCRATCHPAD].call_counter._counter = self._numbers.popleft
        self._saved = saved_results(config)
        carried = activation.view.position.get("calls") or ()
        self._carried: dict[object, Mapping[str, Any]] = {each["call"]: each for each in carried}
        self._records: dict[object, Record] = {}
        self._runs: dict[object, _Run] = {}
        self._control = get_runtime().control
        self._next, self._is_closed = 0, False
        self._pauses: list[GraphInterrupt] = []
        self._stops: list[BaseException] = []

    def context(self) -> Any:
        """Return the context for the function."""
        context: Any = self._activation.view.context(self._node.agent.history)
        context.runs = self
        return context

    def read(self) -> Calls[None]:
        """Read what is saved of the calls of this step, if it is resumed."""
        yield from self._activation.read_lanes()
        config = self._activation.config
        if not config["configurable"].get(RESUMING) or (saver := saver_of(config)) is None:
            return
        saved = yield Call(saver.get_tuple, saver.aget_tuple, (step_config(config),))
        results = [
            value
            for _, channel, value in (saved.pending_writes if saved else None) or ()
            if channel == RETURN and isinstance(value, Mapping) and value.keys() >= _RECORDED
        ]
        for record in sorted(results, key=itemgetter("saved")):
            self._records[record["call"]] = cast(Record, record)

    # the calls

    def run(self, name: str, request: str, key: str | int | None) -> Any:
        """Run an agent; in a coroutine what is returned is awaited."""
        each = self._new(name, request, key)
        if self._node.is_async:
            each.coroutine = self._awaited(each)
            return each.coroutine
        if self._loop is None:
            self._begin(each)
            wait([each.future])
        else:  # a sync function of an async run, in a thread
            asyncio.run_coroutine_threadsafe(self._settled(each), self._loop).result()
        return self._outcome(each)

    def _new(self, name: str, request: str, key: str | int | None) -> _Run:
        where = self._activation.address
        if name not in self._node.lanes:
            names = ", ".join(map(repr, self._node.lanes))
            raise AgentGraphError(f"{where}: ctx.run({shown(name)}): agents= declares only {names}")
        if not isinstance(request, str):
            raise AgentGraphError(
                f"{where}: ctx.run({name!r}): the request {shown(request)} is not a text"
            )
        if key is not None and (isinstance(key, bool) or not isinstance(key, str | int) or key == ""):
            raise AgentGraphError(
                f"{where}: ctx.run({name!r}): key={shown(key)} is neither a text nor a whole number"
            )
        with self._lock:
            if self._is_closed:
                raise AgentGraphError(
                    f"{where}: ctx.run({name!r}) was called after the function had ended"
                )
            self._check_goes_on()
            call: int | str = self._next if key is None else key_counter(key)
            self._next += key is None
            if call in self._runs:
                raise AgentGraphError(
                    f"{where}: ctx.run({name!r}): the key {shown(key)} is used twice, by the request "
                    f"{shown(self._runs[call].request)} too; give each call its own key (addresses "
                    "show the first 40 characters)"
                )
            each = _Run(self._node.lanes[name], call, str(request), Stop(self._control))
            self._check_same(each)
            self._runs[call] = each
            return each

    def _check_goes_on(self) -> None:
        if self._pauses or self._stops:
            raise CallPaused("the run pauses, and the function with it")

    def _check_same(self, each: _Run) -> None:
        before = self._before(each)
        if before is None or (before["agent"], before["request"]) == (each.agent, each.request):
            return
        raise AgentGraphError(
            f"{self._activation.address}: its call {shown(each.call)} was "
            f"ctx.run({before['agent']!r}, {shown(before['request'])}) before the resume, and is "
            f"ctx.run({each.agent!r}, {shown(each.request)}) now; a function must make the same calls "
            "in the same order each time: take time and chance out of it, or give each call a key="
        )

    def _before(self, each: _Run) -> Mapping[str, Any] | None:
        """Return what is saved of a call."""
        if (carried := self._carried.get(each.call)) is not None:
            return carried
        for lane in self._node.lanes.values():
            if (result := self._saved(lane.place.node, each.number)) is not MISSING:
                return cast(Mapping[str, Any], result)
        return cast(Mapping[str, Any] | None, self._records.get(each.call))

    async def _awaited(self, each: _Run) -> Reply:
        await self._settled(each)
        return self._outcome(each)

    async def _settled(self, each: _Run) -> None:
        """Begin a call and wait until it has ended; one that nobody awaits any more is stopped."""
        self._check_goes_on()
        self._begin(each)
        future = each.future
        if isinstance(future, Future):  # an async function of a sync run
            future = watched(asyncio.wrap_future(future))
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            if not self._pauses:
                each.control.stop("nobody awaits it")
            raise

    def _begin(self, each: _Run) -> None:
        before = self._before(each)
        if before is not None and "text" in before:
            each.future = self._done(before)
        elif before is not None and "failed" in before and not before.get("again"):
            each.future = self._done(_Failed(from_data(before["failed"])))
            each.is_reported = "position" in before
        else:
            start = self._node.tasks[each.agent][self._loop is not None]
            with self._lock:
                self._numbers.append(each.number)
                see = self._sees(each)
                each.future = self._context.copy().run(start, self, each, see)
                if isinstance(each.future, asyncio.Future):
                    watched(each.future)

    def _done(self, outcome: object) -> Any:
        future: Any = Future() if self._loop is None else self._loop.create_future()
        future.set_result(outcome)
        return future

    def _sees(self, each: _Run) -> RunState:
        """Return what the agent sees: its request, and the values as they are now."""
        activation = self._activation
        message = HumanMessage(each.request, additional_kwargs={REQUEST: True})
        request = with_id(message, f"{activation.address} {each.call}")
        seen, writes = activation.view.state, activation.output.writes
        return replace(seen.with_new((), writes) if writes else seen, messages=[request])

    def lane_call(self, each: _Run, see: RunState) -> LaneCall:
        """Return the call of the lane."""
        return LaneCall(self._node.node_context, self._cursor(each), lambda: see, each.control)

    def _cursor(self, each: _Run) -> Cursor:
        return (*self._activation.cursor, each.call)

    def ended(
        self, each: _Run, began: int, result: LaneResult, error: Exception | None
    ) -> Calls[CallResult]:
        """Return the result of a call.

        Raises:
            _Failed: It failed.
        """
        place = each.lane.place
        if error is not None:
            at = address(place, entered(place, self._cursor(each)))
            marked = cast(Exception, mark_failure(error, at, place.name))
            if is_fatal(marked) or saver_failure(self._activation.node_config, marked) is not None:
                raise _Fatal(marked)
            yield from self.save(each.record(failed=as_data(marked)))
            raise _Failed(marked)
        came = CallResult(
            messages=[],
            values=self._node.node_context.reducers.handed_back(result["values"]),
            number=each.number,
            call=each.call,
            agent=each.agent,
            request=each.request,
            text=last_text(result),
            said=[each for each in result["messages"] if not isinstance(each, RemoveMessage)],
            data=value_of(result, frozenset(output_keys(place.agent))),
            began=began,
            ended=time.time_ns(),
        )
        if "answered" in result:
            came["answered"] = result["answered"]
        yield from save_result(came, self._activation.node_config)
        return came

    def save(self, record: Record) -> Calls[None]:
        """Save what became of a call, beside the results of tasks."""
        config = self._activation.config
        if (saver := saver_of(config)) is not None:
            arguments = (step_config(config), [(RETURN, dict(record))], str(uuid4()))
            yield Call(saver.put_writes, saver.aput_writes, arguments)

    def _outcome(self, each: _Run) -> Reply:
        """Return the reply of a call that has ended, or raise its failure."""
        with self._lock:
            each.is_delivered = True
            self._note(each)
            if each.failure is not None:
                raise each.failure
            self._check_goes_on()
            result = cast(CallResult, each.result)
            if each.call not in self._carried:
                self._activation.output.write(result["values"])
            return self._reply(result)

    def _note(self, each: _Run) -> None:
        """Note how a call has ended."""
        future = each.future
        error = None if future.cancelled() else future.exception()
        if future.cancelled():
            self._stops.append(asyncio.CancelledError())
        elif isinstance(error, GraphInterrupt):
            self._pauses.append(error)
        elif isinstance(error, _Failed):
            each.failure = error.error
        elif error is not None:
            self._stops.append(error.error if isinstance(error, _Fatal) else error)
        elif isinstance(outcome := future.result(), _Failed):
            each.failure = outcome.error
        else:
            each.result = outcome

    def _reply(self, result: CallResult) -> Reply:
        values = self._activation.view.state.reducers.applied({}, result["values"])
        data = result["data"]
        if "answered" in result:
            from agentgraph.graph.chat.output import restored, wanted_at

            at, answer = result["answered"]
            data = restored(wanted_at(self._node.node_context.tree, at), answer)
        return Reply(result["text"], data=data, values=values, messages=result["said"])

    # how the function ends

    def close(self, error: BaseException | None) -> None:
        """Note that the function has ended; if it failed and nothing pauses, stop what still runs."""
        with self._lock:
            self._is_closed = True
        if error is not None and not isinstance(error, CallPaused | GraphBubbleUp) and not self._pauses:
            for each in self.under_way():
                each.control.stop("the function failed")

    def under_way(self) -> list[_Run]:
        """Return the calls that have begun and not ended."""
        return [each for each in self._runs.values() if each.future and not each.future.done()]

    def end(self, error: BaseException | None) -> Calls[None]:
        """End the calls, after all of them have ended.

        Raises:
            GraphInterrupt: Some wait for answers.
            BaseException: What ended the function.
        """
        forgotten = self._forgotten()
        for each in self._runs.values():
            if each.future is not None and not each.is_delivered:
                self._note(each)
        if fatal := [each for each in self._stops if not isinstance(each, GraphBubbleUp)]:
            raise fatal[0]
        pauses = [*self._pauses, *([error] if isinstance(error, GraphInterrupt) else [])]
        failed = [each for each in self._runs.values() if each.failure is not None]
        if pauses:
            yield from self._report(failed)
            raise GraphInterrupt(each_once(asked for paused in pauses for asked in paused.args[0]))
        if self._stops:
            raise self._stops[0]
        if error is not None:
            causes = [*_causes(error)]
            for each in failed:
                if any(each.failure is cause for cause in causes):
                    yield from self.save(each.record(again=True))
            raise error
        if forgotten:
            raise InvalidOutputError(
                f"{self._activation.address}: the function ended before its call {forgotten[0]}; "
                "await each ctx.run(...)"
            )
        yield from self._report(failed)
        self._check_conflicts()
        self._carry()

    def _forgotten(self) -> list[str]:
        """Return the calls that the function did not await."""
        forgotten = []
        for each in self._runs.values():
            waiting = each.coroutine is not None and getcoroutinestate(each.coroutine) == CORO_CREATED
            if waiting and each.coroutine is not None:
                each.coroutine.close()
            if waiting or (each.coroutine and each.future is not None and not each.is_delivered):
                forgotten.append(f"ctx.run({each.agent!r}, {shown(each.request)}) was awaited")
        return forgotten

    def _report(self, failed: Sequence[_Run]) -> Calls[None]:
        """Emit the failures that the function has caught, once; void the questions in their lanes."""
        for each in failed:
            if each.is_reported or each.failure is None:
                continue
            emitter = self._activation.output.new_emitter(is_concurrent=True)
            tree, place, cursor = self._node.node_context.tree, each.lane.place, self._cursor(each)
            emitter.void_questions(partial(_is_in, tree, place, cursor))
            emitter.add_errors(each.failure)
            at = self._activation.address
            position = Position(next=None, cursor=[], tree="", at=at, told=emitter.end())
            yield from self.save(each.record(failed=as_data(each.failure), position=position))
            each.is_reported = True

    def _check_conflicts(self) -> None:
        """Check that calls side by side wrote no different values; a settled one is written last."""
        results = {
            each.number: each.result
            for each in self._runs.values()
            if each.result is not None and each.call not in self._carried
        }

        def beside(one: int, other: int) -> bool:
            a, b = results[one], results[other]
            return a["began"] < b["ended"] and b["began"] < a["ended"]

        written = {number: result["values"] for number, result in results.items()}
        names = {each.number: f"call {each.call}" for each in self._runs.values()}
        where = self._activation.address
        joined = self._activation.view.state.joined(where, written, beside, names.__getitem__)
        count = sum(map(len, written.values()))
        self._activation.output.write(joined[count:])

    def _carry(self) -> None:
        """Have the position carry the results over a question of the function."""
        kept: dict[object, Mapping[str, Any]] = dict(self._carried)
        for each in self._runs.values():
            if each.result is not None:
                kept[each.call] = each.result
            elif each.failure is not None:
                kept[each.call] = each.record(failed=as_data(each.failure), position={})
        self._activation.carry_calls([*kept.values()])


def _is_in(tree: Tree, place: Place, cursor: Cursor, at: str) -> bool:
    return is_in_call(tree, at, place, cursor)


class _Fatal(GraphBubbleUp):
    """Carries a failure that ends the run whatever the function catches."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


_RECORDED = {"call", "agent", "request", "saved"}


def _number(call: int | str) -> int:
    """Return the number of LangGraph's task for a call."""
    if isinstance(call, int):
        return call
    return _KEYED + int.from_bytes(blake2b(call.encode(), digest_size=7).digest())


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and those that it was raised for."""
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        each = queue.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            queue += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]

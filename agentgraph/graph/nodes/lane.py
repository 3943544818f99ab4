"""A lane inside another lane (a branch, a step, an agent as a tool), and the attempts of one.

Middleware may run a tool call again, and with it the lane of an agent. The outcome of each attempt that
another one followed is saved as a pending write of the checkpoint from which the call runs, as
LangGraph saves the writes of tasks, but under an id that is not a task's, so LangGraph ignores it.
"""

import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Literal, NamedTuple, NotRequired

from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from typing_extensions import TypedDict

from agentgraph.agents.signals import Signal
from agentgraph.graph.agent_records import RecordChanges
from agentgraph.graph.failures import ErrorData, clear_limit_mark, each_once
from agentgraph.graph.internals import RESUME_MAP, RESUMING, RUNTIME, SCRATCHPAD, overwrite_in
from agentgraph.graph.lane_position import (
    GivenAnswer,
    Position,
    SignalDetails,
    add_details,
    answer_in,
)
from agentgraph.graph.nodes.context import PARENT_STATE, NodeContext, RunState
from agentgraph.graph.nodes.emitter import without_writer
from agentgraph.graph.nodes.stopping import LaneStop, Stop
from agentgraph.graph.open_types import Graph
from agentgraph.graph.spans import Spans, in_lane
from agentgraph.graph.state import Update
from agentgraph.graph.values import Reducers, Write, is_deletion
from agentgraph.tree.addresses import Cursor
from agentgraph.tree.places import Place


class LaneResult(SignalDetails):
    """The result of a lane: only what is new."""

    agentgraph: Literal["lane"]
    messages: list[BaseMessage]
    values: list[Write]
    """Its writes, in order."""
    signal: Signal | None
    began: NotRequired[int]
    """When its task began, the last time that it did, in microseconds."""
    finished: NotRequired[int]
    """Its finish time in microseconds, after the finish times of all lanes that it needed."""
    stays: NotRequired[list[int]]
    """Where its signal cancels: the numbers of the lanes whose results were saved before."""
    accepted: NotRequired[bool]
    """Whether its reply was accepted, where the agent has an `accept`."""
    failed: NotRequired[str]
    """How it failed, if its failure is a result."""
    position: NotRequired[Position]
    """The notes about the failure."""
    number: NotRequired[int]
    """The number of the lane in its parallel node."""
    needs: NotRequired[list[int]]
    """The numbers of the lanes that it needed, in its parallel node."""
    middleware: NotRequired[RecordChanges]
    """The changes of middleware records in it."""
    answered: NotRequired[GivenAnswer]
    """The structured answer with which it ended."""
    text: NotRequired[str]
    """Its result, if that is not its last message."""
    skipped: NotRequired[bool]
    """Whether it was a step that did not run, by its `when`."""
    stopped: NotRequired[bool]
    """Whether it was a step that did not end, or not start, because another one failed permanently."""


def without_running(why: Literal["skipped", "stopped"] | None = None) -> LaneResult:
    """Return the result of a lane that hands nothing back."""
    result = LaneResult(agentgraph="lane", messages=[], values=[], signal=None)
    if why:
        result[why] = True
    return result


Way = Literal["graph", "task", "pool"]


class BegunLeaf(NamedTuple):
    """A leaf that has run without its graph, and continues there.

    Attributes:
        returned: The result of the leaf; None if it is to run in its graph.
        spans: Its open spans, if there are any.
    """

    returned: Update | None = None
    spans: Spans | None = None


class NeedsTask(GraphBubbleUp):
    """Raised by a leaf that runs without a task, and must continue in its graph, in a task."""

    def __init__(self, begun: BegunLeaf = BegunLeaf()) -> None:  # noqa: B008
        super().__init__("it needs a task")
        self.begun = begun


class LaneCall(NamedTuple):
    """One run of a lane.

    Attributes:
        node_context: The place of the node that runs it.
        cursor: The counters that enclose the lane's place.
        see: Returns the state visible to it.
        control: Stops it.
        namespace: Its checkpoint namespace; None for that of the task that runs it.
        request: The request of a function to it, saved with its first position.
        after: The calls whose outcomes the function had, as in `Position`; saved with it.
        way: Where it runs, if it is one leaf: in its graph, in the task that would run that, or without
            a task (`leaf_pool.py`).
        around: LangGraph's config of the node that runs it.
        again: Whether it continues in the same run, after an answer.
        spans: Its open spans, if it was begun without its graph.
    """

    node_context: NodeContext
    cursor: Cursor
    see: Callable[[], RunState]
    control: Stop
    namespace: str | None = None
    request: str | None = None
    after: Sequence[int] | None = None
    way: Way = "task"
    around: RunnableConfig | None = None
    again: bool = False
    spans: Spans | None = None


def continued(call: LaneCall, begun: BegunLeaf) -> LaneCall:
    """Return the run of a lane in its graph, after its leaf has run without it."""
    see = call.see
    seeing = lambda: replace(see(), returned=begun.returned)  # noqa: E731
    return call._replace(way="graph", spans=begun.spans, see=seeing)


class Lane(NamedTuple):
    """A lane: its first place and its compiled graph."""

    place: Place
    graph: Graph

    def attempt(self, call: LaneCall) -> tuple[LaneResult, Exception | None]:
        """Run it, and return its result until it ended or failed, and the failure if it did.

        The visible state is computed here, so that a failure to do so is one of the lane.
        """
        state: dict[str, object] = {}
        try:
            arguments = self._arguments(call)
            with self._spanned(call), _asking_once():
                for now in self.graph.stream(**arguments, stream_mode="values"):
                    state = now
        except GraphBubbleUp:
            raise
        except Exception as error:
            clear_limit_mark(error, call.node_context.place.name)
            return result_of(state), error
        return result_of(state), None

    async def aattempt(self, call: LaneCall) -> tuple[LaneResult, Exception | None]:
        """Run it on the event loop, as `attempt` does in threads."""
        state: dict[str, object] = {}
        try:
            arguments = self._arguments(call)
            with self._spanned(call), _asking_once():
                async for now in self.graph.astream(**arguments, stream_mode="values"):
                    state = now
        except GraphBubbleUp:
            raise
        except Exception as error:
            clear_limit_mark(error, call.node_context.place.name)
            return result_of(state), error
        return result_of(state), None

    def _spanned(self, call: LaneCall) -> AbstractContextManager[None]:
        config = get_config()
        has_handlers = getattr(config.get("callbacks"), "handlers", None)
        return in_lane(config, call.spans) if has_handlers else nullcontext()

    def _arguments(self, call: LaneCall) -> dict[str, Any]:
        state, config = call.see(), get_config()
        own = without_writer(config)["configurable"][RUNTIME]
        named = _in_namespace(call.namespace)
        configurable = {**named, PARENT_STATE: state, RUNTIME: own}
        if call.again:
            configurable |= {RESUMING: True, RESUME_MAP: None}
        position = call.node_context.first_position(self.place, call.cursor)
        if call.request is not None:
            position["request"] = call.request
        if call.after is not None:
            position["after"] = [*call.after]
        return {
            "input": {"position": position},
            "config": {"configurable": configurable},
            "control": LaneStop(call.control, (call.around, config) if call.around else None),
        }


def _in_namespace(namespace: str | None) -> dict[str, object]:
    """Return config keys that make LangGraph save a lane in a namespace other than its task's.

    LangGraph counts the graphs that a task runs and appends the count to the namespace, which would
    then not name a node and a lane. With a fresh count each is the first one.
    """
    if namespace is None:
        return {}
    inherited = get_config()["configurable"]
    return {**inherited, "checkpoint_ns": namespace, SCRATCHPAD: own_counts(inherited)}


def own_counts(configurable: Mapping[str, Any]) -> object:
    """Return the scratchpad of a task with its own count of the graphs that run in it."""
    return replace(configurable[SCRATCHPAD], subgraph_counter=itertools.count().__next__)


@contextmanager
def _asking_once() -> Iterator[None]:
    """Raise each question once: a graph raises those of its nodes and again those of their tasks."""
    try:
        yield
    except GraphInterrupt as paused:
        raise GraphInterrupt(each_once(paused.args[0])) from None


def last_text(result: LaneResult) -> str:
    """Return the text of a lane's last message, or of the results of the `each` that it ends with."""
    if "text" in result:
        return result["text"]
    messages = [message for message in result["messages"] if not isinstance(message, RemoveMessage)]
    return str(messages[-1].text) if messages else ""


def value_of(
    result: LaneResult, reducers: Reducers, names: Container[str], default: object = None
) -> object:
    """Return the value that a lane wrote last under one of some names; without one the default."""
    for write in reversed(result["values"]):
        for name, value in reversed(write["values"].items()):
            if name in names:
                overwrites, replacement = overwrite_in(value)
                if is_deletion(value):
                    return None
                return reducers.typed(name, replacement if overwrites else value)
    return default


def result_of(state: Mapping[str, Any]) -> LaneResult:
    """Return the result of a lane with a state; nothing if it has none."""
    position = state.get("position") or {}
    result = LaneResult(
        agentgraph="lane",
        messages=state.get("messages", []),
        values=state.get("values", []),
        signal=position.get("signal"),
    )
    if "cancels" in position or "reason" in position:
        add_details(result, position)
    if "text" in position:
        result["text"] = position["text"]
    if answered := answer_in(position) or position.get("answered"):
        result["answered"] = answered
    if state.get("middleware"):
        result["middleware"] = state["middleware"]
    return result


ATTEMPTS = "agentgraph_attempt"
"""The channel of the pending writes that hold attempts."""


class FormerAttempt(TypedDict):
    """The outcome of an attempt that another one followed."""

    task: str
    """The id of the task that runs the call."""
    number: int
    """The number of the call."""
    attempt: int
    """The number of the attempt, from 0."""
    address: str
    """The address of its lane."""
    namespace: str
    """Its checkpoint namespace."""
    came: NotRequired[str | list[Any]]
    """The last text of its lane, if it succeeded."""
    failed: NotRequired[ErrorData]
    """Otherwise its failure, as data."""


UNSAVED_CALLS = "agentgraph_unsaved"
"""The channel of `UnsavedCall`s."""


class UnsavedCall(TypedDict):
    """The failure of a call whose tool returned something that cannot be saved: its saved result."""

    number: int
    """The number of the call."""
    failed: ErrorData
    """The failure, as data."""


def attempts_in(saved: CheckpointTuple | None) -> list[FormerAttempt]:
    """Return the attempts saved with a checkpoint; those of each call in order."""
    writes = (saved.pending_writes if saved else None) or ()
    attempts: list[FormerAttempt] = [value for _, channel, value in writes if channel == ATTEMPTS]
    return sorted(attempts, key=lambda each: each["attempt"])


def namespace_of_attempt(namespace: str, task: str, attempt: int) -> str:
    """Return the checkpoint namespace of an attempt's lane.

    >>> namespace_of_attempt("boss.tools:1|helper", "2", 0), namespace_of_attempt("helper", "2", 1)
    ('boss.tools:1|helper:2', 'helper:2~1')
    """
    return f"{namespace}:{task}~{attempt}" if attempt else f"{namespace}:{task}"


def task_in(namespace: str) -> str:
    """Return the id of the task that ran a namespace.

    >>> task_in("boss.tools:1|helper:2~1")
    '2'
    """
    return namespace.rpartition(":")[2].partition("~")[0]

"""A lane inside another one: a branch, or an agent that runs as a tool; run by a node of that.

Middleware may run a tool call again, and with it the lane of an agent. How each attempt ended after
which another one came is kept beside the checkpoint behind which the call runs, as LangGraph keeps
what tasks wrote, but under ids that are none of a task's. So LangGraph leaves it alone.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, NotRequired

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph._internal._constants import CONFIG_KEY_RUNTIME
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from agentgraph.agents.signals import Signal
from agentgraph.graph.failures import each_once
from agentgraph.graph.middleware_state import Changes
from agentgraph.graph.nodes.context import PARENT_STATE, NodeContext, RunState
from agentgraph.graph.nodes.emitter import without_writer
from agentgraph.graph.nodes.stopping import LaneStop, Stop
from agentgraph.graph.state import Position
from agentgraph.graph.values import Write
from agentgraph.tree.addresses import Cursor
from agentgraph.tree.places import Place

_SCRATCHPAD = "__pregel_scratchpad"
"""Where LangGraph's config has what it counts in a task."""


class LaneResult(TypedDict):
    """What a lane hands back: only what is new."""

    messages: list[BaseMessage]
    values: list[Write]
    """What was written in it, in order."""
    signal: Signal | None
    finished: NotRequired[int]
    """When it ended, in nanoseconds, and later than all that it needed."""
    failed: NotRequired[str]
    """How it failed, where a failure is a result."""
    position: NotRequired[Position]
    """What is told of the failure."""
    number: NotRequired[int]
    """The number of the lane in its fork."""
    transfers: NotRequired[int]
    """How many transfers there were in this turn, those before the lane included."""
    middleware: NotRequired[Changes]
    """What the middleware of agents in it changed of what it keeps."""


class LaneCall(NamedTuple):
    """One run of a lane.

    Attributes:
        node_context: The place of the node that runs it.
        cursor: The counters around the lane's place.
        see: Returns what is visible to it.
        control: What stops it.
        namespace: Where it is kept; None for the namespace of the task that runs it.
    """

    node_context: NodeContext
    cursor: Cursor
    see: Callable[[], RunState]
    control: Stop
    namespace: str | None = None


class Lane(NamedTuple):
    """A lane: the place where it starts, and the graph that it was compiled to."""

    place: Place
    graph: CompiledStateGraph[Any, Any, Any, Any]

    def attempt(self, call: LaneCall) -> tuple[LaneResult, Exception | None]:
        """Run it, and return what it came to until it ended or failed, and how it failed.

        What it sees is asked for here, so that a failure in that is one of the lane, too.
        """
        state: dict[str, Any] = {}
        try:
            arguments = self._arguments(call)
            with _asking_once():
                for now in self.graph.stream(**arguments, stream_mode="values"):
                    state = now
        except GraphBubbleUp:
            raise
        except Exception as error:
            return _result(state), error
        return _result(state), None

    async def aattempt(self, call: LaneCall) -> tuple[LaneResult, Exception | None]:
        """Run it on the event loop, as `attempt` does."""
        state: dict[str, Any] = {}
        try:
            arguments = self._arguments(call)
            with _asking_once():
                async for now in self.graph.astream(**arguments, stream_mode="values"):
                    state = now
        except GraphBubbleUp:
            raise
        except Exception as error:
            return _result(state), error
        return _result(state), None

    def _arguments(self, call: LaneCall) -> dict[str, Any]:
        state = call.see()
        own = without_writer(get_config())["configurable"][CONFIG_KEY_RUNTIME]
        named = _in_namespace(call.namespace)
        configurable = {**named, PARENT_STATE: state, CONFIG_KEY_RUNTIME: own}
        return {
            "input": {
                "position": call.node_context.beginning(self.place, call.cursor, state.transfers)
            },
            "config": {"configurable": configurable},
            "control": LaneStop(call.control),
        }


def _in_namespace(namespace: str | None) -> dict[str, Any]:
    """Return what makes LangGraph keep a lane in a namespace that is not that of its task.

    LangGraph counts the graphs that a task runs, and puts the count behind the namespace. That would
    no longer name a node and a lane, so here each is the first one.
    """
    if namespace is None:
        return {}
    inherited = get_config()["configurable"]
    scratchpad = replace(inherited[_SCRATCHPAD], subgraph_counter=itertools.count().__next__)
    return {**inherited, "checkpoint_ns": namespace, _SCRATCHPAD: scratchpad}


@contextmanager
def _asking_once() -> Iterator[None]:
    """Hand on each question once: a graph raises those of its nodes and of their tasks."""
    try:
        yield
    except GraphInterrupt as paused:
        raise GraphInterrupt(each_once(paused.args[0])) from None


def last_text(result: LaneResult) -> str:
    """Return the text of the last message of a lane; nothing where it said none."""
    said = [message for message in result["messages"] if not isinstance(message, RemoveMessage)]
    return str(said[-1].text) if said else ""


def _result(state: dict[str, Any]) -> LaneResult:
    position = state.get("position") or {}
    result = LaneResult(
        messages=state.get("messages", []),
        values=state.get("values", []),
        signal=position.get("signal"),
    )
    if "transfers" in position:
        result["transfers"] = position["transfers"]
    if state.get("middleware"):
        result["middleware"] = state["middleware"]
    return result


CHANNEL = "agentgraph_attempt"
"""The channel under which attempts are kept."""


class Ended(TypedDict):
    """An attempt that is over, for another one came after it."""

    task: str
    """The id of the task that runs the call."""
    number: int
    """The number of the call."""
    attempt: int
    """The number of the attempt, from 0."""
    address: str
    """Where its lane is in the tree."""
    namespace: str
    """Where it is kept."""
    came: NotRequired[str]
    """What its lane said last, if it ended well."""
    failed: NotRequired[Mapping[str, Any]]
    """Else how it failed, as data."""


def attempts_in(saved: CheckpointTuple | None) -> list[Ended]:
    """Return the attempts that are kept beside a checkpoint, of each call in their order."""
    writes = (saved.pending_writes if saved else None) or ()
    found: list[Ended] = [value for _, channel, value in writes if channel == CHANNEL]
    return sorted(found, key=lambda each: each["attempt"])


def namespace_of_attempt(namespace: str, task: str, attempt: int) -> str:
    """Return where the lane of an attempt is kept, by where that of the first one would be.

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


def standing(every: Iterable[CheckpointTuple]) -> list[CheckpointTuple]:
    """Return checkpoints without those of attempts after which another one came."""
    found = list(every)
    over = {each["namespace"] for saved in found for each in attempts_in(saved)}
    return [saved for saved in found if not over or not _is_in(saved, over)]


def _is_in(saved: CheckpointTuple, namespaces: set[str]) -> bool:
    at = str(saved.config["configurable"].get("checkpoint_ns", ""))
    return any(at == each or at.startswith(f"{each}|") for each in namespaces)

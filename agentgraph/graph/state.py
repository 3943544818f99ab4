"""The channels of a lane, their reducers, and the stamp that messages carry.

The history, what lanes write and what middleware keeps are stored as deltas, and whole only once in
many updates: a thread's size grows with the run, and next to nothing with its square. This is the
only file that knows of `DeltaChannel`, which is in beta.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NotRequired, TypeVar, cast, get_type_hints
from uuid import NAMESPACE_URL, uuid4, uuid5

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, convert_to_messages
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer
from typing_extensions import TypedDict

from agentgraph.agents.signals import Signal
from agentgraph.graph.middleware_state import applied, collected
from agentgraph.graph.moments import MOMENT
from agentgraph.graph.values import Reducers, Write

SNAPSHOT_FREQUENCY = 100
_RECORD_FREQUENCY = 32
"""How often what middleware keeps is stored whole. It is small and changes seldom, and to load a thread
LangGraph reads every step since the last time, whatever was written there."""
_NAME = re.compile(r"[#({\[]")
STAMP = "agentgraph"
GRAPH_AGENT = "graph_agent_address"
"""The metadata that name the graph agent that a model is asked in, however deep inside its graph."""


class Question(TypedDict):
    """A question that a function agent has put and its question node is to ask."""

    value: Any
    response_schema: dict[str, Any] | None


class Progress(TypedDict, total=False):
    """How far a chat agent is in an activation."""

    model_calls: int
    """How often it has asked the model."""
    tool_calls: int
    """How many tool calls the messages before its last one had."""
    answer: Any
    """What it came to so far, of what its `output_schema` asks for: its type, and plain data."""
    misfits: int
    """How many calls in a row gave no answer that fits."""
    passed: dict[str, Any]
    """The ephemeral state of its middleware, which the next node alone sees."""
    ending: "ChatEnding"
    """How it ends when the hooks have run that come last."""


class ChatEnding(TypedDict, total=False):
    """How a chat agent ends. Without a signal and a target it just ends."""

    signal: Signal
    """The signal with which it ends."""
    target: str
    """The agent to which it transfers."""
    keeps: bool
    """Whether its last message is what it came to."""


class Border(TypedDict):
    """How an activation ended after which something is still to be asked: `until`, a check, a limit.

    Without `signal` and `target` it just ended.
    """

    signal: NotRequired[Signal]
    """The signal with which it ended."""
    target: NotRequired[str]
    """The agent to which it transfers."""
    given: list[bool]
    """What the functions said that were asked before, in order: ends the loop, runs the agent again."""
    failed: NotRequired[bool]
    """Whether the check that is to be asked refused the last attempt: now one more is allowed."""


class Position(TypedDict):
    """Where a lane is: written by each leaf as it ends, read by the edge behind it.

    All that steers a lane rides in this one channel, for each channel costs every step.
    """

    next: str | None
    """The node to run next; None where the lane has ended."""
    cursor: list[Any]
    """The counters at that node, outermost first: numbers, and lists of them for hops."""
    tree: str
    """The fingerprint of the tree."""
    at: NotRequired[str]
    """The address of the activation that wrote this."""
    told: NotRequired[list[Any]]
    """What it told that is no message: `Note`s, as plain data."""
    clock: NotRequired[list[int]]
    """The turn, and the greatest number in it of what was told so far; in the root."""
    signal: NotRequired[Signal]
    """What the end of the lane hands to the lane around it."""
    ask: NotRequired[Question]
    """The question that the next node is to ask."""
    answer: NotRequired[list[Any]]
    """The answer for the next node, as the only item."""
    chat: NotRequired[Progress]
    """How far the chat agent is whose node is next."""
    border: NotRequired[Border]
    """How the activation ended whose node is next; that node only asks what comes after it."""
    transfers: NotRequired[int]
    """How many transfers there were in this turn, as far as this lane knows; left out for none."""
    outline: NotRequired[list[str]]
    """The outline of the tree; written where a turn begins."""
    settled: NotRequired[dict[str, Any]]
    """The values with which a resume settles conflicts at the next node of the root."""


def clock_in(position: Position | None) -> tuple[int, int]:
    """Return the turn, and the greatest number of what was told in it, as a position knows it."""
    turn, last = position.get("clock", (0, 0)) if position else (0, 0)
    return turn, last


def moved(position: Position, new: Position) -> Position:
    """Return a new position; one without a node only adds to what is settled.

    A turn begins with the outline of the tree, and has the next number.
    """
    if "next" not in new:
        return {**position, "settled": {**position.get("settled", {}), **new["settled"]}}
    if "clock" in new:
        return new
    turn, last = clock_in(position)
    return {**new, "clock": [turn + ("outline" in new), last]}


def is_remove_all(message: Any) -> bool:
    """Tell whether a message, also as a dict, removes all before it.

    >>> is_remove_all({"type": "remove", "id": REMOVE_ALL_MESSAGES})
    True
    """
    found = message.get("id") if isinstance(message, Mapping) else getattr(message, "id", None)
    return found == REMOVE_ALL_MESSAGES


class SnapshotList(DeltaChannel[list[Any]]):
    """A channel of a list, stored whole each time that a quarter as much again was written.

    So what a step takes on disk does not grow with the list, nor what is read besides it.
    """

    @property
    def snapshot_frequency(self) -> int:
        """After how many updates it is stored whole."""
        return max(self._least, len(self.value) // 4 if self.is_available() else 0)

    @snapshot_frequency.setter
    def snapshot_frequency(self, least: int) -> None:
        self._least = least


class History(SnapshotList):
    """The channel of the messages, with a reducer of deltas, which cannot remove all.

    In the root that is LangGraph's: where it is, LangGraph gives each message an id.
    """

    def update(self, values: Sequence[Any]) -> bool:
        """Take the writes of a step; what stands before a removal of all is gone."""
        if (left := _behind_removal(values)) is None:
            return super().update(values)
        self.value = self.typ()
        super().update(left)
        return True

    def replay_writes(self, writes: Sequence[Any]) -> None:
        """Take what was saved since a snapshot, likewise."""
        if (left := _behind_removal([value for _, _, value in writes])) is not None:
            self.value = self.typ()
            writes = [(*writes[0][:2], each) for each in left]
        super().replay_writes(writes)


def _behind_removal(writes: Sequence[Any]) -> list[Any] | None:
    """Return what was written behind the last removal of all messages; None where there is none."""
    for i in range(len(writes))[::-1]:
        write = writes[i] if isinstance(writes[i], list) else [writes[i]]
        for n in range(len(write))[::-1]:
            if is_remove_all(write[n]):
                return [write[n + 1 :], *writes[i + 1 :]]
    return None


M = TypeVar("M", bound=BaseMessage)


def with_changes(messages: Sequence[BaseMessage], changes: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages as the history takes changes: with new ones, and those replaced or removed."""
    ids = {each.id for each in changes}
    if len(ids) == len(changes) and not any(each.id in ids for each in messages):
        return [*messages, *(each for each in changes if not isinstance(each, RemoveMessage))]
    reduced: Any = _messages_delta_reducer(cast(Any, [*messages]), cast(Any, [[*changes]]))
    return cast(list[BaseMessage], reduced)


def folded(messages: Iterable[M]) -> list[M]:
    """Return changes of a history as fewer that come to the same; a removal stays one.

    >>> from langchain_core.messages import AIMessage
    >>> told = [("1", "One"), ("2", "Two"), ("1", "ONE")]
    >>> [message.text for message in folded(AIMessage(text, id=key) for key, text in told)]
    ['ONE', 'Two']
    """
    left: dict[Any, M] = {}
    for message in messages:
        if isinstance(message, RemoveMessage):
            left.pop(message.id, None)
            left.pop((message.id,), None)
            left[(message.id,)] = message
        else:
            left[message.id or id(message)] = message
    return list(left.values())


def changes_of_lane(kept: Sequence[BaseMessage], writes: Sequence[Any]) -> list[BaseMessage]:
    """Reduce what is written to the messages of a lane: changes of the history around it."""
    flat = [each for given in writes for each in (given if isinstance(given, list) else [given])]
    return folded([*kept, *convert_to_messages(flat)])


Messages = Annotated[
    list[AnyMessage], History(_messages_delta_reducer, snapshot_frequency=SNAPSHOT_FREQUENCY)
]
_LANE_MESSAGES = Annotated[
    list[AnyMessage], History(changes_of_lane, snapshot_frequency=SNAPSHOT_FREQUENCY)
]
Where = Annotated[Position | None, moved]
_RECORDS = Annotated[dict[str, Any], DeltaChannel(applied, snapshot_frequency=_RECORD_FREQUENCY)]
_CHANGES = Annotated[dict[str, Any], DeltaChannel(collected, snapshot_frequency=_RECORD_FREQUENCY)]


class LaneState(TypedDict):
    """What a lane keeps; the last three are read only by the nodes that need them."""

    messages: list[BaseMessage]
    values: Any
    """The merged values in the root, elsewhere the `Write`s of the lane."""
    position: Position
    failure: NotRequired[BaseException]
    """How a function failed that was asked where the node's agent had ended, in the step before."""
    middleware: NotRequired[Mapping[str, Any]]
    """What middleware keeps: the `Records` in the root, elsewhere the `Changes` of the lane."""
    untracked: NotRequired[list[Any]]
    """The address of an activation, and the state of its middleware that is never saved."""


class StateTypes(NamedTuple):
    """The types of the states of a tree's lanes, with the reducers of its values.

    Attributes:
        root: What the root keeps, as most nodes read it.
        conversation: What a compiled tree takes and gives: the messages, and the values of the run.
        lane: What every other lane keeps, as most nodes read it.
        begun: What a compiled tree takes, and what the middleware kept of a turn that was given up.
    """

    root: type
    conversation: type
    lane: type
    begun: type


def state_types(reducers: Reducers) -> StateTypes:
    """Return the types of the states of a tree whose values are merged by `reducers`."""
    make: Any = TypedDict  # a checker wants the fields written out
    values = Annotated[dict[str, Any], reducers.merged]
    writes = Annotated[
        list[Write], SnapshotList(reducers.folded, snapshot_frequency=SNAPSHOT_FREQUENCY)
    ]
    conversation = {"messages": Messages, "values": NotRequired[values]}
    return StateTypes(
        root=make("LaneState", {"messages": Messages, "values": values, "position": Where}),
        conversation=make("Conversation", conversation),
        lane=make("LaneState", {"messages": _LANE_MESSAGES, "values": writes, "position": Where}),
        begun=make("Begun", conversation | {"middleware": NotRequired[_RECORDS]}),
    )


def reading(state: type, channels: Collection[str], *, is_root: bool) -> type:
    """Return the type of a lane's state as a node reads it that reads further channels.

    Args:
        state: As most nodes read it.
        channels: The names of the others: "failure", "middleware", "untracked".
        is_root: Whether the lane is the root.
    """
    further = {
        "failure": Annotated[BaseException, UntrackedValue],
        "middleware": _RECORDS if is_root else _CHANGES,
        "untracked": Annotated[list[Any], UntrackedValue],
    }
    make: Any = TypedDict
    fields = get_type_hints(state, include_extras=True)
    return cast(type, make("LaneState", fields | {name: further[name] for name in channels}))


class Update(TypedDict, total=False):
    """What a node writes."""

    messages: list[BaseMessage]
    values: dict[str, Any] | list[dict[str, Any]] | list[Write]
    """In the root a dict, or several where one would lose a write; elsewhere writes."""
    position: Position
    failure: BaseException
    middleware: Mapping[str, Any]
    """The `Changes` of what middleware keeps."""
    untracked: list[Any]


class TaskResult(TypedDict):
    """What the task of a tool call, or of a message of a graph agent, hands back to its node.

    It is told as the task ends, like what a node writes.
    """

    messages: list[BaseMessage]
    values: list[Write]
    position: Position
    acts: dict[str, Any]
    """How a call steers: under "exit", "break_loop" or "transfer_to", there the name of the agent."""
    number: int
    """The number of the call, or of the message, in the activation."""
    transfers: NotRequired[int]
    """How many transfers there were in the lane that the call ran."""
    state: NotRequired[list[dict[str, Any]]]
    """What a call updates of the state of the agent's middleware."""


def stamped(message: BaseMessage, address: str) -> BaseMessage:
    """Return a copy of `message` that says at what address it was said, with a name and an id.

    When it was told is written on it then.
    """
    metadata = {**message.response_metadata, STAMP: address}
    metadata.pop(MOMENT, None)
    return message.model_copy(
        update={
            "id": message.id or str(uuid4()),
            "name": message.name or speaker_at(address),
            "response_metadata": metadata,
        }
    )


def with_id(message: M, made_of: str) -> M:
    """Return a message with an id, the same whenever it is made of the same.

    >>> from langchain_core.messages import HumanMessage
    >>> with_id(HumanMessage("Go."), "boss 0").id == with_id(HumanMessage("Go."), "boss 0").id
    True
    """
    if message.id:
        return message
    return message.model_copy(update={"id": str(uuid5(NAMESPACE_URL, made_of))})


def address_of(message: BaseMessage) -> str | None:
    """Return the address at which a message was said; None for the user's."""
    return message.response_metadata.get(STAMP)


def speaker_at(address: str) -> str:
    """Return the name of the agent at an address."""
    return _NAME.split(address.rpartition("/")[2], maxsplit=1)[0]


def speaker_of(message: BaseMessage) -> str | None:
    """Return the agent that said a message; None for the user."""
    address = address_of(message)
    return None if address is None else speaker_at(address)

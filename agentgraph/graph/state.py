"""The channels of a lane, their reducers, and the stamp that says who said a message.

The problem: a saver stores each channel that a step has changed, whole. A history stored so makes a
thread grow with the square of its length: 500 messages of 400 bytes take 74 MB in SQLite. The rules:

- What grows is a `DeltaChannel`, of which a step stores its own writes alone: the messages, the values
  written in a lane, the state of middleware. The same 500 messages take 2 MB.
- To read such a channel, LangGraph replays all writes since the last snapshot of the whole list, so
  there must be snapshots; taken at fixed intervals they would grow with the square again. A
  `SnapshotList` takes one each time that the list has grown by a quarter.
- What steers a lane is one small channel, `Position`: each channel costs time in each step. It holds
  nothing that grows with the run.

Only this file and `stored_values.py` know of `DeltaChannel`, which is in beta.

The saved state of chat agents' middleware: records, and the changes of records that are stored.

A record grows with the talk: middleware that adds a reminder in each turn has one more each time.
Stored whole with each step, it would make a thread grow with the square of its turns. So a node writes
only what it changed, and the channel folds the changes. The root of a tree folds them to records. A
lane inside stores the changes as they are: the enclosing lanes have the records, and take the changes
when it has ended.

What a derived agent keeps for itself (the plan of a `plan_execute`) is a section of a record, too.

Pure: nothing here knows what the records hold.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypeVar, cast, get_type_hints
from uuid import NAMESPACE_URL, uuid5

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.checkpoint.base import PendingWrite
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from typing_extensions import TypedDict

from agentgraph.agents.signals import Signal
from agentgraph.graph.internals import delta_reducer
from agentgraph.graph.stamps import ANSWERED, note_of
from agentgraph.graph.stored_values import ValuesChannel
from agentgraph.graph.type_hints import make_typed_dict
from agentgraph.graph.values import Reducers, Write, is_same
from agentgraph.tree.changes import Outline

Record = Mapping[str, Mapping[str, object]]
"""The saved state of one chat agent: sections by name, each of entries by key."""
Records = Mapping[str, Record]
"""Records by the node of the agent's place."""
Change = Mapping[str, Mapping[str, list[object]]]
"""The changed entries of a record: each a list of its new value, empty if it is gone."""
Changes = Mapping[str, Change]
"""Changes by the node of the agent's place."""


_KEPT = "kept"
"""The section of a record with what a derived agent keeps."""


def kept_for(records: Records, node: str) -> Mapping[str, object]:
    """Return what is kept for the derived agent at a node, by key."""
    return records.get(node, {}).get(_KEPT, {})


def keeping(node: str, entries: Mapping[str, object]) -> Changes:
    """Return the changes that keep entries for the derived agent at a node."""
    return {node: {_KEPT: {key: [value] for key, value in entries.items()}}}


def change_between(before: Record, after: Record) -> dict[str, dict[str, list[object]]]:
    """Return the change that turns one record into another.

    >>> change_between({"removed": {"1": True}}, {"removed": {"2": True}})
    {'removed': {'2': [True], '1': []}}
    """
    change: dict[str, dict[str, list[object]]] = {}
    for section in dict.fromkeys([*before, *after]):
        old, new = before.get(section, {}), after.get(section, {})
        entries = {k: [v] for k, v in new.items() if k not in old or not is_same(old[k], v)}
        entries |= {key: [] for key in old if key not in new}
        if entries:
            change[section] = entries
    return change


def applied(records: Records, several: Sequence[Changes]) -> dict[str, Record]:
    """Return records after several changes, in order: the reducer of the root.

    >>> applied({}, [{"writer": {"state": {"rounds": [1]}}}, {"writer": {"state": {"rounds": [2]}}}])
    {'writer': {'state': {'rounds': 2}}}
    """
    result = dict(records)
    for node, change in collected({}, several).items():
        record = {**result.get(node, {})}
        for section, entries in change.items():
            merged = {**record.get(section, {}), **{key: v[0] for key, v in entries.items() if v}}
            record[section] = {k: v for k, v in merged.items() if entries.get(k, (v,))}
        result[node] = {section: entries for section, entries in record.items() if entries}
    return {node: record for node, record in result.items() if record}


def collected(changes: Changes, several: Sequence[Changes]) -> dict[str, Change]:
    """Return changes merged with later ones, in order: the reducer of a lane inside the tree."""
    result: dict[str, Change] = dict(changes)
    new: dict[str, dict[str, dict[str, list[object]]]] = {}
    for node, section, entries in _sections(several):
        folded = new.setdefault(node, {})
        if section not in folded:
            folded[section] = {**changes.get(node, {}).get(section, {})}
        folded[section].update(entries)
    for node, sections in new.items():
        result[node] = {**result.get(node, {}), **sections}
    return result


def _sections(several: Sequence[Changes]) -> Iterator[tuple[str, str, Mapping[str, list[object]]]]:
    for changes in several:
        for node, change in changes.items():
            for section, entries in change.items():
                yield node, section, entries


SNAPSHOT_FREQUENCY = 100
_RECORD_FREQUENCY = 32
"""The number of updates after which the state of middleware is stored whole. It is small and changes
seldom, and to load a thread LangGraph reads every step since then, whatever was written there."""
_NO_REMOVALS = frozenset([AIMessage, HumanMessage, ToolMessage])


class Question(TypedDict):
    """A question of a function agent, for its question node to ask."""

    value: object
    response_schema: dict[str, object] | None


class Progress(TypedDict, total=False):
    """How far a chat agent is in an activation."""

    model_calls: int
    """The number of model calls so far."""
    tool_calls: int
    """The number of tool calls in the messages before its last one."""
    answer: Any
    """Its structured answer so far, where it has an `output_schema`: type and plain data."""
    misfits: int
    """The number of model calls in a row whose answer did not fit the schema."""
    passed: dict[str, object]
    """The ephemeral state of its middleware, which only the next node sees."""
    ending: "ChatEnding"
    """How it ends after the last hooks."""
    steps: int
    """In a graph that is laid flat: how many of its nodes have run."""
    visits: dict[str, int]
    """How often each of them has run, or is next."""
    packets: list[object]
    """The inputs that `Send` gave to the next node."""
    ended: bool
    """Whether the graph has ended, and only its output is still to be said."""


class Task(TypedDict, total=False):
    """What a transfer asks of its target; it holds for one visit, also of what is inside the target."""

    messages: list[BaseMessage | str]
    """What the target sees in the place of the history; a text is the id of a message of the history.
    Missing where it sees the history."""
    is_added: bool
    """Whether it sees the history before them."""
    values: dict[str, object]
    """The values of the visit."""
    to: str
    """The node of the target."""
    is_back: bool
    """Whether the target is the agent above, which alone it is for."""
    since: str | None
    """The id of the last message before the visit; None if there was none."""


class Leaving(TypedDict):
    """How a run leaves the tree for another node of the graph that the tree is a node of."""

    goto: str
    """The node."""
    sent: NotRequired[list[object]]
    """The input that `Send` gave to it, as the only item."""
    update: dict[str, object]
    """What is written there besides what the tree said."""


class ChatEnding(TypedDict, total=False):
    """How a chat agent ends. Without `signal`, `target` and `leaving` it just ends."""

    signal: Signal
    """The signal with which it ends."""
    target: str
    """The agent to which it transfers."""
    task: Task
    """What it asks of that agent."""
    granted: bool
    """Whether the limits allow the transfer: it is counted."""
    leaving: Leaving
    """Where it leaves the tree for."""
    keeps: bool
    """Whether its last message is its output."""


class SavedAnswer(TypedDict):
    """A structured answer, as it is saved while the activation runs."""

    of: str
    """The name of its type."""
    data: object
    """The answer as plain data."""


class GivenAnswer(TypedDict):
    """A structured answer, and who gave it."""

    at: str
    """The address."""
    answer: SavedAnswer


class Border(TypedDict):
    """How an activation ended, while `until`, a check or a limit is still to be asked about it.

    Without `signal` and `target` it just ended.
    """

    signal: NotRequired[Signal]
    """The signal with which it ended."""
    target: NotRequired[str]
    """The agent to which it transfers."""
    task: NotRequired[Task]
    """What it asks of that agent."""
    granted: NotRequired[bool]
    """Whether the limits allow the transfer: it is counted."""
    leaving: NotRequired[Leaving]
    """Where the run leaves the tree for."""
    given: list[bool]
    """The answers so far, in order: whether the loop ends, whether the agent runs again."""
    failed: NotRequired[bool]
    """Whether the next check has refused the last attempt allowed; one more is granted now."""


class Position(TypedDict):
    """Where a lane is: written by each leaf as it ends, read by the edge after it."""

    next: str | None
    """The next node; None where the lane has ended."""
    cursor: list[object]
    """The counters at that node, outermost first: numbers, and lists of them for hops."""
    tree: str
    """The fingerprint of the tree."""
    at: NotRequired[str]
    """The address of the activation that wrote this."""
    began: NotRequired[int]
    """When its step began, in microseconds, if a run resumed it; else it did as the step before ended.
    What runs others goes on, and who asks a person waits meanwhile: they begin once."""
    told: NotRequired[list[list[object]]]
    """Its `Note`s, as plain data."""
    clock: NotRequired[list[int]]
    """In the root: the turn, and the greatest event number in it so far."""
    signal: NotRequired[Signal]
    """The signal with which the lane ended, for the enclosing lane."""
    ask: NotRequired[Question]
    """The question that the next node asks."""
    answer: NotRequired[list[object]]
    """The answer for the next node, as the only item."""
    asked: NotRequired[int]
    """How many questions the function at the next node has asked, or has asked with that question."""
    calls: NotRequired[list[Any]]
    """The results of the agents that the function at the next node ran before its question."""
    chat: NotRequired[Progress]
    """The progress of the chat agent whose node is next."""
    border: NotRequired[Border]
    """How the activation of the next node ended; that node asks only what is still to be asked."""
    tasks: NotRequired[list[Task]]
    """What transfers asked of the agents around the next node, the innermost last."""
    spent: NotRequired[dict[str, dict[str, float]]]
    """What agents have spent of limits, by their names: in the root in this turn, in another lane there
    alone; missing if nothing is counted."""
    outline: NotRequired[Outline]
    """The outline of the tree; written at the start of a turn."""
    text: NotRequired[str]
    """What the activation says as the result of its lane, if that is not its last message."""
    answered: NotRequired[GivenAnswer]
    """The structured answer of the activation at the border before."""
    request: NotRequired[str]
    """What a function asks of the agent whose lane begins here."""
    settled: NotRequired[dict[str, object]]
    """The values with which a resume settles conflicts at the next node of the root."""


def answer_in(position: Mapping[str, Any]) -> GivenAnswer | None:
    """Return the structured answer in the notes of a position; None if none has one."""
    told = position.get("told")
    answers = [note for note in map(note_of, told) if note.kind == ANSWERED] if told else ()
    return GivenAnswer(at=answers[-1].address, answer=answers[-1].data) if answers else None


def clock_in(position: Position | None) -> tuple[int, int]:
    """Return the turn of a position, and the greatest event number in it."""
    turn, last = position.get("clock", (0, 0)) if position else (0, 0)
    return turn, last


def moved(position: Position, new: Position) -> Position:
    """Reduce a position and a new one: the new one, with the number of its turn.

    A new position with an `outline` begins a turn. One without `next` only adds settled values.
    """
    if "next" not in new:
        return {**position, "settled": {**position.get("settled", {}), **new["settled"]}}
    if "clock" in new:
        return new
    turn, last = clock_in(position)
    return {**new, "clock": [turn + ("outline" in new), last]}


class TurnInput(EphemeralValue[object]):
    """The input of a compiled tree, to which it adds the position at which the turn begins.

    LangGraph saves the input before any node has run. So a thread that stopped there tells which tree
    begins a turn on it, and where.
    """

    __slots__ = ("position",)

    def __init__(self, typ: object, guard: bool = True, position: Position | None = None) -> None:
        super().__init__(typ, guard)
        self.position = position

    def copy(self) -> "TurnInput":
        """Return a copy of the channel."""
        made: TurnInput = super().copy()
        made.position = self.position
        return made

    def from_checkpoint(self, checkpoint: object) -> "TurnInput":
        """Return the channel with saved input."""
        made: TurnInput = super().from_checkpoint(checkpoint)
        made.position = self.position
        return made

    def update(self, values: Sequence[object]) -> bool:
        """Take the input, with the position in the place of any that it has."""
        begun = {"position": self.position}
        return super().update([{**v, **begun} if isinstance(v, Mapping) else v for v in values])


def is_remove_all(message: object) -> bool:
    """Return whether a message, also as a dict, removes all messages before it.

    >>> is_remove_all({"type": "remove", "id": REMOVE_ALL_MESSAGES})
    True
    """
    message_id = message.get("id") if isinstance(message, Mapping) else getattr(message, "id", None)
    return message_id == REMOVE_ALL_MESSAGES


class SnapshotList(DeltaChannel[list[object]]):
    """A list stored as deltas, and whole each time that it has grown by a quarter.

    So neither the bytes that a step stores nor the writes that a read replays grow with the square.
    """

    @property
    def snapshot_frequency(self) -> int:
        """The number of updates after which it is stored whole."""
        return max(self._least, len(self.value) // 4 if self.is_available() else 0)

    @snapshot_frequency.setter
    def snapshot_frequency(self, least: int) -> None:
        self._least = least


class LaneWrites(SnapshotList):
    """The values that a lane has written, with their declared types also where a saver is read."""

    def from_checkpoint(self, checkpoint: object) -> "LaneWrites":
        """Return the channel with saved writes."""
        made: LaneWrites = super().from_checkpoint(checkpoint)
        reducers: Reducers = cast(Any, self.reducer).__self__
        if reducers.fields and made.is_available():
            made.value = [*reducers.loaded(cast(list[Write], made.value))]
        return made


class History(SnapshotList):
    """The channel `messages`. It handles `REMOVE_ALL_MESSAGES`, which a reducer of deltas cannot.

    In the root the reducer is LangGraph's own, which makes LangGraph give each message an id.
    """

    def update(self, values: Sequence[object]) -> bool:
        """Apply the writes of a step; a removal of all empties the list first."""
        if not _may_remove(values) or (rest := _after_removal(values)) is None:
            return super().update(values)
        self.value = self.typ()
        super().update(rest)
        return True

    def replay_writes(self, writes: Sequence[PendingWrite]) -> None:
        """Apply the writes saved since a snapshot, likewise."""
        if (rest := _after_removal([value for _, _, value in writes])) is not None:
            self.value = self.typ()
            writes = [(*writes[0][:2], each) for each in rest]
        super().replay_writes(writes)


def _may_remove(writes: Sequence[object]) -> bool:
    """Return whether a removal may be among the messages written; False for what agents mostly say."""
    for write in writes:
        for each in write if type(write) is list else [write]:
            if type(each) not in _NO_REMOVALS:
                return True
    return False


def _after_removal(writes: Sequence[object]) -> list[object] | None:
    """Return the writes after the last removal of all messages; None without such a removal."""
    for i in range(len(writes))[::-1]:
        write = writes[i]
        several = write if isinstance(write, list) else [write]
        for n in range(len(several))[::-1]:
            if is_remove_all(several[n]):
                return [several[n + 1 :], *writes[i + 1 :]]
    return None


M = TypeVar("M", bound=BaseMessage)


def with_changes(messages: Sequence[BaseMessage], changes: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages with changes applied as the history does: new, replaced and removed ones."""
    ids = {each.id for each in changes}
    if len(ids) == len(changes) and not any(each.id in ids for each in messages):
        return [*messages, *(each for each in changes if not isinstance(each, RemoveMessage))]
    before, written = cast(list[AnyMessage], [*messages]), cast(list[AnyMessage], [*changes])
    reduced: object = delta_reducer(before, [written])
    return cast(list[BaseMessage], reduced)


def folded(messages: Iterable[M]) -> list[M]:
    """Return the fewest changes of a history with the same effect; removals stay.

    >>> from langchain_core.messages import AIMessage
    >>> changes = [("1", "One"), ("2", "Two"), ("1", "ONE")]
    >>> [message.text for message in folded(AIMessage(text, id=key) for key, text in changes)]
    ['ONE', 'Two']
    """
    changes: dict[object, M] = {}
    for message in messages:
        if isinstance(message, RemoveMessage):
            changes.pop(message.id, None)
            changes.pop((message.id,), None)
            changes[(message.id,)] = message
        else:
            changes[message.id or id(message)] = message
    return list(changes.values())


def changes_of_lane(changes: Sequence[BaseMessage], writes: Sequence[Any]) -> list[BaseMessage]:
    """Reduce the `messages` of a lane inside the tree: changes of the enclosing history."""
    flat = [each for write in writes for each in (write if isinstance(write, list) else [write])]
    return folded([*changes, *convert_to_messages(flat)])


Messages = Annotated[list[AnyMessage], History(delta_reducer, snapshot_frequency=SNAPSHOT_FREQUENCY)]
_LANE_MESSAGES = Annotated[
    list[AnyMessage], History(changes_of_lane, snapshot_frequency=SNAPSHOT_FREQUENCY)
]
Where = Annotated[Position | None, moved]
_RECORDS = Annotated[dict[str, object], DeltaChannel(applied, snapshot_frequency=_RECORD_FREQUENCY)]
_CHANGES = Annotated[dict[str, object], DeltaChannel(collected, snapshot_frequency=_RECORD_FREQUENCY)]


class LaneState(TypedDict):
    """The state of a lane; only the nodes that need the last three read them."""

    messages: list[BaseMessage]
    values: Any
    """The merged values in the root, elsewhere the `Write`s of the lane."""
    position: Position
    failure: NotRequired[BaseException]
    """The exception of a function that was asked at the border, in the step before."""
    middleware: NotRequired[Mapping[str, Any]]
    """The saved state of middleware: `Records` in the root, elsewhere the `Changes` of the lane."""
    untracked: NotRequired[list[Any]]
    """The address of an activation, and the state of its middleware that is never saved."""


class StateTypes(NamedTuple):
    """The types of the states of a tree's lanes, with the reducers of its values.

    Attributes:
        root: The state of the root, as most nodes read it.
        conversation: Input and output of a compiled tree: the messages, and the values of the run.
        lane: The state of every other lane, as most nodes read it.
        begun: The input of a compiled tree, with the middleware state of a turn that was given up.
    """

    root: type
    conversation: type
    lane: type
    begun: type


def state_types(reducers: Reducers) -> StateTypes:
    """Return the types of the states of a tree whose values are merged by `reducers`."""
    make, schema = make_typed_dict, reducers.schema
    values: object = Annotated[(schema, ValuesChannel(reducers))]
    writes = Annotated[list[Write], LaneWrites(reducers.folded, snapshot_frequency=SNAPSHOT_FREQUENCY)]
    conversation = {"messages": Messages, "values": NotRequired[values]}
    return StateTypes(
        root=make("LaneState", {"messages": Messages, "values": values, "position": Where}),
        conversation=make("Conversation", conversation),
        lane=make("LaneState", {"messages": _LANE_MESSAGES, "values": writes, "position": Where}),
        begun=make("Begun", conversation | {"middleware": NotRequired[_RECORDS]}),
    )


def reading(state: type, channels: Collection[str], *, is_root: bool) -> type:
    """Return a lane's state type with further channels, for a node that reads them.

    Args:
        state: The type that most nodes read.
        channels: The names of the further ones: "failure", "middleware", "untracked".
        is_root: Whether the lane is the root.
    """
    further = {
        "failure": Annotated[BaseException, UntrackedValue],
        "middleware": _RECORDS if is_root else _CHANGES,
        "untracked": Annotated[list[object], UntrackedValue],
    }
    fields = get_type_hints(state, include_extras=True)
    return cast(type, make_typed_dict("LaneState", fields | {name: further[name] for name in channels}))


class Update(TypedDict, total=False):
    """What a node writes."""

    messages: list[BaseMessage]
    values: dict[str, object] | Sequence[dict[str, object]] | list[Write]
    """In the root a dict, or several where one would lose a write; elsewhere `Write`s."""
    position: Position
    failure: BaseException
    middleware: Mapping[str, object]
    """The `Changes` of the state of middleware."""
    untracked: list[object]


TAG = "agentgraph"
"""The key in the saved result of a task that says what it is. Functions of users run tasks, too."""


def ours(value: object) -> Mapping[str, Any]:
    """Return the saved result of a task; empty for that of a task that a user's function ran.

    >>> ours({"agentgraph": "lane", "values": []})["values"], ours({"values": []})
    ([], {})
    """
    return value if isinstance(value, dict) and isinstance(value.get(TAG), str) else {}


class TaskResult(TypedDict):
    """What the task of a tool call, or of a message of a graph agent, returns to its node.

    Its events are emitted when the task ends, like those of a node's update.
    """

    agentgraph: Literal["tool", "node", "message"]
    """Of a tool call, of a node of a graph that is laid flat, or of a message of a nested graph."""
    messages: list[BaseMessage]
    values: list[Write]
    position: Position
    acts: dict[str, Any]
    """The signals of a call, by kind: "exit", "break_loop", "transfer_to" (the agent's name), "task"
    (what it asks of that agent)."""
    number: int
    """The number of the call, or of the message, in the activation."""
    began: NotRequired[int]
    """When the call or the node began, in microseconds."""
    state: NotRequired[list[dict[str, object]]]
    """The call's updates of the state of the agent's middleware."""
    writes: NotRequired[list[Any]]
    """What a node of a graph that is laid flat wrote: names of channels, and values."""


def with_id(message: M, made_of: str) -> M:
    """Return a message with an id; one without gets an id derived from `made_of`.

    >>> from langchain_core.messages import HumanMessage
    >>> with_id(HumanMessage("Go."), "boss 0").id == with_id(HumanMessage("Go."), "boss 0").id
    True
    """
    if message.id:
        return message
    return message.model_copy(update={"id": str(uuid5(NAMESPACE_URL, made_of))})

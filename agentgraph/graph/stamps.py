"""The stamp of what an agent emits: its address, and its order among the events of a thread.

A stamp is stored with every message, so it is a short list: `[address]` as long as the message is
queued, the fields of `Stamp` in their order once it is emitted, without those at the end that say
nothing. A message has it in its `response_metadata`, a chunk in its metadata (with the order before
it), and a question in a remark of its JSON schema, which every server preserves. A note has address and
order as fields.

Times that give an order are whole microseconds since 1970, everywhere: in stamps, positions, results
and cursors. Not nanoseconds: who edits a state in JavaScript (LangGraph Studio, the JavaScript SDK)
sends its numbers back, and those above 2**53 rounded; microseconds stay below until the year 2255.
`seconds` makes of them what people read.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from time import time_ns
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from langchain_core.messages import BaseMessage

_A_SECOND = 1_000_000
STAMP = "agentgraph"
"""The key of a stamp in metadata, and of our parts of LangGraph's `custom` stream."""
STEERED = "steered"
"""The key that marks a user's message that a running run has read: it is an event, with a stamp."""
PROVIDER_ID = "provider_message_id"
"""The key in a message's `response_metadata` of the id that it came with, where it got another one."""
ANSWERED = "answered"
"""The kind of the note that a chat agent has ended with a structured answer."""
GRAPH_AGENT = "graph_agent_address"
"""Metadata key of model calls: the address of the graph agent around them, however deep inside."""
ADDRESS = 0
"""Where the address is in a stored stamp, the first field of `Stamp`."""
_NAME = re.compile(r"[#({\[]")
"""Where the name of an agent ends in a part of an address."""


def now() -> int:
    """Return the time in microseconds since 1970."""
    return time_ns() // 1000


def seconds(number: float) -> float:
    """Return the seconds of a time in microseconds, as reports and events have them."""
    return number / _A_SECOND


def number_at(time: float) -> int:
    """Return the microseconds of a time in seconds, as LangGraph has them."""
    return int(time * _A_SECOND)


class EventOrder(NamedTuple):
    """The order of an event: the numbers give the order of a thread's events.

    Attributes:
        turn: The turn of the thread, from 0.
        number: Microseconds since 1970, but always greater than the thread's numbers before it, even
            if the clock of the machine goes back.
        step: The step of the graph that emitted it, as `step_name` returns it.
        streamed: Whether it was written to the stream at once; then the update of its node does not
            emit it again.
    """

    turn: int
    number: int
    step: str
    streamed: bool = False

    @property
    def time(self) -> float:
        """The time in seconds since 1970."""
        return seconds(self.number)


class Stamp(NamedTuple):
    """The stamp of a message.

    Attributes:
        address: The address at which it was said.
        turn: The turn of the thread; None as long as it is queued.
        number: The number of its order.
        step: The step that emitted it.
        streamed: Whether it was written to the stream at once.
        transfers: The names of the agents that were transferred to since the last message before it.
        is_edited: Whether a rewind put it in the place of another message of an agent.
    """

    address: str
    turn: int | None = None
    number: int = 0
    step: str = ""
    streamed: bool = False
    transfers: Sequence[str] = ()
    is_edited: bool = False

    @property
    def order(self) -> EventOrder:
        """When it was emitted; of what is queued the beginning of all time."""
        return EventOrder(self.turn or 0, self.number, self.step, self.streamed)


def emitted_stamp(
    address: str,
    order: tuple[int, int, str, bool],
    transfers: Sequence[str] = (),
    *,
    is_edited: bool = False,
) -> list[object]:
    """Return the stamp of a message that is emitted as it is stored; see `Stamp`."""
    if is_edited:
        return [address, *order, [*transfers], True]
    return [address, *order, transfers] if transfers else [address, *order]


_QUEUED = Stamp("")


def stamp_in(metadata: Mapping[str, object]) -> Stamp | None:
    """Return the stamp in the metadata of a message or chunk; None if it has none."""
    stamp = metadata.get(STAMP)
    if not (isinstance(stamp, list) and stamp):
        return None
    return tuple.__new__(Stamp, (*stamp, *_QUEUED[len(stamp) :]))  # `Stamp(...)` is a call in Python


class EventCall(NamedTuple):
    """The tool call in which an agent emitted custom data: `event.call`.

    The numbers are the same in each attempt, after a resume and after a rewind.

    Attributes:
        message: The number of the message with the call, among the messages with calls of its
            activation, from 0.
        place: The position of the call in that message, from 0.
        id: The id of the call from the model, as a label: some models repeat ids.
    """

    message: int
    place: int
    id: str


class Note(NamedTuple):
    """An event that is not a message.

    Attributes:
        id: Its id.
        kind: "custom", "exit", "break_loop", "transfer_to", "chosen", "values", "interrupted",
            "discarded" or "error"; or `ANSWERED`, which is saved, and no event.
        data: Its data, by kind.
        address: The address of the agent.
        order: When it was emitted; None before.
        call: Of custom data: the tool call in which it was emitted, if there is one.
    """

    id: str
    kind: str
    data: Any
    address: str
    order: EventOrder | None = None
    call: EventCall | None = None

    def plain(self) -> list[object]:
        """Return the note as plain data, for the saver and the stream."""
        own = [self.id, self.kind, self.data, self.address, list(self.order or ())]
        return own if self.call is None else [*own, list(self.call)]


Entry = BaseMessage | Note
"""The parts of events."""


def note_of(plain: Sequence[Any]) -> Note:
    """Return the note of plain data, as `Note.plain` made it."""
    note_id, kind, data, address, order, *call = plain
    when = EventOrder(*order) if order else None
    return Note(note_id, kind, data, address, when, EventCall(*call[0]) if call else None)


def event_order(entry: Entry) -> EventOrder | None:
    """Return the order of a message or note; None if no agent emitted it."""
    if isinstance(entry, Note):
        return entry.order
    stamp = stamp_in(entry.response_metadata)
    if stamp is None or stamp.turn is None:
        return None
    return EventOrder(stamp.turn, stamp.number, stamp.step, stamp.streamed)


def transferred_in(message: BaseMessage) -> Sequence[str]:
    """Return the names of the agents that were transferred to just before a message, as it says."""
    stamp = stamp_in(message.response_metadata)
    return stamp.transfers if stamp else ()


def edited_stamp(message: BaseMessage, number: int, step: str) -> list[object] | None:
    """Return the stamp of what takes the place of a message; None for a message of the user."""
    if (stamp := stamp_in(message.response_metadata)) is None:
        return None
    order = EventOrder(stamp.turn or 0, number, step)
    return emitted_stamp(stamp.address, order, stamp.transfers, is_edited=True)


def is_edited(message: BaseMessage) -> bool:
    """Return whether a rewind put a message in the place of another one of an agent."""
    stamp = stamp_in(message.response_metadata)
    return stamp is not None and stamp.is_edited


def number_of(entry: Entry) -> int:
    """Return the number of a message or note; 0 if no agent emitted it."""
    order = event_order(entry)
    return order.number if order else 0


def time_in(note: Note) -> float:
    """Return when a note was emitted, in seconds since 1970; 0 if no agent emitted it."""
    return note.order.time if note.order else 0.0


M = TypeVar("M", bound=BaseMessage)


def stamped(message: M, address: str, name: str = "", *, new_id: str | None = None) -> M:
    """Return a copy of `message` with an address, a name (that of its agent), and an id.

    An order that it has is removed: it gets a new one when it is emitted.

    Args:
        message: The message.
        address: The address.
        name: The name; without one that of the agent at the address.
        new_id: Its id, if it must not keep the one that it has.
    """
    metadata = {**message.response_metadata, STAMP: [address]}
    if new_id and message.id:
        metadata.setdefault(PROVIDER_ID, message.id)
    return message.model_copy(
        update={
            "id": new_id or message.id or str(uuid4()),
            "name": message.name or name or speaker_at(address),
            "response_metadata": metadata,
        }
    )


def renamed(message: M, new_id: str) -> M:
    """Return a message with another id; the one that it had stays in its metadata."""
    metadata = {PROVIDER_ID: message.id, **message.response_metadata}
    return message.model_copy(update={"id": new_id, "response_metadata": metadata})


def address_of(message: BaseMessage) -> str | None:
    """Return the address at which a message was said; None for the user's."""
    stamp = message.response_metadata.get(STAMP)  # not parsed: a step asks it of a whole history
    return stamp[ADDRESS] if isinstance(stamp, list) and stamp else None


@lru_cache(maxsize=10_000)
def speaker_at(address: str) -> str:
    """Return the name of the agent at an address; cached, for each step asks it of a whole history."""
    return _NAME.split(address.rpartition("/")[2], maxsplit=1)[0]


def speaker_of(message: BaseMessage) -> str | None:
    """Return the agent that said a message; None for the user."""
    address = address_of(message)
    return None if address is None or is_steered(message) else speaker_at(address)


def is_steered(message: BaseMessage) -> bool:
    """Return whether a message is the user's, and was sent to a running run."""
    return STEERED in message.additional_kwargs


def agent_of(message: BaseMessage, inner_names: Mapping[str, Collection[str]]) -> str | None:
    """Return the agent that said a message, as other agents know it; None for the user.

    Args:
        message: The message.
        inner_names: For each agent that is a flattened graph: the names of its nodes.
    """
    address = address_of(message)
    if address is None or is_steered(message):
        return None
    return speaker_at(home_at(address, inner_names))


def home_at(address: str, inner_names: Mapping[str, Collection[str]]) -> str:
    """Return the address of the agent at an address: of the graph, at that of a flattened node.

    >>> home_at("loop[0]/job/planner[1]", {"job": {"planner"}})
    'loop[0]/job'

    Args:
        address: The address.
        inner_names: For each agent that is a flattened graph: the names of its nodes.
    """
    if not inner_names:
        return address
    around = address.rpartition("/")[0]
    return around if speaker_at(address) in inner_names.get(speaker_at(around), ()) else address


def cursor_of(number: int, part: int | None = None) -> str:
    """Return the cursor of an event: a text that compares as the numbers do.

    >>> cursor_of(1_795_487_607_497_893) < cursor_of(1_795_487_607_497_893, 162)
    True

    Args:
        number: The number of its order: 16 digits until the year 2286.
        part: For what is only streamed, after that order: a number that grows until the next one.
    """
    return f"{number:016d}" if part is None else f"{number:016d}-{part:016d}"


def number_in(cursor: str) -> int:
    """Return the number of a cursor, which `cursor_of` made.

    Raises:
        ValueError: It is none.
    """
    number, *part = cursor.split("-")
    if not all(each.isascii() and each.isdigit() for each in (number, *part)) or len(part) > 1:
        raise ValueError(f"{cursor!r} is not a cursor")
    return int(number)


def step_name(checkpoint_id: str, node: str) -> str:
    """Return the name of a step: the LangGraph checkpoint that it started from, and its node.

    >>> step_name("1ef4f797", "writer.tools")
    '1ef4f797:writer.tools'
    """
    return f"{checkpoint_id}:{node}"


_COMMENT = "$comment"
"""JSON schema's keyword for remarks, which no validator and no form looks at.

LangGraph's interrupts have no field for who asks, so their schema carries it there, as text.
"""
_MARK = "agentgraph "
"""The beginning of such a remark."""


PlainDeadline = list[Any]
"""A deadline as plain data: the fields of `Deadline` in their order."""


class Deadline(NamedTuple):
    """The deadline of a question.

    Attributes:
        timeout: How long the question waits, in seconds.
        at: Until when, in seconds since 1970; None before it is asked.
        default: The answer after that, as the only item; empty without one.
        is_decision: Whether it is for the approval of calls, which the default rejects.
    """

    timeout: float
    at: float | None = None
    default: Sequence[object] = ()
    is_decision: bool = False


class Asker(NamedTuple):
    """The asker of a question, and when, as its JSON schema says.

    Attributes:
        address: The address of the agent; None if the schema names none.
        call: The number of the tool call that asks, else 0.
        order: When it was asked; None if it was not emitted.
        schema: The schema itself; None without one.
        deadline: Its deadline; None without one.
    """

    address: str | None = None
    call: int = 0
    order: EventOrder | None = None
    schema: dict[str, object] | None = None
    deadline: Deadline | None = None


def addressed(
    schema: dict[str, object] | None,
    address: str | None,
    call: int | None = None,
    order: EventOrder | None = None,
    deadline: Deadline | None = None,
) -> dict[str, object]:
    """Return a JSON schema that also holds who asks, when, and until when.

    >>> addressed({"type": "string"}, "s/boss", call=1)
    {'type': 'string', '$comment': 'agentgraph {"stamp": ["s/boss"], "call": 1}'}

    Args:
        schema: The schema.
        address: The address of the agent that asks; None if that is added later.
        call: The number of the tool call that asks, if one does.
        order: When it is asked.
        deadline: Until when it waits.
    """
    own = asker_of(schema).schema or {}
    remark = {
        "stamp": [address, *(order or ())],
        "call": call,
        "comment": own.get(_COMMENT),
        "deadline": deadline and [*deadline],
    }
    text = json.dumps({key: value for key, value in remark.items() if value is not None})
    return {**own, _COMMENT: _MARK + text}


def asker_of(schema: object) -> Asker:
    """Return the asker, as `addressed` wrote it into a schema."""
    own = {**schema} if isinstance(schema, dict) else {}
    text = own.get(_COMMENT)
    if isinstance(text, str) and text.startswith(_MARK):
        with suppress(ValueError, LookupError, TypeError):  # a remark of the user's own
            remark = json.loads(text.removeprefix(_MARK))
            address, *order = remark["stamp"]
            user_schema = {key: value for key, value in own.items() if key != _COMMENT}
            if "comment" in remark:
                user_schema[_COMMENT] = remark["comment"]
            when = EventOrder(*order) if order else None
            until = Deadline(*remark["deadline"]) if "deadline" in remark else None
            return Asker(address, int(remark.get("call", 0)), when, user_schema or None, until)
    return Asker(schema=own or None)

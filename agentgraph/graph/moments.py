"""When something was said, and by whom: the order of a thread's events; and the notes among them.

A message carries its moment in its metadata, a note as data, and a question in keywords of its JSON
schema, which every server preserves.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

_A_SECOND = 1_000_000
MOMENT = "agentgraph_told"
"""The key of a message's moment in its `response_metadata`."""


ANSWERED = "answered"
"""The kind of the note that a chat agent has ended with a structured answer."""


class Moment(NamedTuple):
    """When something was emitted: the numbers give the order of a thread's events.

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
        return self.number / _A_SECOND


class Note(NamedTuple):
    """An event that is not a message.

    Attributes:
        id: Its id.
        kind: "custom", "exit", "break_loop", "transfer_to", "interrupted", "discarded" or "error"; or
            `ANSWERED`, which is saved, and no event.
        data: Its data, by kind.
        address: The address of the agent.
        moment: When it was emitted; None before.
    """

    id: str
    kind: str
    data: Any
    address: str
    moment: Moment | None = None

    def plain(self) -> list[Any]:
        """Return the note as plain data, for the saver and the stream."""
        return [self.id, self.kind, self.data, self.address, list(self.moment or ())]


Entry = BaseMessage | Note
"""What events are made of."""


def note_of(plain: Sequence[Any]) -> Note:
    """Return the note of plain data, as `Note.plain` made it."""
    note_id, kind, data, address, moment = plain
    return Note(note_id, kind, data, address, Moment(*moment) if moment else None)


def moment_of(entry: Entry) -> Moment | None:
    """Return the moment of a message or note; None if no agent emitted it."""
    if isinstance(entry, Note):
        return entry.moment
    moment = entry.response_metadata.get(MOMENT)
    return Moment(*moment) if moment else None


def number_of(entry: Entry) -> int:
    """Return the number of a message or note; 0 if no agent emitted it."""
    moment = moment_of(entry)
    return moment.number if moment else 0


def cursor_of(number: int, part: int | None = None) -> str:
    """Return the cursor of an event: a text that compares as the numbers do.

    >>> cursor_of(1_795_487_607_497_893) < cursor_of(1_795_487_607_497_893, 162)
    True

    Args:
        number: The number of its moment: 16 digits until the year 2286.
        part: For what is only streamed, after that moment: a number that grows until the next one.
    """
    return f"{number:016d}" if part is None else f"{number:016d}-{part:016d}"


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
_FORMER = {key: f"x-agentgraph-{key}" for key in ("address", "call", "told")}
"""The keywords under which questions that were saved before carry it."""


def addressed(
    schema: dict[str, Any] | None,
    address: str,
    call: int | None = None,
    moment: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Return a JSON schema that also holds who asks, and when.

    Args:
        schema: The schema.
        address: The address of the agent that asks.
        call: The number of the tool call that asks, if one does.
        moment: When it is asked.
    """
    own = unaddressed(schema) or {}
    carried = {"address": address, "call": call, "told": moment, "comment": own.get(_COMMENT)}
    kept = {key: value for key, value in carried.items() if value is not None}
    return {**own, _COMMENT: _MARK + json.dumps(kept)}


def _carried(schema: Any) -> Mapping[str, Any]:
    """Return what `addressed` wrote into a schema, by name."""
    if not isinstance(schema, dict):
        return {}
    comment = schema.get(_COMMENT)
    if isinstance(comment, str) and comment.startswith(_MARK):
        with suppress(ValueError):
            return dict(json.loads(comment.removeprefix(_MARK)))
    return {key: schema[former] for key, former in _FORMER.items() if former in schema}


def asker(schema: Any) -> str | None:
    """Return the address that `addressed` wrote into a schema, if there is one."""
    return _carried(schema).get("address")


def asking_call(schema: dict[str, Any] | None) -> int:
    """Return the number of the tool call that `addressed` wrote into a schema, else 0."""
    return int(_carried(schema).get("call", 0))


def asked_when(schema: dict[str, Any] | None) -> Moment | None:
    """Return the moment that `addressed` wrote into a schema, if there is one."""
    found = _carried(schema).get("told")
    return Moment(*found) if found else None


def unaddressed(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema that was passed to `addressed`; None if there was none."""
    carried = _carried(schema)
    if not carried or schema is None:
        return schema or None
    hidden = {_COMMENT, *_FORMER.values()}
    own = {key: value for key, value in schema.items() if key not in hidden}
    return {**own, _COMMENT: carried["comment"]} if "comment" in carried else own or None

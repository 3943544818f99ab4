"""When something was told, and by whom: the order of a thread's events, and what is no message.

A message carries this in its metadata, a note as data, and a question in keywords of its JSON schema,
which every server keeps.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

_A_SECOND = 1_000_000
MOMENT = "agentgraph_told"
"""Where a message has its moment, in its `response_metadata`."""


class Moment(NamedTuple):
    """When something was told: the events of a thread stand in the order of the numbers.

    Attributes:
        turn: The turn of the thread, from 0.
        number: Microseconds since 1970, and greater than all numbers of the thread before it, also
            where the clock of the machine goes back.
        step: The step of the graph that told it, as `step_name` gives it.
        streamed: Whether it was written to the stream when it was told, and the update of its node
            tells it no more.
    """

    turn: int
    number: int
    step: str
    streamed: bool = False

    @property
    def time(self) -> float:
        """When it was, in seconds since 1970."""
        return self.number / _A_SECOND


class Note(NamedTuple):
    """What an agent tells that is no message.

    Attributes:
        id: Its id.
        kind: "custom", "exit", "break_loop", "transfer_to", "interrupted", "discarded" or "error".
        data: What it says, by its kind.
        address: Who tells it.
        moment: When, once it is told.
    """

    id: str
    kind: str
    data: Any
    address: str
    moment: Moment | None = None

    def plain(self) -> list[Any]:
        """Return the note as plain data, as it is saved and streamed."""
        return [self.id, self.kind, self.data, self.address, list(self.moment or ())]


Entry = BaseMessage | Note
"""What agents tell."""


def note_of(plain: Sequence[Any]) -> Note:
    """Return the note that plain data tells."""
    note_id, kind, data, address, moment = plain
    return Note(note_id, kind, data, address, Moment(*moment) if moment else None)


def moment_of(entry: Entry) -> Moment | None:
    """Return when something was told; None for what no agent told."""
    if isinstance(entry, Note):
        return entry.moment
    moment = entry.response_metadata.get(MOMENT)
    return Moment(*moment) if moment else None


def number_told(entry: Entry) -> int:
    """Return the number of what was told; 0 for what no agent told."""
    moment = moment_of(entry)
    return moment.number if moment else 0


def step_name(checkpoint_id: str, node: str) -> str:
    """Return the name of a step: the checkpoint of LangGraph's behind which it ran, and its node.

    >>> step_name("1ef4f797", "writer.tools")
    '1ef4f797:writer.tools'
    """
    return f"{checkpoint_id}:{node}"


_ADDRESS = "x-agentgraph-address"
"""The keyword under which a question says who asks: LangGraph's interrupts have no field for it."""
_CALL = "x-agentgraph-call"
"""The keyword under which it says which of the agent's tool calls asks."""
_MOMENT = "x-agentgraph-told"
"""The keyword under which it says when it was asked."""


def addressed(
    schema: dict[str, Any] | None,
    address: str,
    call: int | None = None,
    moment: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Return a JSON schema that also says who asks, and when.

    Args:
        schema: The schema.
        address: The address of who asks.
        call: The number of the tool call that asks, if one does.
        moment: When it is asked.
    """
    carried = {_ADDRESS: address, _CALL: call, _MOMENT: moment and list(moment)}
    return {**(schema or {}), **{key: value for key, value in carried.items() if value is not None}}


def asker(schema: Any) -> str | None:
    """Return the address that `addressed` wrote into a schema, if there is one."""
    return schema.get(_ADDRESS) if isinstance(schema, dict) else None


def asking_call(schema: dict[str, Any] | None) -> int:
    """Return the number of the tool call that `addressed` wrote into a schema, else 0."""
    return int((schema or {}).get(_CALL, 0))


def asked_when(schema: dict[str, Any] | None) -> Moment | None:
    """Return the moment that `addressed` wrote into a schema, if there is one."""
    found = (schema or {}).get(_MOMENT)
    return Moment(*found) if found else None


def unaddressed(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema that `addressed` was given; None where it only says who asks."""
    return {k: v for k, v in (schema or {}).items() if k not in (_ADDRESS, _CALL, _MOMENT)} or None

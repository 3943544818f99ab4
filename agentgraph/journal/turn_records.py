"""The turns of a thread that callers have named: each is found by its name, on whichever line it is.

A record is a checkpoint in the namespace of the requests, under an id that is computed from the name:
so one read finds it, however long the thread is, and any saver serves. It is saved before the turn
begins. So that a record is there does not say that its turn has begun: that says the message on the
thread, or the outcome in the record.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from langchain_core.messages import BaseMessage

from agentgraph.graph.message_changes import with_id
from agentgraph.journal.data_digests import data_digest
from agentgraph.journal.saved import NO_TASK, REQUESTS, Saved
from agentgraph.journal.schema import PrunedTurn, TurnData, TurnOutcome
from agentgraph.journal.thread_config import config_of
from agentgraph.journal.thread_saver import ThreadSaver

_SOURCE = "input"
"""The source of their checkpoints."""
_OUTCOME = "outcome"
"""The channel of the write of their outcome."""
_PRUNED = "pruned"
"""The channel of the write of the rest of a turn that was pruned."""
_PRUNED_TASK = "00000000-0000-0000-0000-000000000001"
"""The task of that write: of each task the first write stays."""
_VARYING = {"id", "response_metadata", "usage_metadata"}
"""The fields of a message that differ although it says the same."""


class TurnRecord(NamedTuple):
    """The record of a turn that its caller has named.

    Attributes:
        turn_id: The name.
        message: The id of the last message of its input.
        digest: A digest of the input.
        answers: Digests of the answers that it got, by the ids of the questions, if it has ended; None
            if it has not, or if that was not saved.
        pruned: The rest of it if it was pruned, else None.
    """

    turn_id: str
    message: str
    digest: str
    answers: Mapping[str, str] | None = None
    pruned: PrunedTurn | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is known that the turn ended."""
        return self.answers is not None


async def turn_record(saver: ThreadSaver, turn_id: str) -> TurnRecord | None:
    """Return the record of a turn; None if no turn of that name was to begin on the thread."""
    saved = await saver.checkpoint(REQUESTS, _id_of(turn_id))
    return None if saved is None else _record(saved)


async def put_turn(saver: ThreadSaver, record: TurnRecord) -> None:
    """Save the record of a turn that is about to begin."""
    data = TurnData(turn=record.turn_id, message=record.message, digest=record.digest)
    saved = await saver.put_record(_SOURCE, _id_of(record.turn_id), {**data})
    if record.answers is not None:
        await saver.put_write(saved.config, NO_TASK, _OUTCOME, TurnOutcome(answers={**record.answers}))
    if record.pruned is not None:
        await saver.put_write(saved.config, _PRUNED_TASK, _PRUNED, record.pruned)


async def put_outcome(saver: ThreadSaver, record: TurnRecord, answers: Mapping[str, str]) -> None:
    """Save that a turn ended, with digests of its answers."""
    config = config_of(saver.checked_id, REQUESTS, _id_of(record.turn_id))
    await saver.put_write(config, NO_TASK, _OUTCOME, TurnOutcome(answers={**answers}))


async def turn_records(saver: ThreadSaver) -> list[TurnRecord]:
    """Return the records of a thread."""
    return [*map(_record, await saver.records(_SOURCE))]


def named_input(messages: Sequence[BaseMessage], turn_id: str) -> list[BaseMessage]:
    """Return the messages of a turn's input, with the same ids at each call."""
    return [with_id(each, f"{turn_id} {number}") for number, each in enumerate(messages)]


def input_digest(messages: Sequence[BaseMessage], values: Mapping[str, object] | None) -> str:
    """Return a digest of the input of a turn; the ids of its messages do not count.

    >>> from langchain_core.messages import HumanMessage
    >>> input_digest([HumanMessage("Go.", id="1")], None) == input_digest([HumanMessage("Go.")], {})
    True
    """
    return data_digest([[each.model_dump(exclude=_VARYING) for each in messages], dict(values or {})])


def _id_of(turn_id: str) -> str:
    """Return the id of a turn's record: it is less than those of requests, which begin with a time."""
    name = data_digest(turn_id)
    return f"00000000-{name[:4]}-{name[4:8]}-{name[8:12]}-{name[12:]}"


def _record(saved: Saved) -> TurnRecord:
    data = cast(TurnData, saved.checkpoint["channel_values"])
    writes = {channel: value for _, channel, value in saved.pending_writes or ()}
    outcome = cast(TurnOutcome | None, writes.get(_OUTCOME))
    answers = None if outcome is None else outcome["answers"]
    pruned = cast(PrunedTurn | None, writes.get(_PRUNED))
    return TurnRecord(data["turn"], data["message"], data["digest"], answers, pruned)

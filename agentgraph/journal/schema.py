"""Every shape that a thread saves: typed classes with named fields.

Shapes that are written in `graph/`, or belong to the tree, are defined there, where they are written,
and named here. All other shapes that the runner saves are defined here. `soundness.py` checks by these
tables the data that a saver returns.

    channel                 shape                                    written by
    position                Position                                 each node, as it ends
    messages                messages, each with a Stamp              nodes
    values                  the values of a run, or Writes           nodes
    RETURN                  a Result, by its tag                     tasks that nodes run
    INTERRUPT               questions, each with an Asker            LangGraph
    ATTEMPTS, UNSAVED_CALLS FormerAttempt, UnsavedCall               calls of tools
    LOSSES                  Loss                                     steps that fail or pause
    NOTES                   Notes, whose data have a shape by kind   the runner
    QUESTIONS               SavedQuestions                           a rewind
    RECORD                  QuestionRecord                           runs on savers that are not known

A request for a run is a separate checkpoint, whose state is RequestData. So is the record of a turn
that a caller has named: its state is TurnData, and its outcome, a write, is TurnOutcome; the rest of
one that was pruned, another write, is PrunedTurn. So is the mark of a thread whose first turns were
pruned: its state is PrunedMark.

Times that give an order are whole microseconds since 1970 (`graph/stamps.py: now`); `seconds` makes
seconds of them, for people. `FORMAT`, the version of all of it, begins the fingerprint of the tree in
each position.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import BaseMessage
from langgraph.types import Interrupt
from pydantic import Field
from typing_extensions import TypedDict

from agentgraph.graph.deadlines import Substitute
from agentgraph.graph.internals import INTERRUPT, RETURN
from agentgraph.graph.lane_position import Position, Question, SavedAnswer
from agentgraph.graph.nodes.each import Items
from agentgraph.graph.nodes.lane import (
    ATTEMPTS,
    UNSAVED_CALLS,
    FormerAttempt,
    LaneResult,
    UnsavedCall,
)
from agentgraph.graph.nodes.saved_calls import CallResult, UnendedCall
from agentgraph.graph.nodes.spending import CHANNEL as LOSSES
from agentgraph.graph.nodes.spending import Loss
from agentgraph.graph.question_records import RECORD, QuestionRecord
from agentgraph.graph.stamps import ANSWERED, Asker, EventOrder, Note, Stamp
from agentgraph.graph.task_results import TAG, TaskResult
from agentgraph.graph.values import Write
from agentgraph.tree.changes import FORMAT, Outline

__all__ = [
    "ALL",
    "ATTEMPTS",
    "CHANGED",
    "CHANNELS",
    "DATA",
    "DISCARDED",
    "FORMAT",
    "KEPT",
    "LOSSES",
    "MESSAGES",
    "NOTES",
    "QUESTIONS",
    "RECEIVED",
    "RECORD",
    "RESUMED",
    "REWOUND",
    "STOPPED",
    "TAKEN",
    "UNSAVED_CALLS",
    "VALUES",
    "Asker",
    "CallResult",
    "Discarded",
    "EventOrder",
    "FormerAttempt",
    "Items",
    "LaneResult",
    "Loss",
    "Note",
    "Outline",
    "Position",
    "PrunedMark",
    "PrunedTurn",
    "QuestionRecord",
    "Received",
    "RequestData",
    "RequestKind",
    "Result",
    "Rewound",
    "SavedAnswer",
    "SavedQuestions",
    "Stamp",
    "StateCopy",
    "TaskResult",
    "TurnData",
    "TurnOutcome",
    "UnendedCall",
    "UnsavedCall",
    "Write",
]

NOTES = "agentgraph_notes"
"""The channel under which the runner saves its notes."""

RESUMED = "resumed"
"""The kind of the note that a run resumed a step. Its data: the ids of the questions it answers, each
with a digest of its answer; of a rewind, and from before there were digests, the ids alone."""
KEPT = "kept"
"""The kind of the note of answers on a thread at rest, which the next run takes. Its data: the answers,
by the ids of their questions."""
TAKEN = "taken"
"""The kind of the note of answers that lanes of an active run take. Its data: as of `KEPT`."""
RECEIVED = "heard"
"""The kind of the note up to where the events of a run were received. Its data: `Received`."""
STOPPED = "stopped"
"""The kind of the note that a run was stopped between steps: all of its events are saved, or discarded.
Its data: the reason that was given; None from before reasons were saved."""
DISCARDED = "voided"
"""The kind of the note of the events that a run discarded, for followers. Its data: `Discarded`."""
REWOUND = "rewound"
"""The kind of the note at the root's checkpoint from which a rewind continues. Its data: `Rewound`."""
CHANGED = "changed"
"""The kind of the note at a checkpoint from which a tree of another shape continues. Its data: the
`Outline` of that tree."""

ALL: Literal["all"] = "all"
"""Says that all events of a run were received. As a text it is greater than every cursor."""
Received = int | Literal["all"]
"""The number of the last event that the consumer of a run received; or that it received all."""


class Discarded(TypedDict):
    """The events that a run discarded."""

    cursor: str
    """The cursor of its `discarded` event."""
    ids: list[str]
    """The ids of events, and the names of steps."""
    is_final: bool
    """Whether it is not replayed: the words of an attempt that was repeated."""


class StateCopy(TypedDict):
    """The saved data of a rewind about the state that a graph keeps over steps."""

    namespace: str
    """Where the graph keeps its state."""
    of: str
    """The id of the checkpoint there that is copied; empty for none: the graph had kept nothing."""
    id: str
    """The id of the copy."""
    parent: str
    """The id of the checkpoint before it; empty for none."""
    parents: dict[str, str]
    """The ids of the checkpoints around it, by namespace."""


class Rewound(TypedDict):
    """The note of a rewind."""

    ids: list[str]
    """The ids of the events, and the names of the steps, that are not on the new line."""
    again: int | None
    """The number of the first event on it that is replayed; None if none is."""
    since: str
    """The id of the first checkpoint of the root that has such an event."""
    at: str
    """The address to which the thread went back."""
    states: list[StateCopy]
    """The saved states of graphs after the commit."""


QUESTIONS = "agentgraph_asked"
"""The channel under which a rewind saves the questions of what it keeps."""


class SavedQuestions(TypedDict):
    """The questions that a task had asked before a rewind: their ids could not be computed any more."""

    task: str
    """The id of the task on the new line."""
    ids: list[str]
    """The ids, as notes have them."""


RequestKind = Literal["stop", "steer", "queue", "answer"]


class RequestData(TypedDict):
    """A request to a run: the state of a checkpoint in the namespace of the requests."""

    kind: RequestKind
    """"stop"; "steer", with messages for the active run; "queue", for the next turn; or "answer"."""
    reason: str
    """Why the run is to stop."""
    messages: list[BaseMessage]
    answers: NotRequired[dict[str, Any]]
    """The answers, by the ids of their questions."""


class TurnData(TypedDict):
    """A turn that its caller has named: the state of a checkpoint in the namespace of the requests."""

    turn: str
    """The name."""
    message: str
    """The id of the last message of its input, by which it is found on the lines of the thread."""
    digest: str
    """A digest of the input, to compare another call with."""


class TurnOutcome(TypedDict):
    """The outcome of a named turn that ended."""

    answers: dict[str, str]
    """A digest of each answer that it got, by the id of the question."""


class PrunedTurn(TypedDict):
    """The rest of a named turn that was pruned."""

    is_done: bool
    """Whether it ran to its end."""
    reply: dict[str, Any] | None
    """The event with its last text, as JSON data; None without texts."""


class PrunedMark(TypedDict):
    """The mark of a thread whose first turns were pruned: the state of a checkpoint."""

    upto: int
    """The number of their last event."""
    began: str
    """The id of the first checkpoint that the thread had."""


Result = Annotated[LaneResult | CallResult | UnendedCall | Items | TaskResult, Field(discriminator=TAG)]
"""The results that tasks save, distinguished by a tag. Tasks that functions of users run save other
things.
"""

DATA: Mapping[str, Any] = {
    "custom": Any,
    "exit": None,
    "break_loop": None,
    "transfer_to": str,
    "chosen": str,
    "values": dict[str, Any] | list[list[Any]],
    "interrupted": Question,
    "discarded": list[str],
    "default": Substitute,
    "error": str,
    ANSWERED: SavedAnswer,
    RESUMED: list[str] | dict[str, str],
    KEPT: dict[str, Any],
    TAKEN: dict[str, Any],
    RECEIVED: Received,
    STOPPED: str | None,
    DISCARDED: Discarded,
    REWOUND: Rewound,
    CHANGED: Outline,
}
"""The data of notes, by kind. Notes of "values" may refer to data that is saved next to the note."""

MESSAGES, VALUES = "messages", "values"
"""The channels of messages and values. Their lists, or snapshots of them, are checked one by one."""
CHANNELS: Mapping[str, Any] = {
    "position": Position,
    INTERRUPT: list[Interrupt],
    RETURN: Result,
    NOTES: list[Note],
    ATTEMPTS: FormerAttempt,
    UNSAVED_CALLS: UnsavedCall,
    LOSSES: Loss,
    QUESTIONS: SavedQuestions,
}
"""The form of each value that a step has written under another channel, or that the state has there."""

"""Every shape that a thread saves, each a typed class with named fields.

Shapes that are written in `graph/` or belong to the tree are defined there, where they are written, and
named here. What the runner saves besides is defined here: its notes, which say how runs went.

    what                                   where it is saved               shape
    where a lane is                        channel `position`              Position
    what the runner notes                  write of the null task          Note, `data` by its kind

Times that give an order are whole microseconds since 1970 (`graph/stamps.py: now`); `seconds` makes
seconds of them, for people.
"""

from typing import Literal

from typing_extensions import TypedDict

from agentgraph.graph.stamps import Moment, Note
from agentgraph.graph.state import Position
from agentgraph.tree.changes import Outline

__all__ = [
    "ALL",
    "CHANGED",
    "DISCARDED",
    "NOTES",
    "RECEIVED",
    "RESUMED",
    "REWOUND",
    "STOPPED",
    "Discarded",
    "Moment",
    "Note",
    "Outline",
    "Position",
    "Received",
    "Rewound",
    "StateCopy",
]

NOTES = "agentgraph_notes"
"""The channel under which the runner saves its notes."""

RESUMED = "resumed"
"""The kind of the note that a run resumed a step. Its data: the ids of the questions it answers."""
RECEIVED = "heard"
"""The kind of the note up to where the events of a run were received. Its data: `Received`."""
STOPPED = "stopped"
"""The kind of the note that a run was stopped between steps: all that it told is saved, or void."""
DISCARDED = "voided"
"""The kind of the note of what a run told to be void, for followers. Its data: `Discarded`."""
REWOUND = "rewound"
"""The kind of the note at the root's checkpoint from which a rewind goes on. Its data: `Rewound`."""
CHANGED = "changed"
"""The kind of the note at a checkpoint from which a tree of another shape goes on. Its data: the
`Outline` of that tree."""

ALL: Literal["all"] = "all"
"""Says that all events of a run were received. As a text it is greater than every cursor."""
Received = int | Literal["all"]
"""The number of the last event that the consumer of a run received; or that it received all."""


class Discarded(TypedDict):
    """What a run told to be void."""

    cursor: str
    """The cursor of its `discarded` event."""
    ids: list[str]
    """The ids of events, and the names of steps."""
    is_final: bool
    """Whether it is not replayed: the words of an attempt that was repeated."""


class StateCopy(TypedDict):
    """What a rewind saves of the state that a graph keeps over steps."""

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
    """What a rewind leaves behind."""

    ids: list[str]
    """The ids of the events, and the names of the steps, that are not on the new line."""
    again: int | None
    """The number of the first event on it that is replayed; None if none is."""
    since: str
    """The id of the first checkpoint of the root that has such an event."""
    at: str
    """The address to which the thread went back."""
    states: list[StateCopy]
    """What is saved of the states of graphs after the commit."""

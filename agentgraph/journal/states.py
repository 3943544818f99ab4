"""The states of runs: one vocabulary inside, and its words in each public type."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal


class State(StrEnum):
    """The state of a step, an activation, a call, a question or a thread."""

    RUNNING = "running"
    """A run is in it."""
    ASKS = "asks"
    """It waits for the answer of a person."""
    FAILED = "failed"
    """Its last try failed."""
    STOPPED = "stopped"
    """It has not ended, and nothing runs it."""
    DONE = "done"
    """It has ended."""
    VOID = "void"
    """It was discarded: another attempt followed, or the agent around it continued without it."""


Status = Literal["new", "running", "paused", "failed", "stopped", "done"]
"""The status of a thread; a "new" one has nothing saved."""
ListedStatus = Literal[Status, "unreadable"]
"""The same, and that of a thread in a list that this version of agentgraph cannot read."""
ActivationStatus = Literal["running", "asks", "failed", "done", "stopped"]
BarState = Literal["done", "running", "asks", "failed", "stopped", "void"]
ToolStatus = Literal["done", "failed", "rejected", "waits"]

STATUS: Mapping[State, Status] = {
    State.RUNNING: "running",
    State.ASKS: "paused",
    State.FAILED: "failed",
    State.STOPPED: "stopped",
    State.DONE: "done",
}
"""The words for a thread."""
ACTIVATION_STATUS: Mapping[State, ActivationStatus] = {
    State.FAILED: "failed",
    State.ASKS: "asks",
    State.RUNNING: "running",
    State.STOPPED: "stopped",
    State.VOID: "stopped",
    State.DONE: "done",
}
"""The words for an activation; of several steps the first state that one has is that of all."""
BAR_STATE: Mapping[State, BarState] = {
    State.RUNNING: "running",
    State.ASKS: "asks",
    State.FAILED: "failed",
    State.STOPPED: "stopped",
    State.DONE: "done",
    State.VOID: "void",
}
"""The words for a bar of a timeline."""
TOOL_STATUS: Mapping[State, ToolStatus] = {
    State.RUNNING: "waits",
    State.FAILED: "failed",
    State.DONE: "done",
}
"""The words for a call of a tool, or of an agent by a function."""

"""What becomes of what runs: one vocabulary inside, and its words in each public type."""

from enum import StrEnum


class State(StrEnum):
    """What became of a step, an activation, a call or a question.

    Its values are the words of a timeline's bars.
    """

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
    """It was discarded: another try followed, or what encloses it went on without it."""

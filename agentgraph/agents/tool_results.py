"""What tools of ours return, and the keys and names by which it is known."""

from dataclasses import dataclass

from langchain_core.messages.tool import ToolOutputMixin

TRANSFERRED = "transferred_to"
"""The key that marks the result of a transfer tool; its value is the name of the target."""
HANDOFF = "__handoff_destination"
"""The metadata key of a handoff tool's target, as in langgraph-supervisor and langgraph-swarm."""
LONG_RUNNING = "long_running"
"""The key that marks a tool whose result comes later, and what such a tool gave at once."""
FORWARD = "forward_message"
"""The tool by which a supervisor answers with a worker's message, as in langgraph-supervisor."""


@dataclass(frozen=True)
class Content(ToolOutputMixin):
    """The content of a tool result that is returned together with signals.

    Attributes:
        content: A text, or data.
    """

    content: object


@dataclass(frozen=True)
class Answer(ToolOutputMixin):
    """A text with which a tool ends its agent: the agent says it."""

    text: str

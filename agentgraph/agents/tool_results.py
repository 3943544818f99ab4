"""The results of our tools, and their keys and names."""

from dataclasses import dataclass

from langchain_core.messages.tool import ToolOutputMixin

TRANSFERRED = "transferred_to"
"""The key that marks the result of a transfer tool; its value is the name of the target."""
HANDOFF = "__handoff_destination"
"""The metadata key of a handoff tool's target, as in langgraph-supervisor and langgraph-swarm."""
LONG_RUNNING = "long_running"
"""The key that marks a tool whose result comes later, and the first result of such a tool."""
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
    """A text with which a tool ends its agent, as the agent's message."""

    text: str

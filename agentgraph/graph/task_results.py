"""The saved results of tasks, by which a node finds what ran before a pause or a failure."""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from agentgraph.graph.lane_position import Position
from agentgraph.graph.values import Write

TAG = "agentgraph"
"""The key in the saved result of a task that says what it is. Functions of users run tasks, too."""


def ours(value: object) -> Mapping[str, Any]:
    """Return the saved result of a task; empty for that of a task that a user's function ran.

    >>> ours({"agentgraph": "lane", "values": []})["values"], ours({"values": []})
    ([], {})
    """
    return value if isinstance(value, dict) and isinstance(value.get(TAG), str) else {}


class TaskResult(TypedDict):
    """The result of the task of a tool call, or of a message of a graph agent, for its node.

    Its events are emitted when the task ends, like those of a node's update.
    """

    agentgraph: Literal["tool", "node", "message"]
    """Of a tool call, of a node of a flattened graph, or of a message of a nested graph."""
    messages: list[BaseMessage]
    values: list[Write]
    position: Position
    acts: dict[str, Any]
    """The signals of a call, by kind: "exit", "break_loop", "transfer_to" (the agent's name), "task"
    (what it asks of that agent)."""
    number: int
    """The number of the call, or of the message, in the activation."""
    began: NotRequired[int]
    """When the call or the node began, in microseconds."""
    state: NotRequired[list[dict[str, object]]]
    """The call's updates of the state of the agent's middleware."""
    writes: NotRequired[list[Any]]
    """The writes of a node of a flattened graph: names of channels, and values."""

"""Parts of LangGraph's stream mode "tasks" in, what has begun and ended out; no input or output.

A node that begins is told with its input, of which `position` says where the lane is; one that ends
with what it wrote, where that says where the lane goes on. The tasks that nodes run themselves are
passed over, for what matters of them is in the nodes of their lanes; and so are the graphs of graph
agents.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agentgraph.show.activity import Activity, How
from agentgraph.tree.addresses import address, as_cursor, cursor_at
from agentgraph.tree.places import Tree

_CALLED = ("__pregel_push",)
"""What triggers a task that a node has called."""


class Began(NamedTuple):
    """An activation that has begun, or goes on in another of its nodes."""

    address: str

    def onto(self, activity: Activity, now: float) -> None:
        """Tell an activity."""
        activity.began(self.address, now)


class Ended(NamedTuple):
    """A node that has ended, and the address of what comes next in its lane."""

    address: str
    how: How
    then: str | None

    def onto(self, activity: Activity, now: float) -> None:
        """Tell an activity."""
        activity.ended(self.address, now, self.how, self.then)


class TaskParts:
    """Reads the parts of one run; remembers the tasks that run."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._running: dict[str, str] = {}

    def feed(self, part: Mapping[str, Any]) -> Began | Ended | None:
        """Return what a part tells of the tree; nothing where it tells of something else."""
        if part["type"] != "tasks" or self._tree.is_foreign(part["ns"]):
            return None
        data = part["data"]
        if "input" not in data:
            return self._ended(data)
        if data["name"] not in self._tree.by_node or tuple(data["triggers"]) == _CALLED:
            return None
        state = data["input"]
        at = self._address(data["name"], state.get("position") if isinstance(state, Mapping) else None)
        self._running[data["id"]] = at
        return Began(at)

    def _ended(self, data: Mapping[str, Any]) -> Ended | None:
        at = self._running.pop(data["id"], None)
        if at is None:
            return None
        how: How = "failed" if data["error"] else "asks" if data["interrupts"] else "done"
        position = data["result"].get("position") if isinstance(data["result"], Mapping) else None
        behind = (position or {}).get("next") or ""
        return Ended(at, how, self._address(behind, position) if behind in self._tree.by_node else None)

    def _address(self, node: str, position: Mapping[str, Any] | None) -> str:
        """Return the address of an activation at a node, also where someone jumped there."""
        position = position or {"next": None, "cursor": []}
        place = self._tree.by_node[node]
        left = self._tree.by_node.get(position["next"] or "")
        cursor = as_cursor(position["cursor"])
        return address(place, cursor if left is place else cursor_at(place, left, cursor))

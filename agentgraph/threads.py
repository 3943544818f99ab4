"""What a saver keeps of a thread, and how it is read.

Nothing here reads by itself. A function that needs something of the saver yields a request and
is sent the answer, so that sync and async runners share all but the line that calls.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, TypeVar

from langgraph.checkpoint.base import CheckpointTuple

from agentgraph.addresses import address, as_cursor
from agentgraph.errors import TreeChangedError, UnknownThreadError
from agentgraph.places import Place, Tree
from agentgraph.schemas import asking_call
from agentgraph.state import Position

T = TypeVar("T")
Reads = Generator["Request", Any, T]
"""A function that yields requests, is sent what they ask for, and returns a `T`."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Asks for the latest `CheckpointTuple` of a namespace, or None."""

    namespace: str = ""


@dataclass(frozen=True, slots=True)
class NextTasks:
    """Asks for the tasks that LangGraph runs next in a namespace."""

    namespace: str


@dataclass(frozen=True, slots=True)
class AllSaved:
    """Asks for all `CheckpointTuple`s of the thread, in all namespaces, newest first."""


@dataclass(frozen=True, slots=True)
class SaveFault:
    """Asks why the saver cannot save a value; None where it can."""

    value: Any


Request = Saved | NextTasks | AllSaved | SaveFault


def opened(tree: Tree, thread_id: str) -> Reads[CheckpointTuple]:
    """Return where a thread stands.

    Raises:
        UnknownThreadError: The saver knows nothing of the thread.
        TreeChangedError: The thread was left by a tree of another shape.
    """
    saved: CheckpointTuple | None = yield Saved()
    if saved is None:
        raise UnknownThreadError(
            f"thread {thread_id!r} is not known to this saver; start it with run(..., "
            f"thread_id={thread_id!r}), or look whether the saver is the one that ran it",
            thread_id,
        )
    position = position_of(saved)
    if position is not None and position["tree"] != tree.fingerprint:
        raise _changed(tree, thread_id, (yield AllSaved()))
    return saved


def writes_by_task(saved: CheckpointTuple) -> dict[str, dict[str, Any]]:
    """Return what the tasks of a step wrote, by their ids and by channel."""
    tasks: dict[str, dict[str, Any]] = {}
    for task, channel, value in saved.pending_writes or ():
        tasks.setdefault(task, {})[channel] = value
    return tasks


def namespace_of(saved: CheckpointTuple) -> str:
    """Return the namespace of a checkpoint; empty for the outermost lane."""
    return str(saved.config["configurable"].get("checkpoint_ns", ""))


def position_of(saved: CheckpointTuple) -> Position | None:
    """Return where the lane of a checkpoint is."""
    position: Position | None = saved.checkpoint["channel_values"].get("position")
    return position


def place_of(tree: Tree, position: Position | None) -> Place | None:
    """Return the place whose node is next; None where the lane has ended."""
    node = position["next"] if position else None
    return tree.by_node.get(node) if node else None


def placed(tree: Tree, position: Position) -> Place:
    """Return the place whose node is next, where there is one."""
    return tree.by_node[str(position["next"])]


def address_at(tree: Tree, saved: CheckpointTuple) -> str | None:
    """Return the address of the activation that is next; None where the lane has ended."""
    position = position_of(saved)
    place = place_of(tree, position)
    return address(place, as_cursor(position["cursor"])) if place and position else None


def _changed(tree: Tree, thread_id: str, newest_first: Iterable[CheckpointTuple]) -> TreeChangedError:
    positions = (position_of(saved) for saved in newest_first if not namespace_of(saved))
    was = next((p["outline"] for p in positions if p and "outline" in p), [])
    lines = unified_diff(was, tree.outline, "the tree that ran", "this tree", lineterm="", n=1)
    return TreeChangedError(
        f"thread {thread_id!r} was left by a tree of another shape, so that its place cannot be found "
        "in this one; use the tree that ran, or start a new thread",
        thread_id,
        "\n".join(lines),
    )


def number_of(asked: Any) -> int:
    """Return the number of the tool call that asks a question of LangGraph's."""
    return asking_call(asked.response_schema)

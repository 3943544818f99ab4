"""What a saver keeps of a thread, and how it is read.

Nothing here reads by itself. A function that needs something of the saver yields a request and
is sent the answer, so that sync and async runners share all but the line that calls.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, TypeVar
from uuid import uuid4

from langgraph.checkpoint.base import CheckpointTuple

from agentgraph.errors import AgentGraphError, TreeChangedError, UnknownThreadError
from agentgraph.graph.moments import Note, asking_call, note_of, step_name
from agentgraph.graph.saving import cannot_be_encoded
from agentgraph.graph.state import Position
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import address, as_cursor, way_to
from agentgraph.tree.changes import can_go_on, fingerprint_of
from agentgraph.tree.places import Place, Tree

T = TypeVar("T")
Reads = Generator["Request", Any, T]
"""A function that yields requests, is sent what they ask for, and returns a `T`."""


_NOTES = "agentgraph_notes"
"""The channel under which notes are kept that belong to no node."""
_ERROR = "__error__"
"""The channel under which LangGraph keeps how a task failed."""
_CAME_TO = {"__interrupt__", "__return__", "__error__"}
_EDITS = ("update", "fork")
"""How LangGraph marks the checkpoints that `update_state` writes."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Asks for the latest `CheckpointTuple` of a namespace, or one by its id; or None."""

    namespace: str = ""
    checkpoint_id: str | None = None


@dataclass(frozen=True, slots=True)
class NextTasks:
    """Asks for the tasks that LangGraph runs next in a namespace, or ran behind a checkpoint."""

    namespace: str
    checkpoint_id: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Asks for what a checkpoint holds, by channel; for nothing where the tree has no such lane."""

    namespace: str
    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class AllSaved:
    """Asks for the `CheckpointTuple`s that lead to the head, in all namespaces, each newest first."""


@dataclass(frozen=True, slots=True)
class SaveFault:
    """Asks why the saver cannot save a value; None where it can."""

    value: Any


@dataclass(frozen=True, slots=True)
class Keep:
    """Asks to keep something beside a checkpoint, under a channel and the id of a task."""

    saved: CheckpointTuple
    task_id: str
    channel: str
    value: Any


Request = Saved | NextTasks | State | AllSaved | SaveFault | Keep


def keep_failure(error: BaseException, told: Sequence[Note]) -> Reads[None]:
    """Keep what ended a run, and what told it.

    LangGraph keeps the failure of a step that is alone only if that is an `Exception`.
    """
    saved: CheckpointTuple | None = yield Saved()
    if saved is None:
        return
    if not isinstance(error, Exception):
        ids = [each.id for each in (yield NextTasks(""))]
        if len(ids) == 1 and ids[0] not in writes_by_task(saved):
            yield Keep(saved, ids[0], _ERROR, error)
    yield from keep_notes(saved, told)


def keep_notes(saved: CheckpointTuple, notes: Sequence[Note]) -> Reads[None]:
    """Keep notes beside a checkpoint, under an id that is none of a task's."""
    if notes:
        yield Keep(saved, str(uuid4()), _NOTES, [note.plain() for note in notes])


def kept_beside(saved: CheckpointTuple) -> list[Note]:
    """Return the notes that are kept beside a checkpoint."""
    kept = [writes.get(_NOTES, ()) for writes in writes_by_task(saved).values()]
    return [note_of(note) for notes in kept for note in notes]


def step_at(saved: CheckpointTuple) -> str:
    """Return the name of the step behind a checkpoint; empty where the lane has ended."""
    position = position_of(saved)
    node = position["next"] if position else None
    return step_name(saved.checkpoint["id"], node) if node else ""


def checked_id(thread_id: object) -> str:
    """Return the id of a thread, as all savers can keep it.

    Raises:
        AgentGraphError: It is no id.
    """
    if not isinstance(thread_id, str) or not thread_id:
        raise AgentGraphError(
            f"thread_id must be a non-empty string, got {shown(thread_id)}; pass the name of a thread, "
            "such as 'monday', or leave it out of a run for a new one"
        )
    if "\0" in thread_id or cannot_be_encoded(thread_id):
        raise AgentGraphError(
            f"thread_id {shown(thread_id)} has a zero byte or half a surrogate pair in it, which "
            "databases do not keep; pass another name"
        )
    return thread_id


def opened(tree: Tree, thread_id: str) -> Reads[CheckpointTuple]:
    """Return where a thread stands.

    Raises:
        UnknownThreadError: The saver knows nothing of the thread.
        TreeChangedError: The thread was left by a tree of another shape.
    """
    saved: CheckpointTuple | None = yield Saved()
    if saved is None:
        raise UnknownThreadError(
            f"thread {shown(thread_id)} is not known to this saver; start it with run(..., "
            f"thread_id={shown(thread_id)}), or look whether the saver is the one that ran it",
            thread_id,
        )
    position = position_of(saved)
    if position is not None and position["tree"] != tree.fingerprint:
        every: list[CheckpointTuple] = yield AllSaved()
        was = _outline(every)
        visited = {each["next"] for each in map(position_of, every) if each}
        if fingerprint_of(was) != position["tree"] or not can_go_on(
            was, tree.outline, position["next"], visited
        ):
            raise _changed(tree, thread_id, was)
    return saved


def before_edits(saved: CheckpointTuple) -> Reads[CheckpointTuple]:
    """Return the root's checkpoint behind which the step ran that is next."""
    return of_the_next_step((yield from where_it_ran(saved)), saved)


def of_the_next_step(ran: CheckpointTuple, saved: CheckpointTuple) -> CheckpointTuple:
    """Return the checkpoint before all edits, if these left the position as it was; else the last."""
    was, now = position_of(ran), position_of(saved)
    stayed = was and now and (was["next"], was["cursor"]) == (now["next"], now["cursor"])
    return ran if stayed else saved


def where_it_ran(saved: CheckpointTuple) -> Reads[CheckpointTuple]:
    """Return the root's checkpoint where the last run was, which is before all edits.

    `update_state` writes a checkpoint of its own, beside which nothing lies of what a step came to.
    Beside one that was forked lies nothing either, if its step went on in another line.
    """
    if not _is_edit(saved):
        return saved
    every: list[CheckpointTuple] = yield AllSaved()
    line = {each.checkpoint["id"]: each for each in every if not namespace_of(each)}
    origin: CheckpointTuple | None = saved
    while origin is not None and _is_edit(origin):
        before = (origin.parent_config or {}).get("configurable", {})
        origin = line.get(before.get("checkpoint_id", ""))
    return origin or saved


def _is_edit(saved: CheckpointTuple) -> bool:
    """Tell whether a checkpoint is an edit behind which nothing has run."""
    return saved.metadata.get("source") in _EDITS and not ran_behind(saved)


def ran_behind(saved: CheckpointTuple) -> set[str]:
    """Return the tasks behind a checkpoint that asked, failed or handed something back."""
    return {task for task, writes in writes_by_task(saved).items() if writes.keys() & _CAME_TO}


def has_ended(saved: CheckpointTuple) -> bool:
    """Tell whether the step behind a checkpoint ended."""
    return any("position" in writes for writes in writes_by_task(saved).values())


def writes_by_task(saved: CheckpointTuple) -> dict[str, dict[str, Any]]:
    """Return what the tasks of a step wrote, by their ids and by channel."""
    tasks: dict[str, dict[str, Any]] = {}
    for task, channel, value in saved.pending_writes or ():
        tasks.setdefault(task, {})[channel] = value
    return tasks


def newest(newest_first: Iterable[CheckpointTuple]) -> dict[str, CheckpointTuple]:
    """Return the last checkpoint of each namespace."""
    heads: dict[str, CheckpointTuple] = {}
    for saved in newest_first:
        heads.setdefault(namespace_of(saved), saved)
    return heads


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


def order_of(lane: Place, at: str) -> int:
    """Return where a lane stands among those of its node, by an address in it: its result's number."""
    if lane.is_called:
        part = at.split("/")[len(way_to(lane)) - 1]
        return int(part.partition("(")[2].partition(")")[0].partition(".")[0])
    return lane.rank


def _outline(newest_first: Iterable[CheckpointTuple]) -> list[str]:
    """Return the outline that a thread keeps of its tree; nothing where it keeps none."""
    positions = (position_of(saved) for saved in newest_first if not namespace_of(saved))
    return next((p["outline"] for p in positions if p and "outline" in p), [])


def _changed(tree: Tree, thread_id: str, was: Sequence[str]) -> TreeChangedError:
    lines = unified_diff(was, tree.outline, "the tree that ran", "this tree", lineterm="", n=1)
    return TreeChangedError(
        f"thread {shown(thread_id)} was left by a tree of another shape, so that its place cannot be "
        "found in this one; use the tree that ran, or start a new thread",
        thread_id,
        "\n".join(lines),
    )


def number_of(asked: Any) -> int:
    """Return the number of the tool call that asks a question of LangGraph's."""
    return asking_call(asked.response_schema)

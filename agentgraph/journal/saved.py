"""A checkpoint as it is saved, decoded once."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from sys import intern
from typing import Any, cast
from uuid import UUID

from langchain_core.messages import convert_to_messages
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START

from agentgraph.graph.internals import ERROR, INTERRUPT, PULL, RETURN, TRIGGER
from agentgraph.graph.lane_position import Position, clock_in, reduced_position
from agentgraph.graph.nodes.lane import ATTEMPTS, FormerAttempt, attempts_in
from agentgraph.graph.stamps import Note, note_of, step_name
from agentgraph.graph.task_ids import called_tasks, joined, node_task
from agentgraph.graph.task_results import ours
from agentgraph.journal.schema import NOTES
from agentgraph.safe_repr import shown_error

Written = Mapping[str, Any]
"""The writes or the result of a task, the input of a turn, or a state, by channel."""
Writes = Mapping[str, Written]
"""The writes of the tasks of a step, by task id."""

NO_TASK = "00000000-0000-0000-0000-000000000000"
"""The task id of writes that belong to no task: the next step begins with them."""
REQUESTS = "agentgraph_requests"
"""The namespace of the requests for a run on the thread."""
MARK = "00000000-0000-0000-0000-000000000000"
"""The id, in that namespace, of the mark of a thread whose first turns were pruned."""
MARK_VERSION = f"1.{MARK}"
"""The version of the channels of that mark."""
COPIED = "agentgraph_steps"
"""The metadata key of a checkpoint that a rewind copied: the names that its step had before."""
COPIED_TO = "agentgraph_copied_to"
"""The metadata key of the root's checkpoints on a copy of a thread, but its head: the id of that."""

_COUNTERS = "counters_since_delta_snapshot"
"""The metadata key of LangGraph's counters, which say when a delta channel is stored whole."""
_PLAIN = {"next", "cursor", "tree", "at", "clock", "began", "spent"}
"""The fields of positions without values of users."""
_READ = ("v", "id", "ts", "channel_values")
"""The part of a checkpoint that is read, and stays as it is."""
_NOTHING: dict[str, Any] = {}
_CHANNEL = itemgetter(1)
_RESULTS = {INTERRUPT, RETURN, ERROR}
_EDITS = ("update", "fork")
"""The sources of checkpoints that `update_state` writes."""
_TICKS_TO_1970, _TICKS_A_SECOND = 0x01B21DD213814000, 10_000_000
"""The time in ids: from when it counts, and how fast."""


class Saved(CheckpointTuple):
    """A checkpoint, with the writes of the step after it. Each part is decoded once."""

    def lean(self, after: "Saved | None" = None) -> "Saved":
        """Return it without what only LangGraph reads, and with one object for equal parts.

        It takes a third of the memory. If it were saved again, a run could not continue from it.

        Args:
            after: The checkpoint after it, if it is known: it has the config of this one, and the
                position that its step wrote.
        """
        own, config, position = cast(Any, self.checkpoint), self.config, None
        if after is not None:
            config = after.parent_config if after.parent_config == config else config
            position = after.checkpoint["channel_values"].get("position")
        versions: dict[str, Any] = {**own["channel_versions"]}
        metadata: dict[Any, Any] = {}
        for name, each in versions.items():
            versions[name] = intern(each) if type(each) is str else each
        for key, each in self.metadata.items():
            metadata[intern(key) if type(key) is str else key] = (
                intern(each) if type(each) is str else each
            )
        metadata.pop(_COUNTERS, None)
        if not metadata.get("parents"):
            metadata["parents"] = _NOTHING
        checkpoint = {name: own[name] for name in _READ}
        checkpoint |= {"channel_versions": versions, "versions_seen": _NOTHING}
        writes = tuple(self.pending_writes or ())
        with suppress(TypeError):  # a saver may have a custom class of texts
            writes = tuple(
                (intern(task), intern(name), position if _is_same(value, position) else value)
                for task, name, value in writes
            )
        parts = {"checkpoint": checkpoint, "metadata": metadata, "pending_writes": writes}
        lean = self._replace(config=config, **cast(Any, parts))
        vars(lean).update(vars(self))  # what was decoded for its checks
        return lean

    @cached_property
    def id(self) -> str:
        """Its id."""
        return self.checkpoint["id"]

    @cached_property
    def namespace(self) -> str:
        """Its namespace; empty for the outermost lane."""
        return str(self.config["configurable"].get("checkpoint_ns", ""))

    @cached_property
    def key(self) -> tuple[str, str]:
        """Its namespace and its id."""
        return self.namespace, self.id

    @property
    def is_request(self) -> bool:
        """Whether it is a request for a run, and not of the thread's graph."""
        return self.namespace == REQUESTS

    @cached_property
    def parent_id(self) -> str:
        """The id of the checkpoint before it, in its namespace; empty for the first."""
        return str((self.parent_config or {}).get("configurable", {}).get("checkpoint_id", ""))

    @cached_property
    def root_id(self) -> str:
        """The id of the root's checkpoint in whose step it is; of the root's, its own."""
        parents = self.metadata.get("parents", {})
        return str(parents.get("", "") if self.namespace else self.id)

    @cached_property
    def time(self) -> float:
        """When it was saved, in seconds since 1970."""
        return datetime.fromisoformat(self.checkpoint["ts"]).timestamp()

    @cached_property
    def first_time(self) -> float:
        """When its step was reached first: of a checkpoint that rewinds copied, before them.

        The ids of checkpoints have their times.
        """
        if not self.metadata.get(COPIED):
            return self.time
        return time_in_id(self.steps[-1].partition(":")[0])

    @cached_property
    def notes(self) -> Sequence[Note]:
        """The notes of the runner that are saved with it."""
        found: list[Note] = []
        for _, channel, notes in self.pending_writes or ():
            if channel == NOTES:
                found += map(note_of, notes)
        return found or ()

    @cached_property
    def writes(self) -> Writes:
        """The writes of the tasks of the step after it, by task id and channel."""
        return self.read_writes()

    def read_writes(self) -> Writes:
        """Return the same for who reads it once: it is not kept."""
        tasks: dict[str, dict[str, object]] = {}
        for task, channel, value in self.pending_writes or ():
            tasks.setdefault(task, {})[channel] = value
        return tasks

    @cached_property
    def results(self) -> Writes:
        """The results of the tasks that the step after it ran, without those of users, by task id."""
        results: dict[str, Written] = {}
        for task, channel, value in self.pending_writes or ():
            if channel == RETURN and (result := ours(value)):
                results[task] = result
        return results or _NOTHING

    @property
    def ran_after(self) -> set[str]:
        """The tasks of the step after it that asked, failed, or returned something."""
        return {task for task, writes in self.writes.items() if writes.keys() & _RESULTS}

    @cached_property
    def position(self) -> Position | None:
        """Where the lane is; if a turn begins after it, at the turn's start."""
        position: Position | None = self.checkpoint["channel_values"].get("position")
        if START not in self.checkpoint["channel_values"] or (begun := self._input_channel) is None:
            return position
        return (
            reduced_position(position, begun["position"])
            if position
            else cast(Position, begun["position"])
        )

    @cached_property
    def clock(self) -> tuple[int, int]:
        """The turn at its position, and the greatest number of an event in it so far."""
        return clock_in(self.position)

    @cached_property
    def next_node(self) -> str | None:
        """The node that LangGraph runs next; None if the lane has ended.

        LangGraph attributes an edit to the node that ran last, and follows the edge from there. That
        may differ from the position in the state.
        """
        if self.position is None:
            return None
        led = self.triggered
        return led[0] if len(led) == 1 else self.position["next"]

    @property
    def triggered(self) -> list[str]:
        """The nodes that the step before it has triggered.

        A saver that stores channels by their versions, as LangGraph's in memory does, also returns the
        triggers of nodes that no later graph has, which nothing has cleared.
        """
        values, versions = self.checkpoint["channel_values"], self.checkpoint["channel_versions"]
        if not (triggers := [name for name in values if name.startswith(TRIGGER)]):
            return []
        newest: Any = max(cast(Any, versions).values())
        return [name.removeprefix(TRIGGER) for name in triggers if versions.get(name) == newest]

    @cached_property
    def step(self) -> str:
        """The name of the step after it; empty if the lane has ended."""
        return step_name(self.id, self.next_node) if self.next_node else ""

    @cached_property
    def steps(self) -> Sequence[str]:
        """The names of the step after it: its own, and those before it was copied."""
        copied = cast(Sequence[str], self.metadata.get(COPIED, ()))
        return [*([self.step] if self.step else ()), *copied]

    @cached_property
    def task(self) -> str:
        """The id of the task of the node that runs after it."""
        number = int(self.metadata.get("step", 0)) + 1
        return node_task(self.id, self.namespace, number, str(self.next_node))

    @cached_property
    def called_task(self) -> Callable[[str, int], str]:
        """Returns the id of a task that the node after it calls, by the task's name and call number."""
        node, number = str(self.next_node), int(self.metadata.get("step", 0)) + 1
        within = f"{joined(self.namespace, node)}:{self.task}"
        return called_tasks(self.id, within, number, (PULL, node))

    @property
    def has_ended(self) -> bool:
        """Whether the step after it ended."""
        return "position" in map(_CHANNEL, self.pending_writes or ())

    @cached_property
    def attempts(self) -> Sequence[FormerAttempt]:
        """The attempts of tool calls that are saved with it; those of each call in order."""
        has_some = ATTEMPTS in map(_CHANNEL, self.pending_writes or ())
        return attempts_in(self) if has_some else ()

    @property
    def begins_turn(self) -> bool:
        """Whether a turn begins after it: LangGraph's own step reads the input there."""
        return START in self.checkpoint["channel_values"]

    @property
    def turn_input(self) -> dict[str, Any] | None:
        """The input of the turn that begins after it, in the form of `StampedInput`.

        If the step that reads it has ended, its messages have the ids that they got there. None if no
        turn of a tree begins there.
        """
        if (begun := self._input_channel) is None:
            return None
        read = next((each for each in self.writes.values() if "position" in each), {})
        messages = read.get("messages", begun.get("messages")) or []
        several = messages if isinstance(messages, list | tuple) else [messages]
        values = begun.get("values") or []
        return {
            **begun,
            "messages": convert_to_messages(several),
            "values": [values] if isinstance(values, Mapping) else [*values],
        }

    @property
    def _input_channel(self) -> Written | None:
        channel = self.checkpoint["channel_values"].get(START)
        is_turn = isinstance(channel, Mapping) and "outline" in (channel.get("position") or {})
        return channel if is_turn else None

    @property
    def is_manual(self) -> bool:
        """Whether `update_state` or a fork wrote it, and no run or rewind did."""
        return self.metadata.get("source") in _EDITS and COPIED not in self.metadata

    @property
    def is_edit(self) -> bool:
        """Whether it is an edit after which nothing has run."""
        return self.is_manual and not self.ran_after

    @property
    def is_cut_short(self) -> bool:
        """Whether a thread with this head is a copy that was not completed."""
        return COPIED_TO in self.metadata


def _is_same(value: object, position: Mapping[str, object] | None) -> bool:
    is_plain = isinstance(value, dict) and "next" in value and value.keys() <= _PLAIN
    return is_plain and value == position


def error_in(writes: Written) -> str | None:
    """Return the error that a task saved, as text; None if there is none."""
    error = writes.get(ERROR)
    return error if isinstance(error, str | None) else shown_error(error)


def is_stop(error: str) -> bool:
    """Return whether a task with an error did not fail, but was stopped from outside."""
    return error.startswith(("CancelledError(", "KeyboardInterrupt("))


def parts_of(namespace: str) -> list[str]:
    """Return the parts of a namespace, each a node with its task.

    >>> parts_of("review:1|legal:2"), parts_of("")
    (['review:1', 'legal:2'], [])
    """
    return namespace.split("|") if namespace else []


def time_in_id(checkpoint_id: str) -> float:
    """Return the time in the id of a checkpoint, a UUID of version 6, in seconds since 1970."""
    number = UUID(checkpoint_id).int
    ticks = (number >> 80 << 12) | (number >> 64 & 0xFFF)
    return (ticks - _TICKS_TO_1970) / _TICKS_A_SECOND


def began_at(checkpoint_id: str) -> float:
    """Return the time in the id of a thread's first checkpoint, in seconds since 1970.

    0 if it has none: not all ids that others save are UUIDs of version 6.

    >>> began_at("1f1eb8c3-8f45-6505-bfff-117d0a00868f") > 0, began_at("first")
    (True, 0.0)
    """
    try:
        return time_in_id(checkpoint_id) if UUID(checkpoint_id).version == 6 else 0.0
    except ValueError:
        return 0.0


def keeps_state(namespace: str) -> bool:
    """Return whether a namespace is that of a graph with `checkpointer=True`: it names no tasks.

    Such a graph continues from the last checkpoint there, whichever activation or turn saved it.
    """
    return ":" not in namespace and bool(namespace)


def without_counters(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the metadata of a checkpoint that stores all delta channels whole."""
    return {key: value for key, value in metadata.items() if key != _COUNTERS}


def unmarked(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the metadata of a checkpoint of a copy for one at which a thread may be."""
    return {key: value for key, value in metadata.items() if key != COPIED_TO}

"""Plans the new line of a thread that goes back to a visit, at any depth.

The rule: a rewind makes the saver look as it did after a kill just before the step of the visit began.
A resume does the rest, so no node knows of rewinds.

The needs of a new line are put in the saver again: the root's checkpoint of the step, with the same
parent, and all that is kept inside that step. These are the lanes on the way to the visit, as far as
they had come, and the concurrent lanes and tool calls. Everything before that step is shared by both
lines.

- Copies have new checkpoint ids. LangGraph makes the ids of tasks of the checkpoint's, and the
  namespaces of lanes of those: so both are new too, and computed as LangGraph computes them. If the old
  ones differ from that, LangGraph does it in another way now, and the rewind is rejected.
- The root's copy is put last. Until then the thread is unchanged: a lane whose root is not there
  belongs to no line. Only the states that graphs keep over steps follow it (see `kept_states.py`).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from langgraph.constants import START

from agentgraph.graph.internals import recast_checkpoint_ns
from agentgraph.graph.stamps import Note
from agentgraph.journal.saved import COPIED, Saved, parts_of, unmarked
from agentgraph.journal.schema import DISCARDED, KEPT, NOTES, RECEIVED, RESUMED, REWOUND, TAKEN
from agentgraph.journal.thread_config import config_of
from agentgraph.threads.rewinds.copied_steps import (
    Answer,
    CopiedStep,
    Draft,
    PendingWrite,
    Route,
    now,
    parents_of,
)


class NewLine(Draft):
    """The copies of which a new line is made."""

    def route(self) -> list[Saved]:
        """Return the checkpoints from which steps ran that have the visit in them, the root's first."""
        if not self.agent_step.saved.namespace:
            return [self.root]
        by_key = {(ns, each.id): each for ns, ln in self.lanes.items() for each in ln}
        parents = sorted(parents_of(self.agent_step.saved).items(), key=_depth)
        return [*(by_key[key] for key in parents if key in by_key), self.agent_step.saved]

    def plan(
        self,
        edits: Sequence[tuple[str, object]] = (),
        answers: Sequence[Answer] = (),
        placed: Mapping[str, Sequence[BaseMessage]] = MappingProxyType({}),
    ) -> None:
        """Plan the copies.

        Args:
            edits: Channels and values that are written before the visit begins.
            answers: New answers to questions in the step of the visit.
            placed: Messages that are written before steps on the way begin, by the ids of checkpoints.
        """
        self.edits, self.answers, self.placed = edits, answers, placed
        route = self.route()
        self.bounds[""] = str(route[0].checkpoint["id"])
        self._copy(route[0], route[1:])
        self.add_notes(_of_questions([each for each in self.root.notes if self._is_kept(each)]))

    def add_notes(self, notes: Sequence[Note]) -> None:
        """Save notes with the root's copy, under an id that no task has."""
        if not notes:
            return
        *_, root = self.copies
        write: PendingWrite = str(uuid4()), NOTES, [*map(Note.plain, notes)]
        self.copies[-1] = root._replace(pending_writes=[*(root.pending_writes or ()), write])

    def _is_kept(self, note: Note) -> bool:
        """Return whether a note at the root's checkpoint stays: of what is kept, or of how it went."""
        if note.kind == DISCARDED:
            return True
        if note.kind in ("discarded", RESUMED, TAKEN):
            return bool(self.stays)
        return note.kind not in (KEPT, RECEIVED, REWOUND) and any(stays(note) for stays in self.stays)

    def _copy(self, saved: Saved, route: Route | None) -> None:
        """Copy a checkpoint, and what is kept of the step after it.

        Args:
            saved: The checkpoint.
            route: The steps inside that step on the way to the visit; None if all of it is kept.
        """
        writes, lanes = [*(saved.pending_writes or ())], list[str]()
        place = self.tree.by_node.get(saved.next_node or "")
        if place is not None and START not in saved.checkpoint["channel_values"]:
            writes, lanes = CopiedStep(self, saved, place).kept(route)
        for lane in lanes:
            self._copy_lane(lane, route if route and route[0].namespace == lane else None)
        self._add(saved, writes, is_on_route=route is not None)

    def _copy_lane(self, namespace: str, route: Route | None) -> None:
        """Copy a lane: up to its step on the way to the visit, or whole."""
        line = self.lanes[namespace]
        if route:
            line = [each for each in line if each.id <= route[0].checkpoint["id"]]
        restarts = bool(route) or self._runs_graph(line[-1])
        bound = str(line[-1].checkpoint["id"]) if restarts else None
        self.bounds[recast_checkpoint_ns(namespace)] = bound
        for saved in line[:-1]:
            self._copy(saved, None)
        self._copy(line[-1], route[1:] if route else None)

    def _runs_graph(self, saved: Saved) -> bool:
        place = self.tree.by_node.get(saved.next_node or "")
        has_ended = any("position" in writes for writes in saved.writes.values())
        return place is not None and place.kind.runs_graph and not has_ended

    def parents_of(self, saved: Saved) -> dict[str, str]:
        """Return the ids of the checkpoints around one on the new line, by their namespaces."""
        return {self.new_name(ns): self.new_id(each) for ns, each in parents_of(saved).items()}

    def _add(self, saved: Saved, writes: list[PendingWrite], *, is_on_route: bool) -> None:
        own, name = self.new_id(saved.id), self.new_name(saved.namespace)
        parent = self.new_id(saved.parent_id)
        more: dict[str, object] = {"parents": self.parents_of(saved)}
        if self._has_new_ids:
            more |= {COPIED: saved.steps, **({} if name else {"source": "fork"})}
        when = {"ts": now()} if is_on_route else {}
        thread_id = saved.config["configurable"]["thread_id"]
        self.copies.append(
            Saved(
                config=config_of(thread_id, name, own),
                checkpoint=cast(Checkpoint, {**saved.checkpoint, "id": own, **when}),
                metadata=cast(CheckpointMetadata, {**unmarked(saved.metadata), **more}),
                parent_config=config_of(thread_id, name, parent) if parent else None,
                pending_writes=writes,
            )
        )


def _of_questions(notes: Sequence[Note]) -> list[Note]:
    """Return notes without the answers that were taken to questions which are not among them."""
    asked = {note.id for note in notes if note.kind == "interrupted"}
    kept = list[Note]()
    for note in notes:
        if note.kind == TAKEN:
            note = note._replace(data={key: each for key, each in note.data.items() if key in asked})
        if note.kind != TAKEN or note.data:
            kept.append(note)
    return kept


def _depth(parent: tuple[str, str]) -> int:
    return len(parts_of(parent[0]))

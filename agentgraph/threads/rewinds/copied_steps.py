"""Copies one step of a lane for a new line: what its node, and the tasks that it called, wrote."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from langgraph.checkpoint.base.id import uuid6
from langgraph.constants import START
from langgraph.types import Interrupt as LangGraphInterrupt

from agentgraph.errors import LangGraphChangedError
from agentgraph.graph.internals import (
    ERROR,
    INTERRUPT,
    PULL,
    RESUME,
    RETURN,
    recast_checkpoint_ns,
)
from agentgraph.graph.lane_position import Position
from agentgraph.graph.nodes.lane import ATTEMPTS, task_in
from agentgraph.graph.nodes.saved_calls import KEYED
from agentgraph.graph.nodes.spending import CHANNEL as LOSSES
from agentgraph.graph.question_records import RECORD
from agentgraph.graph.stamps import Note, number_at
from agentgraph.graph.task_ids import called_tasks, joined, node_task
from agentgraph.graph.task_results import TAG, ours
from agentgraph.journal.lines import address_at, is_foreign
from agentgraph.journal.saved import COPIED, NO_TASK, Saved, keeps_state, parts_of
from agentgraph.journal.schema import NOTES, QUESTIONS, SavedQuestions
from agentgraph.journal.steps import AgentStep, is_at_or_in
from agentgraph.journal.task_paths import MORE, number_of_lane
from agentgraph.journal.thread_config import config_of
from agentgraph.threads.rewinds.siblings import Called, Siblings, kept_siblings
from agentgraph.tree.addresses import (
    address,
    as_cursor,
    counts_around,
    parse_address,
)
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.position import start

_STOPPED = (INTERRUPT, ERROR)
"""The channels that say how a step stopped that is to continue."""
_BESIDE = {NOTES, ATTEMPTS, LOSSES, QUESTIONS, RECORD}
"""The channels of data that is saved next to tasks, under ids that LangGraph does not know."""

PendingWrite = tuple[str, str, object]
"""A task, a channel and a value."""
Route = Sequence[Saved]
"""The checkpoints from which steps ran that have a visit inside them, the outermost first."""


class Answer(NamedTuple):
    """A new answer to a question that was asked in the step of a visit.

    Attributes:
        task: The task that asked.
        question: The question.
        given: The answers that the task has had; the last may be to this question.
        answer: The new answer.
    """

    task: str
    question: LangGraphInterrupt
    given: Sequence[object]
    answer: object = None


class Draft:
    """The parts of a new line, so far.

    Attributes:
        tree: The tree.
        agent_step: The step of the visit.
        siblings: The treatment of concurrent work.
        lanes: The checkpoints of the step of the root that has the visit, by namespace.
        root: The root's checkpoint there.
        edits: Channels and values that are written before the visit begins.
        placed: Messages that take the place of others, by the id of the checkpoint from which a step on
            the way to the visit begins, or of a task of such a step, whose result has the others.
        answers: New answers to questions in the step of the visit.
        first_version: The saver's first version of a channel.
        id_before: An id that sorts before those of the copies.
        copies: The copies, in the order in which they are put: the root's is the last.
        stays: Which notes stay, for each step on the way.
        bounds: Up to which checkpoint the states are kept of the graphs in each lane, and in each call
            without a lane: its id, or None for all. The keys are namespaces without tasks.
        answered: The ids of the questions that are answered again.
    """

    edits: Sequence[tuple[str, object]] = ()
    placed: Mapping[str, Sequence[BaseMessage]] = MappingProxyType({})
    answers: Sequence[Answer] = ()

    def __init__(
        self,
        tree: Tree,
        line: Sequence[Saved],
        agent_step: AgentStep,
        siblings: Siblings,
        first_version: object,
        states: Sequence[Saved] = (),
        *,
        has_new_ids: bool = True,
    ) -> None:
        """Begin without copies.

        Args:
            tree: The tree.
            line: The checkpoints that lead to the visit.
            agent_step: The step of the visit.
            siblings: The treatment of concurrent work.
            first_version: The saver's first version of a channel.
            states: The checkpoints of states that graphs keep over steps, on the line to the visit.
            has_new_ids: Whether the copies have new ids: on another thread they need none.
        """
        self.tree, self.agent_step, self.siblings = tree, agent_step, siblings
        self.first_version = first_version
        began = agent_step.saved.root_id
        here = (each for each in line if not is_foreign(tree, each))
        inside = [each for each in (*here, *states) if each.root_id == began]
        inside.sort(key=lambda each: (bool(each.namespace), each.id))
        self.lanes: dict[str, list[Saved]] = defaultdict(list)
        for saved in inside:
            if not keeps_state(saved.namespace):
                self.lanes[saved.namespace].append(saved)
        self.root = inside[0]
        self._has_new_ids = has_new_ids
        self.id_before = new_id_for(self.root) if has_new_ids else ""
        ids = [each.id for each in inside]
        self._ids = dict(zip(ids, map(new_id_for, inside) if has_new_ids else ids, strict=True))
        self._names = {"": ""}
        self.copies: list[Saved] = []
        self.stays: list[Callable[[Note], bool]] = []
        self.bounds: dict[str, str | None] = {}
        self.answered: list[str] = []

    def new_id(self, checkpoint_id: str) -> str:
        """Return the id of a checkpoint on the new line."""
        return self._ids.get(checkpoint_id, checkpoint_id)

    def new_name(self, namespace: str) -> str:
        """Return the name of a namespace on the new line."""
        if namespace not in self._names:
            around, _, last = namespace.rpartition("|")
            self._names[namespace] = joined(self.new_name(around), last)
        return self._names[namespace]

    def rename(self, namespace: str, new: str) -> None:
        """Note the name of a namespace on the new line."""
        self._names[namespace] = new

    def lanes_in(self, within: str) -> dict[str, list[str]]:
        """Return the namespaces of the lanes that a node's task ran, by the tasks that ran them."""
        lanes = defaultdict[str, list[str]](list)
        for namespace in self.lanes:
            around, _, last = namespace.rpartition("|")
            if around == within:
                lanes[task_in(last)].append(namespace)
        return lanes


class CopiedStep:
    """A step that is copied: what its node and the tasks that it called wrote, under new ids."""

    def __init__(self, line: Draft, saved: Saved, place: Place) -> None:
        self._line, self._saved, self._place = line, saved, place
        self._by_task = saved.writes
        around, began = saved.namespace, str(saved.id)
        self._node, self._number = str(saved.next_node), int(saved.metadata.get("step", 0)) + 1
        self._own = saved.task
        self._within = joined(around, f"{self._node}:{self._own}")
        self._lanes = line.lanes_in(self._within)
        self._check_task_id(around)
        self._called = self._find_called(began)
        began, around = line.new_id(began), line.new_name(around)
        own = node_task(began, around, self._number, self._node)
        within = joined(around, f"{self._node}:{own}")
        self._new_task = called_tasks(began, within, self._number, (PULL, self._node))
        new = {task: self._new_task(each.name, each.number) for task, each in self._called.items()}
        self._ids = {self._own: own, **new}
        line.rename(self._within, within)
        for task, names in self._lanes.items():
            for each in names:
                last = parts_of(each)[-1].replace(task, new[task])
                line.rename(each, joined(within, last))

    def kept(self, route: Route | None) -> tuple[list[PendingWrite], list[str]]:
        """Return the writes that are kept, and the namespaces of the lanes that are.

        Args:
            route: The steps inside it on the way to the visit; None if all of it is kept.
        """
        if route is None:
            return self._whole(), [each for names in self._lanes.values() for each in names]
        agent_step, placed = self._line.agent_step, [*self._line.placed.get(str(self._saved.id), ())]
        if not route and agent_step.task is None:
            answered = [each for one in self._line.answers for each in self._answered(one)]
            return [*self._before(dict(self._line.edits), placed), *answered], []
        target = self._target(route)
        kept = kept_siblings(self._place, target, self._line.siblings, self._called.values())
        began = self._line.lanes[route[0].namespace][0].first_time if route else inf
        lanes = [each for task in kept for each in self._lanes.get(task, ())]
        within = recast_checkpoint_ns(self._within)
        for each in kept.values():
            if each.result and each.id not in self._lanes and each.name != target.name:
                self._line.bounds[joined(within, each.name)] = None
        on_route = self._past_attempts(target, route[0].namespace) if route else []
        come = route[0].first_time if route else 0.0
        self._line.stays.append(self._stays([*kept.values()], began, target, come))
        if agent_step.task is not None and not route and self._line.edits:
            self._line.copies.append(self._entry(target))
        writes = [
            self._on_new_line(task, channel, value)
            for task, channel, value in self._saved.pending_writes or ()
            if self._keeps_write(task, channel, value, kept.keys(), {*lanes, *on_route[:-1]}, target)
        ]
        writes += [*self._answered_before(target, began), *self._asked_by(kept)]
        return [*self._before({}, placed), *writes], [*lanes, *on_route]

    def _before(
        self, edits: Mapping[str, Any], placed: Sequence[BaseMessage]
    ) -> Iterator[PendingWrite]:
        """Yield the writes before the step begins; the last write of messages is `placed`."""
        yield from ((NO_TASK, channel, value) for channel, value in edits.items())
        if placed or "messages" in edits:
            yield NO_TASK, "messages", [*placed]

    def needed(self, route: Route) -> Iterator[Called]:
        """Yield the tasks that ended before the visit began, as it depends on them."""
        target = self._target(route)
        for each in kept_siblings(self._place, target, "rerun", self._called.values()).values():
            if "messages" in each.result:
                yield each

    def _entry(self, target: Called) -> Saved:
        """Return the first checkpoint of an item's lane that had none, with what is written there."""
        line, saved, (place, cursor) = self._line, self._saved, self._line.agent_step.activation
        began, within = line.new_id(saved.id), line.new_name(self._within)
        task = self._new_task(place.node, target.number)
        first = start(line.tree, place, cursor[: len(counts_around(place)) + 1])
        position = {"next": place.nodes.entry, "cursor": [*first.cursor], "tree": line.tree.fingerprint}
        own, step = {START: {"position": position, **dict(line.edits)}}, {"source": "input", "step": -1}
        around = line.new_name(saved.namespace)
        outer = {line.new_name(ns): line.new_id(id_) for ns, id_ in parents_of(saved).items()}
        parents = {**outer, around: began, within: began}
        versions = {START: line.first_version}
        checkpoint: dict[str, Any] = {
            **saved.checkpoint,
            "id": new_id_for(saved),
            "ts": now(),
            "channel_values": own,
        }
        checkpoint |= {"channel_versions": versions, "versions_seen": {}, "updated_channels": None}
        thread_id = saved.config["configurable"]["thread_id"]
        return Saved(
            config=config_of(thread_id, joined(within, f"{place.node}:{task}"), checkpoint["id"]),
            checkpoint=cast(Checkpoint, checkpoint),
            metadata=cast(CheckpointMetadata, {**step, "parents": parents, COPIED: []}),
        )

    def _answered(self, one: Answer) -> Iterator[PendingWrite]:
        task, within = self._ids[one.task], self._line.new_name(self._within)
        name = self._called[one.task].name if one.task in self._called else None
        was = joined(self._within, f"{name}:{one.task}") if name else self._within
        now = joined(within, f"{name}:{task}") if name else within
        several = range(len(one.given) + 1)
        nth = next((n for n in several if _question_id(was, n) == one.question.id), None)
        nth = max(len(one.given) - 1, 0) if nth is None else nth  # its own is that of an earlier line
        own = _question_id(now, nth)
        self._line.answered.append(own)
        yield task, INTERRUPT, [replace(one.question, id=own)]
        yield task, RESUME, [*one.given[:nth], one.answer]

    def _whole(self) -> list[PendingWrite]:
        """Return all writes; of a step that has not ended without how it stopped."""
        is_over = any("position" in writes for writes in self._by_task.values())
        runs_graph = self._place.kind.runs_graph
        kept = [
            self._on_new_line(task, channel, value)
            for task, channel, value in self._saved.pending_writes or ()
            if channel not in (QUESTIONS, RECORD)
            and (is_over or not (channel in _STOPPED or (runs_graph and channel == RETURN)))
        ]  # an active graph begins its step from scratch
        return [*kept, *self._asked_by(self._called)]

    def _keeps_write(
        self, task: str, channel: str, value: Any, kept: Set[str], lanes: Set[str], target: Called
    ) -> bool:
        if channel in (NOTES, LOSSES, QUESTIONS, RECORD):
            return False
        if channel == ATTEMPTS:
            return bool(value["namespace"] in lanes)
        if channel == RETURN and _is_unended(value):
            is_before = value["saved"] < target.ended
            return bool(is_before) and value["call"] != target.result.get("call", _call_in(target))
        return task in kept and channel not in _STOPPED

    def _asked_by(self, kept: Iterable[str]) -> Iterator[PendingWrite]:
        """Yield the saved data of the questions of tasks, whose ids another line could not compute."""
        for task in kept:
            if asked := self._questions(task):
                yield str(uuid4()), QUESTIONS, SavedQuestions(task=self._ids[task], ids=sorted(asked))

    def _questions(self, task: str) -> set[str]:
        asked = {
            each
            for writes in self._by_task.values()
            if QUESTIONS in writes and writes[QUESTIONS]["task"] == task
            for each in writes[QUESTIONS]["ids"]
        }
        writes, within = self._by_task.get(task, {}), f"{self._called[task].name}:{task}"
        if RESUME in writes or INTERRUPT in writes:
            several = range(len(writes.get(RESUME, ())) + 1)
            asked |= {_question_id(joined(self._within, within), n) for n in several}
        return asked

    def _answered_before(self, target: Called, began: float) -> Iterator[PendingWrite]:
        """Yield the answers that the node, or the task on the way, had before a time."""
        at = address_at(self._line.tree, self._saved)
        asked = [each for each in self._line.root.notes if each.kind == "interrupted"]
        count = sum(each.address == at and _time(each) < began for each in asked)
        for task in (self._own, target.id):
            answers = self._by_task.get(task, {}).get(RESUME, [])[:count]
            if answers:
                yield self._on_new_line(task, RESUME, answers)

    def _past_attempts(self, target: Called, own: str) -> list[str]:
        """Return the namespaces of the attempts of a task's lane up to one, that one last."""
        several = sorted(self._lanes.get(target.id, ()), key=_attempt)
        return [each for each in several if _attempt(each) < _attempt(own)] + [own]

    def _stays(
        self, kept: Sequence[Called], began: float, target: Called, come: float
    ) -> Callable[[Note], bool]:
        """Return which notes are of what is kept of this step.

        Args:
            kept: The tasks that are kept.
            began: When the lane on the way began, in seconds since 1970.
            target: The task that ran it.
            come: When it came to the step on the way; its steps before that are kept.
        """
        at = address_at(self._line.tree, self._saved)
        asked = set().union(*(self._questions(each.id) for each in kept))

        def stays(note: Note) -> bool:
            if note.address == at and (note.id in asked or _time(note) < began):
                return True
            if target.at and is_at_or_in(note.address, target.at) and _time(note) < come:
                return True
            return any(each.at and is_at_or_in(note.address, each.at) for each in kept)

        return stays

    def _target(self, route: Route) -> Called:
        if route:
            return self._called[task_in(parts_of(route[0].namespace)[len(parts_of(self._within))])]
        agent_step = self._line.agent_step
        if agent_step.task:
            return self._called[agent_step.task]
        place, cursor = agent_step.activation
        return Called(
            "", place.node, number_of_lane(place, cursor), agent_step.visit.address, place, 0.0, {}
        )

    def _on_new_line(self, task: str, channel: str, value: Any) -> PendingWrite:
        if channel == ATTEMPTS:
            name = self._line.new_name(value["namespace"])
            value = {**value, "task": self._ids[value["task"]], "namespace": name}
        if channel == RETURN and task in self._line.placed:
            placed = {each.id: each for each in self._line.placed[task]}
            value = {**value, "messages": [placed.get(each.id, each) for each in value["messages"]]}
        return self._ids.get(task, task), channel, value

    def _check_task_id(self, around: str) -> None:
        """Check that the node's task has the id that LangGraph is known to compute.

        Raises:
            LangGraphChangedError: It has another one.
        """
        own = around, self._saved.id
        inside = (ns for ns, line in self._line.lanes.items() if own in parents_of(line[0]).items())
        if any(not each.startswith(f"{self._within}|") for each in inside):
            raise LangGraphChangedError(version("langgraph"), self._node)

    def _find_called(self, began: str) -> dict[str, Called]:
        """Return the tasks that the node called, by id.

        Raises:
            LangGraphChangedError: One has another id than LangGraph is known to compute.
        """
        place = self._place
        ids = {task for task, writes in self._by_task.items() if self._is_task(task, writes)}
        ids |= self._lanes.keys()
        if place.kind.runs_graph or not ids:
            return {}
        about = {task: self._about(task) for task in ids}
        lanes = [lane.node for lane in self._line.tree.lanes(place)]
        names = [*lanes, place.nodes.call, f"{place.node}.over"]
        likely = [number for *_, number in about.values() if number is not None]
        task_id = called_tasks(began, self._within, self._number, (PULL, self._node))
        found: dict[str, Called] = {}
        for number in dict.fromkeys([*likely, *range(4 * len(ids) + MORE)]):
            for name in names:
                task = task_id(name, number)
                if task in ids and task not in found:
                    at, lane, when, _ = about[task]
                    came = ours(self._by_task.get(task, {}).get(RETURN))
                    found[task] = Called(task, name, number, at, lane, when, came)
            if len(found) == len(ids):
                return found
        position, agent_step = self._saved.position, self._line.agent_step
        is_changed = position is not None and position["tree"] != self._line.tree.fingerprint
        if is_changed and agent_step.saved is self._saved and agent_step.task is None:
            return found  # all of it runs again, and the tree may have no such lane any more
        if not any(self._is_own(task) for task in ids - found.keys()):
            return found
        raise LangGraphChangedError(version("langgraph"), self._node)

    def _is_task(self, task: str, writes: Mapping[str, object]) -> bool:
        """Return whether writes are those of a task that the node called, and no user's function."""
        is_users = RETURN in writes and not ours(writes[RETURN])
        is_beside = writes.keys() <= _BESIDE or _is_unended(writes.get(RETURN))
        return task not in (self._own, NO_TASK) and not (is_beside or is_users)

    def _is_own(self, task: str) -> bool:
        """Return whether the node has called a task for sure.

        Others that stopped may be tasks of a user's function. Edits of the state save writes too, under
        an id that no task has.
        """
        return task in self._lanes or RETURN in self._by_task.get(task, {})

    def _about(self, task: str) -> tuple[str, Place | None, int, int | None]:
        """Return the address and the place of a task's lane, when it began, and its likely number."""
        tree, came = self._line.tree, ours(self._by_task.get(task, {}).get(RETURN))
        began = int(came.get("began", 0))
        if names := self._lanes.get(task):
            first = self._line.lanes[min(names, key=_attempt)][0]
            began = number_at(first.first_time)  # a lane that runs again began when it did first
            name = parts_of(first.namespace)[-1].partition(":")[0]
            place = next(each for each in tree.lanes(self._place) if each.node == name)
            cursor = as_cursor(_first_position(first)["cursor"])[: len(place.counts)]
        else:
            activation = parse_address(tree, (came.get("position") or {}).get("at") or "")
            if activation is None or activation[0] not in tree.lanes(self._place):
                return "", None, began, came.get("number")
            place, cursor = activation
        return address(place, cursor), place, began, number_of_lane(place, cursor)


def _question_id(namespace: str, nth: int) -> str:
    """Return the id of the nth question of a task, from 0, as LangGraph makes it."""
    return LangGraphInterrupt.from_ns(None, f"{namespace}|{nth}" if nth else namespace).id


def parents_of(saved: Saved) -> Mapping[str, str]:
    """Return the ids of the checkpoints around one, by the namespaces of lanes and of nodes' tasks."""
    return saved.metadata.get("parents", {})


def now() -> str:
    """Return the time as checkpoints have it."""
    return datetime.now(UTC).isoformat()


def new_id_for(saved: Saved) -> str:
    """Return an id for a copy of a checkpoint, greater than all that this process made before."""
    return str(uuid6(clock_seq=saved.metadata.get("step", 0)))


def _attempt(namespace: str) -> int:
    return int(namespace.rpartition("|")[2].partition("~")[2] or 0)


def _is_unended(value: object) -> bool:
    """Return whether a value is what is saved of a function's call that has no result."""
    return ours(value).get(TAG) == "unended"


def _call_in(target: Called) -> object:
    return target.number if target.number < KEYED else target.at.rpartition("(")[2].rstrip(")")


def _time(note: Note) -> float:
    return note.order.time if note.order else inf


def _first_position(first: Saved) -> Position:
    channels = first.checkpoint["channel_values"]
    begun: Mapping[str, Position] = channels.get(START) or channels
    return begun["position"]

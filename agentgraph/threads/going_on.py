"""What a run that goes on with a thread tells first, what it must know, and what it keeps.

A run keeps, as it ends, up to when its reader had heard what it told: all, or less where it was left.
What was not heard is told now, and what was in flight is void. A run that kept no such mark was killed,
and nobody knows what was heard: LangGraph may save a step before it tells it. So all that the step in
flight and the one before told is void, by their names, and what is kept of it is told again.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple
from uuid import uuid4

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START
from langgraph.types import Command

from agentgraph.events.events import AgentEvent
from agentgraph.events.translation import Translator, question_note
from agentgraph.graph.moments import Entry, Moment, Note, moment_of, number_told
from agentgraph.graph.nodes.telling import Before, Clock
from agentgraph.graph.state import address_of, clock_in
from agentgraph.threads.replay import UNTOLD, all_told, entries, failures
from agentgraph.threads.threads import (
    AllSaved,
    Reads,
    Saved,
    has_ended,
    keep_notes,
    kept_beside,
    namespace_of,
    newest,
    of_the_next_step,
    position_of,
    step_at,
    where_it_ran,
    writes_by_task,
)
from agentgraph.tree.addresses import root_address
from agentgraph.tree.places import Tree


class GoingOn(NamedTuple):
    """How a run goes on with a thread.

    Attributes:
        begin: Behind what was told before.
        first: What it tells first.
        questions: What was told of the questions of the step: one that a run was killed with, though it
            was answered, may be asked again.
        before: What its nodes must know.
        notes: What it keeps beside the step that goes on.
        beside: That step; None where none is under way.
    """

    begin: Moment = Moment(0, 0, "")
    first: Sequence[AgentEvent] = ()
    questions: Sequence[AgentEvent] = ()
    before: Before = (0, ())
    notes: Sequence[Note] = ()
    beside: CheckpointTuple | None = None

    def keep(self) -> Reads[None]:
        """Keep what is to be kept, as the run begins."""
        if self.beside is not None:
            yield from keep_notes(self.beside, self.notes)


def going_on(tree: Tree, thread_id: str, given: Any) -> Reads[GoingOn]:
    """Return how a run goes on.

    Args:
        tree: The tree.
        thread_id: The thread.
        given: What LangGraph is given: input, where a turn begins, or a command or None to go on.
    """
    saved: CheckpointTuple | None = yield Saved()
    position = position_of(saved) if saved else None
    if saved is None or position is None:
        return GoingOn()
    is_turn = not isinstance(given, Command | None)
    turn, last = clock_in(position)
    ran = yield from where_it_ran(saved)
    heard = yield from _heard(ran, is_edited=ran is not saved)
    if position["next"] is None and heard == inf:
        return GoingOn(Moment(turn + is_turn, last, ""), before=(last, ()))
    origin = of_the_next_step(ran, saved) if position["next"] else saved
    is_cut = position["next"] is not None and _is_cut_short(origin)
    line = [origin]
    if heard != inf or tree.may_void or (tree.runs_tasks and (is_cut or _has_failed(origin))):
        line = yield AllSaved()
    every = _since(line, origin)
    told = entries(tree, every)
    open_ = _open(told, every, _answered_before(origin))
    answered = _answered(given, open_)
    dropped = list(open_) if is_turn else []
    if heard is None:
        void = _retold(tree, _unsure(line, ran))
    elif heard < inf:
        void = _unheard(tree, line, heard, _heads(every) if is_cut else ())
    else:  # it is only cut where another line went on
        void = _retold(tree, every) if is_cut else _Void()
    again = [each for each in void.again if each.id not in dropped]
    ids = [*dropped, *void.of, *(each.id or "" for each in again)]
    clock = Clock(
        turn, max([last, *map(number_told, [*told, *kept_beside(saved), *kept_beside(origin)])])
    )
    note = partial(_note, clock, root_address(tree))
    first = [note("discarded", [*dict.fromkeys(ids)])] if ids else []
    keeps = [note("discarded", dropped)] if dropped else []
    translator = Translator(tree, thread_id)
    left = [open_[each] for each in open_ if each not in {*answered, *dropped}]
    return GoingOn(
        begin=Moment(turn + is_turn, clock.last, ""),
        first=[translator.event(each) for each in [*first, *again]],
        questions=[translator.event(each) for each in _questions(told) if each.id not in dropped],
        before=(clock.last, [_known(each, {note.id for note in left}) for each in told]),
        notes=[*(open_[each] for each in answered), *void.failed, *keeps, note("resumed", answered)],
        beside=origin,
    )


def keep_heard(upto: float | None) -> Reads[None]:
    """Keep up to when the reader of a run heard what was told, if it heard more than what came first.

    Args:
        upto: The time of the last event, in seconds since 1970; infinite where it heard all.
    """
    if upto is None:
        return
    saved: CheckpointTuple | None = yield Saved()
    position = position_of(saved) if saved else None
    if saved is not None and position is not None:
        turn, last = clock_in(position)
        clock = Clock(turn, max([last, *map(number_told, kept_beside(saved))]))
        yield from keep_notes(saved, [_note(clock, "", "heard", upto)])


class _Void(NamedTuple):
    """What was told, and is void.

    Attributes:
        of: The names of the steps that told it, and ids.
        again: What is kept of it, to be told again.
        failed: How a step failed that no run came to tell; it is kept now, as it is told.
    """

    of: Sequence[str] = ()
    again: Sequence[Entry] = ()
    failed: Sequence[Note] = ()


def _retold(tree: Tree, every: Sequence[CheckpointTuple]) -> _Void:
    """Return as void what was told in the steps behind some checkpoints, and what is kept of it."""
    return _Void(names(every), entries(tree, every), failures(tree, every))


def _unheard(
    tree: Tree, line: Sequence[CheckpointTuple], heard: float, steps: Collection[str]
) -> _Void:
    """Return what is void, and told again, behind what was heard of a run that was left.

    It is told again in its order: from the first on that is void, or was not heard.
    """
    void = [
        each
        for note in all_told(line)
        if isinstance(note, Note) and note.kind == "discarded" and _is_due(note, heard, ())
        for each in note.data
    ]
    told = entries(tree, line)
    first = next((i for i, each in enumerate(told) if _is_due(each, heard, steps)), len(told))
    return _Void([*steps, *void], told[first:])


def _is_due(entry: Entry, heard: float, steps: Collection[str]) -> bool:
    moment = moment_of(entry)
    return moment is not None and (moment.time > heard or moment.step in steps)


def names(every: Iterable[CheckpointTuple]) -> list[str]:
    """Return the names of the steps behind some checkpoints."""
    return sorted(filter(None, map(step_at, every)))


def _heads(every: Iterable[CheckpointTuple]) -> list[str]:
    """Return the names of the steps that are next, in each namespace."""
    return names(newest(every).values())


def _heard(ran: CheckpointTuple, *, is_edited: bool) -> Reads[float | None]:
    """Return up to when the reader of the last run heard it; None where that was killed.

    Where the state was edited since, the run may have gone on in another line, and was heard there.
    """
    marks = [note for note in kept_beside(ran) if note.kind in UNTOLD]
    last = max(marks, key=number_told, default=None)
    if last is not None:
        return last.data if last.kind == "heard" else None
    if not is_edited:
        return None
    as_saved: CheckpointTuple | None = yield Saved(checkpoint_id=ran.checkpoint["id"])
    return inf if as_saved and has_ended(as_saved) else None


def _since(line: Iterable[CheckpointTuple], first: CheckpointTuple) -> list[CheckpointTuple]:
    return [each for each in line if each.checkpoint["id"] >= first.checkpoint["id"]]


def _unsure(line: Sequence[CheckpointTuple], ran: CheckpointTuple) -> list[CheckpointTuple]:
    """Return the checkpoints behind which those steps ran of which nobody knows what was heard.

    They are the step where a run was killed and the one before it, in one turn: what was told before a
    turn had been heard when its input was saved.
    """
    if _is_input(ran):
        return []
    own = ran.checkpoint["id"]
    older = [each for each in line if not namespace_of(each) and each.checkpoint["id"] < own]
    before = max(older, key=lambda each: each.checkpoint["id"], default=ran)
    return _since(line, ran if _is_input(before) else before)


def _is_input(saved: CheckpointTuple) -> bool:
    """Tell whether a turn begins behind a checkpoint: LangGraph's own step reads the input there."""
    return START in saved.checkpoint["channel_values"]


def _is_cut_short(saved: CheckpointTuple) -> bool:
    """Tell whether the last run of a step neither asked nor failed, and so was killed or left."""
    kept = kept_beside(saved)
    begun = max((number_told(note) for note in kept if note.kind == "resumed"), default=0)
    failed = [number_told(note) for note in kept if note.kind == "error"]
    asked = [number_told(note) for note in map(question_note, _interrupts(saved))]
    if not begun:
        by_task = writes_by_task(saved).values()
        return not any(each.keys() & {"__error__", "__interrupt__"} for each in by_task)
    return all(number < begun for number in [*failed, *asked])


def _interrupts(saved: CheckpointTuple) -> Iterator[Any]:
    for writes in writes_by_task(saved).values():
        yield from writes.get("__interrupt__", ())


def _has_failed(saved: CheckpointTuple) -> bool:
    """Tell whether a step has ever failed: then not all that was asked in it is known beside it."""
    by_task = writes_by_task(saved).values()
    kept = kept_beside(saved)
    return any("__error__" in each for each in by_task) or any(n.kind == "error" for n in kept)


def _open(
    told: Iterable[Entry], every: Iterable[CheckpointTuple], answered: Container[str]
) -> dict[str, Note]:
    """Return what told of the questions without answers, by their ids: their lanes stand there.

    Args:
        told: What was told in a step of the root.
        every: The checkpoints of the step, newest first; or only that of the root.
        answered: The ids of the questions that were answered.
    """
    every = list(every)
    standing = _heads(every)
    is_alone = len({*map(namespace_of, every)}) == 1
    return {
        note.id: note
        for note in _questions(told)
        if note.id not in answered and (is_alone or (note.moment and note.moment.step in standing))
    }


def _questions(told: Iterable[Entry]) -> list[Note]:
    return [note for note in told if isinstance(note, Note) and note.kind == "interrupted"]


def _answered_before(saved: CheckpointTuple) -> set[str]:
    """Return the ids of the questions behind a checkpoint that runs were given answers to."""
    resumed = (note.data or () for note in kept_beside(saved) if note.kind == "resumed")
    return {each for answered in resumed for each in answered}


def _answered(given: Any, asked: Collection[str]) -> list[str]:
    """Return the ids of the questions that a command answers."""
    answers = given.resume if isinstance(given, Command) else None
    if answers is None:
        return []
    named = [each for each in asked if isinstance(answers, dict) and each in answers]
    return named or (list(asked) if len(asked) == 1 else [])


def _note(clock: Clock, at: str, kind: str, data: Any) -> Note:
    return Note(str(uuid4()), kind, data, at, Moment(clock.turn, clock.next(), ""))


def _known(entry: Entry, waiting: Container[str]) -> tuple[str, str, bool]:
    """Return an entry as nodes know it: who told it, its id, and whether it waits for an answer."""
    at = entry.address if isinstance(entry, Note) else address_of(entry)
    return at or "", entry.id or "", entry.id in waiting

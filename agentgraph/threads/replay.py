"""What a thread was told: told again, and what a run that goes on must tell and keep of it.

What was told lies where it was written: with the steps of the lanes, the results of tasks, the
questions that these asked, and what the runner kept beside a step. Each has its number, so the events
are all that is found, each once, in the order of the numbers, without what was told to be void later.

A run keeps, as it ends, up to when its reader had heard what it told: all, or less where it was left.
What was not heard is told by the run that goes on, and what was in flight is void. A run that kept no
such mark was killed, and nobody knows what was heard: LangGraph may save a step before it tells it. So
all that the step in flight and the one before told is void, by their names, and what is kept of it is
told again.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, NamedTuple
from uuid import uuid4

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START
from langgraph.types import Command

from agentgraph.events.events import AgentEvent
from agentgraph.events.translation import Translator, entries_in, question_note
from agentgraph.graph.moments import Entry, Moment, Note, moment_of, number_told, step_name
from agentgraph.graph.nodes.emitter import Before, Clock
from agentgraph.graph.nodes.lane import standing
from agentgraph.graph.state import address_of, clock_in
from agentgraph.safe_repr import shown_error
from agentgraph.threads.threads import (
    GetCheckpoint,
    Reads,
    address_at,
    before_edits,
    leading_checkpoints,
    namespace_of,
    next_node,
    notes_at,
    open_thread,
    position_of,
    save_notes,
    writes_by_task,
)
from agentgraph.tree.addresses import root_address
from agentgraph.tree.places import Tree

_MARKS = ("resumed", "heard")
"""The kinds of notes beside a step that only say that a run went on there, or what was heard of it."""


def replayed(tree: Tree, thread_id: str) -> Reads[list[AgentEvent]]:
    """Return the events of all turns of a thread, chunks aside; errors as `open_thread`."""
    yield from open_thread(tree, thread_id)
    translator = Translator(tree, thread_id)
    return [translator.event(entry) for entry in _entries(tree, (yield from leading_checkpoints()))]


def last_turn(tree: Tree, thread_id: str) -> Reads[list[str | AgentEvent]]:
    """Return what came of the last turn of a thread, in order: its events, and what ended.

    What ended is told by its address, for not all of it has events. Errors as `open_thread`.
    """
    yield from open_thread(tree, thread_id)
    every = standing((yield from leading_checkpoints()))
    turn = max((_turn(saved) for saved in every), default=0)
    mine = [saved for saved in every if _turn(saved) == turn]
    left = {address_at(tree, saved) for saved in _newest(every).values()}
    translator = Translator(tree, thread_id)
    came: list[tuple[int, int, str | AgentEvent]] = [
        (moment.number, 0, translator.event(entry))
        for entry in _entries(tree, every)
        if (moment := moment_of(entry)) and moment.turn == turn
    ]
    came += [
        (clock_in(position)[1], 1, position["at"])
        for position in filter(None, map(position_of, mine))
        if "at" in position and position["at"] not in left
    ]
    return [each for *_, each in sorted(came, key=lambda each: each[:2])]


def _entries(tree: Tree, every: Iterable[CheckpointTuple]) -> list[Entry]:
    """Return what is not void of all that was told in the steps behind some checkpoints, in order."""
    told, failed = _entries_and_failures(tree, every)
    return [*told, *failed]


def _entries_and_failures(
    tree: Tree, every: Iterable[CheckpointTuple]
) -> tuple[list[Entry], list[Note]]:
    """Return the same in two: what was told, and how a step of the root failed that no runner told."""
    every = standing(every)
    told = _all_entries(every)
    return _without_void(told), [*_failures(tree, every, told)]


def _all_entries(every: Iterable[CheckpointTuple]) -> list[Entry]:
    """Return all that was told in the steps behind some checkpoints, and is kept, in order."""
    found: dict[int, Entry] = {}
    for saved in every:
        for entry in _entries_at(saved):
            if (moment := moment_of(entry)) is not None:
                found.setdefault(moment.number, entry)
    return [found[number] for number in sorted(found)]


def _without_void(told: Sequence[Entry]) -> list[Entry]:
    """Return what was told without what was told to be void after it.

    A question that was asked again under its id stands where it was asked last.
    """
    void: set[str] = set()
    left: list[Entry] = []
    for entry in reversed(told):
        moment = moment_of(entry)
        if isinstance(entry, Note) and entry.kind == "discarded":
            void.update(entry.data)
        elif entry.id not in void and not (moment and moment.step in void):
            left.append(entry)
            void.update([entry.id] if isinstance(entry, Note) and entry.kind == "interrupted" else [])
    return left[::-1]


def _entries_at(saved: CheckpointTuple) -> Iterator[Entry]:
    """Yield what was told in the step behind a checkpoint, and what was kept beside it."""
    for writes in writes_by_task(saved).values():
        yield from entries_in(writes)
        if isinstance(result := writes.get("__return__"), Mapping):
            yield from entries_in(result)
        for asked in writes.get("__interrupt__", ()):
            yield question_note(asked)
    for note in notes_at(saved):
        if note.kind not in _MARKS:
            yield note


def _last_note(saved: CheckpointTuple, *kinds: str) -> Note | None:
    """Return the last note of some kinds that is kept beside a checkpoint."""
    notes = [note for note in notes_at(saved) if note.kind in kinds]
    return max(notes, key=number_told, default=None)


def _failures(tree: Tree, every: Sequence[CheckpointTuple], told: Sequence[Entry]) -> Iterator[Note]:
    """Yield how a step of the root failed that no runner told: a runner keeps what it tells of that.

    Of a step that ended since it is not known any more.
    """
    last = max(map(number_told, told), default=0)
    for saved in reversed(every):
        if namespace_of(saved) or _has_ended(saved) or _last_note(saved, "error"):
            continue
        for shown in _shown_errors(saved):
            at = max(
                (address_at(tree, each) or "" for each in every if shown in _shown_errors(each)),
                key=len,
            )
            began = datetime.fromisoformat(saved.checkpoint["ts"]).timestamp()
            last = max(last, int(began * 1_000_000)) + 1
            moment = Moment(_turn(saved), last, _step_at(saved))
            yield Note(f"{saved.checkpoint['id']} {shown}", "error", shown, at, moment)


def _shown_errors(saved: CheckpointTuple) -> list[str]:
    """Return how the tasks of a step failed, each once."""
    found: dict[str, None] = {}
    for writes in writes_by_task(saved).values():
        if (error := writes.get("__error__")) is not None:
            shown = error if isinstance(error, str) else shown_error(error)
            if not shown.startswith(("CancelledError(", "KeyboardInterrupt(")):
                found[shown] = None
    return [*found]


def _turn(saved: CheckpointTuple) -> int:
    return clock_in(position_of(saved))[0]


def _step_at(saved: CheckpointTuple) -> str:
    """Return the name of the step behind a checkpoint; empty where the lane has ended."""
    node = next_node(saved)
    return step_name(saved.checkpoint["id"], node) if node else ""


def _has_ended(saved: CheckpointTuple) -> bool:
    """Tell whether the step behind a checkpoint ended."""
    return any("position" in writes for writes in writes_by_task(saved).values())


def _newest(newest_first: Iterable[CheckpointTuple]) -> dict[str, CheckpointTuple]:
    """Return the last checkpoint of each namespace."""
    heads: dict[str, CheckpointTuple] = {}
    for saved in newest_first:
        heads.setdefault(namespace_of(saved), saved)
    return heads


class Continuation(NamedTuple):
    """How a run continues a thread.

    Attributes:
        begin: The moment after which the run's events come.
        replayed: The events that the run yields before those of the graph.
        questions: The events of the step's questions, by their ids: a question that was answered in a
            run that was killed may be asked again.
        before: What the nodes must know of earlier events.
        notes_before: Notes to save at the checkpoint before the replayed events: the caller may close
            the run while it reads these.
        notes_after: Notes to save there after the replayed events.
        checkpoint: The checkpoint whose step continues; None if no step is unfinished.
    """

    begin: Moment = Moment(0, 0, "")
    replayed: Sequence[AgentEvent] = ()
    questions: Mapping[str, AgentEvent] | None = None
    before: Before = (0, ())
    notes_before: Sequence[Note] = ()
    notes_after: Sequence[Note] = ()
    checkpoint: CheckpointTuple | None = None


def continuation(tree: Tree, thread_id: str, given: Any) -> Reads[Continuation]:
    """Return how a run goes on.

    Args:
        tree: The tree.
        thread_id: The thread.
        given: What LangGraph is given: input, where a turn begins, or a command or None to go on.
    """
    saved: CheckpointTuple | None = yield GetCheckpoint()
    position = position_of(saved) if saved else None
    if saved is None or position is None:
        return Continuation()
    ran, origin = yield from before_edits(saved)
    heard = yield from _heard(ran, is_edited=ran is not saved)
    is_over = next_node(saved) is None
    if is_over and heard == inf:
        turn, last = clock_in(position)
        is_turn = not isinstance(given, Command | None)
        return Continuation(Moment(turn + is_turn, last, ""), before=(last, ()))
    origin = saved if is_over else origin
    is_cut = not is_over and _is_cut_short(origin)
    line = [origin]
    if heard != inf or tree.may_void or (tree.runs_tasks and (is_cut or _has_failed(origin))):
        line = yield from leading_checkpoints()
    every = _since(line, origin)
    if heard is None:
        void = _void_and_replay(tree, _maybe_unheard(line, ran))
    elif heard < inf:
        void = _unheard(tree, line, heard, _names(_newest(every).values()) if is_cut else ())
    else:  # it is only cut where another line went on
        void = _void_and_replay(tree, every) if is_cut else _Voided()
    return _continue_step(tree, thread_id, given, saved, origin, every, void)


def _continue_step(
    tree: Tree,
    thread_id: str,
    given: Any,
    saved: CheckpointTuple,
    origin: CheckpointTuple,
    every: Sequence[CheckpointTuple],
    void: "_Voided",
) -> Continuation:
    """Return how a run goes on with the step behind `origin`, in which the checkpoints `every` are."""
    is_turn = not isinstance(given, Command | None)
    turn, last = clock_in(position_of(saved))
    told = _entries(tree, every)
    asked = [each for each in told if isinstance(each, Note) and each.kind == "interrupted"]
    open_ = _open_questions(asked, every, origin)
    answered = _answered(given, open_)
    dropped = list(open_) if is_turn else []
    again = [each for each in void.again if each.id not in dropped]
    ids = [*dropped, *void.of, *(each.id or "" for each in again)]
    numbers = map(number_told, [*told, *notes_at(saved), *notes_at(origin)])
    clock = Clock(turn, max([last, *numbers]))
    note = partial(_note, clock, root_address(tree))
    mark = [note("resumed", [])] if ids else []
    first = [note("discarded", [*dict.fromkeys(ids)])] if ids else []
    keeps = [note("discarded", dropped)] if dropped else []
    event = Translator(tree, thread_id).event
    left = open_.keys() - {*answered, *dropped}
    return Continuation(
        begin=Moment(turn + is_turn, clock.last, ""),
        replayed=[*map(event, [*first, *again])],
        questions={each.id: event(each) for each in asked if each.id not in dropped},
        before=(clock.last, [_as_before(each, left) for each in told]),
        notes_before=mark,
        notes_after=[
            *(open_[each] for each in answered),
            *void.failed,
            *keeps,
            note("resumed", answered),
        ],
        checkpoint=origin,
    )


def save_heard(upto: float | None) -> Reads[None]:
    """Keep up to when the reader of a run heard what was told, if it heard more than what came first.

    Args:
        upto: The time of the last event, in seconds since 1970; infinite where it heard all.
    """
    if upto is None:
        return
    saved: CheckpointTuple | None = yield GetCheckpoint()
    position = position_of(saved) if saved else None
    if saved is not None and position is not None:
        turn, last = clock_in(position)
        clock = Clock(turn, max([last, *map(number_told, notes_at(saved))]))
        yield from save_notes(saved, [_note(clock, "", "heard", upto)])


class _Voided(NamedTuple):
    """What was told, and is void.

    Attributes:
        of: The names of the steps that told it, and ids.
        again: What is kept of it, to be told again.
        failed: How a step failed that no run came to tell; it is kept now, as it is told.
    """

    of: Sequence[str] = ()
    again: Sequence[Entry] = ()
    failed: Sequence[Note] = ()


def _void_and_replay(tree: Tree, every: Sequence[CheckpointTuple]) -> _Voided:
    """Return as void what was told in the steps behind some checkpoints, and what is kept of it."""
    told, failed = _entries_and_failures(tree, every)
    return _Voided(_names(every), [*told, *failed], failed)


def _unheard(
    tree: Tree, line: Sequence[CheckpointTuple], heard: float, steps: Collection[str]
) -> _Voided:
    """Return what is void, and told again, behind what was heard of a run that was left.

    It is told again in its order: from the first on that is void, or was not heard.
    """
    void = [
        each
        for note in _all_entries(line)
        if isinstance(note, Note) and note.kind == "discarded" and _is_due(note, heard, ())
        for each in note.data
    ]
    told = _entries(tree, line)
    first = next((i for i, each in enumerate(told) if _is_due(each, heard, steps)), len(told))
    return _Voided([*steps, *void], told[first:])


def _is_due(entry: Entry, heard: float, steps: Collection[str]) -> bool:
    moment = moment_of(entry)
    return moment is not None and (moment.time > heard or moment.step in steps)


def _names(every: Iterable[CheckpointTuple]) -> list[str]:
    """Return the names of the steps behind some checkpoints."""
    return sorted(filter(None, map(_step_at, every)))


def _heard(ran: CheckpointTuple, *, is_edited: bool) -> Reads[float | None]:
    """Return up to when the reader of the last run heard it; None where that was killed.

    Where the state was edited since, the run may have gone on in another line, and was heard there.
    """
    if (last := _last_note(ran, *_MARKS)) is not None:
        return last.data if last.kind == "heard" else None
    if not is_edited:
        return None
    as_saved: CheckpointTuple | None = yield GetCheckpoint(checkpoint_id=ran.checkpoint["id"])
    return inf if as_saved and _has_ended(as_saved) else None


def _since(line: Iterable[CheckpointTuple], first: CheckpointTuple) -> list[CheckpointTuple]:
    return [each for each in line if each.checkpoint["id"] >= first.checkpoint["id"]]


def _maybe_unheard(line: Sequence[CheckpointTuple], ran: CheckpointTuple) -> list[CheckpointTuple]:
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
    by_task = writes_by_task(saved).values()
    if (begun := _last_note(saved, "resumed")) is None:
        return not any(writes.keys() & {"__error__", "__interrupt__"} for writes in by_task)
    ended = [note for note in notes_at(saved) if note.kind == "error"]
    ended += [question_note(one) for writes in by_task for one in writes.get("__interrupt__", ())]
    return max(map(number_told, ended), default=0) < number_told(begun)


def _has_failed(saved: CheckpointTuple) -> bool:
    """Tell whether a step has ever failed: then not all that was asked in it is known beside it."""
    by_task = writes_by_task(saved).values()
    return any("__error__" in each for each in by_task) or _last_note(saved, "error") is not None


def _open_questions(
    asked: Iterable[Note], every: Sequence[CheckpointTuple], origin: CheckpointTuple
) -> dict[str, Note]:
    """Return what told of the questions without answers, by their ids: their lanes stand there.

    Args:
        asked: What told of questions in a step of the root.
        every: The checkpoints of the step, newest first; or only that of the root.
        origin: That of the root, beside which lies what runs were given answers to.
    """
    resumed = [note for note in notes_at(origin) if note.kind == "resumed"]
    answered = {each for note in resumed for each in note.data or ()}
    heads = _newest(every)
    next_ = _names(heads.values())
    return {
        note.id: note
        for note in asked
        if note.id not in answered and (len(heads) == 1 or (note.moment and note.moment.step in next_))
    }


def _answered(given: Any, asked: Collection[str]) -> list[str]:
    """Return the ids of the questions that a command answers."""
    answers = given.resume if isinstance(given, Command) else None
    named = [each for each in asked if isinstance(answers, dict) and each in answers]
    return named or (list(asked) if answers is not None and len(asked) == 1 else [])


def _note(clock: Clock, at: str, kind: str, data: Any) -> Note:
    return Note(str(uuid4()), kind, data, at, Moment(clock.turn, clock.next(), ""))


def _as_before(entry: Entry, waiting: Container[str]) -> tuple[str, str, bool]:
    """Return an entry as nodes know it: who told it, its id, and whether it waits for an answer."""
    at = entry.address if isinstance(entry, Note) else address_of(entry)
    return at or "", entry.id or "", entry.id in waiting

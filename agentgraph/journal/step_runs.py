"""One step of the root, as its runs left it: when each began and how it ended, failures, questions.

A step runs more than once if a run of it failed, asked a person, was stopped or was killed. Each run
that resumes it saves a note "resumed" at the checkpoint of the step, and each run that ends says how.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from agentgraph.graph.deadlines import substitute_of
from agentgraph.graph.stamps import Deadline, Note, event_order, number_of, seconds, time_in
from agentgraph.journal.data_digests import data_digest
from agentgraph.journal.entries import entries_at, notes_at
from agentgraph.journal.saved import COPIED, Saved, error_in, is_stop
from agentgraph.journal.schema import ALL, DISCARDED, KEPT, RECEIVED, RESUMED, REWOUND, STOPPED, TAKEN


class Resumption(NamedTuple):
    """A run that resumes the step, and how the run before it ended.

    Attributes:
        time: When it began.
        before: The end of the one before: it failed; it paused, or was stopped between steps, so that
            nothing was running; or it was closed or killed, with running steps.
        ended: When that was, as far as it is known; of a kill the last sign of life.
    """

    time: float
    before: Literal["failed", "at rest", "cut"]
    ended: float


class QuestionSpan(NamedTuple):
    """A question that was asked in the step.

    Attributes:
        note: Its note.
        number: How many questions under its id were answered before.
        began: When it was asked.
        ended: When it was answered or dropped; None if neither is known.
        is_dropped: Whether it was dropped.
        is_late: Whether its deadline passed without an answer.
    """

    note: Note
    number: int
    began: float
    ended: float | None
    is_dropped: bool
    is_late: bool = False


class StepRuns:
    """The runs of one step of the root.

    Attributes:
        is_over: Whether the root has gone on from it.
        is_running: Whether a run is active in it.
        failures: The notes of failures in it, by address, in order.
        questions: The questions, in order.
        resumptions: The runs that resumed it, in order.
        has_failed: Whether its last run failed.
        was_killed: Whether its last run left no word of how it ended.
    """

    def __init__(
        self,
        root: Saved,
        inside: Sequence[Saved],
        *,
        is_over: bool,
        is_running: bool,
    ) -> None:
        """Read it.

        Args:
            root: The checkpoint of the root from which it ran.
            inside: All checkpoints in it, that one included.
            is_over: Whether the root has gone on from it.
            is_running: Whether a run is active on the thread.
        """
        self.root, self.is_over, self._inside = root, is_over, inside
        self.is_running = is_running and not is_over
        own = sorted(root.notes, key=number_of)
        notes = [note for saved in inside for note in notes_at(saved)]
        self.failures: dict[str, list[Note]] = defaultdict(list)
        failed = {each.id: each for each in notes if each.kind == "error"}
        for note in sorted(failed.values(), key=number_of):
            self.failures[note.address].append(note)
        self.resumptions = [*self._resumptions(own)]
        last = max((number_of(each) for each in own if each.kind == RESUMED), default=0)
        now = [each.kind for each in own if number_of(each) > last]
        self.has_failed = "error" in now
        is_ended = not {"error", RECEIVED, STOPPED}.isdisjoint(now)
        self.was_killed = not (is_over or is_running or is_ended)
        self.questions = [*_questions(notes, own)]

    @cached_property
    def _signs(self) -> Sequence[float]:
        return sorted({*_signs(self._inside)})

    @property
    def last_sign(self) -> float:
        """When the last of what is saved of it was written; 0 if nothing is."""
        return self._signs[-1] if self._signs else 0.0

    def last_sign_before(self, time: float) -> float:
        """Return when the last thing was saved before a time; 0 if nothing was."""
        number = bisect_left(self._signs, time)
        return self._signs[number - 1] if number else 0.0

    def failure(self, at: str, since: float, until: float | None = None) -> Note | None:
        """Return the last note of a failure at an address in a time; None if there is none."""
        times = (
            note
            for note in self.failures.get(at, ())
            if since <= time_in(note) and (until is None or time_in(note) <= until)
        )
        return max(times, key=number_of, default=None)

    def asks(self, at: str, since: float, until: float) -> bool:
        """Return whether an address asked in a time."""
        return any(each.note.address == at and since <= each.began < until for each in self.questions)

    def waits(self, at: str) -> bool:
        """Return whether a question of an address waits for its answer."""
        return any(each.note.address == at and each.ended is None for each in self.questions)

    def _resumptions(self, own: Sequence[Note]) -> Iterator[Resumption]:
        """Yield the runs that resumed the step, given the notes at its checkpoint in order.

        A run saves up to two notes: one before discarded events are replayed, and one after.
        """
        is_made = COPIED in self.root.metadata or self.root.is_manual  # by no run: none was there
        how: Literal["failed", "at rest", "cut"] = "at rest" if is_made else "cut"
        ended, is_begun = 0.0, False
        for note in own:
            at = time_in(note)
            match note.kind:
                case kind if kind == RESUMED and is_begun:
                    is_begun = False
                case kind if kind == RESUMED:
                    yield Resumption(at, how, ended or self.last_sign_before(at))
                    how, ended = "cut", 0.0
                case kind if kind == DISCARDED and not note.data["is_final"]:
                    is_begun = True
                case "error":
                    how, ended = "failed", at
                case kind if kind in (STOPPED, REWOUND):
                    how, ended = "at rest", at
                case kind if kind == RECEIVED and not ended:
                    how, ended = "at rest" if note.data == ALL else "cut", at
                case _:
                    pass


def errors_at(saved: Saved) -> list[str]:
    """Return the errors of the tasks of a step that no note has, each once."""
    errors = (error_in(writes) for writes in saved.writes.values())
    return [*dict.fromkeys(each for each in errors if each is not None and not is_stop(each))]


def _signs(inside: Iterable[Saved]) -> Iterator[float]:
    for saved in inside:
        yield saved.time
        for result in saved.results.values():
            if isinstance(finished := result.get("finished"), int):
                yield seconds(finished)
        for entry in entries_at(saved):
            if (order := event_order(entry)) is not None:
                yield order.time


def _questions(notes: Iterable[Note], own: Sequence[Note]) -> Iterator[QuestionSpan]:
    """Yield the questions, with when each was answered or dropped.

    A tool asks all of its questions under one id. A question that is asked again before it is answered
    is one: LangGraph saves only the last time.
    """
    every = [*{(each.id, number_of(each)): each for each in [*notes, *own]}.values()]
    every.sort(key=number_of)
    answers = [*_answers(every)]
    drops = [each for each in every if each.kind == "discarded"]
    asked: dict[tuple[str, int], list[Note]] = defaultdict(list)
    for note in every:
        if note.kind == "interrupted" and note.order:
            before = [each for each, ids in answers if note.id in ids and not _is_after(each, note)]
            asked[(note.id, len(before))].append(note)
    for (note_id, number), times in asked.items():
        ends = [each for each, ids in answers if note_id in ids][number:]
        ends = ends or [each for each in drops if note_id in each.data and _is_after(each, times[-1])]
        end = ends[0] if ends else None
        is_dropped = end is not None and end.kind == "discarded"
        digests = end.data if end is not None and end.kind == RESUMED else ()
        late = isinstance(digests, Mapping) and deadline_decided(times[-1], digests) is not None
        yield QuestionSpan(times[-1], number, time_in(times[0]), end and time_in(end), is_dropped, late)


def _answers(in_order: Iterable[Note]) -> Iterator[tuple[Note, set[str]]]:
    """Yield the notes of answers with the ids of their questions, each answer once.

    An answer on a thread at rest counts from then on, and not when a run takes it.
    """
    kept = set[str]()
    for note in in_order:
        if note.kind in (KEPT, TAKEN):
            yield note, {*note.data} - kept
            kept |= {*note.data}
        elif note.kind == RESUMED and note.data:
            yield note, {*note.data} - kept
            kept -= {*note.data}


def deadline_decided(question: Note, answered: Mapping[str, str]) -> Deadline | None:
    """Return the deadline of a question if that took the place of an answer; None otherwise.

    Args:
        question: The note of the question.
        answered: Answered questions, by their ids, each with a digest of its answer.
    """
    if "deadline" not in question.data:
        return None
    deadline = Deadline(*question.data["deadline"])
    is_substitute = answered.get(question.id) == data_digest(substitute_of(question.id, deadline))
    return deadline if is_substitute else None


def _is_after(note: Note, other: Note) -> bool:
    return number_of(note) > number_of(other)

"""Replays the events of a thread, and decides which events a resumed run voids and replays.

The problem: a consumer adds up the events that it receives. If a run is killed, or its iterator is
closed early, what the consumer received and what the saver stored differ. Some events were received
from a step that never finished and will run again; others were saved by a step that finished, but
were never received. After `resume` the consumer's total must equal `Runner.events()`.

What is not good enough:

- Yielding only new events: those that were saved but not received are lost, and those of the step that
  runs again are counted twice.
- Replaying everything on each resume: then each resume costs as much as the whole thread.
- A log of events of our own: it is a second truth next to the checkpoints, written at another moment.

The rule. No log: events are read where they are saved anyway, which is the writes of steps, the results
of tasks, the questions of tasks, and the notes that the runner saves at a checkpoint. Each event has a
number that grows within the thread. A replay sorts by number, takes each event once, and leaves out
what a later `discarded` event names, by event id or by step.

When a run ends, it saves a note "heard": the time of the last event that its consumer received, or
infinity for all events. A run that resumes looks for this note:

- All were received: only a step that was cut short is voided, and what is saved of it replayed.
- All were received, and the run was stopped between steps: nothing is voided.
- Received up to a time: the step in progress is voided, and all saved events from the first one on that
  is void or was not received are replayed.
- No note: the run was killed. LangGraph may save a step before it streams its events, so it is unknown
  what was received of the step in progress and of the one before. Both are voided by their names, and
  what is saved of them is replayed.

For example, a sequence of `writer` and `critic` is killed while `critic` runs:

```
run:     message writer "A draft."       step 1ef:writer, saved
         message critic "Too"            step 1f0:critic, not saved; the process is killed
resume:  discarded 1ef:writer, 1f0:critic
         message writer "A draft."       replayed from the saver, same id and time
         message critic "Too long."      the step runs again
```
"""

from collections import deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from operator import itemgetter
from typing import NamedTuple
from uuid import uuid4

from langgraph.types import Command

from agentgraph.events.events import AgentEvent
from agentgraph.events.translation import Translator, question_note, told_in
from agentgraph.graph.internals import ERROR, INTERRUPT, RETURN
from agentgraph.graph.nodes.emitter import Before, Clock
from agentgraph.graph.stamps import (
    ANSWERED,
    Entry,
    Moment,
    Note,
    address_of,
    cursor_of,
    is_edited,
    moment_of,
    number_in,
    number_of,
)
from agentgraph.graph.state import Position, clock_in
from agentgraph.journal.changed_trees import former_paths, is_of, open_thread, read_thread
from agentgraph.journal.lines import (
    address_at,
    before_edits,
    is_foreign,
    known_line,
    leading_checkpoints,
    parent_of,
    place_of,
    root_line,
    save_notes,
    without_past_attempts,
)
from agentgraph.journal.saved import CHANGED, REWOUND, VOIDED, Saved, error_in, is_stop, keeps_state
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.tree.addresses import as_cursor, root_address
from agentgraph.tree.places import Tree

_MARKS = ("resumed", "heard")
"""Kinds of notes that are not events: where a run resumed, and up to when its events were received."""
_LAST = 10**16 - 1
"""Greater than all parts of cursors."""
FOR_GOOD = "for good"
"""Marks the note of what is void and not replayed: the words of an attempt that was repeated."""
STOPPED = "stopped"
"""The kind of the note that a run was stopped between steps: all that it told is saved, or void."""
_NO_EVENTS = (*_MARKS, STOPPED, REWOUND, CHANGED, VOIDED)


async def replayed(saver: ThreadSaver, line: str | None = None) -> list[AgentEvent]:
    """Return the events of all turns of a thread, without chunks.

    Args:
        saver: The thread.
        line: The head of one of its lines; None for the present one.

    Raises:
        ThreadError: The thread has no such line; or as `read_thread` does.
    """
    await read_thread(saver)
    every = await (_told_checkpoints(saver) if line is None else checkpoints_of_line(saver, line))
    return [*_events_of(entries_of(saver.tree, every), saver, every)]


async def told_since(saver: ThreadSaver, after: str | None, upto: int | None) -> list[AgentEvent]:
    """Return what a reader lacks that has read the events of a thread up to a cursor, in order.

    What a run voided when it began, and replayed, comes with that run: its cursors begin with that of
    the `discarded` event. So a reader that is cut off in the middle goes on there. What a run voided
    later, such as the words of an attempt that was repeated, comes with its `discarded` event.

    Args:
        saver: The thread.
        after: The cursor; None for a reader that has read nothing: then nothing has to be voided.
        upto: The number of the last event that is told; None for all.

    Raises:
        ThreadError: As `read_thread` does.
    """
    await read_thread(saver)
    return told_in_steps(saver, await _of_steps_since(saver, after), after, upto)


async def _of_steps_since(saver: ThreadSaver, after: str | None) -> list[Saved]:
    """Return the checkpoints of the steps that may have told anything after a cursor.

    A checkpoint of the root has the number of the last event before it. So the last one with a number
    that is not greater than the reader's begins these steps; or the one before it, for a run that was
    killed may have saved all of a step, and then the run that resumes ends it without a number of its
    own. All checkpoints are needed where a run replayed what it voided, which may be older, and where
    transfers before decide the run paths.
    """
    if after is not None and not saver.tree.has_transfers:
        number, has_read = number_in(after), [False]

        def is_last(saved: Saved) -> bool:
            was_read, has_read[0] = has_read[0], saved.clock[1] <= number
            return was_read

        roots = await root_line(saver, is_last)
        if roots:
            every = await _told_checkpoints(saver, str(roots[-1].checkpoint["id"]))
            if not any(_is_replay_after(note, after) for each in every for note in each.notes):
                return every
    return await _told_checkpoints(saver)


def _is_replay_after(note: Note, after: str) -> bool:
    """Return whether a note says that a run voided something, and replayed it after a cursor."""
    is_replay = note.kind == VOIDED and note.data[2:] != [FOR_GOOD]
    return is_replay and cursor_of(number_of(note), _LAST) > after


def told_in_steps(
    saver: ThreadSaver, every: Sequence[Saved], after: str | None, upto: int | None
) -> list[AgentEvent]:
    """Return what a reader lacks of what was told in the steps after some checkpoints, in order.

    Args:
        saver: The thread.
        every: The checkpoints; with all of the thread it is what `told_since` returns.
        after: As in `told_since`.
        upto: As in `told_since`.
    """
    notes = [note for saved in every for note in saved.notes if note.kind == VOIDED]
    voids = [each for each in notes if after and cursor_of(number_of(each), _LAST) > after]
    told: list[tuple[str, Entry]] = [
        (each.data[0], each._replace(kind="discarded", data=each.data[1])) for each in voids
    ]
    entries, failed = _entries_and_failures(saver.tree, every)
    if upto is None:  # else a run is under way, which will report how it has failed
        entries += failed
    told += [(_cursor_after(entry, voids), entry) for entry in entries if not _is_lost(entry, notes)]
    due = sorted((each for each in told if each[0] > (after or "")), key=itemgetter(0))
    due = [each for each in due if upto is None or number_in(each[0]) <= upto]
    events = _events_of([entry for _, entry in due], saver, every)
    return [replace(event, cursor=cursor) for event, (cursor, _) in zip(events, due, strict=True)]


def void_note(event: AgentEvent) -> Note:
    """Return the note of a `discarded` event, for `told_since`: it has the cursor and what is void."""
    cursor, void = event.cursor or "", event.action.discarded if event.action else ()
    moment = Moment(event.turn or 0, number_in(cursor), event.step or "")
    return Note(event.id, VOIDED, [cursor, [*void], FOR_GOOD], event.address, moment)


def _is_lost(entry: Entry, notes: Sequence[Note]) -> bool:
    """Return whether an entry was voided for good, though its step has not saved that yet."""
    number = number_of(entry)
    return any(
        number < number_of(each) and entry.id in each.data[1]
        for each in notes
        if each.data[2:] == [FOR_GOOD]
    )


def _cursor_after(entry: Entry, voids: Sequence[Note]) -> str:
    """Return the cursor of an entry that is told again after the last of some notes that void it."""
    number, moment = number_of(entry), moment_of(entry)
    named = {entry.id, moment.step if moment else None}
    again = [number_of(each) for each in voids if not named.isdisjoint(each.data[1])]
    last = max(again, default=0)
    return cursor_of(last, number) if last > number else cursor_of(number)


async def last_turn(saver: ThreadSaver) -> list[str | AgentEvent]:
    """Return the events of a thread's last turn, and the addresses of what ended, in order.

    What ended has its address in the list, as it may have no events. Raises as `open_thread` does.
    """
    await open_thread(saver)
    tree, checkpoints = saver.tree, await lane_checkpoints(saver)
    every = without_past_attempts(checkpoints)
    turn = max((saved.clock[0] for saved in every), default=0)
    mine = [saved for saved in every if saved.clock[0] == turn]
    open_at = {address_at(tree, saved) for saved in _newest(every).values()}
    entries = [
        entry
        for entry in entries_of(tree, checkpoints)
        if (moment := moment_of(entry)) and moment.turn == turn
    ]
    events = _events_of(entries, saver, checkpoints)
    came: list[tuple[int, int, str | AgentEvent]] = [
        (number_of(entry), 0, event) for entry, event in zip(entries, events, strict=True)
    ]
    came += [
        (clock_in(position)[1], 1, position["at"])
        for position in _ends(mine)
        if "at" in position and position["at"] not in open_at
    ]
    return [each for *_, each in sorted(came, key=lambda each: each[:2])]


def _events_of(
    entries: Iterable[Entry], saver: ThreadSaver, every: Iterable[Saved]
) -> Iterator[AgentEvent]:
    """Yield the events of entries in order; the positions of checkpoints say where transfers led."""
    tree, several = saver.tree, [*every]
    former = former_paths(saver.paths, several)
    typed = saver.reducers.all_typed
    translator = Translator(tree, saver.thread_id, paths=saver.paths, typed=typed, former=former)
    has_chains = tree.has_transfers or former is not None
    ends = [each for each in _ends(several) if "clock" in each] if has_chains else []
    positions = deque(sorted(ends, key=clock_in))
    for entry in entries:
        moment = moment_of(entry)
        while positions and moment and clock_in(positions[0]) < (moment.turn, moment.number):
            position = positions.popleft()
            there = tree if former is None else former(Moment(*clock_in(position), "")).tree
            _learn(translator, there, position)
        yield translator.event(entry)


def learn_of(translator: Translator, tree: Tree, every: Iterable[Saved]) -> None:
    """Tell a translator where transfers led that led to where the lanes of a step are."""
    for position in sorted(_ends(every) if tree.has_transfers else (), key=clock_in):
        _learn(translator, tree, position)


def _learn(translator: Translator, tree: Tree, position: Position) -> None:
    if (place := place_of(tree, position)) is not None:
        translator.learn(clock_in(position)[0], place, as_cursor(position["cursor"]))


def _ends(every: Iterable[Saved]) -> Iterator[Position]:
    """Yield the positions that are saved where something ended: in lanes, and in results of tasks."""
    for saved in every:
        if (position := saved.position) is not None:
            yield position
        for writes in saved.writes.values():
            result = writes.get(RETURN)
            if isinstance(result, Mapping) and "clock" in (result.get("position") or ()):
                yield result["position"]


async def last_answer(saver: ThreadSaver) -> Note | None:
    """Return the note of the last structured answer in a thread's last turn; None if there is none.

    Raises as `open_thread` does.
    """
    await open_thread(saver)
    every = await lane_checkpoints(saver)
    turn = max((saved.clock[0] for saved in every), default=0)
    answers = [note for note in _answers(every) if note.moment and note.moment.turn == turn]
    return answers[-1] if answers else None


async def lane_checkpoints(saver: ThreadSaver, since: str = "") -> list[Saved]:
    """Return the leading checkpoints of the tree's lanes, without those of foreign graphs.

    A foreign graph may be a compiled tree, with entries of its own.

    Args:
        saver: The thread.
        since: As in `leading_checkpoints`.
    """
    every = await leading_checkpoints(saver, since)
    return [each for each in every if not is_foreign(saver.tree, each)]


async def checkpoints_of_line(saver: ThreadSaver, head: str) -> list[Saved]:
    """Return the checkpoints of the lanes on one of the thread's lines, also of other trees."""
    every = known_line(saver, head, await saver.checkpoints())
    return _lanes_of_any_tree(saver.tree, every)


async def _told_checkpoints(saver: ThreadSaver, since: str = "") -> list[Saved]:
    """Return what `lane_checkpoints` does, and those of lanes of other trees that ran the thread."""
    return _lanes_of_any_tree(saver.tree, await leading_checkpoints(saver, since))


def _lanes_of_any_tree(tree: Tree, every: Sequence[Saved]) -> list[Saved]:
    """Return the checkpoints of lanes: those of the tree, and of the trees that ran the root before."""
    lanes = [each for each in every if not is_foreign(tree, each)]
    if len(lanes) == len(every):
        return lanes
    roots = (each.position for each in every if not each.namespace)
    former = {each["tree"] for each in roots if each is not None} - {tree.fingerprint}
    known = {id(each) for each in lanes}
    return [each for each in every if id(each) in known or _is_lane_of(former, each)]


def _is_lane_of(former: Collection[str], saved: Saved) -> bool:
    """Return whether a checkpoint is that of a lane of a tree that has one of some fingerprints."""
    position = saved.position if former and not keeps_state(saved.namespace) else None
    return position is not None and position["tree"] in former


def entries_of(tree: Tree, every: Iterable[Saved]) -> list[Entry]:
    """Return the entries of the steps after some checkpoints, without the void ones, in order."""
    entries, failed = _entries_and_failures(tree, every)
    return [*entries, *failed]


def _entries_and_failures(tree: Tree, every: Iterable[Saved]) -> tuple[list[Entry], list[Note]]:
    """Return `_entries` in two parts: saved entries, and failures that no runner reported."""
    rest, entries = _of_last_attempts(every)
    events = [each for each in _without_void(entries) if not _is_answer(each)]
    return events, [*_failures(tree, rest, entries)]


def _of_last_attempts(
    every: Iterable[Saved],
) -> tuple[list[Saved], list[Entry]]:
    """Return the checkpoints without those of attempts that another one followed; and the entries.

    What a runner saved of a past attempt is with the root's checkpoint.
    """
    checkpoints = list(every)
    rest = without_past_attempts(checkpoints)
    entries = _all_entries(rest)
    if len(rest) < len(checkpoints):
        past = {each.id for each in checkpoints} - {each.id for each in rest}
        entries = [each for each in entries if _began_at(each) not in past]
    return rest, entries


def _began_at(entry: Entry) -> str:
    """Return the id of the checkpoint from which the step of an entry began."""
    moment = moment_of(entry)
    return moment.step.partition(":")[0] if moment else ""


def _answers(every: Iterable[Saved]) -> list[Note]:
    """Return the notes of structured answers in the steps after some checkpoints, in order."""
    entries = _without_void(_of_last_attempts(every)[1])
    return [each for each in entries if isinstance(each, Note) and _is_answer(each)]


def _is_answer(entry: Entry) -> bool:
    return isinstance(entry, Note) and entry.kind == ANSWERED


def _all_entries(every: Iterable[Saved]) -> list[Entry]:
    """Return all saved entries of the steps after some checkpoints, in order."""
    by_number: dict[int, Entry] = {}
    for saved in every:
        for entry in entries_at(saved):
            if (moment := moment_of(entry)) is not None:
                by_number.setdefault(moment.number, entry)
    return [by_number[number] for number in sorted(by_number)]


def _without_void(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without those that a later one voids.

    A question that was asked again under its id appears only where it was asked last.
    """
    void: set[str] = set()
    rest: list[Entry] = []
    for entry in reversed(entries):
        moment = moment_of(entry)
        if isinstance(entry, Note) and entry.kind == "discarded":
            void.update(entry.data)
        elif entry.id not in void and not (moment and moment.step in void):
            rest.append(entry)
            void.update([entry.id] if isinstance(entry, Note) and entry.kind == "interrupted" else [])
    return rest[::-1]


def entries_at(saved: Saved) -> Iterator[Entry]:
    """Yield the entries of the step after a checkpoint, and those that were saved at the checkpoint."""
    for writes in saved.writes.values():
        yield from _entries_in(writes)
        if isinstance(result := writes.get(RETURN), Mapping):
            yield from _entries_in(result)
        for asked in writes.get(INTERRUPT, ()):
            yield question_note(asked)
    for note in saved.notes:
        if note.kind not in _NO_EVENTS:
            yield note


def _entries_in(written: Mapping[str, object]) -> Iterator[Entry]:
    """Yield the entries in what was written; before an edited message what makes the old one void."""
    for moment, entry in told_in(written):
        if not isinstance(entry, Note) and is_edited(entry):
            before = moment._replace(number=moment.number - 1)
            yield Note(str(entry.id), "discarded", [entry.id], "", before)
        yield entry


def _last_note(saved: Saved, *kinds: str) -> Note | None:
    """Return the last note of some kinds that is saved at a checkpoint."""
    notes = [note for note in saved.notes if note.kind in kinds]
    return max(notes, key=number_of, default=None)


def _failures(tree: Tree, every: Sequence[Saved], entries: Sequence[Entry]) -> Iterator[Note]:
    """Yield errors for failed steps of the root that no runner reported: a runner saves its own.

    A step that has ended since has none: its failure is not saved any more.
    """
    last = max(map(number_of, entries), default=0)
    for saved in reversed(every):
        if saved.namespace or saved.has_ended or _last_note(saved, "error"):
            continue
        for error in _shown_errors(saved):
            at = max(
                (address_at(tree, each) or "" for each in every if error in _shown_errors(each)),
                key=len,
            )
            last = max(last, int(saved.time * 1_000_000)) + 1
            moment = Moment(saved.clock[0], last, saved.step)
            yield Note(f"{saved.checkpoint['id']} {error}", "error", error, at, moment)


def _shown_errors(saved: Saved) -> list[str]:
    """Return the errors of the tasks of a step, each once."""
    errors: dict[str, None] = {}
    for writes in saved.writes.values():
        if (error := error_in(writes)) is not None and not is_stop(error):
            errors[error] = None
    return [*errors]


def _turn_with(graph_input: object, saved: Saved) -> int:
    """Return the turn that input begins or resumes; one that had not begun is part of the next."""
    is_next = not (isinstance(graph_input, Command | None) or saved.begins_turn)
    return saved.clock[0] + is_next


def _newest(newest_first: Iterable[Saved]) -> dict[str, Saved]:
    """Return the last checkpoint of each namespace."""
    heads: dict[str, Saved] = {}
    for saved in newest_first:
        heads.setdefault(saved.namespace, saved)
    return heads


class Continuation(NamedTuple):
    """How a run continues a thread.

    Attributes:
        begin: The moment of the last event before the run.
        replayed: The events that the run yields before those of the graph.
        questions: The events of the step's questions, by their ids. A question is included even if it
            was answered, as it may be asked again if the run with the answer was killed.
        before: What the nodes must know of earlier events.
        notes_before: Notes to save at the checkpoint before the replayed events: the caller may close
            the run while it reads these.
        notes_after: Notes to save there after the replayed events.
        checkpoint: The checkpoint whose step continues; None if no step is unfinished.
        every: The checkpoints of that step.
        rewound: The root's checkpoint to which a rewind led, if states of graphs follow it.
    """

    begin: Moment = Moment(0, 0, "")
    replayed: Sequence[AgentEvent] = ()
    questions: Mapping[str, AgentEvent] | None = None
    before: Before = (0, ())
    notes_before: Sequence[Note] = ()
    notes_after: Sequence[Note] = ()
    checkpoint: Saved | None = None
    every: Sequence[Saved] = ()
    rewound: Saved | None = None


class Voided(NamedTuple):
    """What a resumed run voids and replays.

    Attributes:
        of: The names of steps, and the ids of events, that are void.
        again: The entries to replay: those that are saved.
        failed: Failures that no run has reported yet; they are saved when they are replayed.
    """

    of: Sequence[str] = ()
    again: Sequence[Entry] = ()
    failed: Sequence[Note] = ()


class Gone(NamedTuple):
    """What a rewind leaves behind, as its note at the root's checkpoint says.

    Attributes:
        ids: The ids of the events, and the names of the steps, that are not on the new line.
        again: The number of the first event on it that is replayed; None if none is.
        since: The id of the first checkpoint of the root that has such an event.
        at: The address to which the thread went back.
        states: What is saved of the states of graphs after the commit, as `StateCopy` has it.
    """

    ids: list[str]
    again: int | None = None
    since: str = ""
    at: str = ""
    states: Sequence[Sequence[object]] = ()

    def added_to(self, void: Voided, entries: Sequence[Entry]) -> Voided:
        """Return what is voided and replayed, with this; `entries` are those of the line."""
        again = {number_of(each): each for each in void.again}
        if self.again is not None:
            again |= {number_of(each): each for each in entries if number_of(each) >= self.again}
        in_order = [again[number] for number in sorted(again)]
        return Voided([*void.of, *self.ids], in_order, void.failed)


class _Rest(NamedTuple):
    """What the last run has left.

    Attributes:
        origin: The checkpoint from which the step begins that continues.
        every: The step's checkpoints.
        void: What a run voids and replays.
        line: The checkpoints of all that it replays.
        rewound: The checkpoint to which a rewind led, if states of graphs follow it.
    """

    origin: Saved
    every: Sequence[Saved]
    void: Voided
    line: Sequence[Saved]
    rewound: Saved | None = None


def _rewound(ran: Saved) -> Gone | None:
    """Return what a rewind to a checkpoint left behind; None if no rewind led there."""
    back = _last_note(ran, REWOUND)
    return None if back is None else Gone(*back.data)


def _is_heard(ran: Saved) -> bool:
    """Return whether a run from where a rewind led has saved that its first event was received."""
    back, heard = _last_note(ran, REWOUND), _last_note(ran, "heard")
    return back is not None and heard is not None and number_of(heard) > number_of(back)


async def continuation(saver: ThreadSaver, graph_input: object) -> Continuation:
    """Return how a run continues a thread.

    Args:
        saver: The thread.
        graph_input: The input of the graph: that of a new turn, or a command or None to resume.
    """
    saved = await saver.checkpoint()
    position = saved.position if saved else None
    if saved is None or position is None:
        return Continuation()
    if (rest := await _rest(saver, saved)) is None:
        last = clock_in(position)[1]
        return Continuation(Moment(_turn_with(graph_input, saved), last, ""), before=(last, ()))
    return _continue_step(saver, graph_input, saved, rest)


async def unheard(saver: ThreadSaver) -> Voided:
    """Return what a resume of a thread would void and replay now."""
    saved = await saver.checkpoint()
    rest = None
    if saved is not None and saved.position is not None:
        rest = await _rest(saver, saved)
    return Voided() if rest is None else rest.void


async def _rest(saver: ThreadSaver, saved: Saved) -> _Rest | None:
    """Return what is left of the last run, given the thread's last checkpoint; None if nothing is."""
    ran, origin = await before_edits(saver, saved)
    heard = await _heard(saver, ran, is_edited=ran is not saved)
    is_over = saved.next_node is None
    if is_over and heard == inf:
        return None
    rest = await _voided(saver, ran, saved if is_over else origin, heard, is_over=is_over)
    if (gone := _rewound(ran)) is None:
        return rest
    rest = rest._replace(rewound=ran if gone.states else None)
    if not _is_heard(ran):
        line = rest.line if gone.again is None else await lane_checkpoints(saver, gone.since)
        rest = rest._replace(line=line, void=gone.added_to(rest.void, entries_of(saver.tree, line)))
    return rest


async def _voided(
    saver: ThreadSaver,
    ran: Saved,
    origin: Saved,
    heard: float | None,
    *,
    is_over: bool,
) -> _Rest:
    """Return what is voided and replayed, without what a rewind left behind.

    Args:
        saver: The thread.
        ran: The last checkpoint that a run wrote.
        origin: The checkpoint from which the step begins that continues.
        heard: Up to when the events of the last run were received; None if it was killed.
        is_over: Whether no step is left.
    """
    tree = saver.tree
    is_cut = not is_over and _is_cut_short(origin)
    line = [origin]
    place = place_of(tree, origin.position)
    runs_tasks = (place or tree).runs_tasks
    if heard != inf or tree.may_void or (runs_tasks and (is_cut or _has_failed(origin))):
        line = await lane_checkpoints(saver, await _first_needed(saver, ran, origin, heard))
    every = _since(line, origin)
    if heard is None:
        void = _void_and_replay(tree, _maybe_unheard(line, ran))
    elif heard < inf:
        void = _unheard(tree, line, heard, _names(_newest(every).values()) if is_cut else ())
    else:  # it can be cut short only if another line continued
        void = _void_and_replay(tree, every) if is_cut else Voided()
    return _Rest(origin, every, void, line)


def _continue_step(
    saver: ThreadSaver,
    graph_input: object,
    saved: Saved,
    rest: _Rest,
) -> Continuation:
    """Return how a run continues the step that is left.

    Args:
        saver: The thread.
        graph_input: The input of the graph.
        saved: The thread's last checkpoint.
        rest: What is left.
    """
    origin, every, void, line, rewound = rest
    is_turn, tree = not isinstance(graph_input, Command | None), saver.tree
    turn, last = saved.clock
    is_changed = not is_turn and not is_of(tree, origin)
    entries = entries_of(tree, every)
    asked = [each for each in entries if isinstance(each, Note) and each.kind == "interrupted"]
    open_ = _open_questions(asked, every, origin)
    answered = _answered(graph_input, open_)
    dropped = list(open_) if is_turn else []
    again = [each for each in void.again if each.id not in dropped]
    ids = [*dropped, *void.of, *(each.id or "" for each in again)]
    numbers = map(number_of, [*entries, *saved.notes, *origin.notes])
    clock = Clock(turn, max([last, *numbers]))
    note = partial(new_note, clock, root_address(tree))
    mark = [note("resumed", [])] if ids else []
    first = [note("discarded", [*dict.fromkeys(ids)])] if ids else []
    told = [each._replace(kind=VOIDED, data=[cursor_of(number_of(each)), each.data]) for each in first]
    keeps = [note("discarded", dropped)] if dropped else []
    clock.next()  # chunks have it in their cursors, which come after those of what is replayed
    waiting = open_.keys() - {*answered, *dropped}
    kept = [each for each in asked if each.id not in dropped]
    questions = zip(kept, _events_of(kept, saver, line), strict=True)
    return Continuation(
        begin=Moment(_turn_with(graph_input, saved), clock.last, ""),
        replayed=[*_events_of([*first, *again], saver, line)],
        questions={each.id: event for each, event in questions},
        before=(clock.last, [_as_before(each, waiting) for each in (*entries, *_answers(every))]),
        notes_before=[*mark, *told],
        notes_after=[
            *(open_[each] for each in answered),
            *void.failed,
            *keeps,
            note("resumed", answered),
            *([note(CHANGED, tree.outline)] if is_changed else []),
        ],
        checkpoint=origin,
        every=every,
        rewound=rewound,
    )


async def save_heard(saver: ThreadSaver, upto: float | None, *, is_stopped: bool = False) -> None:
    """Save up to when the consumer of a run received its events, if the saver can.

    Args:
        saver: The thread.
        upto: The time of the last event that was received, in seconds since 1970; infinite if all
            were; None to save nothing.
        is_stopped: Whether the run was stopped between steps.
    """
    if upto is None:
        return
    saved = await saver.written()
    position = saved.position if saved else None
    if saved is not None and position is not None:
        turn, last = clock_in(position)
        clock = Clock(turn, max([last, *map(number_of, saved.notes)]))
        stopped = [new_note(clock, "", STOPPED, None)] if is_stopped else []
        await save_notes(saver, saved, [*stopped, new_note(clock, "", "heard", upto)])


def _void_and_replay(tree: Tree, every: Sequence[Saved]) -> Voided:
    """Void all events of the steps after some checkpoints, and replay those that are saved."""
    entries, failed = _entries_and_failures(tree, every)
    return Voided(_names(every), [*entries, *failed], failed)


def _unheard(tree: Tree, line: Sequence[Saved], heard: float, steps: Collection[str]) -> Voided:
    """Return what is voided and replayed if a run's events were received only up to a time.

    To keep their order, all entries are replayed from the first on that is void or was not received.
    """
    void = [
        each
        for note in _all_entries(line)
        if isinstance(note, Note) and note.kind == "discarded" and _is_due(note, heard, ())
        for each in note.data
    ]
    entries = entries_of(tree, line)
    first = next((i for i, each in enumerate(entries) if _is_due(each, heard, steps)), len(entries))
    return Voided([*steps, *void], entries[first:])


async def _first_needed(saver: ThreadSaver, ran: Saved, origin: Saved, heard: float | None) -> str:
    """Return the id of the first checkpoint of the root that tells what is void and replayed.

    If it is unknown what was received, that is the one before `ran`; otherwise the last one at which
    all events had been received, or the one whose step continues.
    """
    if heard == inf:
        return str(origin.id)
    first = ran
    while (before := await parent_of(saver, first)) is not None:
        if heard is None:
            return str(before.id)
        if Moment(*first.clock, "").time <= heard:
            break
        first = before
    return str(first.id)


def _is_due(entry: Entry, heard: float, steps: Collection[str]) -> bool:
    moment = moment_of(entry)
    return moment is not None and (moment.time > heard or moment.step in steps)


def _names(every: Iterable[Saved]) -> list[str]:
    """Return the names of the steps after some checkpoints."""
    return sorted(filter(None, (each.step for each in every)))


async def _heard(saver: ThreadSaver, ran: Saved, *, is_edited: bool) -> float | None:
    """Return up to when the events of the last run were received; None if the run was killed.

    If the state was edited since, the run may have continued on another line: then all were received.
    """
    if (last := _last_note(ran, *_MARKS)) is not None:
        return last.data if last.kind == "heard" else None
    if not is_edited:
        return None
    as_saved = await saver.checkpoint(checkpoint_id=ran.id)
    return inf if as_saved and as_saved.has_ended else None


def _since(line: Iterable[Saved], first: Saved) -> list[Saved]:
    return [each for each in line if each.id >= first.id]


def _maybe_unheard(line: Sequence[Saved], ran: Saved) -> list[Saved]:
    """Return the checkpoints of the steps whose events may not have been received.

    They are those of the step in which a run was killed and of the one before it in the same turn. All
    events before a turn were received: its input was saved after that.
    """
    if ran.begins_turn:
        return []
    own = ran.id
    older = [each for each in line if not each.namespace and each.id < own]
    before = max(older, key=lambda each: each.id, default=ran)
    return _since(line, ran if before.begins_turn else before)


def _is_cut_short(saved: Saved) -> bool:
    """Return whether the last run of a step neither asked nor failed: it was killed or closed."""
    by_task = saved.writes.values()
    begun = _last_note(saved, "resumed", STOPPED)
    if begun is not None and begun.kind == STOPPED:
        return False
    if begun is None:
        errors = [error for writes in by_task if (error := error_in(writes)) is not None]
        if errors:
            return all(map(is_stop, errors))
        return not any(INTERRUPT in writes for writes in by_task)
    ended = [note for note in saved.notes if note.kind == "error"]
    ended += [question_note(one) for writes in by_task for one in writes.get(INTERRUPT, ())]
    return max(map(number_of, ended), default=0) < number_of(begun)


def _has_failed(saved: Saved) -> bool:
    """Return whether a step has ever failed: then its checkpoint may lack some of its questions."""
    by_task = saved.writes.values()
    return any(ERROR in each for each in by_task) or _last_note(saved, "error") is not None


def _open_questions(asked: Iterable[Note], every: Sequence[Saved], origin: Saved) -> dict[str, Note]:
    """Return the notes of the questions without answers, by their ids: their lanes are still there.

    Args:
        asked: The notes of all questions in a step of the root.
        every: The checkpoints of the step, newest first; or only that of the root.
        origin: The root's checkpoint, where the ids of answered questions are saved.
    """
    resumed = [note for note in origin.notes if note.kind == "resumed"]
    answered = {each for note in resumed for each in note.data or ()}
    heads = _newest(every)
    next_ = _names(heads.values())
    return {
        note.id: note
        for note in asked
        if note.id not in answered and (len(heads) == 1 or (note.moment and note.moment.step in next_))
    }


def _answered(graph_input: object, asked: Collection[str]) -> list[str]:
    """Return the ids of the questions that a command answers."""
    answers = graph_input.resume if isinstance(graph_input, Command) else None
    named = [each for each in asked if isinstance(answers, dict) and each in answers]
    return named or (list(asked) if answers is not None and len(asked) == 1 else [])


def new_note(clock: Clock, at: str, kind: str, data: object) -> Note:
    """Return a note with the next number of a clock, for an address."""
    return Note(str(uuid4()), kind, data, at, Moment(clock.turn, clock.next(), ""))


def _as_before(entry: Entry, waiting: Container[str]) -> tuple[str, str, bool]:
    """Return an entry as nodes know it: its address, its id, and whether it waits for an answer."""
    at = entry.address if isinstance(entry, Note) else address_of(entry)
    return at or "", entry.id or "", entry.id in waiting

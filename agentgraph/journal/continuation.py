"""How a run continues a thread: which events it discards and replays.

The problem: a consumer adds up the events that it receives. If a run is killed, or its iterator is
closed early, what the consumer received and what the saver stored differ. Some events were received
from a step that never finished and will run again; others were saved by a step that finished, but
were never received. After `resume` the consumer's total must equal `Runner.events()`.

Ways that are not good enough:

- Yielding only new events: those that were saved but not received are lost, and those of the step that
  runs again are counted twice.
- Replaying everything on each resume: then each resume costs as much as the whole thread.
- A separate log of events: it is a second truth next to the checkpoints, written at another time.

The rule. No log: events are read where they are saved anyway, which is the writes of steps, the results
of tasks, the questions of tasks, and the notes that the runner saves at a checkpoint. Each event has a
number that grows within the thread. A replay sorts by number, takes each event once, and leaves out
what a later `discarded` event names, by event id or by step.

When a run ends, it saves a note "heard": the number of the last event that its consumer received, or
"all". A run that resumes looks for this note:

- All were received: only a step that was cut short is discarded, and what is saved of it replayed.
- All were received, and the run was stopped between steps: nothing is discarded.
- Received up to an event: the step in progress is discarded, and all saved events from the first one on
  that is discarded or was not received are replayed.
- No note: the run was killed. LangGraph may save a step before it streams its events, so it is unknown
  what was received of the step in progress and of the one before. Both are discarded by their names,
  and what is saved of them is replayed.

For example, a sequence of `writer` and `critic` is killed while `critic` runs:

```
run:     message writer "A draft."       step 1ef:writer, saved
         message critic "Too"            step 1f0:critic, not saved; the process is killed
resume:  discarded 1ef:writer, 1f0:critic
         message writer "A draft."       replayed from the saver, same id and time
         message critic "Too long."      the step runs again
```
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import NamedTuple, cast
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from agentgraph.events.events import AgentEvent
from agentgraph.events.translation import question_note
from agentgraph.graph.deadlines import Deadlines
from agentgraph.graph.internals import ERROR, INTERRUPT
from agentgraph.graph.lane_position import Position, clock_in
from agentgraph.graph.nodes.emitter import Before, Clock
from agentgraph.graph.stamps import (
    Entry,
    EventOrder,
    Note,
    address_of,
    cursor_of,
    event_order,
    number_in,
    number_of,
)
from agentgraph.journal.changed_trees import is_of
from agentgraph.journal.data_digests import data_digest
from agentgraph.journal.entries import (
    all_entries,
    answers_of,
    entries_and_failures,
    entries_of,
    last_note,
)
from agentgraph.journal.lines import (
    before_edits,
    lanes_since,
    newest_of_each,
    place_of,
    root_line,
    save_notes,
)
from agentgraph.journal.replay import events_from, transfer_ends
from agentgraph.journal.saved import Saved, error_in, is_stop
from agentgraph.journal.schema import (
    ALL,
    CHANGED,
    DISCARDED,
    RECEIVED,
    RESUMED,
    REWOUND,
    STOPPED,
    TAKEN,
    Discarded,
    Received,
    Rewound,
)
from agentgraph.journal.steps import steps_after
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.thread_status import earliest_deadline, ended_status
from agentgraph.tree.addresses import root_address
from agentgraph.tree.places import Tree


def _turn_with(graph_input: object, saved: Saved) -> int:
    """Return the turn that input begins or resumes; one that had not begun is part of the next."""
    is_next = not (isinstance(graph_input, Command | None) or saved.begins_turn)
    return saved.clock[0] + is_next


class Continuation(NamedTuple):
    """How a run continues a thread. It holds no checkpoint while the run is active: they are large.

    Attributes:
        begin: The order of the last event before the run.
        replayed: The events that the run yields before those of the graph.
        questions: The events of the step's questions, by their ids. A question is included even if it
            was answered, as it may be asked again if the run with the answer was killed.
        before: The facts about earlier events that nodes must know.
        notes_before: Notes to save at the checkpoint before the replayed events: the caller may close
            the run while it reads these.
        notes_after: Notes to save there after the replayed events.
        checkpoint: The config of the checkpoint whose step continues; None if no step is unfinished.
        ends: Where transfers led that led to where the lanes of that step are.
        rewound: The root's checkpoint to which a rewind led, if states of graphs follow it.
        reported: The number at which a run of the step saved that it failed or paused; 0 if none did.
    """

    begin: EventOrder = EventOrder(0, 0, "")
    replayed: Sequence[AgentEvent] = ()
    questions: Mapping[str, AgentEvent] | None = None
    before: Before = (0, ())
    notes_before: Sequence[Note] = ()
    notes_after: Sequence[Note] = ()
    checkpoint: RunnableConfig | None = None
    ends: Sequence[Position] = ()
    rewound: Saved | None = None
    reported: int = 0

    @property
    def deadlines(self) -> Deadlines:
        """The deadlines of the step's questions, for the nodes of the run."""
        actions = (each.action for each in (self.questions or {}).values())
        asked = [each.interrupted for each in actions if each and each.interrupted]
        at = {each.id: each.deadline for each in asked if each.deadline is not None}
        return Deadlines(at, self.before[0], self.reported)


class Replay(NamedTuple):
    """The events that a resumed run discards and replays.

    Attributes:
        discarded: The names of steps, and the ids of events, that are discarded.
        entries: The entries to replay: those that are saved.
        failures: Those that no run has reported yet; they are saved when they are replayed.
    """

    discarded: Sequence[str] = ()
    entries: Sequence[Entry] = ()
    failures: Sequence[Note] = ()


def _with_rewound(replay: Replay, rewound: Rewound, entries: Sequence[Entry]) -> Replay:
    """Return a replay with what a rewind left; `entries` are those of the line."""
    again = {number_of(each): each for each in replay.entries}
    if (first := rewound["again"]) is not None:
        again |= {number_of(each): each for each in entries if number_of(each) >= first}
    in_order = [again[number] for number in sorted(again)]
    return Replay([*replay.discarded, *rewound["ids"]], in_order, replay.failures)


class _Rest(NamedTuple):
    """The rest of the last run.

    Attributes:
        origin: The checkpoint from which the step begins that continues.
        every: The step's checkpoints.
        replay: The events that a run discards and replays.
        line: The checkpoints of all that it replays.
        rewound: The checkpoint to which a rewind led, if states of graphs follow it.
    """

    origin: Saved
    every: Sequence[Saved]
    replay: Replay
    line: Sequence[Saved]
    rewound: Saved | None = None


def _rewound(ran: Saved) -> Rewound | None:
    """Return the note of a rewind at a checkpoint; None if no rewind led there."""
    back = last_note(ran, REWOUND)
    return None if back is None else cast(Rewound, back.data)


def _is_rewind_received(ran: Saved) -> bool:
    """Return whether a run from where a rewind led has saved that its first event was received."""
    back, received = last_note(ran, REWOUND), last_note(ran, RECEIVED)
    return back is not None and received is not None and number_of(received) > number_of(back)


async def continuation(saver: ThreadSaver, saved: Saved | None, graph_input: object) -> Continuation:
    """Return how a run continues a thread.

    Args:
        saver: The thread.
        saved: Its latest checkpoint.
        graph_input: The input of the graph: that of a new turn, or a command or None to resume.
    """
    position = saved.position if saved else None
    if saved is None or position is None:
        return Continuation()
    if (rest := await _rest(saver, saved)) is None:
        last = clock_in(position)[1]
        return Continuation(EventOrder(_turn_with(graph_input, saved), last, ""), before=(last, ()))
    return _continue_step(saver, graph_input, saved, rest)


async def next_replay(saver: ThreadSaver, head: Saved) -> Replay:
    """Return the events that a resume would discard and replay now, given the latest checkpoint."""
    rest = None if head.position is None else await _rest(saver, head)
    return Replay() if rest is None else rest.replay


async def _rest(saver: ThreadSaver, saved: Saved) -> _Rest | None:
    """Return the rest of the last run, given the thread's last checkpoint; None if nothing is left."""
    ran, origin = await before_edits(saver, saved)
    received = await _received_upto(saver, ran, is_edited=ran is not saved)
    is_over = saved.next_node is None
    if is_over and received == inf:
        return None
    rest = await _replay_of(saver, ran, saved if is_over else origin, received, is_over=is_over)
    if (gone := _rewound(ran)) is None:
        return rest
    rest = rest._replace(rewound=ran if gone["states"] else None)
    if not _is_rewind_received(ran):
        line = rest.line if gone["again"] is None else await lanes_since(saver, gone["since"])
        replay = _with_rewound(rest.replay, gone, entries_of(saver.tree, line))
        rest = rest._replace(line=line, replay=replay)
    return rest


async def _replay_of(
    saver: ThreadSaver,
    ran: Saved,
    origin: Saved,
    received: float | None,
    *,
    is_over: bool,
) -> _Rest:
    """Return the events to discard and replay, without the note of a rewind.

    Args:
        saver: The thread.
        ran: The last checkpoint that a run wrote.
        origin: The checkpoint from which the step begins that continues.
        received: The number up to which the events of the last run were received, infinite for all;
            None if it was killed.
        is_over: Whether no step is left.
    """
    tree = saver.tree
    is_cut = not is_over and _is_cut_short(origin)
    line = [origin]
    place = place_of(tree, origin.position)
    runs_tasks = (place or tree).runs_tasks
    if received != inf or tree.may_discard or (runs_tasks and (is_cut or _has_failed(origin))):
        line = await lanes_since(saver, *await _first_needed(saver, ran, origin, received))
    every = _since(line, origin)
    if received is None:
        replay = _full_replay(tree, _maybe_unreceived(line, ran))
    elif received < inf:
        replay = _replay_after(
            tree, line, received, _names(tree, newest_of_each(every).values()) if is_cut else ()
        )
    else:  # it can be cut short only if another line continued
        replay = _full_replay(tree, every) if is_cut else Replay()
    return _Rest(origin, every, replay, line)


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
        rest: The rest of the run.
    """
    origin, every, replay, line, rewound = rest
    is_turn, tree = not isinstance(graph_input, Command | None), saver.tree
    turn, last = saved.clock
    is_changed = not is_turn and not is_of(tree, origin)
    entries = entries_of(tree, every)
    asked = [each for each in entries if isinstance(each, Note) and each.kind == "interrupted"]
    open_ = _open_questions(asked, every, origin)
    answered = _answered(graph_input, open_)
    dropped = list(open_) if is_turn else []
    again = [each for each in replay.entries if each.id not in dropped]
    ids = [*dropped, *replay.discarded, *(each.id or "" for each in again)]
    numbers = map(number_of, [*entries, *saved.notes, *origin.notes])
    clock = Clock(turn, max([last, *numbers]))
    note = partial(new_note, clock, root_address(tree))
    mark = [note(RESUMED, [])] if ids else []
    first = [note("discarded", [*dict.fromkeys(ids)])] if ids else []
    discards = [each._replace(kind=DISCARDED, data=_as_discarded(each)) for each in first]
    keeps = [note("discarded", dropped)] if dropped else []
    clock.next()  # chunks have it in their cursors, which come after those of what is replayed
    waiting = open_.keys() - {*answered, *dropped}
    kept = [each for each in asked if each.id not in dropped]
    questions = zip(kept, events_from(kept, saver, line), strict=True)
    return Continuation(
        begin=EventOrder(_turn_with(graph_input, saved), clock.last, ""),
        replayed=[*events_from([*first, *again], saver, line)],
        questions={each.id: event for each, event in questions},
        before=(clock.last, [_as_before(each, waiting) for each in (*entries, *answers_of(every))]),
        notes_before=[*mark, *discards],
        notes_after=[
            *(open_[each] for each in answered),
            *replay.failures,
            *keeps,
            note(RESUMED, _with_digests(graph_input, answered)),
            *([note(CHANGED, tree.outline)] if is_changed else []),
        ],
        checkpoint=origin.config,
        ends=transfer_ends(tree, every),
        rewound=rewound,
        reported=clock.last if replay.failures else _reported(origin),
    )


def _reported(origin: Saved) -> int:
    """Return the number at which a run saved that it failed or paused; 0 if none did.

    A failure may leave no note of a run that its caller closed, as of one that was killed.
    """
    ends = [note for note in origin.notes if note.kind in ("error", REWOUND)]
    ends += [note for note in origin.notes if note.kind == RECEIVED and note.data == ALL]
    return max(map(number_of, ends), default=0)


def _as_discarded(note: Note) -> Discarded:
    """Return the data of the runner's note of a `discarded` event; what is discarded is replayed."""
    return Discarded(cursor=cursor_of(number_of(note)), ids=note.data, is_final=False)


async def save_received(
    saver: ThreadSaver, upto: str | None, *, stop_reason: str | None = None
) -> None:
    """Save up to where the consumer of a run received its events, if the saver can.

    Args:
        saver: The thread.
        upto: The cursor of the last event that was received; `ALL` if all were; None to save nothing.
        stop_reason: Why the run was stopped between steps; None if it was not.
    """
    if upto is None:
        return
    saved = await saver.written()
    position = saved.position if saved else None
    if saved is not None and position is not None:
        turn, last = clock_in(position)
        clock = Clock(turn, max([last, *map(number_of, saved.notes)]))
        is_stopped = stop_reason is not None
        stopped = [new_note(clock, "", STOPPED, stop_reason)] if is_stopped else []
        received: Received = "all" if upto == ALL else number_in(upto)
        notes = [*stopped, new_note(clock, "", RECEIVED, received)]
        has_ended = upto == ALL and not is_stopped
        status = ended_status(saved) if has_ended else ""
        deadline = None if status in ("", "done") else earliest_deadline(saved)
        await save_notes(saver, saved.config, notes, status, deadline)


def _full_replay(tree: Tree, every: Sequence[Saved]) -> Replay:
    entries, failed = entries_and_failures(tree, every)
    return Replay(_names(tree, every), [*entries, *failed], failed)


def _replay_after(tree: Tree, line: Sequence[Saved], received: float, steps: Collection[str]) -> Replay:
    """Return the events to discard and replay if a run's events were received only up to a number.

    To keep their order, all entries are replayed from the first on that is discarded or was not
    received.
    """
    discarded = [
        each
        for note in all_entries(line)
        if isinstance(note, Note) and note.kind == "discarded" and _is_due(note, received, ())
        for each in note.data
    ]
    unread = (n for saved in line for n in saved.notes if n.kind == DISCARDED and n.data["is_final"])
    discarded += [each for note in unread if number_of(note) > received for each in note.data["ids"]]
    entries = entries_of(tree, line)
    first = next((i for i, each in enumerate(entries) if _is_due(each, received, steps)), len(entries))
    return Replay([*steps, *discarded], entries[first:])


async def _first_needed(
    saver: ThreadSaver, ran: Saved, origin: Saved, received: float | None
) -> tuple[str, Sequence[Saved]]:
    """Return the id of the first root checkpoint that decides the discarded and replayed events.

    If it is unknown what was received, that is the one before `ran`; otherwise the last one at which
    all events had been received, or the one whose step continues. With those of the root since then,
    if they were read to find it.
    """
    if received == inf:
        return origin.id, ()

    def is_first(saved: Saved) -> bool:
        if received is None:
            return saved.id < ran.id
        return saved.id <= ran.id and saved.clock[1] <= received

    roots = await root_line(saver, is_first)
    return roots.first, roots.read


def _is_due(entry: Entry, received: float, steps: Collection[str]) -> bool:
    order = event_order(entry)
    return order is not None and (order.number > received or order.step in steps)


def _names(tree: Tree, every: Iterable[Saved]) -> list[str]:
    return sorted(step for each in every for step in steps_after(tree, each))


async def _received_upto(saver: ThreadSaver, ran: Saved, *, is_edited: bool) -> float | None:
    """Return the number up to which the events of the last run were received, infinite for all.

    None if the run was killed. If the state was edited since, the run may have continued on another
    line: then all were received.
    """
    if (last := last_note(ran, RESUMED, RECEIVED)) is not None:
        if last.kind == RESUMED:
            return None
        return inf if last.data == ALL else cast(int, last.data)
    if not is_edited:
        return None
    as_saved = await saver.checkpoint(checkpoint_id=ran.id)
    return inf if as_saved and as_saved.has_ended else None


def _since(line: Iterable[Saved], first: Saved) -> list[Saved]:
    return [each for each in line if each.id >= first.id]


def _maybe_unreceived(line: Sequence[Saved], ran: Saved) -> list[Saved]:
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
    begun = last_note(saved, RESUMED, STOPPED)
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
    """Return whether a step has ever failed: its checkpoint may be without some questions."""
    by_task = saved.writes.values()
    return any(ERROR in each for each in by_task) or last_note(saved, "error") is not None


def _open_questions(asked: Iterable[Note], every: Sequence[Saved], origin: Saved) -> dict[str, Note]:
    """Return the notes of the questions without answers, by their ids: their lanes are still there.

    Args:
        asked: The notes of all questions in a step of the root.
        every: The checkpoints of the step, newest first; or only that of the root.
        origin: The root's checkpoint, where the ids of answered questions are saved.
    """
    resumed = [note for note in origin.notes if note.kind in (RESUMED, TAKEN)]
    answered = {each for note in resumed for each in note.data or ()}
    heads = newest_of_each(every)
    next_ = {each.step for each in heads.values()}
    return {
        note.id: note
        for note in asked
        if note.id not in answered and (len(heads) == 1 or (note.order and note.order.step in next_))
    }


def _answered(graph_input: object, asked: Collection[str]) -> list[str]:
    answers = graph_input.resume if isinstance(graph_input, Command) else None
    named = [each for each in asked if isinstance(answers, dict) and each in answers]
    return named or (list(asked) if answers is not None and len(asked) == 1 else [])


def _with_digests(graph_input: object, answered: Sequence[str]) -> dict[str, str]:
    """Return answered questions, by their ids, each with a digest of its answer."""
    answers = graph_input.resume if isinstance(graph_input, Command) else None
    by_id = answers if isinstance(answers, dict) else {}
    return {each: data_digest(by_id[each]) if each in by_id else "" for each in answered}


def new_note(clock: Clock, at: str, kind: str, data: object) -> Note:
    """Return a note with the next number of a clock, for an address."""
    return Note(str(uuid4()), kind, data, at, EventOrder(clock.turn, clock.next(), ""))


def _as_before(entry: Entry, waiting: Container[str]) -> tuple[str, str, bool]:
    """Return an entry as nodes know it: its address, its id, and whether it waits for an answer."""
    at = entry.address if isinstance(entry, Note) else address_of(entry)
    return at or "", entry.id or "", entry.id in waiting

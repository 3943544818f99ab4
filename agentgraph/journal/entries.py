"""The entries of a thread: the messages and notes of which its events are made, as they are saved.

They are read where they are saved anyway: in the writes of steps, the results of tasks, the questions
of tasks, and the notes that the runner saves at a checkpoint. Each has a number that grows within the
thread. Entries that a later `discarded` entry names, by id or by step, are left out.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from langgraph.constants import START

from agentgraph.events.translation import emitted_in, question_note
from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.stamps import (
    ANSWERED,
    Entry,
    EventOrder,
    Note,
    event_order,
    is_edited,
    number_at,
    number_of,
)
from agentgraph.graph.stored_values import notes_in
from agentgraph.journal.lines import (
    address_at,
    position_in,
    without_past_attempts,
)
from agentgraph.journal.saved import Saved, error_in, is_stop
from agentgraph.journal.schema import (
    CHANGED,
    DISCARDED,
    KEPT,
    RECEIVED,
    RESUMED,
    REWOUND,
    STOPPED,
    TAKEN,
)
from agentgraph.tree.addresses import address, as_cursor, entered
from agentgraph.tree.places import Tree

_NO_EVENTS = (RESUMED, KEPT, TAKEN, RECEIVED, STOPPED, REWOUND, CHANGED, DISCARDED)
"""Kinds of notes of the runner that are not events."""


def entries_of(tree: Tree, every: Iterable[Saved]) -> list[Entry]:
    """Return the entries of the steps after some checkpoints, without the discarded ones, in order."""
    entries, failed = entries_and_failures(tree, every)
    return [*entries, *failed]


def entries_and_failures(tree: Tree, every: Iterable[Saved]) -> tuple[list[Entry], list[Note]]:
    """Return `_entries` in two parts: saved entries, and failures that no runner reported."""
    rest, entries = _of_last_attempts(every)
    events = [
        each
        for each in _without_discarded(entries)
        if not (isinstance(each, Note) and each.kind == ANSWERED)
    ]
    return events, [*_failures(tree, rest, entries)]


def _of_last_attempts(
    every: Iterable[Saved],
) -> tuple[list[Saved], list[Entry]]:
    """Return the checkpoints without those of attempts that another one followed; and the entries.

    The entries of a past attempt that a runner saved are with the root's checkpoint.
    """
    checkpoints = list(every)
    rest = without_past_attempts(checkpoints)
    entries = all_entries(rest)
    if len(rest) < len(checkpoints):
        past = {each.id for each in checkpoints} - {each.id for each in rest}
        entries = [each for each in entries if _began_at(each) not in past]
    return rest, entries


def _began_at(entry: Entry) -> str:
    order = event_order(entry)
    return order.step.partition(":")[0] if order else ""


def answers_of(every: Iterable[Saved]) -> list[Note]:
    """Return the notes of structured answers in the steps after some checkpoints, in order."""
    entries = _without_discarded(_of_last_attempts(every)[1])
    return [each for each in entries if isinstance(each, Note) and each.kind == ANSWERED]


def all_entries(every: Iterable[Saved]) -> list[Entry]:
    """Return all saved entries of the steps after some checkpoints, in order."""
    by_number: dict[int, Entry] = {}
    for saved in every:
        for order, entry in _ordered_at(saved):
            if order is not None:
                by_number.setdefault(order.number, entry)
    return [by_number[number] for number in sorted(by_number)]


def _without_discarded(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without those that a later one discards.

    A question that was asked again under its id appears only where it was asked last.
    """
    discarded: set[str] = set()
    rest: list[Entry] = []
    for entry in reversed(entries):
        if isinstance(entry, Note) and entry.kind == "discarded":
            discarded.update(entry.data)
        elif not (discarded and _is_named(entry, discarded)):
            rest.append(entry)
            discarded.update(
                [entry.id] if isinstance(entry, Note) and entry.kind == "interrupted" else []
            )
    return rest[::-1]


def _is_named(entry: Entry, names: Collection[str]) -> bool:
    order = event_order(entry)
    return entry.id in names or (order is not None and order.step in names)


def entries_at(saved: Saved) -> list[Entry]:
    """Return the entries of the step after a checkpoint, and those that are saved at it."""
    return [entry for _, entry in _ordered_at(saved)]


def notes_at(saved: Saved) -> list[Note]:
    """Return the notes of `entries_at`, except those about edited messages; no message is read."""
    found = [note for note in saved.notes if note.kind not in _NO_EVENTS]
    for task, writes in saved.writes.items():
        found += map(question_note, writes.get(INTERRUPT, ()))
        for written in (writes, saved.results.get(task, {})):
            found += [note for note in notes_in(written) if note.order is not None]
    return [note for note in found if _is_kept(saved, note.order)]


def _ordered_at(saved: Saved) -> list[tuple[EventOrder | None, Entry]]:
    """Return the entries, with their orders; an edit comes after the entry that discards the old."""
    found: list[tuple[EventOrder | None, Entry]] = []
    for task, writes in saved.read_writes().items():
        for written in (writes, saved.results.get(task, {})):
            if "messages" in written or "position" in written:
                _add_emitted(found, written)
        for asked in writes.get(INTERRUPT, ()):
            note = question_note(asked)
            found.append((note.order, note))
    if saved.notes:
        found += [(note.order, note) for note in saved.notes if note.kind not in _NO_EVENTS]
    return [each for each in found if _is_kept(saved, each[0])]


def _is_kept(saved: Saved, order: EventOrder | None) -> bool:
    """Return whether the thread still has the turn of an entry that is saved at a checkpoint.

    Where turns before were pruned, the first input may have messages of the last of them, which was
    given up: the thread has no events of that turn any more.
    """
    is_first = START in saved.checkpoint["channel_values"] and not saved.parent_id
    return not is_first or order is None or order.turn >= saved.clock[0]


def _add_emitted(found: list[tuple[EventOrder | None, Entry]], written: Mapping[str, object]) -> None:
    for order, entry in emitted_in(written):
        if not isinstance(entry, Note) and is_edited(entry):
            before = order._replace(number=order.number - 1)
            found.append((before, Note(str(entry.id), "discarded", [entry.id], "", before)))
        found.append((order, entry))


def last_note(saved: Saved, *kinds: str) -> Note | None:
    """Return the last note of some kinds that is saved at a checkpoint."""
    last: Note | None = None
    for note in saved.notes:
        if note.kind in kinds and (last is None or number_of(note) > number_of(last)):
            last = note
    return last


def _failures(tree: Tree, every: Sequence[Saved], entries: Sequence[Entry]) -> Iterator[Note]:
    """Yield errors for failed steps of the root that no runner reported: a runner saves its own.

    A step that has ended since has none: its failure is not saved any more.
    """
    last = 0
    for saved in reversed(every):
        if saved.namespace or saved.has_ended or last_note(saved, "error"):
            continue
        for error in _shown_errors(saved):
            failed = ((each, tasks[error]) for each in every if error in (tasks := _shown_errors(each)))
            at = max((_failed_at(tree, each, task) for each, task in failed), key=len)
            last = max([last, number_at(saved.time), *map(number_of, entries)]) + 1
            order = EventOrder(saved.clock[0], last, saved.step)
            yield Note(f"{saved.checkpoint['id']} {error}", "error", error, at, order)


def _failed_at(tree: Tree, saved: Saved, task: str) -> str:
    """Return the address at which a task of a step failed, which may be a branch that is one leaf."""
    place, position = tree.by_node.get(saved.next_node or ""), position_in(tree, saved)
    at = address_at(tree, saved) or ""
    if place is None or position is None or not place.kind.is_parallel or place.kind.has_items:
        return at
    failed = (each for each in tree.lanes(place) if saved.called_task(each.node, each.rank) == task)
    cursor = as_cursor(position["cursor"])
    return next((address(each, entered(each, cursor)) for each in failed), at)


def _shown_errors(saved: Saved) -> dict[str, str]:
    """Return the errors of the tasks of a step, each once, with the task that saved it first."""
    errors: dict[str, str] = {}
    for task, writes in saved.writes.items():
        if (error := error_in(writes)) is not None and not is_stop(error):
            errors.setdefault(error, task)
    return errors

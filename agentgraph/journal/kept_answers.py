"""Answers on a thread at rest: they are stored with the step that asked, and the next run takes them.

A note at the root's checkpoint of that step has them, by the ids of their questions. A run that resumes
the step passes them on with its own answers, and its note `RESUMED` names all of them. Where that run
was killed, and a question still waits, its answer is still there for the next run.
"""

from collections.abc import Mapping
from types import MappingProxyType

from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.nodes.emitter import Clock
from agentgraph.graph.stamps import Note, number_of
from agentgraph.journal.continuation import new_note
from agentgraph.journal.data_digests import data_digest
from agentgraph.journal.lines import save_notes
from agentgraph.journal.saved import Saved
from agentgraph.journal.schema import KEPT, RECEIVED, RESUMED, TAKEN
from agentgraph.journal.thread_saver import ThreadSaver


def kept_answers(origin: Saved) -> Mapping[str, object]:
    """Return the answers that are stored with a step of the root, by the ids of their questions.

    Of two answers to a question the first counts. An answer is gone after a run that has taken it, and
    that left a note of its end.
    """
    kept, taken = dict[str, object](), set[str]()
    for note in sorted(origin.notes, key=number_of):
        if note.kind in (KEPT, TAKEN):
            kept = {**note.data, **kept}
        elif note.kind == RESUMED:
            taken = {*note.data}
        elif note.kind == RECEIVED:
            kept = {key: answer for key, answer in kept.items() if key not in taken}
    return kept


async def were_stored(saver: ThreadSaver, origin: Saved, answers: Mapping[str, object]) -> bool:
    """Return whether answers were stored with a step of the root; a run may have taken them since."""
    if (saved := await saver.checkpoint("", origin.id)) is None:
        return True  # it was pruned
    every = (note.data.items() for note in saved.notes if note.kind in (KEPT, TAKEN))
    stored = {(key, data_digest(answer)) for items in every for key, answer in items}
    return {(key, data_digest(answer)) for key, answer in answers.items()} <= stored


def seems_to_ask(head: Saved) -> bool:
    """Return whether a question without a stored answer is saved at a thread's latest checkpoint.

    That it waits is known only to the tree that asked it.
    """
    asked = {each.id for writes in head.writes.values() for each in writes.get(INTERRUPT, ())}
    return not asked <= kept_answers(head).keys()


async def keep_answers(
    saver: ThreadSaver,
    head: Saved,
    origin: Saved,
    answers: Mapping[str, object],
    status: str = "",
    deadline: float | None = None,
    taken: Mapping[str, Note] = MappingProxyType({}),
) -> None:
    """Store answers with the step that asked.

    Args:
        saver: The thread.
        head: Its latest checkpoint.
        origin: The root's checkpoint of the step.
        answers: The answers, by the ids of their questions.
        status: The status of the thread with these answers; empty if a run is active on it.
        deadline: The earliest deadline of the questions without one, in seconds since 1970; None
            without any.
        taken: The questions whose answers lanes of that run take, by their ids. A task that asks again
            replaces its question, so they are stored, too.
    """
    turn, last = head.clock
    clock = Clock(turn, max([last, *map(number_of, [*head.notes, *origin.notes])]))
    notes = [*taken.values()]
    for kind, is_taken in ((KEPT, False), (TAKEN, True)):
        if data := {key: each for key, each in answers.items() if (key in taken) == is_taken}:
            notes.append(new_note(clock, "", kind, data))
    await save_notes(saver, origin.config, notes, status, deadline)

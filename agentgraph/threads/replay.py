"""The events of a thread told again, from what its saver keeps.

What was told lies where it was written: with the steps of the lanes, the results of tasks, the
questions that these asked, and what the runner kept beside a step. Each has its number, so the events
are all that is found, each once, in the order of the numbers, without what was told to be void later.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from langgraph.checkpoint.base import CheckpointTuple

from agentgraph.events.events import AgentEvent
from agentgraph.events.translation import Translator, entries_in, question_note
from agentgraph.graph.moments import Entry, Moment, Note, moment_of
from agentgraph.graph.nodes.lane import standing
from agentgraph.graph.state import clock_in
from agentgraph.safe_repr import shown_error
from agentgraph.threads.threads import (
    AllSaved,
    Reads,
    address_at,
    has_ended,
    kept_beside,
    namespace_of,
    newest,
    opened,
    position_of,
    step_at,
    writes_by_task,
)
from agentgraph.tree.places import Tree

UNTOLD = ("resumed", "heard")
"""The kinds of notes beside a step that only say that a run went on there, or what was heard of it."""


def replayed(tree: Tree, thread_id: str) -> Reads[list[AgentEvent]]:
    """Return the events of all turns of a thread, chunks aside; errors as `opened`."""
    yield from opened(tree, thread_id)
    translator = Translator(tree, thread_id)
    return [translator.event(entry) for entry in entries(tree, (yield AllSaved()))]


def recalled(tree: Tree, thread_id: str) -> Reads[list[str | AgentEvent]]:
    """Return what came of the last turn of a thread, in order: its events, and what ended.

    What ended is told by its address, for not all of it has events. Errors as `opened`.
    """
    yield from opened(tree, thread_id)
    every = standing((yield AllSaved()))
    turn = max((_turn(saved) for saved in every), default=0)
    mine = [saved for saved in every if _turn(saved) == turn]
    left = {address_at(tree, saved) for saved in newest(every).values()}
    translator = Translator(tree, thread_id)
    came: list[tuple[int, int, str | AgentEvent]] = [
        (moment.number, 0, translator.event(entry))
        for entry in entries(tree, every)
        if (moment := moment_of(entry)) and moment.turn == turn
    ]
    came += [
        (clock_in(position)[1], 1, position["at"])
        for position in filter(None, map(position_of, mine))
        if "at" in position and position["at"] not in left
    ]
    return [each for *_, each in sorted(came, key=lambda each: each[:2])]


def entries(tree: Tree, every: Iterable[CheckpointTuple]) -> list[Entry]:
    """Return what stands of all that was told in the steps behind some checkpoints, in order."""
    every = standing(every)
    told = all_told(every)
    return [*without_void(told), *_failures(tree, every, told)]


def failures(tree: Tree, every: Iterable[CheckpointTuple]) -> list[Note]:
    """Return how a step of the root failed that no runner told."""
    every = standing(every)
    return list(_failures(tree, every, all_told(every)))


def all_told(every: Iterable[CheckpointTuple]) -> list[Entry]:
    """Return all that was told in the steps behind some checkpoints, and is kept, in order."""
    found: dict[int, Entry] = {}
    for saved in every:
        for entry in _entries_at(saved):
            if (moment := moment_of(entry)) is not None:
                found.setdefault(moment.number, entry)
    return [found[number] for number in sorted(found)]


def without_void(told: Sequence[Entry]) -> list[Entry]:
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
    yield from (note for note in kept_beside(saved) if note.kind not in UNTOLD)


def _failures(tree: Tree, every: Sequence[CheckpointTuple], told: Sequence[Entry]) -> Iterator[Note]:
    """Yield how a step of the root failed that no runner told: a runner keeps what it tells of that.

    Of a step that ended since it is not known any more.
    """
    last = max((moment.number for moment in map(moment_of, told) if moment), default=0)
    failed = [saved for saved in every if not namespace_of(saved) and not _is_known(saved)]
    for saved in reversed(failed):
        for shown in _shown_errors(saved):
            at = max(
                (address_at(tree, each) or "" for each in every if shown in _shown_errors(each)),
                key=len,
            )
            last = max(last, _began(saved)) + 1
            moment = Moment(_turn(saved), last, step_at(saved))
            yield Note(f"{saved.checkpoint['id']} {shown}", "error", shown, at, moment)


def _began(saved: CheckpointTuple) -> int:
    """Return when the step behind a checkpoint began, in microseconds since 1970."""
    return int(datetime.fromisoformat(saved.checkpoint["ts"]).timestamp() * 1_000_000)


def _is_known(saved: CheckpointTuple) -> bool:
    """Tell whether a step ended, or a runner kept how it failed."""
    return has_ended(saved) or any(note.kind == "error" for note in kept_beside(saved))


def _shown_errors(saved: CheckpointTuple) -> list[str]:
    """Return how the tasks of a step failed, each once."""
    errors = [writes["__error__"] for writes in writes_by_task(saved).values() if "__error__" in writes]
    shown = dict.fromkeys(each if isinstance(each, str) else shown_error(each) for each in errors)
    return [each for each in shown if not each.startswith(("CancelledError(", "KeyboardInterrupt("))]


def _turn(saved: CheckpointTuple) -> int:
    return clock_in(position_of(saved))[0]

"""The events of a thread again, as it has saved them: all of them, or those after a cursor."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from agentgraph.events.events import AgentEvent
from agentgraph.events.translation import Translator
from agentgraph.graph.lane_position import Position, clock_in
from agentgraph.graph.stamps import (
    Entry,
    EventOrder,
    Note,
    cursor_of,
    event_order,
    number_in,
    number_of,
)
from agentgraph.journal.changed_trees import former_paths, open_thread, read_thread
from agentgraph.journal.entries import answers_of, entries_and_failures
from agentgraph.journal.lines import (
    address_at,
    newest_of_each,
    place_of,
    root_line,
    without_past_attempts,
)
from agentgraph.journal.saved import Saved
from agentgraph.journal.schema import DISCARDED, Discarded
from agentgraph.journal.story import Story, present_story, whole_story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.tree.addresses import as_cursor
from agentgraph.tree.places import Tree

_LAST = 10**16 - 1
"""Greater than all parts of cursors."""


async def events_on(saver: ThreadSaver, line: str | None = None) -> Iterator[AgentEvent]:
    """Return the maker of the events of a line, all of which is read now.

    It holds no checkpoint: these take more memory.

    Args:
        saver: The thread.
        line: The head of a line; None for the present one.

    Raises:
        UnknownThreadError: The saver has no such thread, and nothing runs on it.
        ThreadError: The thread has no such line; or as `open_thread` does.
    """
    story = await whole_story(saver, line)
    return events_from(story.entries, saver, story.with_other_trees)


def events_of(saver: ThreadSaver, story: Story) -> list[AgentEvent]:
    """Return the events of a story, in order."""
    return [*events_from(story.entries, saver, story.with_other_trees)]


async def events_since(saver: ThreadSaver, after: str | None, upto: int | None) -> list[AgentEvent]:
    """Return the events after a cursor, in order.

    Events that a run discarded when it began, and replayed, come with that run: its cursors begin with
    that of the `discarded` event. So a follower that is cut off in the middle continues there. Events
    that a run discarded later, such as the words of an attempt that was repeated, come with its
    `discarded` event.

    Args:
        saver: The thread.
        after: The cursor; None for a follower that has read nothing: then nothing has to be discarded.
        upto: The number of the last event to yield; None for all.

    Raises:
        ThreadError: As `read_thread` does.
    """
    await read_thread(saver)
    return events_in_steps(saver, (await _story_since(saver, after)).with_other_trees, after, upto)


async def _story_since(saver: ThreadSaver, after: str | None) -> Story:
    """Return the story of the steps that may have events after a cursor.

    A checkpoint of the root has the number of the last event before it. So the last one with a number
    that is not greater than the follower's begins these steps; or the one before it, because a run that
    was killed may have saved all of a step, and then the run that resumes ends it without a new number.
    All checkpoints are needed where a run replayed events that it discarded, which may be older, and
    where transfers before decide the run paths.
    """
    if after is not None and not saver.tree.has_transfers:
        number, has_read = number_in(after), [False]

        def is_last(saved: Saved) -> bool:
            was_read, has_read[0] = has_read[0], saved.clock[1] <= number
            return was_read

        roots = await root_line(saver, is_last)
        if roots.line:
            story = await present_story(saver, roots)
            if not any(
                _is_replay_after(note, after) for each in story.with_other_trees for note in each.notes
            ):
                return story
    return await present_story(saver)


def _is_replay_after(note: Note, after: str) -> bool:
    """Return whether a note says that a run discarded events, and replayed them after a cursor."""
    is_replay = note.kind == DISCARDED and not note.data["is_final"]
    return is_replay and cursor_of(number_of(note), _LAST) > after


def events_in_steps(
    saver: ThreadSaver, every: Sequence[Saved], after: str | None, upto: int | None
) -> list[AgentEvent]:
    """Return the missed events in the steps after some checkpoints, in order.

    Args:
        saver: The thread.
        every: The checkpoints; with all of the thread it is what `events_since` returns.
        after: As in `events_since`.
        upto: As in `events_since`.
    """
    notes = [note for saved in every for note in saved.notes if note.kind == DISCARDED]
    discards = [each for each in notes if after and cursor_of(number_of(each), _LAST) > after]
    emitted: list[tuple[str, Entry]] = [
        (each.data["cursor"], each._replace(kind="discarded", data=each.data["ids"]))
        for each in discards
    ]
    entries, failed = entries_and_failures(saver.tree, every)
    if upto is None:  # else a run is active, which will report how it has failed
        entries += failed
    emitted += [
        (_cursor_after(entry, discards), entry) for entry in entries if not _is_lost(entry, notes)
    ]
    due = sorted((each for each in emitted if each[0] > (after or "")), key=itemgetter(0))
    due = [each for each in due if upto is None or number_in(each[0]) <= upto]
    events = events_from([entry for _, entry in due], saver, every)
    return [replace(event, cursor=cursor) for event, (cursor, _) in zip(events, due, strict=True)]


def discarded_note(event: AgentEvent) -> Note:
    """Return the note of a `discarded` event, for `events_since`."""
    cursor, discarded = event.cursor or "", event.action.discarded if event.action else ()
    order = EventOrder(event.turn or 0, number_in(cursor), event.step or "")
    data = Discarded(cursor=cursor, ids=[*discarded], is_final=True)
    return Note(event.id, DISCARDED, data, event.address, order)


def _is_lost(entry: Entry, notes: Sequence[Note]) -> bool:
    number = number_of(entry)
    return any(
        number < number_of(each) and entry.id in each.data["ids"]
        for each in notes
        if each.data["is_final"]
    )


def _cursor_after(entry: Entry, discards: Sequence[Note]) -> str:
    """Return the cursor of an entry that is replayed after the last of some notes that discard it."""
    number, order = number_of(entry), event_order(entry)
    named = {entry.id, order.step if order else None}
    again = [number_of(each) for each in discards if not named.isdisjoint(each.data["ids"])]
    last = max(again, default=0)
    return cursor_of(last, number) if last > number else cursor_of(number)


async def last_turn(saver: ThreadSaver) -> list[str | AgentEvent]:
    """Return the events of a thread's last turn, and the addresses of what ended, in order.

    A finished agent has its address in the list, as it may have no events. Raises as `open_thread`
    does.
    """
    await open_thread(saver)
    tree, story = saver.tree, await present_story(saver)
    every = without_past_attempts(story.lanes)
    turn = max((saved.clock[0] for saved in every), default=0)
    mine = [saved for saved in every if saved.clock[0] == turn]
    open_at = {address_at(tree, saved) for saved in newest_of_each(every).values()}
    entries = [entry for entry in story.entries if (order := event_order(entry)) and order.turn == turn]
    events = events_from(entries, saver, story.lanes)
    came: list[tuple[int, int, str | AgentEvent]] = [
        (number_of(entry), 0, event) for entry, event in zip(entries, events, strict=True)
    ]
    came += [
        (clock_in(position)[1], 1, position["at"])
        for position in _ends(mine)
        if "at" in position and position["at"] not in open_at
    ]
    return [each for *_, each in sorted(came, key=lambda each: each[:2])]


def events_from(
    entries: Iterable[Entry], saver: ThreadSaver, every: Iterable[Saved]
) -> Iterator[AgentEvent]:
    """Return the events of entries in order; the positions of checkpoints say where transfers led."""
    tree, several = saver.tree, [*every]
    former = former_paths(saver.paths, several)
    typed = saver.reducers.all_typed
    translator = Translator(tree, saver.thread_id, paths=saver.paths, typed=typed, former_paths=former)
    has_chains = tree.has_transfers or former is not None
    ends = [each for each in _ends(several) if "clock" in each] if has_chains else []
    positions = deque(sorted(ends, key=clock_in))

    def event(entry: Entry) -> AgentEvent:
        order = event_order(entry) if positions else None
        while positions and order and clock_in(positions[0]) < (order.turn, order.number):
            position = positions.popleft()
            there = tree if former is None else former(EventOrder(*clock_in(position), "")).tree
            _learn(translator, there, position)
        return translator.event(entry)

    return map(event, entries)


def transfer_ends(tree: Tree, every: Iterable[Saved]) -> list[Position]:
    """Return where transfers led that led to where the lanes of a step are, in order."""
    return sorted(_ends(every) if tree.has_transfers else (), key=clock_in)


def learn_of(translator: Translator, tree: Tree, ends: Iterable[Position]) -> None:
    """Tell a translator where transfers led."""
    for position in ends:
        _learn(translator, tree, position)


def _learn(translator: Translator, tree: Tree, position: Position) -> None:
    if (place := place_of(tree, position)) is not None:
        translator.learn(clock_in(position)[0], place, as_cursor(position["cursor"]))


def _ends(every: Iterable[Saved]) -> Iterator[Position]:
    """Yield the positions that are saved where something ended: in lanes, and in results of tasks."""
    for saved in every:
        if (position := saved.position) is not None:
            yield position
        for result in saved.results.values():
            if "clock" in (result.get("position") or ()):
                yield result["position"]


async def last_answer(saver: ThreadSaver) -> Note | None:
    """Return the note of the last structured answer in a thread's last turn; None if there is none.

    Raises as `open_thread` does.
    """
    await open_thread(saver)
    lanes = (await present_story(saver)).lanes
    turn = max((saved.clock[0] for saved in lanes), default=0)
    answers = [note for note in answers_of(lanes) if note.order and note.order.turn == turn]
    return answers[-1] if answers else None

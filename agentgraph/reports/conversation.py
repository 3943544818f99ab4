"""The conversation on a thread: what its user sent, its events and its questions, from its end.

A client reads the last turn first, then what was said since, and older turns on request. Each time only
the checkpoints of that part are read, so the cost does not grow with the thread.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from agentgraph.errors import ThreadError
from agentgraph.events.events import AgentEvent
from agentgraph.graph.stamps import Note, address_of, cursor_of
from agentgraph.journal.changed_trees import read_thread
from agentgraph.journal.entries import all_entries
from agentgraph.journal.lines import checkpoints_since, leading, root_line
from agentgraph.journal.replay import events_of
from agentgraph.journal.saved import Saved
from agentgraph.journal.story import Story, present_story, story_of
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.turn_lines import added_at, added_values_at, input_at, input_values_at
from agentgraph.reports.activation_calls import Asked, questions_in
from agentgraph.safe_repr import shown

MOST_STEPS = 200
"""Maximum number of steps of the root in a part that the client does not ask for as a whole."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Messages of the user, and the values of a run.

    Attributes:
        at: The checkpoint that has them.
        turn: Their turn.
        after: The cursor of the last event before they were read.
        messages: The messages.
        time: The time at which they were saved, in seconds since 1970.
        is_input: Whether they started the turn; otherwise a rewind added them, or replaced others.
        values: The values that were set with them.
    """

    at: str
    turn: int
    after: str
    messages: Sequence[BaseMessage]
    time: float
    is_input: bool
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A part of the conversation on a thread.

    Attributes:
        sent: The messages of the user, in order; those that agents read later are events.
        events: The events, as `Runner.events` yields them.
        asked: The questions among them, with the stored answers.
        discarded: The ids and steps of earlier events that this part discards.
        begin: The root's checkpoint with which the part begins: the `before` for the part before it.
        after: The cursor of the last event before the part.
        upto: The `since` for the next read.
        is_whole: Whether nothing was said before the part.
        continues: Whether the part begins with the passed `since`. Then it replaces the events after
            `after`, otherwise all.
    """

    sent: Sequence[Sent] = ()
    events: Sequence[AgentEvent] = ()
    asked: Sequence[Asked] = ()
    discarded: Sequence[str] = ()
    begin: str = ""
    after: str = ""
    upto: str = ""
    is_whole: bool = True
    continues: bool = False


async def conversation(
    saver: ThreadSaver,
    *,
    since: str | None = None,
    before: str | None = None,
    steps: int | None = 0,
    line: str | None = None,
) -> Conversation:
    """Return a part of the conversation on a thread.

    Args:
        saver: The thread.
        since: The `upto` of the client's conversation: only later events are returned.
        before: The `begin` of the client's conversation: only earlier events are returned.
        steps: Minimum number of steps of the root, from the end; whole turns are returned as long as
            they have at most `MOST_STEPS`. None for all.
        line: The latest checkpoint of an older history line, which is returned whole.

    Raises:
        ThreadError: The thread has no such line or part; or as `read_thread` does.
    """
    if await read_thread(saver) is None and line is None:
        return Conversation()
    if line is not None:
        return _part(saver, await story_of(saver, line), line)
    if before is not None:
        return await _earlier(saver, before, steps)
    if since is None and steps is None:
        return _part(saver, await present_story(saver))
    window = _Window(since, steps, reads_turns=saver.tree.has_transfers)
    roots = await root_line(saver, window.is_last)
    return _part(saver, await present_story(saver, roots), continues=window.continues)


async def _earlier(saver: ThreadSaver, before: str, steps: int | None) -> Conversation:
    if (end := await saver.checkpoint("", before)) is None:
        raise ThreadError(
            f"thread {shown(saver.thread_id)} has no checkpoint {shown(before)}; read the conversation "
            "from its end",
            saver.thread_id,
        )
    window = _Window(None, steps, reads_turns=saver.tree.has_transfers)
    roots = await root_line(saver, window.is_last, end)
    every = leading(await checkpoints_since(saver.lean(), roots.first, before, roots.read))
    return _part(saver, Story(saver.tree, (each for each in every if each.root_id < before)))


class _Window:
    """Finds the first requested step among the checkpoints of the root, newest first.

    Attributes:
        continues: Whether this is the checkpoint of `since`, or the start of its turn.
    """

    def __init__(self, since: str | None, steps: int | None, *, reads_turns: bool) -> None:
        self._since, self._steps, self._reads_turns = since, steps, reads_turns
        self._count, self.continues = 0, False

    def is_last(self, saved: Saved) -> bool:
        """Return whether no older checkpoint is needed."""
        if self._since == saved.id:
            self.continues = True
        elif self._since is not None and saved.id < self._since:
            self._since = None  # the thread was rewound to before it, so all is new
        if self._since is not None:
            is_enough = self.continues
        else:
            self._count += 1
            is_enough = self._steps is not None and self._count > self._steps
        is_most = not self._reads_turns and (self.continues or self._count >= MOST_STEPS)
        return is_enough and (saved.begins_turn or is_most)


def _part(
    saver: ThreadSaver, story: Story, line: str | None = None, *, continues: bool = False
) -> Conversation:
    roots = [*story.roots.values()][::-1]
    if not roots:
        return Conversation()
    is_whole = not roots[0].parent_id
    return Conversation(
        sent=[*_sent(story)],
        events=events_of(saver, story),
        asked=questions_in(saver.tree, story.entries, lambda: story.steps),
        discarded=[] if is_whole else _discarded(story),
        begin=roots[0].id,
        after=cursor_of(roots[0].clock[1]) if roots[0].clock[1] else "",
        upto=line or roots[-1].id,
        is_whole=is_whole,
        continues=continues,
    )


def _discarded(story: Story) -> list[str]:
    """Return the ids and steps that entries discard; an edited message has the id of the edit."""
    names = dict[str, None]()
    for entry in all_entries(story.with_other_trees):
        if isinstance(entry, Note) and entry.kind == "discarded":
            names |= dict.fromkeys(entry.data)
        else:
            names.pop(str(entry.id), None)
    return [*names]


def _sent(story: Story) -> Iterator[Sent]:
    roots = [*story.roots.values()][::-1]
    for saved, later in zip(roots, [*roots[1:], None], strict=True):
        is_read = later is None or not later.begins_turn  # or else it is part of the next turn
        if is_read:
            yield from _sent_at(saved, input_at(saved), input_values_at(saved), is_input=True)
    for saved in reversed(story.lanes):
        yield from _sent_at(saved, added_at(saved), added_values_at(saved), is_input=False)


def _sent_at(
    saved: Saved,
    messages: Iterable[BaseMessage] | None,
    values: Mapping[str, object],
    *,
    is_input: bool,
) -> Iterator[Sent]:
    users = [each for each in messages or () if address_of(each) is None]
    if users or values:
        turn, number = saved.clock
        yield Sent(saved.id, turn, cursor_of(number), users, saved.time, is_input, values)

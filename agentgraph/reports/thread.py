"""The report on a thread: its turns, history lines, values, open questions and queued messages."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import zip_longest
from typing import Any, cast

from langchain_core.messages import BaseMessage

from agentgraph.agents.habits.names import hints_names
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.graph.lane_position import Position
from agentgraph.graph.message_changes import with_changes
from agentgraph.graph.nodes.spending import Counts, added, losses_among
from agentgraph.graph.stamps import address_of
from agentgraph.graph.values import Reducers
from agentgraph.journal.changed_trees import opened
from agentgraph.journal.late_calls import LateCall, open_calls
from agentgraph.journal.lines import address_at, ancestors, leading
from agentgraph.journal.pending import AnsweredQuestion, pending, pending_questions
from agentgraph.journal.replay import events_of
from agentgraph.journal.requests import waiting_on
from agentgraph.journal.saved import Saved
from agentgraph.journal.schema import REWOUND, Rewound
from agentgraph.journal.spent import Spent, counts_at, spent_in
from agentgraph.journal.states import Status
from agentgraph.journal.story import Story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.thread_status import status_at, stop_reason_at
from agentgraph.journal.turn_lines import input_at
from agentgraph.reports.result import Usage, usage_of
from agentgraph.tree.places import Tree


@dataclass(frozen=True)
class Turn:
    """A turn of a thread: the user's messages and the agents' events.

    Attributes:
        number: The number of the turn, from 0.
        messages: The messages of the user.
        events: The events, as `Runner.events` yields them.
        began: Start time, in seconds since 1970.
        ended: Time of its last event, in seconds since 1970; without events, its start time.
        counts: Counted usage of its limits; see `spent`.
    """

    number: int
    messages: Sequence[BaseMessage]
    events: Sequence[AgentEvent] = field(repr=False)
    began: float
    ended: float
    counts: Counts = field(default_factory=dict, repr=False)

    @property
    def spent(self) -> Spent:
        """Usage of the turn, in total and by agent."""
        return spent_in(self.counts, self.events)


@dataclass(frozen=True)
class Line:
    """A history line of a thread: its steps from the start to one latest checkpoint.

    Attributes:
        head: The id of its latest checkpoint, for `Runner.events(thread_id, line=head)`.
        is_present: Whether the thread continues on this line.
        parts_at: The address at which it branches off the current line; empty for the current line.
        turn: The turn in which it branches off; for the current line, its last turn.
        time: Time at which its latest checkpoint was saved, in seconds since 1970.
    """

    head: str
    is_present: bool
    parts_at: str
    turn: int
    time: float


@hints_names("Thread")
@dataclass(frozen=True)
class Thread:
    """A thread, as its checkpointer has stored it.

    Attributes:
        thread_id: The id.
        status: "new" (not stored), "running", "paused" (questions are open), "failed", "stopped" (no
            run is active, and the thread can be resumed: also with the stored answers to all
            questions), or "done".
        values: The values of the run.
        messages: The history.
        turns: The turns, first to last.
        pending: The open questions, in the order of the tree.
        answered: The questions whose answers the next run takes, in the order of the tree.
        lines: The history lines: the current one, then older ones from rewinds or forks, latest first.
        queued: The sent messages that no agent has read; they start the next turn.
        stop_reason: The reason that was passed to `Runner.stop`, if a person stopped it; None for other
            threads, also for one whose process died.
    """

    thread_id: str
    status: Status
    values: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[BaseMessage] = field(default=(), repr=False)
    turns: Sequence[Turn] = field(default=(), repr=False)
    pending: Sequence[Interrupt] = ()
    lines: Sequence[Line] = field(default=(), repr=False)
    queued: Sequence[BaseMessage] = ()
    stop_reason: str | None = None
    answered: Sequence[AnsweredQuestion] = ()

    @property
    def usage(self) -> Usage:
        """The tokens of the messages of all turns, and of the decision models of middleware."""
        events = (event for turn in self.turns for event in turn.events)
        return usage_of(events, reduce(added, (turn.counts for turn in self.turns), {}))

    @property
    def spent(self) -> Spent:
        """Usage of all turns, in total and by agent."""
        return sum((turn.spent for turn in self.turns), Spent())

    @property
    def open_calls(self) -> list[LateCall]:
        """The calls of `long_running` tools without a result yet, in the order of the calls."""
        return open_calls(self.turns)


class Pending(list[Interrupt]):
    """The open questions of a thread, in the order of the tree.

    Attributes:
        queued: The sent messages that no agent has read; they start the next turn.
    """

    def __init__(self, questions: Iterable[Interrupt] = (), queued: Sequence[BaseMessage] = ()) -> None:
        super().__init__(questions)
        self.queued = queued


async def pending_on(saver: ThreadSaver) -> Pending:
    """Return the open questions and the queued messages of a thread.

    Raises:
        ThreadError: As `pending` does.
    """
    questions = await pending(saver)
    return Pending(questions, await waiting_on(saver))


async def thread(saver: ThreadSaver, reducers: Reducers) -> Thread:
    """Return the report on a thread, with the input of a turn that has just started.

    Raises:
        TreeChangedError: A tree of another shape ran the thread.
    """
    thread_id, is_running = saver.thread_id, await saver.is_running()
    saved = await saver.checkpoint()
    queued = tuple(await waiting_on(saver))
    if saved is None:
        return Thread(thread_id, "running" if is_running else "new", queued=queued)
    await opened(saver, saved)
    every = await saver.lean().checkpoints()
    story = Story(saver.tree, leading(every))
    events = events_of(saver, story)
    waiting = await pending_questions(saver, saved)
    questions = waiting.questions
    begun = saved.turn_input
    roots = {each.id: each for each in every if not each.namespace}
    before = [*ancestors(saved.parent_id, roots)]
    state = saver.state_at(saved, before, live=begun is None).values
    messages: list[BaseMessage] = state.get("messages", [])
    values: Mapping[str, object] = state.get("values", {})
    if begun is not None:
        messages = with_changes(messages, begun["messages"])
        values = reducers.merged(values, begun["values"])
    turns = _turns(story, every, messages, events, await counts_at(saver, saved))
    status = status_at(saved, asks=bool(questions), is_running=is_running)
    lines = lines_of(saver.tree, [*roots.values()])
    reason = stop_reason_at(saved) if status == "stopped" else None
    return Thread(
        thread_id,
        status,
        values,
        messages,
        turns,
        questions,
        lines,
        queued,
        reason,
        tuple(waiting.kept),
    )


def lines_of(tree: Tree, roots: Sequence[Saved]) -> list[Line]:
    """Return the history lines of a thread from the checkpoints of the root, newest first."""
    by_id = {saved.id: saved for saved in roots}
    parents = {saved.parent_id for saved in roots}
    present, *older = [each for each in by_id if each not in parents]
    own = {each.parent_id: each for each in ancestors(present, by_id)}
    lines = [Line(present, True, "", by_id[present].clock[0], by_id[present].time)]
    for head in older:
        first = next((each for each in ancestors(head, by_id) if each.parent_id in own), None)
        if first is None:  # the point at which it branches off was deleted
            continue
        sibling = own[first.parent_id]
        notes = [note for each in (sibling, first) for note in each.notes if note.kind == REWOUND]
        at = cast(Rewound, notes[0].data)["at"] if notes else address_at(tree, first) or ""
        turn = first.clock[0]
        lines.append(Line(head, False, at, turn, by_id[head].time))
    return lines


def _turns(
    story: Story,
    every: Sequence[Saved],
    messages: Sequence[BaseMessage],
    events: Sequence[AgentEvent],
    counts: Counts,
) -> list[Turn]:
    """Return the turns of a thread; a replaced user message appears with its current content.

    Input that no node had read at the start of the next turn is part of that turn. The first turn has
    another number than 0 if those before it were pruned.

    Args:
        story: The story of the thread.
        every: All of its checkpoints, the newest first.
        messages: Its history.
        events: Its events.
        counts: Counted usage of its last turn.
    """
    now = {message.id: message for message in messages}
    done: dict[int, list[AgentEvent]] = defaultdict(list)
    for event in events:
        done[event.turn or 0].append(event)
    turns: list[Turn] = []
    line = [*story.roots.values()][::-1]
    first = line[0].clock[0] if line and line[0].begins_turn else 0
    for saved, next_ in zip_longest(line, line[1:]):
        turn_input = None if next_ and next_.begins_turn else input_at(saved)
        if turn_input is None:
            continue
        if turns:
            turns[-1] = replace(turns[-1], counts=_spent_before(saved, story, every))
        users = [now.get(each.id, each) for each in turn_input if address_of(each) is None]
        number, began = first + len(turns), saved.time
        ended = done[number][-1].time if done[number] else None
        turns.append(Turn(number, users, done[number], began, ended or began))
    return [*turns[:-1], *(replace(each, counts=counts) for each in turns[-1:])]


def _spent_before(saved: Saved, story: Story, every: Sequence[Saved]) -> Counts:
    """Return the counted spending of the turn that ends before a checkpoint."""
    end = story.roots.get(saved.parent_id)
    if end is not None and end.begins_turn:
        return {}
    position: Position | None = saved.checkpoint["channel_values"].get("position")
    counts: Counts = position.get("spent", {}) if position else {}
    if end is not None and end.next_node is not None:  # the turn was given up
        losses = losses_among(every, story.tree, "", end.id)
        counts = reduce(added, (loss["spent"] for loss in losses), counts)
    return counts

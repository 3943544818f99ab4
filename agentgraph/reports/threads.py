"""The threads of a saver: what is on one, which there are, and how they are deleted.

What `invoke` returns: the `Result` of a run, with the tokens that it used.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Literal, cast, get_args

from langchain_core.messages import BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from agentgraph.errors import (
    AgentGraphError,
    SaverError,
    ThreadError,
)
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.nodes.spending import Counts
from agentgraph.graph.stamps import address_of, number_of, speaker_at
from agentgraph.graph.state import Position, with_changes
from agentgraph.graph.values import Reducers
from agentgraph.journal.changed_trees import opened
from agentgraph.journal.late_calls import LateCall, open_calls
from agentgraph.journal.lines import address_at, ancestors, known_thread, leading
from agentgraph.journal.pending import pending, pending_at
from agentgraph.journal.replay import events_of, last_answer
from agentgraph.journal.requests import waiting_on
from agentgraph.journal.saved import Saved, error_in, is_stop
from agentgraph.journal.schema import REWOUND, Rewound
from agentgraph.journal.spent import Spent, counts_at, spent_in
from agentgraph.journal.story import Story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.said import order_in_tree
from agentgraph.safe_repr import shown
from agentgraph.tree.places import Tree


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that models used, as they report them.

    Attributes:
        total: All of them, as LangChain's `UsageMetadata`: "input_tokens", "output_tokens",
            "total_tokens", and details where the provider has them. All 0 if no model reported any.
        by_agent: The same by the name of the agent; without agents that used none.
    """

    total: UsageMetadata
    by_agent: Mapping[str, UsageMetadata]


def usage_of(events: Iterable[AgentEvent]) -> Usage:
    """Return the tokens of the messages in events; each message counts once."""
    used = {each.id: each for each in events if not each.partial and each.usage}
    total, by_agent = add_usage(None, None), dict[str, UsageMetadata]()
    for event in used.values():
        total = add_usage(total, event.usage)
        by_agent[event.agent_name] = add_usage(by_agent.get(event.agent_name), event.usage)
    return Usage(total, by_agent)


@dataclass(frozen=True)
class Result:
    """What came of a turn, or of the part of it that ran.

    >>> runner = Runner(sequential("report", [function_agent("writer", lambda ctx: "A draft."),
    ...     human("boss", "Print it?")]))
    >>> result = runner.invoke("Go.", thread_id="monday")
    >>> result.status, result.text, [question.value for question in result.pending]
    ('paused', 'A draft.', ['Print it?'])
    >>> runner.invoke(thread_id="monday", answers="yes").status
    'done'

    Attributes:
        thread_id: The thread.
        events: The events, without chunks.
        pending: The questions that wait for answers, in the order of the tree.
        values: The values of the run, as plain data.
        output: The answer of the last agent with an `output_schema` that ended in this turn, as an
            object of its type; None if there is none. It is LangChain's `structured_response`, whoever
            gave it: the model, a tool that ended the agent, or middleware.
        counts: What the turn was counted to have spent of its limits; see `spent`.
        error: The exception with which a variant of `fork_many` failed; `invoke` raises it instead.
        is_stopped: Whether it ended before the turn did, as `Runner.stop` asked for.
        order: The indexes of the events that are messages of agents, in the order of the tree.
    """

    thread_id: str
    events: Sequence[AgentEvent] = field(repr=False)
    pending: Sequence[Interrupt] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    output: Any = None
    counts: Counts = field(default_factory=dict, repr=False)
    error: Any = None
    is_stopped: bool = False
    order: Sequence[int] = field(default=(), repr=False)

    @property
    def status(self) -> Literal["done", "paused", "failed", "stopped"]:
        """Whether the turn is "done", "paused" because questions wait for answers, or "failed".

        Or "stopped": `Runner.stop` ended the run, and a resume goes on.
        """
        if self.error or self.pending:
            return "failed" if self.error else "paused"
        return "stopped" if self.is_stopped else "done"

    @property
    def message(self) -> BaseMessage | None:
        """The last message that an agent said; None if there was none.

        Of branches, steps, items or calls that ran concurrently it is that of the last one as declared.
        """
        return next((each.message for each in self._said()), None)

    @property
    def text(self) -> str:
        """The last text that an agent said, in the order of `message`; empty if there was none."""
        return next((each.text for each in self._said() if each.text), "")

    def _said(self) -> Iterator[AgentEvent]:
        """Yield the events of messages of agents, the last first."""
        return (self.events[index] for index in reversed(self.order))

    @property
    def usage(self) -> Usage:
        """The tokens that the messages of these events used."""
        return usage_of(self.events)

    @property
    def spent(self) -> Spent:
        """What the turn has spent so far, in all and by agent, also before a resume."""
        return spent_in(self.counts, self.events)


async def result(saver: ThreadSaver, events: Sequence[AgentEvent]) -> Result:
    """Return the result of a run that has ended, from its events and the thread's state."""
    asked = any(event.kind == "interrupted" for event in events)
    questions = await pending(saver) if asked else []
    snapshot = await saver.state()
    state, is_stopped = snapshot.values, bool(snapshot.next)
    values, counts = state.get("values", {}), state.get("position", {}).get("spent", {})
    if questions:
        counts = await counts_at(saver, await saver.checkpoint())
    output, schemas = None, _output_schemas(saver.tree)
    if schemas and (answer := await last_answer(saver)):
        from agentgraph.graph.chat.output import restored, wanted_by

        output = restored(wanted_by(schemas.get(speaker_at(answer.address))), answer.data)
    return Result(
        saver.thread_id,
        tuple(events),
        tuple(questions),
        values,
        output,
        counts,
        is_stopped=is_stopped,
        order=order_in_tree(saver.tree, events),
    )


def _output_schemas(tree: Tree) -> dict[str, object]:
    """Return the `output_schema`s of a tree's agents, by name."""
    chats = {place.name: place.chat for place in tree.places if place.chat is not None}
    return {
        name: agent.output_schema for name, agent in chats.items() if agent.output_schema is not None
    }


Status = Literal["new", "running", "paused", "failed", "stopped", "done"]


@dataclass(frozen=True)
class Turn:
    """A turn of a thread: what the user said, and what the agents did.

    Attributes:
        number: The number of the turn, from 0.
        messages: The messages of the user.
        events: The events, as `Runner.events` yields them.
        began: When it began, in seconds since 1970.
        ended: The time of its last event; if it has none, when it began.
        counts: What it was counted to have spent of its limits; see `spent`.
    """

    number: int
    messages: Sequence[BaseMessage]
    events: Sequence[AgentEvent] = field(repr=False)
    began: float
    ended: float
    counts: Counts = field(default_factory=dict, repr=False)

    @property
    def spent(self) -> Spent:
        """What it has spent, in all and by agent."""
        return spent_in(self.counts, self.events)


@dataclass(frozen=True)
class Line:
    """A line of a thread: what ran from its beginning to one of its heads.

    Attributes:
        head: The id of the checkpoint at its head, for `Runner.events(thread_id, line=head)`.
        is_present: Whether it is the line with which the thread goes on.
        parts_at: The address at which it parts from the present one; empty for that one.
        turn: The turn in which it does; of the present line its last one.
        time: When its head was saved, in seconds since 1970.
    """

    head: str
    is_present: bool
    parts_at: str
    turn: int
    time: float


@dataclass(frozen=True)
class Thread:
    """A thread, as its saver has it.

    Attributes:
        thread_id: The id.
        status: "new" (the saver has no such thread), "running", "paused" (questions wait for answers),
            "failed", "stopped" (it can be resumed, but nothing runs it), or "done".
        values: The values of the run.
        messages: The history.
        turns: The turns, first to last.
        pending: The questions that wait for answers, in the order of the tree.
        lines: Its lines: the present one, then those that a rewind or a fork left, the last first.
        queued: The messages that were sent to it, and that nothing has read: they begin the next turn.
    """

    thread_id: str
    status: Status
    values: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[BaseMessage] = field(default=(), repr=False)
    turns: Sequence[Turn] = field(default=(), repr=False)
    pending: Sequence[Interrupt] = ()
    lines: Sequence[Line] = field(default=(), repr=False)
    queued: Sequence[BaseMessage] = ()

    @property
    def usage(self) -> Usage:
        """The tokens that the messages of all turns used."""
        return usage_of(event for turn in self.turns for event in turn.events)

    @property
    def spent(self) -> Spent:
        """What all turns have spent, in all and by agent."""
        return sum((turn.spent for turn in self.turns), Spent())

    @property
    def open_calls(self) -> list[LateCall]:
        """The calls of `long_running` tools whose results have not come, in the order of the calls."""
        return open_calls(self.turns)


class Pending(list[Interrupt]):
    """The questions that wait on a thread, in the order of the tree.

    Attributes:
        queued: The messages that were sent to it, and that nothing has read: they begin the next turn.
    """

    def __init__(self, questions: Iterable[Interrupt] = (), queued: Sequence[BaseMessage] = ()) -> None:
        super().__init__(questions)
        self.queued = queued


async def pending_on(saver: ThreadSaver) -> Pending:
    """Return what waits on a thread: its questions, and messages.

    Raises:
        ThreadError: As `pending` does.
    """
    questions = await pending(saver)
    return Pending(questions, await waiting_on(saver))


@dataclass(frozen=True)
class ThreadSummary:
    """A thread in a list of threads.

    Attributes:
        thread_id: The id.
        status: As in `Thread`.
        updated: When its saver last stored a step of it, in seconds since 1970.
    """

    thread_id: str
    status: Status
    updated: float


async def thread(saver: ThreadSaver, reducers: Reducers) -> Thread:
    """Return what is on a thread, with the input of a turn that has only begun.

    Raises:
        TreeChangedError: A tree of another shape ran the thread.
    """
    thread_id, is_running = saver.thread_id, await saver.is_under_way()
    saved = await saver.checkpoint()
    queued = tuple(await waiting_on(saver))
    if saved is None:
        return Thread(thread_id, "running" if is_running else "new", queued=queued)
    await opened(saver, saved)
    every = await saver.checkpoints()
    story = Story(saver.tree, leading(every))
    events = events_of(saver, story)
    questions = await pending_at(saver, saved)
    begun = saved.begun_input
    state = (await saver.state("", saved.id if begun else None)).values
    messages: list[BaseMessage] = state.get("messages", [])
    values: Mapping[str, object] = state.get("values", {})
    if begun is not None:
        messages = with_changes(messages, begun["messages"])
        values = reducers.merged(values, begun["values"])
    turns = _turns(story, messages, events, await counts_at(saver, saved))
    status: Status = "running" if is_running else status_at(saved, bool(questions))
    lines = lines_of(saver.tree, [each for each in every if not each.namespace])
    return Thread(thread_id, status, values, messages, turns, questions, lines, queued)


def lines_of(tree: Tree, roots: Sequence[Saved]) -> list[Line]:
    """Return the lines of a thread, given the checkpoints of the root, newest first."""
    by_id = {saved.id: saved for saved in roots}
    parents = {saved.parent_id for saved in roots}
    present, *older = [each for each in by_id if each not in parents]
    own = {each.parent_id: each for each in ancestors(present, by_id)}
    lines = [Line(present, True, "", by_id[present].clock[0], by_id[present].time)]
    for head in older:
        first = next((each for each in ancestors(head, by_id) if each.parent_id in own), None)
        if first is None:  # where it parts from the present one was deleted
            continue
        beside = own[first.parent_id]
        notes = [note for each in (beside, first) for note in each.notes if note.kind == REWOUND]
        at = cast(Rewound, notes[0].data)["at"] if notes else address_at(tree, first) or ""
        turn = first.clock[0]
        lines.append(Line(head, False, at, turn, by_id[head].time))
    return lines


async def threads(
    saver: ThreadSaver, status: Status | None, running: Mapping[str, float]
) -> list[ThreadSummary]:
    """Return the threads of a status, or all for None; those that began last first.

    Args:
        saver: Any thread of the saver.
        status: The status.
        running: When the runs of this process began, in seconds since 1970, by thread.

    Raises:
        AgentGraphError: There is no such status.
    """
    if status not in (None, *get_args(Status)):
        known = ", ".join(map(repr, get_args(Status)))
        raise AgentGraphError(f"status={shown(status)} is not a status of threads; use one of {known}")
    saved = await saver.thread_ids()
    summaries = [
        ThreadSummary(thread_id, "running", began)
        for thread_id, began in running.items()
        if thread_id not in saved and status in (None, "running")
    ]
    for thread_id in saved:
        each = await _summary(saver.of(thread_id))
        if each is not None and status in (None, each.status):
            summaries.append(each)
    return summaries


async def status_of(saver: ThreadSaver) -> Status:
    """Return the status of a thread, whichever tree ran it."""
    if await saver.checkpoint() is None:
        return "running" if await saver.is_under_way() else "new"
    summary = await _summary(saver)
    return summary.status if summary else "new"


async def _summary(saver: ThreadSaver) -> ThreadSummary | None:
    """Return a thread in a list, whichever tree ran it; None if no tree did."""
    is_running = await saver.is_under_way()
    saved = await known_thread(saver)
    if saved.position is None:
        return None
    try:
        await opened(saver, saved)
        asks = bool(await pending_at(saver, saved))
    except ThreadError:  # another tree ran it, or it is a copy that was cut short
        asks = any(INTERRUPT in writes for writes in saved.writes.values())
    status: Status = "running" if is_running else status_at(saved, asks)
    return ThreadSummary(saver.thread_id, status, saved.time)


def status_at(saved: Saved, asks: bool) -> Status:
    """Return the status of a thread that nothing runs, by its latest checkpoint.

    Args:
        saved: The checkpoint.
        asks: Whether questions wait.
    """
    if saved.next_node is None:
        return "done"
    if _has_failed(saved):
        return "failed"
    return "paused" if asks else "stopped"


def _has_failed(saved: Saved) -> bool:
    """Return whether the last run of the step after a checkpoint failed, and not only one before it."""
    numbers: dict[str, int] = {}
    for note in saved.notes:
        numbers[note.kind] = max(numbers.get(note.kind, 0), number_of(note))
    if "resumed" in numbers:
        return numbers.get("error", 0) > numbers["resumed"]
    errors = filter(None, map(error_in, saved.writes.values()))
    return "error" in numbers or not all(map(is_stop, errors))


def _turns(
    story: Story,
    messages: Sequence[BaseMessage],
    events: Sequence[AgentEvent],
    counts: Counts,
) -> list[Turn]:
    """Return the turns of a thread; a user's message that was replaced since appears as it is now.

    Input that no node had read when the next turn began is part of that turn.

    Args:
        story: The story of the thread.
        messages: Its history.
        events: Its events.
        counts: What its last turn has spent.
    """
    now = {message.id: message for message in messages}
    done: dict[int, list[AgentEvent]] = defaultdict(list)
    for event in events:
        done[event.turn or 0].append(event)
    turns: list[Turn] = []
    line = [*story.roots.values()][::-1]
    for saved, next_ in zip_longest(line, line[1:]):
        turn_input = None if next_ and next_.begins_turn else _input(saved)
        if turn_input is None:
            continue
        if turns:
            turns[-1] = replace(turns[-1], counts=_spent_before(saved))
        users = [now.get(each.id, each) for each in turn_input if address_of(each) is None]
        number, began = len(turns), saved.time
        ended = done[number][-1].time if done[number] else None
        turns.append(Turn(number, users, done[number], began, ended or began))
    return [*turns[:-1], *(replace(each, counts=counts) for each in turns[-1:])]


def _spent_before(saved: Saved) -> Counts:
    """Return what was spent in the turn before the one that begins after a checkpoint."""
    position: Position | None = saved.checkpoint["channel_values"].get("position")
    return position.get("spent", {}) if position else {}


def _input(saved: Saved) -> list[BaseMessage] | None:
    """Return the messages of the input after a checkpoint; None if no turn begins there."""
    for writes in saved.writes.values():
        if "outline" in (writes.get("position") or {}):
            return list(writes.get("messages") or ())
    begun = saved.begun_input
    return None if begun is None else list(begun["messages"])


async def delete(saver: ThreadSaver) -> None:
    """Delete a thread, also one that cannot be read.

    Raises:
        UnknownThreadError: The saver has no such thread.
    """
    with suppress(SaverError):
        await known_thread(saver)
    await saver.delete()

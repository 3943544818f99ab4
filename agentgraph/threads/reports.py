"""The threads of a saver: what is on one, which there are, and how they are deleted and copied.

What `invoke` returns: the `Result` of a run, with the tokens that it used.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from typing import Any, Literal, get_args

from langchain_core.messages import BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from langgraph.checkpoint.base import CheckpointTuple

from agentgraph.agents.agents import ChatAgent
from agentgraph.errors import (
    AgentGraphError,
    SaverError,
    ThreadError,
    TreeChangedError,
    UnknownThreadError,
)
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.stamps import address_of, speaker_at
from agentgraph.graph.state import with_changes
from agentgraph.graph.sync_async import Calls
from agentgraph.graph.values import Reducers
from agentgraph.safe_repr import shown
from agentgraph.threads.checkpoints import (
    begins_turn,
    begun_input,
    error_in,
    is_stop,
    leading_checkpoints,
    namespace_of,
    next_node,
    notes_at,
    position_of,
    writes_by_task,
)
from agentgraph.threads.config import config_of
from agentgraph.threads.pending import pending
from agentgraph.threads.replay import last_answer, replayed
from agentgraph.threads.thread_saver import ThreadSaver
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
    """

    thread_id: str
    events: Sequence[AgentEvent] = field(repr=False)
    pending: Sequence[Interrupt] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    output: Any = None

    @property
    def status(self) -> Literal["done", "paused"]:
        """Whether the turn is "done", or "paused" because questions wait for answers."""
        return "paused" if self.pending else "done"

    @property
    def message(self) -> BaseMessage | None:
        """The last message that an agent said; None if there was none."""
        return next((each.message for each in reversed(self.events) if each.message), None)

    @property
    def text(self) -> str:
        """The last text that an agent said; empty if there was none."""
        return next((each.text for each in reversed(self.events) if each.text), "")

    @property
    def usage(self) -> Usage:
        """The tokens that the messages of these events used."""
        return usage_of(self.events)


def result(saver: ThreadSaver, events: Sequence[AgentEvent]) -> Calls[Result]:
    """Return the result of a run that has ended, from its events and the thread's state."""
    asked = any(event.kind == "interrupted" for event in events)
    questions = (yield from pending(saver)) if asked else []
    values = (yield from saver.state()).values.get("values", {})
    output, schemas = None, _output_schemas(saver.tree)
    if schemas and (answer := (yield from last_answer(saver))):
        from agentgraph.graph.chat.output import restored, wanted_by

        output = restored(wanted_by(schemas.get(speaker_at(answer.address))), answer.data)
    return Result(saver.thread_id, tuple(events), tuple(questions), values, output)


def _output_schemas(tree: Tree) -> dict[str, Any]:
    """Return the `output_schema`s of a tree's agents, by name."""
    chats = {place.name: place.agent for place in tree.places if isinstance(place.agent, ChatAgent)}
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
    """

    number: int
    messages: Sequence[BaseMessage]
    events: Sequence[AgentEvent] = field(repr=False)
    began: float
    ended: float


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
    """

    thread_id: str
    status: Status
    values: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[BaseMessage] = field(default=(), repr=False)
    turns: Sequence[Turn] = field(default=(), repr=False)
    pending: Sequence[Interrupt] = ()

    @property
    def usage(self) -> Usage:
        """The tokens that the messages of all turns used."""
        return usage_of(event for turn in self.turns for event in turn.events)


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


def thread(saver: ThreadSaver, reducers: Reducers) -> Calls[Thread]:
    """Return what is on a thread, with the input of a turn that has only begun.

    Raises:
        TreeChangedError: A tree of another shape ran the thread.
    """
    thread_id, is_running = saver.thread_id, saver.is_running()
    saved = yield from saver.checkpoint()
    if saved is None:
        return Thread(thread_id, "running" if is_running else "new")
    events = yield from replayed(saver)
    questions = yield from pending(saver)
    begun = begun_input(saved)
    state = (yield from saver.state("", saved.checkpoint["id"] if begun else None)).values
    messages: list[BaseMessage] = state.get("messages", [])
    values: Mapping[str, object] = state.get("values", {})
    if begun is not None:
        messages = with_changes(messages, begun["messages"])
        values = reducers.merged(values, begun["values"])
    turns = _turns((yield from leading_checkpoints(saver)), messages, events)
    status: Status = "running" if is_running else _status(saved, bool(questions))
    return Thread(thread_id, status, values, messages, turns, questions)


def threads(saver: ThreadSaver, status: Status | None) -> Calls[list[ThreadSummary]]:
    """Return the threads of a status, or all for None; those that began last first.

    Raises:
        AgentGraphError: There is no such status.
    """
    if status not in (None, *get_args(Status)):
        known = ", ".join(map(repr, get_args(Status)))
        raise AgentGraphError(f"status={shown(status)} is not a status of threads; use one of {known}")
    first = yield from saver.first_checkpoints()
    first.sort(key=lambda each: str(each.checkpoint["id"]), reverse=True)
    ids = [each.config["configurable"]["thread_id"] for each in first if not namespace_of(each)]
    summaries: list[ThreadSummary] = []
    for thread_id in dict.fromkeys(ids):
        each = yield from _summary(saver.of(thread_id))
        if each is not None and status in (None, each.status):
            summaries.append(each)
    return summaries


def _summary(saver: ThreadSaver) -> Calls[ThreadSummary | None]:
    """Return a thread in a list, whichever tree ran it; None if no tree did."""
    is_running = saver.is_running()
    saved = yield from _known(saver)
    if position_of(saved) is None:
        return None
    try:
        asks = bool((yield from pending(saver)))
    except TreeChangedError:
        asks = any(INTERRUPT in writes for writes in writes_by_task(saved).values())
    status: Status = "running" if is_running else _status(saved, asks)
    return ThreadSummary(saver.thread_id, status, _time(saved))


def _status(saved: CheckpointTuple, asks: bool) -> Status:
    if next_node(saved) is None:
        return "done"
    errors = filter(None, map(error_in, writes_by_task(saved).values()))
    if not all(map(is_stop, errors)) or any(note.kind == "error" for note in notes_at(saved)):
        return "failed"
    return "paused" if asks else "stopped"


def _turns(
    newest_first: Sequence[CheckpointTuple],
    messages: Sequence[BaseMessage],
    events: Sequence[AgentEvent],
) -> list[Turn]:
    """Return the turns of a thread; a user's message that was replaced since appears as it is now.

    Input that no node had read when the next turn began is part of that turn.
    """
    now = {message.id: message for message in messages}
    done: dict[int, list[AgentEvent]] = defaultdict(list)
    for event in events:
        done[event.turn or 0].append(event)
    turns: list[Turn] = []
    line = [saved for saved in reversed(newest_first) if not namespace_of(saved)]
    for saved, next_ in zip_longest(line, line[1:]):
        turn_input = None if next_ and begins_turn(next_) else _input(saved)
        if turn_input is None:
            continue
        users = [now.get(each.id, each) for each in turn_input if address_of(each) is None]
        number, began = len(turns), _time(saved)
        ended = done[number][-1].time if done[number] else None
        turns.append(Turn(number, users, done[number], began, ended or began))
    return turns


def _input(saved: CheckpointTuple) -> list[BaseMessage] | None:
    """Return the messages of the input after a checkpoint; None if no turn begins there."""
    for writes in writes_by_task(saved).values():
        if "outline" in (writes.get("position") or {}):
            return list(writes.get("messages") or ())
    begun = begun_input(saved)
    return None if begun is None else list(begun["messages"])


def _time(saved: CheckpointTuple) -> float:
    return datetime.fromisoformat(saved.checkpoint["ts"]).timestamp()


def delete(saver: ThreadSaver) -> Calls[None]:
    """Delete a thread, also one that cannot be read.

    Raises:
        UnknownThreadError: The saver has no such thread.
    """
    with suppress(SaverError):
        yield from _known(saver)
    yield from saver.delete()


def copy(saver: ThreadSaver, to: str) -> Calls[None]:
    """Copy a thread, checkpoint by checkpoint, oldest first.

    Raises:
        UnknownThreadError: The saver has no such thread.
        ThreadError: There is a thread `to` already.
    """
    yield from _known(saver)
    new = saver.of(to)
    if (yield from new.checkpoint()) is not None:
        raise ThreadError(
            f"thread {shown(to)} exists already; copy to another id, or delete it first", to
        )
    try:
        yield from _copied(saver, to)
    except GeneratorExit:  # no call can be made
        raise
    except BaseException:
        yield from new.delete()  # a part of a thread would look like one that stopped there
        raise


def _copied(saver: ThreadSaver, to: str) -> Calls[None]:
    """Copy every checkpoint of the thread, with its writes."""
    for saved in reversed((yield from saver.checkpoints())):
        at = config_of(to, namespace_of(saved))
        if parent := saved.parent_config:
            at["configurable"]["checkpoint_id"] = parent["configurable"]["checkpoint_id"]
        at = yield from saver.put(at, saved)
        tasks: dict[str, list[tuple[str, object]]] = defaultdict(list)
        for task, channel, value in saved.pending_writes or ():
            tasks[task].append((channel, value))
        for number, (task, writes) in enumerate(tasks.items()):
            yield from saver.put_writes(at, writes, task, f"{number:06}")


def _known(saver: ThreadSaver) -> Calls[CheckpointTuple]:
    saved = yield from saver.checkpoint()
    if saved is None:
        raise UnknownThreadError(
            f"thread {shown(saver.thread_id)} is not known to this saver; threads() lists those that "
            "are",
            saver.thread_id,
        )
    return saved

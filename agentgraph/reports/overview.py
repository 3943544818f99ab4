"""The summary of a thread, from its newest checkpoints, however long the thread is.

A summary is cached, and read again only if the thread has changed since.
"""

import asyncio
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata

from agentgraph.agents.costs import reported
from agentgraph.errors import ThreadError
from agentgraph.events.events import Interrupt
from agentgraph.graph.guarded_saver import saver_error
from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.stamps import address_of, event_order
from agentgraph.graph.sync_async import Call
from agentgraph.journal.changed_trees import RanBy, ran_by, read_thread
from agentgraph.journal.kept_answers import seems_to_ask
from agentgraph.journal.lines import (
    before_edits,
    begun_thread,
    leading,
    leading_checkpoints,
    root_line,
)
from agentgraph.journal.pending import AnsweredQuestion, PendingQuestions, questions_on
from agentgraph.journal.requests import Request, requests
from agentgraph.journal.saved import REQUESTS, Saved, time_in_id
from agentgraph.journal.savers.undecoded import changes_in_memory, changes_of, count_lines
from agentgraph.journal.spent import cost_text
from agentgraph.journal.states import ListedStatus, Status
from agentgraph.journal.story import Story, present_story, story_of
from agentgraph.journal.thread_pages import ThreadPages
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.thread_status import status_at
from agentgraph.journal.turn_lines import added_at
from agentgraph.reports.thread import Line, lines_of
from agentgraph.reports.thread_list import query_of, unknown_before
from agentgraph.safe_repr import cut

_TURNS = 20
"""Maximum number of turns in a summary, the last ones."""
_RECENT = 16
"""Number of newest checkpoints of the root that are searched for the last text."""
_SHORT = 400
"""Maximum number of steps of a thread whose tokens are added up at the first read."""
_LONGEST = 2000
"""Maximum number of characters of a text."""

T = TypeVar("T")
_Edits = Mapping[str | None, tuple[Saved, BaseMessage]]
"""Messages that rewinds added or put in the place of others, each with its checkpoint, by id."""


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A turn, as far as its input shows it.

    Attributes:
        number: Its number, from 0.
        texts: The texts of the user, as the agents read them: an edited one replaces the first.
        began: Start time, in seconds since 1970; of a turn that was started again, the later one.
        ended: Latest possible end, when the next turn read its input; None for the last turn.
    """

    number: int
    texts: Sequence[str]
    began: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class Tally:
    """The tokens of a history line.

    Attributes:
        upto: The id of the root's checkpoint up to which the tokens are added up.
        of: Input and output tokens by message id; messages without tokens are left out.
    """

    upto: str
    of: Mapping[str, tuple[int, int]]

    @property
    def total(self) -> tuple[int, int]:
        """The input tokens, and the output tokens."""
        return sum(each[0] for each in self.of.values()), sum(each[1] for each in self.of.values())


@dataclass(frozen=True, slots=True)
class Overview:
    """The summary of a thread.

    Attributes:
        stamp: The version of the thread; unchanged as long as the thread is unchanged.
        status: As in `Thread`.
        updated: Time of the last saved step, in seconds since 1970; 0 without steps.
        head: The id of its latest checkpoint.
        pending: The open questions.
        answered: The questions whose answers the next run takes.
        queued: The messages that no agent has read.
        turns: The last turns, first to last.
        last: The last text of the last turn; results of tools are left out until the run is done.
        tally: The tokens that its models used; None if the thread is too long to add them up.
        spent_tokens: The tokens of the last turn, as counted for its limits; None if not counted.
        cost: The cost of the last turn, or "unknown"; None if its runs had no prices.
        lines: The number of its history lines.
        changed: The effect of a changed tree on the thread; None if the thread can resume.
        by: The tree that ran it last; None if that is not known.
    """

    stamp: Hashable
    status: Status
    updated: float = 0.0
    head: str = ""
    pending: Sequence[Interrupt] = ()
    answered: Sequence[AnsweredQuestion] = ()
    queued: Sequence[BaseMessage] = ()
    turns: Sequence[BegunTurn] = field(default=(), repr=False)
    last: str = ""
    tally: Tally | None = None
    spent_tokens: int | None = None
    cost: str | None = None
    lines: int = 1
    changed: str | None = None
    by: RanBy | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the summary has all turns and all tokens."""
        begins = not self.turns or self.turns[0].number == 0
        return begins and (self.tally is not None or not self.head)


async def overview_of(saver: ThreadSaver, known: Overview | None) -> Overview:
    """Return the summary of a thread; read only the parts that are not known yet.

    Args:
        saver: The thread; an unknown thread is "new".
        known: An earlier summary of the thread.
    """
    is_running = await saver.is_running()
    saved = await saver.checkpoint()
    asked = await saver.checkpoint(REQUESTS)
    origin = (await before_edits(saver, saved))[1] if saved is not None and saved.is_edit else None
    stamp = (is_running, *(_stamp(each) for each in (saved, asked, origin)))
    may_ask = is_running and saved is not None and _has_asked(saved)  # a lane may ask once more
    if known is not None and known.stamp == stamp and not may_ask:
        return known
    if saved is None or saved.position is None:
        queued = await _queued(saver, None)
        return Overview(stamp, "running" if is_running else "new", queued=queued)
    waiting, changed = await _questions(saver)
    asks = bool(waiting.questions) or (changed is not None and seems_to_ask(saved))
    status = status_at(saved, asks=asks, is_running=is_running)
    recent = leading(await saver.checkpoints("", None, _RECENT))
    unread = await _unread(saver, saved, known)
    return Overview(
        stamp,
        status,
        saved.time,
        str(saved.id),
        waiting.questions,
        waiting.kept,
        await _queued(saver, saved),
        await _turns(saver, saved, known, unread),
        _last_text(saver, recent, status),
        _tally(saved, unread),
        _spent_tokens(saved),
        _cost(saved),
        await _lines(saver, status, known),
        changed,
        await ran_by(saver, saved),
    )


async def present_values(saver: ThreadSaver) -> Mapping[str, object]:
    """Return the values of a thread after its latest step; none of a new thread.

    Raises:
        ThreadError: A tree of another shape ran the thread.
    """
    if await read_thread(saver) is None or (saved := await saver.checkpoint()) is None:
        return {}
    values: Mapping[str, object] = (await saver.state("", saved.id)).values.get("values", {})
    return values


async def line_overview(saver: ThreadSaver, line: str, present: Overview) -> Overview:
    """Return the summary of an older history line of a thread.

    Args:
        saver: The thread.
        line: The latest checkpoint of the line.
        present: The summary of the thread, whose status holds.

    Raises:
        ThreadError: The thread has no such line.
    """
    story = await story_of(saver, line)
    head, *_ = roots = [*story.roots.values()]
    turns, _ = _turns_in(roots, head.clock[0], _edits_in(story))
    return replace(
        present,
        pending=(),
        answered=(),
        queued=(),
        turns=[turns[own] for own in sorted(turns)][-_TURNS:],
        last=_last_text(saver, roots[:_RECENT], "done" if head.next_node is None else "stopped"),
        tally=Tally(line, _tokens_in(story)),
        spent_tokens=None,
        cost=None,
    )


def _stamp(saved: Saved | None) -> tuple[str, int]:
    return (str(saved.id), len(saved.pending_writes or ())) if saved else ("", 0)


async def _questions(saver: ThreadSaver) -> tuple[PendingQuestions, str | None]:
    try:
        return await questions_on(saver), None
    except ThreadError as error:  # another tree ran the thread, or it is an incomplete copy
        return PendingQuestions([]), str(error)


def _has_asked(saved: Saved) -> bool:
    return any(INTERRUPT in writes for writes in saved.writes.values())


async def _queued(saver: ThreadSaver, saved: Saved | None) -> Sequence[BaseMessage]:
    """Return the sent messages that no agent has read; older messages are not searched."""
    every = await requests(saver)
    sent = [each for each in every if each.messages]
    if not sent or saved is None:
        return [message for each in sent for message in each.messages]
    read = await _read_since(saver, sent[0])
    return [message for each in sent for message in each.messages if message.id not in read]


async def _read_since(saver: ThreadSaver, first: Request) -> set[str | None]:
    roots = await root_line(saver, lambda each: each.id < first.id)
    story = await present_story(saver, roots)
    return {message.id for saved in story.every for message in _messages_after(saved)}


def _messages_after(saved: Saved) -> Iterable[BaseMessage]:
    """Yield the messages that the step after a checkpoint wrote, and those of a waiting input."""
    for written in (*saved.writes.values(), *saved.results.values()):
        messages = written.get("messages")
        several = messages if isinstance(messages, list) else [messages]
        yield from (each for each in several if isinstance(each, BaseMessage))
    yield from (saved.turn_input or {"messages": ()})["messages"]


class _Unread(NamedTuple):
    """The steps after a known summary, or all.

    Attributes:
        story: The steps; None if they are too many to read them all.
        known: The summary that they continue; None if there is none.
    """

    story: Story | None
    known: Overview | None = None


async def _unread(saver: ThreadSaver, saved: Saved, known: Overview | None) -> _Unread:
    if known is not None and known.tally is not None:
        upto = known.tally.upto
        newer = Story(saver.tree, await leading_checkpoints(saver, upto))
        if upto in newer.roots:  # otherwise the thread was rewound
            return _Unread(newer, known)
    is_long = saved.metadata.get("step", 0) > _SHORT
    return _Unread(None if is_long else await present_story(saver))


async def _turns(
    saver: ThreadSaver, saved: Saved, known: Overview | None, unread: _Unread
) -> Sequence[BegunTurn]:
    """Return the last turns; in a long thread they are searched for only after the start of a turn."""
    number, story = saved.clock[0], unread.story
    if story is not None:
        turns, ended = _turns_in(story.roots.values(), number, _edits_in(story))
        before = unread.known.turns if unread.known else ()
        earlier = {each.number: each for each in before if each.number not in turns}
        if turns and earlier and (last := max(earlier)) == min(turns) - 1:
            earlier[last] = replace(earlier[last], ended=ended)
        turns = earlier | turns
    elif known is not None and known.turns and known.turns[-1].number == number:
        return known.turns
    else:
        begun, edited = await _begun_and_edited(saver)
        turns, _ = _turns_in(begun, number, _edits(edited))
    return [turns[own] for own in sorted(turns)][-_TURNS:]


async def _begun_and_edited(saver: ThreadSaver) -> tuple[list[Saved], list[Saved]]:
    """Return the checkpoints at which turns begin, newest first, and those with edits, oldest first.

    A rewind copies the checkpoint of its step. A thread that began as a copy has the edit at the end of
    the copy.
    """
    begun, forked = await saver.begun_turns(_TURNS), await saver.forked(_TURNS)
    if not forked:
        return begun, []
    begun += [each for each in forked if each.begins_turn]
    first = [step for each in begun for step in await saver.children(each)]
    begun.sort(key=lambda each: str(each.id), reverse=True)
    return begun, sorted([*forked, *first], key=lambda each: str(each.id))


def _edits_in(story: Story) -> _Edits:
    return _edits(reversed(story.lanes))


def _edits(oldest_first: Iterable[Saved]) -> _Edits:
    """Return the messages that rewinds added or put in the place of others, by id."""
    return {each.id: (saved, each) for saved in oldest_first for each in added_at(saved)}


def _turns_in(
    newest_first: Iterable[Saved], number: int, edits: _Edits
) -> tuple[dict[int, BegunTurn], float | None]:
    """Return the turns up to a number that begin at checkpoints, and the end of the turn before."""
    turns: dict[int, BegunTurn] = {}
    ended: float | None = None
    for each in newest_first:
        messages, own = each.turn_input, each.clock[0]
        if messages is None or own > number or own in turns:  # of another line
            continue
        users = [message for message in messages["messages"] if address_of(message) is None]
        edited = [edits[message.id] for message in users if message.id in edits]
        again = [saved.time for saved, _ in edited if saved.parent_id == each.id]
        now = (edits.get(message.id, (each, message))[1] for message in users)
        texts = [cut(str(message.text), _LONGEST) for message in now]
        turns[own] = BegunTurn(own, texts, max(again, default=each.time), ended)
        ended = time_in_id(each.parent_id) if each.parent_id else None
    return turns, ended


def _last_text(saver: ThreadSaver, newest_first: Sequence[Saved], status: Status) -> str:
    entries = reversed(Story(saver.tree, newest_first).entries)
    turn = newest_first[0].clock[0]
    texts = (
        str(each.text)
        for each in entries
        if isinstance(each, BaseMessage)
        and (status == "done" or not isinstance(each, ToolMessage))
        and (order := event_order(each)) is not None
        and order.turn == turn
    )
    return cut(next(filter(None, texts), ""), _LONGEST)


def _tally(saved: Saved, unread: _Unread) -> Tally | None:
    """Return the tokens of a thread: the known sum, and those of newer steps."""
    if unread.story is None:
        return None
    before = unread.known and unread.known.tally
    return Tally(saved.id, {**(before.of if before else {}), **_tokens_in(unread.story)})


def _tokens_in(story: Story) -> dict[str, tuple[int, int]]:
    used: dict[str, tuple[int, int]] = {}
    for each in story.entries:
        usage: UsageMetadata | None = reported(getattr(each, "usage_metadata", None))
        if usage:
            used[str(each.id)] = usage["input_tokens"], usage["output_tokens"]
    return used


def _spent_tokens(saved: Saved) -> int | None:
    position = saved.position
    counts = position.get("spent", {}) if position else {}
    if not any("steps" in each for each in counts.values()):
        return None
    return sum(int(each.get("tokens", 0)) for each in counts.values())


def _cost(saved: Saved) -> str | None:
    position = saved.position
    return cost_text(position.get("spent", {})) if position else None


async def _lines(saver: ThreadSaver, status: Status, known: Overview | None) -> int:
    """Return the number of history lines of a thread; a running thread gets no new ones."""
    if known is not None and known.head and known.status == "running" == status:
        return known.lines
    return await _query(saver, count_lines, saver.thread_id) or 1


async def lines(saver: ThreadSaver) -> list[Line]:
    """Return the history lines of a thread; of a single line, read only the latest checkpoint.

    Raises:
        UnknownThreadError: The saver has no such thread, and no run is active on it.
    """
    if (head := await begun_thread(saver)) is None:
        return []
    is_alone = await _query(saver, count_lines, saver.thread_id) == 1
    return lines_of(saver.tree, [head] if is_alone else await saver.checkpoints(""))


async def version_of(saver: ThreadSaver, run: int) -> Hashable:
    """Return the version of a thread, which differs after each change, as cheaply as possible.

    Args:
        saver: The thread.
        run: A number that differs between runs of this process on the thread.
    """
    is_running = await saver.is_running()
    changes = await _query(saver, changes_of)
    changes = changes or await _query(saver, changes_in_memory, saver.thread_id)
    if changes is not None:
        return changes, is_running, run
    saved = await saver.checkpoint()
    asked = await saver.checkpoint(REQUESTS)
    inside = await saver.checkpoints(None, None, 1) if is_running else []
    return is_running, run, *(_stamp(each) for each in (saved, asked, *inside))


async def _query(saver: ThreadSaver, ask: Callable[..., T], *arguments: object) -> T:
    """Return the result of a query of a thread's database.

    Raises:
        SaverError: The query fails.
    """

    def asked() -> T:
        return ask(saver.saver, *arguments)

    async def aasked() -> T:
        return await asyncio.to_thread(asked)

    try:
        result: T = await Call(asked, aasked)
    except Exception as error:
        raise saver_error(error, saver.saver, saver.thread_id) from error
    return result


class ThreadIds(NamedTuple):
    """The threads of a saver.

    Attributes:
        changes: The version of the saver's data at the time of the list; None if it is unknown.
        ids: The ids, newest first by start time.
    """

    changes: Hashable
    ids: Sequence[str]


async def thread_ids(
    saver: ThreadSaver,
    status: ListedStatus | None,
    before: str | None,
    running: Sequence[str],
    known: ThreadIds | None,
) -> ThreadIds:
    """Return the ids of the threads of a saver; list them again only after a change.

    Args:
        saver: Any thread of the saver.
        status: Leave out threads that are known to have another status; None keeps all.
        before: Only threads after this one; None for all.
        running: The threads of the runs of this process.
        known: The result of an earlier call.

    Raises:
        UnknownThreadError: The thread `before` does not exist.
    """
    changes = await _query(saver, changes_of)
    changes = None if changes is None else (changes, *running)
    if known is not None and changes is not None and known.changes == changes:
        return known
    pages = ThreadPages(saver, query_of(status, {}, running))
    last = None if before is None else (await pages.known([before])).get(before)
    if before is not None and last is None:
        raise unknown_before(before)
    return ThreadIds(changes, [thread_id for thread_id, _ in await pages.after(last, sys.maxsize)])

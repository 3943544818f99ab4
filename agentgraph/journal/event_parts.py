"""The events of a thread as they are read: of a long plain line in parts, of all others at once.

A line is plain if its database knows that nothing on it was discarded (`savers/plain_lines.py`). There
a step has later events than the steps before it, so checkpoints in a row have events in a row. Only the
last checkpoint may get more writes while the others are read: it is read first. If another tree turns
out to have run a turn, the line is read whole, and the rest of its events follow.
"""

from collections.abc import Sequence
from typing import NamedTuple

from agentgraph.events.events import AgentEvent
from agentgraph.graph.internals import ERROR
from agentgraph.graph.stamps import Note
from agentgraph.journal.changed_trees import is_of, opened
from agentgraph.journal.entries import entries_at, entries_of
from agentgraph.journal.lines import just_after
from agentgraph.journal.replay import events_from, events_on
from agentgraph.journal.saved import Saved
from agentgraph.journal.schema import ATTEMPTS
from agentgraph.journal.thread_saver import ThreadSaver

LONG = 500
"""The least number of checkpoints of a line that is read in parts."""
PART = 64
"""The number of checkpoints in a part."""


class Part(NamedTuple):
    """Some events of a thread, in order.

    Attributes:
        events: The events.
        rest: The part of the thread that is left to read; None if nothing is.
    """

    events: Sequence[AgentEvent]
    rest: "_Rest | None" = None


class _Rest(NamedTuple):
    """The part of a plain line that is left to read.

    Attributes:
        ids: The ids of its checkpoints, in order, without the last ones.
        last: The last ones, the newest first: read before the others, as a run may add to them.
        begin: How many of the ids were read.
        upto: The cursor of the last event before those that are left; empty for none.
    """

    ids: Sequence[str]
    last: Sequence[Saved]
    begin: int = 0
    upto: str = ""


async def replayed(saver: ThreadSaver, line: str | None = None) -> Part:
    """Return the first events of a thread, without chunks: all of them, if it is not a plain line.

    Args:
        saver: The thread.
        line: The head of one of its lines; None for the present one.

    Raises:
        UnknownThreadError: The saver has no such thread, and nothing runs on it.
        ThreadError: The thread has no such line; or as `open_thread` does.
    """
    if line is None and (rest := await _plain_line(saver)) is not None:
        return await replayed_next(saver, rest)
    return Part([*await events_on(saver, line)])


async def replayed_next(saver: ThreadSaver, rest: _Rest) -> Part:
    """Return the next events of a plain line; the rest of them, if it proves not to be plain.

    Raises:
        ThreadError: As `replayed` does.
    """
    ids, page = rest.ids[rest.begin : rest.begin + PART], rest.last
    if ids:
        page = await saver.lean().checkpoints("", just_after(ids[-1]), len(ids))
    is_there = not ids or [each.id for each in page] == [*reversed(ids)]
    if not is_there or not all(is_of(saver.tree, each) for each in page if each.begins_turn):
        every = await events_on(saver, rest.last[0].id)
        return Part([each for each in every if (each.cursor or "") > rest.upto])
    events = [*events_from(entries_of(saver.tree, page), saver, page)]
    begin, upto = rest.begin + len(ids), (events[-1].cursor or "") if events else rest.upto
    return Part(events, rest._replace(begin=begin, upto=upto) if ids else None)


async def _plain_line(saver: ThreadSaver) -> _Rest | None:
    """Return a line whose events can be read in parts; None if all has to be read at once."""
    if saver.tree.has_transfers:
        return None  # transfers before decide the run paths
    if not (ids := await saver.plain_line(LONG)):
        return None
    last = await saver.lean().checkpoints("", just_after(ids[-1]), PART)
    if not last or last[0].id != ids[-1] or _may_discard(last[0]):
        return None
    await opened(saver, last[0])
    return _Rest(ids[: -len(last)], last)


def _may_discard(head: Saved) -> bool:
    """Return whether something may be discarded by what was saved since a line was found plain."""
    kinds = {each.kind for each in entries_at(head) if isinstance(each, Note)}
    has_failed = any(channel in (ERROR, ATTEMPTS) for _, channel, _ in head.pending_writes or ())
    return has_failed or not kinds.isdisjoint(("discarded", "interrupted", "error"))

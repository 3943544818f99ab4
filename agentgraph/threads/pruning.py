"""Prunes threads: old turns and lines of each, and whole threads that are done.

Each thread is locked meanwhile, and pruned by itself: a kill leaves it as it was, or pruned.
"""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from agentgraph.agents.tool_results import LONG_RUNNING
from agentgraph.errors import (
    AgentGraphError,
    SaverError,
    ThreadBusyError,
    ThreadError,
    UnknownThreadError,
)
from agentgraph.graph.sync_async import Call
from agentgraph.journal.changed_trees import opened, ran_by
from agentgraph.journal.lines import check_whole, known
from agentgraph.journal.locks import holders_on
from agentgraph.journal.pruning import Plan, planned
from agentgraph.journal.replay import events_of
from agentgraph.journal.requests import ids_on, mark_read, requests, unread, waiting_on
from agentgraph.journal.saved import Saved
from agentgraph.journal.savers.file_locks import FileLocks
from agentgraph.journal.savers.file_space import HasFile, size_of
from agentgraph.journal.savers.pruning import prunes
from agentgraph.journal.soundness import checked_read, is_unreadable
from agentgraph.journal.thread_pages import ThreadPages
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.turn_lines import lines_in, message_ids, turns_in
from agentgraph.journal.turn_records import TurnRecord, put_turn, turn_records
from agentgraph.reports.result import pruned_turn
from agentgraph.reports.thread import thread
from agentgraph.reports.thread_list import query_of
from agentgraph.safe_repr import shown
from agentgraph.threads.engine import Engine
from agentgraph.threads.rewinds.kept_states import put_missing_states

_NAMED = 10
"""Maximum number of skipped threads that the text names."""
_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Pruned:
    """The result of `Runner.prune`; `str` returns it as a sentence.

    Attributes:
        threads: The number of threads that were removed whole.
        turns: The number of turns that were removed from the current lines of threads that stay.
        lines: The number of older history lines that were removed from them.
        checkpoints: The number of checkpoints that were removed from them.
        bytes: The bytes that a SQLite file has returned to the disk; None for other checkpointers.
        skipped: The threads that were left as they are: a run is active on them, they cannot be read,
            or another tree ran them last.
    """

    threads: int = 0
    turns: int = 0
    lines: int = 0
    checkpoints: int = 0
    bytes: int | None = None
    skipped: Sequence[str] = ()

    def __str__(self) -> str:
        counts = {
            "thread": self.threads,
            "turn": self.turns,
            "older line": self.lines,
            "checkpoint": self.checkpoints,
        }
        *first, last = (f"{n:,} {name}{'s' * (n != 1)}" for name, n in counts.items())
        text = f"Removed: {', '.join(first)} and {last}"
        text += "" if self.bytes is None else f"; {_amount(self.bytes)} given back to the disk"
        more = len(self.skipped) - _NAMED
        names = ", ".join(self.skipped[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        return text + (f"; skipped: {names}" if names else "")


def _amount(number: int) -> str:
    """Return a number of bytes for people.

    >>> _amount(999), _amount(3_000_000)
    ('999 B', '3.0 MB')
    """
    power = min(max(len(str(number)) - 1, 0) // 3, len(_UNITS) - 1)
    return f"{number / 1000**power:.1f} {_UNITS[power]}" if power else f"{number} B"


class Prune(NamedTuple):
    """The arguments of `Runner.prune`.

    Attributes:
        keep_turns: How many turns of each thread stay; None for all.
        older_than: How many seconds ago a thread was last saved that is removed; None for no thread.
        keep_lines: How many older lines of each thread stay; None for all.
        compacts: Whether the file is copied without the space of what was deleted.
    """

    keep_turns: int | None = None
    older_than: float | None = None
    keep_lines: int | None = None
    compacts: bool = False

    @property
    def is_within(self) -> bool:
        """Whether a part of a thread is removed, and the rest of it stays."""
        return self.keep_turns is not None or self.keep_lines is not None


def prune_of(
    keep_turns: int | None,
    older_than: float | timedelta | None,
    keep_lines: int | None,
    compacts: bool,
) -> Prune:
    """Return the arguments of `Runner.prune`, checked.

    Raises:
        AgentGraphError: One makes no sense, or none is there.
    """
    if keep_turns is None and older_than is None and keep_lines is None and not compacts:
        raise AgentGraphError(
            "prune() has nothing to remove; pass keep_turns=, keep_lines= or older_than="
        )
    _check_number("keep_turns", keep_turns, 1, "turns; delete(thread_id) removes a whole thread")
    _check_number("keep_lines", keep_lines, 0, "older lines")
    seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if seconds is not None and not (is_number and 0 <= seconds < math.inf):
        raise AgentGraphError(
            f"older_than={shown(older_than)} is not a time; pass seconds, at least 0, or a timedelta"
        )
    return Prune(keep_turns, seconds, keep_lines, compacts)


def _check_number(name: str, number: object, least: int, of: str) -> None:
    if number is None or (type(number) is int and number >= least):
        return
    raise AgentGraphError(
        f"{name}={shown(number)} is out of range; pass an integer of at least {least}: the number of "
        f"{of}"
    )


async def prune(any_thread: ThreadSaver, engine: Engine, wanted: Prune, named: str | None) -> Pruned:
    """Prune a thread, or all threads of a saver.

    Args:
        any_thread: Any thread of the saver.
        engine: Runs the tree.
        wanted: The arguments.
        named: The thread; None for all.

    Raises:
        UnknownThreadError: The saver has no such thread.
        ThreadBusyError: A run is active on it; or on any thread, where the file is to be compacted.
        ThreadError: Another tree ran it, or it is a copy that was cut short.
        AgentGraphError: The saver cannot do that.
    """
    saver, has_file = any_thread.saver, isinstance(any_thread.saver, HasFile)
    if wanted.is_within and not prunes(saver):
        raise AgentGraphError(
            f"{type(saver).__name__} removes whole threads only, because it has no transactions; pass "
            "older_than= alone"
        )
    if wanted.compacts:
        _check_alone(any_thread)
    path = saver.path if isinstance(saver, HasFile) else None
    if isinstance(saver, HasFile):  # so that the size is that of the data
        await any_thread.do(Call(saver.give_back, saver.agive_back))
    before = size_of(path)
    if named is not None:
        found = await _pruned(any_thread.of(named), engine, wanted)
    else:
        found = await _all_pruned(any_thread, engine, wanted)
    if isinstance(saver, HasFile):
        if wanted.compacts:
            await any_thread.do(Call(saver.compact, saver.acompact))
        await any_thread.do(Call(saver.give_back, saver.agive_back))
    after = size_of(path)
    if not has_file or before is None or after is None:
        return found
    return replace(found, bytes=max(before - after, 0))


def _check_alone(any_thread: ThreadSaver) -> None:
    """Refuse to compact a file next to a run, or what is not a file.

    Raises:
        ThreadBusyError: A run is active.
        AgentGraphError: It is not a file that agentgraph opened.
    """
    saver = any_thread.saver
    if not isinstance(saver, HasFile):
        raise AgentGraphError(
            f"{type(saver).__name__} has no file that agentgraph opened; leave compact=True out"
        )
    busy, locks = [*holders_on(saver)], getattr(saver, "thread_locks", None)
    if busy or (isinstance(locks, FileLocks) and locks.has_taken_any()):
        on = f"thread {shown(busy[0])}" if busy else "a thread, in another process"
        raise ThreadBusyError(
            f"a run is active on {on}, so the file cannot be compacted; do that when nothing runs",
            busy[0] if busy else "",
        )


async def _all_pruned(any_thread: ThreadSaver, engine: Engine, wanted: Prune) -> Pruned:
    total = Pruned()
    if not wanted.is_within and wanted.older_than is None:
        return total
    pages = ThreadPages(any_thread, query_of(None if wanted.is_within else "done", {}, ()))
    for thread_id, _ in await pages.after(None, sys.maxsize):
        try:
            found = await _pruned(any_thread.of(thread_id), engine, wanted, is_named=False)
        except UnknownThreadError:  # it was deleted meanwhile
            continue
        except ThreadError:  # also one that is busy, or of another tree
            found = Pruned(skipped=[thread_id])
        except SaverError as error:
            if not is_unreadable(error):
                raise
            found = Pruned(skipped=[thread_id])
        total = _sum(total, found)
    return total


def _sum(one: Pruned, other: Pruned) -> Pruned:
    return Pruned(
        one.threads + other.threads,
        one.turns + other.turns,
        one.lines + other.lines,
        one.checkpoints + other.checkpoints,
        skipped=(*one.skipped, *other.skipped),
    )


async def _pruned(
    thread: ThreadSaver, engine: Engine, wanted: Prune, *, is_named: bool = True
) -> Pruned:
    """Prune one thread, which is locked meanwhile; one of another tree only if it is named."""
    own, thread = await engine.for_thread(thread)
    locked = partial(_prune_one, wanted=wanted, is_named=is_named)
    found: Pruned = await own.locked(thread, partial(checked_read, locked))
    return found


async def _prune_one(saver: ThreadSaver, *, wanted: Prune, is_named: bool) -> Pruned:
    head = known(saver, await saver.checkpoint())
    by = None if is_named else await ran_by(saver, head)
    if by is not None and not by.is_alike:
        return Pruned(skipped=[saver.thread_id])
    if wanted.older_than is not None and await _is_over(saver, head, wanted.older_than):
        await saver.delete(as_one_of_several=True)
        return Pruned(threads=1)
    if not wanted.is_within or head.position is None or await _is_short(saver, wanted):
        return Pruned()
    check_whole(saver, head)
    await opened(saver, head)
    await put_missing_states(saver, head)
    every = await saver.lean().checkpoints()
    plan = await planned(saver, every, wanted.keep_turns, wanted.keep_lines)
    if plan is None:
        return Pruned()
    await _settle(saver, every, plan)
    await saver.prune(plan.pruning)
    return Pruned(turns=plan.turns, lines=plan.lines, checkpoints=len(plan.pruning.gone))


async def _is_over(saver: ThreadSaver, head: Saved, seconds: float) -> bool:
    """Return whether a thread is done, waits for nothing, and was last saved so long ago."""
    if head.position is None or head.next_node is not None or head.time > time.time() - seconds:
        return False
    return not (await waiting_on(saver) or await _has_open_calls(saver))


async def _has_open_calls(saver: ThreadSaver) -> bool:
    messages = (await saver.state()).values.get("messages", ())
    if not any(LONG_RUNNING in each.additional_kwargs for each in messages):
        return False
    return bool((await thread(saver, saver.reducers)).open_calls)


async def _is_short(saver: ThreadSaver, wanted: Prune) -> bool:
    """Return whether a thread has no turn to remove, without reading it, if no lines are either."""
    if wanted.keep_lines is not None or wanted.keep_turns is None:
        return False
    return len(await saver.begun_turns(wanted.keep_turns + 1)) <= wanted.keep_turns


async def _settle(saver: ThreadSaver, every: Sequence[Saved], plan: Plan) -> None:
    """Save what later readers could not find out any more: it says nothing new as long as all is there.

    These are the requests that were read, and the outcomes of the named turns that go.
    """
    asked = await requests(saver)
    if asked:
        waiting = {each.id for each in unread(asked, await ids_on(saver))}
        await mark_read(saver, [each for each in asked if each.id not in waiting])
    roots = [each for each in every if not each.namespace]
    stay = message_ids([each for each in roots if each.id in plan.kept])
    records = {each.message: each for each in await turn_records(saver) if each.message not in stay}
    for line in lines_in(every) if records else ():
        for record in _ended(saver, line, records):
            del records[record.message]
            await put_turn(saver, record)


def _ended(
    saver: ThreadSaver, line: Sequence[Saved], records: Mapping[str, TurnRecord]
) -> list[TurnRecord]:
    """Return those of some records whose turns are on a line, with the rest of these."""
    found: list[TurnRecord] = []
    events = None
    for turn in turns_in(saver, line):
        for message in message_ids(turn.roots) & records.keys():
            events = events_of(saver, turn.story) if events is None else events
            own = [each for each in events if each.turn == turn.number]
            pruned = pruned_turn(saver.tree, own, is_done=turn.roots[0].next_node is None)
            record = records[str(message)]
            answers = turn.answers if record.answers is None else record.answers
            found.append(record._replace(answers=answers, pruned=pruned))
    return found

"""Brings a turn as far as it can go now, in one call that is safe to repeat.

An engine, a queue that delivers twice, or a web handler that is tried again makes the same call again,
and nothing happens twice. A run begins as the state of the turn allows (`next_begin.py`). Where another
run holds the thread, also one of another process, the caller waits for it. In each case it gets the
result of the turn with all of its events, as they are saved.
"""

import asyncio
import time

from agentgraph.errors import AgentGraphError, ThreadBusyError, ThreadError
from agentgraph.graph.outside import is_within
from agentgraph.graph.sync_async import Call, running_loop
from agentgraph.journal.lines import begun_thread, known_thread
from agentgraph.journal.states import Status
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.turn_lines import (
    TurnLine,
    is_input_of,
    last_turn,
    present_turn,
    turn_at,
    turn_with,
)
from agentgraph.journal.turn_records import put_outcome, turn_record
from agentgraph.reports.result import Result, pruned_result, result_of
from agentgraph.reports.thread_list import status_of
from agentgraph.safe_repr import shown
from agentgraph.threads.begin import Advance
from agentgraph.threads.engine import Engine, RunOptions
from agentgraph.threads.live.active_run import active_run_on

_SECONDS = 0.05
"""How often a caller that waits looks whether the thread is free."""


def advance(engine: Engine, thread_id: str, wanted: Advance, how: RunOptions, *, wait: bool) -> Result:
    """Bring a turn as far as it can go now, and return its result.

    Raises:
        Exception: An agent failed.
        TurnFailedError: The run that was waited for failed.
        ThreadBusyError: Another run is active on the thread, and the caller does not wait, or cannot:
            it is part of that run, or of an event loop.
        AgentGraphError: As in `next_begin`.
    """
    while True:
        try:
            run = engine.run(wanted, thread_id, how)
        except ThreadBusyError:
            if not wait or running_loop() is not None or _is_inside(engine, thread_id):
                raise
            engine.read(until_free, thread_id)
            wanted = wanted._replace(has_waited=True)
            continue
        with run:
            for _ in run:
                pass
        if (found := engine.read(result_now, thread_id, wanted.turn_id)) is not None:
            return _returned(found)


async def aadvance(
    engine: Engine, thread_id: str, wanted: Advance, how: RunOptions, *, wait: bool
) -> Result:
    """Bring a turn as far as it can go now, as `advance` does."""
    while True:
        try:
            run = await engine.arun(wanted, thread_id, how)
        except ThreadBusyError:
            if not wait or _is_inside(engine, thread_id):
                raise
            await engine.aread(until_free, thread_id)
            wanted = wanted._replace(has_waited=True)
            continue
        async with run:
            async for _ in run:
                pass
        if (found := await engine.aread(result_now, thread_id, wanted.turn_id)) is not None:
            return _returned(found)


def _returned(found: Result) -> Result:
    if found.error is not None:
        raise found.error
    return found


def _is_inside(engine: Engine, thread_id: str) -> bool:
    """Return whether this code is part of the run on a thread, which it cannot wait for."""
    run = active_run_on(engine.saver, thread_id)
    return run is not None and is_within(run.control)


async def until_free(saver: ThreadSaver, timeout: float | None = None) -> bool:
    """Wait until no run is active on a thread; return whether that came in time.

    Args:
        saver: The thread.
        timeout: For how long, in seconds; None for as long as it takes.
    """
    until = None if timeout is None else time.monotonic() + timeout
    while await saver.is_running():
        if until is not None and time.monotonic() >= until:
            return False
        await Call(time.sleep, asyncio.sleep, (_SECONDS,))
    return True


async def waited(saver: ThreadSaver, timeout: float | None) -> Status:
    """Wait until no run is active on a thread, and return its status.

    Raises:
        UnknownThreadError: The saver has no such thread, and nothing runs on it.
        ThreadBusyError: The run has not ended in time.
        AgentGraphError: `timeout` is not a number of seconds.
    """
    if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
        raise AgentGraphError(
            f"timeout={shown(timeout)} is not a number of seconds; pass 0 or more, or None to wait for "
            "as long as it takes"
        )
    await begun_thread(saver)
    if not await until_free(saver, timeout):
        raise ThreadBusyError(
            f"thread {shown(saver.thread_id)} is still busy after {timeout} seconds; wait longer, or "
            "stop() its run",
            saver.thread_id,
        )
    return await status_of(saver)


async def result_now(saver: ThreadSaver, turn_id: str | None) -> Result | None:
    """Return the result of a turn that has begun; None while another run brings it further.

    That it ended is saved, so that it is known also when it is no longer on the thread. Of one that was
    pruned the last text is left.

    Raises:
        ThreadError: The turn ended, and is not on the thread any more.
    """
    record = None if turn_id is None else await turn_record(saver, turn_id)
    roots = await present_turn(saver)
    if roots is not None and (record is None or is_input_of(roots, record.message)):
        if roots.line[0].next_node is not None and await saver.is_running():
            return None
        turn: TurnLine | None = await last_turn(saver, roots)
    else:
        turn = None if record is None else await turn_with(saver, record.message)
    if turn is None and record is not None and record.pruned is not None:
        return pruned_result(saver, record.pruned)
    if turn is None:
        raise ThreadError(
            f"thread {shown(saver.thread_id)}: the turn {shown(turn_id)} ended, and is not stored any "
            "more; its result is lost, and it does not run again",
            saver.thread_id,
        )
    found = await result_of(saver, turn)
    if turn.is_last and await _has_moved(saver, turn):
        return None
    if record is not None and not record.has_ended and found.status == "done":
        await put_outcome(saver, record, turn.answers)
    return found


async def _has_moved(saver: ThreadSaver, turn: TurnLine) -> bool:
    """Return whether another run has gone on with a thread while its last turn was read."""
    head = await saver.checkpoint()
    if head is None or head.id != turn.roots[0].id:
        return True
    return head.next_node is not None and await saver.is_running()


async def result_at(saver: ThreadSaver, number: int | None) -> Result:
    """Return the result of a turn by its number, or of the last one.

    Raises:
        UnknownThreadError: The saver has no such thread.
        ThreadError: It has no such turn.
        ThreadBusyError: A run is active in that turn.
    """
    await known_thread(saver)
    roots = await present_turn(saver)
    if roots is not None and number in (None, roots.line[-1].clock[0]):
        if roots.line[0].next_node is not None and await saver.is_running():
            raise ThreadBusyError(
                f"thread {shown(saver.thread_id)} is busy: the turn has no result yet; wait(thread_id) "
                "for the end of its run",
                saver.thread_id,
            )
        last = await last_turn(saver, roots)
        found = await result_of(saver, last)
        return await result_at(saver, number) if await _has_moved(saver, last) else found
    turn = None if number is None else await turn_at(saver, number)
    if turn is None:
        raise ThreadError(
            f"thread {shown(saver.thread_id)} has no turn {shown(number)}; thread(thread_id).turns "
            "lists them",
            saver.thread_id,
        )
    return await result_of(saver, turn)

"""Answers the questions of a thread, in this process or in another one that has its saver.

On a thread at rest the answers are stored, and the next run takes them (`journal/kept_answers.py`).
"""

import asyncio
import time
from functools import partial

from agentgraph.errors import ThreadBusyError, UnknownInterruptError
from agentgraph.graph.sync_async import Call
from agentgraph.journal.answers import checked_answers
from agentgraph.journal.changed_trees import open_thread
from agentgraph.journal.kept_answers import keep_answers
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.thread_status import status_at
from agentgraph.safe_repr import shown
from agentgraph.threads.engine import Engine
from agentgraph.threads.live.active_run import active_run_on

_SECONDS = 0.02
"""Seconds between two attempts to lock a thread that another short call holds."""
_ATTEMPTS = 100
"""Maximum number of these attempts."""


async def answer(saver: ThreadSaver, engine: Engine, answers: object) -> None:
    """Answer questions of a thread.

    Raises:
        UnknownThreadError: The saver has no such thread.
        UnknownInterruptError: An answer to a question that is not pending, or no answer at all.
        InvalidAnswerError: An answer that does not fit its question's schema, or cannot be saved.
        TreeChangedError: The thread was run by a tree of another shape.
        ThreadBusyError: A run is active on the thread.
    """
    for attempt in range(_ATTEMPTS):
        try:
            await engine.locked(saver, partial(_keep, answers=answers))
            return
        except ThreadBusyError:  # by a run, or by another call, which does not take long
            is_run = active_run_on(saver.saver, saver.thread_id) is not None
            if is_run or attempt == _ATTEMPTS - 1:
                raise
            await Call(time.sleep, asyncio.sleep, (_SECONDS,))


async def _keep(saver: ThreadSaver, answers: object) -> None:
    """Store answers to questions of a thread at rest, which is locked."""
    head = await open_thread(saver)
    waiting, given, _ = await checked_answers(saver, head, answers)
    if not given or waiting.origin is None:
        there = ", ".join(f"{q.address} ({q.id})" for q in waiting.questions) or "none"
        raise UnknownInterruptError(
            f"thread {shown(saver.thread_id)}: {shown(answers)} answers no question; pending: {there}",
            saver.thread_id,
        )
    asks = any(each.id not in given for each in waiting.questions)
    status = status_at(head, asks=asks, is_running=False)
    await keep_answers(saver, head, waiting.origin, given, status)

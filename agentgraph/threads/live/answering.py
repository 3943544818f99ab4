"""Answers the questions of a thread, in this process or in another one that has its saver.

On a thread at rest the answers are stored, and the next run takes them (`journal/kept_answers.py`).
"""

import asyncio
import time
from functools import partial

from agentgraph.errors import ThreadBusyError
from agentgraph.graph.sync_async import Call
from agentgraph.journal.answers import named_answers
from agentgraph.journal.kept_answers import keep_answers
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.thread_status import status_at
from agentgraph.threads.engine import Engine
from agentgraph.threads.live.active_run import active_run_on
from agentgraph.threads.live.run_answers import answer_run

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
        run = active_run_on(saver.saver, saver.thread_id)
        if run is not None and await answer_run(run.desk, saver, answers):
            return
        try:
            await engine.locked(saver, partial(_keep, answers=answers))
            return
        except ThreadBusyError:  # by a run, or by another call, which does not take long
            if attempt == _ATTEMPTS - 1:
                raise
            await Call(time.sleep, asyncio.sleep, (_SECONDS,))


async def _keep(saver: ThreadSaver, answers: object) -> None:
    """Store answers to questions of a thread at rest, which is locked."""
    named = await named_answers(saver, answers)
    asks = any(each.id not in named.by_id for each in named.waiting.questions)
    status = status_at(named.head, asks=asks, is_running=False)
    await keep_answers(saver, named.head, named.origin, named.by_id, status)

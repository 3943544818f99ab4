"""Answers the questions of a thread, in this process or in another one that has its saver.

A run of this process takes the answers at once (`run_answers.py`). For one of another process they are
saved as a request, which that process takes. On a thread at rest they are stored, and the next run
takes them (`journal/kept_answers.py`). So that each question is answered once, one call at a time
answers a thread.
"""

import asyncio
import time
from typing import NamedTuple

from agentgraph.errors import ThreadBusyError, UnknownInterruptError
from agentgraph.graph.sync_async import Call
from agentgraph.journal.answers import NamedAnswers, named_answers
from agentgraph.journal.kept_answers import keep_answers, were_stored
from agentgraph.journal.locks import holding
from agentgraph.journal.requests import Request, put_request
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.thread_status import status_at
from agentgraph.safe_repr import shown
from agentgraph.threads.live.active_run import active_run_on
from agentgraph.threads.live.run_answers import (
    answer_run,
    answered_error,
    check_open,
    keep_requested,
    requested_answers,
)
from agentgraph.threads.live.watcher import is_shared

_SECONDS = 0.02
"""Seconds between two attempts to lock a thread that another short call holds."""
_ATTEMPTS = 100
"""Maximum number of these attempts."""
_WAIT = 1.0
"""Maximum seconds to wait for a run of another process: until it has saved a question that it asked,
and until it has taken the answers."""
_LONGEST = 30.0
"""Maximum seconds to wait while other calls answer the thread."""
_LOCK = "agentgraph-answer-"
"""The beginning of the name under which the caller holds a lock."""


class _Sent(NamedTuple):
    """Answers for a run of another process.

    Attributes:
        request: The request that has them.
        named: The answers, checked.
    """

    request: Request
    named: NamedAnswers


async def answer(saver: ThreadSaver, answers: object) -> None:
    """Answer questions of a thread.

    Raises:
        UnknownThreadError: The saver has no such thread.
        UnknownInterruptError: An answer to a question that is not pending, or no answer at all.
        InvalidAnswerError: An answer that does not fit its question's schema, or cannot be saved.
        TreeChangedError: The thread was run by a tree of another shape.
        ThreadBusyError: A run on the thread has not begun, or other calls answer it for too long.
    """
    sent: _Sent | None = None
    for attempt in range(_ATTEMPTS):
        try:
            if sent is None:
                sent = await _alone(saver, answers)
            if sent is None or await _is_taken(saver, sent):
                return
        except ThreadBusyError:  # by a run that begins, or by a short call
            if attempt == _ATTEMPTS - 1:
                raise
        if sent is not None and attempt * _SECONDS > _WAIT:
            return
        await Call(time.sleep, asyncio.sleep, (_SECONDS,))


async def _alone(saver: ThreadSaver, answers: object) -> _Sent | None:
    """Act as `_given` does, once no other call answers the thread: one may wait for a lane to ask."""
    name, until = f"{_LOCK}{saver.thread_id}", time.monotonic() + _LONGEST
    while True:
        try:
            return await holding(saver.saver, [name], _given(saver, answers))
        except ThreadBusyError as error:
            if error.thread_id != name:
                raise
            if time.monotonic() > until:
                raise _other_calls_error(saver) from None
        await Call(time.sleep, asyncio.sleep, (_SECONDS,))


def _other_calls_error(saver: ThreadSaver) -> ThreadBusyError:
    return ThreadBusyError(
        f"thread {shown(saver.thread_id)} is busy: other calls are answering its questions; nothing "
        "was saved, so answer again",
        saver.thread_id,
    )


async def _given(saver: ThreadSaver, answers: object) -> _Sent | None:
    """Have answers taken or stored; return those for a run of another process, if one is active.

    Nobody else answers the thread meanwhile.
    """
    taken = {key for each in await _requested(saver) for key in each.answers}
    run = active_run_on(saver.saver, saver.thread_id)
    if run is not None and await answer_run(run.desk, saver, answers, taken):
        return None
    if run is None and is_shared(saver.saver) and await saver.is_running():
        named = await _named_once_saved(saver, answers)
        check_open(saver, named, taken)
        return _Sent(await put_request(saver, "answer", answers=named.by_id), named)
    await holding(saver.saver, [saver.thread_id], _keep(saver, answers))
    return None


async def _named_once_saved(saver: ThreadSaver, answers: object) -> NamedAnswers:
    """Return checked answers; a question that a run of another process just asked may not be saved."""
    until = time.monotonic() + _WAIT
    while True:
        try:
            return await named_answers(saver, answers)
        except UnknownInterruptError:
            if time.monotonic() > until or not await saver.is_running():
                raise
        await Call(time.sleep, asyncio.sleep, (_SECONDS,))


async def _requested(saver: ThreadSaver) -> list[Request]:
    return await requested_answers(saver) if is_shared(saver.saver) else []


async def _is_taken(saver: ThreadSaver, sent: _Sent) -> bool:
    """Return whether a run has taken answers; if that has ended, they are stored.

    Raises:
        UnknownInterruptError: It has taken others, such as those with which it began, or needs none.
    """
    if sent.request.id in [each.id for each in await requested_answers(saver)]:
        if await saver.is_running():
            return False
        await holding(saver.saver, [saver.thread_id], keep_requested(saver))
    if not await were_stored(saver, sent.named.origin, sent.named.by_id):
        raise answered_error(saver, sent.named)
    return True


async def _keep(saver: ThreadSaver, answers: object) -> None:
    """Store answers to questions of a thread at rest, which is locked."""
    await keep_requested(saver)
    named = await named_answers(saver, answers)
    left = [each for each in named.waiting.questions if each.id not in named.by_id]
    status = status_at(named.head, asks=bool(left), is_running=False)
    deadline = min((each.deadline for each in left if each.deadline is not None), default=None)
    await keep_answers(saver, named.head, named.origin, named.by_id, status, deadline)

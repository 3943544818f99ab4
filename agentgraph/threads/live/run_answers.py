"""Takes answers to the questions of a running run, in the process that runs it.

An answer is saved twice: with the root's step, as one on a thread at rest (`journal/kept_answers.py`),
and then where the task that asked takes it. So a kill in between leaves it to the next run. After that
the lane that waits is woken (`graph/nodes/desk.py`). An answer that no lane waits for, because the run
pauses with its question, is kept for the next run.

Where the deadline of a parked lane passes, the default, or the failure, is saved as an answer is.

Answers of other processes are requests; those that no run took are stored as on a thread at rest.
"""

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Any, cast

from agentgraph.errors import InvalidAnswerError, UnknownInterruptError, UnknownThreadError
from agentgraph.events.translation import question_note
from agentgraph.graph.deadlines import substitute_of
from agentgraph.graph.nodes.desk import Desk
from agentgraph.graph.sync_async import Call
from agentgraph.journal.answers import NamedAnswers, named_answers
from agentgraph.journal.changed_trees import open_thread
from agentgraph.journal.kept_answers import keep_answers
from agentgraph.journal.overdue import overdue
from agentgraph.journal.pending import pending, pending_questions
from agentgraph.journal.requests import Request, mark_read, newest_request, requests
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown

_PATIENCE = 5.0
"""Maximum seconds to wait for the save of a question whose event is emitted."""
_AGAIN = 1.0
"""Maximum seconds to wait until a lane asks again, which may wait for a place itself."""
_PAUSE = 0.01
"""Seconds between two looks."""


async def answer_run(
    desk: Desk,
    saver: ThreadSaver,
    answers: object,
    taken: Collection[str] = (),
    at: float | None = None,
) -> bool:
    """Check and save answers to questions of a running run, and have the lanes continue that asked.

    Args:
        desk: The desk of the run.
        saver: The thread.
        answers: The answers.
        taken: The questions that other processes have answered.
        at: When they were saved as a request, in seconds since 1970; None if they were not.

    Returns:
        Whether the answers are saved; False if the run has ended.

    Raises:
        UnknownThreadError: The saver has no such thread.
        UnknownInterruptError: An answer to a question that is not pending, or no answer at all.
        InvalidAnswerError: An answer that does not fit its question's schema, or cannot be saved.
    """
    with desk.reading():
        named = await _named(desk, saver, answers, at)
        check_open(saver, named, taken)
        if (continues := desk.claim(named.by_id)) is None:
            if desk.is_closed:
                return False
            raise answered_error(saver, named)
    await _save(desk, saver, named, continues)
    return True


async def _asked_again(desk: Desk, continues: Mapping[str, bool]) -> None:
    """Wait until lanes that a resume runs again have asked again: that event is to stay."""
    until = time.monotonic() + _AGAIN
    asks = {key for key, may_continue in continues.items() if may_continue}
    while asks - desk.notes.keys() and not desk.is_closed and time.monotonic() < until:
        await Call(time.sleep, asyncio.sleep, (_PAUSE,))


async def take_overdue(desk: Desk, saver: ThreadSaver, at: float) -> None:
    """Have the lanes of a running run continue whose questions were not answered in time.

    They take the default, or fail. A question of a run that pauses is left to the next run.

    Args:
        desk: The questions of the run.
        saver: The thread.
        at: The time, in seconds since 1970: answers that were saved up to then have been taken.
    """
    head = await open_thread(saver)
    waiting = await pending_questions(saver, head)
    passed, late = overdue(waiting, at), dict[str, object]()
    if (origin := waiting.origin) is None:
        return
    for key in desk.overdue(at):
        if key in passed and (continues := desk.claim([key])) is not None:
            if continues[key]:
                late[key] = substitute_of(key, passed[key].deadline)
            else:
                desk.release([key])
    if late:
        named = NamedAnswers(head, waiting, origin, late)
        await _save(desk, saver, named, dict.fromkeys(late, True))


async def _save(
    desk: Desk, saver: ThreadSaver, named: NamedAnswers, continues: Mapping[str, bool]
) -> None:
    """Save answers to questions that are claimed, and have their lanes continue."""
    try:
        await _asked_again(desk, continues)
        going_on = {key: answer for key, answer in named.by_id.items() if continues[key]}
        writes, asked = named.waiting.writes(saver.tree, going_on), named.waiting.asked
        notes = {key: desk.notes.get(key) or question_note(asked[key].question) for key in writes}
        await keep_answers(saver, named.head, named.origin, named.by_id, taken=notes)
        for write in writes.values():
            await saver.put_write(*write)
    except BaseException:
        desk.release(named.by_id)
        raise
    desk.keep(named.by_id.keys() - writes.keys())
    desk.deliver(writes, {task: cast(Any, value) for _, task, _, value, _ in writes.values()})


def check_open(saver: ThreadSaver, named: NamedAnswers, taken: Collection[str]) -> None:
    """Refuse answers to questions that other processes have answered.

    Raises:
        UnknownInterruptError: There is one.
    """
    if not named.by_id.keys().isdisjoint(taken):
        raise answered_error(saver, named)


def answered_error(saver: ThreadSaver, named: NamedAnswers) -> UnknownInterruptError:
    """Return the error for answers to questions of which one has another answer, or needs none."""
    at = {each.id: each.address for each in named.waiting.questions}
    asked = [f"{at[key]} ({key})" for key in named.by_id]
    those = f"the question {asked[0]}" if len(asked) == 1 else f"one of {', '.join(asked)}"
    return UnknownInterruptError(
        f"thread {shown(saver.thread_id)}: {those} has an answer by now, or is not needed any more; "
        "nothing was saved",
        saver.thread_id,
    )


async def take_request(desk: Desk, saver: ThreadSaver, request: Request) -> bool:
    """Take the answers that another process has requested; return False if the run has ended.

    They were checked there; those whose questions have an answer by now are dropped.
    """
    try:
        if not await answer_run(desk, saver, request.answers, at=request.time):
            return False
    except (UnknownInterruptError, InvalidAnswerError):
        pass
    await mark_read(saver, [request])
    return True


async def keep_requested(saver: ThreadSaver) -> None:
    """Store answers that were requested of a run which has ended; the thread is locked."""
    for request in await requested_answers(saver):
        try:
            named = await named_answers(saver, request.answers, request.time)
            await keep_answers(saver, named.head, named.origin, named.by_id)
        except (UnknownInterruptError, InvalidAnswerError):
            pass
        await mark_read(saver, [request])


async def requested_answers(saver: ThreadSaver) -> list[Request]:
    """Return the requests with answers that no run has taken, in the order of their times.

    An answer is newer than the turn that asked, so the newest record of the thread is a request then.
    """
    if await newest_request(saver) is None:
        return []
    return [each for each in await requests(saver) if each.kind == "answer"]


async def _named(desk: Desk, saver: ThreadSaver, answers: object, at: float | None) -> NamedAnswers:
    """Return checked answers; a question whose event is emitted may not be saved yet.

    So a bare answer is checked when all are saved.
    """
    until, is_last = time.monotonic() + _PATIENCE, False
    while True:
        try:
            named = await named_answers(saver, answers, at)
            ids = {each.id for each in named.waiting.questions}
            if len(ids) > 1 or is_last or desk.unanswered() <= ids:
                return named
        except (UnknownInterruptError, UnknownThreadError):
            if is_last:
                raise
        is_last = time.monotonic() > until or not await _is_awaited(desk, saver)
        await Call(time.sleep, asyncio.sleep, (_PAUSE,))


async def _is_awaited(desk: Desk, saver: ThreadSaver) -> bool:
    """Return whether a question of a run is not saved yet."""
    if desk.is_closed or not (unanswered := desk.unanswered()):
        return False
    try:
        return not unanswered <= {each.id for each in await pending(saver)}
    except UnknownThreadError:
        return True

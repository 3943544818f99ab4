"""Takes answers to the questions of a running run, in the process that runs it.

An answer is saved twice: with the root's step, as one on a thread at rest (`journal/kept_answers.py`),
and then where the task that asked takes it. So a kill in between leaves it to the next run. After that
the lane that waits is woken (`graph/nodes/desk.py`). An answer that no lane waits for, because the run
pauses with its question, is kept for the next run.
"""

import asyncio
import time

from agentgraph.errors import UnknownInterruptError, UnknownThreadError
from agentgraph.events.translation import question_note
from agentgraph.graph.nodes.desk import Desk
from agentgraph.graph.sync_async import Call
from agentgraph.journal.answers import NamedAnswers, named_answers
from agentgraph.journal.kept_answers import keep_answers
from agentgraph.journal.pending import pending
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown

_PATIENCE = 5.0
"""Maximum seconds to wait for the save of a question whose event is emitted."""
_PAUSE = 0.01
"""Seconds between two looks whether it is saved."""


async def answer_run(desk: Desk, saver: ThreadSaver, answers: object) -> bool:
    """Check and save answers to questions of a running run, and have the lanes continue that asked.

    Returns:
        Whether the answers are saved; False if the run has ended.

    Raises:
        UnknownThreadError: The saver has no such thread.
        UnknownInterruptError: An answer to a question that is not pending, or no answer at all.
        InvalidAnswerError: An answer that does not fit its question's schema, or cannot be saved.
    """
    named = await _named(desk, saver, answers)
    if (continues := desk.claim(named.by_id)) is None:
        if desk.is_closed:
            return False
        raise UnknownInterruptError(
            f"thread {shown(saver.thread_id)}: a question of {', '.join(named.by_id)} has an answer "
            "by now, or is not needed any more; nothing was saved",
            saver.thread_id,
        )
    going_on = {key: answer for key, answer in named.by_id.items() if continues[key]}
    writes = named.waiting.writes(saver.tree, going_on)
    try:
        taken = {key: question_note(named.waiting.asked[key].question) for key in writes}
        await keep_answers(saver, named.head, named.origin, named.by_id, taken=taken)
        for write in writes.values():
            await saver.put_write(*write)
    except BaseException:
        desk.release(named.by_id)
        raise
    desk.keep(named.by_id.keys() - writes.keys())
    desk.deliver(writes)
    return True


async def _named(desk: Desk, saver: ThreadSaver, answers: object) -> NamedAnswers:
    """Return checked answers; a question whose event is emitted may not be saved yet.

    So a bare answer is checked when all are saved.
    """
    until, is_last = time.monotonic() + _PATIENCE, False
    while True:
        try:
            named = await named_answers(saver, answers)
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

"""The next run of a turn: it begins the turn, resumes it, or there is none.

    the turn                          its next run
    has not begun                     begins it, if the turn before has ended
    waits for answers                 resumes it with those that are passed or stored for questions, or
                                      if a deadline has passed
    was stopped by a person           none
    was stopped otherwise, or failed  resumes it; none if the caller waited for the run before
    has ended                         none

The thread is locked, so that of several callers one begins.
"""

from collections.abc import Mapping, Sequence

from langchain_core.messages import BaseMessage

from agentgraph.errors import (
    AgentGraphError,
    InvalidAnswerError,
    ThreadError,
    TurnOpenError,
    UnknownInterruptError,
)
from agentgraph.events.events import Interrupt
from agentgraph.journal.answers import UNANSWERED, answers_by_id, names_of
from agentgraph.journal.changed_trees import opened
from agentgraph.journal.data_digests import data_digest
from agentgraph.journal.lines import RootLine, known
from agentgraph.journal.overdue import decided_late, overdue
from agentgraph.journal.pending import pending_questions
from agentgraph.journal.saved import Saved
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.thread_status import status_at, stop_reason_at
from agentgraph.journal.turn_lines import (
    TurnLine,
    is_input_of,
    last_turn,
    present_turn,
    turn_with,
)
from agentgraph.journal.turn_records import (
    TurnRecord,
    input_digest,
    named_input,
    turn_record,
)
from agentgraph.safe_repr import shown
from agentgraph.threads.begin import Advance, NewTurn, Resume
from agentgraph.threads.turns import as_input
from agentgraph.tree.addresses import keyed_as_known


async def next_begin(saver: ThreadSaver, wanted: Advance) -> NewTurn | Resume | None:
    """Return how the next run of a turn begins; None if nothing of it can run now.

    Args:
        saver: The thread, which is locked.
        wanted: The turn, and the arguments of its caller.

    Raises:
        UnknownThreadError: No turn is named, and the saver has no such thread.
        ThreadError: The turn has not begun, and has no input; or it began with another input.
        TurnOpenError: The turn has not begun, and the one before was stopped or failed.
        UnknownInterruptError: An answer to what the turn has not asked, or that differs from the one
            that was taken.
        AgentGraphError: The input cannot be read.
    """
    head = await saver.checkpoint()
    if wanted.turn_id is None:
        await opened(saver, known(saver, head))
    roots = await present_turn(saver) if head else None
    record = None if wanted.turn_id is None else await turn_record(saver, wanted.turn_id)
    if wanted.turn_id is not None and (record is None or not is_input_of(roots, record.message)):
        if record is not None and _has_all(record, wanted.answers):
            _check_input(saver, record, wanted)
            return None
        older = await turn_with(saver, record.message) if record else None
        if record is None or (older is None and not record.has_ended):
            return await _begun(saver, head, wanted)
        _check_input(saver, record, wanted)
        _still_open(saver, older, _answered(record, older), wanted.answers)
        return None
    if record is not None:
        _check_input(saver, record, wanted)
    if head is None or roots is None:
        return None
    return await _resumed(saver, head, roots, wanted)


async def _resumed(saver: ThreadSaver, head: Saved, roots: RootLine, wanted: Advance) -> Resume | None:
    """Return how the last turn of a thread is resumed; None if it is not."""
    waiting = await pending_questions(saver, await opened(saver, head))
    answers: Mapping[str, object] = {}
    if wanted.answers:
        turn = await last_turn(saver, roots)
        stored = {key: data_digest(each) for key, each in waiting.stored.items()}
        answered = {**turn.answers, **stored}
        answers = _still_open(saver, turn, answered, wanted.answers, waiting.questions)
    status = status_at(head, asks=bool(waiting.questions), is_running=False)
    is_due = stop_reason_at(head) is None and bool(overdue(waiting))
    is_answered = status in ("paused", "stopped") and bool(answers or waiting.kept or is_due)
    if status == "done" or (status == "paused" and not is_answered):
        return None
    if not is_answered and (wanted.has_waited or stop_reason_at(head) is not None):
        return None
    return Resume(answers or UNANSWERED)


async def _begun(saver: ThreadSaver, head: Saved | None, wanted: Advance) -> NewTurn:
    """Return how a turn begins that has not begun.

    Raises:
        ThreadError: It has no input.
        TurnOpenError: The turn before was stopped or failed.
    """
    thread_id, turn_id = saver.thread_id, str(wanted.turn_id)
    if wanted.messages is None:
        raise ThreadError(
            f"thread {shown(thread_id)}: the turn {shown(turn_id)} has not begun; pass its messages",
            thread_id,
        )
    given = as_input(wanted.messages, wanted.values)["messages"]
    if not given:
        raise AgentGraphError(
            f"thread {shown(thread_id)}: the turn {shown(turn_id)} has no messages; pass at least one"
        )
    if head is not None and head.next_node is not None:
        waiting = await pending_questions(saver, await opened(saver, head))
        status = status_at(head, asks=bool(waiting.questions or waiting.kept), is_running=False)
        if status != "paused":  # `new_turn` raises the error for questions
            raise TurnOpenError(
                f"thread {shown(thread_id)}: its last turn has {status}, so the turn "
                f"{shown(turn_id)} cannot begin; advance(thread_id) continues it, and run(...) "
                "drops it",
                thread_id,
            )
    messages = named_input(given, turn_id)
    record = TurnRecord(turn_id, str(messages[-1].id), input_digest(messages, wanted.values))
    return NewTurn(messages, wanted.values, record=record)


def check_new(saver: ThreadSaver, record: TurnRecord, messages: Sequence[BaseMessage]) -> None:
    """Reject a turn whose last message, by which it would be found, is on the thread already.

    Args:
        saver: The thread.
        record: The record of the turn.
        messages: Its input, without the messages that the thread has.

    Raises:
        ThreadError: It is there.
    """
    if all(each.id != record.message for each in messages):
        raise ThreadError(
            f"thread {shown(saver.thread_id)}: the last message of the turn {shown(record.turn_id)} "
            f"has the id {shown(record.message)}, which is on the thread already; end the input with a "
            "new message",
            saver.thread_id,
        )


def _has_all(record: TurnRecord, answers: Mapping[str, object]) -> bool:
    """Return whether a turn has ended with answers, as far as its record shows; no turn is read."""
    known = record.answers
    return known is not None and all(known.get(k) == data_digest(each) for k, each in answers.items())


def _answered(record: TurnRecord, turn: TurnLine | None) -> Mapping[str, str]:
    """Return digests of the answers of a turn that has ended, which its record may not show yet."""
    return record.answers or (turn.answers if turn else {})


def _check_input(saver: ThreadSaver, record: TurnRecord, wanted: Advance) -> None:
    """Reject another input for a turn that has begun.

    Raises:
        ThreadError: It is another one.
    """
    if wanted.messages is None:
        return
    given = as_input(wanted.messages, wanted.values)["messages"]
    if input_digest(given, wanted.values) != record.digest:
        raise ThreadError(
            f"thread {shown(saver.thread_id)}: the turn {shown(record.turn_id)} has begun with other "
            "messages or values; pass the same ones, leave them out, or name another turn",
            saver.thread_id,
        )


def _still_open(
    saver: ThreadSaver,
    turn: TurnLine | None,
    answered: Mapping[str, str],
    given: Mapping[str, object],
    pending: Sequence[Interrupt] = (),
) -> dict[str, object]:
    """Return the answers to questions that are still open, by the ids of these.

    Args:
        saver: The thread.
        turn: The turn; None if it is not on the thread any more.
        answered: The answered questions, by their ids, with digests of their answers.
        given: The answers, by id or address.
        pending: The questions that wait.

    Raises:
        UnknownInterruptError: An answer to what the turn has not asked, to one of several questions at
            an address, or that differs from the one that was taken.
    """
    open_ = {each.id: each for each in pending}
    asked = {**{each.id: each for each in (turn.questions(saver) if turn else ())}, **open_}
    found: dict[str, object] = {}
    for key, answer in keyed_as_known(saver.tree, given).items():
        named = [each.id for each in asked.values() if key in names_of(each)]
        named = named or [each for each in answered if each == key]
        if len(named) != 1:
            raise _unknown(saver, key, "was asked more than once; answer by id" if named else _NEVER)
        (own,) = named
        if own in open_:
            found[own] = answer
        elif own not in answered:
            raise _unknown(saver, key, "waits no more; the turn has continued without an answer")
        elif answered[own] and answered[own] != _digest(saver, asked.get(own), answer):
            late = decided_late(turn) if turn else {}
            if own in late:
                raise late[own].error(saver.thread_id)
            raise _unknown(saver, key, "was answered otherwise; the first answer counts")
    return found


_NEVER = "was never asked in this turn; look at the `pending` of its result"


def _unknown(saver: ThreadSaver, key: object, why: str) -> UnknownInterruptError:
    return UnknownInterruptError(
        f"thread {shown(saver.thread_id)}: the question {shown(key)} {why}", saver.thread_id
    )


def _digest(saver: ThreadSaver, question: Interrupt | None, answer: object) -> str:
    """Return the digest of an answer in the form in which it would have been taken."""
    if question is None:
        return data_digest(answer)
    try:
        return data_digest(answers_by_id(saver, [question], {question.id: answer})[question.id])
    except InvalidAnswerError:
        return ""

"""How a run begins: a new turn, a resume, a step back, or whatever its turn needs."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from agentgraph.errors import AgentGraphError
from agentgraph.graph.read_back import cannot_be_encoded
from agentgraph.journal.answers import UNANSWERED
from agentgraph.journal.turn_records import TurnRecord
from agentgraph.safe_repr import shown
from agentgraph.threads.config import thread_for, thread_in
from agentgraph.threads.rewinds.rewinding import RewindArguments, TurnStart
from agentgraph.threads.turns import Input


class NewTurn(NamedTuple):
    """A run that begins a turn: the input, values, and whether pending questions are dropped.

    And the request whose turn it is, if the input had to wait: then that has the messages. And the
    record of the turn, if its caller has named it.
    """

    messages: Input
    values: Mapping[str, object] | None = None
    drop_pending: bool = False
    request: str | None = None
    record: TurnRecord | None = None


class Resume(NamedTuple):
    """A run that continues a turn: answers to its questions, and values."""

    answers: object = UNANSWERED
    values: Mapping[str, object] | None = None


class Advance(NamedTuple):
    """A run that brings a turn further, as far as the state of the thread allows.

    Attributes:
        messages: The input of the turn; None if it has begun.
        turn_id: The caller's name of the turn; None for the last turn of the thread.
        answers: Answers to questions of the turn, by id or address.
        values: Values to write before the turn.
        has_waited: Whether the caller waited for the run of another one on the thread: what came of
            that run is not run again.
    """

    messages: Input | None
    turn_id: str | None
    answers: Mapping[str, object]
    values: Mapping[str, object] | None
    has_waited: bool = False


Begin = NewTurn | Resume | RewindArguments | TurnStart | Advance
"""How a run begins."""


def beginning(
    messages: Input | None,
    thread_id: str | None,
    answers: object,
    values: Mapping[str, object] | None,
    config: RunnableConfig | None,
    drop_pending: bool,
    at: str | RewindArguments | TurnStart | None = None,
    turn_id: str | None = None,
) -> tuple[Begin, str]:
    """Return how a call begins, and its thread: a rewind, with messages a turn, otherwise a resume.

    With the name of a turn it begins or continues that turn, as `advance` does.

    Raises:
        AgentGraphError: There are neither messages nor a thread, or answers in addition to messages; or
            a turn is named without its thread, or together with a rewind.
    """
    thread = thread_for(thread_id, config)
    if turn_id is not None:
        if at is not None or drop_pending:
            raise AgentGraphError(
                f"turn_id={shown(turn_id)} is for a turn that begins or continues; leave at= and "
                "drop_pending= out"
            )
        if thread_id is None and thread_in(config) is None:
            raise AgentGraphError(
                f"turn_id={shown(turn_id)} names a turn of a thread, and a repeated call would begin "
                "another thread; pass thread_id= too"
            )
        return wanted_of(messages, turn_id, answers, values), thread
    if isinstance(at, RewindArguments | TurnStart):
        return at, thread
    if at is not None:
        return RewindArguments(at, values=values, messages=messages or (), answers=answers), thread
    if messages is not None:
        if answers is not UNANSWERED:
            raise AgentGraphError(
                f"answers={shown(answers)} can only be given to resume a thread; leave the messages out"
            )
        if isinstance(messages, Command):
            return resumed(messages, thread_id, values, config), thread
        return NewTurn(messages, values, drop_pending), thread
    if thread_id is None and thread_in(config) is None:
        raise AgentGraphError("there is nothing to run; pass messages, or a thread_id to resume")
    return Resume(answers, values), thread


def wanted_of(
    messages: Input | None,
    turn_id: str | None,
    answers: object,
    values: Mapping[str, object] | None,
) -> Advance:
    """Return the arguments of `advance`, checked.

    Raises:
        AgentGraphError: A repeated call would not be safe: the input of no named turn, or an answer to
            no named question.
    """
    if turn_id is None and (messages is not None or values is not None):
        raise AgentGraphError(
            "advance() needs a turn_id for messages and values, or a repeated call would begin "
            "another turn; name the turn, such as turn_id='order-17'"
        )
    if messages is None and values is not None:
        raise AgentGraphError(
            "values of a named turn belong to its messages; pass both, or neither once it has begun"
        )
    if turn_id is not None:
        is_text = isinstance(turn_id, str) and bool(turn_id)
        if not is_text or "\0" in turn_id or cannot_be_encoded(turn_id):
            raise AgentGraphError(
                f"turn_id={shown(turn_id)} is not a non-empty text that can be stored; name the turn"
            )
    if isinstance(messages, Command):
        raise AgentGraphError(
            "a named turn takes answers as answers={question_id: answer}, not as a Command"
        )
    if answers is not UNANSWERED and not isinstance(answers, Mapping):
        raise AgentGraphError(
            f"answers={shown(answers)} names no question, and a repeated call could answer the next "
            "one; pass {question.id: answer}"
        )
    given: Mapping[str, object] = answers if isinstance(answers, Mapping) else {}
    return Advance(messages, turn_id, given, values)


def resumed(
    command: Command[Any],
    thread_id: str | None,
    values: Mapping[str, object] | None,
    config: RunnableConfig | None,
) -> Resume:
    """Return how a run begins whose input is LangGraph's command to resume.

    Raises:
        AgentGraphError: The thread is not named.
    """
    if thread_id is None and thread_in(config) is None:
        raise AgentGraphError(f"{shown(command)} resumes a thread; name it with thread_id=")
    return Resume(command, values)

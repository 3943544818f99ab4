"""How a run begins: a new turn that is admitted, or what a thread that stopped goes on with."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.types import Command

from agentgraph.errors import AgentGraphError, InvalidAnswerError, PendingInterruptError
from agentgraph.events import Interrupt
from agentgraph.pending import pending, resume_map, unclear_question
from agentgraph.places import Tree
from agentgraph.threads import Reads, Saved, SaveFault, position_of
from agentgraph.values import shortly

Input = str | BaseMessage | Sequence[Any] | Mapping[str, Any]
"""What a turn starts with: a text, a message, or a list of messages as LangChain takes them."""


class _Unanswered:
    """Stands for no answer at all, since None is an answer."""

    def __repr__(self) -> str:
        return "no answer"


UNANSWERED: Final = _Unanswered()


def as_input(messages: Input, values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a compiled tree takes.

    Raises:
        AgentGraphError: The messages cannot be read, or the values are no mapping.
    """
    several = isinstance(messages, Sequence) and not isinstance(messages, str)
    try:
        converted = convert_to_messages(messages if several else [messages])  # type: ignore[list-item]
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise AgentGraphError(
            f"{messages!r} cannot be read as messages ({reason}); pass a text, a LangChain message, "
            "or a list of messages"
        ) from None
    if not isinstance(values, Mapping | None):
        raise AgentGraphError(
            f"values={values!r} are no mapping; pass a dict such as {{'topic': 'bees'}}"
        )
    given: dict[str, Any] = {"messages": converted}
    return {**given, "values": dict(values)} if values else given


def new_turn(tree: Tree, thread_id: str, given: dict[str, Any], drop_pending: bool) -> Reads[Any]:
    """Return new input, unless the thread waits for answers.

    Raises:
        AgentGraphError: A message or a value cannot be saved.
        PendingInterruptError: It does, and they are not to be dropped.
    """
    for message in given["messages"]:
        yield from _saved(f"the message {shortly(message.content)}", message)
    yield from _saved_values(given.get("values", {}))
    if drop_pending:
        return given
    saved = yield Saved()
    position = None if saved is None else position_of(saved)
    if not position or not position["next"]:
        return given
    questions = yield from pending(tree, thread_id)
    if questions:
        waiting = ", ".join(f"{q.address} ({q.id})" for q in questions)
        raise PendingInterruptError(
            f"thread {thread_id!r} waits for answers to {waiting}; answer them with resume(), or "
            "run with drop_pending=True to drop them",
            thread_id,
        )
    return given


def resumption(
    tree: Tree, thread_id: str, answers: Any, values: Mapping[str, Any] | None
) -> Reads[Command[Any] | None]:
    """Return what LangGraph is to go on with, once the answers are known to be right.

    Raises:
        UnknownInterruptError: An answer to a question that is not pending.
        InvalidAnswerError: An answer that does not fit its question's schema, or cannot be saved.
        AgentGraphError: A value cannot be saved.
    """
    questions = yield from pending(tree, thread_id)
    if answers is None and not questions:
        answers = UNANSWERED
    if answers is not UNANSWERED and not isinstance(answers, Mapping):
        if len(questions) != 1:
            raise unclear_question(thread_id, questions)
        answers = {questions[0].id: answers}
    named = {} if answers is UNANSWERED else resume_map(thread_id, questions, answers)
    for key, answer in named.items():
        yield from _saved_answer(thread_id, next(q for q in questions if q.id == key), answer)
    yield from _saved_values(values or {})
    update: dict[str, Any] = {"values": dict(values)} if values else {}
    if values and (yield from _goes_on()):
        update["position"] = {"settled": dict(values)}
    return Command(resume=named or None, update=update or None) if named or update else None


def _goes_on() -> Reads[bool]:
    """Return whether a node of the thread is next, at which values may settle a conflict."""
    saved = yield Saved()
    position = None if saved is None else position_of(saved)
    return bool(position and position["next"])


def _saved_answer(thread_id: str, question: Interrupt, answer: Any) -> Reads[None]:
    fault = yield SaveFault(answer)
    if fault is not None:
        raise InvalidAnswerError(
            f"the answer {shortly(answer)} to {question.address} cannot be saved ({fault}); the "
            "question is still pending, answer it with plain data",
            thread_id,
        )


def _saved_values(values: Mapping[str, Any]) -> Reads[None]:
    for name, value in values.items():
        yield from _saved(f"the value {name!r}, {shortly(value)},", value)


def _saved(named: str, value: Any) -> Reads[None]:
    fault = yield SaveFault(value)
    if fault is not None:
        raise AgentGraphError(
            f"{named} cannot be saved ({fault}); pass plain data: texts, numbers, lists, dicts"
        )

"""How a run begins: a new turn that is admitted, or what a thread that stopped goes on with."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.types import Command

from agentgraph.errors import AgentGraphError, InvalidAnswerError, PendingInterruptError
from agentgraph.events.events import Interrupt
from agentgraph.graph.graphs import Admitted, unstamped
from agentgraph.graph.middleware_state import collected
from agentgraph.graph.saving import name_fault
from agentgraph.safe_repr import reason, shown
from agentgraph.threads.pending import edited, pending, resume_map, unclear_question, waiting
from agentgraph.threads.salvage import salvaged
from agentgraph.threads.threads import Reads, Saved, SaveFault, position_of
from agentgraph.tree.addresses import parse_address
from agentgraph.tree.places import Tree

Input = str | BaseMessage | Sequence[Any] | Mapping[str, Any]
"""What a turn starts with: a text, a message, or a list of messages as LangChain takes them."""


_ID = re.compile("[0-9a-f]{32}")
"""The ids of questions."""


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
        raise AgentGraphError(
            f"{shown(messages)} cannot be read as messages ({reason(error)}); pass a text, a LangChain "
            "message, or a list of messages"
        ) from error
    _check_mapping(values)
    given: dict[str, Any] = {"messages": unstamped(converted)}
    return {**given, "values": dict(values)} if values else given


def _check_mapping(values: object) -> None:
    if not isinstance(values, Mapping | None):
        raise AgentGraphError(
            f"values={shown(values)} are no mapping; pass a dict such as {{'topic': 'bees'}}"
        )


def new_turn(tree: Tree, thread_id: str, given: dict[str, Any], drop_pending: bool) -> Reads[Any]:
    """Return new input, unless the thread waits for answers, with what a turn before it leaves.

    Raises:
        AgentGraphError: A message or a value cannot be saved.
        PendingInterruptError: It does, and they are not to be dropped.
    """
    for message in given["messages"]:
        yield from _saved(f"the message {shown(message.content)}", message)
    yield from _saved_values(given.get("values", {}))
    saved = yield Saved()
    position = None if saved is None else position_of(saved)
    if not position or not position["next"]:
        return given
    if not drop_pending and (questions := (yield from pending(tree, thread_id))):
        waiting = ", ".join(f"{q.address} ({q.id})" for q in questions)
        raise PendingInterruptError(
            f"thread {shown(thread_id)} waits for answers to {waiting}; answer them with resume(), or "
            "run with drop_pending=True to drop them",
            thread_id,
        )
    kept = yield from salvaged(tree, saved)
    messages = [*kept.messages, *given["messages"]]
    values = kept.values_before(given.get("values", {}))
    middleware = collected({}, kept.middleware)
    more = {"values": values, "middleware": middleware}
    return Admitted(messages=messages, **{name: written for name, written in more.items() if written})


def resumption(
    tree: Tree, thread_id: str, answers: Any, values: Mapping[str, Any] | None
) -> Reads[Command[Any] | None]:
    """Return what LangGraph is to go on with, once the answers are known to be right.

    Raises:
        UnknownInterruptError: An answer to a question that is not pending.
        InvalidAnswerError: An answer that does not fit its question's schema, or cannot be saved.
        AgentGraphError: A value cannot be saved.
    """
    _check_mapping(values)
    questions, answered = yield from waiting(tree, thread_id)
    named = resume_map(thread_id, questions, _by_name(tree, thread_id, questions, answers))
    for key, answer in named.items():
        yield from _saved_answer(thread_id, next(q for q in questions if q.id == key), answer)
    yield from _saved_values(values or {})
    update: dict[str, Any] | None = {"values": dict(values)} if values else None
    if update and (yield from _goes_on()):
        update["position"] = {"settled": dict(values or {})}
    if named and answered == "by new id":
        update = update or {"values": {}}  # LangGraph looks for answers by id behind a write only
    elif named and answered != "by id":
        (answer,) = named.values() if answered == "bare" else (None,)
        if _cannot_be_bare(answer):
            raise edited(thread_id, questions)
        return Command(resume=answer, update=update)
    return Command(resume=named or None, update=update) if named or update else None


def _cannot_be_bare(answer: Any) -> bool:
    """Tell whether LangGraph takes an answer without an id for something else: none, or a map."""
    return answer is None or (isinstance(answer, dict) and all(map(_ID.fullmatch, answer)))


def _by_name(
    tree: Tree, thread_id: str, questions: Sequence[Interrupt], answers: Any
) -> Mapping[str, Any]:
    """Return answers by id or address; a bare one is that to the only question.

    A dict is bare, too, where none of its keys could name a question of the tree.
    """
    if answers is UNANSWERED or (answers is None and not questions):
        return {}
    is_map = isinstance(answers, Mapping)
    if is_map and any(_could_name(tree, key) for key in answers):
        return cast(Mapping[str, Any], answers)
    if len(questions) == 1:
        return {questions[0].id: answers}
    if is_map:
        return cast(Mapping[str, Any], answers)
    raise unclear_question(thread_id, questions)


def _could_name(tree: Tree, key: object) -> bool:
    """Tell whether a key of a dict is an id, or an address of the tree."""
    return isinstance(key, str) and bool(_ID.fullmatch(key) or parse_address(tree, key))


def _goes_on() -> Reads[bool]:
    """Return whether a node of the thread is next, at which values may settle a conflict."""
    saved = yield Saved()
    position = None if saved is None else position_of(saved)
    return bool(position and position["next"])


def _saved_answer(thread_id: str, question: Interrupt, answer: Any) -> Reads[None]:
    fault = yield SaveFault(answer)
    if fault is not None:
        raise InvalidAnswerError(
            f"the answer {shown(answer)} to {question.address} cannot be saved ({fault}); the "
            "question is still pending, answer it with plain data",
            thread_id,
        )


def _saved_values(values: Mapping[str, Any]) -> Reads[None]:
    for name, value in values.items():
        if (fault := name_fault(name)) is not None:
            raise AgentGraphError(f"the name {shown(name)} in values= {fault}")
        yield from _saved(f"the value {shown(name)}, {shown(value)},", value)


def _saved(named: str, value: Any) -> Reads[None]:
    fault = yield SaveFault(value)
    if fault is not None:
        raise AgentGraphError(
            f"{named} cannot be saved ({fault}); pass plain data: texts, numbers, lists, dicts"
        )

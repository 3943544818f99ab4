"""Answers to pending questions: checked, and made the input that resumes a thread."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from langgraph.types import Command

from agentgraph.agents.approvals import WORDS, example, from_word
from agentgraph.agents.schemas import answer_fault, plain
from agentgraph.errors import AgentGraphError, InvalidAnswerError, UnknownInterruptError
from agentgraph.events.events import Interrupt
from agentgraph.graph.copied_values import detached
from agentgraph.graph.deadlines import substitute_in
from agentgraph.graph.failures import is_within
from agentgraph.graph.read_back import UnsavableError, read_back
from agentgraph.graph.unstamped import StampedInput
from agentgraph.graph.values import check_mapping
from agentgraph.journal.changed_trees import open_thread, opened
from agentgraph.journal.lines import known
from agentgraph.journal.overdue import overdue, substitutes, too_late
from agentgraph.journal.pending import (
    QUESTION_ID,
    PendingQuestions,
    may_be_bare,
    pending_questions,
)
from agentgraph.journal.saved import Saved
from agentgraph.journal.thread_saver import TaskWrite, ThreadSaver
from agentgraph.safe_repr import as_json, nearest, shown
from agentgraph.tree.addresses import (
    keyed_as_known,
    parse_address,
    without_keys,
)
from agentgraph.tree.places import Tree

_NEAR = 0.8
"""The similarity, of at most 1, from which on a key of answers is a typo of a question's name."""
_SHOWN = 200
"""The maximum length of a schema that an error shows."""


class _Unanswered:
    def __repr__(self) -> str:
        return "no answer"


UNANSWERED: Final = _Unanswered()


class Resumption(NamedTuple):
    """How a thread is resumed.

    Attributes:
        command: LangGraph's input, with all answers.
        ids: The questions that have answers.
        answers: The answers to save before the run, by the ids of their questions. Otherwise they would
            be lost if a sibling failed before they are taken.
    """

    command: Command[str]
    ids: Collection[str]
    answers: Mapping[str, TaskWrite] = MappingProxyType({})

    @property
    def rest(self) -> Command[str] | None:
        """LangGraph's input without the saved answers."""
        if not self.answers:
            return self.command
        resume: Any = self.command.resume
        rest = {key: answer for key, answer in resume.items() if key not in self.answers} or None
        return Command(resume=rest, update=self.command.update) if rest or self.command.update else None


class CheckedAnswers(NamedTuple):
    """The questions of a thread, and answers to them.

    Attributes:
        waiting: The questions.
        given: The answers of the caller, by the ids of their questions.
        late: Substitutes for the answers to questions whose deadlines have passed, by their ids.
    """

    waiting: PendingQuestions
    given: Mapping[str, object]
    late: Mapping[str, object]


async def resumption(
    saver: ThreadSaver, head: Saved | None, answers: object, values: Mapping[str, object] | None
) -> Resumption | Command[str] | StampedInput | None:
    """Check answers, and return the input with which LangGraph resumes: with the stored answers, too.

    Values for a turn that has not begun are part of its input: they count after those that it has.

    Args:
        saver: The thread.
        head: Its latest checkpoint.
        answers: The answers.
        values: The values to write before it resumes.

    Raises:
        UnknownThreadError: There is no such thread.
        UnknownInterruptError: An answer to a question that is not pending.
        InvalidAnswerError: An answer that does not fit its question's schema, or cannot be saved.
        AgentGraphError: A value cannot be saved.
    """
    check_mapping(values)
    values = detached(dict(values or {}))
    saved = await opened(saver, known(saver, head))
    waiting, given, late = await checked_answers(saver, saved, answers)
    named = {**waiting.stored, **given, **late}
    values = saver.saved_values(values)
    if values and (begun := saved.turn_input) is not None:
        return StampedInput({**begun, "values": [*begun["values"], values]})
    update: dict[str, object] | None = {"values": values} if values else None
    if update and saved.next_node:  # at its node values may resolve a conflict
        update["position"] = {"settled": values}
    if named and waiting.answered == "by new id":
        update = update or {"values": {}}  # LangGraph finds answers by id only after a write
    elif named and waiting.answered == "bare":
        (answer,) = named.values()
        return Resumption(Command(resume=answer, update=update), named.keys())
    if not named:
        return Command(update=update) if update else None
    command: Command[str] = Command(resume=named, update=update)
    return Resumption(command, named.keys(), waiting.writes(saver.tree, named))


class NamedAnswers(NamedTuple):
    """Checked answers to questions that wait.

    Attributes:
        head: The latest checkpoint of the thread.
        waiting: Its questions.
        origin: The root's checkpoint of the step that asked them.
        by_id: The answers, by the ids of their questions.
    """

    head: Saved
    waiting: PendingQuestions
    origin: Saved
    by_id: Mapping[str, object]


async def named_answers(saver: ThreadSaver, answers: object, at: float | None = None) -> NamedAnswers:
    """Check answers that are to be stored; there must be one.

    Args:
        saver: The thread.
        answers: The answers.
        at: When they were saved as a request, in seconds since 1970; None if they were not.

    Raises:
        UnknownThreadError: There is no such thread.
        UnknownInterruptError: An answer to a question that is not pending, or no answer at all.
        InvalidAnswerError: An answer that does not fit its question's schema, or cannot be saved.
    """
    head = await open_thread(saver)
    waiting, named, _ = await checked_answers(saver, head, answers, at)
    if not named or waiting.origin is None:
        there = ", ".join(f"{q.address} ({q.id})" for q in waiting.questions) or "none"
        raise UnknownInterruptError(
            f"thread {shown(saver.thread_id)}: {shown(answers)} answers no question; pending: {there}",
            saver.thread_id,
        )
    return NamedAnswers(head, waiting, waiting.origin, named)


async def checked_answers(
    saver: ThreadSaver, saved: Saved, answers: object, at: float | None = None
) -> CheckedAnswers:
    """Return the questions of a thread, and answers to those that wait.

    Args:
        saver: The thread.
        saved: Its latest checkpoint.
        answers: The answers.
        at: When they were saved, as in `named_answers`.

    Raises:
        UnknownInterruptError: An answer to a question that is not pending, that is asked again, or
            whose deadline has passed.
        InvalidAnswerError: An answer that does not fit its question's schema, or cannot be saved.
    """
    waiting = await pending_questions(saver, saved)
    try:
        given = answers_by_id(saver, waiting.questions, answers)
    except UnknownInterruptError as error:
        raise await too_late(saver, waiting, answers) or error from None
    late = substitutes(saver.thread_id, overdue(waiting, at), given)
    is_bare = waiting.answered == "bare" and all(map(may_be_bare, given.values()))
    if given and not is_bare and waiting.answered in ("bare", "anew"):
        raise _edited_error(saver.thread_id, waiting.questions)  # LangGraph would misread them
    return CheckedAnswers(waiting, given, late)


def answers_by_id(
    saver: ThreadSaver, questions: Sequence[Interrupt], answers: object
) -> dict[str, object]:
    """Return answers to questions by id, in plain data; a bare one is for the only question.

    Raises:
        UnknownInterruptError: An answer is to none of the questions.
        InvalidAnswerError: An answer does not fit its question's schema, or cannot be saved.
    """
    by_name = _by_name(saver.tree, saver.thread_id, questions, answers)
    named = _by_id(saver.thread_id, questions, by_name)
    addresses = {question.id: question.address for question in questions}
    return {key: _saved_answer(saver, addresses[key], answer) for key, answer in named.items()}


def _saved_answer(saver: ThreadSaver, asker: str, answer: object) -> object:
    try:
        saved: object = read_back(saver.saver.serde, answer)
    except UnsavableError as error:
        raise InvalidAnswerError(
            f"the answer {shown(answer)} to {asker} cannot be saved ({error}); the question is still "
            "pending, answer it with plain data",
            saver.thread_id,
        ) from error
    return saved


def _by_name(
    tree: Tree, thread_id: str, questions: Sequence[Interrupt], answers: object
) -> Mapping[str, object]:
    """Return answers by id or address; a bare answer belongs to the only question.

    A dict is a bare answer too if none of its keys is meant to name a question, or if it fits the
    schema of the only question, unless that one is named. The name of the agent that asked is meant to
    name its question if the dict does not fit the schema.
    """
    if isinstance(answers, Command):
        answers = _answer_in(answers)
    if answers is UNANSWERED or (answers is None and not questions):
        return {}
    answers = keyed_as_known(tree, answers) if isinstance(answers, Mapping) else answers
    if len(questions) != 1:
        if isinstance(answers, Mapping):
            return answers
        raise _unclear_question(thread_id, questions)
    (question,) = questions
    if isinstance(answers, Mapping) and (
        not names_of(question).isdisjoint(answers)
        or (_name_questions(tree, question, answers) and not _fits(question, answers))
    ):
        return answers
    return {question.id: answers}


def _answer_in(command: Command[Any]) -> object:
    """Return the answer that LangGraph's command to resume carries.

    Raises:
        AgentGraphError: It carries anything else.
    """
    if command.goto or command.graph is not None or command.update is not None:
        raise AgentGraphError(
            f"{shown(command)} is not an answer alone; write Command(resume=...), and pass goto and "
            "update to compile_agent(tree).invoke"
        )
    return command.resume


def names_of(question: Interrupt) -> set[str]:
    """Return the names of a question in answers: its id, and its address, with and without keys."""
    return {question.id, question.address, without_keys(question.address)}


def _name_questions(tree: Tree, question: Interrupt, answers: Mapping[str, object]) -> bool:
    """Return whether the keys of a dict are meant to name questions, though none names this one."""
    has_asker = question.response_schema is not None and question.agent_name in answers
    return has_asker or any(_names_question(tree, question, key) for key in answers)


def _names_question(tree: Tree, question: Interrupt, key: object) -> bool:
    """Return whether a key of answers is meant as an id or an address, even a wrong one."""
    if not isinstance(key, str):
        return False
    is_below = "/" in key and is_within(key, tree.root.name)
    if is_below or parse_address(tree, key):
        return True
    typed, names = key.strip().lower(), names_of(question) if "/" in key else {question.id}
    return bool(QUESTION_ID.fullmatch(typed) or get_close_matches(typed, names, 1, _NEAR))


def _fits(question: Interrupt, answer: object) -> bool:
    try:
        return question.response_schema is not None and not answer_fault(
            question.response_schema, plain(answer)
        )
    except (AgentGraphError, RecursionError, UnicodeError):
        return False


def _edited_error(thread_id: str, questions: Sequence[Interrupt]) -> UnknownInterruptError:
    there = ", ".join(question.address for question in questions)
    return UnknownInterruptError(
        f"thread {thread_id!r}: the state was edited (update_state) while {there} waited, so that the "
        "step starts from scratch; resume(thread_id) asks again, under new ids",
        thread_id,
    )


_WRONG = (
    "not pending (was it answered already?)",
    "answered more than once",
    "asked more than once, so answer by id",
)
"""The faults of a key of answers, by the number of questions that it names."""
_CHANGES_ANSWER = "to change an earlier answer, use rewind(thread_id, its address, answers=...)"


def _by_id(
    thread_id: str, questions: Sequence[Interrupt], answers: Mapping[str, object]
) -> dict[str, object]:
    """Return answers by id or address as answers by id, in plain data.

    Raises:
        UnknownInterruptError: A key names no pending question, several, or one that is answered twice.
        InvalidAnswerError: An answer does not fit its question's schema.
    """
    by_id: dict[str, object] = {}
    for key, answer in answers.items():
        named = [question for question in questions if key in names_of(question)]
        if len(named) != 1 or named[0].id in by_id:
            there = ", ".join(f"{q.address} ({q.id})" for q in questions) or "none"
            wrong = _WRONG[min(len(named), 2)]
            near = None if named else _meant(key, questions)
            advice = f"; did you mean {near!r}?" if near else "" if named else f"; {_CHANGES_ANSWER}"
            raise UnknownInterruptError(
                f"thread {shown(thread_id)}: the question {shown(key)} is {wrong}; pending: {there}"
                f"{advice}",
                thread_id,
            )
        by_id[named[0].id] = _fitting(thread_id, named[0], answer)
    return by_id


def _meant(key: object, questions: Sequence[Interrupt]) -> str | None:
    if not isinstance(key, str):
        return None
    of_agent = [each.address for each in questions if each.agent_name == key]
    if len(of_agent) == 1:
        return of_agent[0]
    names = {without_keys(each.address): each.address for each in questions}
    near = nearest(key, {**names, **{each.address: each.address for each in questions}})
    return None if near is None else names.get(near, near)


def _fitting(thread_id: str, question: Interrupt, answer: object) -> object:
    """Return an answer in plain data.

    Raises:
        InvalidAnswerError: It does not fit the question's schema.
    """
    schema = question.response_schema
    answer = _answer_in(answer) if isinstance(answer, Command) else answer
    try:
        data = plain(answer)
        if schema is None or answer_fault(schema, data):
            data = from_word(data, question.value)
        fault = answer_fault(schema, data) if substitute_in(data) is None else "its form is reserved"
    except (AgentGraphError, RecursionError, UnicodeError):
        fault = "it has no JSON form"
    if not fault:
        return data
    raise InvalidAnswerError(
        f"the answer {shown(answer)} to {question.address} does not fit: {fault}; the question is "
        f"still pending, answer it again{_to_fit(question, answer)}",
        thread_id,
    )


def _to_fit(question: Interrupt, answer: object) -> str:
    fits = example(question.value, question.response_schema, answer)
    if fits is not None and len(as_json(fits)) > _SHOWN:  # with the arguments of a call
        fits = example(question.value, question.response_schema)
    if fits is not None:
        words = [word for word in WORDS if from_word(word, question.value) == fits]
        return f", as in {as_json(fits)}{''.join(f', or {word!r} alone' for word in words)}"
    to_fit = "" if question.response_schema is None else f" to fit {question.response_schema}"
    return to_fit if len(to_fit) < _SHOWN else ""


def _unclear_question(thread_id: str, questions: Sequence[Interrupt]) -> UnknownInterruptError:
    if not questions:
        why = (
            f"no question is pending (was it answered already?); {_CHANGES_ANSWER}; resume(thread_id) "
            "tries a failed step again, run(...) starts the next turn"
        )
    else:
        there = ", ".join(f"{q.address} ({q.id})" for q in questions)
        why = f"{len(questions)} questions are pending; answer by id or address, as a dict: {there}"
    return UnknownInterruptError(f"thread {shown(thread_id)}: {why}", thread_id)

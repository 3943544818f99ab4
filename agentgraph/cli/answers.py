"""Parses answers that people type, as options or at the terminal."""

import re
from collections.abc import Mapping, Sequence

from pydantic_core import from_json
from rich.console import Console
from rich.text import Text

from agentgraph.agents.approvals import KINDS, Decision, Request, requests_in
from agentgraph.agents.schemas import answer_fault
from agentgraph.cli.decisions import DecisionError, typed_decisions
from agentgraph.errors import AgentGraphError
from agentgraph.events.events import Interrupt
from agentgraph.journal.answers import names_of
from agentgraph.show.lines import one_line, without_controls

Schema = Mapping[str, object] | None

_NAMED = re.compile(r"(?P<question>(?:[\w/#\[\]{}.-]|\([\w.:%-]*\))+)=(?P<text>.*)", re.DOTALL)
_YES_NO = {"yes": True, "y": True, "no": False, "n": False}


class AnswerError(AgentGraphError):
    """An answer that names no question, or a wrong one."""


def given_answers(
    options: Sequence[str], questions: Sequence[Interrupt], source: str = "--answer"
) -> dict[str, object]:
    """Parse the values of an option into answers by the address or id of their question.

    >>> asked = Interrupt(id="1", address="report/boss", agent_name="boss", value="Print it?")
    >>> given_answers(["report/boss=yes"], [asked])
    {'report/boss': 'yes'}

    Args:
        options: The values.
        questions: The pending questions.
        source: The name of the option, or of the argument, for errors.

    Raises:
        AnswerError: A text has no name although not exactly one question is pending, a name belongs to
            no pending question, a question has two answers, or a text is not a decision on its calls.
    """
    answers: dict[str, object] = {}
    for option in options:
        named = _NAMED.fullmatch(option)
        if named:
            name, text = named["question"], named["text"]
        else:
            name, text = _only(option, questions, source), option
        if name in answers:
            raise AnswerError(f"{source}: the question {name!r} has two answers; keep one of them")
        asked = next((q for q in questions if name in names_of(q)), None)
        if asked is None:
            raise AnswerError(
                f"{source}: the question {name!r} is not pending; choose one of:{_names(questions)}"
            )
        try:
            answers[name] = _read(text, asked)
        except DecisionError as error:
            raise AnswerError(f"{source}: {error}") from None
    return answers


def named_by(questions: Sequence[Interrupt]) -> str:
    """Return the kind of name that identifies the first question: "ADDRESS" or "ID"."""
    return "ADDRESS" if _name_of(questions[0], questions) == questions[0].address else "ID"


def _name_of(question: Interrupt, questions: Sequence[Interrupt]) -> str:
    addresses = [each.address for each in questions]
    return question.address if addresses.count(question.address) == 1 else question.id


def _only(text: str, questions: Sequence[Interrupt], source: str) -> str:
    if len(questions) == 1:
        return questions[0].address
    if not questions:
        raise AnswerError(
            f"{source}: the thread has no pending question for the answer {text!r}; leave it out"
        )
    raise AnswerError(
        f"{source}: the answer {text!r} does not name its question; write "
        f"{named_by(questions)}={text} with one of:{_names(questions)}"
    )


def _names(questions: Sequence[Interrupt]) -> str:
    return "".join(f"\n  {_name_of(q, questions)}" for q in questions) or " none"


def read_answer(text: str, schema: Schema) -> object:
    """Parse a typed text as JSON, unless it is not JSON or the schema requires a text.

    >>> read_answer("42", {"type": "integer"}), read_answer("42", {"type": "string"})
    (42, '42')
    """
    if schema and schema.get("type") == "string":
        return text
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    fits_only_as_text = _fault(schema, value) and not _fault(schema, text)
    return text if fits_only_as_text else value


def _read(text: str, question: Interrupt) -> object:
    """Parse a typed text; on the calls of a question for approval, as decisions or as JSON.

    Raises:
        DecisionError: The text is neither.
    """
    requests = requests_of(question)
    if not requests:
        return read_answer(text, question.response_schema)
    if text.lstrip().startswith("{"):
        answer = read_answer(text, question.response_schema)
        if not isinstance(answer, str):
            return answer
    decisions = typed_decisions(text, requests)
    return _answer(question, decisions)


def _answer(question: Interrupt, decisions: list[Decision]) -> Decision:
    is_one = isinstance(question.value, dict) and question.value.get("type") == "tool_approval"
    return decisions[0] if is_one else {"decisions": decisions}


def requests_of(question: Interrupt) -> list[Request]:
    """List the calls that a question asks a person to approve; empty for another question."""
    return requests_in(question.value, question.response_schema)


def ask(console: Console, question: Interrupt) -> object:
    """Ask at the terminal until the answer fits.

    Raises:
        EOFError: The input ended.
    """
    schema = question.response_schema
    choices = choices_of(question)
    hint = f" ({one_line(', '.join(choices))})" if choices else ""
    while True:
        text = console.input(Text.assemble((one_line(question.address), "magenta"), hint, ": ")).strip()
        answer: object = _YES_NO.get(text, text) if _is_yes_no(schema) else text
        try:
            answer = _read(answer, question) if isinstance(answer, str) else answer
            fault = _fault(schema, answer)
            if fault is None:
                return answer
            wrong = f"{text!r} does not fit: {fault}"
        except DecisionError as error:
            wrong = str(error)
        console.print(Text(without_controls(wrong), "red"), soft_wrap=True)


def choices_of(question: Interrupt) -> list[str]:
    """List the answers that a person can type to a question; empty if any text is accepted.

    For calls to approve, these are the decisions that all of them allow, or else that one allows.
    """
    schema = question.response_schema
    if requests := requests_of(question):
        allowed = [each.allowed for each in requests]
        common = [kind for kind in KINDS if all(kind in kinds for kinds in allowed)]
        return common or [kind for kind in KINDS if any(kind in kinds for kinds in allowed)]
    if _is_yes_no(schema):
        return ["yes", "no"]
    return [str(value) for value in (schema or {}).get("enum", [])]


def _is_yes_no(schema: Schema) -> bool:
    return schema is not None and schema.get("type") == "boolean"


def _fault(schema: Schema, answer: object) -> str | None:
    return answer_fault(None if schema is None else dict(schema), answer)

"""Answers as people type them, on the command line or at the terminal."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json
from rich.console import Console
from rich.text import Text

from agentgraph.agents.schemas import answer_fault
from agentgraph.errors import AgentGraphError
from agentgraph.events.events import Interrupt
from agentgraph.show.lines import one_line, without_controls

Schema = Mapping[str, Any] | None

_NAMED = re.compile(r"(?P<question>[\w/#\[\]().-]+)=(?P<text>.*)", re.DOTALL)
_DECISIONS = ("approve", "reject")
"""What is typed for a decision on a tool call; the others have more to them than a word."""
_YES_NO = {"yes": True, "y": True, "no": False, "n": False}


class AnswerError(AgentGraphError):
    """Answers that do not say which question they are for."""


def given_answers(options: Sequence[str], questions: Sequence[Interrupt]) -> dict[str, Any]:
    """Return the values of `--answer` by address or id of their question.

    >>> asked = Interrupt(id="1", address="report/boss", agent_name="boss", value="Print it?")
    >>> given_answers(["report/boss=yes"], [asked])
    {'report/boss': 'yes'}

    Raises:
        AnswerError: A text without a name, where not exactly one question is pending, a name of no
            pending question, or two answers to one question.
    """
    answers: dict[str, Any] = {}
    for option in options:
        named = _NAMED.fullmatch(option)
        name, text = (named["question"], named["text"]) if named else (_only(option, questions), option)
        if name in answers:
            raise AnswerError(f"the question {name} is answered more than once")
        asked = next((q for q in questions if name in (q.id, q.address)), None)
        if asked is None:
            raise AnswerError(f"the question {name!r} is not pending; pending are:{_told(questions)}")
        answers[name] = _read(text, asked)
    return answers


def named_by(questions: Sequence[Interrupt]) -> str:
    """Return what the first question is named by, in capitals."""
    return "ADDRESS" if _name_of(questions[0], questions) == questions[0].address else "ID"


def _name_of(question: Interrupt, questions: Sequence[Interrupt]) -> str:
    """Return what to name a question by: its address, or its id where several have that address."""
    addresses = [each.address for each in questions]
    return question.address if addresses.count(question.address) == 1 else question.id


def _only(text: str, questions: Sequence[Interrupt]) -> str:
    if len(questions) == 1:
        return questions[0].address
    if not questions:
        raise AnswerError(f"nothing waits for the answer {text!r}: the thread has no pending question")
    raise AnswerError(
        f"{text!r} answers which question? Write {named_by(questions)}={text}; pending are:"
        f"{_told(questions)}"
    )


def _told(questions: Sequence[Interrupt]) -> str:
    return "".join(f"\n  {_name_of(q, questions)}" for q in questions) or " none"


def read_answer(text: str, schema: Schema) -> Any:
    """Return a typed text as an answer: as JSON where it is some and text is not asked for.

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


def _read(text: str, question: Interrupt) -> Any:
    """Return a typed text as the answer to a question; words decide on tool calls."""
    decided = _decided(text.replace(",", " ").split(), question.value)
    return read_answer(text, question.response_schema) if decided is None else decided


def _decided(words: Sequence[str], asked: Any) -> Any:
    """Return the decisions that words say, one for all calls or one for each; None if they say none."""
    if not words or not {*_DECISIONS}.issuperset(words):
        return None
    decisions = [{"type": word} for word in words]
    match asked:
        case {"review_configs": [*calls]}:
            return {"decisions": decisions * len(calls) if len(words) == 1 else decisions}
        case {"type": "tool_approval"} if len(words) == 1:
            return decisions[0]
    return None


def ask(console: Console, question: Interrupt) -> Any:
    """Ask at the terminal until the answer fits.

    Raises:
        EOFError: The input has ended.
    """
    schema = question.response_schema
    choices = choices_of(question)
    hint = f" ({one_line(', '.join(choices))})" if choices else ""
    while True:
        text = console.input(Text.assemble((one_line(question.address), "magenta"), hint, ": ")).strip()
        answer = _YES_NO.get(text, text) if _is_yes_no(schema) else text
        answer = _read(answer, question) if isinstance(answer, str) else answer
        fault = _fault(schema, answer)
        if fault is None:
            return answer
        wrong = without_controls(f"{text!r} does not fit: {fault}")
        console.print(Text(wrong, "red"), soft_wrap=True)


def choices_of(question: Interrupt) -> list[str]:
    """Return what there is to choose from, as it is typed; nothing where the answer is free."""
    schema = question.response_schema
    decided = {word: _decided([word], question.value) for word in _DECISIONS}
    if any(decided.values()):
        return [word for word, answer in decided.items() if not _fault(schema, answer)]
    if _is_yes_no(schema):
        return ["yes", "no"]
    return [str(value) for value in (schema or {}).get("enum", [])]


def _is_yes_no(schema: Schema) -> bool:
    return schema is not None and schema.get("type") == "boolean"


def _fault(schema: Schema, answer: Any) -> str | None:
    return answer_fault(None if schema is None else dict(schema), answer)

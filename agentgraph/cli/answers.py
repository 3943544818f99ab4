"""Answers as people type them, on the command line or at the terminal."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json
from rich.console import Console
from rich.text import Text

from agentgraph.errors import AgentGraphError
from agentgraph.events import Interrupt
from agentgraph.schemas import answer_fault

Schema = Mapping[str, Any] | None

_NAMED = re.compile(r"(?P<question>[\w/#\[\]-]+)=(?P<text>.*)", re.DOTALL)
_YES_NO = {"yes": True, "y": True, "no": False, "n": False}


class AnswerError(AgentGraphError):
    """Answers that do not say which question they are for."""


def given_answers(options: Sequence[str], questions: Sequence[Interrupt]) -> dict[str, Any]:
    """Return the values of `--answer` by address or id of their question.

    >>> given_answers(["report/boss=yes"], [])
    {'report/boss': 'yes'}

    Raises:
        AnswerError: A text without a name, where not exactly one question is pending, or two
            answers to one question.
    """
    answers: dict[str, Any] = {}
    for option in options:
        named = _NAMED.fullmatch(option)
        name, text = (named["question"], named["text"]) if named else (_only(option, questions), option)
        if name in answers:
            raise AnswerError(f"the question {name} is answered more than once")
        schemas = (q.response_schema for q in questions if name in (q.id, q.address))
        answers[name] = read_answer(text, next(schemas, None))
    return answers


def _only(text: str, questions: Sequence[Interrupt]) -> str:
    if len(questions) == 1:
        return questions[0].address
    if not questions:
        raise AnswerError(f"nothing waits for the answer {text!r}: the thread has no pending question")
    pending = "".join(f"\n  {q.address}" for q in questions)
    raise AnswerError(f"{text!r} answers which question? Write ADDRESS={text}; pending are:{pending}")


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


def ask(console: Console, question: Interrupt) -> Any:
    """Ask at the terminal until the answer fits.

    Raises:
        EOFError: The input has ended.
    """
    schema = question.response_schema
    choices = choices_of(schema)
    hint = f" ({', '.join(choices)})" if choices else ""
    while True:
        text = console.input(Text.assemble((question.address, "magenta"), hint, ": ")).strip()
        answer = _YES_NO.get(text, text) if _is_yes_no(schema) else text
        answer = read_answer(answer, schema) if isinstance(answer, str) else answer
        fault = _fault(schema, answer)
        if fault is None:
            return answer
        console.print(Text(f"{text!r} does not fit: {fault}", "red"), soft_wrap=True)


def choices_of(schema: Schema) -> list[str]:
    """Return what there is to choose from, as it is typed; nothing where the answer is free."""
    if _is_yes_no(schema):
        return ["yes", "no"]
    return [str(value) for value in (schema or {}).get("enum", [])]


def _is_yes_no(schema: Schema) -> bool:
    return schema is not None and schema.get("type") == "boolean"


def _fault(schema: Schema, answer: Any) -> str | None:
    return answer_fault(None if schema is None else dict(schema), answer)

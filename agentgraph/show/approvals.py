"""Formats questions for approval as lines: the calls, their arguments, and the possible answers."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime

from agentgraph.agents.approvals import KINDS, Request, requests_in
from agentgraph.events.events import Interrupt
from agentgraph.safe_repr import as_json

FORMS = {
    "approve": "approve",
    "edit": "edit: {ARGUMENTS}",
    "reject": "reject, reject: REASON",
    "respond": "respond: RESULT",
}
"""The texts that a person types for each kind of decision."""


def question_text(question: Interrupt) -> str:
    r"""Return a question as text for people; one for approval has a line for each call and argument.

    >>> request = {"name": "pay", "args": {"usd": 180}}
    >>> config = {"allowed_decisions": ["approve", "reject"]}
    >>> asked = {"action_requests": [request], "review_configs": [config]}
    >>> print(question_text(Interrupt(id="1", address="desk", agent_name="desk", value=asked)))
    Run pay?
      usd: 180
    Answers: approve, reject, reject: REASON

    Args:
        question: The question.
    """
    requests = requests_in(question.value, question.response_schema)
    if not requests:
        return str(question.value)
    return "\n".join(_lines(requests))


def until_text(question: Interrupt) -> str:
    """Return the deadline of a question in brackets, in local time; empty without one."""
    if question.deadline is None:
        return ""
    local = datetime.fromtimestamp(int(question.deadline)).astimezone()
    return f" (until {local:%Y-%m-%d %H:%M:%S})"


def question_line(question: Interrupt) -> str:
    """Return a question as one text without arguments: `Run 2 calls? mail, pay`; else its value."""
    requests = requests_in(question.value, question.response_schema)
    if requests:
        return _title(requests)
    return question.value if isinstance(question.value, str) else as_json(question.value)


def _title(requests: Sequence[Request]) -> str:
    if len(requests) == 1:
        return f"Run {requests[0].name}?"
    return f"Run {len(requests)} calls? {', '.join(each.name for each in requests)}"


def forms(requests: Sequence[Request]) -> str:
    """Return the answers that a person can type; decisions that only some calls allow are included."""
    kinds = [kind for kind in KINDS if any(kind in each.allowed for each in requests)]
    text = ", ".join(FORMS[kind] for kind in kinds)
    return text if len(requests) == 1 else f"{text}; one for all calls, or one for each, with commas"


def _lines(requests: Sequence[Request]) -> Iterator[str]:
    if len(requests) == 1:
        (only,) = requests
        yield _title(requests)
        yield from (f"  {line}" for line in _call_lines(only))
    else:
        yield f"Run {len(requests)} calls?"
        for number, each in enumerate(requests, 1):
            yield f"  {number}. {each.name}{_only(each, requests)}"
            yield from (f"     {line}" for line in _call_lines(each))
    yield f"Answers: {forms(requests)}"


def _only(request: Request, requests: Sequence[Request]) -> str:
    """Return the decisions on a call, if those on another call differ."""
    if all(each.allowed == request.allowed for each in requests):
        return ""
    return f" ({', '.join(request.allowed)})"


def _call_lines(request: Request) -> Iterator[str]:
    """Yield the description and the arguments; further lines of a text are indented."""
    yield from request.description.splitlines()
    for name, value in request.args.items():
        first, *more = _value_text(value).split("\n")
        yield f"{name}: {first}"
        yield from (f"    {line}" for line in more)
    if not request.args:
        yield "(no arguments)"


def _value_text(value: object) -> str:
    """Return an argument as JSON; text without quotes, unless it would look like other JSON."""
    if not isinstance(value, str):
        return as_json(value)
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return value if value.strip() == value and value else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)

"""The deadlines of questions, as options of builders: their seconds, and their faults."""

import json
from collections.abc import Iterator
from datetime import timedelta

from agentgraph.agents.schemas import answer_fault, json_schema, plain, schema_fault
from agentgraph.agents.signals import AnswerTimeout, NoDefault, ResponseSchema
from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown

_LONGEST = 100 * 365.25 * 24 * 3600
"""Maximum number of seconds, a century, so that each deadline has a date."""


def seconds_of(timeout: AnswerTimeout) -> float | None:
    """Return the seconds of a valid timeout; None without one."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


def timeout_fault(timeout: object, option: str = "timeout") -> str | None:
    """Return the fault of the time that a question waits, or None.

    >>> timeout_fault(0)
    'timeout=0 is not a time to wait; pass seconds above 0, at most a century, or a timedelta'
    """
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if timeout is None or (is_number and 0 < seconds <= _LONGEST):  # type: ignore[operator]
        return None
    return (
        f"{option}={shown(timeout)} is not a time to wait; pass seconds above 0, at most a century, or "
        "a timedelta"
    )


def deadline_faults(timeout: object, default: object, schema: ResponseSchema) -> Iterator[str]:
    """Yield the faults of the deadline of a question.

    Args:
        timeout: Its `timeout`.
        default: Its `default`.
        schema: Its `response_schema`.
    """
    if fault := timeout_fault(timeout):
        yield fault
    if isinstance(default, NoDefault):
        return
    if timeout is None:
        yield f"default={shown(default)} needs timeout=, the time after which it is the answer"
    if fault := _default_fault(default, schema):
        yield f"default={shown(default)} does not fit its response_schema: {fault}"


def _default_fault(default: object, schema: ResponseSchema) -> str | None:
    try:
        data = plain(default)
        json.dumps(data, ensure_ascii=False).encode()
    except (AgentGraphError, RecursionError, ValueError):
        return "it has no JSON form; pass plain data"
    return None if schema_fault(schema) else answer_fault(json_schema(schema), data)

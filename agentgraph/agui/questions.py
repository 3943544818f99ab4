"""Questions as AG-UI's interrupts, and calls of the front end's tools as questions."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ag_ui.core import Interrupt, ToolMessage

from agentgraph.agui.conversation import OURS
from agentgraph.agui.plain import plain, plain_text
from agentgraph.events.events import Interrupt as Question
from agentgraph.safe_repr import as_json

FRONTEND_CALL = "frontend_tool_call"
"""The type of the question that waits for the result of a tool in the front end."""
CANCELLED = "The user cancelled this."
"""The answer to a cancelled question."""


def frontend_question(call: Mapping[str, object]) -> dict[str, object]:
    """Make the question for a call of a tool in the front end."""
    return {"type": FRONTEND_CALL, "tool_call": {key: call[key] for key in ("id", "name", "args")}}


def frontend_call(value: object) -> Mapping[str, Any] | None:
    """Return the call of a question for the front end; None for another question."""
    match value:
        case {"type": str(kind), "tool_call": {"id": str()} as call} if kind == FRONTEND_CALL:
            return dict(call)
    return None


def frontend_answer(message: ToolMessage) -> dict[str, object]:
    """Convert the result of a tool in the front end to the answer to its question."""
    answer = message.model_dump(include={"id", "content", "error"}, exclude_none=True, by_alias=True)
    return {"error": None, **answer}


def as_interrupt(question: Question, calls: Iterable[Mapping[str, object]]) -> Interrupt:
    """Convert a question to AG-UI's form.

    Args:
        question: The question.
        calls: The latest calls of the agent that asks; the question may be about one of them.
    """
    call = _approved_call(question.value, calls)
    schema = question.response_schema
    is_boolean = isinstance(schema, dict) and schema.get("type") == "boolean"
    reason = "tool_call" if call else "confirmation" if is_boolean else "input_required"
    ours = {
        "agent_name": question.agent_name,
        "address": question.address,
        "value": plain(question.value),
    }
    return Interrupt(
        id=question.id,
        reason=reason,
        message=_text(question.value),
        tool_call_id=call["id"] if call else None,
        response_schema=plain(schema) if isinstance(schema, dict) else None,
        expires_at=None if question.deadline is None else _iso_time(question.deadline),
        metadata={OURS: ours},
    )


def cancelled(question: Question) -> object:
    """Return the answer for a cancelled question; None if the question has none.

    Calls that need approval are rejected.
    """
    if frontend_call(question.value) is not None:
        return {"content": CANCELLED, "error": CANCELLED}
    match question.value:
        case {"review_configs": [_, *_] as configs} if all(map(_may_reject, configs)):
            return {"decisions": [{"type": "reject"} for _ in configs]}
        case {"type": "tool_approval"}:
            return {"type": "reject"}
    return None


def _may_reject(config: object) -> bool:
    return isinstance(config, dict) and "reject" in config.get("allowed_decisions", ())


def _approved_call(value: object, calls: Iterable[Mapping[str, object]]) -> Mapping[str, Any] | None:
    match value:
        case {"action_requests": [{"name": name, "args": args}]}:
            found = [each for each in calls if each["name"] == name and each["args"] == args]
            return found[0] if found and found[0].get("id") else None
        case {"type": "tool_approval", "tool_call_id": str(call_id)}:
            return {"id": call_id}
    return None


def _iso_time(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat()


def _text(value: object) -> str:
    match value:
        case str():
            return plain_text(value)
        case {"action_requests": [{"description": str()}, *_] as requests}:
            return plain_text("\n\n".join(str(each.get("description", "")) for each in requests))
        case {"message": str(text)} | {"question": str(text)} | {"description": str(text)}:
            return plain_text(text)
    return as_json(plain(value))

"""Parses the decisions on tool calls that people type: `approve`, `reject: too late`."""

import re
from collections.abc import Mapping, Sequence

from pydantic_core import from_json

from agentgraph.agents.approvals import KINDS, Decision, Request
from agentgraph.safe_repr import as_json, nearest
from agentgraph.show.approvals import forms

_KIND = "|".join(KINDS)
_DECISION = re.compile(rf"(?P<kind>{_KIND})\s*(?::\s*(?P<text>.*))?", re.DOTALL | re.IGNORECASE)
_NEXT = re.compile(rf"\s*(?:[,;]\s*|\s)(?=(?:{_KIND})\s*(?:[:,;]|$|\s+(?:{_KIND})\b))", re.IGNORECASE)
"""Matches before a further decision: a comma, and a word with a colon, a comma or the end after it."""


class DecisionError(ValueError):
    """A text that is not a decision on the calls of a question."""


def typed_decisions(text: str, requests: Sequence[Request]) -> list[Decision]:
    """Parse a typed text as one decision for each call; a single one counts for all calls.

    >>> mail = Request("mail", {"to": "ann", "cc": "eve"}, "", KINDS)
    >>> typed_decisions("reject: too late", [mail, mail])
    [{'type': 'reject', 'message': 'too late'}, {'type': 'reject', 'message': 'too late'}]
    >>> typed_decisions('edit: {"to": "bob"}', [mail])[0]["edited_action"]
    {'name': 'mail', 'args': {'to': 'bob', 'cc': 'eve'}}

    Args:
        text: `approve`, `reject`, `reject: REASON`, `respond: RESULT` or `edit: {ARGUMENTS}`, or one
            for each call, with commas between them. `edit` keeps the arguments that it does not name.
        requests: The calls.

    Raises:
        DecisionError: The text is not a decision, or one that a call does not allow.
    """
    parts = [text] if len(requests) == 1 else _NEXT.split(text.strip())
    if len(parts) not in (1, len(requests)):
        raise DecisionError(
            f"{text!r} has {len(parts)} decisions for {len(requests)} calls; type one for all calls, "
            "or one for each, with commas"
        )
    if len(parts) < len(requests) and parts[0].strip().lower().startswith("edit"):
        raise DecisionError(
            f"{text!r} changes one call; type one decision for each of the {len(requests)} calls, with "
            "commas"
        )
    each = parts if len(parts) == len(requests) else parts * len(requests)
    return [_decision(part, request, requests) for part, request in zip(each, requests, strict=True)]


def _decision(text: str, request: Request, requests: Sequence[Request]) -> Decision:
    typed = _DECISION.fullmatch(text.strip())
    if typed is None:
        raise DecisionError(f"{text!r} is not a decision; type {forms(requests)}")
    kind, said = typed["kind"].lower(), (typed["text"] or "").strip()
    if kind not in request.allowed:
        raise DecisionError(
            f"{kind!r} is not allowed for {request.name}; choose one of: {', '.join(request.allowed)}"
        )
    match kind, said:
        case "approve", "":
            return {"type": kind}
        case "approve", _:
            raise DecisionError(f"{text!r} has a text; type approve alone, or reject: REASON")
        case "edit", _:
            return {"type": kind, "edited_action": _edited(text, said, request)}
        case "respond", "":
            raise DecisionError(f"{text!r} has no result for the model; type respond: RESULT")
        case "reject", "":
            return {"type": kind}
    return {"type": kind, "message": said}


def _edited(text: str, said: str, request: Request) -> Mapping[str, object]:
    try:
        args = from_json(said, allow_inf_nan=False)
    except ValueError:
        args = None
    if not isinstance(args, dict) or not args:
        first = dict([*request.args.items()][:1]) or {"NAME": "VALUE"}
        raise DecisionError(
            f"{text!r} has no arguments; type those that change as JSON, as in edit: {as_json(first)}"
        )
    for name in args.keys() - request.args.keys():
        if near := nearest(name, request.args):
            raise DecisionError(
                f"{text!r} names the argument {name!r}, which the call does not have; did you mean "
                f"{near!r}?"
            )
    return {"name": request.name, "args": {**request.args, **args}}

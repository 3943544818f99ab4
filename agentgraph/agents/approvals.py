"""Answers to questions for approval: LangChain's decisions on the calls of tools.

A "batched" question has one request for each call, and its answer is a list of decisions. With
"per_call" each call has its own question, and the answer is one decision.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentgraph.agents.schemas import answer_fault
from agentgraph.agents.signals import JsonSchema

Decision = dict[str, object]
"""One LangChain decision, or several."""

KINDS = ("approve", "edit", "reject", "respond")
"""The kinds of decisions, in LangChain's order."""
WORDS = ("approve", "reject")
"""The decisions without arguments, which one word can express."""
_DECISIONS: dict[str, Decision] = {
    "approve": {"type": "approve"},
    "reject": {"type": "reject"},
    "respond": {"type": "respond", "message": "..."},
    "edit": {"type": "edit", "edited_action": {"name": "...", "args": {}}},
}
"""A decision of each kind."""


def decided(words: Sequence[str], asked: object) -> Decision | None:
    """Convert words to decisions, one for all requests or one for each; None for other words.

    >>> decided(["approve"], {"review_configs": [{"allowed_decisions": ["approve"]}]})
    {'decisions': [{'type': 'approve'}]}

    Args:
        words: The words.
        asked: The question.
    """
    if not words or not {*WORDS}.issuperset(words):
        return None
    decisions = [_DECISIONS[word] for word in words]
    match asked:
        case {"review_configs": [_, *_] as configs}:
            return {"decisions": decisions * len(configs) if len(words) == 1 else decisions}
        case {"type": "tool_approval"} if len(words) == 1:
            return decisions[0]
    return None


def from_word(answer: object, asked: object) -> object:
    """Convert a bare word to the decision on the only request; any other answer stays unchanged.

    >>> from_word("reject", {"review_configs": [{"allowed_decisions": ["approve", "reject"]}]})
    {'decisions': [{'type': 'reject'}]}
    """
    match asked:
        case {"review_configs": [_, _, *_]}:
            return answer
    return (decided([answer], asked) if isinstance(answer, str) else None) or answer


def example(asked: object, schema: JsonSchema | None, answer: object = None) -> Decision | None:
    """Return an answer that fits a question for approval; None for another question.

    >>> question = {
    ...     "action_requests": [{"name": "pay", "args": {"usd": 180}}],
    ...     "review_configs": [{"allowed_decisions": ["approve", "edit"]}],
    ... }
    >>> example(question, None, {"type": "edit", "args": {"usd": 5}})
    {'decisions': [{'type': 'edit', 'edited_action': {'name': 'pay', 'args': {'usd': 180}}}]}

    Args:
        asked: The question.
        schema: The schema of its answer.
        answer: An answer that does not fit; the example has its kind of decision, if that is allowed.
    """
    requests, kind = requests_in(asked, schema), _kind_of(answer)
    if kind is not None and all(kind in each.allowed for each in requests):
        match asked, [_like(kind, each) for each in requests]:
            case {"type": "tool_approval"}, [decision]:
                return decision
            case _, [_, *_] as decisions:
                return {"decisions": decisions}
    match asked:
        case {"review_configs": [{"allowed_decisions": _}, *_] as configs}:
            allowed = [config["allowed_decisions"] for config in configs]
            return {"decisions": [_first(kinds) for kinds in allowed]}
        case {"type": "tool_approval"}:
            return _first([kind for kind, each in _DECISIONS.items() if not answer_fault(schema, each)])
    return None


def _kind_of(answer: object) -> str | None:
    match answer:
        case {"decisions": [{"type": kind}, *_]} | [{"type": kind}, *_] | {"type": kind}:
            return kind if kind in KINDS else None
        case str():
            kind = answer.partition(":")[0].strip()
            return kind if kind in KINDS else None
    return None


def _like(kind: str, request: "Request") -> Decision:
    match kind:
        case "edit":
            return {"type": kind, "edited_action": {"name": request.name, "args": {**request.args}}}
        case "reject":
            return {"type": kind, "message": "..."}
    return _DECISIONS[kind]


def tools_asked_about(asked: object) -> list[str]:
    """List the tools whose calls a question asks about; empty for another question.

    >>> tools_asked_about({"action_requests": [{"name": "pay", "args": {"usd": 180}}]})
    ['pay']
    """
    match asked:
        case {"action_requests": [_, *_] as requests}:
            return [str(each["name"]) for each in requests if isinstance(each, dict) and "name" in each]
        case {"type": "tool_approval", "name": str(name)}:
            return [name]
    return []


class Request(NamedTuple):
    """A call that a question for approval asks about.

    Attributes:
        name: The tool.
        args: The arguments.
        description: A text about the call; empty if it is LangChain's, which only repeats the call.
        allowed: The kinds of decisions that are allowed.
    """

    name: str
    args: Mapping[str, object]
    description: str
    allowed: tuple[str, ...]


def requests_in(asked: object, schema: JsonSchema | None) -> list[Request]:
    """List the calls that a question asks about, in order; empty for another question.

    >>> question = {
    ...     "action_requests": [{"name": "pay", "args": {"usd": 180}}],
    ...     "review_configs": [{"allowed_decisions": ["approve", "reject"]}],
    ... }
    >>> requests_in(question, None)
    [Request(name='pay', args={'usd': 180}, description='', allowed=('approve', 'reject'))]

    Args:
        asked: The question.
        schema: The schema of its answer.
    """
    match asked:
        case {"action_requests": [_, *_] as requests, "review_configs": [_, *_] as configs}:
            if len(requests) != len(configs):
                return []
            found = [
                _request(each, _listed_kinds(config))
                for each, config in zip(requests, configs, strict=True)
            ]
        case {"type": "tool_approval"}:
            kinds = {*_kinds_in(schema)}
            found = [_request(asked, tuple(kind for kind in KINDS if kind in kinds))]
        case _:
            return []
    requested = [each for each in found if each is not None and each.allowed]
    return requested if len(requested) == len(found) else []


def _request(asked: Any, allowed: tuple[str, ...]) -> Request | None:
    match asked:
        case {"name": str(name), "args": Mapping() as args}:
            about = str(asked.get("description") or "")
            return Request(name, args, "" if "\nArgs: " in about else about, allowed)
    return None


def _listed_kinds(config: object) -> tuple[str, ...]:
    match config:
        case {"allowed_decisions": [_, *_] as allowed}:
            return tuple(kind for kind in KINDS if kind in allowed)
    return ()


def _kinds_in(schema: Any) -> Iterator[object]:
    """Yield each constant `type` of the objects that a schema describes."""
    match schema:
        case {"properties": {"type": {"const": kind}}}:
            yield kind
        case Mapping():
            for each in schema.values():
                yield from _kinds_in(each)
        case [*parts]:
            for each in parts:
                yield from _kinds_in(each)


def _first(allowed: Sequence[str]) -> Decision:
    return next((each for kind, each in _DECISIONS.items() if kind in allowed), _DECISIONS["edit"])

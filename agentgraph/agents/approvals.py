"""Answers to questions for approval: LangChain's decisions on the calls of tools.

A "batched" question has one request for each call, and its answer is a list of decisions. With
"per_call" each call has its own question, and the answer is one decision.
"""

from collections.abc import Sequence

from agentgraph.agents.schemas import answer_fault
from agentgraph.agents.signals import JsonSchema

Decision = dict[str, object]
"""One LangChain decision, or several."""

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


def example(asked: object, schema: JsonSchema | None) -> Decision | None:
    """Return an answer that fits a question for approval; None for another question.

    Args:
        asked: The question.
        schema: The schema of its answer.
    """
    match asked:
        case {"review_configs": [{"allowed_decisions": _}, *_] as configs}:
            allowed = [config["allowed_decisions"] for config in configs]
            return {"decisions": [_first(kinds) for kinds in allowed]}
        case {"type": "tool_approval"}:
            return _first([kind for kind, each in _DECISIONS.items() if not answer_fault(schema, each)])
    return None


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


def _first(allowed: Sequence[str]) -> Decision:
    return next((each for kind, each in _DECISIONS.items() if kind in allowed), _DECISIONS["edit"])

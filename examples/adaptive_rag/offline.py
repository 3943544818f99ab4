"""Adaptive RAG offline: an index, a web search, and scripts instead of models."""

import re

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

INDEX = [
    "Short-term memory of an agent is what fits into the context of its model.",
    "Long-term memory of an agent is a store outside the model, searched when it is needed.",
    "Sensory memory of an agent is the embedding of raw inputs such as pictures and sounds.",
    "Few-shot prompts show a model some examples with their answers before the question.",
    "A chain of thought asks a model to write its reasoning down before it answers.",
    "Adversarial attacks on prompts make a model say what it was trained not to say.",
]
UNKNOWN = "I do not know."


def search_index(question: str) -> list[str]:
    """Return the three passages that share most words with a question."""
    return sorted(INDEX, key=lambda passage: -len(_words(passage) & _words(question)))[:3]


def search_web(query: str) -> str:
    """Search the web."""
    return "The Chicago Bears drafted the quarterback Caleb Williams first in 2024."


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 4}


def _route(messages: list[BaseMessage]) -> AIMessage:
    is_about_agents = re.search("agent|memory|prompt|recall", messages[-1].text)
    return calls(call("Route", source="index" if is_about_agents else "web"))


def _is_relevant(messages: list[BaseMessage]) -> AIMessage:
    question, _, document = messages[-1].text.partition("\n\n")
    return _grade("memory" in _words(question) & _words(document))


def _is_grounded(messages: list[BaseMessage]) -> AIMessage:
    facts, _, answer = messages[0].text.partition("Answer: ")
    return _grade(_words(answer) <= _words(facts))


def _search(messages: list[BaseMessage]) -> str | AIMessage:
    is_searched = messages[-1].type == "tool"
    return messages[-1].text if is_searched else calls(call("search_web", query="Bears 2024 draft"))


def _rewrite(messages: list[BaseMessage]) -> str:
    is_about_memory = "recall" in messages[0].text
    return "What kinds of memory does an agent have?" if is_about_memory else messages[-1].text


def _write(messages: list[BaseMessage]) -> str:
    """Answer from the facts; a first draft about memory knows a kind that is not in them."""
    instruction, _, facts = messages[0].text.partition("facts:\n")
    kinds = sorted(set(re.findall(r"(\w+(?:-term)?) memory", facts)))
    if kinds and instruction.endswith("instead of: \nUse only these "):
        kinds.append("Photographic")
    if kinds:
        return f"An agent has {', '.join(kinds)} memory."
    return UNKNOWN if facts == "[]" else facts


def _grade(passes: bool) -> AIMessage:
    return calls(call("Grade", passes=passes))


SCRIPTS: dict[str, Script] = {
    "router": _route,
    "web_search": _search,
    "relevant": _is_relevant,
    "rewrite": _rewrite,
    "write": _write,
    "grounded": _is_grounded,
    "useful": lambda messages: _grade(UNKNOWN not in messages[0].text),
}

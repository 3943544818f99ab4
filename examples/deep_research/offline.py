"""Deep research offline: a search over a few pages, and scripts instead of models."""

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

PAGES = {
    "hives": "A colony has one queen and some 50,000 workers (keepers.example).",
    "honey": "Bees visit two million flowers for a pound of honey (honey.example).",
    "winter": "In winter the colony forms a cluster and eats its stores (keepers.example).",
}


def search(query: str) -> str:
    """Search the web."""
    if query == "mites":
        raise ConnectionError("the page about mites does not answer")
    return PAGES[query]


def _clarify(messages: list[BaseMessage]) -> AIMessage:
    is_clear = any("honey bees" in message.text for message in messages)
    return calls(call("Clarification", question="" if is_clear else "Which bees do you mean?"))


def _plan(messages: list[BaseMessage]) -> AIMessage:
    """Name topics in two rounds; the second round knows the results of the first."""
    notes = messages[0].text.partition("Notes: ")[2]
    if "winter" in notes:
        return calls(call("Plan", topics=[]))
    return calls(call("Plan", topics=["winter"] if "queen" in notes else ["hives", "honey", "mites"]))


def _search(messages: list[BaseMessage]) -> str | AIMessage:
    if messages[-1].type == "tool":
        return "That is enough."
    return calls(call("search", query=messages[-1].text))


def _compress(messages: list[BaseMessage]) -> str:
    """Keep the facts of the search results."""
    found = [page for page in PAGES.values() if any(page in each.text for each in messages)]
    if not found:
        raise ValueError("no source answered")
    return found[0]


def _report(messages: list[BaseMessage]) -> str:
    notes = messages[0].text.partition("Notes: ")[2]
    return "# Honey bees\n" + "\n".join(f"- {page}" for page in PAGES.values() if page in notes)


SCRIPTS: dict[str, Script] = {
    "clarify": _clarify,
    "brief": lambda messages: "I want to know how honey bees live.",
    "supervisor": _plan,
    "searcher": _search,
    "compress": _compress,
    "report": _report,
}

"""A search over invented pages, and scripts instead of the models of the office."""

import re
import time

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

SEARCHES = 4
SECONDS = 0.15
"""The time of a search."""
LOG = "searches.log"


def search(query: str) -> str:
    """Search the web."""
    with open(LOG, "a", encoding="utf-8") as log:
        log.write(f"{query}\n")
    time.sleep(SECONDS)
    return f"There is a page on {query}."


def _search(messages: list[BaseMessage]) -> str | AIMessage:
    """Search one page after the other; after a message on Europe, only there."""
    requests = [each.text for each in messages if each.type == "human"]
    number = sum(each.type == "tool" for each in messages)
    if number == SEARCHES:
        return "That is enough."
    where = " in Europe" if any("Europe" in each for each in requests[1:]) else ""
    return calls(call("search", query=f"{requests[0]} {number + 1}{where}"))


def _write(messages: list[BaseMessage]) -> str:
    """Write what was found."""
    found = re.findall(r"There is a page on (.*?)\.", "\n".join(each.text for each in messages))
    return f"The report has {len(found)} pages: {', '.join(found)}."


def _desk(messages: list[BaseMessage]) -> str | AIMessage:
    last, said = messages[-1], [each.text for each in messages if each.type == "human"][-1]
    if last.type == "tool":
        return _reply(_called(messages), last.text)
    ids = {each.text.partition("-")[0]: each.text for each in messages if each.type == "tool"}
    topics = re.findall(r"\b(?:bees|ants|wasps|moths|flies|mites|lice|gnats|fleas|ticks)\b", said)
    if asked := re.search(r"(\S+) asks: .* \((\w+)\)", said):
        return calls(call("answer", researcher=asked[1], question=asked[2], text="The wild ones."))
    if ended := re.search(r"(\S+) has ended", said):
        return calls(call("collect", researcher=ended[1]))
    if said.startswith("Research"):
        return calls(*(call("research", topic, title=topic, request=topic) for topic in topics))
    if "Europe" in said:
        return calls(call("steer", researcher=ids[topics[0]], text="Look at Europe only."))
    if said.startswith("Stop"):
        return calls(call("stop", researcher=ids[topics[0]]))
    return calls(call("look")) if "going" in said else "I see."


def _called(messages: list[BaseMessage]) -> str:
    """Return the name of the tool that was called last."""
    made = [made for each in messages if isinstance(each, AIMessage) for made in each.tool_calls]
    return made[-1]["name"]


def _reply(tool: str, result: str) -> str:
    match tool:
        case "research" | "answer":
            return "They are at work. Meanwhile, what else can I do?"
        case "look":
            return f"This is how it is going: {result}"
        case "collect":
            return f"Here it is: {result}"
    return result


SCRIPTS: dict[str, Script] = {"desk": _desk, "searcher": _search, "writer": _write}

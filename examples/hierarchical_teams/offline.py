"""Scripts instead of the models and the web of the teams."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

PAGES = {
    "bees.example/colony": "A strong colony has 40,000 bees in June, and 10,000 in January.",
    "bees.example/queen": "A queen lays up to 2,000 eggs on a day in May.",
}
OUTLINE = ["1. The colony", "2. The queen"]
REPORT = ["The colony: 40,000 bees in June, 10,000 in January.", "The queen: 2,000 eggs a day in May."]


def find(question: str) -> str:
    """Search the web."""
    return "\n".join(PAGES)


def _sends(to: list[str], end: str) -> Script:
    """Return the script of a supervisor: each worker once, in turn."""

    def script(messages: list[BaseMessage]) -> str | AIMessage:
        said = {message.name for message in messages}
        left = [worker for worker in to if worker not in said]
        return calls(call(f"transfer_to_{left[0]}")) if left else end

    return script


def _does(tool: str, args: Mapping[str, Any], end: str) -> Script:
    """Return the script of a worker: one tool call, then its reply."""

    def script(messages: list[BaseMessage]) -> str | AIMessage:
        return end if messages[-1].type == "tool" else calls(call(tool, **args))

    return script


SCRIPTS: dict[str, Script] = {
    "hierarchical_teams": _sends(
        ["research_team", "writing_team"], "The report on bees is in report.txt, with a chart."
    ),
    "research_team": _sends(["searcher", "scraper"], " ".join(PAGES.values())),
    "searcher": _does("find", {"question": "honeybees"}, "There are two pages on honeybees."),
    "scraper": _does("scrape", {"urls": [*PAGES]}, "The pages are read."),
    "writing_team": _sends(
        ["note_taker", "writer", "illustrator"], "There are outline.txt, report.txt and bees.txt."
    ),
    "note_taker": _does("write_file", {"name": "outline.txt", "lines": OUTLINE}, "Outlined."),
    "writer": _does("write_file", {"name": "report.txt", "lines": REPORT}, "Written."),
    "illustrator": _does(
        "draw_chart", {"name": "bees.txt", "bars": {"June": 40_000, "January": 10_000}}, "Drawn."
    ),
}

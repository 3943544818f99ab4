"""Shared by the tests of skill files: names for files, and the cases of the text files."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

MODEL, OTHER = (ScriptedChatModel(responses=[text]) for text in ("one", "two"))


def search(topic: str) -> str:
    "Search for a topic."
    return f"{topic}: 3 hits"


def fetch(page: str) -> str:
    "Fetch a page."
    return page


CRITIC = ag.function_agent("critic", lambda ctx: "said")
GIVEN: dict[str, Any] = {
    "models": {"m": MODEL, "n": OTHER},
    "tools": {"search": search, "fetch": fetch},
    "agents": {"critic": CRITIC, "team:critic": CRITIC},
}


def cases(name: str) -> Iterator[Any]:
    """Yield the titles and texts of a file next to this one."""
    text = Path(__file__).with_name(name).read_text()
    for case in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        title, _, body = case.partition("\n")
        yield title, body.rstrip()

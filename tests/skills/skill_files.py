"""What the tests of skill files share: models, tools and agents that a file may name."""

from typing import Any

import agentgraph as ag
from agentgraph.agents.agents import Agent
from agentgraph.testing import ScriptedChatModel

MODEL, OTHER = (ScriptedChatModel(responses=[text]) for text in ("one", "two"))


def search(topic: str) -> str:
    "Search for a topic."
    return f"{topic}: 3 hits"


def fetch(page: str) -> str:
    "Fetch a page."
    return page


def say(ctx) -> str:
    return "said"


CRITIC = ag.function_agent("critic", say)
GIVEN: dict[str, Any] = {
    "models": {"m": MODEL, "n": OTHER},
    "tools": {"search": search, "fetch": fetch},
    "agents": {"critic": CRITIC},
}


def writer(**options: Any) -> Agent:
    return ag.chat_agent("writer", MODEL, **options)

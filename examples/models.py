"""The models of the examples: a real one if `OPENAI_API_KEY` is set, otherwise scripts."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

REAL = "openai:gpt-5"
Script = Callable[[list[BaseMessage]], str | AIMessage]
Tool = Callable[..., Any] | dict[str, Any]


def real_or(
    scripts: Mapping[str, Script], scripted: type[ScriptedChatModel] = ScriptedChatModel
) -> Callable[[ag.Context], BaseChatModel | str]:
    """Return a function for `model=` that returns the real model, or the agent's script."""

    def choose(ctx: ag.Context) -> BaseChatModel | str:
        return REAL if _has_key() else scripted(responses=scripts[ctx.name])

    return choose


def web_search_or(search: Callable[[str], str]) -> Tool:
    """Return OpenAI's web search, or a function that searches offline."""
    return {"type": "web_search"} if _has_key() else search


def _has_key() -> bool:
    return "OPENAI_API_KEY" in os.environ

"""The switch of the examples: real models if `OPENAI_API_KEY` is set, otherwise scripts.

With the argument `--offline`, an example uses its scripts also if there is a key.
"""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

Script = Callable[[list[BaseMessage]], str | AIMessage]
Tool = Callable[..., Any] | dict[str, Any]


def model_or_script(
    model: str, scripts: Mapping[str, Script], scripted: type[ScriptedChatModel] = ScriptedChatModel
) -> Callable[[ag.Context], BaseChatModel | str]:
    """Return a function for `model=` that returns the name of the model, or the agent's script."""

    def choose(ctx: ag.Context) -> BaseChatModel | str:
        return scripted(responses=scripts[ctx.name]) if why_offline() else model

    return choose


def web_search_or(search: Callable[[str], str]) -> Tool:
    """Return OpenAI's web search, or a function that searches offline."""
    return search if why_offline() else {"type": "web_search"}


def why_offline() -> str:
    """Return the reason to use the scripts, or an empty text."""
    if "--offline" in sys.argv:
        return "--offline"
    return "" if os.environ.get("OPENAI_API_KEY") else "no OPENAI_API_KEY"


def announce() -> None:
    """Print whether models or scripts answer."""
    reason = why_offline()
    words = f"{reason}: scripted answers" if reason else "OPENAI_API_KEY is set: a model answers"
    print(words, flush=True)


def arguments(help: str) -> list[str]:
    """Return the command's arguments without `--offline`."""
    parser = ArgumentParser(description="A model answers if OPENAI_API_KEY is set, otherwise a script.")
    parser.add_argument("--offline", action="store_true", help="let the script answer")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help=help)
    found: list[str] = parser.parse_intermixed_args().arguments
    return found

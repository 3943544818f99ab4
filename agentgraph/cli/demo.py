"""The tree of the demo: agents write, criticise and review a summary, and a person approves it.

With an OpenAI key the agents use OpenAI's model, otherwise scripted models that work on their input.
The text is the value `text`: `agentgraph run demo.py:report "Report." --values '{"text": "..."}'`.
"""

import os
import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

import agentgraph as ag
from agentgraph.errors import pip_install
from agentgraph.testing import ScriptedChatModel

WORD_LIMIT = 40


def uses_openai() -> bool:
    """Return whether an OpenAI key is set and the package `langchain_openai` is installed."""
    return bool(os.environ.get("OPENAI_API_KEY")) and find_spec("langchain_openai") is not None


def openai_model() -> str:
    """Return the name of the OpenAI model."""
    return os.environ.get("OPENAI_MODEL") or "gpt-4o-mini"


def speaker() -> str:
    """Return the printed name of the model."""
    if uses_openai():
        return f"OpenAI's {openai_model()}"
    if os.environ.get("OPENAI_API_KEY"):
        return f"scripted, offline (for OpenAI's: {pip_install('openai')})"
    return "scripted, offline (for OpenAI's: set OPENAI_API_KEY)"


def model(script: Callable[[list[BaseMessage]], str]) -> BaseChatModel:
    """Return OpenAI's model if it can be used, or a scripted model that replies with `script`."""
    if uses_openai():
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(model=openai_model())
    return ScriptedChatModel(responses=script)


def write(messages: list[BaseMessage]) -> str:
    """Summarise the text by its first sentences; fewer after an objection of the critic."""
    text = _part(messages, "Text")
    sentences = _sentences(text)
    if not any(message.name == "critique" for message in messages):
        return " ".join(sentences[:3])
    source = f"(From {_count(_words(text), 'word')} in {_count(sentences, 'sentence')}.)"
    return f"{_shortened(sentences, WORD_LIMIT - len(_words(source)))} {source}"


def critique(messages: list[BaseMessage]) -> str:
    """Reply GOOD to a short summary that names the text's length, otherwise REVISE."""
    summary = _part(messages, "Summary")
    count = _count(_words(summary), "word")
    asked = [f"use at most {WORD_LIMIT}"] if len(_words(summary)) > WORD_LIMIT else []
    if not re.search(r"\(From \d+ words?", summary):
        asked.append("say how long the text is")
    return f"REVISE: {count}; {', and '.join(asked)}." if asked else f"GOOD: {count}."


def facts(messages: list[BaseMessage]) -> str:
    """Report the numbers that the summary has in common with the text."""
    text = set(_numbers(_part(messages, "Text")))
    named = set(_numbers(_part(messages, "Summary").partition(" (From ")[0]))
    strange = ", ".join(sorted(named - text))
    verdict = f"not in the text: {strange}" if strange else "each is in the text"
    return f"{_count(text, 'number')} in the text, {len(named)} in the summary; {verdict}."


def style(messages: list[BaseMessage]) -> str:
    """Report the longest sentence of the text."""
    longest = max(_sentences(_part(messages, "Text")), key=lambda sentence: len(_words(sentence)))
    return f"The longest sentence of the text has {_count(_words(longest), 'word')}: {longest}"


def _part(messages: Sequence[BaseMessage], title: str) -> str:
    rest = messages[0].text.partition(f"\n\n{title}:\n")[2]
    return rest if title == "Text" else rest.partition("\n\nText:\n")[0]


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", " ".join(text.split()))


def _words(text: str) -> list[str]:
    return text.split()


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:[.,]\d+)*", text)


def _count(things: Sequence[str] | set[str], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _shortened(sentences: list[str], limit: int) -> str:
    """Keep the first sentences that fit into a number of words, at least a part of the first."""
    kept = _words(sentences[0])
    if len(kept) > limit:
        return " ".join(kept[:limit]) + " ..."
    for sentence in sentences[1:]:
        if len(kept) + len(_words(sentence)) > limit:
            break
        kept += _words(sentence)
    return " ".join(kept)


_BOTH = "\n\nSummary:\n{draft}\n\nText:\n{text}"


def content(ctx: ag.Context) -> bool:
    """Return whether the critic found the summary good."""
    return re.match(r"\W*good\b", str(ctx.values["critique"]), re.IGNORECASE) is not None


report = ag.sequential(
    "report",
    [
        ag.loop(
            "refine",
            [
                ag.chat_agent(
                    "write",
                    model(write),
                    instruction="Summarise the text. If the critic asked you to revise a summary, do "
                    "what was asked. Reply with the summary alone.\n\nText:\n{text}",
                    output_key="draft",
                ),
                ag.chat_agent(
                    "critique",
                    model(critique),
                    instruction=f"The summary has to have at most {WORD_LIMIT} words, and to say in "
                    "brackets at its end how long the text is. Reply GOOD if it does, else REVISE: "
                    f"and what to do.{_BOTH}",
                    output_key="critique",
                ),
            ],
            max_iterations=4,
            until=content,
        ),
        ag.parallel(
            "review",
            [
                ag.chat_agent(
                    "facts",
                    model(facts),
                    instruction="Say in one sentence whether the numbers of the summary are in the "
                    f"text.{_BOTH}",
                ),
                ag.chat_agent(
                    "style",
                    model(style),
                    instruction=f"Name the sentence that is hardest to read.{_BOTH}",
                ),
            ],
        ),
        ag.human(
            "approve",
            "Approve this summary?\n{draft}",
            response_schema={"enum": ["approve", "reject"]},
            output_key="verdict",
        ),
    ],
)

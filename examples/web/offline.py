"""The newsletter desk offline: scripted models that stream slowly, word by word."""

import time
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from agentgraph.testing import ScriptedChatModel, call, calls
from examples.models import Script

PAUSE = 0.06
"""Seconds between two words."""
FACTS = (
    "Bees dance to tell each other where the flowers are.",
    "A colony has one queen and some 50,000 workers.",
    "In winter they form a cluster, and eat their stores.",
)


class SlowModel(ScriptedChatModel):
    """A scripted model that streams its words as slowly as a real one."""

    def _stream(self, *args: Any, **settings: Any) -> Iterator[ChatGenerationChunk]:
        for chunk in super()._stream(*args, **settings):
            time.sleep(PAUSE)
            yield chunk


def _wish(messages: list[BaseMessage]) -> str:
    """Return the user's last message; messages of other agents start with their names."""
    said = [each.text for each in messages if each.type == "human" and not each.text.startswith("[")]
    return said[-1] if said else "nothing"


def _write(messages: list[BaseMessage]) -> str:
    """Write a draft with one fact more than the previous one; the fourth draft starts a new letter."""
    drafts = sum(each.type == "ai" for each in messages) % len(FACTS)
    return f"Dear readers, you wished: “{_wish(messages)}” " + " ".join(FACTS[: drafts + 1])


def _criticize(messages: list[BaseMessage]) -> str | AIMessage:
    """Ask for the first fact that is missing in the draft of the instruction."""
    missing = [fact for fact in FACTS if fact not in messages[0].text]
    if not missing:
        return calls(call("break_loop"))
    return f"Too short. Our readers also want to know this: {missing[0]}"


def _send(messages: list[BaseMessage]) -> str | AIMessage:
    last = messages[-1]
    if last.type != "tool":
        return calls(call("count_readers", f"count-{len(messages)}"))
    if last.name == "count_readers":
        subject = f"News: {_wish(messages)}"
        return calls(call("send", f"send-{len(messages)}", subject=subject, copies=int(last.text)))
    return f"The desk reports: {last.text}"


SCRIPTS: dict[str, Script] = {
    "writer": _write,
    "critic": _criticize,
    "facts": lambda messages: (
        "I have checked each fact against the encyclopedia of bees: all are right."
    ),
    "style": lambda messages: "The sentences are short and readable without a dictionary.",
    "desk": _send,
}

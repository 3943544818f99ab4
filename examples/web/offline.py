"""What the newsletter desk needs offline: models that speak slowly, word by word, from scripts."""

import time
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from agentgraph.testing import ScriptedChatModel, call, calls
from examples.models import Script

PAUSE = 0.06
"""The seconds between two words."""
FACTS = (
    "Bees dance to tell each other where the flowers are.",
    "A colony has one queen and some 50,000 workers.",
    "In winter they form a cluster, and eat their stores.",
)


class SlowModel(ScriptedChatModel):
    """A scripted model whose words come as slowly as those of a real one."""

    def _stream(self, *args: Any, **settings: Any) -> Iterator[ChatGenerationChunk]:
        for chunk in super()._stream(*args, **settings):
            time.sleep(PAUSE)
            yield chunk


def _wish(messages: list[BaseMessage]) -> str:
    """Return what the user said last; what other agents said begins with their names."""
    said = [each.text for each in messages if each.type == "human" and not each.text.startswith("[")]
    return said[-1] if said else "nothing"


def _write(messages: list[BaseMessage]) -> str:
    """Write a draft with one more fact than the one before; the fourth is the first of a new letter."""
    drafts = sum(each.type == "ai" for each in messages) % len(FACTS)
    return f"Dear readers, you wished: “{_wish(messages)}” " + " ".join(FACTS[: drafts + 1])


def _criticize(messages: list[BaseMessage]) -> str | AIMessage:
    """Ask for the first fact that the draft, which is in the instruction, lacks."""
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
    "style": lambda messages: "The sentences are short, and nobody needs a dictionary to read them.",
    "desk": _send,
}

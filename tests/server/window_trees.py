"""The trees of the tests of the window; saved as a file of its own for each server."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

FOLDER = Path(__file__).parent


def gate(name: str) -> None:
    """Wait until a test has made a file."""
    (FOLDER / f"{name}.waits").touch()
    while not (FOLDER / name).exists():
        time.sleep(0.01)


@ag.agent
def writer(ctx: ag.Context) -> str:
    return f"Draft {ctx.iteration + 1} about {ctx.values.get('topic', 'bees')}."


@ag.agent
def critic(ctx: ag.Context) -> str | ag.BreakLoop:
    return ag.BreakLoop() if ctx.iteration == 1 else "Too short."


refine = ag.loop("refine", [writer, critic], max_iterations=5)
boss = ag.human("boss", "Print it?", response_schema={"enum": ["yes", "no"]})
press = ag.human("press", "How many?", response_schema={"type": "integer", "minimum": 1})
report = ag.sequential("report", [refine, ag.parallel("review", [boss, press])])


@ag.agent
def first(ctx: ag.Context) -> str:
    return "one"


@ag.agent
def gated(ctx: ag.Context) -> str:
    gate("go")
    return "two"


@ag.agent
def last(ctx: ag.Context) -> str:
    return f"three, after {ctx.messages[-1].text}"


slow = ag.sequential("slow", [first, gated, last])


@ag.agent
def echo(ctx: ag.Context) -> str:
    return str(len(ctx.messages[-1].text))


class SlowModel(ScriptedChatModel):
    """Says dots until a test has made a file."""

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **settings: Any
    ) -> Iterator[ChatGenerationChunk]:
        yield from super()._stream(messages, *args, **settings)
        (FOLDER / "talk.waits").touch()
        while not (FOLDER / "talk").exists():
            time.sleep(0.02)
            yield ChatGenerationChunk(message=AIMessageChunk(content=" ."))
        yield ChatGenerationChunk(message=AIMessageChunk(content=" end"))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _reply(messages: list[BaseMessage]) -> str | AIMessage:
    if messages[-1].type == "tool":
        return f"It is {messages[-1].text}."
    a, b = (int(each) for each in re.findall(r"\d+", str(messages[-1].text)))
    return calls(call("add", "c1", a=a, b=b))


speaker = ag.chat_agent("speaker", SlowModel(responses=["Well"]))
adder = ag.chat_agent("adder", ScriptedChatModel(responses=_reply), tools=[add])


@ag.agent(timeout=30)
async def timed(ctx: ag.Context) -> str:
    return "in time"


@ag.agent
def fails(ctx: ag.Context) -> str:
    if not (FOLDER / "mended").exists():
        raise ValueError("<b>no</b>")
    return "mended"


@ag.agent
def told(ctx: ag.Context) -> str:
    return f"{ctx.context['tenant']}, {ctx.config['configurable']['topic']}"


limited = ag.loop("limited", [first], max_iterations=30)

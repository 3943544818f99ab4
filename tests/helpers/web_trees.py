"""A server for the tests of the page: one tree that does what the first word of a message says."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from examples.web.app import make_app, newsletter

HOSTILE = (
    "<img src=x onerror='window.hacked=1'></script><script>window.hacked=1</script>"
    "<a href='javascript:window.hacked=1'>click</a>"
)


def user_texts(messages: list[BaseMessage]) -> list[str]:
    return [each.text for each in messages if each.type == "human" and not each.text.startswith("[")]


def options_of(ctx: ag.Context) -> Any:
    """Return the JSON after the first word of the user's message."""
    return json.loads(user_texts(ctx.messages)[-1].partition(" ")[2])


def ask(ctx: ag.Context) -> str | ag.Ask:
    """Ask for what fits the schema in the message, and say the answer as JSON."""
    if ctx.answered:
        return f"Answered: {json.dumps(ctx.answer)}"
    options = options_of(ctx)
    return ag.Ask(options.get("value", "Well?"), options.get("schema"), options.get("timeout"))


def shout(ctx: ag.Context) -> list[str | ag.Custom]:
    return [HOSTILE, ag.Custom({HOSTILE: HOSTILE})]


def mail(to: str, copies: int) -> str:
    """Send a letter."""
    return f"{copies} to {to} sent"


def clerk_script(messages: list[BaseMessage]) -> str | AIMessage:
    last = messages[-1]
    if last.type == "tool":
        return f"The tool said: {last.text}"
    return calls(call("mail", f"mail-{len(messages)}", to=user_texts(messages)[-1], copies=2))


class GatedModel(ScriptedChatModel):
    """Says what it has to say, then dots until a file exists."""

    gates: str

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **settings: Any
    ) -> Iterator[ChatGenerationChunk]:
        gate = Path(self.gates) / str(sum(each.type == "ai" for each in messages) + 1)
        *words, last = super()._stream(messages, *args, **settings)
        yield from words
        while not gate.exists():
            time.sleep(0.05)
            yield ChatGenerationChunk(message=AIMessageChunk(content=" ."))
        yield last


def draft(messages: list[BaseMessage]) -> str:
    number = sum(each.type == "ai" for each in messages) + 1
    return f"Draft {number} on {user_texts(messages)[-1]}:"


def gates_of(folder: str, thread_id: str) -> Path:
    """Return the folder of the files that release a thread: 1, 2, ... for the calls of its model."""
    gates = Path(folder) / "gates" / thread_id
    gates.mkdir(parents=True, exist_ok=True)
    return gates


def everything(folder: str) -> ag.Agent:
    def gated(ctx: ag.Context) -> GatedModel:
        gates = gates_of(folder, ctx.config["configurable"]["thread_id"])
        return GatedModel(responses=draft, gates=str(gates))

    def fail(ctx: ag.Context) -> str:
        if not (gates_of(folder, ctx.config["configurable"]["thread_id"]) / "1").exists():
            raise ValueError(HOSTILE)
        return "Now it works."

    writer = ag.chat_agent("writer", gated)
    critic = ag.function_agent("critic", lambda ctx: "Once more.")
    clerk = ag.chat_agent(
        "clerk", ScriptedChatModel(responses=clerk_script), tools=[mail], approve=["mail"]
    )
    return ag.switch(
        "does",
        lambda ctx: user_texts(ctx.messages)[-1].split()[0],
        {
            "ask": ag.function_agent("ask", ask),
            "fail": ag.function_agent("fail", fail),
            "shout": ag.function_agent("shout", shout),
            "write": ag.loop("refine", [writer, critic], max_iterations=3),
            "mail": clerk,
            "meanwhile": ag.parallel(
                "meanwhile", [*(ag.human(name, f"{name}?") for name in ("here", "there")), writer]
            ),
            "both": ag.parallel("both", [ag.human("left", "Left?"), ag.human("right", "Right?")]),
        },
        otherwise=ag.function_agent("nobody", lambda ctx: "Nobody knows what that means."),
    )


def tree_of(name: str, folder: str) -> ag.Agent:
    return newsletter if name == "newsletter" else everything(folder)


if __name__ == "__main__":
    _, name, folder, port = sys.argv
    app = make_app(tree_of(name, folder), Path(folder) / "web.db")
    uvicorn.run(app, port=int(port), log_level="warning", timeout_graceful_shutdown=1)

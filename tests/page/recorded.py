"""Prints arguments, answers and news of a real window as JSON, for tests of the page's JavaScript."""

import asyncio
import inspect
import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from agentgraph.window.calls import CALLS, Window
from agentgraph.window.updates import thread_updates

THREAD = "t"
GATE = threading.Event()
"""Lets the thread go on that waits."""


def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing new in the {where}"


def script(messages: list[BaseMessage]) -> str | AIMessage:
    return "They hum." if messages[-1].type == "tool" else calls(call("look", "look-1", where="hive"))


def draft(ctx: ag.Context) -> list[str | ag.SetValues]:
    return [f"Draft {ctx.iteration}.", ag.SetValues(draft=ctx.iteration)]


def start(ctx: ag.Context) -> str:
    if ctx.messages[0].text == "Wait.":
        GATE.wait(60)
    return "Off we go."


def fail(ctx: ag.Context) -> str:
    if ctx.messages[0].text == "Fail.":
        raise ValueError("The ink is empty.")
    return "Printed."


def tree() -> ag.Agent:
    """A tree with each kind of place that the page knows."""

    def say(name: str) -> ag.Agent:
        return ag.function_agent(name, lambda ctx: f"{name} was here.")

    answer = {"type": "object", "properties": {"print": {"type": "boolean"}}, "required": ["print"]}
    steps = [ag.step(say("layout")), ag.step(say("ink"), depends_on=["layout"])]
    return ag.sequential(
        "newspaper",
        [
            ag.function_agent("start", start),
            ag.chat_agent("reporter", ScriptedChatModel(responses=script), tools=[look]),
            ag.loop("refine", [ag.function_agent("writer", draft)], max_iterations=2),
            ag.parallel("review", [say("reader"), say("lawyer")]),
            ag.workflow("make", steps),
            ag.function_agent("press", fail),
            ag.human("boss", "Print it?", response_schema=answer),
        ],
    )


async def told(window: Window) -> list[tuple[str, Any]]:
    """Return the first news of a thread."""
    found = []
    async for kind, data in thread_updates(window, THREAD, None):
        found.append((kind, data))
        if {"thread", "timeline"} <= {each for each, _ in found}:
            break
    return found


@dataclass
class Desk:
    reader: str = "Ann"


def wait_until(window: Window, thread_id: str, status: str) -> None:
    while window.call("thread", {"thread_id": thread_id})["status"] != status:
        time.sleep(0.01)


def record() -> dict[str, Any]:
    answers: dict[str, list[Any]] = defaultdict(list)
    with ag.Runner(tree()) as runner:
        window = Window(runner, "recorded")

        def ask(name: str, **arguments: object) -> Any:
            answers[name].append(window.call(name, arguments))
            return answers[name][-1]

        ask("about")
        mistaken = ag.loop("polish", [ag.chat_agent("writer", "openai:gpt-5")], max_iterations=4)
        other = Window(ag.Runner(mistaken, context_schema=Desk, context=Desk()), "recorded")
        answers["about"].append(other.call("about", {}))
        answers["findings"].append(other.call("findings", {}))
        ask("start", text="Go.", thread_id=THREAD)
        wait_until(window, THREAD, "paused")
        ask("start", text="Fail.", thread_id="failed")
        wait_until(window, "failed", "failed")
        first = ask("timeline", thread_id=THREAD)
        (question,) = ask("thread", thread_id=THREAD)["pending"]
        ask("answer", thread_id=THREAD, answers={question["id"]: {"print": True}})
        wait_until(window, THREAD, "done")
        ask("timeline", thread_id=THREAD, since=first["upto"])
        for bar in first["bars"]:
            if bar["kind"] == "agent":
                ask("activation", thread_id=THREAD, at=bar["address"], turn=0)
        ask("activation", thread_id="failed", at="newspaper/press")
        ask("flame", thread_id=THREAD)
        ask("flame", thread_id="failed", turn=0)
        talk = ask("conversation", thread_id=THREAD)
        ask("conversation", thread_id=THREAD, since=talk["upto"])
        ask("conversation", thread_id="failed", steps=None)
        ask("values")
        ask("values", thread_id=THREAD)
        copied = ask("copy", thread_id=THREAD, to="copy")["thread_id"]
        ask("rewind", thread_id=copied, at="newspaper/refine", turn=0)
        wait_until(window, copied, "paused")
        (_, older) = ask("lines", thread_id=copied)["lines"]
        ask("compare", thread_id=copied, other_line=older["head"])
        ask("fork", thread_id=THREAD, at="newspaper/refine", variants={"a": {"text": "Again."}})
        wait_until(window, f"{THREAD}-a", "paused")
        ask("restart", thread_id="failed", turn=0)
        wait_until(window, "failed", "failed")
        ask("resume", thread_id="failed")
        wait_until(window, "failed", "failed")
        ask("thread", thread_id="failed")
        ask("start", text="Wait.", thread_id="held")
        ask("steer", thread_id="held", text="Be quick.")
        ask("stop", thread_id="held")
        GATE.set()
        wait_until(window, "held", "stopped")
        ask("threads")
        ask("delete", thread_id=copied)
        ask("reload")
        news_of = defaultdict(list)
        for kind, data in asyncio.run(told(window)):
            news_of[kind].append(data)
        window.close()
    return {"answers": answers, "arguments": arguments(), "news": news_of}


def arguments() -> dict[str, dict[str, bool]]:
    """Return the arguments of each call: whether each is needed."""
    found = {}
    for name, function in CALLS.items():
        _, *parameters = inspect.signature(function).parameters.values()
        found[name] = {each.name: each.default is each.empty for each in parameters}
    return found


if __name__ == "__main__":
    print(json.dumps(record()))

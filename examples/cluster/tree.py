"""A tree whose steps take a second each, which is time to kill the server that runs it.

`python -m examples.cluster.tree` runs it in this process.
"""

import os
import time
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


def work(ctx: ag.Context) -> None:
    """Write a line to the log of the run, then sleep for the seconds of the run.

    A line has the address, the process and the idempotency key. A repeated step has the same key; a
    payment would send this key to its provider.
    """
    with Path(ctx.values["log"]).open("a", encoding="utf-8") as log:
        log.write(f"{ctx.address} {os.getpid()} {ctx.idempotency_key}\n")
    time.sleep(ctx.values["seconds"])


def look_up(topic: str, ctx: ag.Context) -> str:
    """Look up a topic."""
    work(ctx)
    return f"{topic.capitalize()} hum."


def write(messages: list[BaseMessage]) -> str | AIMessage:
    """Answer like a model: first a call of `look_up`, then a draft."""
    is_looked_up = messages[-1].type == "tool"
    return f"A draft: {messages[-1].text}" if is_looked_up else calls(call("look_up", topic="bees"))


@ag.agent
def critic(ctx: ag.Context) -> str | ag.BreakLoop:
    """Accept the third draft."""
    work(ctx)
    return ag.BreakLoop() if ctx.iteration == 2 else "Too short."


@ag.agent
def legal(ctx: ag.Context) -> str:
    """Check the rights."""
    work(ctx)
    return "No one is named."


@ag.agent
def press(ctx: ag.Context) -> str:
    """Check the layout."""
    work(ctx)
    return "It fits on a page."


@ag.agent
def printer(ctx: ag.Context) -> str:
    """Print the draft if the boss approves it."""
    work(ctx)
    return "Printed." if ctx.values["decision"] == "yes" else "Thrown away."


writer = ag.chat_agent("writer", ScriptedChatModel(responses=write), tools=[look_up])
refine = ag.loop("refine", [writer, critic], max_iterations=5)
checks = ag.parallel("checks", [legal, press])
boss = ag.human("boss", "Print it?", response_schema={"enum": ["yes", "no"]}, output_key="decision")
magazine = ag.sequential("magazine", [refine, checks, boss, printer])
graph = ag.compile_agent(magazine)

if __name__ == "__main__":
    runner = ag.Runner(magazine)
    values = {"log": "magazine.log", "seconds": 0.1}
    for event in runner.run("Go.", thread_id="here", values=values):
        print(f"{event.address}: {event.text or event.kind}")
    for event in runner.resume("here", "yes"):
        print(f"{event.address}: {event.text or event.kind}")

"""Runs a tree in a process that Ctrl-C interrupts while its second step runs; then resumes it."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from langchain_core.messages import AIMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

COUNT = 6
ran: list[str] = []


def step(ctx: ag.Context) -> str:
    """Take some time."""
    return _step(ctx.address)


def act(number: int) -> str:
    """Act."""
    return _step(f"act {number}")


def flow(ctx: ag.Context) -> str:
    """Run an agent several times."""
    return " ".join(str(ctx.run("s", f"{n}")) for n in range(COUNT))


def _step(name: str) -> str:
    time.sleep(0.05)
    ran.append(name)
    if len(ran) == 2:
        threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
        time.sleep(0.3)
    return "done"


def _agent(name: str = "s") -> ag.Agent:
    return ag.function_agent(name, step)


def _agents() -> list[ag.Agent]:
    return [_agent(f"s{n}") for n in range(COUNT)]


def _chat() -> ag.Agent:
    calls = [{"name": "act", "args": {"number": n}, "id": f"{n}"} for n in range(COUNT)]
    model = ScriptedChatModel(responses=[AIMessage("", tool_calls=calls), AIMessage("Done.")])
    return ag.chat_agent("c", model, tools=[act], parallel_tools=False)


TREES = {
    "each": lambda: ag.each("e", _agent(), lambda ctx: [*range(COUNT)], max_concurrency=1),
    "parallel": lambda: ag.parallel("p", _agents(), max_concurrency=1),
    "workflow": lambda: ag.workflow(
        "w", [ag.step(each, depends_on=[f"s{n - 1}"] if n else []) for n, each in enumerate(_agents())]
    ),
    "lane": lambda: ag.parallel("p", [ag.sequential("q", _agents())]),
    "run": lambda: ag.function_agent("f", flow, agents=[_agent()]),
    "tools": _chat,
}


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    runner = ag.Runner(TREES[name](), checkpointer=str(Path(folder) / "thread.db"))
    try:
        list(runner.run("go", thread_id="t"))
    except KeyboardInterrupt:
        print("interrupted", len(ran))
    list(runner.resume("t"))
    print("resumed", len(ran), len(set(ran)))

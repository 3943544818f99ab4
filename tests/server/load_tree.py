"""The tree of `load_app.py`, for its server and for its tests."""

import asyncio
import os

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

EFFECTS = "effects"
"""The file of what agents did: a line for each, with thread and agent."""


def worker(name: str) -> ag.Agent:
    """Return an agent that takes a while, and notes what it has done."""

    async def fn(ctx: ag.Context) -> str:
        await asyncio.sleep(0.05)
        line = f"{ctx.config['configurable']['thread_id']} {name}\n".encode()
        effects = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(effects, line)
        os.close(effects)
        return f"{name} is done"

    return ag.function_agent(name, fn)


def tree() -> ag.Agent:
    model = ScriptedChatModel(responses=[lambda messages: f"I saw {len(messages)} messages."] * 10**5)
    talk = ag.chat_agent("talk", model)
    fork = ag.parallel("fork", [worker("left"), ag.sequential("way", [worker("right"), worker("on")])])
    return ag.sequential("s", [worker("a"), fork, worker("b"), talk, ag.human("boss", "Well?")])

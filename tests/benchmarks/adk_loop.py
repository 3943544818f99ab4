"""The loop of two agents in google-adk, run by its own environment: prints seconds by two clocks.

Arguments: how many iterations, and a file for its SQLite sessions; without a file they are in memory.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import BaseAgent, LoopAgent
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.genai import types


class Says(BaseAgent):
    """An agent that says sixty letters."""

    async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Event]:
        content = types.Content(role="model", parts=[types.Part(text="x" * 60)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


async def main(iterations: int, path: str | None) -> None:
    """Run the loop once to warm up, and once by the clocks."""
    two = [Says(name="a"), Says(name="b")]
    sessions = (
        DatabaseSessionService(f"sqlite+aiosqlite:///{path}") if path else InMemorySessionService()
    )
    loop = LoopAgent(name="l", sub_agents=two, max_iterations=iterations)
    runner = Runner(app_name="bench", agent=loop, session_service=sessions)
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    for number in range(2):
        session = await sessions.create_session(app_name="bench", user_id="u", session_id=f"s{number}")
        cpu, clock = time.process_time(), time.perf_counter()
        count = 0
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            count += 1
    print(time.process_time() - cpu, time.perf_counter() - clock, count)


asyncio.run(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))

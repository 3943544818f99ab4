"""What is told is saved before the step behind it, however late a saver saves: no kill loses it."""

import asyncio
import time
from typing import Any

from driving import Drive
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer

import agentgraph as ag


class LateSaver(InMemorySaver):
    """Saves what nodes write late, and counts how much of it is open where a step is saved."""

    def __init__(self) -> None:
        super().__init__()
        self.open = 0
        self.open_at_steps: list[int] = []

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        self.open += 1
        time.sleep(0.02)
        super().put_writes(*args, **kwargs)
        self.open -= 1

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        self.open += 1
        await asyncio.sleep(0.02)
        await super().aput_writes(*args, **kwargs)
        self.open -= 1

    def put(self, *args: Any, **kwargs: Any) -> Any:
        self.open_at_steps.append(self.open)
        return super().put(*args, **kwargs)


def counts(ctx: ag.Context) -> None:
    get_stream_writer()({"n": 1})


def test_what_is_no_message_is_saved_before_the_step_behind_it(drive: Drive) -> None:
    agents = [ag.function_agent(name, counts) for name in "abc"]
    runner = ag.Runner(ag.loop("l", agents, max_iterations=2), checkpointer=(saver := LateSaver()))
    assert len(list(drive.run(runner, "Go.", thread_id="t"))) == 6
    assert len(saver.open_at_steps) > 6
    assert not any(saver.open_at_steps)

"""Starts runs without a consumer: in threads, or on their own event loop if agents need one."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentgraph.errors import AgentGraphError
from agentgraph.threads.runner import Runner

T = TypeVar("T")


class BackgroundRuns:
    """Starts runs in the background; wrong arguments raise before the run starts."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._guard = threading.Lock()

    def start(self, runner: Runner, **arguments: Any) -> str:
        """Start a run, as `Runner.start` does, and return its thread id."""
        if _needs_loop(runner):
            return self._on_loop(runner.astart(**arguments))
        return runner.start(**arguments)

    def start_many(self, runner: Runner, **arguments: Any) -> dict[str, str]:
        """Start variants, as `Runner.start_many` does, and return their thread ids by name."""
        if _needs_loop(runner):
            return self._on_loop(runner.astart_many(**arguments))
        return runner.start_many(**arguments)

    def close(self, runner: Runner) -> None:
        """Stop all runs of a runner before their next steps, wait for them, and close it."""
        if self._loop is not None:
            self._on_loop(runner.aclose())
        else:
            runner.close()

    def _on_loop(self, coroutine: Coroutine[object, object, T]) -> T:
        with self._guard:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                name = "agentgraph-window"
                threading.Thread(target=self._loop.run_forever, name=name, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _needs_loop(runner: Runner) -> bool:
    try:
        runner.engine.check_sync()
    except AgentGraphError:
        try:
            runner.engine.check_async()
            runner.engine.check_saver("async")
        except AgentGraphError:
            return False  # neither works: the sync call raises the better error
        return True
    return False

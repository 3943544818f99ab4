"""Starts runs without a consumer: in threads, or on an event loop if agents need one."""

from typing import Any

from agentgraph.threads.live.event_loop import needs_event_loop, on_event_loop
from agentgraph.threads.runner import Runner


class BackgroundRuns:
    """Starts runs in the background; wrong arguments raise before the run starts."""

    def __init__(self) -> None:
        self._uses_loop = False

    def start(self, runner: Runner, **arguments: Any) -> str:
        """Start a run, as `Runner.start` does, and return its thread id."""
        if self._needs_loop(runner):
            return on_event_loop(runner.astart(**arguments))
        return runner.start(**arguments)

    def start_many(self, runner: Runner, **arguments: Any) -> dict[str, str]:
        """Start variants, as `Runner.start_many` does, and return their thread ids by name."""
        if self._needs_loop(runner):
            return on_event_loop(runner.astart_many(**arguments))
        return runner.start_many(**arguments)

    def close(self, runner: Runner) -> None:
        """Stop all runs of a runner before their next steps, wait for them, and close it."""
        if self._uses_loop:
            on_event_loop(runner.aclose())
        else:
            runner.close()

    def _needs_loop(self, runner: Runner) -> bool:
        needs = needs_event_loop(runner.engine)
        self._uses_loop = self._uses_loop or needs
        return needs

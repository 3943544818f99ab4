"""Counts what a saver decodes, so that a test can say how much of a thread was read."""

from typing import Any

import agentgraph as ag


class Decoding:
    """Counts the values that the saver of a runner decodes, from the last mark on.

    Attributes:
        counts: How many were decoded after each mark.
    """

    def __init__(self, runner: ag.Runner) -> None:
        self.counts: list[int] = []
        serializer: Any = runner.saver.serde
        loads = serializer.loads_typed

        def load(data: Any) -> Any:
            self.counts[-1:] = [each + 1 for each in self.counts[-1:]]
            return loads(data)

        serializer.loads_typed = load

    def mark(self) -> None:
        """Start to count from 0."""
        self.counts.append(0)

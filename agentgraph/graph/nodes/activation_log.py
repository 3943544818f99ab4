"""Logs each activation of an agent at the level DEBUG, as `docs/guides/logging.md` says.

The level is asked once, at the begin of a run: a run that is not logged makes no further call.
"""

import logging
from time import perf_counter

from langgraph.errors import GraphBubbleUp, GraphInterrupt

from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.calling import is_cancelled
from agentgraph.safe_repr import shown


class ActivationLog:
    """Logs activations.

    Attributes:
        is_on: Whether activations are logged.
    """

    def __init__(self) -> None:
        self._log, self.is_on = logging.getLogger("agentgraph.activations"), False

    def look(self) -> None:
        """Find out whether activations are logged from now on."""
        self.is_on = self._log.isEnabledFor(logging.DEBUG)

    def begin(self, activation: Activation) -> float | None:
        """Log the begin of an activation, and return its time; None if it had ended before."""
        if activation.has_ended:
            return None
        path = activation.node_context.paths.at(activation.node_context.place, activation.cursor)
        begins = "begins" if activation.begins_visit else "continues"
        self._write(activation, "%s, run path %s", begins, path)
        return perf_counter()

    def end(self, activation: Activation, began: float, error: BaseException | None) -> None:
        """Log the end of an activation."""
        outcome = "ends a step" if activation.is_unfinished else "ends"
        outcome = outcome if error is None else _outcome(error)
        self._write(activation, "%s after %.3f s", outcome, perf_counter() - began)

    def _write(self, activation: Activation, text: str, *values: object) -> None:
        thread_id = activation.node_config["configurable"].get("thread_id")
        extra = {"thread_id": thread_id, "address": activation.address}
        text = f"thread %s: %s {text}"
        self._log.debug(text, shown(thread_id), activation.address, *values, extra=extra)


def _outcome(error: BaseException) -> str:
    if isinstance(error, GraphInterrupt):
        return "asks"
    is_stop = isinstance(error, GraphBubbleUp) or is_cancelled(error)
    return "stops" if is_stop else f"fails ({type(error).__name__})"


ACTIVATIONS = ActivationLog()
"""The log of the activations of this process, as the level of a logger is."""

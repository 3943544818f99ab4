"""Logs the begin, the end, the questions and the failures of runs, as `docs/guides/logging.md` says.

The level is asked once, at the begin of a run. No line has the content of a message: a question shows
the start of its text, and one that is not a text only what it is.
"""

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol, Self
from uuid import uuid4

from agentgraph.events.events import AgentEvent
from agentgraph.safe_repr import cut, error_text, shown

log = logging.getLogger("agentgraph.runs")
log.addHandler(logging.NullHandler())  # the caller gets the failure too: it is not printed by default

_LONGEST = 80
"""Maximum number of characters shown of a question."""
_LONGEST_ERROR = 200
"""Maximum number of characters shown of a failure."""


class Logged(Protocol):
    """A run, as the log shows it."""

    origin: str
    run_id: object

    @property
    def thread_id(self) -> str:
        """The thread."""

    @property
    def tree_name(self) -> str:
        """The name of the root of the tree."""

    def status(self, error: BaseException | None) -> str:
        """Return the status in which the run ends, by the exception that ends it."""


class RunLog:
    """Logs one run: its begin and its end around a `with` block, and events in between."""

    def __init__(self, run: Logged) -> None:
        self._run, self._began, self._has_failed = run, perf_counter(), False
        self._run_id = str(run.run_id or uuid4())

    def __enter__(self) -> Self:
        run = self._run
        self._log(logging.INFO, "%s begins with %s, run %s", run.tree_name, run.origin, self._run_id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        run, seconds = self._run, perf_counter() - self._began
        status = run.status(error)
        told: dict[str, Any] = {"status": status, "seconds": seconds}
        if error is not None and status == "failed" and not self._has_failed:  # of no agent
            told["error"] = why = _first_line(f"{type(error).__name__}: {error_text(error)}")
            self._log(logging.WARNING, "%s fails: %s", run.tree_name, why, error=why)
        text = "%s ends %s after %.2f s, run %s"
        self._log(logging.INFO, text, run.tree_name, status, seconds, self._run_id, **told)

    def event(self, event: AgentEvent) -> None:
        """Log an event that asks a question or reports a failure."""
        at = event.address
        if event.error is not None:
            self._has_failed = True
            why = _first_line(event.error)
            self._log(logging.WARNING, "%s fails: %s", at, why, address=at, error=why)
        elif event.action is not None and event.action.interrupted is not None:
            asked = _question(event.action.interrupted.value)
            self._log(logging.INFO, "%s asks %s", at, asked, address=at)

    def _log(self, level: int, text: str, *values: object, **more: object) -> None:
        run = self._run
        extra = {"thread_id": run.thread_id, "run_id": self._run_id, "tree": run.tree_name, **more}
        log.log(level, f"thread %s: {text}", shown(run.thread_id), *values, extra=extra)


def logged(run: Logged) -> "AbstractContextManager[RunLog | None]":
    """Log a run in a `with` block, unless that is switched off."""
    return RunLog(run) if log.isEnabledFor(logging.WARNING) else nullcontext()


def _first_line(text: str) -> str:
    return cut(next(iter(text.splitlines()), ""), _LONGEST_ERROR)


def _question(value: object) -> str:
    if isinstance(value, str):
        return shown(value, _LONGEST)
    if isinstance(value, Mapping) and isinstance(calls := value.get("action_requests"), list):
        names = [str(each.get("name")) for each in calls if isinstance(each, Mapping)]
        return f"for approval of {', '.join(names)}"
    return f"a question of type {type(value).__name__}"

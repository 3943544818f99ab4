"""A desk and its workers, which run in the background and report their ends to it."""

import logging
import operator
import threading
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from typing import Annotated, Self, TypedDict

from langchain_core.messages import ToolMessage

import agentgraph as ag
from agentgraph.testing import transcript

AT_ONCE = 8
DESK = "desk"
TURN = "work"
"""The name of the only turn of a worker."""
KNOWN = ("request", "question", "text")
"""The arguments of the desk's `long_running` tools that start a worker again."""

log = logging.getLogger(__name__)


class Values(TypedDict, total=False):
    """The values of the desk: the workers that a person has stopped."""

    stopped: Annotated[list[str], operator.add]


class Office:
    """A desk and its workers, each on a separate thread, in one SQLite file.

    The open calls of the desk's `long_running` tools are the list of the workers: a tool returns the
    id of a worker's thread at once, and its late result says how the worker ended, or what it asks. So
    this list is saved with the conversation, and has no other state that a kill could lose.

    Attributes:
        desk: Runs the desk on the thread `DESK`.
        workers: Runs the workers, at most `AT_ONCE` at a time; the others wait.
    """

    def __init__(
        self,
        desk: ag.Agent,
        worker: ag.Agent,
        path: str | PathLike[str],
        show: Callable[[str], object] = print,
    ) -> None:
        self._saver = ag.sqlite_saver(path)
        self.desk = ag.Runner(desk, checkpointer=self._saver, values=Values, context=self)
        limits = ag.Limits(model_calls=30)
        self.workers = ag.Runner(worker, checkpointer=self._saver, max_running=AT_ONCE, limits=limits)
        self._show, self._shown, self._showing = show, 0, threading.Lock()
        self._waiting: dict[str, threading.Thread] = {}
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the workers before their next steps; `resume` continues them."""
        self._is_closed = True
        self.workers.close()
        self.wait()
        self.desk.close()
        self._saver.close()

    def resume(self) -> None:
        """Show the conversation; continue what a dead process left: workers, and a turn of the desk."""
        self._look_after()
        self._continue()
        self._look_after()

    def say(self, text: str | ToolMessage, turn_id: str) -> None:
        """Run a turn of the desk; the same call again runs nothing."""
        self._continue()
        try:
            self.desk.advance(DESK, text, turn_id=turn_id)
        finally:
            self._look_after()

    def start(
        self, worker: str, request: str | None = None, question: str = "", text: str = ""
    ) -> None:
        """Start a worker, or continue one that asks, died or failed; the same call again runs nothing.

        Args:
            worker: The id of its thread.
            request: Its request, if it has not started.
            question: The id of a question of the worker.
            text: The answer to it.

        Raises:
            ThreadBusyError: The worker is active.
        """
        answers = {question: text} if question else {}
        self.workers.start(request, thread_id=worker, turn_id=TURN, answers=answers)

    def wait(self) -> None:
        """Wait until the end of each worker was reported to the desk."""
        while waiting := [*self._waiting.values()]:
            for each in waiting:
                each.join()

    def _continue(self) -> None:
        """Continue a turn of the desk that failed, or whose process died."""
        if self.desk.thread(DESK).status in ("failed", "stopped"):
            self.desk.advance(DESK)

    def _look_after(self) -> None:
        """Show the turns that are new, and wait for each worker without a late result."""
        with self._showing:
            thread = self.desk.thread(DESK)
            ended = len(thread.turns) - (thread.status != "done")
            for turn in thread.turns[self._shown : ended]:
                for line in (*(f"> {each.text}" for each in turn.messages), *transcript(turn.events)):
                    self._show(line)
            self._shown = max(self._shown, ended)
            for call in thread.open_calls:
                if call.id not in self._waiting and not self._is_closed:
                    self._start_again(call)
                    waiting = threading.Thread(target=self._report, args=(call,), daemon=True)
                    self._waiting[call.id] = waiting
                    waiting.start()

    def _start_again(self, call: ag.LateCall) -> None:
        if not self._is_stopped(call.answer):
            known = {name: call.args[name] for name in KNOWN if name in call.args}
            with suppress(ag.ThreadBusyError):
                self.start(call.answer, **known)

    def _is_stopped(self, worker: str) -> bool:
        return worker in self.desk.thread(DESK).values.get("stopped", ())

    def _report(self, call: ag.LateCall) -> None:
        """Wait until a worker has ended or asks, and report it to the desk."""
        worker = call.answer
        try:
            while (end := self._end_of(worker)) is None and not self._is_closed:
                self._start_again(call)
                for _ in self.workers.follow(worker):
                    pass
            if end is not None:
                self.say(ToolMessage(end, tool_call_id=call.id), f"end of {call.id}")
        except Exception:
            log.exception(
                "the end of %s was not reported; it will be after the desk's next turn", worker
            )
        finally:
            del self._waiting[call.id]

    def _end_of(self, worker: str) -> str | None:
        """Return how a worker ended, or what it asks; None if it is active, or its process died."""
        thread = self.workers.thread(worker)
        match thread.status:
            case "done":
                return f"{worker} has ended; collect its report."
            case "paused":
                asked = ", ".join(f"{each.value} ({each.id})" for each in thread.pending)
                return f"{worker} asks: {asked}"
            case "failed":
                errors = [event.error for turn in thread.turns for event in turn.events if event.error]
                return f"{worker} has failed: {errors[-1]}"
            case "new" | "stopped" if thread.stop_reason or self._is_stopped(worker):
                return f"{worker} was stopped."
        return None

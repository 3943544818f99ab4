"""Runs a thread on the command line: prints events, asks questions, shows how to resume."""

import json
import os
import shlex
import shutil
import signal
import socket
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from rich.console import Console

from agentgraph.cli.answers import ask, choices_of, named_by
from agentgraph.cli.loaded import db_of, place_of
from agentgraph.cli.target import Target
from agentgraph.errors import AgentGraphError, MissingValueError, ValueConflictError
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.journal.savers.urls import without_password
from agentgraph.safe_repr import error_text
from agentgraph.show.approvals import question_line, until_text
from agentgraph.show.lines import one_line, without_controls
from agentgraph.show.screens import Lines, Terminal, is_live, text_console
from agentgraph.show.watching import awatch, watch
from agentgraph.threads.live.event_loop import needs_event_loop, on_event_loop
from agentgraph.threads.runner import Runner

DONE, FAILED, WRONG_USE, PAUSED, STOPPED = 0, 1, 2, 3, 130
"""The exit codes."""

_SHOWN = 80
"""Maximum number of characters shown of a question when a run pauses."""
QUIET = 30.0
"""Seconds without an event after which the running agents are printed."""
_NAMED = 3
_SHOW_CURSOR = b"\x1b[?25h\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """The arguments with which the command line resumes a thread.

    Attributes:
        target: The tree.
        thread_id: The thread.
        db: The SQLite file of the thread, or the URL of the database; None for a runner with a
            checkpointer.
        config: LangGraph's config of its runs, which is not saved.
        context: LangGraph's runtime context of its runs, which is not saved.
    """

    target: Target
    thread_id: str
    db: str | None = None
    config: Mapping[str, object] | None = None
    context: Mapping[str, object] | None = None

    def resume(self, *options: str) -> list[str]:
        """Return the arguments of the command that resumes the thread."""
        again = {"--config": self.config, "--context": self.context}
        unsaved = [word for name, of in again.items() if of for word in (name, json.dumps(of))]
        more = [*(["--db", self.db] if self.db is not None else []), *unsaved, *options]
        if self.thread_id.startswith("-"):  # not an option
            return ["resume", *self.target.words, *more, "--", self.thread_id]
        return ["resume", *self.target.words, self.thread_id, *more]


class Printed(Lines):
    """Prints each event, as JSON or as text, and the running agents after a long silence."""

    def __init__(
        self,
        console: Console,
        *,
        as_json: bool = False,
        streams: bool = False,
        quiet: float = QUIET,
    ) -> None:
        super().__init__(console)
        self.as_json, self.streams, self._quiet = as_json, streams, quiet
        self._growing: tuple[str, str | None] | None = None
        self._received, self._is_over = threading.Event(), threading.Event()

    def add(self, event: AgentEvent) -> None:
        """Print an event; with `streams`, print chunks too."""
        if event.partial and self.as_json:
            print(json.dumps(event.to_dict()), flush=True)
        elif event.partial and event.text:
            self._grow(event)
        super().add(event)

    def line(self, event: AgentEvent) -> None:
        """Print an event."""
        was_grown = self._end_line() == (event.address, event.id) and not event.partial
        if self.as_json:
            print(json.dumps(event.to_dict()), flush=True)
        elif not was_grown or bool(getattr(event.message, "tool_calls", None)):
            super().line(event)
        self._received.set()

    def _grow(self, event: AgentEvent) -> None:
        if self._growing != (event.address, event.id):
            self._end_line()
            self._growing = (event.address, event.id)
            self.console.print(f"{event.address}: ", end="", soft_wrap=True)
        self.console.print(without_controls(event.text), end="", soft_wrap=True)
        self._received.set()

    def _end_line(self) -> tuple[str, str | None] | None:
        was, self._growing = self._growing, None
        if was is not None:
            self.console.print()
        return was

    def show(self) -> None:
        """Start the clock."""
        self._is_over.clear()
        self._received.clear()
        self._clock = threading.Thread(target=self._watch_clock, daemon=True)
        self._clock.start()

    def hide(self) -> None:
        """Stop the clock."""
        self._is_over.set()
        self._received.set()
        self._clock.join()

    def _watch_clock(self) -> None:
        while not self._is_over.is_set():
            if self._received.wait(self._quiet):
                self._received.clear()
            elif running := self.activity.running(time.monotonic()):
                self.note(_running_line(running))


def screen_of(*, as_json: bool = False, streams: bool = False) -> Lines:
    """Create the screen for a run: at a terminal, one with a live tree below the events."""
    console = text_console()
    if is_live(console) and not as_json:
        return Terminal(console)
    return Printed(console, as_json=as_json, streams=streams)


class Session:
    """Runs a thread until it is done, fails, is stopped, or pauses for an absent person.

    Attributes:
        runner: The runner.
    """

    def __init__(
        self,
        runner: Runner,
        where: Whereabouts,
        screen: Lines,
        *,
        no_input: bool = False,
        with_traceback: bool = False,
    ) -> None:
        self.runner, self._where, self._screen = runner, where, screen
        self._place = place_of(runner)
        no_input = no_input or (isinstance(screen, Printed) and screen.as_json)
        self._may_ask = not no_input and at_terminal()
        self._with_traceback, self._is_stopping = with_traceback, False

    def go(self, text: str | None = None, **options: object) -> int:
        """Run a turn or resume, ask all questions, and return the exit code.

        Args:
            text: The input of a turn; None resumes the thread.
            **options: The options of `watch`.

        Raises:
            AgentGraphError: The runner rejected the call before anything ran.
        """
        thread_id = self._where.thread_id
        try:
            status = self._watch(text, **options)
            while questions := self.runner.pending(thread_id):
                answers = None if self._is_stopping else self._ask(questions)
                if answers is None:
                    return self._pause(questions)
                status = self._watch(answers=answers)
            if status == "stopped":
                return self._stop()
        except KeyboardInterrupt:
            return self._stop()
        except Exception as error:
            return self._fail(error)
        self._screen.note(f"Done: thread {thread_id}, saved in {self._place}.")
        return DONE

    def _watch(self, text: str | None = None, **options: Any) -> str:
        where = self._where
        options |= {"config": where.config, "context": where.context, "console": self._screen}
        before = signal.signal(signal.SIGINT, self._stop_soon)
        try:
            if needs_event_loop(self.runner.engine):
                run = awatch(self.runner, text, thread_id=where.thread_id, **options)
                return on_event_loop(run).status
            return watch(self.runner, text, thread_id=where.thread_id, **options).status
        finally:
            signal.signal(signal.SIGINT, before)

    def _ask(self, questions: Sequence[Interrupt]) -> dict[str, object] | None:
        if not self._may_ask:
            return None
        try:
            return {question.id: ask(self._screen.console, question) for question in questions}
        except EOFError:
            self._screen.note("")
            return None
        except KeyboardInterrupt:
            self._screen.note("")
            raise

    def _pause(self, questions: Sequence[Interrupt]) -> int:
        thread = f"thread {self._where.thread_id} in {self._place}"
        self._screen.note(f"Paused: {thread} waits for answers to")
        for question in questions:
            self._screen.note(_question_line(question))
        named = f"{named_by(questions)}=TEXT for each" if len(questions) > 1 else "TEXT"
        self._screen.note(self._resume_by(f"Resume, at a terminal or with --answer {named}"))
        return PAUSED

    def _stop(self) -> int:
        self._screen.note(self._resume_by("Stopped. Resume"))
        return STOPPED

    def _fail(self, error: Exception) -> int:
        count = self._screen.count
        if isinstance(error, AgentGraphError) and not count:
            raise error
        if self._with_traceback:
            self._screen.note(_indented("".join(traceback.format_exception(error)).rstrip()))
        self._screen.note(_indented(f"Failed: {type(error).__name__}: {error_text(error)}"))
        for note in _own_notes(error):
            self._screen.note(_indented(f"  {note}"))
        if not (self._with_traceback or isinstance(error, AgentGraphError)):
            self._screen.note("  --traceback shows the lines of code.")
        if isinstance(error, MissingValueError):
            values = json.dumps({error.placeholder: "..."})
            self._screen.note(self._resume_by("Pass the value and resume", "--values", values))
            return WRONG_USE if count == 1 else FAILED
        if isinstance(error, ValueConflictError):
            values = json.dumps(dict.fromkeys(error.names, "..."))
            self._screen.note(self._resume_by("Choose a value and resume", "--values", values))
            return FAILED
        self._screen.note(self._resume_by("Retry the failed step"))
        return FAILED

    def _resume_by(self, what: str, *options: str) -> str:
        where = replace(self._where, db=self._where.db and without_password(self._where.db))
        return f"{what}: {shlex.join([*_program(), *where.resume(*options)])}"

    def _stop_soon(self, *_: object) -> None:
        """Stop the run on the first Ctrl-C, after the steps in progress.

        Python runs no signal handlers while its main thread waits for a lock. Therefore a separate
        thread reads the signal wakeup descriptor and notices a second Ctrl-C.
        """
        signal.signal(signal.SIGINT, lambda *_: None)
        signalled, wakes = socket.socketpair()
        wakes.setblocking(False)
        signal.set_wakeup_fd(wakes.detach())
        threading.Thread(target=self._stop_at_once, args=[signalled], daemon=True).start()
        self._screen.note("Stopping after the running step; Ctrl-C again stops at once.")
        self._is_stopping = True
        self.runner.stop(self._where.thread_id, "Ctrl-C")

    def _stop_at_once(self, signalled: socket.socket) -> NoReturn:
        while signalled.recv(1)[0] != signal.SIGINT:
            pass
        if isinstance(self._screen, Terminal) and self._screen.is_shown:
            os.write(1, _SHOW_CURSOR)
        line = without_controls(self._resume_by("Stopped. Resume"))
        os.write(2, f"{line}\n".encode())  # not through a console: it may hold its lock
        os._exit(STOPPED)


@contextmanager
def open_session(
    where: Whereabouts, screen: Lines, *, creates: bool = False, **options: bool
) -> Iterator[Session]:
    """Load the target, and open a session with its threads.

    Args:
        where: The thread; its file is the default one if it has none.
        screen: Shows the events.
        creates: Whether a missing file is created.
        **options: The options of the session.

    Raises:
        TargetError: The target cannot be loaded, or the file is missing.
        SaverError: The file or database cannot be opened.
        InvalidAgentError: The tree has faults.
    """
    with where.target.load() as loaded, loaded.open(where.db, creates=creates) as runner:
        own = None if loaded.has_saver else db_of(where.db)
        yield Session(runner, replace(where, db=own), screen, **options)


def new_thread_id() -> str:
    """Create a unique thread id, short enough to type."""
    return uuid4().hex[:12]


def at_terminal() -> bool:
    """Return whether a person is at the terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _program() -> list[str]:
    """Return the command that starts this program: `agentgraph` if the shell finds this one."""
    program = shutil.which("agentgraph")
    is_this = program is not None and Path(program).resolve().parent == Path(sys.executable).parent
    return ["agentgraph"] if is_this else [sys.executable, "-m", "agentgraph"]


def _own_notes(error: Exception) -> list[str]:
    return [note for note in getattr(error, "__notes__", ()) if not note.startswith("During task")]


def _indented(text: str) -> str:
    """Indent all lines but the first, so that they cannot pass for lines of the command line."""
    return text.replace("\n", "\n    ")


def _running_line(running: list[tuple[str, float]]) -> str:
    """List the running agents: `still running: report/refine[1]/write (64 s)`."""
    named = [f"{at} ({seconds:.0f} s)" for at, seconds in running[:_NAMED]]
    more = [f"{len(running) - _NAMED} more"] if len(running) > _NAMED else []
    return f"still running: {', '.join(named + more)}"


def _question_line(question: Interrupt) -> str:
    choices = ", ".join(choices_of(question))
    head = f"{question.address} (id {question.id})" + (f", one of {choices}" if choices else "")
    head += until_text(question)
    line = textwrap.shorten(one_line(question_line(question)), _SHOWN, placeholder=" ...")
    return f"  {one_line(head)}: {line}"

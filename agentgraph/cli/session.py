"""A thread on the command line: shows what happens, asks what is asked, says how to go on."""

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from rich.console import Console

from agentgraph.agents.agents import Agent
from agentgraph.cli.answers import ask, choices_of, named_by
from agentgraph.cli.target import Target
from agentgraph.errors import AgentGraphError, MissingValueError
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.safe_repr import said
from agentgraph.show.lines import one_line, without_controls
from agentgraph.show.screens import Lines, Terminal, is_live, text_console
from agentgraph.show.watching import watch
from agentgraph.threads.runner import Runner
from agentgraph.threads.sqlite import sqlite_saver

DONE, FAILED, WRONG_USE, PAUSED, STOPPED = 0, 1, 2, 3, 130
"""The exit codes."""

_SHOWN = 80
"""How many characters of a question are repeated where a run pauses."""
QUIET = 30.0
"""After how many seconds without an event it is said what runs."""
_NAMED = 3
_SHOW_CURSOR = b"\x1b[?25h\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where a thread is, in the words of the command line.

    Attributes:
        target: The tree.
        thread_id: The thread.
        db: The SQLite file that keeps it.
    """

    target: Target
    thread_id: str
    db: str

    def resume(self, *options: str) -> list[str]:
        """Return the arguments with which this program goes on with the thread."""
        return ["resume", *self.target.words, "--thread", self.thread_id, "--db", self.db, *options]


class Printed(Lines):
    """Prints each event, as JSON or as text; while nothing is told for long, notes what runs."""

    def __init__(self, console: Console, *, as_json: bool = False, quiet: float = QUIET) -> None:
        super().__init__(console)
        self.as_json, self._quiet = as_json, quiet
        self._heard, self._is_over = threading.Event(), threading.Event()

    def line(self, event: AgentEvent) -> None:
        """Print an event at once."""
        if self.as_json:
            print(json.dumps(event.to_dict()), flush=True)
        else:
            super().line(event)
        self._heard.set()

    def show(self) -> None:
        """Begin to look at the clock."""
        self._is_over.clear()
        self._heard.clear()
        self._clock = threading.Thread(target=self._watch_clock, daemon=True)
        self._clock.start()

    def hide(self) -> None:
        """Look no more."""
        self._is_over.set()
        self._heard.set()
        self._clock.join()

    def _watch_clock(self) -> None:
        while not self._is_over.is_set():
            if self._heard.wait(self._quiet):
                self._heard.clear()
            elif running := self.activity.running(time.monotonic()):
                self.note(_running_line(running))


def screen_of(*, as_json: bool = False) -> Lines:
    """Return where a run is shown: at a terminal with a live tree below the events."""
    console = text_console()
    return Terminal(console) if is_live(console) and not as_json else Printed(console, as_json=as_json)


class Session:
    """Runs a thread until it is done, pauses where nobody can be asked, fails, or is stopped.

    Attributes:
        runner: What runs it.
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
        no_input = no_input or (isinstance(screen, Printed) and screen.as_json)
        self._may_ask = not no_input and at_terminal()
        self._with_traceback = with_traceback

    def go(self, text: str | None = None, **options: Any) -> int:
        """Run on a text, or go on; ask what is left to ask, and go on; return the exit code.

        Args:
            text: The input of a turn.
            **options: Those of `watch`.

        Raises:
            AgentGraphError: The runner refused before anything ran.
        """
        thread_id = self._where.thread_id
        try:
            self._watch(text, **options)
            while questions := self.runner.pending(thread_id):
                answers = self._ask(questions)
                if answers is None:
                    return self._pause(questions)
                self._watch(answers=answers)
        except KeyboardInterrupt:
            return self._stop()
        except Exception as error:
            return self._fail(error)
        self._screen.note(f"Done: thread {thread_id}, kept in {self._where.db}.")
        return DONE

    def _watch(self, text: str | None = None, **options: Any) -> None:
        before = signal.signal(signal.SIGINT, self._stop_soon)
        watch(self.runner, text, thread_id=self._where.thread_id, console=self._screen, **options)
        signal.signal(signal.SIGINT, before)

    def _ask(self, questions: Sequence[Interrupt]) -> dict[str, Any] | None:
        """Return the answers by id; None where nobody gives them."""
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
        self._screen.note(f"Paused: thread {self._where.thread_id} in {self._where.db} waits for")
        for question in questions:
            self._screen.note(_question_line(question))
        named = f"{named_by(questions)}=TEXT for each" if len(questions) > 1 else "TEXT"
        self._screen.note(self._on(f"Go on, at a terminal or with --answer {named}"))
        return PAUSED

    def _stop(self) -> int:
        self._screen.note(self._on("Stopped. Go on"))
        return STOPPED

    def _fail(self, error: Exception) -> int:
        told = self._screen.told
        if isinstance(error, AgentGraphError) and not told:
            raise error
        if self._with_traceback:
            self._screen.note(_indented("".join(traceback.format_exception(error)).rstrip()))
        self._screen.note(_indented(f"Failed: {type(error).__name__}: {said(error)}"))
        for note in _own_notes(error):
            self._screen.note(_indented(f"  {note}"))
        if not (self._with_traceback or isinstance(error, AgentGraphError)):
            self._screen.note("  Where in the code, --traceback tells.")
        if isinstance(error, MissingValueError):
            values = json.dumps({error.placeholder: "..."})
            self._screen.note(self._on("Give the value and go on", "--values", values))
            return WRONG_USE if told == 1 else FAILED
        self._screen.note(self._on("Try the failed step again"))
        return FAILED

    def _on(self, how: str, *options: str) -> str:
        return f"{how}: {shlex.join([*_program(), *self._where.resume(*options)])}"

    def _stop_soon(self, *_: object) -> NoReturn:
        """Stop the run on Ctrl-C: LangGraph waits for the steps that run in other threads.

        A thread waits for the next one: Python calls no handler while its main thread waits for a lock.
        """
        signal.signal(signal.SIGINT, lambda *_: None)
        signalled, wakes = socket.socketpair()
        wakes.setblocking(False)
        signal.set_wakeup_fd(wakes.detach())
        threading.Thread(target=self._stop_at_once, args=[signalled], daemon=True).start()
        self._screen.note("Stopping behind the step that is running; Ctrl-C again stops at once.")
        raise KeyboardInterrupt

    def _stop_at_once(self, signalled: socket.socket) -> NoReturn:
        while signalled.recv(1)[0] != signal.SIGINT:
            pass
        if isinstance(self._screen, Terminal) and self._screen.is_shown:
            os.write(1, _SHOW_CURSOR)
        line = without_controls(self._on("Stopped. Go on"))
        os.write(2, f"{line}\n".encode())  # not by a console: one may be in use
        os._exit(STOPPED)


@contextmanager
def open_session(agent: Agent, where: Whereabouts, screen: Lines, **options: bool) -> Iterator[Session]:
    """Make a session whose threads are kept in a SQLite file.

    Raises:
        SaverError: The file cannot be opened.
        InvalidAgentError: The tree has faults.
    """
    with sqlite_saver(where.db) as saver:
        yield Session(Runner(agent, checkpointer=saver), where, screen, **options)


def new_thread_id() -> str:
    """Return a name for a thread that no other has, short enough to be typed."""
    return uuid4().hex[:12]


def at_terminal() -> bool:
    """Tell whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _program() -> list[str]:
    """Return how this program is called: by its name where a shell would find this very one."""
    found = shutil.which("agentgraph")
    is_this = found is not None and Path(found).resolve().parent == Path(sys.executable).parent
    return ["agentgraph"] if is_this else [sys.executable, "-m", "agentgraph"]


def _own_notes(error: Exception) -> list[str]:
    """Return what was written on an error on its way out, but for what LangGraph wrote."""
    return [note for note in getattr(error, "__notes__", ()) if not note.startswith("During task")]


def _indented(text: str) -> str:
    """Return a text whose further lines cannot be taken for lines of ours."""
    return text.replace("\n", "\n    ")


def _running_line(running: list[tuple[str, float]]) -> str:
    """Return what runs in words: `still running: report/refine[1]/write (64 s)`."""
    named = [f"{at} ({seconds:.0f} s)" for at, seconds in running[:_NAMED]]
    more = [f"{len(running) - _NAMED} more"] if len(running) > _NAMED else []
    return f"still running: {', '.join(named + more)}"


def _question_line(question: Interrupt) -> str:
    value = question.value if isinstance(question.value, str) else json.dumps(question.value)
    choices = ", ".join(choices_of(question))
    head = f"{question.address} (id {question.id})" + (f", one of {choices}" if choices else "")
    return f"  {one_line(head)}: {textwrap.shorten(one_line(value), _SHOWN, placeholder=' ...')}"

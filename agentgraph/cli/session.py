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
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from rich.console import Console

from agentgraph.agents.agents import Agent
from agentgraph.cli.answers import ask, choices_of, name_of
from agentgraph.cli.screens import Printed
from agentgraph.errors import AgentGraphError, MissingValueError
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.safe_repr import said
from agentgraph.show.lines import one_line, print_event, without_controls
from agentgraph.show.screens import Screen, Terminal, is_live
from agentgraph.show.watching import watch
from agentgraph.threads.runner import Runner
from agentgraph.threads.savers import sqlite_saver

DONE, FAILED, WRONG_USE, PAUSED, STOPPED = 0, 1, 2, 3, 130
"""The exit codes."""

_SHOWN = 80
"""How many characters of a question are repeated where a run pauses."""
_SHOW_CURSOR = b"\x1b[?25h\n"

Start = Callable[..., Any]
"""`watch` with all but where it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where a thread is, in the words of the command line.

    Attributes:
        target: The tree, as `FILE.py:NAME` or a skill file.
        thread_id: The thread.
        db: The SQLite file that keeps it.
        options: What a skill file is read with.
    """

    target: str
    thread_id: str
    db: str
    options: tuple[str, ...] = ()

    def resume(self, *options: str) -> list[str]:
        """Return the arguments with which this program goes on with the thread."""
        tree = [self.target, *self.options]
        return ["resume", *tree, "--thread", self.thread_id, "--db", self.db, *options]


class Printer:
    """Prints events on standard output, all else on standard error.

    Attributes:
        as_json: Whether events are printed as JSON, one a line.
        screen: Where a run is shown: at a terminal with a live tree below the events.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.console = Console(highlight=False, markup=False, emoji=False)
        self._notes = Console(highlight=False, markup=False, emoji=False, stderr=True)
        self.screen: Screen = Printed(self.show, self.note)
        if is_live(self.console) and not as_json:
            self.screen = Terminal(self.console)

    @property
    def draws(self) -> bool:
        """Whether a tree is being drawn."""
        return isinstance(self.screen, Terminal) and self.screen.is_shown

    def show(self, event: AgentEvent) -> None:
        """Print an event at once."""
        if self.as_json:
            print(json.dumps(event.to_dict()), flush=True)
        else:
            print_event(self.console, event)

    def say(self, text: str) -> None:
        """Print a text between events."""
        self.console.print(without_controls(text), soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a remark; below a tree that is being drawn. Nothing in it steers the terminal."""
        text = without_controls(text)
        if isinstance(self.screen, Terminal) and self.screen.is_shown:
            self.screen.remark = text
        else:
            self._notes.print(text, soft_wrap=True)


class Session:
    """Runs a thread until it is done, pauses where nobody can be asked, fails, or is stopped."""

    def __init__(
        self,
        runner: Runner,
        where: Whereabouts,
        printer: Printer,
        *,
        no_input: bool = False,
        with_traceback: bool = False,
    ) -> None:
        self._runner, self._where, self._printer = runner, where, printer
        self._may_ask = not (no_input or printer.as_json) and at_terminal()
        self._with_traceback = with_traceback

    def go(self, start: Start) -> int:
        """Run, ask what is left to ask, and go on; return the exit code.

        Raises:
            AgentGraphError: The runner refused before anything ran.
        """
        thread_id = self._where.thread_id
        try:
            self._watch(start)
            while questions := self._runner.pending(thread_id):
                answers = self._ask(questions)
                if answers is None:
                    return self._pause(questions)
                self._watch(partial(watch, self._runner, thread_id=thread_id, answers=answers))
        except KeyboardInterrupt:
            return self._stop()
        except Exception as error:
            return self._fail(error)
        self._printer.note(f"Done: thread {thread_id}, kept in {self._where.db}.")
        return DONE

    def _watch(self, start: Start) -> None:
        before = signal.signal(signal.SIGINT, self._stop_soon)
        start(console=self._printer.screen)
        signal.signal(signal.SIGINT, before)

    def _ask(self, questions: Sequence[Interrupt]) -> dict[str, Any] | None:
        """Return the answers by id; None where nobody gives them."""
        if not self._may_ask:
            return None
        try:
            return {question.id: ask(self._printer.console, question) for question in questions}
        except EOFError:
            self._printer.note("")
            return None
        except KeyboardInterrupt:
            self._printer.note("")
            raise

    def _pause(self, questions: Sequence[Interrupt]) -> int:
        self._printer.note(f"Paused: thread {self._where.thread_id} in {self._where.db} waits for")
        for question in questions:
            self._printer.note(_question_line(question))
        first = questions[0]
        named = "ADDRESS" if name_of(first, questions) == first.address else "ID"
        option = "--answer TEXT" if len(questions) == 1 else f"--answer {named}=TEXT for each"
        self._printer.note(self._on(f"Go on, at a terminal or with {option}"))
        return PAUSED

    def _stop(self) -> int:
        self._printer.note(self._on("Stopped. Go on"))
        return STOPPED

    def _fail(self, error: Exception) -> int:
        told = self._printer.screen.told
        if isinstance(error, AgentGraphError) and not told:
            raise error
        if self._with_traceback:
            self._printer.note(_indented("".join(traceback.format_exception(error)).rstrip()))
        self._printer.note(_indented(f"Failed: {type(error).__name__}: {said(error)}"))
        for note in _own_notes(error):
            self._printer.note(_indented(f"  {note}"))
        if not (self._with_traceback or isinstance(error, AgentGraphError)):
            self._printer.note("  Where in the code, --traceback tells.")
        if isinstance(error, MissingValueError):
            values = json.dumps({error.placeholder: "..."})
            self._printer.note(self._on("Give the value and go on", "--values", values))
            return WRONG_USE if told == 1 else FAILED
        self._printer.note(self._on("Try the failed step again"))
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
        self._printer.note("Stopping behind the step that is running; Ctrl-C again stops at once.")
        raise KeyboardInterrupt

    def _stop_at_once(self, signalled: socket.socket) -> NoReturn:
        while signalled.recv(1)[0] != signal.SIGINT:
            pass
        if self._printer.draws:
            os.write(1, _SHOW_CURSOR)
        line = without_controls(self._on("Stopped. Go on"))
        os.write(2, f"{line}\n".encode())  # not by a console: one may be in use
        os._exit(STOPPED)


@contextmanager
def open_runner(agent: Agent, db: str) -> Iterator[Runner]:
    """Make a runner whose threads are kept in a SQLite file.

    Raises:
        SaverError: The file cannot be opened.
        InvalidAgentError: The tree has faults.
    """
    with sqlite_saver(db) as saver:
        yield Runner(agent, checkpointer=saver)


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


def _question_line(question: Interrupt) -> str:
    value = question.value if isinstance(question.value, str) else json.dumps(question.value)
    choices = ", ".join(choices_of(question))
    head = f"{question.address} (id {question.id})" + (f", one of {choices}" if choices else "")
    return f"  {one_line(head)}: {textwrap.shorten(one_line(value), _SHOWN, placeholder=' ...')}"

"""Runs the command line, or Python files, in processes forked from one that has imported LangGraph.

A fresh interpreter takes seconds to import LangGraph; a forked one starts at once, and is as
much a process: it has its exit code, its standard streams, and receives signals.
"""

import os
import pty
import runpy
import select
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.forking import Forker

PATIENCE = 30.0
CTRL_C, CTRL_D = "\x03", "\x04"


@dataclass(frozen=True)
class Ended:
    """The result of a command: its exit code and its output."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def continue_command(self) -> str:
        """The command that the last line of standard error ends with."""
        return self.err.splitlines()[-1].partition(": ")[2]


class Running:
    """A command that runs."""

    def __init__(self, forker: Forker, folder: Path, pid: int) -> None:
        self._forker, self._folder, self.pid = forker, folder, pid
        self.ended = False

    @property
    def out(self) -> str:
        return (self._folder / ".out").read_text()

    @property
    def err(self) -> str:
        return (self._folder / ".err").read_text()

    def said(self, what: str) -> None:
        """Wait until a text was printed."""
        wait_until(lambda: what in self.out + self.err)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> Ended:
        return Ended(self.wait_for_code(), self.out, self.err)

    def wait_for_code(self) -> int:
        code = self._forker.wait()
        self.ended = True
        return code


class Commands:
    """Starts commands in a folder, one at a time; each of its calls runs one.

    Attributes:
        folder: Where they run.
        runs_files: Whether the first argument is the path of a Python file to run.
    """

    def __init__(self, forker: Forker, folder: Path, *, runs_files: bool = False) -> None:
        self._forker, self.folder, self.runs_files = forker, folder, runs_files
        self._running: Running | None = None

    def __call__(self, *args: str, **options: Any) -> Ended:
        """Run a command to its end; options as in `start`."""
        return self.start(*args, **options).wait()

    def start(self, *args: str, stdin: str | bytes = "", **job: Any) -> Running:
        """Start a command; its standard streams are files.

        Args:
            *args: Its arguments.
            stdin: Its standard input.
            **job: `env`, more environment variables; `without`, a package that it cannot import.
        """
        (self.folder / ".in").write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
        streams = [str(self.folder / name) for name in (".in", ".out", ".err")]
        for stream in streams[1:]:
            Path(stream).write_text("")
        return self._start(args, streams, **job)

    def at_terminal(self, *args: str, typed: Sequence[tuple[str, str]], term: str = "dumb") -> Ended:
        """Run a command at a terminal; type each text when what is printed ends with its prompt."""
        terminal, device = pty.openpty()
        size = {"COLUMNS": "200", "LINES": "50"}  # rich takes both or none
        running = self._start(args, [os.ttyname(device)] * 3, env={"TERM": term, **size})
        shown, left, last = [_read(terminal)], list(typed), ""
        os.close(device)  # the command has opened it; it is closed when the command ends
        end = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < end, f"it does not end: {shown}"
            if left and shown[-1].endswith(left[0][0]):
                last = left.pop(0)[1]
                os.write(terminal, last.encode())
                shown.append("")
            piece = _read(terminal, again=last)
            if not piece:
                break
            shown[-1] += piece
        os.close(terminal)
        assert not left, f"{left[0][0]!r} was not printed: {shown}"
        return Ended(running.wait_for_code(), "".join(shown).replace("\r\n", "\n"), "")

    def follow(self, line: str, *more: str) -> Ended:
        """Run the command that another one printed."""
        words = shlex.split(line)
        return self(*words[words.index("agentgraph") + 1 :], *more)

    def stop(self) -> None:
        """Kill what still runs."""
        if self._running and not self._running.ended:
            self._running.signal(signal.SIGKILL)
            self._running.wait_for_code()

    def _start(self, args: Sequence[str], streams: list[str], **job: Any) -> Running:
        job |= {"args": args, "cwd": str(self.folder), "streams": streams, "is_file": self.runs_files}
        self._running = Running(self._forker, self.folder, self._forker.start(**job))
        return self._running


def wait_until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def _read(terminal: int, again: str = "") -> str:
    """Return the next output on a terminal; empty if the command has ended."""
    ready = select.poll()  # `select.select` takes no number above 1,024, and workers open many files
    ready.register(terminal, select.POLLIN)
    for _ in range(int(PATIENCE)):
        if ready.poll(1000):
            break
        if again == CTRL_C:  # it may have arrived between the prompt and the reading
            os.write(terminal, again.encode())
    else:
        raise AssertionError("nothing is printed, and the command does not end")
    try:
        return os.read(terminal, 4096).decode()
    except OSError:
        return ""


def redirect(streams: list[str], cwd: str) -> None:
    """Have a forked process use files, or a terminal, as its standard streams."""
    os.setsid()
    for number, path in enumerate(streams):
        os.dup2(os.open(path, os.O_RDWR), number)
    os.chdir(cwd)


def act(
    args: list[str],
    cwd: str,
    streams: list[str],
    is_file: bool,
    env: dict[str, str] | None = None,
    without: str = "",
) -> None:
    """Run the command line, or a file, in a forked process."""
    from agentgraph.cli import main

    redirect(streams, cwd)
    os.environ.pop("OPENAI_API_KEY", None)
    os.environ.update(env or {})
    if without:
        sys.modules[without] = None  # type: ignore[assignment]
    if is_file:
        sys.argv = args
        sys.path.insert(0, str(Path(args[0]).resolve().parent))  # as Python does
        runpy.run_path(args[0], run_name="__main__")
    else:
        sys.argv = ["agentgraph", *args]
        main()

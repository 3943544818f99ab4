"""Runs the command line in processes of their own, forked from one that has imported it already.

A fresh interpreter takes seconds to import LangGraph; a forked one starts at once, and is as
much a process: it has its exit code, its standard streams, and hears signals.
"""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 30.0


@dataclass(frozen=True)
class Ended:
    """What a command left: its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def go_on(self) -> str:
        """The command that the last line of standard error ends with."""
        return self.err.splitlines()[-1].partition(": ")[2]


class Running:
    """A command that runs."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server, self._folder = server, folder
        self.pid = int(self._read())

    def said(self, what: str) -> None:
        """Wait until a text was printed."""
        wait_until(lambda: what in self.out + self.err)

    @property
    def out(self) -> str:
        return (self._folder / ".out").read_text()

    @property
    def err(self) -> str:
        return (self._folder / ".err").read_text()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> Ended:
        return Ended(self.wait_for_code(), self.out, self.err)

    def wait_for_code(self) -> int:
        return int(self._read())

    def _read(self) -> str:
        assert self._server.stdout is not None
        return self._server.stdout.readline()


class Commands:
    """Starts commands in a folder, one at a time; each of its calls runs one."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server, self.folder = server, folder

    def __call__(self, *args: str, stdin: str | bytes = "", env: dict[str, str] | None = None) -> Ended:
        """Run a command to its end."""
        return self.start(*args, stdin=stdin, env=env).wait()

    def start(self, *args: str, stdin: str | bytes = "", env: dict[str, str] | None = None) -> Running:
        """Start a command; its standard streams are files."""
        (self.folder / ".in").write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
        streams = [str(self.folder / name) for name in (".in", ".out", ".err")]
        return self._start(args, streams, env)

    def at_terminal(self, *args: str, typed: Sequence[tuple[str, str]]) -> Ended:
        """Run a command at a terminal; type each text when the one before it was printed."""
        terminal, device = pty.openpty()
        running = self._start(args, [os.ttyname(device)] * 3, {"TERM": "dumb", "COLUMNS": "200"})
        os.close(device)
        shown, left = [""], list(typed)
        while piece := _read(terminal):
            shown[-1] += piece
            if left and left[0][0] in shown[-1]:
                os.write(terminal, left.pop(0)[1].encode())
                shown.append("")
        os.close(terminal)
        assert not left, f"{left[0][0]!r} was not printed: {shown}"
        return Ended(running.wait_for_code(), "".join(shown).replace("\r\n", "\n"), "")

    def _start(self, args: Sequence[str], streams: list[str], env: dict[str, str] | None) -> Running:
        job = {"args": args, "cwd": str(self.folder), "streams": streams, "env": env or {}}
        assert self._server.stdin is not None
        print(json.dumps(job), file=self._server.stdin, flush=True)
        return Running(self._server, self.folder)


@contextmanager
def serving() -> Iterator[subprocess.Popen[str]]:
    """Start the process from which all commands are forked."""
    arguments = [sys.executable, __file__]
    with subprocess.Popen(arguments, stdin=-1, stdout=-1, text=True) as server:
        yield server


def wait_until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def _read(terminal: int) -> str:
    """Return what is printed next on a terminal; nothing where the command has ended."""
    ready, _, _ = select.select([terminal], [], [], PATIENCE)
    assert ready, "nothing is printed, and the command does not end"
    try:
        return os.read(terminal, 4096).decode()
    except OSError:
        return ""


def _serve() -> None:
    """Fork a process for each job that a line of standard input describes, and tell its end."""
    import agentgraph.command_line.commands
    import agentgraph.demo.models  # noqa: F401

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(**json.loads(line))
            return
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(args: list[str], cwd: str, streams: list[str], env: dict[str, str]) -> None:
    from agentgraph.cli import main

    os.setsid()
    modes = (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_TRUNC, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for number, (path, mode) in enumerate(zip(streams, modes, strict=True)):
        os.dup2(os.open(path, mode), number)
    os.chdir(cwd)
    os.environ.pop("OPENAI_API_KEY", None)
    os.environ.update(env)
    sys.argv = ["agentgraph", *args]
    main()


if __name__ == "__main__":
    _serve()

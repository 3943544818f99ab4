"""Starts the programs of this folder, and kills them: for the tests.

A program starts in a process that is forked from one that has imported the packages already.
"""

import asyncio
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

import agentgraph as ag

PATIENCE = 120  # seconds
CALLED, SAVED = "called", "saved"
"""The places where `advance` was called, and where the engine has not saved its result yet."""

context = get_context("forkserver")
context.set_forkserver_preload(
    ["agentgraph.journal.savers.sqlite", "langgraph.checkpoint.postgres", "dbos", "temporalio.worker"]
)


class Line(NamedTuple):
    """A line of the log, which a step writes when it starts."""

    thread: str
    address: str
    process: str
    key: str


class Programs:
    """The programs of a test, which share a folder and its log.

    Attributes:
        folder: The folder.
        running: The processes, by their ids.
        killed: The ids of the processes that were killed.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.running: dict[str, ForkServerProcess] = {}
        self.killed: list[str] = []
        self._environment = {**environment, "LOG": str(folder / "log"), "SECONDS": "1"}
        self._read = 0

    def start(self, module: str, *arguments: str) -> ForkServerProcess:
        """Start a program of this folder."""
        options = (module, arguments, str(self.folder), self._environment)
        process = context.Process(target=_run, args=options)
        process.start()
        self.running[str(process.pid)] = process
        return process

    def steps(self, thread: str) -> list[Line]:
        """Return the lines of the steps of a thread."""
        lines = (line for line in self.lines() if line.thread == thread)
        return [line for line in lines if line.address not in (CALLED, SAVED)]

    def lines(self) -> list[Line]:
        """Return the complete lines of the log; the last line may be incomplete."""
        log = self.folder / "log"
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        return [Line(*line.split()) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def kill(self, thread: str, place: str) -> str:
        """Kill the process that begins a step of a thread next; return the id of the process."""
        begun: Line = self.until(lambda: self.begun(thread, place), f"{thread} at {place}")
        os.kill(int(begun.process), signal.SIGKILL)
        if process := self.running.pop(begun.process, None):
            process.join()
        self.killed.append(begun.process)
        return begun.process

    def suspend(self, thread: str, place: str) -> str:
        """Suspend the process that begins a step of a thread next; return the id of the process."""
        begun: Line = self.until(lambda: self.begun(thread, place), f"{thread} at {place}")
        os.kill(int(begun.process), signal.SIGSTOP)
        return begun.process

    def begun(self, thread: str, place: str) -> Line | None:
        """Return the next line that a step of a thread has written, if there is one."""
        for number, line in enumerate(self.lines()[self._read :], start=self._read + 1):
            if line.thread == thread and line.address.endswith(place):
                self._read = number
                return line
        return None

    def until(self, find: Callable[[], Any], what: str) -> Any:
        """Wait until a value is found, and return it."""
        end = time.monotonic() + PATIENCE
        while not (found := find()):
            assert time.monotonic() < end, f"{what}: not within {PATIENCE} seconds; {self.lines()}"
            time.sleep(0.02)
        return found

    def until_printed(self, text: str) -> None:
        """Wait until a program has printed a text."""
        files = self.folder.glob
        self.until(lambda: any(text in each.read_text() for each in files("*.out")), text)

    def end(self) -> None:
        """Kill the processes that still run, and the processes that these started."""
        for process in self.running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()


def _run(module: str, arguments: tuple[str, ...], folder: str, environment: dict[str, str]) -> None:
    """Be a program, whose calls of `advance` take a while between our save and that of the engine."""
    os.setsid()
    os.chdir(folder)
    os.environ.update(environment)
    with open(f"{os.getpid()}.out", "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    advance, aadvance = ag.Runner.advance, ag.Runner.aadvance

    seconds = float(environment["SECONDS"])

    def note(thread_id: str, place: str) -> None:
        with open(environment["LOG"], "a", encoding="utf-8") as log:
            log.write(f"{thread_id} {place} {os.getpid()} -\n")

    def slow(runner: ag.Runner, thread_id: str, *args: Any, **options: Any) -> ag.Result:
        note(thread_id, CALLED)
        result = advance(runner, thread_id, *args, **options)
        note(thread_id, SAVED)
        time.sleep(seconds)
        return result

    async def aslow(runner: ag.Runner, thread_id: str, *args: Any, **options: Any) -> ag.Result:
        note(thread_id, CALLED)
        result = await aadvance(runner, thread_id, *args, **options)
        note(thread_id, SAVED)
        await asyncio.sleep(seconds)
        return result

    for name, method in (("advance", slow), ("aadvance", aslow)):
        setattr(ag.Runner, name, method)
    sys.argv = [module, *arguments]
    runpy.run_module(f"examples.durable.{module}", run_name="__main__", alter_sys=True)

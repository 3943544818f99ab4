"""A program that forks while a run is open, and prints what the new process can do with the run.

`python forked_process.py FOLDER ACT PLACE` prints what `ACT` gave in the new process, how that ended,
and then the status of the thread once the first process has read the run to its end. `PLACE` is
"SQLite", "memory" or the URL of a database.
"""

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agentgraph as ag

PATIENCE = 20


def agent(name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        time.sleep(0.002)
        return name

    return ag.function_agent(name, fn)


def tree() -> ag.Agent:
    return ag.sequential(
        "s", [agent("a"), ag.parallel("p", [agent("b"), agent("c")]), agent("d"), agent("z")]
    )


class Open:
    """A run of which one event has been read."""

    def __init__(self, path: Path | str | None) -> None:
        self.path = path
        self.runner = ag.Runner(tree(), checkpointer=path)
        self.run: Any = self.runner.run("Go.", thread_id="t")
        self.follow = self.runner.follow("t")
        next(self.run)
        next(self.follow)

    def close(self) -> None:
        self.run.close()
        self.run.close()

    def leave(self) -> None:
        with self.run:
            pass

    def drop(self) -> None:
        self.run = None

    def read(self) -> list[str]:
        return [event.text for event in self.run]

    def read_on(self) -> list[str]:
        return [event.text for event in self.follow]

    def read_another(self) -> list[str]:
        return sorted(event.text for event in self.runner.run("Go.", thread_id="other"))

    def read_async(self) -> str:
        import asyncio

        return str(asyncio.run(self.runner.ainvoke("Go.", thread_id="async")).text)

    def start(self) -> list[str]:
        self.runner.start("Go.", thread_id="begun")
        said = sorted({event.text for event in self.runner.follow("begun")} - {""})
        self.runner.close()
        return said

    def read_same(self) -> list[str]:
        return [event.text for event in self.runner.resume("t")]

    def read_with_another(self) -> list[str]:
        with ag.Runner(tree(), checkpointer=self.path) as runner:
            return [event.text for event in runner.resume("t")]

    def exit(self) -> None:
        sys.exit(0)


ACTS: dict[str, tuple[Callable[[Open], Any], str]] = {
    "close": (Open.close, "None"),
    "leave": (Open.leave, "None"),
    "drop": (Open.drop, "None"),
    "read": (Open.read, "AgentGraphError"),
    "follow": (Open.read_on, "AgentGraphError"),
    "another thread": (Open.read_another, "['a', 'b', 'c', 'd', 'z']"),
    "async": (Open.read_async, "z"),
    "start": (Open.start, "['a', 'b', 'c', 'd', 'z']"),
    "the same thread": (Open.read_same, "ThreadBusyError"),
    "another runner": (Open.read_with_another, "ThreadBusyError"),
    "exit": (Open.exit, ""),
}


def main(folder: str, act: str, place: str) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    file = Path(folder) / "runs.db"
    opened = Open({"SQLite": file, "memory": None}.get(place, place))
    if (pid := os.fork()) == 0:
        signal.alarm(PATIENCE)
        if act == "exit":
            sys.exit(0)
        try:
            print(ACTS[act][0](opened), flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)
        os._exit(0)
    print("ended with", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    rest = [event.text for event in opened.run]
    print(rest, opened.runner.thread("t").status)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Processes that are forked from one that has imported already what takes seconds to import."""

import atexit
import faulthandler
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

_IMPORTED = (
    *("agentgraph.cli.commands", "agentgraph.window.app", "uvicorn", "helpers"),
    *("agentgraph.graph.chat.wiring", "agentgraph.journal.savers.sqlite", "langgraph.graph"),
    "jsonschema",  # takes seconds where all of its optional packages are installed
)
_LONGEST = 200.0
"""Seconds after which a process is ended, and shows the stacks of its threads."""


class Forker:
    """The process that forks the others, one at a time."""

    def __init__(self, server: "subprocess.Popen[str]", module: str = "helpers.commands") -> None:
        self._server, self._module = server, module

    def of(self, module: str) -> "Forker":
        """Return a forker whose process also forks processes for the jobs of another module."""
        return Forker(self._server, module)

    def start(self, **job: Any) -> int:
        """Start a process that calls the module's `act` with a job, and return its id."""
        assert self._server.stdin is not None
        print(json.dumps([self._module, job]), file=self._server.stdin, flush=True)
        return self._answer()

    def wait(self) -> int:
        """Wait until the process that was started last has ended, and return its exit code."""
        return self._answer()

    def _answer(self) -> int:
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())


@contextmanager
def serving() -> Iterator[Forker]:
    """Start this module as a program, which finds what the caller finds."""
    arguments = [sys.executable, "-P", "-m", "helpers.forking"]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(arguments, stdin=-1, stdout=-1, text=True, env=found) as server:
        yield Forker(server)


def _serve() -> None:
    """Fork a process for each job that a line of standard input describes, and report its end."""
    for name in _IMPORTED:
        import_module(name)
    _run_once()
    gc.freeze()  # what is imported stays in the pages that all processes share
    for line in sys.stdin:
        module, job = json.loads(line)
        act = import_module(module).act
        pid = os.fork()
        if pid == 0:
            faulthandler.dump_traceback_later(_LONGEST, exit=True)
            _end(_code_of(act, job))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _run_once() -> None:
    """Run a tree: the first run makes types and schemas, and imports, which all others find."""
    from agentgraph import human, parallel, sequential
    from agentgraph.testing import call, calls
    from helpers import Async, Disk, Sync, add, chat, says

    person = human("person", "Done?")
    for drive in (Sync, Async):
        chats = chat("chat", calls(call("add", a=1, b=2)), "3.", tools=[add])
        tree = sequential("tree", [parallel("fork", [says("a", "A."), chats]), person])
        with tempfile.TemporaryDirectory() as folder:
            disk = Disk(drive, Path(folder) / "threads.db")
            disk.run(tree)
            disk.resume(tree, "Yes.")
    for thread in threading.enumerate():
        if thread.daemon:  # it ends a little later; a process that is forked in between may miss a lock
            thread.join()
    tempfile.tempdir = None  # each process looks for its own


def _code_of(act: Callable[..., None], job: dict[str, Any]) -> int:
    """Do a job, and return the exit code of a program that does it."""
    try:
        act(**job)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        raise
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(code: int) -> None:
    """End this process as the interpreter does, but leave its memory as it is.

    To free all modules would take ten times as long as the fork, and the pages are shared.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()

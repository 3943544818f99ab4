"""Runs requests of random trees in processes that kill themselves after a save or an event.

`helpers.forking` forks a process for each job, which calls `act`.
"""

import json
import os
import pickle
import signal
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from conversations import Thread
from helpers import Async, Sync
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from passing import Passed
from record import Record

import agentgraph as ag


class _From(Counter[str]):
    """Counts from a number on."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first

    def __missing__(self, key: str) -> int:
        return self._first


def act(folder: str, number: int, mode: str, dies: str, after: int, url: str = "") -> None:
    """Make the request of a folder, on its file or a database; write its events, and how it ended."""
    at, left, has_input = Path(folder), after, False
    case, is_answered, method, arguments, options = pickle.loads((at / "request").read_bytes())

    def count(what: str) -> None:
        """Kill the process after so many saves or events."""
        nonlocal left
        left -= what == dies
        if left == 0 and what == dies:
            os.kill(os.getpid(), signal.SIGKILL)

    def count_save(name: str) -> None:
        """Count a save; of a run once its input is saved: LangGraph may save a first result before."""
        nonlocal has_input
        has_input |= method != "run" or name in ("put", "aput")
        if has_input:
            count("saved")

    count_saves(count_save)
    thread = Thread(case, Async if mode == "async" else Sync, url or at / "threads.db")
    thread.is_answered, thread.was_killed = is_answered, number > 0
    thread.passed = [Passed(earlier) for earlier in range(number)]
    thread.record = Record(saw=defaultdict(lambda: [None] * number), tried=_From(number))
    with (at / f"heard-{number}").open("w") as file:

        def hear(event: ag.AgentEvent) -> None:
            print(json.dumps(event.to_dict()), file=file, flush=True)
            count("heard")

        thread.hear = hear
        thread.call(method, *arguments, **options)
    error = thread.error
    conflicts = list(error.names) if isinstance(error, ag.ValueConflictError) else []
    (at / "ended").write_text(json.dumps({"failed": error is not None, "conflicts": conflicts}))
    os._exit(0)  # for Python to tear all modules down takes as long as a request


def count_saves(count: Callable[[str], None]) -> None:
    """Have each save of a saver of this process call a function with the method's name."""
    for kind, names in (
        (SqliteSaver, ("put", "put_writes")),
        (AsyncSqliteSaver, ("aput", "aput_writes")),
        (PostgresSaver, ("put", "put_writes")),
    ):
        for name in names:
            setattr(kind, name, _counted(getattr(kind, name), partial(count, name)))


def _counted(save: Any, count: Callable[[], None]) -> Any:
    def saved(*args: Any, **options: Any) -> Any:
        result = save(*args, **options)
        count()
        return result

    async def asaved(*args: Any, **options: Any) -> Any:
        result = await save(*args, **options)
        count()
        return result

    return asaved if iscoroutinefunction(save) else saved

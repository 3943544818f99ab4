"""Looks at what other processes request of the runs of this one, and at the deadlines of questions.

A step must not be slower because a caller might have a request, so the runs do not look themselves.
While there are runs, one thread looks at each of them a few times a second, but never at one that is
younger than that. In memory it only looks if a question has a deadline. Requests of the same process
need no look: they reach the run through its lock.
"""

import asyncio
import os
import threading
import time
from contextlib import suppress

from langgraph.checkpoint.memory import InMemorySaver

from agentgraph.graph.open_types import Saver
from agentgraph.graph.sync_async import run_calls
from agentgraph.journal.locks import holders
from agentgraph.threads.live.active_run import ActiveRun

SECONDS = 0.25
"""How long it takes at most until a request of another process is seen, plus the time of a look."""

_guard = threading.RLock()  # reentrant: a signal handler may begin a run
_is_watching = False
"""Whether the thread runs."""


def _forget() -> None:
    """Start from scratch in a forked process, which has no such thread; the lock may be taken."""
    global _guard, _is_watching
    _guard, _is_watching = threading.RLock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def is_shared(saver: Saver) -> bool:
    """Return whether other processes may have the threads of a saver."""
    return not isinstance(saver, InMemorySaver)


def watch(saver: Saver) -> None:
    """Have the runs of this process watched, if a saver has threads that others may have."""
    if is_shared(saver):
        start_watching()


def start_watching() -> None:
    """Have the runs of this process watched, while there are any."""
    global _is_watching
    if _is_watching:
        return
    with _guard:
        if not _is_watching:
            try:
                _is_watching = True
                threading.Thread(target=_watch, name="agentgraph-watcher", daemon=True).start()
            except BaseException:  # of a signal handler: the next run starts it
                _is_watching = False
                raise


def _watch() -> None:
    global _is_watching
    while True:
        time.sleep(SECONDS)
        with _guard:
            runs = [each for each in holders() if isinstance(each, ActiveRun)]
            if not runs:
                _is_watching = False
                return
        due = time.time() - SECONDS
        for run in runs:
            if run.thread is not None and run.began <= due and _is_due(run, run.thread.saver):
                with suppress(BaseException):  # a saver that fails will fail in the run, too
                    _poll(run, run.thread.saver)


def _is_due(run: ActiveRun, saver: Saver) -> bool:
    return is_shared(saver) or bool(run.desk.overdue(time.time()))


def _poll(run: ActiveRun, saver: Saver) -> None:
    loop = getattr(saver, "loop", None)
    if not isinstance(loop, asyncio.AbstractEventLoop):
        run_calls(run.poll())
    elif loop.is_running():
        loop.call_soon_threadsafe(run.start_polling)

"""Runs that outlive their reader: what `Runner.start` began is read to its end in the background.

Such a run lives as long as the program, and one in a task as long as its event loop. A runner that is
closed stops them before their next steps, and waits for that; the end of the program does so, too.
Python shuts all pools of threads down at the end of the main thread: a run that continued would fail.
"""

import asyncio
import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from weakref import WeakSet

from agentgraph.errors import AgentGraphError
from agentgraph.graph.outside import apart
from agentgraph.journal.forked import OfProcess
from agentgraph.safe_repr import shown
from agentgraph.threads.live.following import Follow
from agentgraph.threads.runs import AsyncRun, Run

log = logging.getLogger("agentgraph.background")

MAX_RUNNING = 32
"""Default number of runs of a runner that run in the background at a time."""
_FAILED = "the run on thread %r failed; see its status; resume() continues it"


class Background:
    """Reads runs to their end, a limited number at a time; the others hold their threads and wait.

    Runs begin in the order in which they were added, or one that waits for another run on its thread
    might take the place that this one needs.
    """

    def __init__(self, max_running: int, stop: Callable[[str], object]) -> None:
        """Make it.

        Args:
            max_running: How many runs it reads at a time.
            stop: Stops the run on a thread.

        Raises:
            AgentGraphError: `max_running` is not an integer of at least 1.
        """
        if not isinstance(max_running, int) or max_running < 1:
            raise AgentGraphError(
                f"max_running={shown(max_running)} is out of range; pass an integer of at least 1"
            )
        self._max_running, self._running, self._stop = max_running, 0, stop
        self._waiting: deque[Callable[[], None]] = deque()
        self._runs: dict[Run | Follow, threading.Thread] = {}
        self._changed = threading.Condition()
        self._tasks: dict[asyncio.Task[None], AsyncRun] = {}
        self._owner = OfProcess()

    @property
    def is_idle(self) -> bool:
        """Whether it has no runs."""
        return not self._runs and not self._tasks

    def add(self, run: Run | Follow) -> None:
        """Have a run read in a thread, when it is its turn."""
        self._drop_inherited()
        _stop_at_exit(self)
        name = "agentgraph-start"
        work = partial(apart().run, self._work, run)
        thread = threading.Thread(target=work, name=name, daemon=True)
        with self._changed:
            self._runs[run] = thread
        self._enter(thread.start)

    def aadd(self, run: AsyncRun) -> None:
        """Have a run read in a task of the event loop, when it is its turn."""
        self._drop_inherited()
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        task = loop.create_task(self._awork(run, turn), context=apart())
        self._tasks[task] = run
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        self._enter(partial(self._start_on, loop, turn))

    def close(self) -> None:
        """Stop the runs in threads, and wait until none is left but one that calls this."""
        self._drop_inherited()
        here = threading.current_thread()
        with self._changed:
            runs = {run: thread for run, thread in self._runs.items() if thread is not here}
        for run in runs:
            if isinstance(run, Follow):  # the run on its thread may be another caller's
                run.close()
            else:
                self._stop(run.thread_id)
        with self._changed:
            self._changed.wait_for(lambda: self._runs.keys().isdisjoint(runs))

    async def aclose(self) -> None:
        """Stop the runs in tasks of this event loop, and wait until none is left."""
        self._drop_inherited()
        loop = asyncio.get_running_loop()
        mine = {task: run for task, run in self._tasks.items() if task.get_loop() is loop}
        for run in mine.values():
            if run.follows:
                await run.aclose()
            else:
                self._stop(run.thread_id)
        await asyncio.gather(*mine, return_exceptions=True)

    def _drop_inherited(self) -> None:
        if self._owner.is_foreign:
            self._owner.keep((self._runs, self._tasks, self._waiting))
            self._owner, self._changed, self._running = OfProcess(), threading.Condition(), 0
            self._runs, self._tasks, self._waiting = {}, {}, deque()

    def _enter(self, begin: Callable[[], None]) -> None:
        with self._changed:
            if self._running >= self._max_running:
                self._waiting.append(begin)
                return
            self._running += 1
        begin()

    def _leave(self) -> None:
        with self._changed:
            begin = self._waiting.popleft() if self._waiting else None
            self._running -= begin is None
        if begin is not None:
            begin()

    def _start_on(self, loop: asyncio.AbstractEventLoop, turn: "asyncio.Future[None]") -> None:
        def begin() -> None:
            if turn.done():  # its task was cancelled
                self._leave()
            else:
                turn.set_result(None)

        try:
            loop.call_soon_threadsafe(begin)
        except RuntimeError:  # the event loop is closed, and with it the run
            self._leave()

    def _work(self, run: Run | Follow) -> None:
        try:
            for _ in run:
                pass
        except BaseException:  # whatever it was, the next one has its turn
            log.exception(_FAILED, run.thread_id)
        finally:
            with self._changed:
                self._runs.pop(run, None)
                self._changed.notify_all()
            self._leave()

    async def _awork(self, run: AsyncRun, turn: "asyncio.Future[None]") -> None:
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it has its place already
                self._leave()
            raise
        try:
            async for _ in run:
                pass
        except Exception:
            log.exception(_FAILED, run.thread_id)
        finally:
            self._leave()


_exit = threading.Lock()
_process: list[int] = []
"""The process whose end stops runs; one that was forked from it has none of them."""
_open: "WeakSet[Background]" = WeakSet()


def _stop_at_exit(background: Background) -> None:
    with _exit:
        if os.getpid() not in _process:
            _process[:] = [os.getpid()]
            _open.clear()
            # atexit is too late: it comes after the end of the pools of threads
            register = getattr(threading, "_register_atexit", atexit.register)
            register(partial(_stop_all, os.getpid()))
        _open.add(background)


def _stop_all(process: int) -> None:
    for each in [*_open] if process == os.getpid() else ():
        each.close()

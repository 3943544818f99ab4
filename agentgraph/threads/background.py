"""Runs that outlive their reader: what `Runner.start` began is read to its end in the background.

Such a run lives as long as the program: one that ends cuts it off as a kill does, and a resume goes on.
A runner that is closed stops them before their next steps, and waits for that.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from weakref import WeakSet

from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown
from agentgraph.threads.following import Follow
from agentgraph.threads.runs import AsyncRun, Run

log = logging.getLogger("agentgraph")

MAX_RUNNING = 32
"""How many runs of a runner run in the background at a time, unless it is told otherwise."""
_FAILED = "the run on thread %r failed; its status says how it stands, and resume() goes on"


class Background:
    """Reads runs to their end, a limited number at a time; the others hold their threads and wait.

    Runs in threads and runs in tasks of an event loop are counted apart.
    """

    def __init__(self, max_running: int, stop: Callable[[str], object]) -> None:
        """Make it.

        Args:
            max_running: How many runs it reads at a time.
            stop: Stops the run on a thread.

        Raises:
            AgentGraphError: `max_running` is no number from 1 on.
        """
        if not isinstance(max_running, int) or max_running < 1:
            raise AgentGraphError(f"max_running={shown(max_running)} is no number from 1 on")
        self._max_running, self._running, self._stop = max_running, 0, stop
        self._waiting: deque[Run | Follow] = deque()
        self._runs: set[Run | Follow] = set()
        self._tasks_running = 0
        self._changed, self._workers = threading.Condition(), WeakSet[threading.Thread]()
        self._tasks: dict[asyncio.Task[None], AsyncRun] = {}

    def add(self, run: Run | Follow) -> None:
        """Have a run read in a thread, when it is its turn."""
        with self._changed:
            self._waiting.append(run)
            self._runs.add(run)
            if self._running >= self._max_running:
                return
            self._running += 1
        worker = threading.Thread(target=self._work, name="agentgraph-start", daemon=True)
        self._workers.add(worker)
        worker.start()

    def aadd(self, run: AsyncRun) -> None:
        """Have a run read in a task of the event loop, when it is its turn."""
        task = asyncio.get_running_loop().create_task(self._awork(run))
        self._tasks[task] = run
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def close(self) -> None:
        """Stop the runs in threads, and wait until none is left but one that calls this."""
        with self._changed:
            runs = [*self._runs]
        for run in runs:
            self._stop(run.thread_id)
        with self._changed:
            is_inside = threading.current_thread() in self._workers
            self._changed.wait_for(lambda: self._running <= is_inside)

    async def aclose(self) -> None:
        """Stop the runs in tasks of this event loop, and wait until none is left."""
        loop = asyncio.get_running_loop()
        mine = {task: run for task, run in self._tasks.items() if task.get_loop() is loop}
        for run in mine.values():
            self._stop(run.thread_id)
        await asyncio.gather(*mine, return_exceptions=True)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._running -= 1
                    self._changed.notify_all()
                    return
                run = self._waiting.popleft()
            try:
                for _ in run:
                    pass
            except Exception:
                log.exception(_FAILED, run.thread_id)
            finally:
                self._runs.discard(run)

    async def _awork(self, run: AsyncRun) -> None:
        while self._tasks_running >= self._max_running:
            await asyncio.sleep(_SECONDS)
        self._tasks_running += 1
        try:
            async for _ in run:
                pass
        except Exception:
            log.exception(_FAILED, run.thread_id)
        finally:
            self._tasks_running -= 1


_SECONDS = 0.05
"""How often a task that waits for its turn looks whether it has come."""

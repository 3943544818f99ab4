"""What grows with the length of a run: bytes on disk, the way back into it, memory of its events."""

import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loops import HELLO, two
from measure import Contender, Figure, copied, side_by_side

import agentgraph as ag


def figures() -> Iterator[Figure]:
    """Measure each on a long run and on a short one."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        long, short = _bytes_a_step(folder, 500), _bytes_a_step(folder, 100)
        yield _grown("bytes on disk a step, 500 iterations", long, short, "100 iterations", "B", 1.3)
        long, short = side_by_side(_paused(folder, 500), _paused(folder, 10), repeats=9)
        yield _grown("first event after resume, 500 rounds", long, short, "10 rounds", "ms", 1.5)
        long, short = _bytes_an_event(10_000), _bytes_an_event(1_000)
        yield _grown("memory an event, 10,000 steps", long, short, "1,000 steps", "B", 1.1)


def _grown(name: str, long: float, short: float, against: str, unit: str, aim: float) -> Figure:
    return Figure(name=name, ours=long, theirs=short, against=against, unit=unit, aim=aim)


def _bytes_a_step(folder: Path, iterations: int) -> float:
    path = folder / f"{iterations}.db"
    with ag.sqlite_saver(path) as saver:
        for _ in ag.Runner(two(iterations), checkpointer=saver).run("hi"):
            pass
    return path.stat().st_size / (2 * iterations)


def _paused(folder: Path, rounds: int) -> Contender:
    """Pause a run at a person behind its loop; each call goes on with a copy of its file."""
    tree = ag.sequential("s", [two(rounds), ag.human("boss", "Print it?")])
    kept, copy = folder / f"paused-{rounds}.db", folder / f"resumed-{rounds}.db"
    with ag.sqlite_saver(kept) as saver:
        for _ in ag.Runner(tree, checkpointer=saver).run("hi", thread_id="t"):
            pass

    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        copied(kept, copy)
        with ag.sqlite_saver(copy) as saver:
            runner = ag.Runner(tree, checkpointer=saver)
            yield lambda: _first(runner.resume("t", "yes"))

    return contender


def _first(events: Iterator[ag.AgentEvent]) -> tuple[ag.AgentEvent, Iterator[ag.AgentEvent]]:
    """Return the first event, with the run it is of, so that leaving the run is not timed."""
    return next(events), events


def _bytes_an_event(steps: int) -> float:
    """Hold all events of a run, with their messages and paths.

    They are told from a copy of the run's stream, made while memory is traced: traced, a run
    itself would take minutes.
    """
    tree = two(steps // 2)
    stream = ag.compile_agent(tree).stream(HELLO, stream_mode="updates", version="v2")
    parts = pickle.dumps(list(stream))
    tracemalloc.start()
    events = list(ag.translate(tree, pickle.loads(parts)))
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / len(events)

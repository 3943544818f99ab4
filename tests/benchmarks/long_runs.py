"""What a step costs late in a long run, and what reading such a run costs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loops import THREAD, two
from measure import Contender, Figure, memory, seconds, side_by_side
from steps import by_hand, ours

import agentgraph as ag

_SHORT, _LONG, _LONGEST = 50, 1_000, 5_000
"""Iterations, each of two steps."""
_ID = str(THREAD["configurable"]["thread_id"])


def figures() -> Iterator[Figure]:
    """Time steps, and readers, by the processor."""
    both = [ours(rounds=each) for each in (_LONGEST, _SHORT)]
    late, early = (seconds(each) for each in both)
    name = f"step of a run of {2 * _LONGEST:,}, no saver"
    late, early = late / (2 * _LONGEST), early / (2 * _SHORT)
    yield _of(name, late, early, f"step of a run of {2 * _SHORT}", "ms", 1.3)
    several = [made(rounds=_LONG) for made in (ours, by_hand)]
    mine, hand = side_by_side(*several, repeats=3)
    name = f"step of a run of {2 * _LONG:,}, no saver"
    yield _of(name, mine / (2 * _LONG), hand / (2 * _LONG), "flat graph by hand", "ms", 1.0)
    with TemporaryDirectory() as folder:
        yield from _readers(Path(folder))


def _readers(folder: Path) -> Iterator[Figure]:
    """Hold readers of a thread on SQLite against `events()`, and that against a shorter thread."""
    names, events = count(), 2 * _LONG
    long, short = (_kept(folder / f"{next(names)}.db", each) for each in (_LONG, _LONG // 10))
    took = partial(side_by_side, repeats=3)
    for name, read, aim in (
        ("thread()", lambda runner: runner.thread(_ID), 1.1),
        ("timeline()", lambda runner: runner.timeline(_ID), 1.5),
    ):
        mine, theirs = took(_reading(long, read), _reading(long, _all_events))
        yield _of(f"{name}, {events:,} events", mine, theirs, "events()", "ms", aim)
    mine, theirs = took(_reading(long, _all_events), _reading(short, _all_events))
    against = f"one of {events // 10}"
    yield _of(f"events(), one of {events:,}", mine / events, theirs * 10 / events, against, "ms", 1.2)
    most, held = memory(_reading(long, _all_events))
    name, beside = "events(), memory an event beside the events", (most - held) / events
    yield Figure(name=name, ours=beside, unit="B", aim=4_000)


def _of(name: str, ours: float, theirs: float, against: str, unit: str, aim: float) -> Figure:
    return Figure(name=name, ours=ours, theirs=theirs, against=against, unit=unit, aim=aim)


def _all_events(runner: ag.Runner) -> list[ag.AgentEvent]:
    return [*runner.events(_ID)]


def _kept(path: Path, rounds: int) -> Path:
    """Run a loop to its end on a new file."""
    with ag.sqlite_saver(path) as saver:
        ag.Runner(two(rounds), checkpointer=saver).invoke("hi", thread_id=_ID)
    return path


def _reading(path: Path, read: Callable[[ag.Runner], Any]) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        with ag.sqlite_saver(path) as saver:
            runner = ag.Runner(two(_LONG), checkpointer=saver)
            yield lambda: read(runner)

    return contender

"""What a step costs late in a long run, and what reading long threads and resuming them costs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loops import THREAD, two
from measure import Contender, Figure, copied, grown, memory, side_by_side
from resumes import items
from steps import by_hand, ours

import agentgraph as ag

Made = Callable[[int], ag.Agent]
Read = Callable[[ag.Runner], object]
_FEW, _MANY = 1_000, 10_000
_ID = str(THREAD["configurable"]["thread_id"])
_HALF = 0.178e-3
"""Half of the seconds that an event of a long thread took before reading was a stream."""


def all_events(runner: ag.Runner) -> list[ag.AgentEvent]:
    """Read a thread to its end."""
    return [*runner.events(_ID)]


READERS: dict[str, Read] = {
    "events()": all_events,
    "thread()": lambda runner: runner.thread(_ID),
    "timeline()": lambda runner: runner.timeline(_ID),
    "visits()": lambda runner: runner.visits(_ID),
}


def loop(events: int) -> ag.Agent:
    """Return a loop of so many steps."""
    return two(events // 2)


def figures() -> Iterator[Figure]:
    """Time steps late in a run, then readers of threads."""
    for many, few, repeats in ((2_000, 100, 3), (10_000, 100, 2)):
        totals = side_by_side(*(ours(rounds=each // 2) for each in (many, few)), repeats=repeats)
        name = f"step of a run of {many:,}, no saver"
        yield grown(name, totals, (many, few), of="one of a run of", unit="ms", aim=1.3)
    mine, hand = side_by_side(*(made(rounds=1_000) for made in (ours, by_hand)), repeats=3)
    name, against = "step of a run of 2,000, no saver", "flat graph by hand"
    yield Figure(name=name, ours=mine / 2e3, theirs=hand / 2e3, against=against, unit="ms", aim=1.0)
    with TemporaryDirectory() as folder:
        yield from _of_events(Path(folder))
        yield from _of_items(Path(folder))


def _of_events(folder: Path) -> Iterator[Figure]:
    """Hold readers of a thread of many events against `events()`, and that against a shorter one."""
    many, few = (partial(reading, loop, kept(folder, loop, n), n) for n in (_MANY, _FEW))
    took = dict(zip(READERS, side_by_side(*map(many, READERS.values()), repeats=3), strict=True))
    for (name, mine), aim in zip(took.items(), (_HALF, 1.1, 1.5, 1.5), strict=True):
        beside = (
            {} if name == "events()" else {"theirs": took["events()"] / _MANY, "against": "events()"}
        )
        name = f"{name}, one of {_MANY:,} events"
        yield Figure(name=name, ours=mine / _MANY, unit="ms", aim=aim, **beside)
    rest = {"of": "of", "unit": "ms"}
    totals = took["events()"], *side_by_side(few(all_events), repeats=3)
    yield grown(f"events(), one of {_MANY:,}", totals, (_MANY, _FEW), aim=1.2, **rest)
    totals = side_by_side(many(first), few(first), repeats=5)
    name = f"first event of events(), of {_MANY:,}"
    yield grown(name, totals, (_MANY, _FEW), is_whole=True, aim=1.5, **rest)
    most, held = memory(few(all_events))
    name, beside = f"events(), memory beside each of {_FEW:,}", (most - held) / _FEW
    yield Figure(name=name, ours=beside, unit="B", aim=4_000)


def _of_items(folder: Path) -> Iterator[Figure]:
    """Hold a thread of many items, of which one asks, against one of fewer."""
    paths = [kept(folder, items, count) for count in (_MANY, _FEW)]
    for name, read in {**READERS, "resume": resumed}.items():
        both = (reading(items, path, n, read) for path, n in zip(paths, (_MANY, _FEW), strict=True))
        name = f"{name} with one of {_MANY:,} items left, an item"
        totals = side_by_side(*both, repeats=2)
        yield grown(name, totals, (_MANY, _FEW), of="one of", unit="ms", aim=1.2)


def first(runner: ag.Runner) -> object:
    """Return the first event, with the others, so that leaving them is not timed."""
    events = runner.events(_ID)
    return next(events), events


def resumed(runner: ag.Runner) -> object:
    """Answer the question of a thread, and read the run to its end."""
    return [*runner.resume(_ID, "yes")]


def kept(folder: Path, made: Made, size: int) -> Path:
    """Run a tree of a size on a new file, until it ends or asks."""
    path = folder / f"{made.__name__}{size}.db"
    with ag.sqlite_saver(path) as saver:
        ag.Runner(made(size), checkpointer=saver).invoke("hi", thread_id=_ID)
    return path


def reading(made: Made, path: Path, size: int, read: Read) -> Contender:
    """Read a thread, or resume it, on a copy of its file."""

    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        copy = path.with_suffix(".copy")
        copied(path, copy)
        with ag.sqlite_saver(copy) as saver:
            runner = ag.Runner(made(size), checkpointer=saver)
            yield lambda: read(runner)

    return contender

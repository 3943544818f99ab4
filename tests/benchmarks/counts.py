"""What can be counted: bytes on disk, SQL statements, Python calls, bytes of memory."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import items
import many_runs
import nested
import resumes
import steps
from calls import count_calls
from long_runs import READERS, Made, Read, all_events, first, kept, loop, reading, resumed
from loops import HELLO, Opened, invoked, laid_flat
from measure import Contender, Figure, grown, memory

import agentgraph as ag

Run = Callable[..., Contender]
"""Returns what runs so many with a saver: `run(count, opened)`."""
_SIZE, _RUNS, _DEPTHS, _SIZES = 100, 20, (8, 4), (400, 50)
_STEPS, _BRANCHES, _LARGE = (100, 20), 20, 100_000
_REPEATS = 3  # threads that happen to run at once hold more
_THREADS: Mapping[str, tuple[Made, Mapping[str, Read]]] = {
    "an event": (loop, READERS),
    "an item": (resumes.items, {**READERS, "resume": resumed}),
}
"""For each kind of thread what it has many of, what runs it, and what reads it."""


def figures() -> Iterator[Figure]:
    """Count what runs write, what is read of them, and what they hold."""
    return chain.from_iterable(group() for group in GROUPS)


def written() -> Iterator[Figure]:
    """Count the statements and bytes of runs, beside those of graphs by hand."""
    pairs: dict[str, tuple[Run, Run, str]] = {
        "a loop step": (_loop(steps.ours), _loop(steps.by_hand), steps.HAND),
        "a branch": (items.branches, items.by_hand, "Send by hand"),
        "a workflow step": (items.steps, items.by_hand, "Send by hand"),
        "an item": (items.items, items.by_hand, "Send by hand"),
    }
    with TemporaryDirectory() as name:
        path = Path(name) / "x.db"
        for one, (ours, hand, against) in pairs.items():
            both = [_written(partial(run, _SIZE), path) for run in (ours, hand)]
            (mine, my_bytes), (theirs, their_bytes) = both
            yield _beside(f"statements of {one}", mine, theirs, against, "statements", 1.1)
            yield _beside(f"bytes of {one}, SQLite", my_bytes, their_bytes, against, "B", 1.3)
        totals = [_calls(_flattened(steps)) for steps in _STEPS]
        name = "calls of a step of a flattened graph"
        yield grown(name, totals, _STEPS, of="one of", unit="calls", aim=1.1)
        large, small = (_written(partial(_says, size), path)[1] * _SIZE for size in (_LARGE, 0))
        result = (large - small) / _BRANCHES
        yield _beside("bytes of a result of 100 kB, SQLite", result, _LARGE, "its size", "B", 2.1)
        for what, nest, aim in (
            ("parallels", nested.ours, 1.1),
            ("graphs by hand", nested.by_hand, 0.0),
        ):
            totals = [nested.size(nest, depth, path) for depth in _DEPTHS]
            yield nested.level(f"bytes of nested {what}", totals, _DEPTHS, aim, "B")


def read() -> Iterator[Figure]:
    """Count the calls and statements of readers and a resume, of long threads and of short ones."""
    with TemporaryDirectory() as folder:
        for one, (made, readers) in _THREADS.items():
            paths = [kept(Path(folder), made, size) for size in _SIZES]
            both = [partial(reading, made, *each) for each in zip(paths, _SIZES, strict=True)]
            calls = dict[str, float]()
            for name, reads in readers.items():
                totals = [_calls(each(reads)) for each in both]
                calls[name] = totals[0] / _SIZES[0]
                yield _grown(f"{name}, {one}", totals, 1.1)
                totals = [_statements(each, reads) for each in both]
                yield _grown(f"{name}, {one}", totals, 1.1, unit="statements")
            mine, theirs = calls["thread()"], calls["events()"]
            yield _beside(f"thread() beside events(), {one}", mine, theirs, "events()", "calls", 1.4)
            totals = [_calls(each(first)) for each in both]
            yield _grown(f"first event, of {_SIZES[0]} for {one}", totals, 1.5, is_whole=True)


def held() -> Iterator[Figure]:
    """Count the bytes that items, runs and readers hold at most."""
    many, few = _SIZES
    for is_async in (False, True):
        contenders = [items.items(size, nullcontext, is_async=is_async) for size in _SIZES]
        totals = [min(memory(each)[0] for _ in range(_REPEATS)) for each in contenders]
        name = f"memory of one more {'async ' if is_async else ''}item"
        yield Figure(name=name, ours=(totals[0] - totals[1]) / (many - few), unit="B", aim=4_000)
    mine, theirs = (memory(many_runs.together(run, _RUNS))[0] / _RUNS for run in _ASYNC_RUNS)
    name, against = "memory of an async run side by side", "its graph by hand, streamed alike"
    yield _beside(name, mine, theirs, against, "B", 1.2)
    with TemporaryDirectory() as folder:
        most, events = memory(reading(loop, kept(Path(folder), loop, many), many, all_events))
    name = "memory of events() beside the events, an event"
    yield Figure(name=name, ours=(most - events) / many, unit="B", aim=4_000)


GROUPS = (written, read, held)
_ASYNC_RUNS = (many_runs.ours, many_runs.by_hand)


def _beside(name: str, ours: float, theirs: float, against: str, unit: str, aim: float) -> Figure:
    return Figure(name=name, ours=ours, theirs=theirs, against=against, unit=unit, aim=aim)


def _grown(name: str, totals: list[float], aim: float, *, unit: str = "calls", **rest: Any) -> Figure:
    return grown(f"{unit} of {name}", totals, _SIZES, of="of", unit=unit, aim=aim, **rest)


def _loop(run: Run) -> Run:
    return lambda count, opened: run(opened, count // 2)


def _flattened(steps: int) -> Contender:
    """Run a loop of so many steps as a flattened graph."""
    tree = laid_flat(steps // 2)
    return invoked(lambda saver: ag.compile_agent(tree, checkpointer=saver), HELLO)


def _says(letters: int, opened: Opened) -> Contender:
    """Run branches that say so many letters each."""
    agents = [ag.function_agent(f"b{n}", lambda ctx: "x" * letters) for n in range(_BRANCHES)]
    tree = ag.parallel("all", agents)
    return invoked(lambda saver: ag.compile_agent(tree, checkpointer=saver), HELLO, opened)


def _written(run: Callable[[Opened], Contender], path: Path) -> tuple[float, float]:
    """Return the statements of a run on a new file, and the bytes of the file, for one of so many."""
    statements = list[str]()

    @contextmanager
    def opened() -> Iterator[Any]:
        with steps.opened(path) as saver:
            saver.conn.set_trace_callback(statements.append)
            yield saver
            saver.conn.set_trace_callback(None)

    with run(opened)() as call:
        call()
    return len(statements) / _SIZE, path.stat().st_size / _SIZE


def _calls(contender: Contender) -> float:
    with contender() as call:
        call()  # fills caches
    return count_calls(contender)


def _statements(contender: Callable[[Read], Contender], read: Read) -> float:
    statements = list[str]()

    def traced(runner: ag.Runner) -> object:
        connection: Any = runner.saver
        connection.conn.set_trace_callback(statements.append)
        try:
            return read(runner)
        finally:
            connection.conn.set_trace_callback(None)

    with contender(traced)() as call:
        call()
    return len(statements)

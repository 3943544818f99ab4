"""What a loop step costs: 100 iterations of two function agents, so 200 steps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from loops import (
    HELLO,
    HELLO_ROUNDS,
    THREAD,
    Graph,
    Opened,
    Saver,
    flat,
    invoked,
    laid_flat,
    nested,
    savers,
    two,
)
from measure import Contender, Figure, side_by_side

import agentgraph as ag

ROUNDS = 100
STEPS = 2 * ROUNDS
HAND = "flat graph by hand"


def figures() -> Iterator[Figure]:
    """Measure the steps of a bare graph, of a runner, and of a nested graph."""
    with TemporaryDirectory() as folder:
        mine, hand, nested = (Path(folder, f"{name}.db") for name in ("ours", "hand", "nested"))
        yield _step("loop step, no saver", HAND, 1.0, ours(), by_hand(), repeats=40)
        saved = ours(partial(opened, mine)), by_hand(partial(opened, hand))
        yield _step("loop step, SQLite", HAND, 1.05, *saved, repeats=20)
        for saver, each in {"no saver": nullcontext, **savers(Path(folder), is_async=True)}.items():
            both = [made(each, is_async=True) for made in (ours, by_hand)]
            yield _step(f"async loop step, {saver}", HAND, 1.05, *both, repeats=10)
        ours_again = ours(partial(opened, mine))
        laid = invoked(_laid_flat, HELLO, partial(opened, hand))
        yield _step(
            "step of a graph laid flat, SQLite", "a loop step", 1.1, laid, ours_again, repeats=20
        )
        streamed = "its graph's stream, as durable"
        memory = as_events(), _streamed(lambda: nullcontext(InMemorySaver()))
        yield _step("loop step as events, in memory", streamed, 1.15, *memory, repeats=20)
        disk = as_events(partial(opened, mine)), _streamed(partial(opened, hand))
        yield _step("loop step as events, SQLite", streamed, 1.15, *disk, repeats=20)
        yield from _against_nested(mine, nested)


def _step(name: str, against: str, aim: float, *both: Contender, repeats: int) -> Figure:
    mine, other = (took / STEPS for took in side_by_side(*both, repeats=repeats))
    return Figure(name=name, ours=mine, theirs=other, against=against, unit="ms", aim=aim)


def ours(opened: Opened = nullcontext, rounds: int = ROUNDS, *, is_async: bool = False) -> Contender:
    """Return the loop as a tree of ours, with a saver."""
    tree = two(rounds, is_async=is_async)
    return invoked(partial(_compiled, tree), HELLO, opened, is_async=is_async)


def by_hand(opened: Opened = nullcontext, rounds: int = ROUNDS, *, is_async: bool = False) -> Contender:
    """Return the loop as a flat graph by hand, with a saver."""
    made = partial(flat, rounds, is_async=is_async)
    return invoked(made, HELLO_ROUNDS, opened, is_async=is_async)


def _compiled(tree: ag.Agent, saver: Saver) -> Graph:
    return ag.compile_agent(tree, checkpointer=saver)


def _laid_flat(saver: Saver) -> Graph:
    return _compiled(laid_flat(ROUNDS), saver)


@contextmanager
def opened(path: Path) -> Iterator[SqliteSaver]:
    """Open a new SQLite file."""
    path.unlink(missing_ok=True)
    with ag.sqlite_saver(path) as saver:
        saver.setup()
        yield saver


def as_events(opened: Callable[[], Any] = nullcontext, rounds: int = ROUNDS) -> Contender:
    """Return the loop as a runner gives it; without a saver, in memory."""

    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        with opened() as saver:
            runner = ag.Runner(two(rounds), checkpointer=saver)
            yield lambda: list(runner.run("hi"))

    return contender


def _streamed(opened: Callable[[], Any]) -> Contender:
    """Stream the graph of the loop, which saves each step before the next, as a runner does."""

    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        with opened() as saver:
            graph = ag.compile_agent(two(ROUNDS), checkpointer=saver)
            yield lambda: list(graph.stream(HELLO, THREAD, stream_mode="updates", durability="sync"))

    return contender


def _against_nested(path: Path, nested_path: Path) -> Iterator[Figure]:
    """Time a runner against a nested graph, each with SQLite; then hold their files together."""

    @contextmanager
    def as_it_comes() -> Iterator[Callable[[], Any]]:
        nested_path.unlink(missing_ok=True)
        with SqliteSaver.from_conn_string(str(nested_path)) as saver:
            saver.setup()
            yield partial(nested(ROUNDS, saver).invoke, HELLO_ROUNDS, THREAD)

    mine, other = (
        took / STEPS for took in side_by_side(as_events(partial(opened, path)), as_it_comes, repeats=3)
    )
    yield _gain("loop step as events, SQLite, nested", mine, other, unit="ms", aim=10)
    mine, other = (each.stat().st_size for each in (path, nested_path))
    yield _gain("file of 200 steps", mine, other, unit="KB", aim=30)


def _gain(name: str, ours: float, theirs: float, *, unit: str, aim: float) -> Figure:
    figure = partial(Figure, name=name, against="nested subgraphs, saver as it comes", at_least=True)
    return figure(ours=ours, theirs=theirs, unit=unit, aim=aim)

"""What the window's first picture of a long thread costs, against reading the rows of its file."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import Contender, Figure, side_by_side

import agentgraph as ag
from agentgraph.window.calls import Window

EVENTS = 10_000


def figures() -> Iterator[Figure]:
    """Measure what a page asks for before it shows a thread, and what it asks for after a step."""
    with TemporaryDirectory() as name:
        path = Path(name) / "runs.db"
        config: Any = {"recursion_limit": EVENTS + 10}
        with ag.Runner(_tree(), checkpointer=path, config=config) as runner:
            runner.invoke("Go.", thread_id="t")
        for what, picture, aim in (("first picture", _first, 1.5), ("news", _news, 0.1)):
            ours, theirs = side_by_side(_window(path, picture), _rows(path), repeats=7)
            yield Figure(
                name=f"{what} of {EVENTS:,} events",
                ours=ours,
                theirs=theirs,
                against="all rows read",
                unit="ms",
                aim=aim,
            )


def _tree() -> ag.Agent:
    turns = [ag.function_agent(name, lambda ctx: "Hm.") for name in ("ann", "bob")]
    return ag.loop("talk", turns, max_iterations=EVENTS // 2)


def _window(path: Path, picture: Callable[[Window], Callable[[], Any]]) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        with ag.Runner(_tree(), checkpointer=path) as runner:
            yield picture(Window(runner, "talk"))

    return contender


def _first(window: Window) -> Callable[[], Any]:
    def picture() -> list[Any]:
        asked = [("about", {}), ("threads", {}), ("thread", {"thread_id": "t"})]
        return [window.call(*each) for each in [*asked, ("timeline", {"thread_id": "t"})]]

    return picture


def _news(window: Window) -> Callable[[], Any]:
    upto = window.call("timeline", {"thread_id": "t"})["upto"]
    return partial(window.call, "timeline", {"thread_id": "t", "since": upto})


def _rows(path: Path) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        with closing(sqlite3.connect(path)) as connection:
            yield lambda: [
                connection.execute(f"SELECT * FROM {table}").fetchall()
                for table in ("checkpoints", "writes")
            ]

    return contender

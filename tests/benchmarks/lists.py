"""What a page of 50 threads costs in a SQLite file of many threads, beside one of 100."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calls import count_calls
from measure import Contender, Figure, side_by_side

import agentgraph as ag
from agentgraph.window.calls import Window

_PAGE = {"limit": 50}
Lists = Callable[[ag.Runner], object]
_LISTS: dict[str, Lists] = {
    "threads(limit=50)": lambda runner: runner.threads(**_PAGE),
    "threads(limit=50) that are done": lambda runner: runner.threads("done", **_PAGE),
    "threads(limit=50) of a user": lambda runner: runner.threads(metadata={"user": "ann"}, **_PAGE),
    "the window's first page": lambda runner: Window(runner, "").call("threads", _PAGE),
    "the window's search": lambda runner: Window(runner, "").call("threads", {"search": "no"}),
}
_FEW, _MANY, _MOST = 100, 1_000, 10_000


def figures() -> Iterator[Figure]:
    """Time pages by the clock, and count the Python calls and SQL statements of one."""
    with TemporaryDirectory() as name:
        files = {number: _file(Path(name), number) for number in (_FEW, _MANY, _MOST)}
        for what, lists in _LISTS.items():
            small = _MANY if "search" in what else _FEW  # it reads 200 threads
            both = _page(files[_MOST], lists), _page(files[small], lists)
            many, few = side_by_side(*both, repeats=5 if "window" in what else 21)
            yield _figure(f"{what}, {_MOST:,} threads", many, few, "ms", 1.3, small)
        page = _LISTS["threads(limit=50)"]
        many, few = (count_calls(_page(files[number], page)) for number in (_MANY, _FEW))
        yield _figure(f"calls of a page, {_MANY:,} threads", many, few, "calls", 1.02)
        many, few = (_statements(files[number], page) for number in (_MANY, _FEW))
        yield _figure(f"SQL statements of a page, {_MANY:,} threads", many, few, "calls", 1.0)


def _figure(name: str, many: float, few: float, unit: str, aim: float, small: int = _FEW) -> Figure:
    return Figure(name=name, ours=many, theirs=few, against=f"{small:,} threads", unit=unit, aim=aim)


def _file(folder: Path, number: int) -> Path:
    """Make a file of so many threads: one that ran, and copies of its rows that began later."""
    path = folder / f"{number}.db"
    with ag.sqlite_saver(path) as saver:
        config: Any = {"metadata": {"user": "ann"}}
        ag.Runner(_tree(), checkpointer=saver).invoke("Go.", thread_id="t", config=config)
    with closing(sqlite3.connect(path)) as file, file:
        for table in ("checkpoints", "writes"):
            columns = [column for _, column, *_ in file.execute(f"PRAGMA table_info({table})")]
            values = {"thread_id": "'c' || :n", "checkpoint_id": "printf('%08x', :n) || substr({0}, 9)"}
            values["parent_checkpoint_id"] = values["checkpoint_id"]
            copied = ", ".join(values.get(each, each).format(each) for each in columns)
            query = f"INSERT INTO {table} SELECT {copied} FROM {table} WHERE thread_id = 't'"
            file.executemany(query, ({"n": n + 2**29} for n in range(number - 1)))
    return path


def _tree() -> ag.Agent:
    return ag.function_agent("a", lambda ctx: "Said.")


def _page(path: Path, lists: Lists) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        with ag.sqlite_saver(path) as saver:
            runner = ag.Runner(_tree(), checkpointer=saver)
            runner.threads(limit=1)  # opens the file
            yield lambda: lists(runner)

    return contender


def _statements(path: Path, lists: Lists) -> int:
    with ag.sqlite_saver(path) as saver:
        runner = ag.Runner(_tree(), checkpointer=saver)
        runner.threads(limit=1)
        statements = list[str]()
        saver.conn.set_trace_callback(statements.append)
        lists(runner)
        return len(statements)

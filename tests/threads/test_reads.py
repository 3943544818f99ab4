"""What a resume reads of a thread does not grow with the thread, whatever stopped or forked it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Sync, says
from helpers.forked import CONFIG, Thread
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

import agentgraph as ag

LONG, SHORT = 32, 12

IN_HISTORY = ContextVar("in history", default=False)
"""Whether LangGraph reads the history: branches may, side by side."""


class Reads:
    """Counts the checkpoints that savers read, except where LangGraph reads the history."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for kind, prefix in ((InMemorySaver, ""), (SqliteSaver, ""), (AsyncSqliteSaver, "a")):
            for name, counted in (
                ("list", self._alisting if prefix else self._listing),
                ("get_tuple", self._getting),
                ("get_delta_channel_history", self._ahistory if prefix else self._history),
            ):
                monkeypatch.setattr(kind, prefix + name, counted(getattr(kind, prefix + name)))

    def _getting(self, get: Any) -> Any:
        def counted(*args: Any) -> Any:
            self.count += not IN_HISTORY.get()
            return get(*args)

        return counted

    def _listing(self, listed: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Iterator[Any]:
            for each in listed(*args, **options):
                self.count += not IN_HISTORY.get()
                yield each

        return counted

    def _alisting(self, listed: Any) -> Any:
        async def counted(*args: Any, **options: Any) -> AsyncIterator[Any]:
            async for each in listed(*args, **options):
                self.count += not IN_HISTORY.get()
                yield each

        return counted

    def _history(self, read: Any) -> Any:
        def uncounted(*args: Any, **options: Any) -> Any:
            token = IN_HISTORY.set(True)
            try:
                return read(*args, **options)
            finally:
                IN_HISTORY.reset(token)

        return uncounted

    def _ahistory(self, read: Any) -> Any:
        async def uncounted(*args: Any, **options: Any) -> Any:
            token = IN_HISTORY.set(True)
            try:
                return await read(*args, **options)
            finally:
                IN_HISTORY.reset(token)

        return uncounted


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def loop(rounds: int, *, beside: bool) -> ag.Agent:
    """Return a loop whose second agent fails in the last round but one, alone or in a parallel."""
    calls = count(1)

    def fn(ctx: ag.Context) -> str:
        if next(calls) == rounds - 1:
            raise ValueError("late")
        return "b"

    b = ag.function_agent("b", fn)
    second = ag.parallel("p", [b, says("c")]) if beside else b
    return ag.loop("l", [says("a"), second], max_iterations=rounds)


def failed(thread: Thread) -> None:
    """Leave a thread where it failed."""


def edited(thread: Thread) -> None:
    thread.edit(CONFIG)


def forked(thread: Thread) -> None:
    thread.edit(thread.before("a", -2))


def forked_early(thread: Thread) -> None:
    thread.edit(thread.before("a", 1))


def forked_and_edited(thread: Thread) -> None:
    forked(thread)
    thread.edit(CONFIG)


CASES = [
    (left, beside) for left in (failed, edited, forked, forked_and_edited) for beside in (False, True)
]
"""How a thread is left, and whether its second agent runs in a parallel."""


@pytest.mark.parametrize(
    ("left", "beside", "where"),
    [
        (left, beside, ("memory", "async file", "file")[number % 3])
        for number, (left, beside) in enumerate([*CASES, (forked_early, False)])
    ],
)
def test_a_resume_reads_as_much_of_a_long_thread_as_of_a_short_one(
    reads: Reads, tmp_path: Path, where: str, left: Callable[[Thread], None], beside: bool
) -> None:
    numbers = []
    for rounds in (SHORT, LONG):
        path = None if where == "memory" else tmp_path / f"{rounds}.db"
        thread = Thread(Async if "async" in where else Sync, loop(rounds, beside=beside), path)
        with pytest.raises(ValueError, match="late"):
            thread.run()
        left(thread)
        reads.count = 0
        thread.pending()
        thread.resume()
        numbers.append(reads.count)
        assert len(thread.events()) > rounds
    short, long = numbers
    assert long <= short + 2

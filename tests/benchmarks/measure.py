"""Measures calls side by side, and says what a figure came to.

Times are those of the processor, in all threads, unless a clock is named: the smallest of several
that take turns. So measured, a graph beside itself stayed within 0.02 of 1 without a saver and within
0.12 with SQLite on a busy machine.
"""

import gc
import math
import os
import shutil
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Column, Table

Contender = Callable[[], AbstractContextManager[Callable[[], Any]]]
"""Sets up afresh and gives the call that is timed; setting up and clearing away are not."""

_WIDTH = 200
"""How wide the table is in a file or a pipe."""
UNITS = {
    "ms": 1e-3,
    "s": 1.0,
    "B": 1.0,
    "KB": 1e3,
    "MB": 1e6,
    "calls": 1.0,
    "statements": 1.0,
    "times": 1.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured, in seconds, bytes or calls, and what it is to come to."""

    name: str
    ours: float
    against: str = ""
    """What ours is held against."""
    theirs: float = math.nan
    """What that took; nan where the aim is for ours alone."""
    unit: str
    aim: float = math.inf
    """The largest ratio, or amount where there is only ours; inf for what others' work takes."""
    at_least: bool = False
    """Whether the ratio is theirs to ours, and is to be the aim or more."""
    growth: float = math.nan
    """The power of the size with which the whole work grows: 1 is linear, 2 its square."""

    @property
    def ratio(self) -> float:
        """Ours to theirs; theirs to ours where the aim is a gain; nan if there is only ours."""
        return self.theirs / self.ours if self.at_least else self.ours / self.theirs

    @property
    def value(self) -> float:
        """What is held against the aim: the ratio, or the amount where there is only ours."""
        return self.ours if math.isnan(self.theirs) else self.ratio

    @property
    def reached(self) -> bool:
        """Whether the aim is met."""
        return self.value >= self.aim if self.at_least else self.value <= self.aim

    def row(self, *before: float) -> tuple[str, ...]:
        """Return the figure as a row of the table, with what another version took."""
        return (
            self.name,
            *map(self._amount, before),
            self._amount(self.ours),
            self._amount(self.theirs),
            self.against,
            _number(self.ratio),
            _number(self.growth),
            *(("", "") if math.isinf(self.aim) else (self._bound, "yes" if self.reached else "NO")),
        )

    @property
    def _bound(self) -> str:
        alone = math.isnan(self.theirs)
        aim = self._amount(self.aim) if alone else f"{self.aim:.3g}"
        return f"{'>=' if self.at_least else '<='}{aim}"

    def _amount(self, value: float) -> str:
        if math.isnan(value):
            return ""
        amount = value / UNITS[self.unit]
        return f"{amount:,.{0 if amount >= 100 else 3}f} {self.unit}"


def grown(
    name: str,
    totals: Sequence[float],
    sizes: tuple[int, int],
    *,
    of: str,
    is_whole: bool = False,
    **rest: Any,
) -> Figure:
    """Return how a cost has grown from a small size to a large one.

    Args:
        name: The name of the figure.
        totals: What the whole work takes at the large size, and at the small one.
        sizes: The large size, and the small one.
        of: What the small size is of, as in "an item of".
        is_whole: Whether to compare the whole work, and not what one of so many takes.
        rest: The unit and the aim.
    """
    (large, small), (many, few) = totals, sizes
    growth = math.log(large / small) / math.log(many / few)
    ours, theirs = (large, small) if is_whole else (large / many, small / few)
    return Figure(name=name, ours=ours, theirs=theirs, against=f"{of} {few:,}", growth=growth, **rest)


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


Clock = Callable[[], float]
"""`process_time`, or `perf_counter` where waiting counts."""


def side_by_side(*contenders: Contender, repeats: int, clock: Clock = time.process_time) -> list[float]:
    """Return the fewest seconds that each contender takes; they take turns, so noise meets all."""
    rounds = [[seconds(contender, clock) for contender in contenders] for _ in range(repeats)]
    return [min(took) for took in zip(*rounds, strict=True)]


def seconds(contender: Contender, clock: Clock = time.process_time) -> float:
    """Return what one call takes; what it returns is dropped after the clock has stopped."""
    with contender() as call:
        gc.collect()
        began = clock()
        result = call()
        took = clock() - began
        del result
    return took


def memory(contender: Contender) -> tuple[int, int]:
    """Return the bytes of Python objects that one call has alive, at most, and that its result is."""
    with contender() as call:
        gc.collect()
        tracemalloc.start()
        result = call()
        gc.collect()
        held, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        del result
    return most, held


def copied(path: Path, to: Path) -> None:
    """Copy a file, and wait until it is on disk: else the first write to it waits for that."""
    shutil.copy(path, to)
    with to.open("rb+") as copy:
        os.fsync(copy.fileno())


def shown(rows: Iterable[tuple[str, ...]], *, before: bool) -> None:
    """Print a table of rows: at a terminal each as soon as it is measured, else all at the end.

    Nothing is drawn while something is measured.

    Args:
        rows: The rows of figures.
        before: Whether each has what another version took.
    """
    titles = _right(*(["before"] if before else []), "ours", "against")
    table = Table("figure", *titles, "", *_right("ratio", "growth", "aim"), "reached", box=None)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    with Live(table, console=console, auto_refresh=False) as live:
        for row in rows:
            table.add_row(*row)
            live.refresh()


def _right(*titles: str) -> list[Column]:
    return [Column(title, justify="right") for title in titles]

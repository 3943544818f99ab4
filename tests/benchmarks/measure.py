"""Times calls side by side, and says what a figure came to."""

import gc
import math
import os
import shutil
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Column, Table

Contender = Callable[[], AbstractContextManager[Callable[[], Any]]]
"""Sets up afresh and gives the call that is timed; setting up and clearing away are not."""

_WIDTH = 132
"""How wide the table is in a file or a pipe."""
UNITS = {"ms": 1e-3, "s": 1.0, "B": 1.0, "KB": 1e3, "calls": 1.0, "times": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured, in seconds or bytes, and what it is to come to."""

    name: str
    ours: float
    against: str = ""
    """What ours is held against."""
    theirs: float = math.nan
    """What that took; nan where the aim is for ours alone."""
    unit: str
    aim: float
    at_least: bool = False
    """Whether the ratio is theirs to ours, and is to be the aim or more."""

    @property
    def ratio(self) -> float:
        """Ours to theirs; theirs to ours where the aim is a gain; nan if there is only ours."""
        return self.theirs / self.ours if self.at_least else self.ours / self.theirs

    @property
    def reached(self) -> bool:
        """Whether the aim is met."""
        if math.isnan(self.theirs):
            return self.ours <= self.aim
        return self.ratio >= self.aim if self.at_least else self.ratio <= self.aim

    @property
    def row(self) -> tuple[str, ...]:
        """The figure as a row of the table."""
        alone = math.isnan(self.theirs)
        return (
            self.name,
            self._amount(self.ours),
            "" if alone else self._amount(self.theirs),
            self.against,
            "" if alone else f"{self.ratio:.2f}",
            f"{'>=' if self.at_least else '<='}{self.aim:g}",
            "yes" if self.reached else "NO",
        )

    def _amount(self, value: float) -> str:
        amount = value / UNITS[self.unit]
        return f"{amount:,.{0 if amount >= 100 else 3}f} {self.unit}"


Clock = Callable[[], float]
"""`perf_counter`, or `process_time` where only the time of the processor counts."""


def side_by_side(*contenders: Contender, repeats: int, clock: Clock = time.perf_counter) -> list[float]:
    """Return what each contender takes in seconds; they take turns, so noise meets all.

    The last is the measure: its time is the median, and each other's is that times the median of
    its ratios to the last, round by round. Held so, a graph against itself stayed within 0.03 of 1
    on a busy machine; by best times it went from 0.93 to 1.09.
    """
    rounds = [[seconds(contender, clock) for contender in contenders] for _ in range(repeats)]
    measure = median(took[-1] for took in rounds)
    ratios = [[each / took[-1] for each in took] for took in rounds]
    return [measure * median(ratio) for ratio in zip(*ratios, strict=True)]


def seconds(contender: Contender, clock: Clock = time.perf_counter) -> float:
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


def shown(figures: Iterable[Figure]) -> None:
    """Print a table of figures: at a terminal each as soon as it is measured, else all at the end.

    Nothing is drawn while something is measured.
    """
    table = Table(
        "figure", *_right("ours", "against"), "", *_right("ratio", "aim"), "reached", box=None
    )
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    with Live(table, console=console, auto_refresh=False) as live:
        for figure in figures:
            table.add_row(*figure.row)
            live.refresh()


def _right(*titles: str) -> list[Column]:
    return [Column(title, justify="right") for title in titles]

"""Times calls side by side, and says what a figure came to."""

import gc
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

Contender = Callable[[], AbstractContextManager[Callable[[], Any]]]
"""Sets up afresh and gives the call that is timed; setting up and clearing away are not."""

UNITS = {"ms": 1e-3, "s": 1.0, "B": 1.0, "KB": 1e3}
ROW = "{:<42} {:>9}  {:>9}  {:<36} {:>6}  {:>6}  {}"
HEADER = ROW.format("figure", "ours", "against", "", "ratio", "aim", "reached")


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
        """Ours to theirs; theirs to ours where the aim is a gain; nan where ours stands alone."""
        return self.theirs / self.ours if self.at_least else self.ours / self.theirs

    @property
    def reached(self) -> bool:
        """Whether the aim is met."""
        if math.isnan(self.theirs):
            return self.ours <= self.aim
        return self.ratio >= self.aim if self.at_least else self.ratio <= self.aim

    def __str__(self) -> str:
        alone = math.isnan(self.theirs)
        return ROW.format(
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


def side_by_side(*contenders: Contender, repeats: int) -> list[float]:
    """Return what each contender takes in seconds; they take turns, so noise meets all.

    The last is the measure: its time is the median, and each other's is that times the median of
    its ratios to the last, round by round. Held so, a graph against itself stayed within 0.03 of 1
    on a busy machine; by best times it went from 0.93 to 1.09.
    """
    rounds = [[seconds(contender) for contender in contenders] for _ in range(repeats)]
    measure = median(took[-1] for took in rounds)
    ratios = [[each / took[-1] for each in took] for took in rounds]
    return [measure * median(ratio) for ratio in zip(*ratios, strict=True)]


def seconds(contender: Contender) -> float:
    """Return what one call takes; what it returns is dropped after the clock has stopped."""
    with contender() as call:
        gc.collect()
        began = time.perf_counter()
        result = call()
        took = time.perf_counter() - began
        del result
    return took


def copied(path: Path, to: Path) -> None:
    """Copy a file, and wait until it is on disk: else the first write to it waits for that."""
    shutil.copy(path, to)
    with to.open("rb+") as copy:
        os.fsync(copy.fileno())


def shown(figures: Iterable[Figure]) -> None:
    """Print a line for each figure as soon as it is measured."""
    for figure in figures:
        print(figure, flush=True)

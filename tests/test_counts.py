"""The writes of runs, the reads of readers, and the memory of both stay below their bounds."""

from collections.abc import Callable, Iterator

import counts
import pytest
from measure import Figure

OPEN = {
    "bytes of nested parallels, a level of 8": 1.35,
    "calls of first event, of 400 for an event": 8.0,
    "calls of first event, of 400 for an item": 8.0,
    "memory of an async run side by side": 1.4,
}
"""Bounds of rows that miss their aim: ratios, or amounts without a comparison."""


@pytest.mark.parametrize("figures", counts.GROUPS)
def test_no_count_is_more_than_it_is_to_be(figures: Callable[[], Iterator[Figure]]) -> None:
    missed = [figure for figure in figures() if not figure.reached]
    rows = {figure.row() for figure in missed if figure.value > OPEN.get(figure.name, 0)}
    assert rows == set()

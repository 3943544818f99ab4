"""Which ways of a test run in `make test`: one for each of its cases, and the ways take turns.

The ways of a test are all that some of its parameters can be: those named in `WAYS`, and those of a
`@pytest.mark.by_turns("saver", "kept")`. With `AGENTGRAPH_EXAMPLES=1000`, as in `make properties`,
each case runs in all of them.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from math import gcd
from pathlib import Path

import pytest

ALL_WAYS = int(os.environ.get("AGENTGRAPH_EXAMPLES", "0")) >= 1000
WAYS = {
    *("cache", "drive", "is_async", "is_on_disk", "runner", "runner_of"),
    *("started", "thread_of", "threads", "told", "watch"),
}
"""Parameters that say how a tree is run and where that is kept, and not what it does."""


def mark(item: pytest.Item) -> None:
    """Mark a test that has ways, so that `-m by_turns` chooses it."""
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        marked = item.get_closest_marker("by_turns")
        ways = (WAYS | {*(marked.args if marked else ())}) & item.callspec.params.keys()
        if ways:
            item.add_marker(pytest.mark.by_turns(*ways), append=False)


def left_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return of each case all ways but the one whose turn it is."""
    if ALL_WAYS:
        return set()
    files: dict[Path, dict[object, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        marked = item.get_closest_marker("by_turns")
        if marked and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            params = item.callspec.params.items()  # of one object each: some cannot be compared
            case = tuple(sorted((name, id(of)) for name, of in params if name not in marked.args))
            files[item.path][item.originalname, case].append(item)
    return {
        item
        for cases in files.values()
        for number, ways in enumerate(cases.values())
        for turn, item in enumerate(ways)
        if turn != number * _stride(len(ways)) % len(ways)
    }


def _stride(count: int) -> int:
    """Return the steps until each interruption, so that a few cases differ widely."""
    return next((each for each in range(round(count * 0.62), 0, -1) if gcd(each, count) == 1), 1)


def examples(few: int) -> int:
    """Return how many examples a test that is marked tries: `make properties` has it try more."""
    return max(few, int(os.environ.get("AGENTGRAPH_EXAMPLES", "0")))

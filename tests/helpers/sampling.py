"""Which ways of a test run in `make test`: one for each of its cases, and the ways take turns.

A test with `@pytest.mark.by_turns("drive", "kept")` has ways: all that these parameters can be. With
`AGENTGRAPH_EXAMPLES=1000`, as in `make properties`, each case runs in all of them.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

ALL_WAYS = int(os.environ.get("AGENTGRAPH_EXAMPLES", "0")) >= 1000


def left_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return of each case all ways but the one whose turn it is."""
    if ALL_WAYS:
        return set()
    files: dict[Path, dict[object, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        mark = item.get_closest_marker("by_turns")
        if mark and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            params = item.callspec.params.items()  # of one object each: some cannot be compared
            case = tuple(sorted((name, id(of)) for name, of in params if name not in mark.args))
            files[item.path][item.originalname, case].append(item)
    return {
        item
        for cases in files.values()
        for number, ways in enumerate(cases.values())
        for turn, item in enumerate(ways)
        if turn != number % len(ways)
    }

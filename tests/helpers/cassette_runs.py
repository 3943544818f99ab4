"""Runs with a cassette, for the tests of cassettes."""

import json
from pathlib import Path
from typing import Any

import pytest

import agentgraph as ag
from agentgraph.testing import recorded
from helpers import Async, Drive, Sync, lines

DRIVES = pytest.mark.parametrize("drives", [(a, b) for a in (Sync, Async) for b in (Sync, Async)])
"""Recorded by sync and async runs, and played by both."""


def heard(drive: Drive, tree: ag.Agent, path: Path, mode: Any, **options: Any) -> list[str]:
    """Return the lines of a run with a cassette, sorted: those of branches come in any order."""
    runner = ag.Runner(tree, middleware=[recorded(path, mode)], values=options.pop("values", None))
    return sorted(lines(drive.run(runner, "Go.", thread_id="t", **options)))


def answers(path: Path) -> dict[str, list[dict[str, Any]]]:
    return json.loads(path.read_text())["answers"]  # type: ignore[no-any-return]

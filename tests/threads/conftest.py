"""Makes threads of trees: one driven sync in memory, one async in a file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from forked import Thread
from helpers import Async, Sync

import agentgraph as ag


@pytest.fixture(params=["sync in memory", "async in a file"])
def thread_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[ag.Agent], Thread]:
    if request.param == "sync in memory":
        return partial(Thread, Sync)
    return partial(Thread, Async, path=tmp_path / "threads.db")

"""Makes threads of trees: one driven sync in memory, one async in a file."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from helpers import Async, Sync
from helpers.forked import Thread
from helpers.told import Told

import agentgraph as ag


@pytest.fixture(params=["sync in memory", "async in a file"])
def thread_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[ag.Agent], Thread]:
    if request.param == "sync in memory":
        return partial(Thread, Sync)
    return partial(Thread, Async, path=tmp_path / "threads.db")


@pytest.fixture(params=["sync in memory", "async in a file"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Told]:
    is_sync = request.param == "sync in memory"
    made = Told("sync", None) if is_sync else Told("async", tmp_path / "t.db")
    yield made
    made.runner.close()

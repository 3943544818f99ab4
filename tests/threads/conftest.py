"""Makes threads of trees: one driven sync in memory, one async in a file."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Sync
from helpers.databases import Databases
from helpers.forked import Thread
from helpers.told import Told
from langgraph.checkpoint.memory import InMemorySaver

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


@pytest.fixture(params=["memory", "file"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return InMemorySaver() if request.param == "memory" else tmp_path / "threads.db"


@pytest.fixture
def url(databases: Databases) -> str:
    """Give the URL of a new database."""
    return databases.make()

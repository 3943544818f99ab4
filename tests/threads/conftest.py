"""Makes threads of trees: driven sync and async, in memory and in a file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from forked import Thread
from helpers import Drive

import agentgraph as ag


@pytest.fixture(params=["memory", "file"])
def thread_of(
    request: pytest.FixtureRequest, drive: Drive, tmp_path: Path
) -> Callable[[ag.Agent], Thread]:
    path = tmp_path / "threads.db" if request.param == "file" else None
    return partial(Thread, drive, path=path)

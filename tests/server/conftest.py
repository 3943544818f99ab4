"""Starts a LangGraph server, as `make studio` does, on a free port of the loopback address."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.commands import Commands
from helpers.pages import free_port, named
from server_process import TESTS, command_of, surroundings, wait_for_server
from window_server import Serve, Served


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server with the graphs of `langgraph.json`, the guides and the tests."""
    with _serving(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(scope="session")
def saving_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Return the address of such a server that keeps its threads in a SQLite file, and the file."""
    folder = tmp_path_factory.mktemp("saving_server")
    shutil.copy(TESTS / "server" / "sqlite_saver.py", folder)
    with _serving(folder, checkpointer={"path": "./sqlite_saver.py:saver"}) as url:
        yield url, folder / "threads.db"


@pytest.fixture
def serve(command: Commands) -> Serve:
    """Serve the window: `serve("report")` for a tree of `window_trees`, with more options."""
    return lambda *options: Served(command, *options)


@contextmanager
def _serving(folder: Path, **settings: object) -> Iterator[str]:
    shutil.copytree(TESTS.parent / "notebooks", folder / "notebooks")
    for file in ("graphs.py", "random_graph.py", "remote_graphs.py"):
        shutil.copy(TESTS / "server" / file, folder)
    config = json.loads((TESTS.parent / "langgraph.json").read_text())
    names = ("everything", "planned", "failing", "rounds", "asking", "cached", "by_data", "limited")
    config["graphs"].update({name: f"./graphs.py:{name}_graph" for name in names})
    for name in ("asking", "counting", "reporting", "failing", "stopping"):
        config["graphs"][f"remote_{name}"] = f"./remote_graphs.py:remote_{name}"
    config["graphs"]["random"] = "./random_graph.py:random_graph"
    guides = TESTS.parent / "docs" / "guides"
    shutil.copy(guides / "code" / "report.py", folder)
    guide = (guides / "langgraph-server.md").read_text()
    config["graphs"] |= json.loads(named(guide, "langgraph.json"))["graphs"]
    (folder / "langgraph.json").write_text(json.dumps({**config, **settings}))
    port = free_port()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command_of(port), cwd=folder, env=surroundings(), stdout=log, stderr=log
        )
        try:
            wait_for_server(process, f"http://127.0.0.1:{port}", folder / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)
    assert "OutsideConnectionError" not in (folder / "log").read_text()

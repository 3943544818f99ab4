"""Starts a LangGraph server, as `make studio` does, on a free port of the loopback address."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from helpers.commands import Commands
from helpers.pages import free_port, named
from window_server import Serve, Served

TESTS = Path(__file__).parent.parent
SECONDS_TO_START = 120


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
            _command(port), cwd=folder, env=_surroundings(), stdout=log, stderr=log
        )
        try:
            _wait(process, f"http://127.0.0.1:{port}", folder / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)
    assert "OutsideConnectionError" not in (folder / "log").read_text()


def _command(port: int) -> list[str]:
    program = str(Path(sys.executable).parent / "langgraph")
    return [program, "dev", "--no-browser", "--no-reload", "--port", str(port)]


def _surroundings() -> dict[str, str]:
    keys = ("OPENAI_", "LANGSMITH_")
    own = {key: value for key, value in os.environ.items() if not key.startswith(keys)}
    found = os.pathsep.join(map(str, (TESTS / "guarded", TESTS.parent, TESTS, TESTS / "properties")))
    return {**own, "LANGGRAPH_CLI_NO_ANALYTICS": "1", "PYTHONPATH": found}


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end and process.poll() is None:
        try:
            with urlopen(f"{url}/ok", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")

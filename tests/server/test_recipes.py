"""The recipes are right: done as the page says, in a new folder, each prints what the page says."""

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.commands import Commands, wait_until
from helpers.pages import BLOCK, follow, forgetting, free_port, named, run_line

TEXT = (Path(__file__).parents[2] / "RECIPES.md").read_text()
FIRST, *_ = _sections = TEXT.split("\n## ")
RECIPES = {section.splitlines()[0]: section for section in _sections[1:]}
LANGGRAPH = "http://127.0.0.1:2024"
"""Where the page has LangGraph's server."""

Shell = Callable[[str], str]


@pytest.fixture
def shell(program: Commands) -> Iterator[Shell]:
    """Type commands; the servers among them run until the test ends."""
    with ExitStack() as servers:

        def typed(line: str) -> str:
            if line.startswith("langgraph dev"):
                return ""  # the fixture `server` is the one
            if line.startswith("uvicorn"):
                servers.enter_context(serving(line))
                return ""
            return run_line(line, program)

        yield typed


@contextmanager
def serving(line: str) -> Iterator[None]:
    """Start the server of a command line, and wait until it takes connections."""
    port = int(line.rpartition(" ")[2])

    def is_up() -> bool:
        assert process.poll() is None, f"{line!r} has ended"
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    with subprocess.Popen([sys.executable, "-m", *shlex.split(line)]) as process:
        try:
            wait_until(is_up)
            yield
        finally:
            process.terminate()


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_prints_what_the_page_says(
    name: str,
    shell: Shell,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = RECIPES[name]
    if LANGGRAPH in recipe:
        recipe = recipe.replace(LANGGRAPH, request.getfixturevalue("server"))
    for port in re.findall(r"--port (\d+)", recipe):
        recipe = recipe.replace(port, str(free_port()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    with forgetting(tmp_path):
        assert follow(BLOCK.finditer(f"{FIRST}\n{recipe}"), shell) >= 1


SLOW = """
import asyncio
from pathlib import Path

import agentgraph as ag


@ag.agent
async def report(ctx):
    yield "One."
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    yield "Two."
"""


def test_a_reader_of_the_web_handler_leaves_and_comes_back_while_the_thread_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("web.py").write_text(named(TEXT, "web.py"))
    Path("report.py").write_text(SLOW)
    port = free_port()
    turn: dict[str, Any] = {"url": "/threads/t/turns", "json": {"text": "Go."}}
    with (
        serving(f"uvicorn web:app --port {port}"),
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        assert client.post(**turn).status_code == 202
        with client.stream("GET", "/threads/t/events") as reply:
            lines = reply.iter_lines()  # whose end closes the reply
            last = next(line for line in lines if line.startswith("id: ")).removeprefix("id: ")
        busy = client.post(**turn)
        assert (busy.status_code, busy.json()["error"]) == (409, "ThreadBusyError")
        Path("go").touch()
        rest = client.get("/threads/t/events", headers={"Last-Event-ID": last}).text
        assert ("One." in rest, rest.count("Two."), rest.count("event: end")) == (False, 1, 1)


def test_the_list_of_recipes_links_to_each_of_them() -> None:
    anchors = re.findall(r"^\| \[.*?\]\(#(.*?)\)", FIRST, re.MULTILINE)
    assert anchors == [re.sub(r"[^\w-]", "", name.lower().replace(" ", "-")) for name in RECIPES]

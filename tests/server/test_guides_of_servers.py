"""The guides that need servers are right: done as a page says, each prints what the page says."""

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
from helpers.pages import BLOCK, follow, forgetting, free_port, run_line

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
LANGGRAPH = "http://127.0.0.1:2024"
"""Where the pages have LangGraph's server."""
SERVED = {path.stem: text for path in GUIDES.glob("*.md") if "127.0.0.1" in (text := path.read_text())}

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


@pytest.mark.parametrize("name", sorted(SERVED))
def test_a_guide_prints_what_it_says(
    name: str,
    shell: Shell,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guide = SERVED[name]
    if LANGGRAPH in guide:
        guide = guide.replace(LANGGRAPH, request.getfixturevalue("server"))
    for port in re.findall(r"--port (\d+)", guide):
        guide = guide.replace(port, str(free_port()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    with forgetting(tmp_path):
        assert follow(BLOCK.finditer(guide), shell, GUIDES) >= 1


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
    Path("web.py").write_text((GUIDES / "code" / "web.py").read_text())
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

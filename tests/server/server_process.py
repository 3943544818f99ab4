"""A LangGraph server in a process of its own: its command, its environment, and its start."""

import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

TESTS = Path(__file__).parent.parent
SECONDS_TO_START = 120


def command_of(port: int) -> list[str]:
    """Return the command that starts it."""
    program = str(Path(sys.executable).parent / "langgraph")
    return [program, "dev", "--no-browser", "--no-reload", "--port", str(port)]


def surroundings() -> dict[str, str]:
    """Return its environment: without keys, and on the loopback address."""
    keys = ("OPENAI_", "LANGSMITH_")
    own = {key: value for key, value in os.environ.items() if not key.startswith(keys)}
    found = os.pathsep.join(map(str, (TESTS / "guarded", TESTS.parent, TESTS, TESTS / "properties")))
    return {**own, "LANGGRAPH_CLI_NO_ANALYTICS": "1", "PYTHONPATH": found}


def wait_for_server(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until it answers."""
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end and process.poll() is None:
        try:
            with urlopen(f"{url}/ok", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")

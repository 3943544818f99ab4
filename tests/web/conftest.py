"""A real Chromium, without a window, and servers for the page."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import web_trees
from pages import free_port
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from web_page import Page

import agentgraph as ag

COMMANDS = ("chromium", "chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1000,900"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
SECONDS_TO_START = 60


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    found = {name: shutil.which(name) for name in COMMANDS}
    if missing := [name for name, path in found.items() if path is None]:
        pytest.fail(
            f"the tests of the page need {' and '.join(missing)}; install them with "
            "`apt-get install -y --no-install-recommends chromium chromium-driver` (Debian)",
            pytrace=False,
        )
    options = ChromeOptions()
    options.binary_location = str(found["chromium"])
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, Service(str(found["chromedriver"])))
    yield driver
    driver.quit()


class Server:
    """A process that serves a tree of `web_trees`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.port = name, folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        found = os.pathsep.join([os.environ["PYTHONPATH"], *filter(None, sys.path)])
        own = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, web_trees.__file__, self.name, str(self.folder), str(self.port)],
                env={**own, "PYTHONPATH": found},
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urlopen(self.url, timeout=5):
                    return
            except (URLError, OSError):
                time.sleep(0.1)
        pytest.fail(f"the server did not start: {self.log[-2000:]}")

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        assert "Traceback" not in self.log, self.log

    def gate(self, thread_id: str, *numbers: int) -> None:
        """Let calls of the model of a thread go on."""
        for number in numbers:
            (web_trees.gates_of(str(self.folder), thread_id) / str(number)).touch()

    def events(self, thread_id: str) -> list[tuple[str, str, str, str]]:
        """Return what the saver has: ids, addresses, kinds and texts of events."""
        tree = web_trees.tree_of(self.name, str(self.folder))
        with ag.Runner(tree, checkpointer=self.folder / "web.db") as runner:
            told = [each for each in runner.events(thread_id) if each.kind != "discarded"]
        return [(each.id, each.address, each.kind, each.text) for each in told]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server("everything", tmp_path_factory.mktemp("web"))
    yield server
    server.stop()


@pytest.fixture
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server for one test; its tree is the parameter."""
    server = Server(getattr(request, "param", "everything"), tmp_path)
    yield server
    server.stop()


@pytest.fixture
def tab(chromium: Chrome) -> Iterator[Callable[[Server, str], Page]]:
    """Open a thread in a tab of its own: `tab(server, thread_id)`."""
    (first,) = chromium.window_handles

    def opened(server: Server, thread_id: str) -> Page:
        chromium.switch_to.new_window("tab")
        return Page(chromium, server.url, thread_id)

    yield opened
    for handle in chromium.window_handles:
        if handle != first:
            chromium.switch_to.window(handle)
            chromium.close()
    chromium.switch_to.window(first)


@pytest.fixture
def page(
    server: Server, tab: Callable[[Server, str], Page], request: pytest.FixtureRequest
) -> Iterator[Page]:
    """A tab with a new thread, which has the name of the test."""
    yield tab(server, request.node.name)
    server.gate(request.node.name, *range(1, 9))

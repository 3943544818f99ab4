"""Servers of the window: processes that can be killed, and that come back at the same address."""

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import window_trees
from helpers.web_page import PATIENCE
from helpers.web_server import Server


class WindowServer(Server):
    """A process that serves the window on the tree of `window_trees`."""

    script = window_trees.__file__
    token = window_trees.TOKEN

    def __init__(self, folder: Path) -> None:
        super().__init__("newspaper", folder)

    def call(self, name: str, **arguments: Any) -> Any:
        """Make a call as a page does."""
        headers = {"Content-Type": "application/json", "X-Token": self.token, "Origin": self.url}
        request = Request(f"{self.url}/call/{name}", json.dumps(arguments).encode(), headers)
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                return json.loads(answer.read())
        except HTTPError as error:
            raise AssertionError(f"{name}: {error.read().decode()}") from error

    def run(self, text: str, thread_id: str, *, until: str = "done") -> str:
        """Run a turn, and wait until the thread has a status."""
        self.call("start", text=text, thread_id=thread_id)
        self.waits(lambda: self.call("thread", thread_id=thread_id)["status"] == until)
        return thread_id

    def waits(self, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, self.log[-2000:]
            time.sleep(0.05)

    def bars(self, thread_id: str) -> list[dict[str, Any]]:
        bars: list[dict[str, Any]] = self.call("timeline", thread_id=thread_id, last=100_000)["bars"]
        return bars

    def threads_saved(self) -> set[str]:
        """Return the threads that the file has."""
        with closing(sqlite3.connect(self.folder / "runs.db")) as file:
            return {name for (name,) in file.execute("SELECT DISTINCT thread_id FROM checkpoints")}

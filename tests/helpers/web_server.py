"""Servers of the page: processes that can be killed, and that come back at the same address."""

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from urllib.error import URLError
from urllib.request import urlopen

import pytest

import agentgraph as ag
from helpers import web_trees
from helpers.pages import free_port

SECONDS_TO_START = 60


class Server:
    """A process that serves a tree of `web_trees`."""

    script = web_trees.__file__

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.port = name, folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        found = os.pathsep.join([os.environ["PYTHONPATH"], *filter(None, sys.path)])
        own = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", self.script, self.name, str(self.folder), str(self.port)],
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
        try:
            self._process.wait(30)
        finally:
            self.kill()  # a test that failed may have left a run that waits
        assert "ASGI application" not in self.log, self.log

    def gate(self, thread_id: str, *names: int | str) -> None:
        """Release waiting model calls of a thread, by their numbers."""
        for name in names:
            (web_trees.gates_of(str(self.folder), thread_id) / str(name)).touch()

    def events(self, thread_id: str) -> list[tuple[str, str, str, str]]:
        """Return the saved events: their ids, addresses, kinds and texts."""
        tree = web_trees.tree_of(self.name, str(self.folder))
        with ag.Runner(tree, checkpointer=self.folder / "web.db") as runner:
            told = [each for each in runner.events(thread_id) if each.kind != "discarded"]
        return [(each.id, each.address, each.kind, each.text) for each in told]


class Wire:
    """A connection of a browser to a server that tests can cut.

    Requests name the server's own address: some servers reject any other.
    """

    def __init__(self, server: Server) -> None:
        self._server, self._ends, self.is_cut = server, list[socket.socket](), False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._names = [each.partition("//")[2].encode() for each in (self.url, server.url)]
        self._threads = [Thread(target=self._listen)]
        self._threads[0].start()

    def cut(self) -> None:
        """Cut all connections, and reject others, until `is_cut` is set back."""
        self.is_cut = True
        for each in self._ends:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._ends):
            each.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                self._ends.append(near)
                if self.is_cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._server.port))
                self._ends.append(far)
                for way in ((near, far, self._names), (far, near, self._names[::-1])):
                    self._threads.append(Thread(target=_pass_on, args=way))
                    self._threads[-1].start()


def _pass_on(near: socket.socket, far: socket.socket, names: list[bytes]) -> None:
    with suppress(OSError):
        while data := near.recv(65536):
            far.sendall(data.replace(*names))
    with suppress(OSError):
        far.shutdown(socket.SHUT_RDWR)

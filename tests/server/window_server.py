"""A server of the window as a process of its own, and a client that speaks HTTP with it."""

import json
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import window_trees
from helpers.commands import Commands, Running, wait_until
from helpers.pages import free_port

PATIENCE = 30.0


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class Refused(Exception):
    """A call that the server refused."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.data["detail"])
        self.status, self.kind = answer.status, answer.data["error"]
        self.questions = answer.data.get("questions", {})


class Served:
    """`agentgraph inspect` for a tree of `window_trees`, in a folder.

    Attributes:
        folder: Where its files are.
        token: What a call has to bring.
    """

    def __init__(self, command: Commands, tree: str, *options: str) -> None:
        self._command, self._tree, self._options = command, tree, options
        self.folder, self.port = command.folder, free_port()
        self.host = f"127.0.0.1:{self.port}"
        self._running: Running | None = None
        if not (self.folder / "trees.py").exists():
            shutil.copy(window_trees.__file__, self.folder / "trees.py")
        self.start()

    def start(self) -> None:
        """Start the server, also again after `kill`."""
        options = ("--db", "runs.db", "--port", str(self.port), "--no-browser", *self._options)
        env = {"XDG_STATE_HOME": str(self.folder / "state")}
        self._running = self._command.start("inspect", f"trees.py:{self._tree}", *options, env=env)
        wait_until(lambda: self.running.out.endswith("\n") and "token=" in self.running.out)
        self.token = re.findall("token=(.*)", self.running.out)[-1]
        self.ask("GET", "/")

    @property
    def running(self) -> Running:
        assert self._running is not None
        return self._running

    def kill(self) -> None:
        self.running.signal(signal.SIGKILL)
        self.running.wait_for_code()

    def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> Answer:
        """Send a request with these headers alone."""
        with self._connected(method, path, body, headers) as answer:
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def call(self, name: str, **arguments: Any) -> Any:
        """Make a call as the page does.

        Raises:
            Refused: It is refused.
        """
        answer = self.raw(name, json.dumps(arguments))
        if answer.status != 200:
            raise Refused(answer)
        return answer.data

    def raw(self, name: str, body: str | bytes, **headers: str) -> Answer:
        """Send the body of a call."""
        own = {"X_Token": self.token, "Content_Type": "application/json"}
        return self.ask("POST", f"/call/{name}", body, **{**own, **headers})

    @contextmanager
    def news(self, thread: str, since: str | None = None, **headers: str) -> Iterator["News"]:
        """Open the stream of news of a thread."""
        query = f"/news?token={self.token}&thread={thread}"
        path = query if since is None else f"{query}&since={since.replace(' ', '%20')}"
        with self._connected("GET", path, None, headers) as answer:
            assert answer.status == 200, answer.read()
            yield News(answer)

    def until(self, thread: str, status: str) -> Any:
        """Wait until a thread has a status, and return how it stands."""
        wait_until(lambda: self.call("thread", thread_id=thread)["status"] == status)
        return self.call("thread", thread_id=thread)

    @property
    def trees(self) -> dict[str, Any]:
        """The trees, loaded in this process: another one than the server's."""
        trees: dict[str, Any] = {"__name__": "trees", "__file__": str(self.folder / "trees.py")}
        exec((self.folder / "trees.py").read_text(), trees)
        return trees

    @contextmanager
    def _connected(
        self, method: str, path: str, body: bytes | str | None, headers: dict[str, str]
    ) -> Iterator[HTTPResponse]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            has_host = "Host" in headers
            connection.putrequest(method, path, skip_host=has_host, skip_accept_encoding=True)
            payload = body.encode() if isinstance(body, str) else body
            if payload is not None and "Content-Length" not in headers:
                headers = {**headers, "Content-Length": str(len(payload))}
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders(payload)
            answer = connection.getresponse()
            with answer:
                yield answer
        finally:
            connection.close()


class News:
    """What a page hears."""

    def __init__(self, answer: HTTPResponse) -> None:
        self._answer = answer
        self.bars: dict[str, Any] = {}
        self.texts: dict[str, str] = {}
        self.thread: Any = None
        self.upto: str | None = None
        self.kinds: list[str] = []

    def next(self) -> str:
        """Wait for the next news, and return its kind."""
        fields: dict[str, str] = {}
        while True:
            line = self._answer.readline().decode()
            if not line:
                raise EOFError
            if line == "\n" and "event" in fields:
                return self._hear(fields["event"], json.loads(fields["data"]), fields.get("id"))
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = value

    def until(self, condition: Callable[[], Any]) -> None:
        """Hear news until something holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, (self.thread, self.bars)
            self.next()

    def _hear(self, kind: str, data: Any, cursor: str | None) -> str:
        self.kinds.append(kind)
        if kind == "thread":
            self.thread = data
        if kind == "text":
            self.texts[data["address"]] = self.texts.get(data["address"], "") + data["text"]
        if kind == "timeline":
            assert cursor == data["upto"]
            self.upto = data["upto"]
            for gone in data["gone"]:
                del self.bars[gone]
            self._merge(data["bars"])
        return kind

    def _merge(self, bars: list[Any]) -> None:
        """Merge bars as the page does: an enclosing one may have begun before what is sent."""
        outer = {bar["inside"] for bar in self.bars.values()}
        since = min((bar["began"] for bar in bars), default=0.0)
        for bar in bars:
            before = self.bars.get(bar["id"]) if bar["id"] in outer and bar["kind"] == "agent" else None
            if before is not None and before["began"] < since:
                bar |= {"began": before["began"], "step": before["step"]}
            self.bars[bar["id"]] = bar

    @property
    def addresses(self) -> list[str]:
        return [bar["address"] for bar in sorted(self.bars.values(), key=lambda bar: bar["began"])]


Serve = Callable[..., Served]
"""Serves a tree of `window_trees`, by its name, with options of the command."""

"""Many clients follow runs on a server that is killed: each gets each event once, and all runs end.

`make load` has a hundred clients, and kills the server twice.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx
from helpers.followed_trees import check_adds_up
from helpers.pages import free_port
from load_tree import EFFECTS, tree

import agentgraph as ag

CLIENTS = int(os.environ.get("AGENTGRAPH_CLIENTS", "12"))
KILLS = 2 if CLIENTS >= 100 else 1
WORKERS = ("a", "left", "right", "on", "b")
PATIENCE = 60 + 3 * CLIENTS
"""After how many seconds the runs have ended; it is no measure."""


class Server:
    """The server, which may be killed and started again.

    Attributes:
        told: How many events all clients have got.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.port, self.told = folder, free_port(), 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "load_app:app", "--port", str(self.port)]
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        self._process = subprocess.Popen(
            [*command, "--log-level", "error"],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": path},
        )

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    async def killed_and_started(self, events: int) -> None:
        """Kill it and start it again, once clients have got a part of all events, and once more."""
        for kill in range(1, KILLS + 1):
            while self.told < events * kill / (KILLS + 1):
                await asyncio.sleep(0.01)
            self.kill()
            self.start()


class Client:
    """A client that follows a run of its own, hangs up at random, and comes back."""

    def __init__(self, number: int, server: Server, http: httpx.AsyncClient) -> None:
        self.thread_id, self._server, self._http = f"t{number}", server, http
        self._chance = random.Random(number)
        self.leaves, self.steers, self.stops = number % 2 == 0, number % 3 == 0, number % 5 == 0
        self.got: list[ag.AgentEvent] = []
        self.status = ""

    async def run(self) -> None:
        while self.status != "paused":
            try:
                await self._connect()
            except (httpx.TransportError, httpx.HTTPStatusError):  # it is down, or busy
                await asyncio.sleep(0.05)

    async def _connect(self) -> None:
        """Have the run begin or go on, and follow it up to its end or for a few events."""
        await self._post("")
        most = self._chance.randrange(1, 5) if self.leaves else 1000
        headers = {"Last-Event-ID": self.got[-1].cursor or ""} if self.got else {}
        url = f"/{self.thread_id}/events"
        async with self._http.stream("GET", url, headers=headers) as reply:
            reply.raise_for_status()
            async for kind, data in messages(reply):
                if kind == "end":
                    self.status = data["status"]
                    return
                self.got.append(ag.AgentEvent.from_dict(data))
                self._server.told += 1
                await self._request()
                if (most := most - 1) == 0:
                    return

    async def _request(self) -> None:
        if self.steers and len(self.got) >= 2:
            await self._post("/steer")
            self.steers = False
        if self.stops and len(self.got) >= 3:
            await self._post("/stop")
            self.stops = False

    async def _post(self, what: str) -> None:
        (await self._http.post(f"/{self.thread_id}{what}")).raise_for_status()


async def messages(reply: httpx.Response) -> AsyncIterator[tuple[str, dict[str, object]]]:
    """Yield the server-sent events of a reply: their names and data."""
    kind = ""
    async for line in reply.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


def test_many_clients_of_a_server_that_is_killed_lose_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.start()

    async def all_of_them() -> list[Client]:
        limits = httpx.Limits(max_connections=3 * CLIENTS)
        address = f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(base_url=address, limits=limits, timeout=30) as http:
            clients = [Client(number, server, http) for number in range(CLIENTS)]
            kills = asyncio.create_task(server.killed_and_started(6 * CLIENTS))
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(client.run() for client in clients))
                await kills
        return clients

    try:
        clients = asyncio.run(all_of_them())
    finally:
        with suppress(ProcessLookupError):
            server.kill()
    done = Counter((tmp_path / EFFECTS).read_text().splitlines())
    with ag.Runner(tree(), checkpointer=tmp_path / "threads.db") as runner:
        for number, client in enumerate(clients):
            thread = runner.thread(client.thread_id)
            again = list(runner.events(client.thread_id))
            assert thread.status == "paused"
            check_adds_up(client.got, again)
            texts = [event.text for event in again]
            assert {name: texts.count(f"{name} is done") for name in WORKERS} == dict.fromkeys(
                WORKERS, 1
            )
            ids = [each.id for each in (*thread.messages, *thread.queued)]
            assert ids.count(f"hm-{client.thread_id}") == (number % 3 == 0)
            times = [done[f"{client.thread_id} {name}"] for name in WORKERS]
            assert min(times) >= 1
            assert sum(times) <= len(WORKERS) + 2 * KILLS, times  # two may be in flight at a kill

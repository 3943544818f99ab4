"""Runs the tree on the cluster, over LangGraph's SDK: `python -m examples.cluster.client [URL ...]`.

Any server may execute a run. Clients may start, follow and answer the run at each server.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient

import agentgraph as ag
from examples.cluster.tree import magazine

URLS = ("http://127.0.0.1:2026", "http://127.0.0.1:2027")
MODES: Any = ["updates", "custom", "messages-tuple"]
TIMEOUT = httpx.Timeout(300, connect=5)  # seconds; a stream has no events while a step runs
Turn = dict[str, Any]
"""The `input` of a run, or its `command` with answers."""


class AnyServer(httpx.AsyncBaseTransport):
    """Sends each request to the first server that accepts it, as a load balancer would.

    So when the SDK reopens a broken stream, it continues at another server. A request whose server died
    is sent again only if it reads; for other requests the effect is unknown.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = [httpx.URL(url) for url in urls]
        self._transport = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; raise `httpx.ConnectError` if no server accepts it."""
        for url in self._urls:
            request.url = request.url.copy_with(host=url.host, port=url.port)
            try:
                return await self._transport.handle_async_request(request)
            except httpx.TransportError as error:
                if request.method != "GET" and not isinstance(error, httpx.ConnectError):
                    raise
        raise httpx.ConnectError(f"no server at {', '.join(map(str, self._urls))}: run `make cluster`")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


def connect(urls: Sequence[str]) -> LangGraphClient:
    """Return a client of a cluster."""
    transport = AnyServer(urls)
    return LangGraphClient(httpx.AsyncClient(base_url=urls[0], transport=transport, timeout=TIMEOUT))


def beginning(log: Path, seconds: float) -> Turn:
    """Return the first turn of a thread: its log, and the seconds of each step."""
    values = {"log": str(log.absolute()), "seconds": seconds}
    return {"input": {"messages": [{"role": "user", "content": "Go."}], "values": values}}


async def start(client: LangGraphClient, thread_id: str, turn: Turn) -> str:
    """Queue a run of a thread, and return its id."""
    run = await client.runs.create(
        thread_id, magazine.name, stream_mode=MODES, stream_subgraphs=True, **turn
    )
    return run["run_id"]


async def follow(client: LangGraphClient, thread_id: str, run_id: str) -> AsyncIterator[ag.AgentEvent]:
    """Yield the events of a run, from its start."""
    begin = f"{run_id}_event_0"  # without an event id, an ended run yields no events
    parts = client.runs.join_stream(thread_id, run_id, last_event_id=begin)
    async for event in ag.atranslate(magazine, parts, thread_id=thread_id):
        yield event


async def questions(client: LangGraphClient, thread_id: str) -> dict[str, Any]:
    """Return the open questions of a thread, by id."""
    tasks = (await client.threads.get_state(thread_id))["tasks"]
    return {asked["id"]: asked["value"] for task in tasks for asked in task["interrupts"]}


async def main(urls: Sequence[str]) -> None:
    """Run a thread to its end; ask its questions in the terminal."""
    async with connect(urls) as client:
        thread_id = (await client.threads.create())["thread_id"]
        turn = beginning(Path("magazine.log"), 1)
        while turn:
            async for event in follow(client, thread_id, await start(client, thread_id, turn)):
                if not event.partial:
                    print(f"{event.address}: {event.text or event.kind}", flush=True)
            asked = await questions(client, thread_id)
            answers = {key: input(f"{value} (yes or no) ") for key, value in asked.items()}
            turn = {"command": {"resume": answers}} if answers else {}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or URLS))

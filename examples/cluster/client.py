"""Runs the tree on the cluster, over LangGraph's SDK: `python -m examples.cluster.client [URL ...]`.

A run is done by any one of the servers, and may be started, followed and answered at all of them.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

import agentgraph as ag
from examples.cluster.tree import magazine

URLS = ("http://127.0.0.1:2026", "http://127.0.0.1:2027")
MODES: Any = ["updates", "custom", "messages-tuple"]
Turn = dict[str, Any]
"""The `input` of a run, or its `command` with answers."""


def beginning(log: Path, seconds: float) -> Turn:
    """Return the turn that begins a thread: its log, and how many seconds each step takes."""
    values = {"log": str(log.absolute()), "seconds": seconds}
    return {"input": {"messages": [{"role": "user", "content": "Go."}], "values": values}}


@asynccontextmanager
async def reach(urls: Sequence[str]) -> AsyncIterator[LangGraphClient]:
    """Give a client of the first server that answers.

    Raises:
        ConnectionError: None does.
    """
    for url in urls:
        async with get_client(url=url) as client:
            try:
                await client.http.get("/ready")
            except httpx.HTTPError:
                continue
            yield client
            return
    raise ConnectionError(f"no server answers: {', '.join(urls)}; start them by `make cluster`")


async def new_thread(urls: Sequence[str]) -> str:
    """Create a thread, and return its id."""
    async with reach(urls) as client:
        return (await client.threads.create())["thread_id"]


async def start(urls: Sequence[str], thread_id: str, turn: Turn) -> str:
    """Queue a run of a thread, and return its id."""
    async with reach(urls) as client:
        run = await client.runs.create(
            thread_id, magazine.name, stream_mode=MODES, stream_subgraphs=True, **turn
        )
        return run["run_id"]


async def parts(urls: Sequence[str], thread_id: str, run_id: str) -> AsyncIterator[Any]:
    """Yield the parts of a run from its beginning; if a server is gone, the rest from the next one."""
    last = f"{run_id}_event_0"  # without an id, only what is still to come
    while True:
        try:
            async with reach(urls) as client:
                async for part in client.runs.join_stream(thread_id, run_id, last_event_id=last):
                    last = part.id or last
                    yield part
                return
        except httpx.TransportError:
            continue


async def questions(urls: Sequence[str], thread_id: str) -> dict[str, Any]:
    """Return the questions of a thread that wait for an answer, by their ids."""
    async with reach(urls) as client:
        tasks = (await client.threads.get_state(thread_id))["tasks"]
    return {asked["id"]: asked["value"] for task in tasks for asked in task["interrupts"]}


async def events(urls: Sequence[str], thread_id: str, turn: Turn) -> AsyncIterator[ag.AgentEvent]:
    """Run a turn, and yield its events."""
    run_id = await start(urls, thread_id, turn)
    async for event in ag.atranslate(magazine, parts(urls, thread_id, run_id), thread_id=thread_id):
        yield event


async def main(urls: Sequence[str]) -> None:
    """Run a thread to its end, and ask the person at the terminal what it asks."""
    thread_id, turn = await new_thread(urls), beginning(Path("magazine.log"), 1)
    while turn:
        async for event in events(urls, thread_id, turn):
            if not event.partial:
                print(f"{event.address}: {event.text or event.kind}", flush=True)
        asked = await questions(urls, thread_id)
        answers = {key: input(f"{value} (yes or no) ") for key, value in asked.items()}
        turn = {"command": {"resume": answers}} if answers else {}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or URLS))

"""Threads that a LangGraph server ran go back here, and go on there."""

import asyncio
from pathlib import Path
from typing import Any

from graphs import by_data, everything
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

import agentgraph as ag
from agentgraph.show.lines import event_text

GO: dict[str, Any] = {"messages": [{"role": "user", "content": "Go."}], "values": {"topic": "bees"}}


def told(events: list[ag.AgentEvent]) -> list[str]:
    return sorted(f"{each.address}: {event_text(each)}" for each in events)


def run_there(client: SyncLangGraphClient, tree: ag.Agent) -> str:
    """Run a turn of a tree on the server to its end, and return the thread."""
    thread = client.threads.create()["thread_id"]
    turn: dict[str, Any] = {"input": GO}
    while True:
        client.runs.wait(thread, tree.name, **turn)
        tasks = client.threads.get_state(thread)["tasks"]
        if not tasks:
            return str(thread)
        asked = [question["id"] for task in tasks for question in task["interrupts"]]
        turn = {"command": {"resume": dict.fromkeys(asked, "yes")}}


async def go_back(file: Path, tree: ag.Agent, thread: str) -> int:
    """Go back to each address that a thread has visited; return how many there are."""
    with ag.Runner(tree, checkpointer=file) as runner:
        whole = told([each async for each in runner.aevents(thread)])
        visits = dict.fromkeys(each.address for each in await runner.avisits(thread))
        for at in visits:
            async with runner.arewind(thread, at) as run:
                assert [each async for each in run]
            while asked := await runner.apending(thread):
                async with runner.aresume(thread, {each.id: "yes" for each in asked}) as run:
                    assert [each async for each in run]
            assert told([each async for each in runner.aevents(thread)]) == whole, at
    return len(visits)


def test_a_thread_of_a_server_goes_back_to_all_that_it_has_visited(
    saving_server: tuple[str, Path],
) -> None:
    url, file = saving_server
    with get_sync_client(url=url) as client:
        for tree in (everything, by_data):
            thread = run_there(client, tree)
            assert asyncio.run(go_back(file, tree, thread)) >= 10
            before: Any = client.threads.get_state(thread)
            assert not before["next"]
            client.runs.wait(thread, tree.name, input=GO)
            after: Any = client.threads.get_state(thread)
            assert len(after["values"]["messages"]) > len(before["values"]["messages"])

"""A LangGraph server runs the graphs as they are; its streams tell the same events."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from graphs import everything, failing, planned, rounds
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient

import agentgraph as ag
from agentgraph.testing import transcript

GO = {"messages": [{"role": "user", "content": "Go."}], "values": {"topic": "bees"}}
CHUNKS = ["updates", "custom", "messages-tuple"]
GRAPHS = json.loads((Path(__file__).parents[2] / "langgraph.json").read_text())["graphs"]


def told(event: ag.AgentEvent) -> dict[str, Any]:
    """Return an event without what is another one in each run: ids, and when it was told."""
    data = event.to_dict()
    data.update(id=None, thread_id=None, step=None, time=None)
    if message := event.message:
        data["output"]["message"]["data"]["id"] = None
        data["output"]["message"]["data"]["response_metadata"].pop("agentgraph_told", None)
        data["output"]["message"]["data"].pop("tool_call_id", message)
    if event.action and event.action.interrupted:
        data["action"]["interrupted"]["id"] = None
    if event.action and event.action.discarded:
        data["action"]["discarded"] = len(event.action.discarded)
    return data


def by_address(events: list[ag.AgentEvent]) -> dict[str, list[dict[str, Any]]]:
    """Return what was told at each address, in order; branches may speak in any order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        found.setdefault(event.address, []).append(told(event))
    return found


def here(tree: ag.Agent, *answers: Any) -> list[ag.AgentEvent]:
    """Run a tree in this process, and answer its questions."""

    async def run() -> list[ag.AgentEvent]:
        runner = ag.Runner(tree)
        values = {"topic": "bees"}
        events = [e async for e in runner.arun("Go.", thread_id="t", values=values, stream=True)]
        for answer in answers:
            events += [event async for event in runner.aresume("t", answer, stream=True)]
        return events

    return asyncio.run(run())


Turn = dict[str, Any]
Stream = Callable[[LangGraphClient, str, str, Turn], AsyncIterator[Any]]


def by_sdk(modes: list[str], version: str) -> Stream:
    async def stream(
        client: LangGraphClient, graph: str, thread: str, turn: Turn
    ) -> AsyncIterator[Any]:
        options: Any = {"stream_mode": modes, "stream_subgraphs": True, "version": version}
        async for part in client.runs.stream(thread, graph, **turn, **options):
            yield part

    return stream


def by_remote_graph(version: str) -> Stream:
    async def stream(
        client: LangGraphClient, graph: str, thread: str, turn: Turn
    ) -> AsyncIterator[Any]:
        given = Command(**turn["command"]) if "command" in turn else turn["input"]
        options: Any = {"stream_mode": ag.STREAM_MODES, "subgraphs": True, "version": version}
        config: Any = {"configurable": {"thread_id": thread}}
        async for part in RemoteGraph(graph, client=client).astream(given, config, **options):
            yield part

    return stream


def there(
    server: str,
    tree: ag.Agent,
    *answers: Any,
    stream: Stream = by_sdk(CHUNKS, "v1"),  # noqa: B008
) -> list[ag.AgentEvent]:
    """Run a tree on the server, and answer its questions over the API."""

    async def run() -> list[ag.AgentEvent]:
        events: list[ag.AgentEvent] = []
        turn: Turn = {"input": GO}
        async with get_client(url=server) as client:
            thread = (await client.threads.create())["thread_id"]
            for answer in [*answers, None]:
                parts = stream(client, tree.name, thread, turn)
                events += [event async for event in ag.atranslate(tree, parts)]
                tasks = (await client.threads.get_state(thread))["tasks"]
                asked = [question["id"] for task in tasks for question in task["interrupts"]]
                turn = {"command": {"resume": dict.fromkeys(asked, answer)}}
        return events

    return asyncio.run(run())


@pytest.mark.parametrize(
    "stream",
    [by_sdk(CHUNKS, "v1"), by_sdk(CHUNKS, "v2"), by_remote_graph("v1"), by_remote_graph("v2")],
    ids=["sdk-v1", "sdk-v2", "remote-graph-v1", "remote-graph-v2"],
)
def test_a_run_on_the_server_tells_the_same_events_as_one_here(server: str, stream: Stream) -> None:
    at_home = here(everything, "yes")
    away = there(server, everything, "yes", stream=stream)
    assert by_address(away) == by_address(at_home)
    times = [event.time for event in away if not event.partial and event.kind != "discarded"]
    assert times == sorted(set(times))
    assert (
        len(
            {event.kind for event in away} & {"message", "custom", "break_loop", "interrupted", "error"}
        )
        == 5
    )


def test_a_plan_on_the_server_tells_the_same_events_as_one_here(server: str) -> None:
    assert [*map(told, there(server, planned))] == [*map(told, here(planned))]


def test_whole_messages_that_grow_become_chunks_with_the_same_text(server: str) -> None:
    grown = there(server, everything, "yes", stream=by_sdk(["updates", "custom", "messages"], "v1"))
    at_home = here(everything, "yes")
    whole = [event for event in grown if not event.partial]
    assert by_address(whole) == by_address([event for event in at_home if not event.partial])
    assert texts(grown) == texts(at_home)


def texts(events: list[ag.AgentEvent]) -> dict[str, list[str]]:
    """Return the texts of chunks, by their addresses."""
    found: dict[str, list[str]] = {}
    for event in events:
        if event.partial and event.text:
            found.setdefault(event.address, []).append(event.text)
    return found


def test_the_tokens_of_each_agent_come_with_its_name_and_address(server: str) -> None:
    async def run() -> set[tuple[str, str]]:
        async with get_client(url=server) as client:
            thread = (await client.threads.create())["thread_id"]
            stream = by_sdk(["messages-tuple"], "v2")(client, "everything", thread, {"input": GO})
            return {
                (part["data"][1]["agent_name"], part["data"][1]["agent_address"])
                async for part in stream
                if part["type"] == "messages" and part["data"][0]["type"] == "AIMessageChunk"
            }

    assert asyncio.run(run()) == {
        ("critic", "everything/refine[0]/critic"),
        ("critic", "everything/refine[1]/critic"),
        ("desk", "everything/desk"),
        ("research", "everything/desk/research(1)"),
        ("jotter", "everything/jotter"),
        ("helper", "everything/helper"),
        ("law", "everything/review/legal/law"),
        ("style", "everything/review/style"),
    }


@pytest.fixture
def client(server: str) -> Iterator[SyncLangGraphClient]:
    with get_sync_client(url=server) as client:
        yield client


def test_a_run_that_fails_there_tells_who_failed_and_raises(client: SyncLangGraphClient) -> None:
    thread = client.threads.create()["thread_id"]
    parts = client.runs.stream(thread, "failing", input=GO, stream_mode=["updates", "custom"])
    events = ag.translate(failing, parts)
    assert transcript([next(events), next(events)]) == [
        "failing/first: One.",
        "failing/first/again/ink: [error] RuntimeError('no ink')",
    ]
    with pytest.raises(ag.RemoteRunError) as caught:
        next(events)
    assert str(caught.value) == "the run failed on the server with RuntimeError: no ink"


def said(client: SyncLangGraphClient, thread: str, **turn: Any) -> list[str]:
    """Run the rounds, and return what was said as lines with addresses."""
    parts = client.runs.stream(thread, "rounds", stream_mode=["updates", "custom"], **turn)
    return [f"{e.address}: {e.text}" for e in ag.translate(rounds, parts) if e.kind == "message"]


def test_a_state_edited_in_the_middle_of_a_loop_goes_on_there_with_its_counters(
    client: SyncLangGraphClient,
) -> None:
    thread = client.threads.create()["thread_id"]
    said(client, thread, input=GO, interrupt_before=["count"])
    assert said(client, thread, input=None, interrupt_before=["count"]) == [
        "rounds[0]/count: 2 messages, draft 0",
        "rounds[1]/draft: Draft 1.",
    ]
    note = {"role": "user", "content": "And wasps."}
    client.threads.update_state(thread, {"values": {"draft": "edited"}, "messages": [note]})
    assert client.threads.get_state(thread)["next"] == ["count"]
    assert said(client, thread, input=None) == [
        "rounds[1]/count: 5 messages, draft edited",
        "rounds[2]/draft: Draft 2.",
        "rounds[2]/count: 7 messages, draft 2",
        "rounds[3]/draft: Draft 3.",
        "rounds[3]/count: 9 messages, draft 3",
    ]


def test_a_run_goes_on_from_an_edited_checkpoint_of_an_earlier_iteration(
    client: SyncLangGraphClient,
) -> None:
    thread = client.threads.create()["thread_id"]
    said(client, thread, input=GO)
    states = [
        state for state in client.threads.get_history(thread, limit=50) if state["next"] == ["count"]
    ]
    second = states[-2]["checkpoint"]
    forked = client.threads.update_state(thread, {"values": {"draft": "again"}}, checkpoint=second)
    lines = said(client, thread, input=None, checkpoint=forked["checkpoint"])
    assert lines[:2] == ["rounds[1]/count: 4 messages, draft again", "rounds[2]/draft: Draft 2."]
    assert len(lines) == 5


def test_a_client_decides_on_tool_calls_without_ids(client: SyncLangGraphClient) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "asking", input=GO)
    (question,) = client.threads.get_state(thread)["interrupts"]
    asked = [action["args"] for action in question["value"]["action_requests"]]
    assert asked == [{"text": "one"}, {"text": "two"}]
    unfit = client.runs.wait(thread, "asking", command={"resume": {"decisions": []}})
    assert unfit["__interrupt__"][0]["value"] == question["value"]
    decisions = [{"type": "reject"}, {"type": "approve"}]
    done: Any = client.runs.wait(thread, "asking", command={"resume": {"decisions": decisions}})
    told = [(each["type"], each.get("status")) for each in done["messages"][2:]]
    assert told == [("tool", "error"), ("tool", "success"), ("ai", None)]


def test_a_second_turn_begins_at_the_first_leaf_with_the_history_kept(
    client: SyncLangGraphClient,
) -> None:
    thread = client.threads.create()["thread_id"]
    first, second = said(client, thread, input=GO), said(client, thread, input=GO)
    assert first[1] == "rounds[0]/count: 2 messages, draft 0"
    assert second[:2] == ["rounds[0]/draft: Draft 0.", "rounds[0]/count: 11 messages, draft 0"]
    assert len(second) == 8


@pytest.mark.parametrize("name", GRAPHS)
def test_each_graph_of_the_notebooks_is_drawn_with_one_start_and_one_end(
    client: SyncLangGraphClient, name: str
) -> None:
    assistant = client.assistants.search(graph_id=name)[0]["assistant_id"]
    drawn = client.assistants.get_graph(assistant, xray=True)
    ids = [node["id"] for node in drawn["nodes"]]
    assert len(ids) == len(set(ids))
    assert {"__start__", "__end__"} <= {*ids}
    assert {edge[end] for edge in drawn["edges"] for end in ("source", "target")} == {*ids}


@pytest.mark.parametrize("name", GRAPHS)
def test_each_graph_of_the_notebooks_has_the_message_form_and_the_values(
    client: SyncLangGraphClient, name: str
) -> None:
    assistant = client.assistants.search(graph_id=name)[0]["assistant_id"]
    schemas = client.assistants.get_schemas(assistant)
    for schema in (schemas["input_schema"], schemas["output_schema"]):
        assert schema is not None
        assert set(schema["properties"]) == {"messages", "values"}
        assert schema["properties"]["messages"]["items"]["oneOf"]
        assert schema["required"] == ["messages"]
    kept = set(schemas["state_schema"]["properties"])  # type: ignore[index]
    assert kept - {"middleware"} == {"messages", "values", "position"}


@pytest.mark.parametrize("name", GRAPHS)
def test_each_graph_of_the_notebooks_runs_a_turn_to_its_end_or_its_first_question(
    client: SyncLangGraphClient, name: str
) -> None:
    thread = client.threads.create()["thread_id"]
    parts = [*client.runs.stream(thread, name, input=GO, stream_mode="values")]
    assert [part.data for part in parts if part.event == "error"] == []
    state = client.threads.get_state(thread)
    assert len(state["values"]["messages"]) > 1 or state["next"]

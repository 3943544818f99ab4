"""A LangGraph server runs the graphs as they are; its streams give the same events."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from graphs import by_data, cached, everything, failing, planned, rounds
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient

import agentgraph as ag
from agentgraph.testing import transcript

GO = {"messages": [{"role": "user", "content": "Go."}], "values": {"topic": "bees"}}
CHUNKS = ["updates", "custom", "messages-tuple"]
GRAPHS = json.loads((Path(__file__).parents[2] / "langgraph.json").read_text())["graphs"]

Turn = dict[str, Any]
Stream = Callable[[LangGraphClient, str, str, Turn], AsyncIterator[Any]]


def plain(event: ag.AgentEvent) -> dict[str, Any]:
    """Return an event without what differs from run to run: ids, cursors and times."""
    data = event.to_dict() | dict.fromkeys(("id", "thread_id", "step", "cursor", "time"))
    if event.message:
        message = data["output"]["message"]["data"]
        message["id"] = None
        if stamp := message["response_metadata"].get("agentgraph"):
            message["response_metadata"]["agentgraph"] = stamp[:1]
        message.pop("tool_call_id", None)
    if event.action and event.action.interrupted:
        data["action"]["interrupted"]["id"] = None
    if event.action and event.action.discarded:
        data["action"]["discarded"] = len(event.action.discarded)
    return data


def by_address(events: list[ag.AgentEvent]) -> dict[str, list[dict[str, Any]]]:
    """Return the events of each address, in order; branches may speak in any order."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        found[event.address].append(plain(event))
    return found


def here(tree: ag.Agent, *answers: Any) -> list[ag.AgentEvent]:
    """Run a tree in this process, and answer its questions."""

    async def run() -> list[ag.AgentEvent]:
        runner, values = ag.Runner(tree), GO["values"]
        events = [e async for e in runner.arun("Go.", thread_id="t", values=values, stream=True)]
        for answer in answers:
            events += [event async for event in runner.aresume("t", answer, stream=True)]
        return events

    return asyncio.run(run())


def there(server: str, tree: ag.Agent, *answers: Any, stream: Stream) -> list[ag.AgentEvent]:
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


def by_sdk(version: str, modes: list[str] = CHUNKS) -> Stream:
    options: Any = {"stream_mode": modes, "stream_subgraphs": True, "version": version}
    return lambda client, graph, thread, turn: client.runs.stream(thread, graph, **turn, **options)


def by_remote_graph(version: str) -> Stream:
    def stream(client: LangGraphClient, graph: str, thread: str, turn: Turn) -> AsyncIterator[Any]:
        given = Command(**turn["command"]) if "command" in turn else turn["input"]
        options: Any = {"stream_mode": ag.STREAM_MODES, "subgraphs": True, "version": version}
        config: Any = {"configurable": {"thread_id": thread}}
        return RemoteGraph(graph, client=client).astream(given, config, **options)

    return stream


STREAMS = {
    f"{how.__name__} {version}": how(version)
    for how in (by_sdk, by_remote_graph)
    for version in ("v1", "v2")
}


def test_a_graph_on_the_server_has_the_cache_that_it_was_compiled_with(server: str) -> None:
    runs = [there(server, cached, stream=by_sdk("v2")) for _ in range(2)]
    said = [sorted(event.text for event in run if not event.partial) for run in runs]
    assert said == [["Call 1.", "Hm."]] * 2


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_a_run_on_the_server_gives_the_same_events_as_one_here(server: str, stream: Stream) -> None:
    at_home = here(everything, "yes")
    away = there(server, everything, "yes", stream=stream)
    assert by_address(away) == by_address(at_home)
    times = [event.time for event in away if not event.partial and event.kind != "discarded"]
    assert times == sorted(set(times))
    cursors = [event.cursor or "" for event in away]
    assert cursors == sorted(set(cursors))
    kinds = {"message", "custom", "break_loop", "interrupted", "error"}
    assert kinds <= {event.kind for event in away}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_items_choices_calls_and_values_on_the_server_are_those_of_a_run_here(
    server: str, stream: Stream
) -> None:
    at_home = here(by_data, "yes", "no")
    away = there(server, by_data, "yes", "no", stream=stream)
    assert by_address(away) == by_address(at_home)
    assert {"values", "chosen", "error", "interrupted"} <= {event.kind for event in away}
    asked = [event.address for event in away if event.kind == "interrupted"]
    assert asked == ["by_data/files/work(1:b%2Fc)/check", "by_data/investigate/desk(1)/clerk"]
    assert transcript(away)[-1].endswith("/skip/investigate: no")


def test_a_plan_on_the_server_gives_the_same_events_as_one_here(server: str) -> None:
    away = there(server, planned, stream=by_sdk("v1"))
    assert [*map(plain, away)] == [*map(plain, here(planned))]


def test_whole_messages_that_grow_become_chunks_with_the_same_text(server: str) -> None:
    def texts(events: list[ag.AgentEvent]) -> set[tuple[str, str]]:
        return {(event.address, event.text) for event in events if event.partial and event.text}

    grown = there(server, everything, "yes", stream=by_sdk("v1", ["updates", "custom", "messages"]))
    at_home = here(everything, "yes")
    assert by_address([event for event in grown if not event.partial]) == by_address(
        [event for event in at_home if not event.partial]
    )
    assert texts(grown) == texts(at_home)


@pytest.fixture
def client(server: str) -> Iterator[SyncLangGraphClient]:
    with get_sync_client(url=server) as client:
        yield client


@pytest.fixture
def thread(client: SyncLangGraphClient) -> str:
    return client.threads.create()["thread_id"]


def test_the_tokens_of_each_agent_come_with_its_name_and_address(
    client: SyncLangGraphClient, thread: str
) -> None:
    options: Any = {"stream_mode": ["messages-tuple"], "stream_subgraphs": True, "version": "v2"}
    assert {
        (part["data"][1]["agent_name"], part["data"][1]["agent_address"])
        for part in client.runs.stream(thread, "everything", input=GO, **options)
        if part["type"] == "messages" and part["data"][0]["type"] == "AIMessageChunk"
    } == {
        ("critic", "everything/refine[0]/critic"),
        ("critic", "everything/refine[1]/critic"),
        ("desk", "everything/desk"),
        ("research", "everything/desk/research(1)"),
        ("jotter", "everything/jotter"),
        ("helper", "everything/helper"),
        ("model", "everything/clerk/model"),
        ("model", "everything/clerk/model[1]"),
        ("law", "everything/review/legal/law"),
        ("style", "everything/review/style"),
    }


def test_a_run_that_fails_there_reports_who_failed_and_raises(
    client: SyncLangGraphClient, thread: str
) -> None:
    parts = client.runs.stream(thread, "failing", input=GO, stream_mode=["updates", "custom"])
    events = ag.translate(failing, parts)
    assert transcript([next(events), next(events)]) == [
        "failing/first: One.",
        "failing/first/again/ink: [error] RuntimeError('no ink')",
    ]
    with pytest.raises(ag.RemoteRunError) as caught:
        next(events)
    assert str(caught.value) == (
        "the run failed on the server with RuntimeError: no ink; see the log of the server, then "
        "resume the thread"
    )


def said(client: SyncLangGraphClient, thread: str, **turn: Any) -> list[str]:
    """Run the rounds, and return what was said as lines with addresses."""
    parts = client.runs.stream(thread, "rounds", stream_mode=["updates", "custom"], **turn)
    return [f"{e.address}: {e.text}" for e in ag.translate(rounds, parts) if e.kind == "message"]


def test_a_state_edited_in_the_middle_of_a_loop_goes_on_there_with_its_counters(
    client: SyncLangGraphClient, thread: str
) -> None:
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


def test_a_run_goes_on_from_an_edited_checkpoint_and_a_second_turn_from_the_first_leaf(
    client: SyncLangGraphClient, thread: str
) -> None:
    assert said(client, thread, input=GO)[1] == "rounds[0]/count: 2 messages, draft 0"
    history = client.threads.get_history(thread, limit=50)
    second = [state["checkpoint"] for state in history if state["next"] == ["count"]][-2]
    forked = client.threads.update_state(thread, {"values": {"draft": "again"}}, checkpoint=second)
    lines = said(client, thread, input=None, checkpoint=forked["checkpoint"])
    assert lines[:2] == ["rounds[1]/count: 4 messages, draft again", "rounds[2]/draft: Draft 2."]
    assert len(lines) == 5
    again = said(client, thread, input=GO)
    assert again[:2] == ["rounds[0]/draft: Draft 0.", "rounds[0]/count: 11 messages, draft 0"]
    assert len(again) == 8


def test_a_client_decides_on_tool_calls_without_ids(client: SyncLangGraphClient, thread: str) -> None:
    client.runs.wait(thread, "asking", input=GO)
    (question,) = client.threads.get_state(thread)["interrupts"]
    asked = [action["args"] for action in question["value"]["action_requests"]]
    assert asked == [{"text": "one"}, {"text": "two"}]
    unfit = client.runs.wait(thread, "asking", command={"resume": {"decisions": []}})
    assert unfit["__interrupt__"][0]["value"] == question["value"]
    decisions = [{"type": "reject"}, {"type": "approve"}]
    done: Any = client.runs.wait(thread, "asking", command={"resume": {"decisions": decisions}})
    results = [(each["type"], each.get("status")) for each in done["messages"][2:]]
    assert results == [("tool", "error"), ("tool", "success"), ("ai", None)]


def words(state: Any) -> list[str]:
    """Return what the lanes of a state have said, and the nodes that are next in them."""
    found: list[str] = []
    for task in state["tasks"]:
        if inner := task.get("state"):
            found += [str(each["content"]) for each in (inner["values"] or {}).get("messages", [])]
            found += [*words(inner), *inner["next"]]
    return found


def test_the_branches_of_a_paused_tree_are_in_its_state(
    client: SyncLangGraphClient, thread: str
) -> None:
    client.runs.wait(thread, "everything", input=GO)
    state: Any = client.threads.get_state(thread, subgraphs=True)
    assert words(state) == ["Legal.", "boss", "Fine.", "ink", "legal"]
    (task,) = client.threads.get_state(thread)["tasks"]
    review: Any = client.threads.get_state(thread, checkpoint=task["checkpoint"])
    assert review["next"] == ["legal"]
    legal: Any = client.threads.get_state(thread, checkpoint=review["tasks"][0]["checkpoint"])
    assert [each["content"] for each in legal["values"]["messages"]] == ["Legal."]
    assert legal["next"] == ["boss"]


def test_branches_that_reach_a_limit_there_ask_once_and_go_on(
    client: SyncLangGraphClient, thread: str
) -> None:
    client.runs.wait(thread, "limited", input=GO)
    (question,) = client.threads.get_state(thread)["interrupts"]
    assert question["value"].endswith("which is 4 for a turn. May it be 4 more?")
    done: Any = client.runs.wait(thread, "limited", command={"resume": {question["id"]: True}})
    assert [each["content"] for each in done["messages"][1:]] == ["Fine."] * 6


@pytest.mark.parametrize("name", GRAPHS)
def test_each_graph_of_the_notebooks_is_drawn_described_and_run(
    client: SyncLangGraphClient, thread: str, name: str
) -> None:
    assistant = client.assistants.search(graph_id=name)[0]["assistant_id"]
    drawn = client.assistants.get_graph(assistant, xray=True)
    ids = [node["id"] for node in drawn["nodes"]]
    assert len(ids) == len(set(ids))
    assert {"__start__", "__end__"} <= {*ids}
    assert {edge[end] for edge in drawn["edges"] for end in ("source", "target")} == {*ids}

    schemas: Any = client.assistants.get_schemas(assistant)
    for schema in (schemas["input_schema"], schemas["output_schema"]):
        assert set(schema["properties"]) == {"messages", "values"}
        assert schema["properties"]["messages"]["items"]["oneOf"]
        assert schema["required"] == ["messages"]
    kept = set(schemas["state_schema"]["properties"])
    assert kept - {"middleware"} == {"messages", "values", "position"}

    context = {"name": "Ada"} if name == "application" else None
    given = {**GO, "values": {"letters": ["When?"]}} if name == "data" else GO
    parts = [*client.runs.stream(thread, name, input=given, context=context, stream_mode="values")]
    assert [part.data for part in parts if part.event == "error"] == []
    state = client.threads.get_state(thread)
    has_answered = len(state["values"]["messages"]) > 1 or "answers" in state["values"]["values"]
    assert has_answered or state["next"]


def test_a_runtime_context_reaches_the_agents_also_an_assistants(client: SyncLangGraphClient) -> None:
    given = {"messages": [{"role": "user", "content": "Hello."}]}
    bob = client.assistants.create("application", context={"name": "Bob", "language": "French"})
    ended: list[Any] = [
        client.runs.wait(None, "application", input=given, context={"name": "Ada"}),
        client.runs.wait(None, bob["assistant_id"], input=given),
    ]
    assert [each["messages"][-1]["content"] for each in ended] == [
        "Answer Ada in English. They like anything.",
        "Answer Bob in French. They like anything.",
    ]
    schemas = client.assistants.get_schemas(bob["assistant_id"])
    assert schemas["context_schema"]["properties"].keys() == {"name", "language"}


def test_a_server_shows_and_checks_typed_values(client: SyncLangGraphClient) -> None:
    (found,) = client.assistants.search(graph_id="values", limit=1)
    schemas = client.assistants.get_schemas(found["assistant_id"])
    shown = schemas["input_schema"]["$defs"]["Values"]["properties"]
    assert shown["topic"] == {
        "description": "What the report is about.",
        "title": "Topic",
        "type": "string",
    }
    thread = client.threads.create()["thread_id"]
    wrong = {"messages": [{"role": "user", "content": "Go."}], "values": {"topic": 3}}
    ended: Any = client.runs.wait(thread, "values", input=wrong, raise_error=False)
    assert ended["__error__"]["error"] == "AgentGraphError"
    assert client.threads.get_state(thread)["values"].get("values") in (None, {})

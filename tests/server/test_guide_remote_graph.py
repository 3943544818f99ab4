"""LangGraph's guide to `RemoteGraph`, restated: a deployed graph is an agent of a tree."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from helpers import Drive, Sync, driven, lines, says
from langchain_core.messages import AIMessageChunk
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk import get_client, get_sync_client

import agentgraph as ag
from agentgraph.events.events import AgentEvent

SAID: Any = {"messages": [{"role": "user", "content": "Go."}]}
Call = Callable[..., Any]

pytestmark = pytest.mark.by_turns("drive")


@dataclass
class Tenant:
    """The context of a tree; the remote graph's own has only the user.

    Attributes:
        user: Who asks.
        token: A secret, which no server should save.
        connection: Something that has no JSON form.
    """

    user: str
    token: str = "secret"
    connection: Any = None


@contextmanager
def sync_client(server: str) -> Iterator[Any]:
    with get_sync_client(url=server) as client:
        yield client


def by_hand(remote: Any) -> Any:
    """Return a graph with the remote graph as its node, as the guide writes it."""
    builder = StateGraph(MessagesState).add_node("child", remote)
    return builder.add_edge(START, "child").compile()


def of_tree(remote: Any, **options: Any) -> Any:
    return ag.compile_agent(ag.graph_agent("child", remote), **options)


@pytest.fixture
def call(server: str, drive: Drive) -> Call:
    """Return a function that calls a method of a graph made of a remote graph, sync or async."""

    def call(make: Any, name: str, *args: Any, stream: bool = False, **options: Any) -> Any:
        if drive is Sync:
            with sync_client(server) as client:
                graph = make(RemoteGraph(name, sync_client=client))
                found = (graph.stream if stream else graph.invoke)(*args, **options)
                return list(found) if stream else found

        async def acall() -> Any:
            async with get_client(url=server) as client:
                graph = make(RemoteGraph(name, client=client))
                if not stream:
                    return await graph.ainvoke(*args, **options)
                return [part async for part in graph.astream(*args, **options)]

        return asyncio.run(acall())

    return call


def run(server: str, drive: Drive, make: Any, *turns: Any, **options: Any) -> list[AgentEvent]:
    """Return the events of turns of a runner; `make` makes its tree from what makes remote graphs."""
    if drive is Sync:
        with sync_client(server) as client:
            runner = ag.Runner(make(lambda name: RemoteGraph(name, sync_client=client)), **options)
            return [event for text, more in turns for event in runner.run(text, **more)]

    async def arun() -> Any:
        async with get_client(url=server) as client:
            runner = ag.Runner(make(lambda name: RemoteGraph(name, client=client)), **options)
            for text, more in turns:
                async for event in runner.arun(text, **more):
                    yield event

    return list(driven(arun()))


def last(output: Any) -> str:
    message = output["messages"][-1]
    return str(message["content"] if isinstance(message, dict) else message.text)


def test_config_reaches_a_remote_graph_with_and_without_a_thread(call: Call) -> None:
    for configurable in ({}, {"thread_id": str(uuid4())}):
        config = {"configurable": {**configurable, "job": "dig"}, "metadata": {"team": "red"}}
        for make in (by_hand, of_tree):
            assert last(call(make, "remote_reporting", SAID, config)) == "nobody dig red None"


def test_a_remote_graph_gets_of_the_context_what_its_own_context_has(server: str, drive: Drive) -> None:
    def tree(remote: Any) -> ag.Agent:
        agents = [ag.graph_agent(name, remote("remote_reporting")) for name in "ab"]
        return ag.sequential("s", [agents[0], ag.parallel("p", [agents[1]])])

    context = Tenant("ada", connection=object())
    options: Any = {"context": context, "config": {"configurable": {"job": "dig"}}}
    turns = [("Go.", {**options, "thread_id": str(uuid4())}), ("Go.", options), ("Go.", {})]
    events = run(server, drive, tree, *turns, context_schema=Tenant)
    said = [event.text for event in events if event.kind == "message"]
    assert said == ["ada dig None None"] * 4 + ["nobody None None None"] * 2


def test_the_context_of_an_assistant_is_used_where_the_tree_has_none(server: str, call: Call) -> None:
    with sync_client(server) as client:
        assistant = client.assistants.create("remote_reporting", context={"user": "eve"})
    for make in (by_hand, of_tree):
        assert last(call(make, assistant["assistant_id"], SAID)).split()[0] == "eve"


def test_tokens_of_a_remote_graph_come_under_the_namespace_of_its_node(call: Call) -> None:
    for make in (by_hand, of_tree):
        modes: Any = {"stream_mode": ["messages"], "subgraphs": True, "stream": True}
        parts = call(make, "remote_reporting", SAID, **modes)
        inside = [data[0] for ns, _, data in parts if ns and ns[0].startswith("child:")]
        assert "".join(each["content"] for each in inside) == "nobody None None None"


def test_what_a_remote_graph_writes_comes_once(call: Call) -> None:
    for make in (by_hand, of_tree):
        modes: Any = {"stream_mode": ["custom"], "subgraphs": True, "stream": True}
        parts = call(make, "remote_reporting", SAID, **modes)
        data = [part[-1] for part in parts if "agentgraph" not in part[-1]]
        assert data == [{"percent": 50}]


def test_a_runner_streams_a_remote_graph_as_any_agent(server: str, drive: Drive) -> None:
    def tree(remote: Any) -> ag.Agent:
        far = [ag.graph_agent(name, remote("remote_reporting")) for name in "ab"]
        return ag.sequential("s", [far[0], ag.parallel("p", [far[1]]), says("last", "End.")])

    events = run(server, drive, tree, ("Go.", {"stream": True, "thread_id": str(uuid4())}))
    assert lines(events) == [
        's/a: [custom] {"percent": 50}',
        "s/a: nobody None None None",
        's/p/b: [custom] {"percent": 50}',
        "s/p/b: nobody None None None",
        "s/last: End.",
    ]
    for address in ("s/a", "s/p/b"):
        chunks = [event for event in events if event.partial and event.address == address]
        assert "".join(event.text for event in chunks) == "nobody None None None"
        assert all(isinstance(event.message, AIMessageChunk) for event in chunks)


def test_the_state_on_the_server_is_that_of_the_thread_and_may_be_edited(
    server: str, drive: Drive
) -> None:
    thread_id = str(uuid4())
    config: Any = {"configurable": {"thread_id": thread_id}}

    def tree(remote: Any) -> ag.Agent:
        return ag.graph_agent("far", remote("remote_counting"), history="last")

    def turn() -> list[str]:
        events = run(server, drive, tree, ("Go.", {"thread_id": thread_id}))
        return [event.text for event in events]

    assert turn() == ["Turn 1."]
    with sync_client(server) as client:
        remote = RemoteGraph("remote_counting", sync_client=client)
        assert remote.get_state(config).values["turns"] == 1
        remote.update_state(config, {"turns": 5})
    assert turn() == ["Turn 7."]

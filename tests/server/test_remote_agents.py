"""An agent runs a graph on a server: on a thread of its own there, with all of its questions."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from helpers import Drive, Sync, says
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client
from remote_graphs import CHOICE

import agentgraph as ag
from agentgraph.graph.foreign.remote_graph import remote_thread
from agentgraph.testing import ScriptedChatModel, call, calls, transcript
from agentgraph.tree.layout import lay_out

Far = Callable[..., ag.Agent]
"""Makes an agent that runs one of the server's graphs."""
Thread = Callable[..., list[Any]]

pytestmark = pytest.mark.by_turns("drive")


def remote_agent(graph: str, name: str = "far", *, history: Any = "shared", **client: Any) -> ag.Agent:
    return ag.graph_agent(name, RemoteGraph(graph, **client), history=history)


@pytest.fixture
def thread_id(drive: Drive) -> str:
    """Return a UUID, which the server takes as it is, or another text."""
    return str(uuid4()) if drive is Sync else f"monday {uuid4()}"


@pytest.fixture
def on_thread(server: str, drive: Drive, tmp_path: Path, thread_id: str) -> Thread:
    """Return a function that calls a method of a new runner on a file, as another process would."""

    def call(tree: Callable[[Far], ag.Agent], method: str, *args: Any) -> list[Any]:
        first = args if method == "run" else (thread_id, *args)
        options = {"thread_id": thread_id} if method == "run" else {}

        def on(saver: Any, **client: Any) -> ag.Runner:
            return ag.Runner(tree(lambda *a, **o: remote_agent(*a, **o, **client)), checkpointer=saver)

        if drive is Sync:
            with get_sync_client(url=server) as client, ag.sqlite_saver(tmp_path / "db") as saver:
                return list(getattr(on(saver, sync_client=client), method)(*first, **options))

        async def acall() -> list[ag.AgentEvent]:
            path = tmp_path / "db"
            async with get_client(url=server) as client, ag.async_sqlite_saver(path) as saver:
                given = getattr(on(saver, client=client), f"a{method}")(*first, **options)
                return [event async for event in given] if method != "pending" else await given

        return asyncio.run(acall())

    return call


def asking(far: Far) -> ag.Agent:
    return far("remote_asking")


def asked(events: list[ag.AgentEvent]) -> list[ag.Interrupt]:
    return [event.action.interrupted for event in events if event.action and event.action.interrupted]


def messages(events: list[ag.AgentEvent]) -> list[ag.AgentEvent]:
    return [event for event in events if event.kind == "message"]


def test_some_of_the_questions_that_a_remote_graph_asks_at_once_are_answered_and_the_rest_stay(
    on_thread: Thread,
) -> None:
    events = on_thread(asking, "run", "Go.")
    assert transcript(events[:1]) == ["far: I begin."]
    a, b, c = questions = asked(events)
    assert [each.value for each in questions] == [{"print": name} for name in "abc"]
    assert [each.response_schema for each in questions] == [CHOICE] * 3
    assert {each.address for each in questions} == {"far"}
    with pytest.raises(ag.InvalidAnswerError, match="must be one of"):
        on_thread(asking, "resume", {a.id: "maybe"})
    with pytest.raises(ag.UnknownInterruptError, match="is not pending"):
        on_thread(asking, "resume", {"0" * 32: "yes"})
    events += (second := on_thread(asking, "resume", {b.id: "no"}))
    assert asked(second) == on_thread(asking, "pending") == [a, c]
    events += (third := on_thread(asking, "resume", {a.id: "yes", c.id: "no"}))
    assert transcript(third) == ["far: a: yes", "far: b: no", "far: c: no"]
    assert messages(on_thread(asking, "events")) == messages(events)


def test_a_branch_is_answered_while_the_questions_of_a_remote_graph_wait(on_thread: Thread) -> None:
    def tree(far: Far) -> ag.Agent:
        branches = [far("remote_asking"), ag.human("boss", "Print?")]
        return ag.sequential("all", [ag.parallel("both", branches), says("last", "End.")])

    events = on_thread(tree, "run", "Go.")
    (boss,) = (each for each in asked(events) if each.agent_name == "boss")
    events += (second := on_thread(tree, "resume", {boss.id: "ok"}))
    three = [each for each in asked(events) if each.agent_name == "far"]
    assert asked(second) == three[:3] == three[3:]
    events += on_thread(tree, "resume", {each.id: "yes" for each in asked(second)})
    said = [event.text for event in messages(events)]
    assert said == ["I begin.", "ok", "a: yes", "b: yes", "c: yes", "End."]
    again = messages(on_thread(tree, "events"))
    assert sorted(again, key=lambda event: event.address) == sorted(
        messages(events), key=lambda event: event.address
    )


def test_items_choices_and_calls_run_in_a_remote_graph(on_thread: Thread) -> None:
    def tree(far: Far) -> ag.Agent:
        return ag.sequential("s", [far("by_data"), says("last", "End.")])

    events = on_thread(tree, "run", "Go.")
    (bees,) = asked(events)
    assert (bees.address, bees.value) == ("s/far", {"print": "bees"})
    events += (second := on_thread(tree, "resume", {bees.id: "yes"}))
    (clerk,) = asked(second)
    assert (clerk.address, clerk.value) == ("s/far", "Print?")
    events += on_thread(tree, "resume", {clerk.id: "no"})
    assert transcript(messages(events)) == [
        "s/far: Hear!",
        "s/far: I hear ants. | I hear bees/wasps.",
        "s/far: I doubt it.",
        "s/far: no",
        "s/far/last: End.",
    ]
    assert messages(on_thread(tree, "events")) == messages(events)


def test_each_place_and_each_call_always_finds_a_thread_of_its_own_on_the_server(
    on_thread: Thread,
) -> None:
    def call_twice(sent: list[BaseMessage]) -> Any:
        done = sent[-1].type == "tool"
        return "Done." if done else calls(call("three", request="x"), call("three", request="y"))

    def tree(far: Far) -> ag.Agent:
        alone = far("remote_counting", "alone", history="last")
        one, two, three = (far("remote_counting", name) for name in ("one", "two", "three"))
        model = ScriptedChatModel(responses=call_twice)
        boss = ag.chat_agent("boss", model, tools=[ag.agent_tool(three)])
        return ag.sequential("all", [alone, ag.parallel("both", [one, two]), boss])

    def turns(text: str) -> dict[str, str]:
        events = messages(on_thread(tree, "run", text))
        return {event.address: event.text for event in events if event.agent_name != "boss"}

    calls_of_boss = dict.fromkeys(("all/boss/three(0)", "all/boss/three(1)"), "Turn 1.")
    places = ("all/alone", "all/both/one", "all/both/two")
    assert turns("One.") == {**dict.fromkeys(places, "Turn 1."), **calls_of_boss}
    assert turns("Two.") == {**dict.fromkeys(places, "Turn 2."), **calls_of_boss}


def test_a_remote_graph_that_failed_goes_on_there_and_does_not_begin_again(
    on_thread: Thread,
) -> None:
    def tree(far: Far) -> ag.Agent:
        return far("remote_failing")

    with pytest.raises(RemoteException, match="no ink"):
        on_thread(tree, "run", f"Go, {uuid4()}.")
    assert transcript(on_thread(tree, "resume")) == ["far: Printed."]


def test_a_remote_graph_that_stops_without_a_question_fails_its_agent_and_goes_on_there(
    on_thread: Thread,
) -> None:
    def tree(far: Far) -> ag.Agent:
        return ag.sequential("s", [far("remote_stopping"), says("last")])

    with pytest.raises(
        ag.InvalidOutputError, match="stopped before or after a node without a question"
    ):
        on_thread(tree, "run", "Go.")
    assert transcript(on_thread(tree, "resume")) == ["s/far: I end.", "s/far/last: last"]


def test_a_bare_graph_takes_the_answer_to_its_only_question(server: str) -> None:
    config: Any = {"configurable": {"thread_id": f"tuesday {uuid4()}"}}
    with get_sync_client(url=server) as client:
        tree = remote_agent("remote_asking", sync_client=client)
        graph = ag.compile_agent(tree, checkpointer=InMemorySaver())
        a, b, c = graph.invoke({"messages": [("user", "Go.")]}, config)["__interrupt__"]
        left = graph.invoke(Command(resume={a.id: "yes", b.id: "no"}), config)["__interrupt__"]
        assert [each.id for each in left] == [c.id]
        done = graph.invoke(Command(resume="yes"), config)
    assert [message.text for message in done["messages"]][-3:] == ["a: yes", "b: no", "c: yes"]


def test_each_agent_has_a_thread_on_the_server_named_by_a_uuid() -> None:
    a, b = (ag.graph_agent(name, RemoteGraph("x", url="http://nowhere", name=name)) for name in "ab")
    tree = lay_out(ag.sequential("s", [says("first"), a, b]))
    first, second = (tree.by_node[name] for name in "ab")
    same = str(uuid4())
    assert remote_thread(same, tree, first, "a:1") == same
    assert UUID(remote_thread(same, tree, second, "b:1")) != UUID(same)
    one, two = (remote_thread("monday", tree, place, "x:1") for place in (first, second))
    assert UUID(one) != UUID(two)
    assert remote_thread("monday", tree, first, "x:2") == one
    assert remote_thread("tuesday", tree, first, "x:1") != one

"""Functions that stream: chunks that they yield, and those of models that they call."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from helpers import Async, Drive, Sync, check_heard, retrying, scripted, unvoided
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.stream.transformers import CustomTransformer, UpdatesTransformer

import agentgraph as ag

MODEL = scripted(*["Bees hum."] * 200)
PARTS = [UpdatesTransformer, CustomTransformer]


def yields_the_models_chunks(ctx: ag.Context) -> Iterator[Any]:
    yield from MODEL.stream("Go.")


async def yields_them_on_the_loop(ctx: ag.Context) -> AsyncIterator[Any]:
    async for chunk in MODEL.astream("Go."):
        yield chunk


def yields_its_own_chunks(ctx: ag.Context) -> Iterator[Any]:
    yield AIMessageChunk("Bees ")
    yield AIMessageChunk("hum.")


def returns_the_chunks(ctx: ag.Context) -> list[Any]:
    return [*MODEL.stream("Go.")]


def calls_a_model(ctx: ag.Context) -> Any:
    return MODEL.invoke("Go.")


def calls_a_model_for_its_text(ctx: ag.Context) -> Any:
    return (MODEL | StrOutputParser()).invoke("Go.")


STREAMING = [
    yields_the_models_chunks,
    yields_them_on_the_loop,
    yields_its_own_chunks,
    returns_the_chunks,
    calls_a_model,
    calls_a_model_for_its_text,
]


@pytest.mark.parametrize("in_branch", [False, True], ids=["in the root", "in a branch"])
@pytest.mark.parametrize("fn", STREAMING)
def test_chunks_are_partials_and_one_message(
    drive: Drive, fn: Callable[..., Any], in_branch: bool
) -> None:
    agent: ag.Agent = ag.function_agent("writer", fn)
    if in_branch:
        agent = ag.parallel("both", [agent, ag.function_agent("other", lambda ctx: None)])
    runner = ag.Runner(agent)
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    assert [(event.partial, event.text) for event in events] == [
        (True, "Bees "),
        (True, "hum."),
        (False, "Bees hum."),
    ]
    assert len({event.id for event in events}) == 1
    assert {event.agent_name for event in events} == {"writer"}
    check_heard([event for event in events if not event.partial], list(runner.events("t")))
    quiet = list(drive.run(runner, "Go.", thread_id="u"))
    assert [(event.partial, event.text) for event in quiet] == [(False, "Bees hum.")]


def translated(tree: ag.Agent, drive: Drive) -> list[ag.AgentEvent]:
    """Return the events of a stream of version v3 of a tree."""
    graph: Any = ag.compile_agent(tree)
    given, options = {"messages": ["Go."]}, {"version": "v3", "transformers": PARTS}
    if drive is Sync:
        return list(ag.translate(tree, graph.stream_events(given, **options)))

    async def events() -> list[ag.AgentEvent]:
        parts = await graph.astream_events(given, **options)
        return [event async for event in ag.atranslate(tree, parts)]

    return asyncio.run(events())


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@pytest.mark.parametrize("in_branch", [False, True], ids=["in the root", "in a branch"])
@pytest.mark.parametrize("fn", STREAMING)
def test_they_come_once_in_version_v3_of_langgraphs_streams(
    drive: Drive, fn: Callable[..., Any], in_branch: bool
) -> None:
    agent: ag.Agent = ag.function_agent("writer", fn)
    if in_branch:
        agent = ag.parallel("both", [agent, ag.function_agent("other", lambda ctx: None)])
    *chunks, whole = translated(agent, drive)
    ended = fn is returns_the_chunks  # LangGraph streams them as one chunk when the model has ended
    assert [each.text for each in chunks] == (["Bees hum."] if ended else ["Bees ", "hum."])
    assert (whole.partial, whole.text) == (False, "Bees hum.")
    assert {each.id for each in chunks} == {whole.id}


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_what_was_streamed_in_vain_is_voided_in_version_v3_too(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> str:
        MODEL.invoke("Go.")
        return "Ants."

    events = translated(ag.function_agent("writer", fn), drive)
    assert [event.kind for event in events] == ["message", "message", "message", "discarded"]
    assert events[-1].action is not None
    assert events[-1].action.discarded == (events[0].id,)


def test_a_plain_langgraph_stream_has_the_chunks() -> None:
    graph = ag.compile_agent(ag.function_agent("writer", yields_its_own_chunks))
    parts: Any = graph.stream({"messages": ["Go."]}, stream_mode="messages")
    assert [chunk.text for chunk, _ in parts] == ["Bees ", "hum."]


def test_chunks_of_several_messages_are_joined_by_their_ids(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> Iterator[Any]:
        yield AIMessageChunk("One ", id="1")
        yield AIMessageChunk("bee.", id="1")
        yield AIMessageChunk("Two bees.", id="2")
        yield "Three."
        yield AIMessageChunk("Four.")

    events = list(drive.run(ag.Runner(ag.function_agent("writer", fn)), "Go."))
    assert [event.text for event in events] == ["One bee.", "Two bees.", "Three.", "Four."]
    assert all(isinstance(event.message, AIMessage) for event in events)
    assert not any(isinstance(event.message, AIMessageChunk) for event in events)


def test_what_was_streamed_and_not_said_is_voided(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> str:
        MODEL.invoke("Go.")
        return "Ants."

    runner = ag.Runner(ag.function_agent("writer", fn))
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    assert [event.kind for event in events] == ["message", "message", "message", "discarded"]
    assert events[-1].action is not None
    assert events[-1].action.discarded == (events[0].id,)
    assert [event.text for event in runner.events("t")] == ["Ants."]


def test_chunks_of_an_attempt_that_failed_are_voided(drive: Drive) -> None:
    tries: list[int] = []

    def fn(ctx: ag.Context) -> Iterator[Any]:
        tries.append(1)
        yield AIMessageChunk("Bees ")
        if len(tries) < 2:
            raise ValueError("not yet")
        yield AIMessageChunk("hum.")

    agent = ag.function_agent("writer", fn, retry=retrying(on=ValueError))
    events = list(drive.run(ag.Runner(agent), "Go.", stream=True))
    assert [(event.kind, event.text) for event in events] == [
        ("message", "Bees "),
        ("discarded", ""),
        ("message", "Bees "),
        ("message", "hum."),
        ("message", "Bees hum."),
    ]
    assert events[1].action is not None
    assert events[1].action.discarded == (events[0].id,)


def test_chunks_in_a_foreign_graph_have_the_names_of_its_agents(drive: Drive) -> None:
    from langchain.agents import create_agent

    inner = create_agent(scripted("Inner."), name="researcher")

    async def arun(state: MessagesState) -> Any:
        return {"messages": (await inner.ainvoke(state))["messages"][-1:]}

    def run(state: MessagesState) -> Any:
        return {"messages": inner.invoke(state)["messages"][-1:]}

    node: Any = arun if drive is Async else run
    outer = StateGraph(MessagesState).add_node("inner", node).add_edge(START, "inner").compile()
    events = list(drive.run(ag.Runner(ag.graph_agent("outer", outer)), "Go.", stream=True))
    assert {(event.agent_name, event.message and event.message.name) for event in events} == {
        ("outer", "researcher")
    }


def test_chunks_that_alternate_make_whole_messages(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> Iterator[Any]:
        yield AIMessageChunk("Bees ", id="1")
        yield AIMessageChunk("Ants ", id="2")
        yield AIMessageChunk("hum.", id="1")
        yield ag.Custom("half")
        yield AIMessageChunk("march.", id="2")

    runner = ag.Runner(ag.function_agent("writer", fn))
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    again = list(runner.events("t"))
    assert [event.text for event in again if event.message] == ["Bees hum.", "Ants march."]
    check_heard([event for event in events if not event.partial], again)
    assert [message.text for message in runner.thread("t").messages] == [
        "Go.",
        "Bees hum.",
        "Ants march.",
    ]


def test_chunks_of_a_message_in_the_history_replace_it(drive: Drive) -> None:
    texts = iter(["Bees hum.", "Bees hum.", "Ants march."])

    def fn(ctx: ag.Context) -> Iterator[Any]:
        yield AIMessageChunk(next(texts), id="1")

    tree = ag.loop("thrice", [ag.function_agent("writer", fn)], max_iterations=3)
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    assert [(event.kind, event.partial, event.text) for event in events] == [
        ("message", True, "Bees hum."),
        ("message", False, "Bees hum."),
        ("discarded", False, ""),
        ("message", False, "Ants march."),
    ]
    check_heard([event for event in events if not event.partial], list(runner.events("t")))


def test_chunks_of_a_call_that_ctrl_c_ends_are_voided() -> None:
    def fn(ctx: ag.Context) -> Iterator[Any]:
        yield AIMessageChunk("Bees ")
        if not stopped:
            stopped.append(True)
            raise KeyboardInterrupt
        yield AIMessageChunk("hum.")

    stopped: list[bool] = []
    runner, events = ag.Runner(ag.function_agent("writer", fn)), list[ag.AgentEvent]()
    with pytest.raises(KeyboardInterrupt):
        for event in runner.run("Go.", thread_id="t", stream=True):
            events.append(event)
    assert [event.kind for event in events] == ["message", "discarded"]
    assert events[1].action is not None
    assert events[1].action.discarded == (events[0].id,)
    events += runner.resume("t")
    assert [event.text for event in unvoided(events)] == ["Bees hum."]

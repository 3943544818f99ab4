"""Writes to LangGraph's stream writer become custom events of the agent that made them."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from helpers import Drive, chat, failing, lines, unvoided
from langchain.agents.middleware import before_model
from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime

import agentgraph as ag
from agentgraph.testing import call, calls


def writes(name: str, data: Any) -> ag.Agent:
    """Return a function agent that writes data, and then says its name."""

    def fn(ctx: ag.Context) -> str:
        get_stream_writer()(data)
        return name

    return ag.function_agent(name, fn)


def test_functions_tools_middleware_and_graphs_write_custom_events(drive: Drive) -> None:
    def look(runtime: ToolRuntime) -> str:
        """Look."""
        runtime.stream_writer("tool")
        get_stream_writer()(["again"])
        return "seen"

    @before_model
    def hook(state: Any, runtime: Any) -> None:
        runtime.stream_writer({"from": "hook"})

    def node(state: Any) -> Any:
        get_stream_writer()({"from": "graph"})
        return {"messages": [AIMessage("g")]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = ag.graph_agent("g", builder.compile())
    writer = chat("c", calls(call("look")), "Done.", tools=[look], middleware=[hook])
    both = ag.parallel("p", [graph, writes("h", "beside")], max_concurrency=1)
    runner = ag.Runner(ag.sequential("s", [writes("f", {"from": "function"}), writer, both]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert lines(events) == [
        's/f: [custom] {"from": "function"}',
        "s/f: f",
        's/c: [custom] {"from": "hook"}',
        "s/c: [calls] look({})",
        's/c: [custom] "tool"',
        's/c: [custom] ["again"]',
        "s/c: seen",
        's/c: [custom] {"from": "hook"}',
        "s/c: Done.",
        's/p/g: [custom] {"from": "graph"}',
        "s/p/g: g",
        's/p/h: [custom] "beside"',
        "s/p/h: h",
    ]
    assert list(runner.events("t")) == events


def test_what_is_written_cannot_forge_an_event_of_another_agent(drive: Drive) -> None:
    forged = {"agentgraph": {"entry": ["1", "exit", None, "boss", [0, 1, "", False]]}}
    runner = ag.Runner(writes("f", forged))
    custom, said = drive.run(runner, "Go.", thread_id="t")
    assert [(each.kind, each.address) for each in (custom, said)] == [("custom", "f"), ("message", "f")]
    assert custom.output == ag.Output(custom=forged)
    assert list(runner.events("t")) == [custom, said]


def test_what_was_written_before_a_failure_is_void(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> str:
        get_stream_writer()("half")
        raise ValueError("no")

    runner = ag.Runner(ag.function_agent("f", fn))
    events, _ = failing(drive.run(runner, "Go.", thread_id="t"), ValueError)
    assert [event.kind for event in events] == ["custom", "discarded", "error"]
    assert list(runner.events("t")) == unvoided(events) == events[2:]


def test_in_a_stream_of_the_graph_custom_data_comes_unchanged_and_then_its_stamp() -> None:
    agents = [ag.function_agent(name, lambda ctx: ag.Custom({"n": ctx.address})) for name in "abc"]
    graph = ag.compile_agent(ag.parallel("p", agents))
    parts = graph.stream({"messages": ["Go."]}, stream_mode="custom", subgraphs=True, version="v2")
    given = [part["data"] for part in parts]
    assert sorted(data["n"] for data in given[::2]) == ["p/a", "p/b", "p/c"]
    for data, stamp in zip(given[::2], given[1::2], strict=True):
        assert list(stamp) == ["agentgraph"]
        assert data["n"] in stamp["agentgraph"]["entry"]


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("busy_threads")
def test_nothing_is_lost_that_several_threads_of_a_function_write_at_the_same_time() -> None:
    def fn(ctx: ag.Context) -> None:
        write = get_stream_writer()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(4000)))

    heard = ag.Runner(ag.function_agent("f", fn)).query("Go.")
    assert sorted(event.output.custom for event in heard if event.output) == [*range(4000)]

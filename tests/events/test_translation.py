"""Streams of compiled graphs are translated to events without a runner."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from helpers import asks, chat, failing, fails, lines, says
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}
GO: Any = {"messages": ["Go."]}


def streamed(tree: ag.Agent, how: str) -> Callable[[Any], list[str]]:
    """Return a function that streams a graph from an input, and returns the lines of the events."""
    graph: Any = ag.compile_agent(tree, checkpointer=InMemorySaver())
    options: Any = {"stream_mode": ag.STREAM_MODES, "subgraphs": True, "version": "v2"}
    if how == "version 1":
        options["version"] = "v1"
    if how == "no chunks":
        options["stream_mode"] = ["updates", "custom"]

    async def collect(given: Any) -> list[ag.AgentEvent]:
        parts = graph.astream(given, CONFIG, **options)
        return [event async for event in ag.atranslate(tree, parts, thread_id="t")]

    def stream(given: Any) -> list[str]:
        if how == "async":
            events = asyncio.run(collect(given))
        else:
            events = list(ag.translate(tree, graph.stream(given, CONFIG, **options), thread_id="t"))
        assert {event.thread_id for event in events} == {"t"}
        return lines(events)

    return stream


def branches() -> ag.Agent:
    lane = ag.sequential("q", [asks("h"), says("c")])
    both = ag.parallel("p", [says("b"), lane], max_concurrency=1)
    return ag.sequential("s", [says("a"), both, ag.function_agent("d", lambda ctx: ag.Exit())])


def desk() -> ag.Agent:
    """Return a tree with a transfer, an agent as a tool that asks, and an exit."""
    research = ag.sequential("research", [says("find"), asks("boss"), chat("count", "Two.")])
    bills = chat("bills", calls(call("exit", final_result="Paid.")), exit_tool=True)
    made = [calls(call("research", request="bees")), calls(call("transfer_to_bills"))]
    head = chat("desk", *made, tools=[ag.agent_tool(research)], sub_agents=[bills])
    return ag.sequential("s", [head, says("never")])


@pytest.mark.parametrize("how", ["version 2", "version 1", "no chunks", "async"])
def test_a_stream_of_any_form_is_translated(how: str) -> None:
    stream = streamed(branches(), how)
    assert stream(GO) == ["s/a: a", "s/p/b: b", "s/p/q/h: [asks] Well?"]
    assert stream(Command(resume="yes")) == ["s/p/q/h: yes", "s/p/q/c: c", "s/d: [exit]"]
    stream = streamed(desk(), how)
    assert stream(GO) == [
        's/desk: [calls] research({"request": "bees"})',
        "s/desk/research(0)/find: find",
        "s/desk/research(0)/boss: [asks] Well?",
    ]
    assert stream(Command(resume="yes")) == [
        "s/desk/research(0)/boss: yes",
        "s/desk/research(0)/count: Two.",
        "s/desk: Two.",
        "s/desk: [calls] transfer_to_bills({})",
        "s/desk: Transferred to bills.",
        "s/desk: [transfer_to] bills",
        's/desk[1]/bills: [calls] exit({"final_result": "Paid."})',
        "s/desk[1]/bills: Paid.",
        "s/desk[1]/bills: [exit]",
    ]


def test_a_question_has_its_address_and_the_schema_that_its_agent_set() -> None:
    graph = ag.compile_agent(branches(), checkpointer=InMemorySaver())
    parts = graph.stream(GO, CONFIG, stream_mode=["updates"], subgraphs=True)
    (asked,) = [event.action for event in ag.translate(branches(), parts) if event.action]
    question = asked.interrupted
    assert question is not None
    assert (question.address, question.agent_name, question.response_schema) == ("s/p/q/h", "h", None)


def test_an_exception_of_the_stream_is_an_event_and_then_raised() -> None:
    agent = ag.sequential("s", [says("a"), fails("b")])
    parts = ag.compile_agent(agent).stream(GO, stream_mode=["updates"], version="v2")
    events, error = failing(ag.translate(agent, parts), ValueError)
    assert lines(events) == ["s/a: a", "s/b: [error] ValueError('b failed, time 1')"]
    assert str(error) == "b failed, time 1"


def test_an_exception_of_an_async_stream_is_an_event_and_then_raised() -> None:
    agent, events = fails("a"), list[ag.AgentEvent]()

    async def read() -> None:
        parts = ag.compile_agent(agent).astream(GO, stream_mode=["updates"], version="v2")
        async for event in ag.atranslate(agent, parts):
            events.append(event)

    with pytest.raises(ValueError, match="a failed"):
        asyncio.run(read())
    assert lines(events) == ["a: [error] ValueError('a failed, time 1')"]


def test_a_tree_with_faults_is_refused() -> None:
    with pytest.raises(ag.InvalidAgentError):
        next(ag.translate(ag.sequential("s", []), []))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_of_a_tree_that_is_a_node_of_another_graph_only_its_own_parts_are_translated(
    version: Any,
) -> None:
    tree = ag.parallel("both", [says("a"), asks("boss")], max_concurrency=1)
    builder = StateGraph(MessagesState)
    builder.add_node("letters", ag.compile_agent(tree))
    builder.add_node("other", lambda state: {"messages": ["Other."]})
    builder.add_edge(START, "other")
    builder.add_edge("other", "letters")
    graph: Any = builder.compile(checkpointer=InMemorySaver())

    def events(given: Any) -> list[str]:
        options = {"stream_mode": ag.STREAM_MODES, "subgraphs": True, "version": version}
        return lines(ag.translate(tree, graph.stream(given, CONFIG, **options), node="letters"))

    assert events(GO) == ["both/a: a", "both/boss: [asks] Well?"]
    assert events(Command(resume="yes")) == ["both/boss: yes"]


def note(name: str, how: str) -> dict[str, Any]:
    return {"type": "custom", "data": {"agentgraph": {"failed": [f"pair/{name}", how, "step"]}}}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([note("a", "OSError('no')")], "pair/a: [error] OSError('no')"),
        (
            [
                note("a", "OSError('busy')"),
                {"type": "updates", "data": {"a": None}},
                note("b", "OSError()"),
            ],
            "pair/b: [error] OSError()",
        ),
        (
            [],
            "pair: [error] RemoteRunError('the run failed on the server with OSError: no; see the log "
            "of the server, then resume the thread')",
        ),
    ],
    ids=["where a note says", "not where the next try succeeded", "at the root without a note"],
)
def test_a_failure_on_a_server_is_reported_once(parts: list[dict[str, Any]], expected: str) -> None:
    failed = {"type": "error", "data": {"error": "OSError", "message": "no"}}
    pair = ag.sequential("pair", [says("a"), says("b")])
    events, _ = failing(ag.translate(pair, [*parts, failed]), ag.RemoteRunError)
    assert lines(events) == [expected]

"""LangGraph's v3 streams, which are in beta, become the same events as the others."""

import asyncio
from typing import Any

import pytest
from helpers import asks, lines, says, scripted
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.stream.transformers import CustomTransformer, UpdatesTransformer

import agentgraph as ag
from agentgraph.testing import call, calls

PARTS = [UpdatesTransformer, CustomTransformer]
CONFIG: Any = {"configurable": {"thread_id": "t"}}
pytestmark = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")


def tree() -> ag.Agent:
    helper = ag.agent_tool(says("helper", "Bees."))
    boss = ag.chat_agent(
        "boss", scripted(calls(call("helper", request="x")), "All done."), tools=[helper]
    )
    first = ag.function_agent("first", lambda ctx: ["One.", ag.Custom({"n": 1})])
    return ag.sequential("job", [first, ag.parallel("both", [boss, says("other")]), asks("person")])


def streamed(version: str) -> list[ag.AgentEvent]:
    job = tree()
    graph = ag.compile_agent(job, checkpointer=InMemorySaver())
    given: Any = {"messages": ["Go."]}
    if version == "v3":
        parts: Any = graph.stream_events(given, CONFIG, version="v3", transformers=PARTS)
    else:
        modes: Any = {"stream_mode": ag.STREAM_MODES, "subgraphs": True, "version": version}
        parts = graph.stream(given, CONFIG, **modes)
    return list(ag.translate(job, parts))


async def astreamed() -> list[ag.AgentEvent]:
    job = tree()
    graph = ag.compile_agent(job, checkpointer=InMemorySaver())
    given: Any = {"messages": ["Go."]}
    parts: Any = await graph.astream_events(given, CONFIG, version="v3", transformers=PARTS)
    return [event async for event in ag.atranslate(job, parts)]


def joined(events: list[ag.AgentEvent]) -> dict[str, tuple[str, Any]]:
    """Return the texts and calls of the chunks of each agent, joined."""
    whole: dict[str, Any] = {}
    for event in events:
        if event.partial:
            before = whole.get(event.id)
            whole[event.id] = event.message if before is None else before + event.message
    return {str(n): (each.text, each.tool_calls) for n, each in enumerate(whole.values())}


def test_the_events_are_those_of_the_other_versions() -> None:
    expected = streamed("v2")
    for events in (streamed("v3"), asyncio.run(astreamed()), streamed("v1")):
        assert sorted(lines(events)) == sorted(lines(expected))
        assert joined(events) == joined(expected)
        assert [e.kind for e in events if e.kind == "interrupted"] == ["interrupted"]


def test_a_changed_protocol_is_refused_with_a_word() -> None:
    event = {"event": "new-kind-of-event"}
    part = {"type": "event", "method": "messages", "params": {"namespace": [], "data": (event, {})}}
    with pytest.raises(ag.AgentGraphError) as caught:
        list(ag.translate(tree(), [part]))
    assert str(caught.value) == (
        "{'event': 'new-kind-of-event'} is not a known message event of LangGraph's v3 protocol, which "
        'is in beta; use stream(..., version="v2") with STREAM_MODES'
    )


REASONING = {"type": "reasoning-delta"}
THOUGHT = [
    {"event": "message-start", "id": "1"},
    {"event": "content-block-start", "index": 0, "content": {"type": "reasoning", "reasoning": ""}},
    {
        "event": "content-block-delta",
        "index": 0,
        "delta": {"type": "reasoning-delta", "reasoning": "Hm."},
    },
    {"event": "content-block-start", "index": 1, "content": {"type": "text", "text": "Be"}},
    {"event": "content-block-delta", "index": 1, "delta": {"type": "text-delta", "text": "es."}},
    {"event": "message-finish"},
]


def test_thoughts_and_texts_are_chunks_of_one_message() -> None:
    metadata = {"run_id": "r", "agentgraph": ["job/both/boss", 0, 0, "s"]}
    parts = [
        {"type": "event", "method": "messages", "params": {"namespace": [], "data": (each, metadata)}}
        for each in THOUGHT
    ]
    events = list(ag.translate(tree(), parts))
    assert {event.id for event in events} == {"1"}
    whole: Any = events[0].message
    for event in events[1:]:
        whole = whole + event.message
    assert whole.text == "Bees."
    assert "Hm." in str(whole.content)

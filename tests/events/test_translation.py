"""Streams of bare compiled graphs translated to events, without a runner."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, transcript


def says(name, *texts):
    def fn(ctx):
        yield from texts or (name,)

    return ag.function_agent(name, fn)


def tree():
    return ag.sequential(
        "s",
        [
            says("a", "x", "y"),
            ag.parallel("p", [says("b"), ag.sequential("q", [ag.human("h", "h?"), says("c")])]),
            ag.function_agent("d", lambda ctx: ag.Exit()),
        ],
    )


CONFIG = {"configurable": {"thread_id": "t"}}
LINES = ["s/a: x", "s/a: y", "s/a/p/b: b", "s/a/p/q/h: [asks] h?"]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_both_versions_of_a_stream_are_translated(version):
    graph = ag.compile_agent(tree(), checkpointer=InMemorySaver())
    options = {"stream_mode": ag.STREAM_MODES, "subgraphs": True, "version": version}
    parts = graph.stream({"messages": ["hi"]}, CONFIG, **options)
    assert sorted(transcript(ag.translate(tree(), parts))) == sorted(LINES)
    parts = graph.stream(Command(resume="yes"), CONFIG, **options)
    assert transcript(ag.translate(tree(), parts)) == [
        "s/a/p/q/h: yes",
        "s/a/p/q/h/c: c",
        "s/a/p/d: [exit]",
    ]


def test_all_but_chunks_is_told_without_the_stream_of_messages():
    graph = ag.compile_agent(tree(), checkpointer=InMemorySaver())
    modes = ["updates", "custom"]
    parts = graph.stream({"messages": ["hi"]}, CONFIG, stream_mode=modes, subgraphs=True, version="v2")
    events = list(ag.translate(tree(), parts, thread_id="t"))
    assert sorted(transcript(events)) == sorted(LINES)
    assert {event.thread_id for event in events} == {"t"}


def test_an_async_stream_is_translated():
    async def main():
        graph = ag.compile_agent(tree(), checkpointer=InMemorySaver())
        parts = graph.astream(
            {"messages": ["hi"]},
            CONFIG,
            stream_mode=ag.STREAM_MODES,
            subgraphs=True,
            version="v2",
        )
        return [event async for event in ag.atranslate(tree(), parts)]

    assert sorted(transcript(asyncio.run(main()))) == sorted(LINES)


def test_the_question_carries_its_address_without_a_schema_of_its_own():
    graph = ag.compile_agent(tree(), checkpointer=InMemorySaver())
    parts = graph.stream({"messages": ["hi"]}, CONFIG, stream_mode=["updates"], subgraphs=True)
    (asked,) = [e for e in ag.translate(tree(), parts) if e.kind == "interrupted"]
    question = asked.action.interrupted
    assert (question.address, question.agent_name, question.response_schema) == ("s/p/q/h", "h", None)


def test_the_chunks_of_a_reply_come_before_the_whole_under_its_id():
    agent = ag.chat_agent("w", ScriptedChatModel(responses=["one two three"]))
    parts = ag.compile_agent(agent).stream(
        {"messages": ["hi"]}, stream_mode=["updates", "messages"], version="v2"
    )
    *chunks, whole = ag.translate(agent, parts)
    assert [chunk.text for chunk in chunks] == ["one ", "two ", "three"]
    assert all(chunk.partial and isinstance(chunk.message, AIMessageChunk) for chunk in chunks)
    assert {event.id for event in (*chunks, whole)} == {whole.message.id}
    assert (whole.text, whole.partial) == ("one two three", False)


def test_an_exception_of_the_stream_is_an_event_and_then_raised():
    def fails(ctx) -> str:
        raise ValueError("no")

    agent = ag.sequential("s", [says("a"), ag.function_agent("b", fails)])
    parts = ag.compile_agent(agent).stream({"messages": ["hi"]}, stream_mode=["updates"], version="v2")
    told = ag.translate(agent, parts)
    assert transcript([next(told), next(told)]) == ["s/a: a", "s/a/b: [error] ValueError('no')"]
    with pytest.raises(ValueError, match="no"):
        next(told)


def test_a_tree_with_faults_is_refused():
    with pytest.raises(ag.InvalidAgentError):
        next(ag.translate(ag.sequential("s", []), []))


def calling(name, **args):
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1", "type": "tool_call"}])


def desk():
    """Return a tree with a transfer, an agent as a tool, and an exit."""

    def chat(name, *responses, **options):
        return ag.chat_agent(name, ScriptedChatModel(responses=list(responses)), **options)

    research = ag.sequential("research", [says("find", "x", "y"), chat("count", "Two.")])
    bills = chat("bills", calling("exit", final_result="Paid."), exit_tool=True)
    tools = [ag.agent_tool(research)]
    script = [calling("research", request="bees"), calling("transfer_to_bills")]
    return ag.sequential("s", [chat("desk", *script, tools=tools, sub_agents=[bills]), says("never")])


DESK_LINES = [
    's/desk: [calls] research({"request": "bees"})',
    "s/desk/research/find: x",
    "s/desk/research/find: y",
    "s/desk/research/find/count: Two.",
    "s/desk: Two.",
    "s/desk: [calls] transfer_to_bills({})",
    "s/desk: Transferred to bills.",
    "s/desk: [transfer_to] bills",
    's/desk/bills: [calls] exit({"final_result": "Paid."})',
    "s/desk/bills: Paid.",
    "s/desk/bills: [exit]",
]


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("modes", [["updates", "custom"], ag.STREAM_MODES])
def test_transfers_and_agents_as_tools_are_told_once_in_every_stream_mode(version, modes):
    options = {"stream_mode": modes, "subgraphs": True, "version": version}
    parts = ag.compile_agent(desk()).stream({"messages": ["hi"]}, **options)
    assert transcript(ag.translate(desk(), parts)) == DESK_LINES


@pytest.mark.parametrize("modes", [["updates", "custom"], ag.STREAM_MODES])
def test_transfers_and_agents_as_tools_of_an_async_stream_are_told_once(modes):
    async def main():
        parts = ag.compile_agent(desk()).astream(
            {"messages": ["hi"]}, stream_mode=modes, subgraphs=True, version="v2"
        )
        return [event async for event in ag.atranslate(desk(), parts)]

    assert transcript(asyncio.run(main())) == DESK_LINES


def test_a_question_of_an_agent_as_a_tool_is_told_once_and_answered():
    def tree():
        inner = ag.sequential("ask", [says("a"), ag.human("boss", "Well?"), says("b")])
        model = ScriptedChatModel(responses=[calling("ask", request="x"), "Done."])
        return ag.chat_agent("w", model, tools=[ag.agent_tool(inner)])

    root = tree()
    graph = ag.compile_agent(root, checkpointer=InMemorySaver())
    options = {"stream_mode": ag.STREAM_MODES, "subgraphs": True, "version": "v2"}
    parts = graph.stream({"messages": ["hi"]}, CONFIG, **options)
    assert transcript(ag.translate(root, parts)) == [
        'w: [calls] ask({"request": "x"})',
        "w/ask/a: a",
        "w/ask/a/boss: [asks] Well?",
    ]
    parts = graph.stream(Command(resume="yes"), CONFIG, **options)
    assert transcript(ag.translate(root, parts)) == [
        "w/ask/a/boss: yes",
        "w/ask/a/boss/b: b",
        "w: b",
        "w: Done.",
    ]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_tree_that_is_a_node_of_another_graph_tells_its_events_by_that_node(version: str) -> None:
    tree = ag.parallel("both", [ag.function_agent("a", lambda ctx: "A."), ag.human("boss", "Go on?")])
    builder = StateGraph(MessagesState)
    builder.add_node("letters", ag.compile_agent(tree))
    builder.add_node("other", lambda state: {"messages": ["Other."]})
    builder.add_edge(START, "other")
    builder.add_edge("other", "letters")
    graph = builder.compile(checkpointer=InMemorySaver())
    modes: Any = ag.STREAM_MODES
    config: Any = {"configurable": {"thread_id": "t"}}

    def told(given: Any) -> list[str]:
        options: Any = {"stream_mode": modes, "subgraphs": True, "version": version}
        parts = graph.stream(given, config, **options)
        return sorted(transcript(ag.translate(tree, parts, node="letters")))

    assert told({"messages": ["Go."]}) == ["both/a: A.", "both/boss: [asks] Go on?"]
    assert told(Command(resume="yes")) == ["both/boss: yes"]


def told_by_a_server(*parts: dict[str, Any]) -> list[str]:
    """Return what the parts of a server's stream tell of a pair that fails there in the end."""
    pair = ag.sequential("pair", [ag.function_agent("a", str), ag.function_agent("b", str)])
    failed = {"type": "error", "data": {"error": "OSError", "message": "no"}}
    events, told = ag.translate(pair, [*parts, failed]), []
    with pytest.raises(ag.RemoteRunError):
        while True:
            told.append(next(events))
    return transcript(told)


def note(name: str, how: str) -> dict[str, Any]:
    return {"type": "custom", "data": {"agentgraph": {"failed": [f"pair/{name}", how, "step"]}}}


def test_a_failure_on_a_server_is_told_where_a_note_says() -> None:
    assert told_by_a_server(note("a", "OSError('no')")) == ["pair/a: [error] OSError('no')"]


def test_a_failure_that_was_tried_again_with_success_is_not_told() -> None:
    again = {"type": "updates", "data": {"a": None}}
    noted = [note("a", "OSError('busy')"), again, note("b", "OSError('no')")]
    assert told_by_a_server(*noted) == ["pair/a/b: [error] OSError('no')"]


def test_a_failure_of_which_nothing_is_noted_is_that_of_the_root() -> None:
    shown = repr(ag.RemoteRunError({"error": "OSError", "message": "no"}))
    assert told_by_a_server() == [f"pair: [error] {shown}"]

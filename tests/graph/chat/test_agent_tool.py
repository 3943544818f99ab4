"""Agents as tools: how the model and a drawing show them, when they run, and their state.

What they see, emit, ask and return is shown in `tests/transcripts/agent_tools.txt`.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from helpers import Drive, asks, chat, lines, results, says, scripted
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import agentgraph as ag
from agentgraph.show.lines import tree_lines
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}
SECONDS = 20
"""How long a test waits for what must come."""


def caller(*tools: ag.Agent) -> ag.Agent:
    """Return a chat agent that calls each of its tools once, all in one message."""
    made = calls(*(call(tool.name, request="x") for tool in tools))
    given = {tool.name: ag.agent_tool(tool) for tool in tools}
    return chat("writer", made, results, tools=[*given.values()])


def test_an_agent_is_described_to_the_model() -> None:
    model = scripted("Done.")
    tools = [
        ag.agent_tool(chat("a", description="Knows {bees}."), description="Asks about bees."),
        ag.agent_tool(chat("b", description="Knows {wasps}.")),
        ag.agent_tool(ag.sequential("c", [says("x")])),
    ]
    list(ag.Runner(ag.chat_agent("writer", model, tools=tools)).run("Go."))
    described = [tool["function"] for tool in model.tools]
    assert [(each["name"], each["description"]) for each in described] == [
        ("a", "Asks about bees."),
        ("b", "Knows {wasps}."),
        ("c", "Asks the agent c."),
    ]
    assert described[0]["parameters"] == {
        "type": "object",
        "properties": {
            "request": {
                "type": "string",
                "description": "The task for the agent, with all that it has to know.",
            }
        },
        "required": ["request"],
    }


def test_an_agent_has_no_way_to_transfer_to_its_caller() -> None:
    inner = scripted("Done.")
    list(ag.Runner(caller(ag.chat_agent("search", inner))).run("Go."))
    assert inner.tools == []


def test_a_break_tool_inside_needs_a_loop_inside() -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(ag.loop("l", [caller(chat("search", break_tool=True))], max_iterations=2))
    assert str(caught.value) == "l/writer/search: break_tool=True needs an enclosing loop; leave it out"


# when it runs


def test_events_are_emitted_while_the_agent_runs(drive: Drive) -> None:
    first_was_emitted = threading.Event()

    def search(ctx: ag.Context) -> Iterator[str]:
        yield "First."
        assert first_was_emitted.wait(SECONDS)
        yield "Second."

    texts = []
    for event in drive.run(ag.Runner(caller(ag.function_agent("search", search))), "Go."):
        texts.append(event.text)
        if event.text == "First.":
            first_was_emitted.set()
    assert texts == ["", "First.", "Second.", "Second.", "1 search success: Second."]


def test_several_calls_run_at_the_same_time(drive: Drive) -> None:
    both = threading.Barrier(2, timeout=SECONDS)

    def meet(ctx: ag.Context) -> str:
        both.wait()
        return ctx.address

    agent = ag.function_agent("f", meet)
    *_, last = drive.run(ag.Runner(caller(agent, agent)), "Go.")
    assert last.text == "1 f success: writer/f(0) | 2 f success: writer/f(1)"


# without a runner


def test_a_bare_graph_gives_the_same_events(drive: Drive) -> None:
    def tree() -> ag.Agent:
        inner = ag.sequential("search", [says("a"), chat("b", "B.")])
        return ag.sequential("s", [caller(inner), says("z")])

    options: Any = {"stream_mode": list(ag.STREAM_MODES), "subgraphs": True, "version": "v2"}
    graph = ag.compile_agent(tree())

    async def events() -> list[str]:
        parts = graph.astream({"messages": ["Go."]}, **options)
        return lines([event async for event in ag.atranslate(tree(), parts)])

    expected = lines(drive.run(ag.Runner(tree()), "Go."))
    assert lines(ag.translate(tree(), graph.stream({"messages": ["Go."]}, **options))) == expected
    graph = ag.compile_agent(tree())
    assert asyncio.run(events()) == expected


def test_a_paused_agent_has_a_state_and_is_resumed_by_a_plain_command() -> None:
    inner = ag.sequential("search", [says("a"), asks("boss")])
    saver = InMemorySaver()
    graph = ag.compile_agent(caller(inner), checkpointer=saver)
    graph.invoke({"messages": ["Go."]}, CONFIG)
    found = {saved.config["configurable"]["checkpoint_ns"] for saved in saver.list(CONFIG)}
    (namespace,) = (each for each in found if "|search:" in each)
    state = graph.get_state({"configurable": {"thread_id": "t", "checkpoint_ns": namespace}})
    assert state.next == ("boss",)
    assert [message.text for message in state.values["messages"]] == ["a"]
    done = graph.invoke(Command(resume="Yes."), CONFIG)
    assert done["messages"][-1].text == "1 search success: Yes."


# drawings


def nested() -> ag.Agent:
    """Return three agents, each a tool of the one before."""
    middle = chat("middle", tools=[ag.agent_tool(chat("inner"))])
    return chat("outer", tools=[ag.agent_tool(middle)])


def edges(graph: Any) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in graph.edges}


def test_a_drawing_has_the_agent_inside_its_caller() -> None:
    inner = ag.sequential("search", [says("a"), says("b")])
    graph = ag.compile_agent(ag.sequential("s", [caller(inner), says("z")]))
    assert edges(graph.get_graph()) == {
        ("__start__", "writer"),
        ("writer", "writer.tools"),
        ("writer", "z"),
        ("writer.tools", "writer"),
        ("z", "__end__"),
    }
    assert {
        ("writer.tools:search:a", "writer.tools:search:b"),
        ("writer", "writer.tools:__start__"),
        ("writer.tools:__end__", "writer"),
    } <= edges(graph.get_graph(xray=True))


def test_a_drawing_has_a_leaf_as_a_single_node_and_other_tools_as_one() -> None:
    def note(request: str) -> str:
        """Notes."""
        return "Noted."

    graph = ag.compile_agent(chat("writer", tools=[ag.agent_tool(says("search")), note]))
    assert {"writer.tools:search", "writer.tools:writer.call"} <= {*graph.get_graph(xray=True).nodes}


def test_a_drawing_and_an_outline_have_every_depth() -> None:
    nodes = ag.compile_agent(nested()).get_graph(xray=True).nodes
    assert "outer.tools:middle:middle.tools:inner" in nodes
    assert tree_lines(nested()) == ["outer (chat)", "└─ middle (chat)", "   └─ inner (chat)"]

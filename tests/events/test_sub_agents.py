"""Chunks of sub-agents inside a LangGraph graph, such as deepagents' researchers, have their names."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.middleware import SubAgentMiddleware
from helpers import Drive, chat, says, scripted
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.stream.transformers import CustomTransformer, UpdatesTransformer

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

PARTS = [UpdatesTransformer, CustomTransformer]
pytestmark = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")


def researchers(*names: str) -> list[Any]:
    """Return sub-agents that reply at the same time."""
    both = threading.Barrier(2, timeout=20)

    def named(name: str) -> Any:
        def reply(messages: list[BaseMessage]) -> str:
            both.wait()
            return f"The {name} hum and dance: {messages[-1].text}"

        model = ScriptedChatModel(responses=reply)
        about = {"description": "Researches.", "system_prompt": "Research.", "tools": []}
        return {"name": name, "model": model, **about}

    return [named(name) for name in names]


def leader(*asked: str) -> ScriptedChatModel:
    """Return a model that assigns tasks to sub-agents, all in one message."""
    tasks = [
        call("task", description=f"Task {number}.", subagent_type=name)
        for number, name in enumerate(asked)
    ]
    return scripted(calls(*tasks, text="I ask both."), "Both are done.")


def deep(**options: Any) -> ag.Agent:
    graph = create_deep_agent(
        leader("bees", "ants"), subagents=researchers("bees", "ants"), name="head"
    )
    return ag.graph_agent("deep", graph, **options)


def streamed(events: Iterable[ag.AgentEvent]) -> set[tuple[str, str, str | None, str]]:
    """Return the address, the agent, the name and the text of each message that was streamed."""
    joined: dict[tuple[str, str, str, str | None], str] = {}
    for event in events:
        if event.partial and event.message:
            key = (event.id, event.address, event.agent_name, event.message.name)
            joined[key] = joined.get(key, "") + event.text
    return {(*key[1:], text) for key, text in joined.items()}


def of_the_team(address: str) -> set[tuple[str, str, str | None, str]]:
    said = [
        (None, "I ask both."),
        ("bees", "The bees hum and dance: Task 0."),
        ("ants", "The ants hum and dance: Task 1."),
        (None, "Both are done."),
    ]
    return {(address, "deep", name, text) for name, text in said}


WHERE: dict[str, tuple[Callable[[], ag.Agent], str]] = {
    "in the root": (deep, "deep"),
    "in a branch": (lambda: ag.parallel("p", [deep(), says("z")]), "p/deep"),
    "as a tool": (
        lambda: chat("boss", calls(call("deep", request="x")), "", tools=[ag.agent_tool(deep())]),
        "boss/deep(0)",
    ),
}


@pytest.mark.parametrize("where", WHERE)
def test_researchers_side_by_side_are_told_apart(drive: Drive, where: str) -> None:
    make, address = WHERE[where]
    events = list(drive.run(ag.Runner(make()), "Go.", thread_id="t", stream=True))
    assert of_the_team(address) == {each for each in streamed(events) if each[1] == "deep"}
    mine = [event for event in events if event.agent_name == "deep"]
    whole = [event.text for event in mine if event.message and not event.partial]
    assert (whole[0], whole[-1]) == ("I ask both.", "Both are done.")
    researched = {event.id for event in mine if event.partial and event.message and event.message.name}
    (void,) = [event.action.discarded for event in events if event.action]
    assert {*void} == researched  # they are not messages of the thread


def translated(tree: ag.Agent, version: str, *, is_async: bool) -> list[ag.AgentEvent]:
    """Return the events of a LangGraph stream of a tree."""
    graph: Any = ag.compile_agent(tree, checkpointer=InMemorySaver())
    given, config = {"messages": ["Go."]}, {"configurable": {"thread_id": "t"}}
    options: dict[str, Any] = {
        "stream_mode": ag.STREAM_MODES,
        "subgraphs": True,
        "version": version,
    }
    if version == "v3":
        options = {"version": version, "transformers": PARTS}
    if not is_async:
        stream = graph.stream_events if version == "v3" else graph.stream
        return list(ag.translate(tree, stream(given, config, **options)))

    async def events() -> list[ag.AgentEvent]:
        if version == "v3":
            parts = await graph.astream_events(given, config, **options)
        else:
            parts = graph.astream(given, config, **options)
        return [event async for event in ag.atranslate(tree, parts)]

    return asyncio.run(events())


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
@pytest.mark.parametrize("where", WHERE)
def test_they_are_in_each_version_of_langgraphs_streams(
    version: str, where: str, is_async: bool
) -> None:
    make, address = WHERE[where]
    events = translated(make(), version, is_async=is_async)
    assert of_the_team(address) == {each for each in streamed(events) if each[1] == "deep"}


def test_those_of_a_graph_that_is_laid_flat_are_at_its_node(drive: Drive) -> None:
    events = list(drive.run(ag.Runner(deep(flat=True)), "Go.", stream=True))
    found = {(address, name) for address, _, name, _ in streamed(events)}
    assert found == {
        ("deep/model", None),
        ("deep/tools", "bees"),
        ("deep/tools", "ants"),
        ("deep/model[1]", None),
    }


def test_two_tasks_of_one_researcher_are_two_messages(drive: Drive) -> None:
    graph = create_deep_agent(leader("bees", "bees"), subagents=researchers("bees"))
    events = drive.run(ag.Runner(ag.graph_agent("deep", graph)), "Go.", stream=True)
    texts = {text for *_, name, text in streamed(events) if name == "bees"}
    assert texts == {f"The bees hum and dance: Task {number}." for number in (0, 1)}


def test_of_a_graph_with_an_output_no_chunks_are_said(drive: Drive) -> None:
    tree = deep(output=lambda state: state["messages"][-1].text)
    events = list(drive.run(ag.Runner(tree), "Go.", stream=True))
    assert [(event.partial, event.text) for event in events] == [(False, "Both are done.")]


def test_researchers_of_a_chat_agent_are_tools_and_have_no_chunks(drive: Drive) -> None:
    subagents = researchers("bees", "ants")
    team: Any = SubAgentMiddleware(backend=StateBackend(), subagents=subagents)
    tree = ag.chat_agent("deep", leader("bees", "ants"), middleware=[team])
    events = list(drive.run(ag.Runner(tree), "Go.", stream=True))
    assert {text for *_, text in streamed(events)} == {"I ask both.", "Both are done."}

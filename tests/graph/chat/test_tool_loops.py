"""Sync tools that run an event loop of their own, also in a run that is started on a loop."""

import asyncio

import pytest

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


async def fetched(topic: str) -> str:
    await asyncio.sleep(0)
    return f"{topic}!"


def look(topic: str) -> str:
    """Look something up."""
    return asyncio.run(fetched(topic))


def told(topics: list[str]) -> list[str]:
    asked = calls(*(call("look", topic, topic=topic) for topic in topics))
    model = ScriptedChatModel(responses=[asked, "Done."])
    graph = ag.compile_agent(ag.chat_agent("writer", model, tools=[look]))
    return [message.text for message in graph.invoke({"messages": ["Go."]})["messages"]][2:]


async def in_a_loop(topics: list[str]) -> list[str]:
    return told(topics)


@pytest.mark.parametrize("topics", [["bees"], ["bees", "wasps"]])
def test_a_sync_tool_may_run_a_loop_wherever_the_run_is_started(topics: list[str]) -> None:
    expected = [*(f"{topic}!" for topic in topics), "Done."]
    assert told(topics) == expected
    assert asyncio.run(in_a_loop(topics)) == expected

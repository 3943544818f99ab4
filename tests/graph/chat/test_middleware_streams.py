"""What middleware makes of LangGraph's event streams: a summary is no reply of the agent."""

import asyncio
import warnings
from typing import Any

import pytest
from helpers import scripted
from langchain.agents.middleware import SummarizationMiddleware
from langgraph.prebuilt import ToolCallTransformer
from langgraph.stream import StreamTransformer

import agentgraph as ag
from agentgraph.testing import call, calls

GIVEN: Any = {"messages": ["One.", "Two.", "Three."]}


def summarizing() -> Any:
    model = scripted("The summary.")
    return SummarizationMiddleware(model, trigger=("messages", 2), keep=("messages", 1))


def texts(graph: Any, how: str) -> list[str]:
    """Return what a stream of events of the third version tells as messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the version is a beta
        if how == "sync":
            run = graph.stream_events(GIVEN, version="v3")
            return [str(message.text) for message in run.messages]

        async def told() -> list[str]:
            run = await graph.astream_events(GIVEN, version="v3")
            return [str(await message.text) async for message in run.messages]

        return asyncio.run(told())


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_summary_is_not_told_as_a_reply(how: str) -> None:
    agents = [
        ag.chat_agent(name, scripted(f"Reply of {name}."), middleware=[summarizing()]) for name in "ab"
    ]
    graph = ag.compile_agent(ag.sequential("s", agents))
    assert texts(graph, how) == ["Reply of a.", "Reply of b."]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_nor_is_that_of_a_summarized_history(how: str) -> None:
    policy = ag.summarized(scripted("The summary."), 2, token_counter=len)
    graph = ag.compile_agent(ag.chat_agent("a", scripted("Reply."), history=policy))
    assert texts(graph, how) == ["Reply."]


def test_those_that_are_passed_come_after_those_of_the_middleware() -> None:
    class Mine(StreamTransformer):
        def init(self) -> dict[str, Any]:
            return {}

        def process(self, event: Any) -> bool:
            return True

    tree = ag.chat_agent("a", scripted("Reply."), middleware=[summarizing()])
    graph = ag.compile_agent(tree, transformers=[Mine])
    names = [each.__name__ for each in graph.stream_transformers]
    assert names == ["ToolCallTransformer", "InternalCallTransformer", "Mine"]
    again = ag.compile_agent(tree, transformers=[ToolCallTransformer])
    assert [each.__name__ for each in again.stream_transformers] == names[:2]


def test_trees_without_chat_agents_have_none() -> None:
    assert not ag.compile_agent(ag.function_agent("a", lambda ctx: "Reply.")).stream_transformers


def test_tool_calls_are_told_as_create_agent_has_them_told() -> None:
    def look(topic: str) -> str:
        """Look something up."""
        return f"{topic}!"

    model = scripted(calls(call("look", topic="bees")), "Found.")
    graph = ag.compile_agent(ag.sequential("s", [ag.chat_agent("a", model, tools=[look])]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the version is a beta
        run: Any = graph.stream_events(GIVEN, version="v3")
        told = list(run.tool_calls)
    assert [(each.tool_name, each.output) for each in told] == [("look", "bees!")]

"""Questions of a compiled tree inside another tree: they are those of the place that runs it."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers import asks, chat, says, scripted
from helpers.forked import Thread
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.testing import call, calls

ThreadOf = Callable[[ag.Agent], Thread]


def poem() -> Any:
    """Return a compiled tree that says something, and asks two questions side by side."""
    sure = ag.sequential("sure", [says("mid"), asks("really", "Really?")])
    return ag.compile_agent(
        ag.sequential("poem", [says("draft"), ag.parallel("both", [asks("ok", "OK?"), sure])])
    )


def in_graph(name: str, *, flat: bool) -> ag.Agent:
    builder = StateGraph(MessagesState)
    builder.add_node("write", poem())
    builder.add_edge(START, "write")
    return ag.graph_agent(name, builder.compile(), flat=flat)


def writing_tool() -> BaseTool:
    graph = poem()

    def write() -> str:
        return str(graph.invoke({"messages": ["Go."]})["messages"][-1].text)

    async def awrite() -> str:
        return str((await graph.ainvoke({"messages": ["Go."]}))["messages"][-1].text)

    return StructuredTool.from_function(write, awrite, name="write", description="Write.")


def in_tool(name: str, *, flat: bool) -> ag.Agent:
    model = scripted(calls(call("write")), "Done.")
    return ag.graph_agent(name, create_agent(model, [writing_tool()]), flat=flat)


def in_function(name: str) -> ag.Agent:
    graph = poem()

    def fn(ctx: ag.Context) -> str:
        return str(graph.invoke({"messages": ["Go."]})["messages"][-1].text)

    return ag.function_agent(name, fn)


def in_tree(name: str) -> ag.Agent:
    return ag.graph_agent(name, ag.compile_agent(ag.sequential("mid", [ag.graph_agent("in", poem())])))


PLACES: dict[str, tuple[Callable[[str], ag.Agent], str]] = {
    "a node of a flat graph": (lambda name: in_graph(name, flat=True), "/write"),
    "a node of a nested graph": (lambda name: in_graph(name, flat=False), ""),
    "a tool of a flat graph": (lambda name: in_tool(name, flat=True), "/tools"),
    "a tool of a nested graph": (lambda name: in_tool(name, flat=False), ""),
    "a tool of a chat agent": (
        lambda name: chat(name, calls(call("write")), "Done.", tools=[writing_tool()]),
        "",
    ),
    "a function": (in_function, ""),
    "a graph agent": (lambda name: ag.graph_agent(name, poem()), ""),
    "a compiled tree": (in_tree, ""),
}


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.by_turns("thread_of")
def test_a_question_of_an_inner_tree_has_the_address_of_the_place_that_runs_it(
    thread_of: ThreadOf, where: str
) -> None:
    agent, below = PLACES[where]
    thread = thread_of(ag.parallel("p", [agent("one"), agent("two")]))
    thread.run()
    one, two = at = [f"p/one{below}", f"p/two{below}"]
    thread.check_pending(one, one, two, two)
    thread.resume({thread.pending()[0].id: "yes"})
    thread.check_pending(one, two, two)
    thread.resume({one: "yes"})
    thread.resume({thread.pending()[1].id: "yes"})
    thread.resume({two: "yes"})
    thread.check_pending()
    assert sorted(each.address for each in thread.events() if each.kind == "interrupted") == sorted(
        at * 2
    )


def test_questions_of_one_inner_tree_are_answered_by_id(thread_of: ThreadOf) -> None:
    thread = thread_of(in_graph("job", flat=True))
    thread.run()
    with pytest.raises(ag.UnknownInterruptError, match="asked more than once, so answer by id"):
        thread.resume({"job/write": "yes"})
    thread.resume({each.id: f"yes, {each.value}" for each in thread.pending()})
    thread.check_pending()
    said = [each.text for each in thread.events() if each.message]
    assert said == ["draft", "yes, OK?", "mid", "yes, Really?"]

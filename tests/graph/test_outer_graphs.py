"""Handoff tools that leave a compiled tree for another node of the graph around it."""

import asyncio
from collections.abc import Callable
from operator import add
from typing import Annotated, Any

import pytest
from helpers import Async, Disk, Drive, asks, chat, says, texts
from langchain.agents.middleware import after_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send
from langgraph_swarm import SwarmState, add_active_agent_router, create_handoff_tool

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(MessagesState):
    active_agent: str
    notes: Annotated[list[str], add]


def goes_to(goto: Any, **update: Any) -> BaseTool:
    """Return a handoff tool."""

    @tool
    def leave(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        "Hand over."
        said = ToolMessage("Over.", tool_call_id=tool_call_id)
        return Command(goto=goto, graph=Command.PARENT, update={"messages": [said], **update})

    return leave


def leaving(*tools: BaseTool, **options: Any) -> ag.Agent:
    return chat("ann", *[calls(call("leave"))] * 4, tools=tools or [goes_to("other")], **options)


def outer(tree: ag.Agent, saver: Any = None) -> Any:
    """Return a graph in which a tree is a node, and another node says which agent is active."""
    builder = StateGraph(State)
    builder.add_node("tree", ag.compile_agent(tree))
    builder.add_node(
        "other", lambda state: {"messages": [("ai", f"Other: {state.get('active_agent')}")]}
    )
    builder.add_edge(START, "tree")
    return builder.compile(checkpointer=saver)


def invoked(drive: Drive, graph: Any, given: Any = None) -> dict[str, Any]:
    """Return the state of the graph after a run."""
    given = {"messages": [("user", "Go.")]} if given is None else given
    if drive is Async:
        return dict(asyncio.run(graph.ainvoke(given, CONFIG)))
    return dict(graph.invoke(given, CONFIG))


@pytest.mark.parametrize("has_saver", [False, True])
def test_the_tree_ends_and_the_graph_goes_on_elsewhere(drive: Drive, has_saver: bool) -> None:
    never = says("never")
    tree = ag.loop("l", [ag.sequential("s", [says("first"), leaving()]), never], max_iterations=3)
    graph = outer(tree, InMemorySaver() if has_saver else None)
    state = invoked(drive, graph)
    said = ["human: Go.", "ai: first", "ai: ", "tool: Over.", "ai: Other: None"]
    assert texts(state["messages"]) == said
    if has_saver:
        again = invoked(drive, graph)
        assert texts(again["messages"]) == [*said, *said]


def test_the_update_of_the_command_goes_along(drive: Drive) -> None:
    tree = leaving(goes_to("other", active_agent="bob", notes=["one"]))
    state = invoked(drive, outer(tree))
    assert (state["active_agent"], state["notes"]) == ("bob", ["one"])
    assert texts(state["messages"])[-1] == "ai: Other: bob"


def test_a_send_to_one_node_leaves_too(drive: Drive) -> None:
    assert texts(invoked(drive, outer(leaving(goes_to(Send("other", {})))))["messages"])[-2:] == [
        "tool: Over.",
        "ai: Other: None",
    ]


def test_an_agent_of_that_name_in_the_tree_comes_first(drive: Drive) -> None:
    desk = chat("desk", calls(call("leave")), tools=[goes_to("other")], sub_agents=[says("other")])
    state = invoked(drive, outer(desk))
    assert texts(state["messages"])[-2:] == ["tool: Over.", "ai: other"]


def _branch(agent: ag.Agent) -> ag.Agent:
    return ag.parallel("p", [agent])


def _item(agent: ag.Agent) -> ag.Agent:
    return ag.each("e", agent, lambda ctx: ["a"])


def _call(agent: ag.Agent) -> ag.Agent:
    return ag.function_agent("f", _run_ann, agents=[agent])


def _run_ann(ctx: ag.Context) -> str:
    return str(ctx.run("ann", "x"))


@pytest.mark.parametrize("around", [_branch, _item, _call])
def test_in_a_branch_an_item_and_a_call_it_is_a_tool_error(
    around: Callable[[ag.Agent], ag.Agent], drive: Drive
) -> None:
    agent = chat("ann", calls(call("leave")), "Stayed.", tools=[goes_to("other")])
    state = invoked(drive, outer(around(agent)))
    assert texts(state["messages"])[-1] == "ai: Stayed."
    assert not any("Other" in text for text in texts(state["messages"]))


def test_a_tree_that_is_no_node_of_another_graph_has_nowhere_to_go(disk: Disk) -> None:
    agent = chat("ann", calls(call("leave")), "Stayed.", tools=[goes_to("other")])
    said = [event.text for event in disk.run(agent)]
    assert said[1:] == [
        "Error: there is no agent other to transfer to; available: none.",
        "Stayed.",
    ]


def test_the_hooks_at_the_end_run_first(drive: Drive) -> None:
    @after_agent
    def last(state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [("ai", "Last words.")]}

    state = invoked(drive, outer(leaving(middleware=[last])))
    assert texts(state["messages"])[-3:] == ["tool: Over.", "ai: Last words.", "ai: Other: None"]


def test_after_a_question_beside_it_the_answer_comes_first(drive: Drive) -> None:
    both = calls(call("leave", "1"), call("boss", "2", request="x"))
    tree = chat("ann", both, tools=[goes_to("other"), ag.agent_tool(asks("boss"))])
    graph = outer(tree, InMemorySaver())
    assert "__interrupt__" in invoked(drive, graph)
    state = invoked(drive, graph, Command(resume="Yes."))
    assert texts(state["messages"])[-3:] == ["tool: Yes.", "tool: Over.", "ai: Other: None"]


def test_a_node_that_fails_after_it_is_run_again_alone(drive: Drive) -> None:
    failures = iter([True, False])

    def other(state: State) -> dict[str, Any]:
        if next(failures):
            raise ValueError("no")
        return {"messages": [("ai", "Other.")]}

    builder = StateGraph(State)
    builder.add_node("tree", ag.compile_agent(leaving()))
    builder.add_node("other", other)
    builder.add_edge(START, "tree")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="no"):
        invoked(drive, graph)
    state = dict(graph.invoke(None, CONFIG))
    assert texts(state["messages"]) == ["human: Go.", "ai: ", "tool: Over.", "ai: Other."]


def test_trees_are_members_of_a_langgraph_swarm(drive: Drive) -> None:
    ann = chat("ann", calls(call("transfer_to_bob")), tools=[create_handoff_tool(agent_name="bob")])
    bob = chat("bob", "Bob here.", "Still Bob.")
    builder = StateGraph(SwarmState)
    for agent in (ann, bob):
        builder.add_node(agent.name, ag.compile_agent(agent))
    add_active_agent_router(builder, route_to=["ann", "bob"], default_active_agent="ann")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    state = invoked(drive, graph)
    assert state["active_agent"] == "bob"
    assert texts(state["messages"])[-2:] == ["tool: Successfully transferred to bob", "ai: Bob here."]
    assert texts(invoked(drive, graph)["messages"])[-2:] == ["human: Go.", "ai: Still Bob."]

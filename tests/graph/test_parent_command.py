"""A LangGraph graph that ends by a command for the graph around it: a named error, no lost thread."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from helpers import Drive, chat, failing, says, scripted
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.errors import ParentCommand
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

GOTO = ["bob", "nowhere", END, ["bob", "z"], Send("bob", {}), ()]


def handoff(goto: Any, *, updates: bool = True) -> Any:
    """Return a tool as langgraph-supervisor and langgraph-swarm write them."""

    @tool
    def transfer_to_bob(tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Hand over to bob."""
        messages = [ToolMessage("Transferred.", tool_call_id=tool_call_id)]
        update = {"messages": messages, "active_agent": "bob"} if updates else None
        return Command(goto=goto, graph=Command.PARENT, update=update)

    return transfer_to_bob


def agent_with_handoff(goto: Any, *, updates: bool = True) -> Any:
    model = scripted(*[calls(call("transfer_to_bob"))] * 3)
    return create_agent(model, [handoff(goto, updates=updates)])


def leaving(goto: Any = "bob") -> Any:
    """Return a graph that says something and then ends by a command for the graph around it."""

    def node(state: Any) -> Any:
        return Command(goto=goto, graph=Command.PARENT, update={"messages": [AIMessage("Lost.")]})

    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [AIMessage("Hi.")]}).add_node("leave", node)
    return builder.add_edge(START, "say").add_edge("say", "leave").compile()


def ann(graph: Any) -> ag.Agent:
    return ag.graph_agent("ann", graph)


def said(runner: ag.Runner) -> list[tuple[str, str]]:
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    return [(message.type, message.text) for message in state.values["messages"]]


@pytest.mark.parametrize("goto", GOTO, ids=str)
def test_a_handoff_tool_of_a_foreign_agent_is_an_error(drive: Drive, goto: Any) -> None:
    first = ann(agent_with_handoff(goto, updates=goto != "nowhere"))
    runner = ag.Runner(ag.sequential("s", [says("bob"), first]))
    told, raised = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
    assert str(raised) == (
        f"s/ann: a LangGraph graph in the agent 'ann' ended by Command(goto={goto!r}, "
        "graph=Command.PARENT), and nothing of the command was written; it may hand over to one agent, "
        "by its name; possible: none: only agents in a chat agent's sub_agents can"
    )
    assert (told[-1].address, told[-1].error) == ("s/ann", repr(raised))
    assert said(runner) == [("human", "Go."), ("ai", "bob")]
    again, _ = failing(drive.resume(runner, "t"), ag.InvalidOutputError)
    assert again[-1].error == repr(raised)
    assert runner.pending("t") == []


def test_a_node_that_leaves_is_an_error(drive: Drive) -> None:
    runner = ag.Runner(ann(leaving()))
    told, _ = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
    assert [event.text for event in told if event.text] == ["Hi."]
    assert said(runner) == [("human", "Go.")]


def test_the_thread_goes_on_when_the_graph_was_mended(drive: Drive) -> None:
    left = [True]

    def node(state: Any) -> Any:
        if left.pop() if left else False:
            return Command(goto="bob", graph=Command.PARENT)
        return {"messages": [AIMessage("Mended.")]}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()
    runner = ag.Runner(ag.sequential("s", [ann(graph), says("bob")]))
    failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
    assert transcript(drive.resume(runner, "t")) == ["s/ann: Mended.", "s/ann/bob: bob"]


def test_a_command_inside_the_graph_is_its_own_matter(drive: Drive) -> None:
    """A handoff between agents of one foreign graph stays there."""
    inner = create_agent(scripted(calls(call("transfer_to_bob"))), [handoff("bob", updates=False)])
    builder = StateGraph(MessagesState).add_node("ann", inner, destinations=("bob",))
    builder.add_node("bob", lambda state: {"messages": [AIMessage("I am Bob.")]})
    swarm = builder.add_edge(START, "ann").compile()
    tree = ag.sequential("s", [ag.graph_agent("swarm", swarm), says("z")])
    told = list(drive.run(ag.Runner(tree), "Go."))
    assert [event.text for event in told if event.text] == ["I am Bob.", "z"]


def test_a_command_for_a_graph_further_in_is_that_graphs_own_matter(drive: Drive) -> None:
    middle = StateGraph(MessagesState).add_node("m", leaving()).add_edge(START, "m").compile()
    told = list(drive.run(ag.Runner(ag.sequential("s", [ann(middle), says("z")])), "Go."))
    assert [event.text for event in told if event.text][-2:] == ["Lost.", "z"]
    assert not [event for event in told if event.error]


def invokes(ctx: ag.Context) -> str:
    return str(leaving().invoke({"messages": ["Hi."]}))


async def ainvokes(ctx: ag.Context) -> str:
    return str(await leaving().ainvoke({"messages": ["Hi."]}))


def raises(ctx: ag.Context) -> Any:
    raise ParentCommand(Command(goto="bob", graph=Command.PARENT))


def ask() -> str:
    """Ask a graph."""
    return str(leaving().invoke({"messages": ["Hi."]}))


WHERE: dict[str, tuple[Callable[[], ag.Agent], str]] = {
    "a branch": (lambda: ag.parallel("p", [ann(leaving()), says("b")], on_error="wait"), "p/ann"),
    "a tool": (lambda: chat("c", *[calls(call("ask"))] * 2, tools=[ask]), "c"),
    "two calls": (lambda: chat("c", *[calls(call("ask"), call("ask"))] * 2, tools=[ask]), "c"),
    "a function": (lambda: ag.function_agent("ann", invokes), "ann"),
    "an async function": (lambda: ag.function_agent("ann", ainvokes), "ann"),
    "a function that raises it": (lambda: ag.function_agent("ann", raises), "ann"),
    "until of a leaf": (lambda: ag.loop("l", [says("a")], max_iterations=2, until=raises), "l[0]/a"),
    "until of a parallel": (
        lambda: ag.loop("l", [ag.parallel("a", [says("b")])], max_iterations=2, until=raises),
        "l[0]/a",
    ),
}


@pytest.mark.parametrize("where", WHERE)
def test_a_command_for_the_graph_around_is_an_error_in(drive: Drive, where: str) -> None:
    make, address = WHERE[where]
    runner = ag.Runner(make())
    told, _ = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
    assert told[-1].address == address
    failing(drive.resume(runner, "t"), ag.InvalidOutputError)
    assert said(runner)[0] == ("human", "Go.")


def test_a_branch_that_collects_failures_and_a_caller_of_a_tool_go_on(drive: Drive) -> None:
    branch = ag.parallel("p", [ann(leaving()), says("b")], on_error="collect")
    assert list(drive.run(ag.Runner(ag.sequential("s", [branch, says("z")])), "Go."))[-1].text == "z"
    model = scripted(calls(call("ann", request="Do.")), "So.")
    tree = ag.chat_agent("c", model, tools=[ag.agent_tool(ann(leaving()))])
    told = list(drive.run(ag.Runner(tree), "Go."))
    assert [event.address for event in told if event.error] == ["c/ann(0)"]
    assert told[-1].text == "So."
    assert "Command.PARENT" in str(model.inputs[1][-1].text)

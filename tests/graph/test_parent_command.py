"""A LangGraph graph that ends by a command for the graph around it: a named error, no lost thread."""

from typing import Annotated, Any

import pytest
from helpers import Drive, failing, says, scripted
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
@pytest.mark.parametrize("updates", [True, False])
@pytest.mark.parametrize("is_last", [True, False])
def test_a_handoff_tool_of_a_foreign_agent_is_an_error(
    drive: Drive, goto: Any, updates: bool, is_last: bool
) -> None:
    first = ann(agent_with_handoff(goto, updates=updates))
    bob = says("bob")
    runner = ag.Runner(ag.sequential("s", [bob, first] if is_last else [first, bob]))
    told, raised = failing(drive.run(runner, "Go.", thread_id="t", stream=True), ag.InvalidOutputError)
    assert str(raised) == (
        f"s/ann: a LangGraph graph in the agent 'ann' ended by Command(goto={goto!r}, "
        "graph=Command.PARENT), and nothing of the command was written; it may hand over to one agent, "
        "by its name; possible: none: only what stands in a chat agent's sub_agents may"
    )
    assert (told[-1].address, told[-1].error) == ("s/ann", repr(raised))
    assert said(runner) == [("human", "Go."), *[("ai", "bob")] * is_last]
    again, _ = failing(drive.resume(runner, "t"), ag.InvalidOutputError)
    assert again[-1].error == repr(raised)
    failing(drive.run(runner, "More.", thread_id="t"), ag.InvalidOutputError)
    assert said(runner)[-1 - is_last] == ("human", "More.")
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


class TestWhereverItRuns:
    def test_in_a_branch(self, drive: Drive) -> None:
        tree = ag.parallel("p", [ann(leaving()), says("b")], on_error="wait")
        runner = ag.Runner(tree)
        told, _ = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
        assert told[-1].address == "p/ann"
        failing(drive.resume(runner, "t"), ag.InvalidOutputError)

    def test_in_a_branch_whose_failure_is_collected(self, drive: Drive) -> None:
        tree = ag.sequential(
            "s", [ag.parallel("p", [ann(leaving()), says("b")], on_error="collect"), says("z")]
        )
        assert list(drive.run(ag.Runner(tree), "Go."))[-1].text == "z"

    def test_in_an_agent_as_a_tool(self, drive: Drive) -> None:
        model = scripted(calls(call("ann", request="Do.")), "So.")
        tree = ag.chat_agent("c", model, tools=[ag.agent_tool(ann(leaving()))])
        told = list(drive.run(ag.Runner(tree), "Go."))
        assert [event.address for event in told if event.error] == ["c/ann(0)"]
        assert told[-1].text == "So."
        assert "Command.PARENT" in str(model.inputs[1][-1].text)

    @pytest.mark.parametrize("several", [1, 2])
    def test_in_a_tool_that_invokes_a_graph(self, drive: Drive, several: int) -> None:
        def ask() -> str:
            """Ask a graph."""
            return str(leaving().invoke({"messages": ["Hi."]}))

        model = scripted(*[calls(*[call("ask")] * several)] * 2)
        runner = ag.Runner(ag.chat_agent("c", model, tools=[ask]))
        told, _ = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
        assert told[-1].address == "c"
        failing(drive.resume(runner, "t"), ag.InvalidOutputError)
        assert said(runner)[-1][0] == "ai"

    def test_in_a_function_that_invokes_a_graph(self, drive: Drive) -> None:
        def ask(ctx: ag.Context) -> str:
            return str(leaving().invoke({"messages": ["Hi."]}))

        runner = ag.Runner(ag.sequential("s", [ag.function_agent("ann", ask), says("bob")]))
        told, _ = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
        assert told[-1].address == "s/ann"
        assert said(runner) == [("human", "Go.")]

    def test_in_an_async_function(self, drive: Drive) -> None:
        async def ask(ctx: ag.Context) -> str:
            return str(await leaving().ainvoke({"messages": ["Hi."]}))

        runner = ag.Runner(ag.function_agent("ann", ask))
        failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
        assert said(runner) == [("human", "Go.")]

    def test_raised_by_a_function_itself(self, drive: Drive) -> None:
        def leave(ctx: ag.Context) -> str:
            raise ParentCommand(Command(goto="bob", graph=Command.PARENT))

        told, _ = failing(
            drive.run(ag.Runner(ag.function_agent("ann", leave)), "Go."), ag.InvalidOutputError
        )
        assert told[-1].address == "ann"

    def test_raised_where_a_loop_ends(self, drive: Drive) -> None:
        def until(ctx: ag.Context) -> bool:
            raise ParentCommand(Command(goto="bob", graph=Command.PARENT))

        loops = [
            ag.loop("l", [says("a")], max_iterations=2, until=until),
            ag.loop("l", [ag.parallel("a", [says("b")])], max_iterations=2, until=until),
        ]
        for tree in loops:
            runner = ag.Runner(tree)
            told, _ = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
            assert told[-1].address == "l[0]/a"
            assert said(runner)[0] == ("human", "Go.")

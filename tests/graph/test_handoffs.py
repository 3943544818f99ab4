"""Handoff tools as LangGraph's users write them transfer: from chat agents, and from foreign graphs."""

import operator
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Disk, Drive, failing, scripted
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.graph import END
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Send, interrupt
from langgraph_supervisor.handoff import create_handoff_tool as supervisor_handoff
from langgraph_swarm import create_handoff_tool as swarm_handoff
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls, transcript


def by_hand(agent_name: str) -> BaseTool:
    """Return a handoff tool as LangGraph's documentation writes them."""

    @tool(f"transfer_to_{agent_name.lower()}", description="Hand over.")
    def handoff(
        state: Annotated[dict[str, Any], InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Command[Any]:
        done = ToolMessage(f"Successfully transferred to {agent_name}", tool_call_id=tool_call_id)
        update = {**state, "messages": [*state["messages"], done]}
        return Command(goto=agent_name, graph=Command.PARENT, update=update)

    return handoff


def silent(agent_name: str) -> BaseTool:
    return supervisor_handoff(agent_name=agent_name, add_handoff_messages=False)


HANDOFFS: Any = {
    "swarm": lambda name: swarm_handoff(agent_name=name),
    "supervisor": lambda name: supervisor_handoff(agent_name=name),
    "supervisor without messages": silent,
    "by hand": by_hand,
}


class Passing(AgentMiddleware[Any, Any, Any]):
    """Wraps calls and changes nothing."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class Values(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]


def sent(messages: list[BaseMessage]) -> list[str]:
    return [f"{each.type}: {each.text}" for each in messages if each.type != "system"]


@pytest.mark.parametrize("middleware", [[], [Passing()]], ids=["plain", "wrapped"])
@pytest.mark.parametrize("kind", HANDOFFS)
def test_a_handoff_tool_of_a_chat_agent_transfers_there_and_back(
    drive: Drive, tmp_path: Path, kind: str, middleware: Any
) -> None:
    make = HANDOFFS[kind]
    boss = scripted(calls(call("transfer_to_bob"), text="Bob knows."), "So he says.")
    bob = scripted(calls(call("transfer_to_boss"), text="Back."))
    helper = ag.chat_agent("bob", bob, tools=[make("boss")], middleware=middleware)
    tree = ag.chat_agent("boss", boss, tools=[make("bob")], sub_agents=[helper], middleware=middleware)
    disk = Disk(drive, tmp_path / "db")
    told = disk.run(tree)
    done = "Successfully transferred to" if kind != "supervisor without messages" else "Transferred to"
    dot = "." if kind == "supervisor without messages" else ""
    assert transcript(told) == [
        "boss: Bob knows.",
        f"boss: {done} bob{dot}",
        "boss: [transfer_to] bob",
        "boss/bob: Back.",
        f"boss/bob: {done} boss{dot}",
        "boss/bob: [transfer_to] boss",
        "boss/bob/boss: So he says.",
    ]
    assert disk.events(tree) == told
    assert [each["function"]["name"] for each in boss.tools] == ["transfer_to_bob"]
    assert [each["function"]["name"] for each in bob.tools] == ["transfer_to_boss"]
    assert sent(bob.inputs[0]) == ["human: Go.", "human: [boss] said: Bob knows."]
    assert sent(boss.inputs[1])[-1] == "human: [bob] said: Back."
    again = disk.run(ag.chat_agent("boss", scripted("Yes."), sub_agents=[ag.chat_agent("bob", bob)]))
    assert transcript(again) == ["boss: Yes."]


@pytest.mark.parametrize("kind", HANDOFFS)
def test_a_handoff_writes_nothing_again_that_the_state_has(drive: Drive, kind: str) -> None:
    boss = scripted(calls(call("transfer_to_bob")))
    tree = ag.chat_agent(
        "boss",
        boss,
        tools=[HANDOFFS[kind]("bob")],
        sub_agents=[ag.chat_agent("bob", scripted("Hi."))],
    )
    runner = ag.Runner(tree, values=Values)
    list(drive.run(runner, "Go.", thread_id="t", values={"notes": ["one"], "topic": "bees"}))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["values"] == {"notes": ["one"], "topic": "bees"}
    assert [message.text for message in state["messages"]][0::3] == ["Go.", "Hi."]


def test_a_handoff_may_say_and_write_what_is_new(drive: Drive) -> None:
    @tool
    def pass_on(task: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand over with a task."""
        said = [
            RemoveMessage(id=REMOVE_ALL_MESSAGES),
            ToolMessage("Passed on.", tool_call_id=tool_call_id),
        ]
        update = {"messages": said, "task": task, "notes": ["two"], "active_agent": "bob"}
        return Command(goto="bob", graph=Command.PARENT, update=update)

    bob = scripted("Done.")
    tree = ag.chat_agent(
        "boss",
        scripted(calls(call("pass_on", task="dig"))),
        tools=[pass_on],
        sub_agents=[ag.chat_agent("bob", bob, instruction="Do {task}.")],
    )
    runner = ag.Runner(tree, values=Values)
    list(drive.run(runner, "Go.", thread_id="t", values={"notes": ["one"]}))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["values"] == {"notes": ["one", "two"], "task": "dig"}
    assert bob.inputs[0][0].text.startswith("Do dig.")
    assert sent(bob.inputs[0]) == ["human: Go."]
    assert state["messages"][0].text == "Go."


@pytest.mark.parametrize("kind", HANDOFFS)
def test_of_two_handoffs_in_one_message_the_last_is_carried_out(drive: Drive, kind: str) -> None:
    make = HANDOFFS[kind]
    boss = scripted(calls(call("transfer_to_ann"), call("transfer_to_bob")))
    workers = [ag.chat_agent("ann", scripted("Ann.")), ag.chat_agent("bob", scripted("Bob."))]
    tree = ag.chat_agent("boss", boss, tools=[make("ann"), make("bob")], sub_agents=workers)
    told = transcript(drive.run(ag.Runner(tree), "Go."))
    assert told[-2:] == ["boss: [transfer_to] bob", "boss/bob: Bob."]
    if kind == "by hand":  # nothing tells before it runs that it hands over
        return
    passed = "boss: Not carried out: of several transfers in one message only the last one is."
    assert passed in told
    assert len(told) == 5


def test_a_tool_beside_a_handoff_runs_too(drive: Drive) -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    for kind, make in HANDOFFS.items():
        boss = scripted(calls(call("transfer_to_bob"), call("add", a=1, b=2)))
        bob = scripted("Bob.")
        tree = ag.chat_agent(
            "boss", boss, tools=[make("bob"), add], sub_agents=[ag.chat_agent("bob", bob)]
        )
        told = transcript(drive.run(ag.Runner(tree), "Go."))
        assert "boss: 3" in told, kind
        assert told[-1] == "boss/bob: Bob."
        assert sent(bob.inputs[0])[1:] == [
            'human: [boss] called add({"a": 1, "b": 2})',
            "human: [boss] add returned: 3",
        ]


@pytest.mark.parametrize("name", ["nobody", "boss"])
def test_a_handoff_to_an_agent_that_there_is_not_goes_back_to_the_model(
    drive: Drive, name: str
) -> None:
    boss = scripted(calls(call(f"transfer_to_{name}")), "I stay.")
    bob = ag.chat_agent("bob", scripted())
    tree = ag.chat_agent("boss", boss, tools=[swarm_handoff(agent_name=name)], sub_agents=[bob])
    assert transcript(drive.run(ag.Runner(tree), "Go."))[1:] == [
        f"boss: Error: there is no agent {name} to transfer to; there are: bob.",
        "boss: I stay.",
    ]


GOTO: list[Any] = [END, ["bob", "ann"], [Send("bob", {}), Send("ann", {})], (), ""]


@pytest.mark.parametrize("goto", GOTO, ids=str)
def test_a_handoff_to_several_or_to_none_is_refused(drive: Drive, goto: Any) -> None:
    @tool
    def leave(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Leave."""
        update = {"messages": [ToolMessage("Left.", tool_call_id=tool_call_id)]}
        return Command(goto=goto, graph=Command.PARENT, update=update)

    workers = [ag.chat_agent(name, scripted()) for name in ("ann", "bob")]
    tree = ag.chat_agent("boss", scripted(calls(call("leave"))), tools=[leave], sub_agents=workers)
    _, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    assert str(raised).startswith("boss: the tool 'leave' returned Command(graph='__parent__'")
    assert "hand over to one agent by Command(goto=name, graph=Command.PARENT)" in str(raised)


def test_a_handoff_that_asked_transfers_when_it_was_answered(drive: Drive, tmp_path: Path) -> None:
    @tool
    def transfer_to_bob(
        state: Annotated[dict[str, Any], InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Command[Any]:
        """Hand over if a person agrees."""
        done = ToolMessage(interrupt("May I?"), tool_call_id=tool_call_id)
        return Command(
            goto="bob", graph=Command.PARENT, update={"messages": [*state["messages"], done]}
        )

    tree = ag.chat_agent(
        "boss",
        scripted(calls(call("transfer_to_bob"))),
        tools=[transfer_to_bob],
        sub_agents=[ag.chat_agent("bob", scripted("Bob."))],
    )
    disk = Disk(drive, tmp_path / "db")
    disk.run(tree)
    told = disk.resume(tree, "You may.")
    assert transcript(told) == ["boss: You may.", "boss: [transfer_to] bob", "boss/bob: Bob."]
    assert disk.events(tree) == disk.told


# foreign graphs


@pytest.mark.parametrize("kind", HANDOFFS)
def test_a_handoff_tool_of_a_foreign_agent_transfers(drive: Drive, tmp_path: Path, kind: str) -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    boss = scripted(calls(call("transfer_to_bob")), "So he says.")
    bob = scripted(calls(call("add", a=1, b=2)), calls(call("transfer_to_boss"), text="Three."))
    foreign = create_agent(bob, [add, HANDOFFS[kind]("boss")])
    tree = ag.chat_agent("boss", boss, sub_agents=[ag.graph_agent("bob", foreign, output_key="out")])
    disk = Disk(drive, tmp_path / "db")
    told = disk.run(tree)
    done = "Successfully transferred to boss" if kind[-8:] != "messages" else "Transferred to boss."
    assert transcript(told)[2:] == [
        "boss: [transfer_to] bob",
        'boss/bob: [calls] add({"a": 1, "b": 2})',
        "boss/bob: 3",
        "boss/bob: Three.",
        f"boss/bob: {done}",
        "boss/bob: [transfer_to] boss",
        "boss/bob/boss: So he says.",
    ]
    assert disk.events(tree) == told
    assert sent(boss.inputs[1]) == [
        "human: Go.",
        'human: [bob] called add({"a": 1, "b": 2})',
        "human: [bob] add returned: 3",
        "human: [bob] said: Three.",
    ]


def test_a_foreign_agent_hands_over_what_it_writes_besides(drive: Drive) -> None:
    @tool
    def hand_back(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand back."""
        said = [ToolMessage("Back.", tool_call_id=tool_call_id)]
        update = {"messages": said, "ticket": 42, "active_agent": "boss", "jump_to": None}
        return Command(goto="boss", graph=Command.PARENT, update=update)

    foreign = create_agent(scripted(calls(call("hand_back"))), [hand_back])
    tree = ag.chat_agent(
        "boss",
        scripted(calls(call("transfer_to_bob")), "Done."),
        sub_agents=[ag.graph_agent("bob", foreign)],
    )
    runner = ag.Runner(tree)
    list(drive.run(runner, "Go.", thread_id="t"))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["values"] == {"ticket": 42}


def test_a_foreign_agent_that_hands_over_to_nobody_says_who_there_is(drive: Drive) -> None:
    foreign = create_agent(
        scripted(calls(call("transfer_to_carl"))), [swarm_handoff(agent_name="carl")]
    )
    tree = ag.chat_agent(
        "boss", scripted(calls(call("transfer_to_bob"))), sub_agents=[ag.graph_agent("bob", foreign)]
    )
    _, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    assert str(raised) == (
        "boss[1]/bob: a LangGraph graph in the agent 'bob' ended by Command(goto='carl', "
        "graph=Command.PARENT), and nothing of the command was written; it may hand over to one agent, "
        "by its name; possible: 'boss'"
    )


def test_the_graph_is_drawn_with_the_way_that_a_foreign_agent_may_take() -> None:
    foreign = create_agent(scripted(), [swarm_handoff(agent_name="boss")])
    tree = ag.chat_agent("boss", scripted(), sub_agents=[ag.graph_agent("bob", foreign)])
    edges = {(edge.source, edge.target) for edge in ag.compile_agent(tree).get_graph().edges}
    assert {("bob", "boss"), ("bob", "__end__")} <= edges
    alone = ag.sequential("s", [ag.graph_agent("bob", foreign)])
    drawn = ag.compile_agent(alone).get_graph()
    assert [edge.target for edge in drawn.edges if edge.source == "bob"] == ["__end__"]


# results of tools that say again what is there


def test_a_tool_that_gives_the_whole_history_again_says_only_what_is_new(drive: Drive) -> None:
    @tool
    def note(
        state: Annotated[dict[str, Any], InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Command[Any]:
        """Note something."""
        done = [ToolMessage("Noted.", tool_call_id=tool_call_id), AIMessage("And more.")]
        return Command(update={"messages": [*state["messages"], *done]})

    first = ag.function_agent("first", lambda ctx: "Before.")
    model = scripted(calls(call("note")), "Done.")
    tree = ag.sequential("s", [first, ag.chat_agent("writer", model, tools=[note])])
    runner = ag.Runner(tree)
    told = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(told) == [
        "s/first: Before.",
        "s/first/writer: [calls] note({})",
        "s/first/writer: Noted.",
        "s/first/writer: And more.",
        "s/first/writer: Done.",
    ]
    messages = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    assert [each.text for each in messages] == ["Go.", "Before.", "", "Noted.", "And more.", "Done."]
    assert isinstance(messages[0], HumanMessage)
    assert list(runner.events("t")) == told

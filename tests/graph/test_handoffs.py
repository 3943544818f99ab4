"""Handoff tools as LangGraph's users write them transfer: from chat agents, and from foreign graphs."""

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from helpers import (
    Disk,
    Drive,
    add,
    chat,
    echo,
    failing,
    lines,
    middleware,
    passes,
    says,
    scripted,
    texts,
)
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.graph import END
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Send, interrupt
from langgraph_supervisor.handoff import create_forward_message_tool
from langgraph_supervisor.handoff import create_handoff_tool as supervisor_handoff
from langgraph_swarm import create_handoff_tool as swarm_handoff
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls

pytestmark = pytest.mark.by_turns("drive")


def returning(name: str, made: Callable[[dict[str, Any], Any], Command[Any]]) -> BaseTool:
    """Return a tool whose command a function makes of the state and of `done`, which makes results."""

    @tool(name, description="Hand over.")
    def handoff(
        state: Annotated[dict[str, Any], InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Command[Any]:
        return made(state, lambda text: ToolMessage(text, tool_call_id=tool_call_id))

    return handoff


def leaving(goto: Any, **update: Any) -> Command[Any]:
    return Command(goto=goto, graph=Command.PARENT, update=update)


def by_hand(name: str) -> BaseTool:
    """Return a handoff tool as LangGraph's documentation writes them."""

    def made(state: dict[str, Any], done: Any) -> Command[Any]:
        text = f"Successfully transferred to {name}"
        return leaving(name, **{**state, "messages": [*state["messages"], done(text)]})

    return returning(f"transfer_to_{name}", made)


def silent(name: str) -> BaseTool:
    return supervisor_handoff(agent_name=name, add_handoff_messages=False)


HANDOFFS: dict[str, tuple[Callable[[str], Any], str]] = {
    "swarm": (lambda name: swarm_handoff(agent_name=name), "Successfully transferred to {}"),
    "supervisor": (lambda name: supervisor_handoff(agent_name=name), "Successfully transferred to {}"),
    "supervisor without messages": (silent, "Transferred to {}."),
    "by hand": (by_hand, "Successfully transferred to {}"),
}
kinds = pytest.mark.parametrize(("make", "done"), HANDOFFS.values(), ids=HANDOFFS)


class Values(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]


def state_of(runner: ag.Runner) -> dict[str, Any]:
    state: dict[str, Any] = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    return state


def sent(model: Any, nth: int = 0) -> list[str]:
    return texts(model.inputs[nth], system=False)


@pytest.mark.parametrize("wraps", [[], [middleware(wrap_tool_call=passes)]], ids=["plain", "wrapped"])
@kinds
def test_a_handoff_tool_transfers_there_and_back(disk: Disk, make: Any, done: str, wraps: Any) -> None:
    boss = scripted(calls(call("transfer_to_bob"), text="Bob knows."), "So he says.", "Yes.")
    bob = scripted(calls(call("transfer_to_boss"), text="Back."))
    helper = ag.chat_agent("bob", bob, tools=[make("boss")], middleware=wraps)
    tree = ag.chat_agent("boss", boss, tools=[make("bob")], sub_agents=[helper], middleware=wraps)
    assert lines(disk.run(tree)) == [
        "boss: Bob knows.",
        f"boss: {done.format('bob')}",
        "boss: [transfer_to] bob",
        "boss[1]/bob: Back.",
        f"boss[1]/bob: {done.format('boss')}",
        "boss[1]/bob: [transfer_to] boss",
        "boss[2]: So he says.",
    ]
    assert disk.events(tree) == disk.heard
    assert [each["function"]["name"] for each in boss.tools] == ["transfer_to_bob"]
    assert [each["function"]["name"] for each in bob.tools] == ["transfer_to_boss"]
    assert sent(bob) == ["human: Go.", "human: [boss] said: Bob knows."]
    assert sent(boss, 1)[-1] == "human: [bob] said: Back."
    assert lines(disk.run(tree)) == ["boss: Yes."]


@kinds
def test_a_handoff_writes_nothing_again_that_the_state_has(drive: Drive, make: Any, done: str) -> None:
    tree = chat("boss", calls(call("transfer_to_bob")), tools=[make("bob")], sub_agents=[says("bob")])
    runner = ag.Runner(tree, values=Values)
    list(drive.run(runner, "Go.", thread_id="t", values={"notes": ["one"], "topic": "bees"}))
    assert state_of(runner)["values"] == {"notes": ["one"], "topic": "bees"}
    assert texts(state_of(runner)["messages"])[0::3] == ["human: Go.", "ai: bob"]


def test_a_handoff_may_ask_and_may_say_and_write_what_is_new(drive: Drive) -> None:
    def made(state: dict[str, Any], done: Any) -> Command[Any]:
        new = [RemoveMessage(id=REMOVE_ALL_MESSAGES), done(interrupt("May I?"))]
        return leaving("bob", messages=new, task="dig", notes=["two"], active_agent="bob")

    bob = scripted("Done.")
    worker = ag.chat_agent("bob", bob, instruction="Do {task}.")
    tools = [returning("pass_on", made)]
    tree = chat("boss", calls(call("pass_on")), tools=tools, sub_agents=[worker])
    runner = ag.Runner(tree, values=Values)
    events = list(drive.run(runner, "Go.", thread_id="t", values={"notes": ["one"]}))
    events += drive.resume(runner, "t", "You may.")
    said = ["boss: You may.", "boss: [transfer_to] bob", "boss[1]/bob: Done."]
    assert lines(events)[-3:] == said
    assert list(runner.events("t")) == events
    assert state_of(runner)["values"] == {"notes": ["one", "two"], "task": "dig"}
    assert bob.inputs[0][0].text.startswith("Do dig.")
    assert sent(bob) == ["human: Go."]
    assert state_of(runner)["messages"][0].text == "Go."


@kinds
def test_beside_a_handoff_other_tools_run_and_of_two_the_last_is_carried_out(
    drive: Drive, make: Any, done: str
) -> None:
    bob = scripted("Bob.")
    asked = calls(call("transfer_to_ann"), call("add", a=1, b=2), call("transfer_to_bob"))
    tools, workers = [make("ann"), make("bob"), add], [chat("ann"), ag.chat_agent("bob", bob)]
    events = lines(drive.run(ag.Runner(chat("boss", asked, tools=tools, sub_agents=workers)), "Go."))
    assert events[-2:] == ["boss: [transfer_to] bob", "boss[1]/bob: Bob."]
    assert "boss: 3" in events
    assert "human: [boss] add returned: 3" in sent(bob)
    if make is not by_hand:  # only such a tool does not say before it runs that it hands over
        passed = "boss: Not carried out: of several transfers in one message only the last one is."
        assert passed in events


@pytest.mark.parametrize("name", ["nobody", "boss"])
def test_a_handoff_to_an_agent_that_is_not_there_goes_back_to_the_model(
    drive: Drive, name: str
) -> None:
    asked = calls(call(f"transfer_to_{name}"))
    tools = [swarm_handoff(agent_name=name)]
    tree = chat("boss", asked, "I stay.", tools=tools, sub_agents=[says("bob")])
    assert lines(drive.run(ag.Runner(tree), "Go."))[1:] == [
        f"boss: Error: there is no agent {name} to transfer to; available: bob.",
        "boss: I stay.",
    ]


GOTO: list[Any] = [["bob", "ann"], [Send("bob", {}), Send("ann", {})], [Send("bob", {}), "ann"]]


@pytest.mark.parametrize("goto", GOTO, ids=str)
def test_a_handoff_to_several_is_refused(drive: Drive, goto: Any) -> None:
    leave = returning("leave", lambda state, done: leaving(goto, messages=[done("Left.")]))
    workers = [says("ann"), says("bob")]
    tree = chat("boss", calls(call("leave")), tools=[leave], sub_agents=workers)
    _, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    assert str(raised).startswith("boss: the tool 'leave' returned Command(graph='__parent__'")
    assert "transfer to one agent by Command(goto=name, graph=Command.PARENT)" in str(raised)


@kinds
def test_a_handoff_tool_of_a_foreign_agent_transfers(disk: Disk, make: Any, done: str) -> None:
    boss = scripted(calls(call("transfer_to_bob")), "So he says.")
    bob = scripted(calls(call("add", a=1, b=2)), calls(call("transfer_to_boss"), text="Three."))
    foreign = ag.graph_agent("bob", create_agent(bob, [add, make("boss")]), output_key="out")
    tree = ag.chat_agent("boss", boss, sub_agents=[foreign])
    assert lines(disk.run(tree))[2:] == [
        "boss: [transfer_to] bob",
        'boss[1]/bob: [calls] add({"a": 1, "b": 2})',
        "boss[1]/bob: 3",
        "boss[1]/bob: Three.",
        f"boss[1]/bob: {done.format('boss')}",
        "boss[1]/bob: [transfer_to] boss",
        "boss[2]: So he says.",
    ]
    assert disk.events(tree) == disk.heard
    assert sent(boss, 1) == [
        "human: Go.",
        'human: [bob] called add({"a": 1, "b": 2})',
        "human: [bob] add returned: 3",
        "human: [bob] said: Three.",
    ]


def with_foreign(handoff: BaseTool) -> ag.Agent:
    """Return a chat agent that transfers to an agent of LangChain's, which calls a handoff tool."""
    foreign = create_agent(scripted(calls(call(handoff.name))), [handoff])
    workers = [ag.graph_agent("bob", foreign)]
    return chat("boss", calls(call("transfer_to_bob")), "Done.", sub_agents=workers)


def test_a_foreign_agent_hands_over_what_else_it_writes(drive: Drive) -> None:
    more = {"ticket": 42, "active_agent": "boss", "jump_to": None}
    back = returning("back", lambda state, done: leaving("boss", messages=[done("Back.")], **more))
    runner = ag.Runner(with_foreign(back))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert state_of(runner)["values"] == {"ticket": 42}


def test_a_foreign_agent_that_hands_over_to_nobody_says_who_there_is(drive: Drive) -> None:
    runner = ag.Runner(with_foreign(swarm_handoff(agent_name="carl")))
    _, raised = failing(drive.run(runner, "Go."), ag.InvalidOutputError)
    assert str(raised) == (
        "boss[1]/bob: a LangGraph graph in the agent 'bob' ended by Command(goto='carl', "
        "graph=Command.PARENT), and nothing of the command was written; it may transfer to one agent, "
        "by its name; possible: 'boss'"
    )


def test_a_tool_that_gives_the_whole_history_again_says_only_what_is_new(drive: Drive) -> None:
    def made(state: dict[str, Any], done: Any) -> Command[Any]:
        return Command(
            update={"messages": [*state["messages"], done("Noted."), AIMessage("And more.")]}
        )

    writer = chat("writer", calls(call("note")), "Done.", tools=[returning("note", made)])
    runner = ag.Runner(ag.sequential("s", [says("first"), writer]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    said = ["[calls] note({})", "Noted.", "And more.", "Done."]
    assert lines(events) == ["s/first: first", *(f"s/writer: {each}" for each in said)]
    kept = ["human: Go.", "ai: first", "ai: ", "tool: Noted.", "ai: And more.", "ai: Done."]
    assert texts(state_of(runner)["messages"]) == kept
    assert list(runner.events("t")) == events


@kinds
@pytest.mark.parametrize("group", ["a swarm", "peers"])
def test_a_handoff_tool_transfers_to_a_peer(disk: Disk, make: Any, done: str, group: str) -> None:
    ann = scripted(calls(call("transfer_to_bob")))
    members = [ag.chat_agent("ann", ann, tools=[make("bob")]), chat("bob", "Bob here.")]
    if group == "a swarm":
        tree: ag.Agent = ag.swarm("team", members)
        first, second = "team[0]/ann", "team[1]/bob"
    else:
        tree = chat("boss", calls(call("transfer_to_ann")), sub_agents=members, peers=True)
        first, second = "boss[1]/ann", "boss[2]/bob"
    assert lines(disk.run(tree))[-3:] == [
        f"{first}: {done.format('bob')}",
        f"{first}: [transfer_to] bob",
        f"{second}: Bob here.",
    ]
    assert disk.events(tree) == disk.heard
    named = [each["function"]["name"] for each in ann.tools]
    assert sorted(named) == sorted(
        {"transfer_to_bob", *(["transfer_to_boss"] if group == "peers" else [])}
    )


@pytest.mark.parametrize("mode", ["tools", "handoff"])
@pytest.mark.parametrize("has_own", [False, True])
def test_a_supervisor_forwards_by_its_own_tool_and_by_that_of_langgraph_supervisor(
    disk: Disk, mode: Any, has_own: bool
) -> None:
    ask = call("find", request="x") if mode == "tools" else call("transfer_to_find")
    model = scripted(calls(ask), calls(call("forward_message", from_agent="find")))
    find = chat("find", calls(call("echo", text="a")), "Bees hum.", tools=[echo])
    tools = [] if has_own else [create_forward_message_tool("boss")]
    boss = ag.supervisor(
        "boss", model, [find], mode=mode, tools=tools, forward=has_own, output_key="answer"
    )
    said = disk.run(ag.sequential("s", [boss, says("last")]))
    assert [event.text for event in said][-3:] == ["Done.", "Bees hum.", "last"]
    assert said[-2].message.type == "ai"
    with ag.Runner(ag.sequential("s", [boss, says("last")]), checkpointer=disk.path) as runner:
        assert runner.thread("t").values == {"answer": "Bees hum."}
        assert list(runner.events("t")) == said


def test_a_command_to_the_end_ends_the_agent_with_what_it_says(drive: Drive) -> None:
    @tool
    def stop() -> Command[Any]:
        "Stop."
        update = {"messages": [AIMessage("That is all.")], "reason": "done"}
        return Command(goto=END, graph=Command.PARENT, update=update)

    tree = ag.sequential("s", [chat("ann", calls(call("stop")), tools=[stop]), says("last")])
    runner = ag.Runner(tree)
    assert lines(drive.run(runner, "Go.", thread_id="t")) == [
        "s/ann: [calls] stop({})",
        "s/ann: [values] reason",
        "s/ann: Done.",
        "s/ann: That is all.",
        "s/last: last",
    ]
    assert state_of(runner)["values"] == {"reason": "done"}

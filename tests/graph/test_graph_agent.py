"""Agents of LangChain's, and other graphs than chains of nodes, as leaves of a tree.

Chains are in `tests/transcripts/graph_agents.txt`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import (
    Async,
    Disk,
    Drive,
    Sync,
    chat,
    failing,
    foreign,
    lines,
    retrying,
    says,
    scripted,
    unvoided,
)
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.errors import ParentCommand
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

import agentgraph as ag
from agentgraph.testing import call, calls

APPROVED = {"decisions": [{"type": "approve"}]}


def desk() -> ag.Agent:
    """Return an agent of LangChain's with two tools, one of which a person must approve."""

    def look(to: str) -> str:
        """Look."""
        return "seen"

    def send(to: str) -> str:
        """Send."""
        return f"sent to {to}"

    rounds = [calls(call(name, to=name), text=f"I {name}.") for name in ("look", "send")]
    approval = HumanInTheLoopMiddleware(interrupt_on={"send": True})
    graph = create_agent(scripted(*rounds, "All done."), [look, send], middleware=[approval])
    return ag.graph_agent("desk", graph, output_key="done")


BEFORE = ["desk: I look.", "desk: seen", "desk: I send."]
AFTER = ["desk: sent to send", "desk: All done."]


def at(prefix: str, said: list[str]) -> list[str]:
    return [f"{prefix}{line}" for line in said]


def test_an_agent_of_langchains_emits_each_message_and_pauses_for_a_person(disk: Disk) -> None:
    shown = ag.function_agent("after", lambda ctx: f"{ctx.values} {len(ctx.messages)}")
    tree = ag.sequential("s", [desk(), shown])
    *before, asked = lines(disk.run(tree))
    assert before == at("s/", BEFORE)
    assert asked.startswith("s/desk: [asks] {'action_requests': [{'name': 'send'")
    after = lines(disk.resume(tree, APPROVED))
    assert after == [*at("s/", AFTER), "s/after: {'done': 'All done.'} 6"]
    assert disk.events(tree) == disk.heard


@pytest.mark.parametrize(("first", "then"), [(Sync, Async), (Async, Sync)])
def test_what_it_said_is_known_where_a_resume_is_sync_and_the_run_was_not(
    tmp_path: Path, first: Drive, then: Drive
) -> None:
    def tree(name: str) -> ag.Agent:
        return ag.graph_agent(name, foreign(lambda _: "Looked.", lambda _: interrupt("Well?")))

    Disk(Sync, tmp_path / "other.db").run(tree("other"))
    disk = Disk(first, tmp_path / "runs.db")
    assert lines(disk.run(tree("desk"))) == ["desk: Looked.", "desk: [asks] Well?"]
    disk.drive = then
    assert lines(disk.resume(tree("desk"), "Yes.")) == ["desk: Yes."]
    assert disk.events(tree("desk")) == disk.heard


def test_its_tokens_are_streamed_under_its_address(drive: Drive) -> None:
    runner = ag.Runner(ag.loop("l", [desk()], max_iterations=1))
    events = list(drive.run(runner, "Go.", stream=True))
    chunks: dict[str, str] = {}
    for event in (each for each in events if each.partial):
        assert (event.agent_name, event.address) == ("desk", "l[0]/desk")
        chunks[event.id] = chunks.get(event.id, "") + event.text
    assert list(chunks.values()) == ["I look.", "I send."]
    whole = {event.id: event.text for event in events if event.message and not event.partial}
    assert chunks.items() <= whole.items()


@pytest.mark.parametrize("flat", [False, True], ids=["in a box", "flat"])
@pytest.mark.parametrize("retry", [None, retrying()], ids=["resumed", "retried"])
def test_tokens_of_a_node_that_failed_are_voided(drive: Drive, flat: bool, retry: Any) -> None:
    model, fails = scripted("Bees hum.", "Ants march."), [True]

    def node(messages: Any) -> Any:
        reply = model.invoke(messages)
        if fails.pop() if fails else False:
            raise ValueError("not yet")
        return [reply]

    agent = ag.graph_agent("g", foreign(node), flat=flat, retry=retry)
    runner, events = ag.Runner(agent), list[ag.AgentEvent]()
    if retry is None:
        events, _ = failing(drive.run(runner, "Go.", thread_id="t", stream=True), ValueError)
        events += drive.resume(runner, "t", stream=True)
    else:
        events += drive.run(runner, "Go.", thread_id="t", stream=True)
    left = [(event.partial, event.text) for event in unvoided(events) if event.message]
    assert left == [(True, "Ants "), (True, "march."), (False, "Ants march.")]


def test_it_may_be_a_branch(drive: Drive) -> None:
    runner = ag.Runner(ag.parallel("p", [desk(), says("other")]))
    before = lines(drive.run(runner, "Go.", thread_id="t"))
    assert [line for line in before if line in at("p/", BEFORE)] == at("p/", BEFORE)
    assert lines(drive.resume(runner, "t", APPROVED)) == at("p/", AFTER)


def test_it_may_be_a_tool(drive: Drive) -> None:
    calling = calls(call("desk", request="Look!"))
    runner = ag.Runner(chat("boss", calling, "Thanks.", tools=[ag.agent_tool(desk())]))
    list(drive.run(runner, "Go.", thread_id="t"))
    (asked,) = runner.pending("t")
    assert asked.address == "boss/desk(0)"
    after = lines(drive.resume(runner, "t", APPROVED))
    assert after[-2:] == ["boss: All done.", "boss: Thanks."]


def test_a_graph_may_ask_in_two_nodes_at_once(drive: Drive) -> None:
    builder = StateGraph(MessagesState)
    for name in ("left", "right"):

        def node(state: Any, name: str = name) -> Any:
            return {"messages": [AIMessage(f"{name} {interrupt(f'{name}?')}")]}

        builder.add_node(name, node)
        builder.add_edge(START, name)
    runner = ag.Runner(ag.graph_agent("g", builder.compile()))
    list(drive.run(runner, "Go.", thread_id="t"))
    asked = {question.value: question.id for question in runner.pending("t")}
    assert asked.keys() == {"left?", "right?"}
    with pytest.raises(ag.UnknownInterruptError, match="'g' is asked more than once, so answer by id"):
        list(drive.resume(runner, "t", {"g": 1}))
    list(drive.resume(runner, "t", {asked["right?"]: 2}))
    assert [question.value for question in runner.pending("t")] == ["left?"]
    assert sorted(lines(drive.resume(runner, "t", 1))) == ["g: left 1", "g: right 2"]


def test_an_input_may_have_more_than_messages(drive: Drive) -> None:
    class Counted(MessagesState):
        n: int

    def count(state: Any) -> Any:
        return {"messages": [AIMessage(f"{state['n']} of {len(state['messages'])}")]}

    graph = StateGraph(Counted).add_node("count", count).add_edge(START, "count").compile()
    agent = ag.graph_agent("g", graph, input=lambda ctx: {"messages": ["Hm."], **ctx.values})
    assert lines(drive.run(ag.Runner(agent), "Go.", values={"n": 3})) == ["g: 3 of 1"]


@pytest.mark.parametrize("flat", [False, True], ids=["in a box", "flat"])
def test_an_input_may_be_a_text(drive: Drive, flat: bool) -> None:
    graph = foreign(lambda messages: " | ".join(each.text for each in messages))
    agent = ag.graph_agent("g", graph, input=lambda ctx: {"messages": "Hm."}, flat=flat)
    assert [event.text for event in drive.run(ag.Runner(agent), "Go.")] == ["Hm."]


@pytest.mark.parametrize("flat", [False, True], ids=["in a box", "flat"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "g: input= returned None; return a dict, such as {'messages': ctx.messages}"),
        ({"messages": 5}, "g: input= returned messages that cannot be read (Unsupported message type"),
    ],
    ids=["no state", "no messages"],
)
def test_an_input_that_cannot_be_read_is_named(
    drive: Drive, given: Any, message: str, flat: bool
) -> None:
    agent = ag.graph_agent("g", foreign(lambda messages: "A."), input=lambda ctx: given, flat=flat)
    _, error = failing(drive.run(ag.Runner(agent), "Go."), ag.InvalidOutputError)
    assert str(error).startswith(message)


def test_a_state_that_cannot_be_saved_is_an_error_that_names_the_agent(disk: Disk) -> None:
    class Loose(MessagesState):
        thing: Any

    agent = ag.graph_agent("g", foreign(lambda seen: {"thing": object()}, state=Loose))
    with pytest.raises(ag.InvalidOutputError) as caught:
        disk.run(agent)
    assert str(caught.value).startswith("g: the input or the state of the graph cannot be saved (")
    assert str(caught.value).endswith(
        "); use plain data: texts, numbers, lists, dicts. The step can be tried again"
    )


# graphs that end by a command for an enclosing graph


def leaving(goto: Any = "bob") -> Any:
    """Return a graph that says something, and then ends by a command for the enclosing graph."""
    update = {"messages": [AIMessage("Lost.")]}
    command = Command(goto=goto, graph=Command.PARENT, update=update)
    return foreign(lambda seen: "Hi.", lambda seen: command)


@pytest.mark.parametrize("goto", ["nowhere", END, ["bob", "z"], Send("bob", {})], ids=str)
def test_such_a_command_is_an_error_wherever_it_goes(goto: Any) -> None:
    runner = ag.Runner(ag.sequential("s", [says("bob"), ag.graph_agent("ann", leaving(goto))]))
    _, raised = failing(runner.run("Go.", thread_id="t"), ag.InvalidOutputError)
    assert f"ended by Command(goto={goto!r}, graph=Command.PARENT), and nothing" in str(raised)


def invokes(ctx: ag.Context) -> str:
    return str(leaving().invoke({"messages": ["Hi."]}))


async def ainvokes(ctx: ag.Context) -> str:
    return str(await leaving().ainvoke({"messages": ["Hi."]}))


def raises(ctx: ag.Context) -> Any:
    raise ParentCommand(Command(goto="bob", graph=Command.PARENT))


def ask() -> str:
    """Ask a graph."""
    return str(leaving().invoke({"messages": ["Hi."]}))


def until_raises(agent: ag.Agent) -> ag.Agent:
    return ag.loop("l", [agent], max_iterations=2, until=raises)


WHERE: dict[str, tuple[Callable[[], ag.Agent], str]] = {
    "a branch": (
        lambda: ag.parallel("p", [ag.graph_agent("ann", leaving())], on_error="wait"),
        "p/ann",
    ),
    "a tool": (lambda: chat("c", *[calls(call("ask"))] * 2, tools=[ask]), "c"),
    "two calls": (lambda: chat("c", *[calls(call("ask"), call("ask"))] * 2, tools=[ask]), "c"),
    "a function": (lambda: ag.function_agent("f", invokes), "f"),
    "an async function": (lambda: ag.function_agent("f", ainvokes), "f"),
    "a function that raises it": (lambda: ag.function_agent("f", raises), "f"),
    "until of a leaf": (lambda: until_raises(says("a")), "l[0]/a"),
    "until of a parallel": (lambda: until_raises(ag.parallel("a", [says("b")])), "l[0]/a"),
}


@pytest.mark.parametrize("where", WHERE)
def test_such_a_command_is_an_error_in(drive: Drive, where: str) -> None:
    make, address = WHERE[where]
    runner = ag.Runner(make())
    events, _ = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
    assert events[-1].address == address
    failing(drive.resume(runner, "t"), ag.InvalidOutputError)
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    assert state.values["messages"][0].text == "Go."


@tool
def transfer_to_bob(tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
    """Hand over to bob."""
    done = ToolMessage("Transferred.", tool_call_id=tool_call_id)
    return Command(goto="bob", graph=Command.PARENT, update={"messages": [done]})


def swarm() -> Any:
    """Return a graph of an agent that hands over to another node of this graph."""
    ann = create_agent(scripted(calls(call("transfer_to_bob"))), [transfer_to_bob])
    builder = StateGraph(MessagesState).add_node("ann", ann, destinations=("bob",))
    builder.add_node("bob", lambda state: {"messages": [AIMessage("I am Bob.")]})
    return builder.add_edge(START, "ann").compile()


def nested() -> Any:
    """Return a graph around one that ends by such a command."""
    return StateGraph(MessagesState).add_node("m", leaving()).add_edge(START, "m").compile()


@pytest.mark.parametrize(("make", "said"), [(swarm, "I am Bob."), (nested, "Lost.")])
def test_a_command_that_stays_inside_the_graph_is_its_own_matter(
    drive: Drive, make: Callable[[], Any], said: str
) -> None:
    tree = ag.sequential("s", [ag.graph_agent("g", make()), says("z")])
    assert lines(drive.run(ag.Runner(tree), "Go."))[-2:] == [f"s/g: {said}", "s/z: z"]

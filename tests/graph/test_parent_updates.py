"""Commands to the parent graph without a target, and graph agents that leave for a node outside."""

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from helpers import (
    Async,
    Disk,
    Drive,
    asks,
    chat,
    echo,
    foreign,
    lines,
    middleware,
    passes,
    says,
    scripted,
    texts,
)
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send
from langgraph_swarm import create_handoff_tool
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@tool
def note(runtime: ToolRuntime) -> Command[Any]:
    """Note something for the agents around."""
    told = ToolMessage("Noted.", tool_call_id=runtime.tool_call_id)
    return Command(graph=Command.PARENT, update={"noted": ["yes"], "messages": [told]})


def model() -> Any:
    return scripted(calls(call("note")), "Thanks.")


def node(messages: Any) -> Command[Any]:
    update = {"noted": ["yes"], "messages": [AIMessage("Noted.")]}
    return Command(graph=Command.PARENT, update=update)


AGENTS: dict[str, tuple[Callable[[], ag.Agent], list[str]]] = {
    "chat": (lambda: ag.chat_agent("desk", model(), tools=[note]), ["", "Noted.", "Thanks."]),
    "middleware": (
        lambda: ag.chat_agent(
            "desk", model(), tools=[note], middleware=[middleware(wrap_tool_call=passes)]
        ),
        ["", "Noted.", "Thanks."],
    ),
    "nested": (lambda: ag.graph_agent("desk", create_agent(model(), [note])), ["", "Noted."]),
    "flat": (lambda: ag.graph_agent("desk", create_agent(model(), [note]), flat=True), ["", "Noted."]),
    "nested node": (
        lambda: ag.graph_agent("desk", foreign(lambda m: "One.", node, lambda m: "Never.")),
        ["One.", "Noted."],
    ),
    "flat node": (
        lambda: ag.graph_agent("desk", foreign(lambda m: "One.", node, lambda m: "Never."), flat=True),
        ["One.", "Noted."],
    ),
}
agents = pytest.mark.parametrize(("make", "said"), AGENTS.values(), ids=AGENTS)


def after(name: str = "after") -> ag.Agent:
    return ag.function_agent(name, lambda ctx: f"noted: {ctx.values.get('noted')}")


@agents
def test_it_updates_the_run_which_goes_on(
    disk: Disk, make: Callable[[], ag.Agent], said: list[str]
) -> None:
    tree = ag.sequential("s", [make(), after()])
    events = disk.run(tree)
    assert [each.text for each in events if each.kind == "message"] == [*said, "noted: ['yes']"]
    assert [each.action.values for each in events if each.kind == "values"] == [{"noted": ["yes"]}]  # type: ignore[union-attr]
    assert disk.events(tree) == disk.heard


class Values(TypedDict, total=False):
    noted: Annotated[list[str], operator.add]


@agents
@pytest.mark.parametrize("where", ["branch", "item", "tool", "loop"])
def test_it_does_so_in_any_lane(
    drive: Drive, make: Callable[[], ag.Agent], said: list[str], where: str
) -> None:
    inner: ag.Agent = {
        "branch": lambda: ag.parallel("p", [make(), says("beside")]),
        "item": lambda: ag.each("e", make(), lambda ctx: [1]),
        "tool": lambda: chat(
            "boss", calls(call("desk", request="x")), "Good.", tools=[ag.agent_tool(make())]
        ),
        "loop": lambda: ag.loop("l", [make()], max_iterations=1),
    }[where]()
    runner = ag.Runner(ag.sequential("s", [inner, after()]), values=Values)
    assert list(drive.run(runner, "Go."))[-1].text == "noted: ['yes']"


BESIDE: dict[str, Callable[[Any, list[Any]], ag.Agent]] = {
    "chat": lambda model, tools: ag.chat_agent("desk", model, tools=tools),
    "nested": lambda model, tools: ag.graph_agent("desk", create_agent(model, tools)),
    "flat": lambda model, tools: ag.graph_agent("desk", create_agent(model, tools), flat=True),
}
beside = pytest.mark.parametrize("make", BESIDE.values(), ids=BESIDE)


@beside
def test_calls_beside_it_have_their_results(disk: Disk, make: Any) -> None:
    three = calls(call("echo", "1", text="a"), call("note", "2"), call("echo", "3", text="b"))
    tree = ag.sequential("s", [make(scripted(three, "Thanks."), [note, echo]), after()])
    events = disk.run(tree)
    results = [each.text for each in events if each.message and each.message.type == "tool"]
    assert sorted(results) == ["Noted.", "a", "b"]
    assert events[-1].text == "noted: ['yes']"
    assert disk.events(tree) == disk.heard


@beside
def test_calls_beside_a_handoff_have_their_results(disk: Disk, make: Any) -> None:
    three = calls(call("echo", "1", text="a"), call("transfer", "2"), call("echo", "3", text="b"))

    @tool
    def transfer() -> Command[Any]:
        """Transfer."""
        return Command(goto="bob", graph=Command.PARENT)

    bob = ag.function_agent("bob", lambda ctx: " / ".join(texts(ctx.messages)))
    tree = ag.swarm("team", [make(scripted(three), [transfer, echo]), bob])
    events = disk.run(tree)
    results = [each.text for each in events if each.message and each.message.type == "tool"]
    assert sorted(results) == ["Transferred to bob.", "a", "b"]
    assert "transfer" not in events[-1].text
    assert "No result" not in events[-1].text
    assert disk.events(tree) == disk.heard


def test_of_several_transfers_in_a_flat_graph_the_last_is_carried_out(disk: Disk) -> None:
    both = calls(call("transfer_to_bob", "1"), call("transfer_to_carl", "2"), call("note", "3"))
    tools = [note, *(create_handoff_tool(agent_name=name) for name in ("bob", "carl"))]
    first = ag.graph_agent("ann", create_agent(scripted(both), tools), flat=True)
    tree = ag.swarm("team", [first, says("bob"), after("carl")])
    events = disk.run(tree)
    assert lines(events)[-1] == "team[1]/carl: noted: ['yes']"
    passed = "Not carried out: of several transfers in one message only the last one is."
    assert passed in [each.text for each in events]
    assert disk.events(tree) == disk.heard


def test_without_messages_the_call_has_a_result(drive: Drive) -> None:
    @tool
    def silent() -> Command[Any]:
        """Note."""
        return Command(graph=Command.PARENT, update={"values": {"a": 1}, "noted": "yes"})

    tree = ag.sequential("s", [chat("desk", calls(call("silent")), "Thanks.", tools=[silent]), after()])
    runner = ag.Runner(tree)
    events = lines(drive.run(runner, "Go.", thread_id="t"))
    assert events == [
        "s/desk: [calls] silent({})",
        "s/desk: [values] a, noted",
        "s/desk: Done.",
        "s/desk: Thanks.",
        "s/after: noted: yes",
    ]
    assert runner.thread("t").values == {"a": 1, "noted": "yes"}


def test_a_graph_that_ends_so_writes_its_output_key(drive: Drive) -> None:
    for flat in (False, True):
        graph = foreign(lambda m: "One.", node)
        runner = ag.Runner(ag.graph_agent("desk", graph, output_key="out", flat=flat))
        list(drive.run(runner, "Go.", thread_id="t"))
        assert runner.thread("t").values == {"noted": ["yes"], "out": "Noted."}


def goes(goto: Any, **update: Any) -> Any:
    """Return a graph whose last node goes to a node of the graph around it."""
    told = {"messages": [("ai", "Over.")], **update}
    return foreign(lambda m: "One.", lambda m: Command(goto=goto, graph=Command.PARENT, update=told))


class State(MessagesState):
    values: dict[str, Any]
    ticket: str


def outer(tree: ag.Agent, saver: Any = None) -> Any:
    """Return a graph in which a tree is a node, and another node says what it gets."""

    def desk(state: Any) -> Any:
        seen = f"{state.get('ticket')}, {len(state['messages'])} messages"
        return {"messages": [AIMessage(f"Desk: {seen}")]}

    builder = StateGraph(State)
    builder.add_node("tree", ag.compile_agent(tree))
    builder.add_node("desk", desk)
    builder.add_edge(START, "tree")
    return builder.compile(checkpointer=saver)


def invoked(drive: Drive, graph: Any, given: Any, config: Any = CONFIG) -> list[str]:
    """Return the messages of a graph after a run."""
    if drive is Async:
        return texts(asyncio.run(graph.ainvoke(given, config))["messages"])
    return texts(graph.invoke(given, config)["messages"])


class Listening(BaseCallbackHandler):
    """A handler, for which LangGraph runs its own writers."""


LEAVING = {
    "nested": lambda goto, **update: ag.graph_agent("ann", goes(goto, **update)),
    "flat": lambda goto, **update: ag.graph_agent("ann", goes(goto, **update), flat=True),
}
leaving = pytest.mark.parametrize("make", LEAVING.values(), ids=LEAVING)


@leaving
@pytest.mark.parametrize("config", [CONFIG, {**CONFIG, "callbacks": [Listening()]}], ids=["", "traced"])
@pytest.mark.parametrize("around", ["alone", "sequence"])
def test_a_graph_agent_leaves_for_a_node_of_the_users_graph(
    drive: Drive, make: Any, config: Any, around: str
) -> None:
    tree = make("desk", ticket="7")
    if around == "sequence":
        tree = ag.loop("l", [ag.sequential("s", [tree, says("never")])], max_iterations=2)
    graph = outer(tree, InMemorySaver())
    said = ["human: Go.", "ai: One.", "ai: Over.", "ai: Desk: 7, 3 messages"]
    assert invoked(drive, graph, {"messages": ["Go."]}, config) == said
    assert len(invoked(drive, graph, {"messages": ["Go."]}, config)) == 8


@leaving
def test_it_may_send_a_state_there(drive: Drive, make: Any) -> None:
    goto = [Send("desk", {"messages": ["x"], "ticket": "9"})]
    assert invoked(drive, outer(make(goto)), {"messages": ["Go."]})[-1] == "ai: Desk: 9, 1 messages"


def test_a_tool_sends_a_state_there_too(drive: Drive) -> None:
    @tool
    def leave() -> Command[Any]:
        """Leave."""
        goto = Send("desk", {"messages": ["x"], "ticket": "9"})
        return Command(goto=goto, graph=Command.PARENT, update={"ticket": "1"})

    tree = chat("ann", calls(call("leave")), tools=[leave])
    graph = outer(tree, InMemorySaver())
    assert invoked(drive, graph, {"messages": ["Go."]})[-1] == "ai: Desk: 9, 1 messages"
    assert graph.get_state(CONFIG).values["ticket"] == "1"


@leaving
def test_an_agent_of_that_name_in_the_tree_comes_first(drive: Drive, make: Any) -> None:
    tree = ag.swarm("team", [make("desk"), says("desk", "Inside.")])
    assert invoked(drive, outer(tree), {"messages": ["Go."]})[-1] == "ai: Inside."


@leaving
def test_after_a_question_it_leaves_too(drive: Drive, make: Any) -> None:
    graph = outer(ag.sequential("s", [asks("boss"), make("desk")]), InMemorySaver())
    invoked(drive, graph, {"messages": ["Go."]})
    said = invoked(drive, graph, Command(resume="Yes."))
    assert said[-3:] == ["ai: One.", "ai: Over.", "ai: Desk: None, 4 messages"]


@leaving
@pytest.mark.parametrize("where", ["branch", "item", "alone"])
def test_where_it_cannot_leave_it_is_an_error_that_names_the_target(
    drive: Drive, make: Any, where: str
) -> None:
    tree = {
        "branch": lambda: ag.parallel("p", [make("desk")]),
        "item": lambda: ag.each("e", make("desk"), lambda ctx: [1]),
        "alone": lambda: make("desk"),
    }[where]()
    graph = ag.compile_agent(tree) if where == "alone" else outer(tree)
    with pytest.raises(ag.InvalidOutputError, match=r"ended by Command\(goto='desk', graph"):
        invoked(drive, graph, {"messages": ["Go."]})

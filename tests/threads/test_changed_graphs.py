"""Graphs of LangGraph that change while a thread waits inside them: refused, unless they can go on."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers import Disk, fresh, says
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from agentgraph.tree.changes import obstacles
from agentgraph.tree.layout import lay_out

PAID: list[str] = []
FAILS: list[str] = []


def pay(state: Any) -> Any:
    PAID.append("paid")
    return {"messages": [AIMessage("Paid.")]}


def ask(state: Any) -> Any:
    if FAILS:
        raise ValueError(FAILS.pop())
    return {"messages": [AIMessage(f"Answer: {interrupt('Send it?')}")]}


def more(state: Any) -> Any:
    return {"messages": [AIMessage("More.")]}


NODES = {"pay": pay, "ask": ask, "more": more, "other": ask}


def graph(*names: str, **options: Any) -> Any:
    builder = StateGraph(MessagesState)
    for last, name in zip((START, *names), names, strict=False):
        builder.add_node(name, NODES[name]).add_edge(last, name)
    return builder.compile(**options)


def around(*names: str) -> Any:
    builder = StateGraph(MessagesState).add_node("inner", graph(*names))
    return builder.add_edge(START, "inner").compile()


def desk(given: Any, **options: Any) -> ag.Agent:
    return ag.graph_agent("desk", given, **options)


DESKS: dict[str, Callable[[], ag.Agent]] = {
    "nested": lambda: desk(graph("pay", "ask")),
    "flat": lambda: desk(graph("pay", "ask"), flat=True),
    "kept": lambda: desk(graph("pay", "ask", checkpointer=True)),
    "unsaved": lambda: desk(graph("pay", "ask", checkpointer=False)),
    "another graph": lambda: desk(graph("more", "other")),
    "without a node that ran": lambda: desk(graph("ask")),
    "longer": lambda: desk(graph("pay", "ask", "more")),
    "flat and longer": lambda: desk(graph("pay", "ask", "more"), flat=True),
    "flat around a graph": lambda: desk(around("pay", "ask"), flat=True),
    "flat around another": lambda: desk(around("more", "other"), flat=True),
    "flat around a longer one": lambda: desk(around("pay", "ask", "more"), flat=True),
}


def branch(agent: ag.Agent) -> ag.Agent:
    return ag.sequential("q", [says("before"), agent])


def running(agent: ag.Agent) -> ag.Agent:
    return ag.function_agent("f", lambda ctx: str(ctx.run("desk", "Go.")), agents=[agent])


def calling(agent: ag.Agent) -> ag.Agent:
    def respond(messages: Any) -> Any:
        return "Done." if messages[-1].type == "tool" else calls(call("desk", request="Go."))

    model = ScriptedChatModel(responses=respond)
    return ag.chat_agent("c", model, tools=[ag.agent_tool(agent)])


PLACES: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "a lane": lambda a: ag.sequential("s", [a]),
    "a branch": lambda a: ag.parallel("p", [a, says("z")]),
    "in a branch": lambda a: ag.parallel("p", [branch(a), says("z")]),
    "an item": lambda a: ag.each("e", a, lambda ctx: [1]),
    "a loop": lambda a: ag.sequential("s", [ag.loop("l", [a], max_iterations=1)]),
    "a tool": calling,
    "a run": running,
    "a step": lambda a: ag.workflow("w", [ag.step(a)]),
}
REFUSED = [
    ("nested", "flat", "graph desk is .*graph desk (nodes pay, ask) now"),
    ("flat", "nested", "graph desk (nodes pay, ask) is .*graph desk now"),
    ("nested", "another graph", "node ask is gone from the graph of .*graph desk"),
    ("nested", "without a node that ran", "node pay is gone from the graph of .*graph desk"),
    ("nested", "kept", "graph desk saves its state by checkpointer=True now"),
    ("kept", "nested", "graph desk saves its state by checkpointer=None now"),
    ("kept", "flat", "graph desk is .*graph desk (nodes pay, ask) now"),
    ("nested", "unsaved", "graph desk saves its state by checkpointer=False now"),
    ("flat around a graph", "flat around another", "node ask is gone from the graph of .*graph desk"),
]
ACCEPTED = [
    ("nested", "longer"),
    ("flat", "flat and longer"),
    ("flat around a graph", "flat around a longer one"),
]


def words(message: str) -> str:
    return message.replace("(", r"\(").replace(")", r"\)")


@pytest.mark.by_turns("place")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("was", "now", "message"), REFUSED, ids=[f"{a} to {b}" for a, b, _ in REFUSED])
def test_a_graph_that_waits_inside_is_refused_where_it_cannot_go_on(
    disk: Disk, place: str, was: str, now: str, message: str
) -> None:
    PAID.clear()
    disk.run(PLACES[place](DESKS[was]()))
    with pytest.raises(ag.TreeChangedError, match=words(message)):
        disk.resume(PLACES[place](DESKS[now]()), "yes")
    again = [each.text for each in disk.resume(PLACES[place](DESKS[was]()), "yes")]
    assert any("Answer: yes" in text for text in again)
    assert PAID == ["paid"]


@pytest.mark.by_turns("place")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("was", "now"), ACCEPTED, ids=[f"{a} to {b}" for a, b in ACCEPTED])
def test_a_graph_that_is_longer_goes_on_where_it_waited(
    disk: Disk, place: str, was: str, now: str
) -> None:
    PAID.clear()
    disk.run(PLACES[place](DESKS[was]()))
    texts = [each.text for each in disk.resume(PLACES[place](DESKS[now]()), "yes")]
    assert any("More." in text for text in texts)
    assert PAID == ["paid"]


@pytest.mark.parametrize(
    ("was", "now", "message"), REFUSED[:-1], ids=[f"{a}, {b}" for a, b, _ in REFUSED[:-1]]
)
def test_a_graph_that_failed_inside_is_refused_too(
    disk: Disk, was: str, now: str, message: str
) -> None:
    PAID.clear()
    FAILS.append("no")
    tree = PLACES["in a branch"]
    disk.fail(tree(DESKS[was]()), "run", ValueError)
    if was != "flat":  # of which the node that failed can be any
        with pytest.raises(ag.TreeChangedError, match=words(message)):
            disk.resume(tree(DESKS[now]()))
    disk.resume(tree(DESKS[was]()))
    assert PAID == ["paid"]


@pytest.mark.parametrize("now", ["flat", "another graph", "kept", "nested"])
@pytest.mark.parametrize("was", ["nested", "kept"])
def test_what_runs_again_whole_and_what_is_left_behind_may_be_another_graph(
    disk: Disk, was: str, now: str
) -> None:
    def tree(name: str) -> ag.Agent:
        return ag.sequential("s", [says("a"), DESKS[name](), ag.human("boss", "Well?"), says("z")])

    disk.run(tree(was))
    back = fresh(disk.drive, disk.path, tree(now), "rewind", "t", "s/desk")
    assert back[-1].kind == "interrupted"
    disk.resume(tree(now), "yes")
    assert disk.resume(tree(now), "Fine.")[-1].text == "z"

    fresh(disk.drive, disk.path, tree(was), "run", "Go.", thread_id="u")
    assert len(fresh(disk.drive, disk.path, tree(was), "resume", "u", "yes")) > 1
    assert fresh(disk.drive, disk.path, tree(now), "resume", "u", "Fine.")[-1].text == "z"
    assert fresh(disk.drive, disk.path, tree(now), "rewind", "u", "s/z")[-1].text == "z"


def test_a_rewind_into_a_graph_that_is_not_flat_any_more_is_refused(disk: Disk) -> None:
    tree = PLACES["a lane"]
    disk.run(tree(DESKS["flat"]()))
    with pytest.raises(ag.UnknownAddressError):
        fresh(disk.drive, disk.path, tree(DESKS["nested"]()), "rewind", "t", "s/desk/ask")


def test_an_outline_of_an_older_version_says_nothing_of_inner_graphs() -> None:
    was, flat, longer, other = (
        lay_out(PLACES["a lane"](DESKS[name]())).outline
        for name in ("nested", "flat", "longer", "another graph")
    )
    for each in was["inside"]:
        del each["graphs"]
    here, graphs = ["desk"], {"desk": {"pay", "ask"}}
    assert obstacles(was, longer, here, here, graphs) == []
    assert obstacles(was, flat, here, here, graphs) == ["graph desk is graph desk (nodes pay, ask) now"]
    assert obstacles(was, other, here, here, graphs) == [
        "node ask is gone from the graph of graph desk",
        "node pay is gone from the graph of graph desk",
    ]

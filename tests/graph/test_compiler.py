"""The shape of compiled graphs: which nodes and edges they have, and what they take and give."""

from collections.abc import Iterator
from typing import Any

import pytest
from helpers import chat, foreign, in_turn, says, scripted, texts
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from langgraph_swarm import create_handoff_tool

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def does(name: str, hint: Any) -> ag.Agent:
    """Return an agent whose annotation says what it may return."""

    def fn(ctx: ag.Context) -> Any:
        return "ok"

    fn.__annotations__["return"] = hint
    return ag.function_agent(name, fn)


def edges(agent: ag.Agent, *, xray: bool = False) -> set[str]:
    graph = ag.compile_agent(agent).get_graph(xray=xray)
    return {f"{e.source} {'..' if e.conditional else '->'} {e.target}" for e in graph.edges}


def free(name: str) -> ag.Agent:
    return ag.function_agent(name, lambda ctx: "ok")


def loop(*agents: ag.Agent, most: int | None = 2, **options: Any) -> ag.Agent:
    return ag.loop("l", agents, max_iterations=most, **options)


def seq(*agents: ag.Agent) -> ag.Agent:
    return ag.sequential("s", agents)


def swarm(name: str) -> ag.Agent:
    """Return an agent of LangChain's that may hand over to the agent `boss`."""
    return ag.graph_agent(name, create_agent(scripted(), [create_handoff_tool(agent_name="boss")]))


A, B, C, D = (says(name) for name in "abcd")
BREAKS = does("b", str | ag.BreakLoop)
DRAWN: dict[str, tuple[ag.Agent, str]] = {
    "a sequence is a chain of solid edges": (seq(A, B), "__start__ -> a, a -> b, b -> __end__"),
    "a loop goes back from its last agent": (
        loop(A, B),
        "__start__ -> a, a -> b, b .. a, b .. __end__",
    ),
    "a loop of one iteration does not go back": (
        loop(A, B, most=1),
        "__start__ -> a, a -> b, b -> __end__",
    ),
    "a loop without bound ends only where its agents say so": (
        seq(loop(A, BREAKS, most=None), C),
        "__start__ -> a, a -> b, b .. a, b .. c, c -> __end__",
    ),
    "an annotation names an exit": (
        seq(does("a", str | ag.Exit), B),
        "__start__ -> a, a .. b, a .. __end__, b -> __end__",
    ),
    "an annotation names a question": (
        seq(does("a", Iterator[str | ag.Ask]), B),
        "__start__ -> a, a .. a.ask, a.ask -> a, a .. b, b -> __end__",
    ),
    "a function without annotation may do everything": (
        loop(free("a"), B),
        "__start__ -> a, a .. b, a .. __end__, a .. a.ask, a.ask -> a, b .. a, b .. __end__",
    ),
    "a break in a branch leads out of the loop after the join": (
        seq(loop(ag.parallel("p", [A, BREAKS]), C), D),
        "__start__ -> p, p .. c, p .. d, c .. p, c .. d, d -> __end__",
    ),
    "an agent in several places has a node for each": (
        seq(A, loop(A, A, most=1)),
        "__start__ -> s.a, s.a -> s.l.a, s.l.a -> s.l.a#2, s.l.a#2 -> __end__",
    ),
    "a name that Mermaid cannot read gets its path": (
        seq(says("style"), says("graph-maker")),
        "__start__ -> s.style, s.style -> s.graph-maker, s.graph-maker -> __end__",
    ),
    "a check leads back, but the way that only its failure takes is not drawn": (
        seq(ag.validated(A, lambda text: None), loop(B, until=lambda ctx: True)),
        "__start__ -> a, a .. a, a .. b, b .. b, b .. __end__",
    ),
    "the check of a plan leads on, not back to its last agent": (
        ag.plan_execute("pe", planner=says("p"), executor=says("e"), replanner=says("r")),
        "__start__ -> p, p .. p, p .. e, e -> r, r .. r, r .. e, r .. __end__",
    ),
    "a foreign agent may hand over to its parent": (
        chat("boss", sub_agents=[swarm("bob")]),
        "__start__ -> boss, boss .. boss.tools, boss .. __end__, boss.tools .. boss, "
        "boss.tools .. bob, bob .. boss, bob .. __end__",
    ),
    "a foreign agent without a parent may not": (
        seq(swarm("bob")),
        "__start__ -> bob, bob -> __end__",
    ),
}


@pytest.mark.parametrize(("tree", "expected"), DRAWN.values(), ids=DRAWN)
def test_what_can_happen_is_drawn(tree: ag.Agent, expected: str) -> None:
    assert edges(tree) == set(expected.split(", "))


BOXES: dict[str, tuple[ag.Agent, set[str]]] = {
    "branches": (
        ag.parallel("p", [A, ag.sequential("q", [B, C])]),
        {"p:__start__ -> p:a", "p:__start__ -> p:q:b", "p:q:b -> p:q:c", "p:q:c -> p:__end__"},
    ),
    "branches of a branch": (
        ag.parallel("p", [ag.parallel("q", [A, B]), C]),
        {"p:q:__start__ -> p:q:a", "p:q:b -> p:q:__end__", "p:q:__end__ -> p:__end__"},
    ),
    "a foreign graph": (
        ag.graph_agent("g", foreign(lambda seen: "Hm.", lambda seen: "So.")),
        {"g:n0 -> g:n1"},
    ),
}


@pytest.mark.parametrize(("tree", "expected"), BOXES.values(), ids=BOXES)
def test_what_a_node_runs_is_drawn_in_its_box(tree: ag.Agent, expected: set[str]) -> None:
    assert edges(tree, xray=True) >= expected
    assert edges(tree) == {f"__start__ -> {tree.name}", f"{tree.name} -> __end__"}


def find(topic: str) -> str:
    """Find something."""
    return topic


def silent(topic: str):  # type: ignore[no-untyped-def]
    """Do something."""


CHAT: list[tuple[str, dict[str, Any], str]] = [
    ("w", {}, "-> a"),
    ("w", {"tools": [{"type": "web_search"}]}, "-> a"),
    ("w", {"tools": [find]}, ".. w.tools, .. a"),
    ("w.tools", {"tools": [find]}, "-> w"),
    ("w", {"tools": [find], "approve": ["find"]}, "-> w.approve"),
    ("w.approve", {"tools": [find], "approve": ["find"]}, ".. w.tools, .. w, .. a"),
    (
        "w.approve",
        {"tools": [find], "approve": ["find"], "interrupt_mode": "per_call"},
        ".. w.tools, .. w, .. a",
    ),
    ("w.tools", {"tools": [find], "return_directly": ["find"]}, ".. w, .. a"),
    ("w.tools", {"tools": [find], "exit_tool": True}, ".. w, .. __end__"),
    ("w.tools", {"tools": [find], "break_tool": True}, ".. w, .. h"),
    ("w.tools", {"tools": [silent]}, ".. w, .. __end__, .. h"),
]


@pytest.mark.parametrize(("node", "options", "expected"), CHAT)
def test_after_a_node_of_a_chat_agent_is_drawn_what_it_may_do(
    node: str, options: dict[str, Any], expected: str
) -> None:
    """The agent is in a loop before the agent `a`; `h` follows the loop."""
    drawn = edges(seq(loop(chat("w", **options), A), ag.human("h", "?")))
    after = {edge.partition(" ")[2] for edge in drawn if edge.partition(" ")[0] == node}
    assert after == set(expected.split(", "))


def test_nodes_carry_the_names_of_their_agents() -> None:
    nodes = ag.compile_agent(seq(does("a", ag.Ask), B)).get_graph().nodes
    named = {name: node.metadata and node.metadata["agent_name"] for name, node in nodes.items()}
    assert named == {"__start__": None, "a": "a", "a.ask": "a", "b": "b", "__end__": None}


def test_a_compiled_tree_is_a_plain_graph_of_messages_and_values() -> None:
    graph = ag.compile_agent(seq(A, B))
    assert isinstance(graph, CompiledStateGraph)
    assert graph.checkpointer is None
    ended = graph.invoke({"messages": [{"role": "user", "content": "Go."}]})
    assert texts(ended["messages"]) == ["human: Go.", "ai: a", "ai: b"]
    assert set(graph.get_input_jsonschema()["properties"]) == {"messages", "values"}
    assert set(graph.get_output_jsonschema()["properties"]) == {"messages", "values"}


def test_a_compiled_tree_nests_in_another_graph() -> None:
    outer = StateGraph(MessagesState)
    outer.add_sequence([("before", lambda state: {"messages": [AIMessage("before")]})])
    outer.add_node("tree", ag.compile_agent(loop(A)))
    outer.add_edge(START, "before").add_edge("before", "tree")
    ended = outer.compile().invoke({"messages": ["Go."]})
    assert texts(ended["messages"]) == ["human: Go.", "ai: before", "ai: a", "ai: a"]


def test_the_state_of_a_branch_is_found() -> None:
    tree = ag.parallel("p", [ag.sequential("x", [A, ag.human("h", "?")]), B])
    saver = InMemorySaver()
    graph = ag.compile_agent(tree, checkpointer=saver)
    graph.invoke({"messages": ["Go."]}, CONFIG)
    saved = (each.config["configurable"]["checkpoint_ns"] for each in saver.list(CONFIG))
    (namespace,) = {each for each in saved if "|x:" in each}
    state = graph.get_state({"configurable": {"thread_id": "t", "checkpoint_ns": namespace}})
    assert state.next == ("h",)
    assert texts(state.values["messages"]) == ["ai: a"]


def test_a_second_turn_begins_anew_after_one_that_failed_in_the_middle() -> None:
    agent = ag.function_agent(
        "a", in_turn(lambda ctx: ctx.address, ValueError("no"), lambda ctx: ctx.address)
    )
    graph = ag.compile_agent(loop(agent), checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="no"):
        graph.invoke({"messages": ["One."]}, CONFIG)
    ended = graph.invoke({"messages": ["Two.", "Three."]}, CONFIG)
    assert [m.text for m in ended["messages"]] == [
        "One.",
        "l[0]/a",
        "Two.",
        "Three.",
        "l[0]/a",
        "l[1]/a",
    ]


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [([3], ["s/l[3]/a", "s/l[4]/a", "s/b"]), (None, ["s/l[0]/a", "s/l[1]/a", "s/l[2]/a", "s/l[3]/a"])],
)
def test_a_command_jumps_to_a_node_with_the_counters_it_names_or_zero(
    cursor: Any, expected: list[str]
) -> None:
    a, b = (ag.function_agent(name, lambda ctx: ctx.address) for name in "ab")
    graph = ag.compile_agent(seq(loop(a, most=5), b), checkpointer=InMemorySaver())
    said = len(graph.invoke({"messages": ["Go."]}, CONFIG)["messages"])
    position = graph.get_state(CONFIG).values["position"]
    update = {"position": {**position, "next": "a", "cursor": cursor}} if cursor else None
    ended = graph.invoke(Command(goto="a", update=update), CONFIG)
    assert [m.text for m in ended["messages"]][said:][: len(expected)] == expected


def test_an_edit_of_the_state_in_a_loop_does_not_change_the_counters() -> None:
    agents = [A, ag.function_agent("b", lambda ctx: ctx.address)]
    graph = ag.compile_agent(
        loop(*agents, most=3), checkpointer=InMemorySaver(), interrupt_before=["b"]
    )
    graph.invoke({"messages": ["Go."]}, CONFIG)
    graph.invoke(None, CONFIG)
    graph.update_state(CONFIG, {"messages": [HumanMessage("Psst.")]})
    graph.invoke(None, CONFIG)
    ended = graph.invoke(None, CONFIG)
    said = ["Go.", "a", "l[0]/b", "a", "Psst.", "l[1]/b", "a", "l[2]/b"]
    assert [m.text for m in ended["messages"]] == said


def test_a_tool_call_that_is_edited_in_the_state_runs_as_edited() -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    asked = calls(call("add", a=1, b=2))
    writer = chat("writer", asked, "One.", asked, "Two.", tools=[add])
    graph = ag.compile_agent(loop(writer), checkpointer=InMemorySaver())
    for given in ({"messages": ["Go."]}, None):
        graph.invoke(given, CONFIG, interrupt_before=["writer.tools"])
    last = graph.get_state(CONFIG).values["messages"][-1]
    edited = [{**last.tool_calls[0], "args": {"a": 40, "b": 2}}]
    graph.update_state(CONFIG, {"messages": [last.model_copy(update={"tool_calls": edited})]})
    assert graph.get_state(CONFIG).next == ("writer.tools",)
    ended = graph.invoke(None, CONFIG)["messages"]
    assert [m.text for m in ended] == ["Go.", "", "3", "One.", "", "42", "Two."]
    assert ended[-2].response_metadata["agentgraph"] == "l[1]/writer"


def test_only_the_limit_of_steps_that_a_user_passes_holds() -> None:
    graph = ag.compile_agent(loop(A, most=100))
    assert graph.config
    assert graph.config["recursion_limit"] == 1_000_000_000
    with pytest.raises(GraphRecursionError):
        graph.invoke({"messages": []}, {"recursion_limit": 10})

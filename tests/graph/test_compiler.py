"""The shape of compiled graphs: which nodes and edges they have, and what they take and give."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import add, chat, in_turn, says, scripted, texts
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from langgraph_swarm import create_handoff_tool
from test_transcripts import NAMES, cases

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}
A, B = says("a"), says("b")


def does(name: str, hint: Any) -> ag.Agent:
    """Return an agent whose annotation says what it may return."""

    def fn(ctx: ag.Context) -> Any:
        return "ok"

    fn.__annotations__["return"] = hint
    return ag.function_agent(name, fn)


def find(topic: str) -> str:
    """Find something."""
    return topic


def silent(topic: str):  # type: ignore[no-untyped-def]
    """Do something."""


def crowd(name: str) -> ag.Agent:
    """Return an agent of LangChain's that may hand over to the agent `boss`."""
    return ag.graph_agent(name, create_agent(scripted(), [create_handoff_tool(agent_name="boss")]))


def looped(agent: ag.Agent) -> ag.Agent:
    """Return an agent in a loop before the agent `a`; `h` follows the loop."""
    return seq(rounds(agent, A), ag.human("h", "?"))


def rounds(*agents: ag.Agent, most: int = 2) -> ag.Agent:
    return ag.loop("l", agents, max_iterations=most)


def seq(*agents: ag.Agent) -> ag.Agent:
    return ag.sequential("s", agents)


def drawn(tree: ag.Agent, *, xray: bool) -> str:
    """Return a line for each node, with the nodes that may follow it."""
    after: dict[str, list[str]] = {}
    for edge in ag.compile_agent(tree).get_graph(xray=xray).edges:
        way = f"{'..' if edge.conditional else '->'} {edge.target}"
        after.setdefault(edge.source, []).append(way)
    return "\n".join(sorted(f"{node} {', '.join(sorted(ways))}" for node, ways in after.items()))


CASES = [
    pytest.param(
        *step.partition("\n")[::2], case.title.endswith("(with what is inside)"), id=case.title
    )
    for case in cases(Path(__file__).with_name("drawn.txt"))
    for step in case.steps
]


@pytest.mark.parametrize(("expression", "expected", "xray"), CASES)
def test_what_can_happen_is_drawn(expression: str, expected: str, xray: bool) -> None:
    tree = eval(expression, {**NAMES, **globals(), "Iterator": Iterator})
    assert drawn(tree, xray=xray) == expected


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
    graph = ag.compile_agent(rounds(agent), checkpointer=InMemorySaver())
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
    graph = ag.compile_agent(seq(rounds(a, most=5), b), checkpointer=InMemorySaver())
    said = len(graph.invoke({"messages": ["Go."]}, CONFIG)["messages"])
    position = graph.get_state(CONFIG).values["position"]
    update = {"position": {**position, "next": "a", "cursor": cursor}} if cursor else None
    ended = graph.invoke(Command(goto="a", update=update), CONFIG)
    assert [m.text for m in ended["messages"]][said:][: len(expected)] == expected


def test_an_edit_of_the_state_in_a_loop_does_not_change_the_counters() -> None:
    agents = [A, ag.function_agent("b", lambda ctx: ctx.address)]
    graph = ag.compile_agent(
        rounds(*agents, most=3), checkpointer=InMemorySaver(), interrupt_before=["b"]
    )
    graph.invoke({"messages": ["Go."]}, CONFIG)
    graph.invoke(None, CONFIG)
    graph.update_state(CONFIG, {"messages": [HumanMessage("Psst.")]})
    graph.invoke(None, CONFIG)
    ended = graph.invoke(None, CONFIG)
    said = ["Go.", "a", "l[0]/b", "a", "Psst.", "l[1]/b", "a", "l[2]/b"]
    assert [m.text for m in ended["messages"]] == said


def test_a_tool_call_that_is_edited_in_the_state_runs_as_edited() -> None:
    asked = calls(call("add", a=1, b=2))
    writer = chat("writer", asked, "One.", asked, "Two.", tools=[add])
    graph = ag.compile_agent(rounds(writer), checkpointer=InMemorySaver())
    for given in ({"messages": ["Go."]}, None):
        graph.invoke(given, CONFIG, interrupt_before=["writer.tools"])
    last = graph.get_state(CONFIG).values["messages"][-1]
    edited = [{**last.tool_calls[0], "args": {"a": 40, "b": 2}}]
    graph.update_state(CONFIG, {"messages": [last.model_copy(update={"tool_calls": edited})]})
    assert graph.get_state(CONFIG).next == ("writer.tools",)
    ended = graph.invoke(None, CONFIG)["messages"]
    assert [m.text for m in ended] == ["Go.", "", "3", "One.", "", "42", "Two."]
    assert ended[-2].response_metadata["agentgraph"][0] == "l[1]/writer"


def test_only_the_limit_of_steps_that_a_user_passes_holds() -> None:
    graph = ag.compile_agent(rounds(A, most=100))
    assert graph.config
    assert graph.config["recursion_limit"] == 1_000_000_000
    with pytest.raises(GraphRecursionError):
        graph.invoke({"messages": []}, {"recursion_limit": 10})


def test_a_thread_on_which_nothing_ran_cannot_be_edited_as_a_node() -> None:
    graph: Any = ag.compile_agent(ag.loop("l", [A, B], max_iterations=2), checkpointer=InMemorySaver())
    with pytest.raises(
        ag.AgentGraphError, match="nothing has run on this thread yet; call update_state"
    ):
        graph.update_state(CONFIG, {"messages": ["Go."]}, as_node="b")
    graph.update_state(CONFIG, {"messages": ["Go."]})

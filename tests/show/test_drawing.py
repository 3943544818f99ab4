"""Graphs drawn as Mermaid text, and displayed in Jupyter without a network."""

import copy
import socket
import sys
from typing import Any
from xml.etree import ElementTree

import pytest
from helpers import chat, says, scripted
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langgraph.graph import END, START, MessagesState, StateGraph
from walking import par, rounds, seq

import agentgraph as ag
from agentgraph.show.drawing import mermaid


def note() -> str:
    """Notes."""
    return "Noted."


def report() -> ag.Agent:
    body = rounds(3, "refine", chat("write"), says("critique"))
    review = par("review", seq("facts", says("find"), says("count")), says("style"))
    return seq("report", body, review, ag.human("approve", "Print it?"))


REPORT = """\
graph TD
    __start__(("start"))
    write("write")
    critique("critique")
    approve("approve")
    __end__((("end")))
    subgraph review["review"]
        direction TB
        review.report.review.style("style")
        subgraph review.facts["facts"]
            direction TB
            review.facts.find("find")
            review.facts.count("count")
        end
    end
    __start__ --> write
    critique -.-> review
    critique -.-> write
    review --> approve
    write --> critique
    approve --> __end__
    review.facts.find --> review.facts.count
    classDef default fill:#f2f0ff,stroke:#9370db,color:#1f1f1f
"""


def test_a_tree_is_drawn_with_a_node_for_each_agent_that_runs_and_a_box_around_lanes() -> None:
    assert mermaid(ag.compile_agent(report())) == REPORT


def drawn(agent: ag.Agent, *, xray: bool = True) -> list[str]:
    return [line.strip() for line in mermaid(ag.compile_agent(agent), xray=xray).splitlines()]


def desk() -> ag.Agent:
    """Return a chat agent with tools, an agent as a tool, and agents to transfer to."""
    research = seq("research", says("find"), chat("count", tools=[note]))
    loop = rounds(2, "rounds", says("ask"))
    return chat("desk", tools=[ag.agent_tool(research), note], sub_agents=[chat("bills"), loop])


HOTEL = ag.step(says("hotel"), compensate=says("cancel"))
CHECKED = ag.validated(says("letter"), lambda text: None)
# A tree, whether what is inside its nodes is drawn, and its edges.
EDGES: dict[str, tuple[ag.Agent, bool, str]] = {
    "without xray a fork is one node": (
        report(),
        False,
        "__start__ --> write, write --> critique, critique -.-> write, critique -.-> review, "
        "review --> approve, approve --> __end__",
    ),
    "a loop of a parallel goes round its box": (
        rounds(2, "again", par("both", says("a"), says("b"))),
        True,
        "__start__ --> both, both -.-> both, both -.-> __end__",
    ),
    "steps come after those that they depend on, and undoing is dotted": (
        ag.workflow("trip", [HOTEL, ag.step(says("flight"), depends_on=["hotel"])]),
        True,
        "__start__ --> trip, trip.hotel --> trip.flight, trip.hotel -.-> trip.cancel, trip --> __end__",
    ),
    "transfers are edges from the tools of an agent": (
        desk(),
        False,
        "__start__ --> desk, desk -.-> desk.tools, desk -.-> __end__, desk.tools -.-> desk, "
        "desk.tools -.-> bills, desk.tools -.-> ask, bills -.-> bills.tools, bills -.-> __end__, "
        "bills.tools -.-> bills, bills.tools -.-> desk, ask -.-> ask, ask -.-> __end__",
    ),
    "a lane of one agent that may run again has its edge back": (
        par("both", CHECKED, rounds(2, "again", says("try"))),
        True,
        "__start__ --> both, both --> __end__, both.letter.letter -.-> both.letter.letter, "
        "both.again.try -.-> both.again.try",
    ),
}


@pytest.mark.parametrize(("agent", "xray", "edges"), EDGES.values(), ids=EDGES)
def test_the_edges_that_are_drawn(agent: ag.Agent, xray: bool, edges: str) -> None:
    found = {line for line in drawn(agent, xray=xray) if " --> " in line or " -.-> " in line}
    assert found == set(edges.split(", "))


def test_a_box_that_a_loop_leads_back_to_is_anchored_to_the_node_before_it() -> None:
    found = drawn(rounds(2, "again", says("first"), par("both", says("a"), says("b"))))
    assert [line for line in found if "~~~" in line or "direction" in line] == ["first ~~~ both.a"]


def test_an_agent_as_a_tool_is_drawn_in_the_box_of_the_tools() -> None:
    assert {
        'subgraph desk.tools["desk.tools"]',
        'subgraph desk.tools.research["research"]',
        'desk.tools.desk.call("desk.call")',
    } <= set(drawn(desk()))


def test_a_langgraph_graph_is_drawn_inside_its_agent() -> None:
    graph = create_agent(scripted(), tools=[note])
    assert {
        'subgraph helper["helper"]',
        *["helper.model -.-> helper.tools", "helper --> close"],
    } <= set(drawn(seq("all", ag.graph_agent("helper", graph), says("close"))))


def test_a_tree_inside_another_graph_is_drawn_without_the_node_that_begins_its_turns() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("inner", ag.compile_agent(seq("pair", says("a"), says("b"))))
    text = mermaid(builder.add_edge(START, "inner").add_edge("inner", END).compile())
    lines = {"    __start__ --> inner", "    inner.a --> inner.b", "    inner --> __end__"}
    assert lines <= {*text.splitlines()}


def test_an_agent_in_two_places_is_drawn_twice_under_its_own_name() -> None:
    style = says("style")
    twice = seq("all", style, rounds(1, "rest", says("other"), style))
    nodes = [line for line in drawn(twice) if line.endswith('("style")')]
    assert nodes == ['all.style("style")', 'all.rest.style("style")']


def test_the_hook_of_a_middleware_is_drawn_under_the_name_of_its_agent() -> None:
    limit = ModelCallLimitMiddleware(run_limit=3)
    found = drawn(seq("team", *(chat(name, middleware=[limit]) for name in ("ann", "bob"))))
    hooks = [f"{name}.ModelCallLimitMiddleware.before_model" for name in ("ann", "bob")]
    assert {f'{hook}("{hook}")' for hook in hooks} <= set(found)


@pytest.mark.parametrize("name", ["end", "style", "class", "v1.2", "a b", "größe", "--", 'say "hi"'])
def test_nodes_of_any_name_are_written_so_that_mermaid_reads_them(name: str) -> None:
    builder = StateGraph(MessagesState).add_node(name, lambda state: state).add_edge(START, name)
    key, _, label = mermaid(builder.compile()).splitlines()[2].strip().partition("(")
    assert key.replace(".", "").replace("_", "").isalnum()
    assert key not in ("end", "style", "class")
    assert label == f'"{name.replace(chr(34), "#34;")}")'


# in Jupyter


def bundle(shown: Any) -> dict[str, str]:
    """Return what Jupyter is given; a connection would fail the test."""
    made: dict[str, str] = shown._repr_mimebundle_(include=None, exclude=None)
    return made


SMALL = seq("small", says("find"), par("review", says("style")))


def test_jupyter_displays_a_tree_its_graph_and_an_svg_that_links_to_nothing() -> None:
    shown = bundle(SMALL)
    assert list(shown) == ["text/plain", "text/vnd.mermaid", "image/svg+xml"]
    assert shown["text/plain"].splitlines()[:2] == ["small (sequential)", "├─ find (function)"]
    assert shown["text/vnd.mermaid"] == mermaid(ag.compile_agent(SMALL))
    svg = ElementTree.fromstring(shown["image/svg+xml"])
    texts = {"".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {"start", "find", "review", "style", "end"} <= texts
    assert [value for each in svg.iter() for key, value in each.items() if key.endswith("href")] == []


def test_without_an_offline_renderer_there_is_the_mermaid_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mermaidx", None)
    assert list(bundle(says("alone"))) == ["text/plain", "text/vnd.mermaid"]


def test_a_drawing_of_more_than_50_lines_is_made_as_text_only() -> None:
    shown = bundle(seq("all", *(says(f"a{i}") for i in range(23))))
    assert list(shown) == ["text/plain", "text/vnd.mermaid"]
    assert len(shown["text/vnd.mermaid"].splitlines()) == 51


def test_jupyter_displays_the_faults_of_a_tree() -> None:
    wrong = seq("all", rounds(2, "l"), says("end"))
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(wrong)
    assert bundle(wrong) == {"text/plain": str(caught.value)}


def test_a_compiled_graph_draws_itself_in_jupyter_and_is_sent_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **_: tried.append(args))
    graph = ag.compile_agent(SMALL)
    for shown in (graph, graph.with_config(tags=["a"]), copy.copy(graph)):
        assert bundle(shown)["text/vnd.mermaid"] == mermaid(graph)
    assert tried == []

"""Graphs drawn as Mermaid text, and displayed in Jupyter without a network."""

import copy
import socket
import sys
from typing import Any
from xml.etree import ElementTree

import pytest
from helpers import says
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langgraph.graph import END, START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.show.drawing import mermaid
from agentgraph.testing import ScriptedChatModel


def chat(name: str, **options: Any) -> ag.Agent:
    return ag.chat_agent(name, ScriptedChatModel(responses=[]), **options)


def note() -> str:
    """Notes."""
    return "Noted."


def report() -> ag.Agent:
    body = ag.loop("refine", [chat("write"), says("critique")], max_iterations=3)
    branches = [ag.sequential("facts", [says("find"), says("count")]), says("style")]
    review = ag.parallel("review", branches)
    return ag.sequential("report", [body, review, ag.human("approve", "Print it?")])


def drawn(agent: ag.Agent, *, xray: bool = True) -> list[str]:
    return [line.strip() for line in mermaid(ag.compile_agent(agent), xray=xray).splitlines()]


def edges(agent: ag.Agent, *, xray: bool = True) -> set[str]:
    return {line for line in drawn(agent, xray=xray) if " --> " in line or " -.-> " in line}


def test_a_tree_is_drawn_with_a_node_for_each_agent_that_runs_and_a_box_around_lanes() -> None:
    assert mermaid(ag.compile_agent(report())) == (
        "graph TD\n"
        '    __start__(("start"))\n'
        '    write("write")\n'
        '    critique("critique")\n'
        '    approve("approve")\n'
        '    __end__((("end")))\n'
        '    subgraph review["review"]\n'
        "        direction TB\n"
        '        review.report.review.style("style")\n'
        '        subgraph review.facts["facts"]\n'
        "            direction TB\n"
        '            review.facts.find("find")\n'
        '            review.facts.count("count")\n'
        "        end\n"
        "    end\n"
        "    __start__ --> write\n"
        "    critique -.-> review\n"
        "    critique -.-> write\n"
        "    review --> approve\n"
        "    write --> critique\n"
        "    approve --> __end__\n"
        "    review.facts.find --> review.facts.count\n"
        "    classDef default fill:#f2f0ff,stroke:#9370db,color:#1f1f1f\n"
    )


def test_without_xray_a_fork_is_one_node() -> None:
    assert edges(report(), xray=False) == {
        "__start__ --> write",
        "write --> critique",
        "critique -.-> write",
        "critique -.-> review",
        "review --> approve",
        "approve --> __end__",
    }


def test_a_loop_of_a_parallel_goes_round_its_box() -> None:
    both = ag.parallel("both", [says("a"), says("b")])
    assert edges(ag.loop("again", [both], max_iterations=2)) == {
        "__start__ --> both",
        "both -.-> both",
        "both -.-> __end__",
    }


def test_a_box_that_a_loop_leads_back_to_is_anchored_to_the_node_before_it() -> None:
    both = ag.parallel("both", [says("a"), says("b")])
    lines = drawn(ag.loop("again", [says("first"), both], max_iterations=2))
    assert [line for line in lines if "~~~" in line or "direction" in line] == ["first ~~~ both.a"]


def test_steps_are_drawn_after_those_that_they_depend_on_and_undoing_is_dotted() -> None:
    hotel = ag.step(says("hotel"), compensate=says("cancel"))
    flight = ag.step(says("flight"), depends_on=["hotel"])
    assert edges(ag.workflow("trip", [hotel, flight])) == {
        "__start__ --> trip",
        "trip.hotel --> trip.flight",
        "trip.hotel -.-> trip.cancel",
        "trip --> __end__",
    }


def desk() -> ag.Agent:
    """Return a chat agent with tools, an agent as a tool, and agents to transfer to."""
    research = ag.sequential("research", [says("find"), chat("count", tools=[note])])
    rounds = ag.loop("rounds", [says("ask")], max_iterations=2)
    return chat("desk", tools=[ag.agent_tool(research), note], sub_agents=[chat("bills"), rounds])


def test_transfers_are_drawn_as_edges_from_the_tools_of_an_agent() -> None:
    assert edges(desk(), xray=False) == {
        "__start__ --> desk",
        "desk -.-> desk.tools",
        "desk -.-> __end__",
        "desk.tools -.-> desk",
        "desk.tools -.-> bills",
        "desk.tools -.-> ask",
        "bills -.-> bills.tools",
        "bills -.-> __end__",
        "bills.tools -.-> bills",
        "bills.tools -.-> desk",
        "ask -.-> ask",
        "ask -.-> __end__",
    }


def test_an_agent_as_a_tool_is_drawn_in_the_box_of_the_tools() -> None:
    lines = drawn(desk())
    assert 'subgraph desk.tools["desk.tools"]' in lines
    assert 'subgraph desk.tools.research["research"]' in lines
    assert 'desk.tools.desk.call("desk.call")' in lines


def test_a_langgraph_graph_is_drawn_inside_its_agent() -> None:
    graph = create_agent(ScriptedChatModel(responses=[]), tools=[note])
    lines = drawn(ag.sequential("all", [ag.graph_agent("helper", graph), says("close")]))
    assert 'subgraph helper["helper"]' in lines
    assert {"helper.model -.-> helper.tools", "helper --> close"} <= set(lines)


def test_a_tree_inside_another_graph_is_drawn_without_the_node_that_begins_its_turns() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("inner", ag.compile_agent(ag.sequential("pair", [says("a"), says("b")])))
    builder.add_edge(START, "inner")
    builder.add_edge("inner", END)
    text = mermaid(builder.compile())
    lines = {"    __start__ --> inner", "    inner.a --> inner.b", "    inner --> __end__"}
    assert lines <= {*text.splitlines()}


def test_an_agent_in_two_places_is_drawn_twice_under_its_own_name() -> None:
    style = says("style")
    twice = ag.sequential("all", [style, ag.loop("rest", [says("other"), style], max_iterations=1)])
    nodes = [line for line in drawn(twice) if line.endswith('("style")')]
    assert nodes == ['all.style("style")', 'all.rest.style("style")']


@pytest.mark.parametrize("name", ["end", "style", "class", "v1.2", "a b", "größe", "--", 'say "hi"'])
def test_nodes_of_any_name_are_written_so_that_mermaid_reads_them(name: str) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node(name, lambda state: state)
    builder.add_edge(START, name)
    node = mermaid(builder.compile()).splitlines()[2].strip()
    key, _, label = node.partition("(")
    assert key.replace(".", "").replace("_", "").isalnum()
    assert key not in ("end", "style", "class")
    assert label == f'"{name.replace(chr(34), "#34;")}")'


def bundle(shown: Any) -> dict[str, str]:
    """Return what Jupyter is given; a connection would fail the test."""
    made: dict[str, str] = shown._repr_mimebundle_(include=None, exclude=None)
    return made


def test_an_agent_shows_its_tree_and_its_graph_in_jupyter() -> None:
    shown = bundle(report())
    assert list(shown) == ["text/plain", "text/vnd.mermaid", "image/svg+xml"]
    assert shown["text/plain"].splitlines()[:2] == [
        "report (sequential)",
        "├─ refine (loop, at most 3)",
    ]
    assert shown["text/vnd.mermaid"] == mermaid(ag.compile_agent(report()))


def test_the_svg_names_every_agent_and_links_to_nothing() -> None:
    svg = ElementTree.fromstring(bundle(report())["image/svg+xml"])
    texts = {"".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {"start", "write", "critique", "review", "facts", "find", "style", "end"} <= texts
    linked = [value for each in svg.iter() for key, value in each.items() if key.endswith("href")]
    assert linked == []


def test_without_an_offline_renderer_there_is_the_mermaid_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mermaidx", None)
    assert list(bundle(says("alone"))) == ["text/plain", "text/vnd.mermaid"]


def test_a_large_drawing_is_made_at_once_and_as_text_only() -> None:
    pairs = [ag.parallel(f"p{i}", [says(f"a{i}"), chat(f"b{i}", tools=[note])]) for i in range(100)]
    shown = bundle(ag.loop("all", pairs, max_iterations=2))
    assert list(shown) == ["text/plain", "text/vnd.mermaid"]


def test_jupyter_displays_the_faults_of_a_tree() -> None:
    wrong = ag.sequential("all", [ag.loop("l", [], max_iterations=2), says("end")])
    assert bundle(wrong) == {"text/plain": faults(wrong)}


def faults(agent: ag.Agent) -> str:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(agent)
    return str(caught.value)


def test_a_compiled_graph_draws_itself_in_jupyter_and_is_sent_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **_: tried.append(args))
    graph = ag.compile_agent(report())
    for shown in (graph, graph.with_config(tags=["a"]), copy.copy(graph)):
        assert bundle(shown)["text/vnd.mermaid"] == mermaid(graph)
    assert tried == []


def test_a_lane_of_one_agent_that_may_run_again_has_its_edge_back() -> None:
    checked = ag.validated(says("letter"), lambda text: None)
    again = ag.loop("again", [says("try")], max_iterations=2)
    assert edges(ag.parallel("both", [checked, again])) == {
        "__start__ --> both",
        "both --> __end__",
        "both.letter.letter -.-> both.letter.letter",
        "both.again.try -.-> both.again.try",
    }


def test_the_hook_of_a_middleware_is_drawn_under_the_name_of_its_agent() -> None:
    limit = ModelCallLimitMiddleware(run_limit=3)
    writers = [chat(name, middleware=[limit]) for name in ("ann", "bob")]
    text = mermaid(ag.compile_agent(ag.sequential("team", writers)))
    for name in ("ann", "bob"):
        hook = f"{name}.ModelCallLimitMiddleware.before_model"
        assert f'    {hook}("{hook}")' in text.splitlines()

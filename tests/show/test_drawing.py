"""Graphs drawn as Mermaid text, and displayed in Jupyter without a network."""

import copy
import socket
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from helpers import chat, note, says
from helpers.walking import NAMES, cases, par, rounds, seq
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langgraph.graph import END, START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.show import drawing
from agentgraph.show.lines import tree_lines


def desk() -> ag.Agent:
    """Return a chat agent with tools, an agent as a tool, and agents to transfer to."""
    research = seq("research", says("find"), chat("count", tools=[note]))
    loop = rounds(2, "rounds", says("ask"))
    return chat("desk", tools=[ag.agent_tool(research), note], sub_agents=[chat("bills"), loop])


def around(inner: Any) -> Any:
    """Return a graph with another as its only node."""
    builder = StateGraph(MessagesState).add_node("inner", inner)
    return builder.add_edge(START, "inner").add_edge("inner", END).compile()


def mermaid(agent: ag.Agent) -> str:
    return drawn(ag.compile_agent(agent))


def flat(agent: ag.Agent) -> str:
    return drawn(ag.compile_agent(agent), xray=False)


def drawn(graph: Any, **options: Any) -> str:
    return drawing.mermaid(graph, **options).partition("    classDef ")[0]


def asking(ctx: ag.Context) -> str | ag.Ask:
    return ctx.answer if ctx.answer else ag.Ask("Well?")


async def running(ctx: ag.Context) -> str:
    return (await ctx.run("find", "Go.")).text


HERE = {"create_agent": create_agent, "ModelCallLimitMiddleware": ModelCallLimitMiddleware}


@pytest.mark.parametrize(("expression", "expected"), cases(Path(__file__).with_name("drawings.txt")))
def test_the_drawing_of(expression: str, expected: str) -> None:
    assert eval(expression, {**NAMES, **globals(), **HERE}).strip() == expected


@pytest.mark.parametrize("name", ["end", "style", "class", "v1.2", "a b", "größe", "--", 'say "hi"'])
def test_nodes_of_any_name_are_written_so_that_mermaid_reads_them(name: str) -> None:
    builder = StateGraph(MessagesState).add_node(name, lambda state: state).add_edge(START, name)
    key, _, label = drawn(builder.compile()).splitlines()[2].strip().partition("[[")
    assert key.replace(".", "").replace("_", "").isalnum()
    assert key not in ("end", "style", "class")
    assert label == f'"{name.replace(chr(34), "#34;")}"]]:::foreign'


# in Jupyter


def bundle(shown: Any) -> dict[str, str]:
    """Return the output for Jupyter; a connection would fail the test."""
    made: dict[str, str] = shown._repr_mimebundle_(include=None, exclude=None)
    return made


SMALL = seq("small", says("find"), par("review", says("style")))


def test_jupyter_displays_a_tree_its_graph_and_an_svg_that_links_to_nothing() -> None:
    shown = bundle(SMALL)
    assert list(shown) == ["text/plain", "text/vnd.mermaid", "image/svg+xml"]
    assert shown["text/plain"].splitlines()[:2] == ["small (sequential)", "├─ find (function)"]
    assert shown["text/vnd.mermaid"] == drawing.mermaid(ag.compile_agent(SMALL))
    svg = ElementTree.fromstring(shown["image/svg+xml"])
    texts = {"".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {"start", "find", "review: parallel", "style", "end"} <= texts
    assert [value for each in svg.iter() for key, value in each.items() if key.endswith("href")] == []


def test_names_with_control_characters_are_spelled_out_in_drawings_outlines_and_errors() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("no\x1b[2Jde\x01", lambda _: {})
    builder.add_edge(START, "no\x1b[2Jde\x01")
    shown = bundle(ag.graph_agent("g", builder.compile()))
    assert 'g.no_1b__5b_2Jde_1_[["no#92;x1b[2Jde#92;x01"]]' in shown["text/vnd.mermaid"]
    ElementTree.fromstring(shown["image/svg+xml"])
    wrong = seq("s", says("a\x1b[2J"))
    assert bundle(wrong)["text/plain"].startswith(r"s/a\x1b[2J: the name 'a\x1b[2J' is not allowed")
    assert tree_lines(wrong)[1] == r"└─ a\x1b[2J (function)"


def test_without_an_offline_renderer_there_is_the_mermaid_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mermaidx", None)
    assert list(bundle(says("alone"))) == ["text/plain", "text/vnd.mermaid"]


def test_a_drawing_of_more_than_48_nodes_and_edges_is_made_as_text_only() -> None:
    all_ = seq("all", *(says(f"a{i}") for i in range(23)))
    assert list(bundle(all_)) == ["text/plain", "text/vnd.mermaid"]
    assert drawing.picture(ag.compile_agent(all_)).parts == 49


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
        assert bundle(shown)["text/vnd.mermaid"] == drawing.mermaid(graph)
    assert tried == []

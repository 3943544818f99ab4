"""A run drawn on its graph: how often each node ran, how long, its tokens; what never ran is pale."""

import re
from pathlib import Path
from xml.etree import ElementTree

from helpers import chat, says
from helpers.walking import par, rounds, seq
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.show.drawing import picture
from agentgraph.testing import ScriptedChatModel, call, calls

SVG = "{http://www.w3.org/2000/svg}"


def leaves_third(ctx: ag.Context) -> str | ag.BreakLoop:
    return ag.BreakLoop() if ctx.iteration == 2 else "Again."


def inner_graph() -> object:
    return (
        StateGraph(MessagesState).add_node("look", lambda state: {}).add_edge(START, "look").compile()
    )


def report() -> ag.Agent:
    model = ScriptedChatModel(responses=["A draft."] * 3, counts_tokens=True)
    writer = ag.chat_agent("writer", model)
    critic = ag.function_agent("critic", leaves_third)
    ways = {"a": says("web"), "b": par("faxes", ag.graph_agent("fax", inner_graph()), says("post"))}
    papers = ag.each("papers", says("reader"), "links", as_="link", output_key="read")
    return seq(
        "report",
        rounds(5, "refine", writer, critic),
        papers,
        ag.switch("route", "way", ways),
        ag.human("boss", "Print it?"),
        says("printer"),
    )


def drawn(runner: ag.Runner, tree: ag.Agent) -> list[str]:
    """Return the lines of the drawing of a run, with `T` for each time that something took."""
    text = picture(ag.compile_agent(tree), visits=runner.visits("t")).text
    return [re.sub(r"\d+ ms|\d+\.\d (s|min)\b", "T", line.strip()) for line in text.splitlines()]


def test_each_node_says_how_often_it_ran_how_long_and_its_tokens(tmp_path: Path) -> None:
    tree = report()
    with ag.Runner(tree, checkpointer=str(tmp_path / "runs.db")) as runner:
        runner.invoke("Go.", thread_id="t", values={"links": ["x", "y"], "way": "a"})
        lines = drawn(runner, tree)
        tokens = sum(visit.tokens for visit in runner.visits("t"))
    assert tokens > 9
    assert f'writer("writer<br/>3x, T, {tokens} tokens"):::chat' in lines
    assert 'critic["critic<br/>3x, T"]:::function' in lines
    assert 'subgraph papers["papers: for each of links (1x, T)"]' in lines
    assert 'papers.reader["reader<br/>2x, T"]:::function' in lines
    assert 'web["web<br/>1x, T"]:::function' in lines
    assert 'boss[/"boss<br/>1x, not ended"/]:::person' in lines
    assert 'printer["printer"]:::function' in lines
    (pale,) = [line for line in lines if line.endswith(" pale")]
    assert sorted(pale.split()[1].split(",")) == [
        "faxes",
        "faxes.fax",
        "faxes.fax.look",
        "faxes.post",
        "printer",
    ]


def test_a_run_that_goes_on_is_drawn_further() -> None:
    tree = seq(
        "s", ag.human("boss", "Print it?"), par("both", says("a"), seq("b", says("c"), says("d")))
    )
    runner = ag.Runner(tree)
    runner.invoke("Go.", thread_id="t")
    assert "class both,both.a,both.b,both.b.c,both.b.d pale" in drawn(runner, tree)
    runner.invoke(thread_id="t", answers="yes")
    assert [line for line in drawn(runner, tree) if "pale" in line] == []
    runner.invoke("Again.", thread_id="t")
    assert 'boss[/"boss<br/>2x, T, not ended"/]:::person' in drawn(runner, tree)


def test_a_chat_agents_tools_and_transfers_are_drawn() -> None:
    tree = ag.supervisor(
        "lead",
        ScriptedChatModel(responses=[calls(call("ann", request="Go.")), "Done."]),
        [chat("ann", "Hello."), chat("bob", "No.")],
    )
    runner = ag.Runner(tree)
    runner.invoke("Go.", thread_id="t")
    lines = drawn(runner, tree)
    assert 'lead("lead<br/>2x, T"):::chat' in lines
    assert 'subgraph lead.tools["lead.tools (1x, T)"]' in lines
    assert 'lead.tools.ann("ann<br/>1x, T"):::chat' in lines
    assert "class lead.tools.bob pale" in lines


def test_a_drawn_run_is_an_svg_whose_legend_says_what_pale_means() -> None:
    tree = seq("s", ag.human("boss", "Print it?"), says("printer"))
    runner = ag.Runner(tree)
    runner.invoke("Go.", thread_id="t")
    shown = picture(ag.compile_agent(tree), visits=runner.visits("t"))
    bundle = shown._repr_mimebundle_()
    assert bundle["text/vnd.mermaid"] == shown.text
    svg = ElementTree.fromstring(bundle["image/svg+xml"])
    texts = {"".join(text.itertext()) for text in svg.iter(f"{SVG}text")}
    assert "did not run" in texts
    assert any("1x, not ended" in text for text in texts)


def test_a_drawing_without_a_run_has_no_figures() -> None:
    tree = seq("s", says("a"), says("b"))
    assert "pale" not in picture(ag.compile_agent(tree)).text
    assert "class a,b pale" in picture(ag.compile_agent(tree), visits=[]).text

"""Places: a tree laid out, with the lane and the node of each occurrence."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.walking import NAMES, a, b, c, cases, d, group, leaf, par, rounds, seq

from agentgraph import Agent, chat_agent, function_agent, human
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.changes import lines_of as outline_lines
from agentgraph.tree.layout import lay_out
from agentgraph.tree.places import Place, Tree

MODEL = ScriptedChatModel(responses=[])


def nodes(agent: Agent) -> str:
    return " ".join(place.node for place in lay_out(agent).places)


def names(places: Iterable[Place]) -> str:
    return " ".join(place.name for place in places)


def fingerprint(agent: Agent) -> str:
    return lay_out(agent).fingerprint


def test_a_leaf_alone_is_a_tree() -> None:
    tree = lay_out(a)
    assert tree.places == (tree.root,)
    assert (tree.root.agent, tree.root.parent, tree.root.index) == (a, None, 0)
    assert (tree.root.segment, tree.root.node, tree.root.counts) == ("a", "a", ())
    assert list(tree.node_places(tree.root)) == [tree.root]


@pytest.mark.parametrize(("expression", "expected"), cases(Path(__file__).with_name("places.txt")))
def test_the_places_of(expression: str, expected: str) -> None:
    assert "\n".join(lines_of(lay_out(eval(expression, dict(NAMES))))) == expected


def lines_of(tree: Tree) -> Iterator[str]:
    """Yield a line for each place, inside its parent."""
    depths: dict[Place | None, int] = {None: -1}
    for place in tree.places:
        depths[place] = depths[place.parent] + 1
        inside = tree.called if place.is_tool else tree.children
        assert place.parent is None or inside[place.parent][place.index] is place
        yield "  " * depths[place] + ", ".join(
            [
                f"{place.segment} ({place.node})" if place.segment != place.node else place.node,
                *["tool"] * place.is_tool,
                *["stop"] * place.is_node,
                *[f"lane: {names(tree.node_places(place))}"] * place.starts_lane,
                *["in loop"] * place.in_loop,
                *["calls tools"] * place.has_tools,
                *(f"{count.kind} of {count.place.segment}" for count in place.counts),
            ]
        )


ROOT, CALL = leaf("root"), group("call")
INNER = seq("t", a, par("p", a, b, a))


@pytest.mark.parametrize(
    "agent",
    [
        seq("s", INNER, a, INNER, par("q", INNER, INNER)),
        group("w", seq("tools", a), tools=[a]),
        group("w", group("tools", CALL), tools=[CALL]),
        group("w", group("tools"), par("x", group("tools")), tools=[group("tools")]),
        par("call", ROOT, ROOT),
        rounds(2, "graph", ROOT, seq("s", ROOT)),
        *(
            seq("s", group("p", each), seq("t", each))
            for each in map(group, ["tools", "call", "approve"], [a] * 3)
        ),
        par("p", leaf("ask"), seq("t", leaf("ask"), a)),
    ],
    ids=nodes,
)
def test_no_two_nodes_share_a_name_whatever_agents_are_called(agent: Agent) -> None:
    tree = lay_out(agent)
    assert len({place.node for place in tree.places}) == len(tree.places)
    stops = [place for place in tree.places if place.is_node]
    assert all(tree.by_node[place.node] is place for place in stops)
    known = {node for at in stops for node in (at.node, at.nodes.tools, at.nodes.approve)}
    assert len(known) == 3 * len(stops)


def test_a_stop_is_found_by_the_name_of_its_node_and_of_the_one_that_asks_for_it() -> None:
    tree = lay_out(seq("s", a, par("p", a, leaf("ask"))))
    assert {node: place.node for node, place in tree.by_node.items()} == {
        **{"s.a": "s.a", "s.a.ask": "s.a", "p": "p"},
        **{"s.p.a": "s.p.a", "s.p.a.ask": "s.p.a", "ask": "ask", "ask.ask": "ask"},
    }


def test_places_of_equal_agents_are_not_equal() -> None:
    tree = lay_out(seq("s", a, a))
    first, second = tree.children[tree.root]
    assert first.agent is second.agent
    assert first != second
    assert lay_out(a).root != lay_out(a).root


def test_only_a_tree_with_a_fork_runs_tasks() -> None:
    assert not lay_out(seq("s", a, rounds(2, "l", b))).runs_tasks
    assert lay_out(seq("s", a, rounds(2, "l", par("p", b)))).runs_tasks
    assert lay_out(group("p", tools=[a])).runs_tasks


def test_only_a_tree_with_a_generator_speaks_early() -> None:
    def stream(ctx: Any) -> Any:
        yield "said"

    async def astream(ctx: Any) -> Any:
        yield "said"

    assert not lay_out(seq("s", a, human("boss", "ok?"))).emits_early
    for fn in (stream, astream):
        assert lay_out(seq("s", a, par("p", b, function_agent("f", fn)))).emits_early


def test_the_outline_is_a_line_for_each_place_with_tools_and_where_there_are_nodes_for_them() -> None:
    chat = group("desk", group("bills"), tools=[seq("t", a, group("find"))])
    tree = lay_out(seq("report", chat, rounds(2, "refine", b, par("p", c, d)), human("boss", "ok?")))
    assert [*outline_lines(tree.outline)] == [
        "sequential report",
        "  chat desk (tools)",
        "    chat bills (tools)",
        "    tool sequential t",
        "      function a",
        "      chat find",
        "  loop refine",
        "    function b",
        "    parallel p",
        "      function c",
        "      function d",
        "  human boss",
    ]
    assert tree.outline["inside"][0]["nodes"] == ["desk", "desk.tools", "desk.approve", "desk.call"]


def test_the_fingerprint_is_the_same_in_every_process_and_release() -> None:
    assert fingerprint(seq("s", a, b)) == "2.d175d389"


def test_the_fingerprint_changes_with_order_name_kind_nesting_and_tools() -> None:
    trees = [
        *[seq("s", a, b), seq("s", b, a), seq("s", a, c), seq("t", a, b), seq("s", a, b, c)],
        *[seq("s", a, b, b), seq("s", a), seq("s", seq("a", b)), seq("s", seq("x", a), b)],
        *[seq("s", a, human("b", "?")), seq("s", a, group("b")), par("s", a, b), rounds(2, "s", a, b)],
        *[group("p", a), group("p", tools=[a]), group("p"), group("p", a, b), group("p", b, a)],
    ]
    assert len({fingerprint(tree) for tree in trees}) == len(trees)


def test_the_fingerprint_does_not_change_with_what_an_agent_says_or_how_often() -> None:
    writer: Any = chat_agent("writer", MODEL, instruction="Write.", description="Writes.")
    other = replace(writer, instruction="Rewrite.", description="", model=MODEL.with_retry())
    asks = human("boss", "Really?", response_schema=bool, output_key="ok")
    tree = seq("s", rounds(2, "l", writer, a), human("boss", "ok?"))
    changed = seq("s", rounds(9, "l", other, leaf("a", lambda ctx: None), until=bool), asks)
    assert fingerprint(tree) == fingerprint(changed)

"""Places: a tree laid out, with the lane and the node of each occurrence."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from walking import a, b, c, d, e, group, leaf, named, par, rounds, seq

from agentgraph import Agent, chat_agent, function_agent, human
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.places import Place, lay_out

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
    assert list(tree.stops(tree.root)) == [tree.root]


def test_each_place_knows_its_parent_its_index_and_the_loops_around_it() -> None:
    inner = rounds(2, "inner", seq("s", a), par("p", b))
    tree = lay_out(seq("r", rounds(2, "outer", inner, c), d))
    assert [
        f"{place.index} {names(filter(None, [place.parent]))} / {place.name}: "
        + " ".join(count.place.name for count in place.counts)
        for place in tree.places
    ] == [
        "0  / r: ",
        "0 r / outer: ",
        "0 outer / inner: outer",
        "0 inner / s: outer inner",
        "0 s / a: outer inner",
        "1 inner / p: outer inner",
        "0 p / b: outer inner",
        "1 outer / c: outer",
        "1 r / d: ",
    ]
    assert {place.name: names(inside) for place, inside in tree.children.items()} == {
        **{"r": "outer d", "outer": "inner c", "inner": "s p", "s": "a", "p": "b"}
    }


NODES = {
    "an agent in one place has its name": (
        seq("s", a, rounds(2, "l", b, par("p", c, d)), e),
        "s a l b p c d e",
    ),
    "an agent in several places is named by its way": (
        seq("s", a, rounds(2, "l", a, b)),
        "s s.a l s.l.a b",
    ),
    "a second occurrence in one parent is numbered": (seq("s", a, b, a, a), "s s.a b s.a#2 s.a#3"),
    "occurrences are counted in each parent anew": (
        seq("s", seq("t", a, a), seq("u", a, a)),
        "s t s.t.a s.t.a#2 u s.u.a s.u.a#2",
    ),
    "a composite may be there twice with all that is in it": (
        (lambda inner: seq("s", inner, inner))(rounds(2, "l", a)),
        "s s.l s.l.a s.l#2 s.l#2.a",
    ),
    "a name that mermaid cannot read has a dot": (
        seq("s", *map(leaf, ["graph", "class", "style", "graph-2", "graph2", "classes"])),
        "s s.graph s.class s.style s.graph-2 graph2 classes",
    ),
    "a root with a name that mermaid cannot read has a dot": (leaf("subgraph"), "subgraph.root"),
}


@pytest.mark.parametrize(("agent", "expected"), NODES.values(), ids=NODES)
def test_the_names_of_nodes(agent: Agent, expected: str) -> None:
    assert nodes(agent) == expected


def test_a_segment_is_the_name_with_the_number_of_the_occurrence() -> None:
    tree = lay_out(seq("s", a, rounds(2, "l", a, b), a))
    assert [place.segment for place in tree.places] == ["s", "a", "l", "a", "b", "a#2"]


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
    stops = [place for place in tree.places if place.is_stop]
    assert all(tree.by_node[place.node] is place for place in stops)
    known = {node for at in stops for node in (at.node, at.tools_node, at.approve_node)}
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


def test_leaves_and_forks_are_the_stops_of_a_lane_and_branches_start_others() -> None:
    branch = seq("t", a, par("q", b, c))
    tree = lay_out(
        seq("s", group("chat"), rounds(2, "l", par("p", branch, d), human("boss", "ok?")), e)
    )
    assert names(place for place in tree.places if place.is_stop) == "chat p a q b c d boss e"
    assert names(place for place in tree.places if place.starts_lane) == "s t b c d"
    assert names(tree.stops(tree.root)) == "chat p boss e"
    assert names(tree.stops(named(tree, "t"))) == "a q"
    assert names(tree.stops(named(tree, "d"))) == "d"


def test_only_a_tree_with_a_fork_runs_tasks() -> None:
    assert not lay_out(seq("s", a, rounds(2, "l", b))).runs_tasks
    assert lay_out(seq("s", a, rounds(2, "l", par("p", b)))).runs_tasks
    assert lay_out(group("p", tools=[a])).runs_tasks


def test_only_a_tree_with_a_generator_speaks_early() -> None:
    def stream(ctx: Any) -> Any:
        yield "said"

    async def astream(ctx: Any) -> Any:
        yield "said"

    assert not lay_out(seq("s", a, human("boss", "ok?"))).speaks_early
    for fn in (stream, astream):
        assert lay_out(seq("s", a, par("p", b, function_agent("f", fn)))).speaks_early


def test_the_outline_is_a_line_for_each_place_with_tools_and_where_there_are_nodes_for_them() -> None:
    chat = group("desk", group("bills"), tools=[seq("t", a, group("find"))])
    tree = lay_out(seq("report", chat, rounds(2, "refine", b, par("p", c, d)), human("boss", "ok?")))
    assert tree.outline == (
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
    )


def test_the_fingerprint_is_the_same_in_every_process_and_release() -> None:
    assert fingerprint(seq("s", a, b)) == "2170f4b4"


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


def test_sub_agents_of_a_chat_agent_are_its_children_and_agents_as_tools_start_lanes() -> None:
    tree = lay_out(seq("s", group("p", a, group("q"), tools=[seq("t", b, c), d]), e))
    p = named(tree, "p")
    assert (names(tree.children[p]), names(tree.called[p])) == ("a q", "t d")
    assert [(place.name, place.index) for place in tree.places if place.is_tool] == [("t", 0), ("d", 1)]
    assert names(place for place in tree.places if place.starts_lane) == "s t d"
    assert names(tree.lanes(p)) == "t d"
    assert names(tree.stops(tree.root)) == "p a q e"
    assert names(tree.stops(named(tree, "t"))) == "b c"


def test_a_chat_agent_has_tools_where_it_may_call_any() -> None:
    provider = chat_agent("w", MODEL, tools=[{"type": "web_search"}])
    tree = lay_out(group("p", group("q"), seq("s", group("r"), provider), tools=[group("t")]))
    assert names(place for place in tree.places if place.has_tools) == "p q"
    assert lay_out(group("x", exit_tool=True)).root.has_tools


def test_a_cursor_counts_the_call_of_an_agent_as_a_tool_and_the_transfers() -> None:
    tree = lay_out(rounds(2, "o", group("p", b, tools=[rounds(2, "l", group("q", a))])))
    counts = [f"{count.place.name} {count.kind}" for count in named(tree, "a").counts]
    assert counts == ["o iteration", "p hops", "l call", "l iteration", "q hops"]
    assert [count.kind for count in named(tree, "b").counts] == ["iteration", "hops"]


def test_an_agent_as_a_tool_is_not_in_a_loop_of_its_caller() -> None:
    inside = group("q", tools=[rounds(2, "m", c), d])
    tree = lay_out(rounds(2, "o", group("p", a, tools=[b]), inside))
    assert names(place for place in tree.places if place.in_loop) == "p a q c"

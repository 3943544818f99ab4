"""Places: a tree laid out, with the lane and the node of each occurrence."""

from dataclasses import replace

import pytest

from agentgraph import Agent, agent_tool, chat_agent, function_agent, human, loop, parallel, sequential
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.places import Place, Tree, lay_out, targets


def say(ctx) -> str:
    return "said"


def leaf(name: str) -> Agent:
    return function_agent(name, say)


a, b, c, d, e = map(leaf, "abcde")


def nodes(tree: Tree) -> list[str]:
    return [place.node for place in tree.places]


def named(tree: Tree, name: str) -> Place:
    (place,) = (place for place in tree.places if place.name == name)
    return place


def fingerprint(agent: Agent) -> str:
    return lay_out(agent).fingerprint


def test_a_leaf_alone_is_a_tree():
    tree = lay_out(a)
    assert tree.places == (tree.root,)
    assert (tree.root.agent, tree.root.parent, tree.root.index) == (a, None, 0)
    assert (tree.root.segment, tree.root.node, tree.root.counts) == ("a", "a", ())
    assert list(tree.stops(tree.root)) == [tree.root]


def test_places_stand_in_the_order_of_the_tree_each_before_those_inside_it():
    tree = lay_out(sequential("s", [a, loop("l", [b, parallel("p", [c, d])], max_iterations=2), e]))
    assert [place.name for place in tree.places] == ["s", "a", "l", "b", "p", "c", "d", "e"]
    assert tree.places[0] is tree.root


def test_each_place_knows_its_parent_and_its_index():
    tree = lay_out(sequential("s", [a, loop("l", [b, c], max_iterations=2)]))
    assert [(p.parent and p.parent.name, p.index) for p in tree.places] == [
        (None, 0),
        ("s", 0),
        ("s", 1),
        ("l", 0),
        ("l", 1),
    ]
    assert [p.name for p in tree.children[tree.root]] == ["a", "l"]


def test_only_composites_have_children():
    tree = lay_out(sequential("s", [a, parallel("p", [b])]))
    assert {place.name for place in tree.children} == {"s", "p"}


def test_an_agent_that_stands_once_gives_its_node_its_name():
    assert nodes(lay_out(sequential("s", [a, loop("l", [b], max_iterations=2)]))) == [
        "s",
        "a",
        "l",
        "b",
    ]


def test_an_agent_that_stands_in_several_places_has_a_node_for_each_named_by_its_way():
    tree = lay_out(sequential("s", [a, loop("l", [a, b], max_iterations=2)]))
    assert nodes(tree) == ["s", "s.a", "l", "s.l.a", "b"]
    assert [place.segment for place in tree.places] == ["s", "a", "l", "a", "b"]


def test_a_second_occurrence_in_one_parent_is_numbered():
    tree = lay_out(sequential("s", [a, b, a, a]))
    assert [place.segment for place in tree.places] == ["s", "a", "b", "a#2", "a#3"]
    assert nodes(tree) == ["s", "s.a", "b", "s.a#2", "s.a#3"]


def test_occurrences_are_counted_in_each_parent_anew():
    tree = lay_out(sequential("s", [sequential("t", [a, a]), sequential("u", [a, a])]))
    assert [place.segment for place in tree.places] == ["s", "t", "a", "a#2", "u", "a", "a#2"]


def test_a_composite_may_stand_twice_with_all_that_is_in_it():
    inner = loop("l", [a], max_iterations=2)
    tree = lay_out(sequential("s", [inner, inner]))
    assert nodes(tree) == ["s", "s.l", "s.l.a", "s.l#2", "s.l#2.a"]
    first, second = (place for place in tree.places if place.name == "a")
    assert first.counts != second.counts


def test_no_two_places_share_a_node():
    inner = sequential("t", [a, parallel("p", [a, b, a])])
    tree = lay_out(sequential("s", [inner, a, inner, parallel("q", [inner, inner])]))
    assert len(set(nodes(tree))) == len(tree.places)


def test_places_are_told_apart_though_their_agents_are_equal():
    tree = lay_out(sequential("s", [a, a]))
    first, second = tree.children[tree.root]
    assert first.agent is second.agent
    assert first != second
    assert lay_out(a).root != lay_out(a).root


def test_a_place_knows_the_loops_around_it_outermost_first():
    inner = loop("inner", [sequential("s", [a]), parallel("p", [b])], max_iterations=2)
    tree = lay_out(sequential("r", [loop("outer", [inner, c], max_iterations=2), d]))
    around = {place.name: [count.place.name for count in place.counts] for place in tree.places}
    assert around == {
        "r": [],
        "outer": [],
        "inner": ["outer"],
        "s": ["outer", "inner"],
        "a": ["outer", "inner"],
        "p": ["outer", "inner"],
        "b": ["outer", "inner"],
        "c": ["outer"],
        "d": [],
    }
    assert [count.place for count in named(tree, "a").counts] == [
        named(tree, "outer"),
        named(tree, "inner"),
    ]


def test_lanes_start_at_the_root_and_at_each_branch():
    tree = lay_out(
        sequential("s", [a, parallel("p", [sequential("t", [b, parallel("q", [c, d])]), e])])
    )
    assert [place.name for place in tree.places if place.starts_lane] == ["s", "t", "c", "d", "e"]


def test_leaves_and_parallels_are_the_stops_of_a_lane():
    asked = human("boss", "ok?")
    chat = chat_agent("writer", ScriptedChatModel(responses=[]))
    tree = lay_out(
        sequential("s", [chat, loop("l", [parallel("p", [a, b]), asked], max_iterations=2), c])
    )
    assert [place.name for place in tree.places if place.is_stop] == [
        "writer",
        "p",
        "a",
        "b",
        "boss",
        "c",
    ]
    assert [place.name for place in tree.stops(tree.root)] == ["writer", "p", "boss", "c"]


def test_the_stops_of_a_branch_are_its_own():
    tree = lay_out(parallel("p", [sequential("t", [a, parallel("q", [b, c])]), d]))
    assert [place.name for place in tree.stops(tree.root)] == ["p"]
    assert [place.name for place in tree.stops(named(tree, "t"))] == ["a", "q"]
    assert [place.name for place in tree.stops(named(tree, "d"))] == ["d"]


def test_a_stop_is_found_by_the_name_of_its_node_and_of_the_one_that_asks_for_it():
    tree = lay_out(sequential("s", [a, parallel("p", [a, b])]))
    stops = [place for place in tree.places if place.is_stop]
    assert [place.node for place in stops] == ["s.a", "p", "s.p.a", "b"]
    assert all(tree.by_node[place.node] is place for place in stops)
    asking = [place for place in stops if place.name != "p"]
    assert [place.question_node for place in asking] == ["s.a.ask", "s.p.a.ask", "b.ask"]
    assert all(tree.by_node[place.question_node] is place for place in asking)
    assert "s" not in tree.by_node


def test_an_agent_named_ask_is_not_taken_for_a_question():
    ask = leaf("ask")
    tree = lay_out(parallel("p", [ask, sequential("t", [ask, a])]))
    assert {node: place.name for node, place in tree.by_node.items() if place is not tree.root} == {
        "p.ask": "ask",
        "p.ask.ask": "ask",
        "p.t.ask": "ask",
        "p.t.ask.ask": "ask",
        "a": "a",
        "a.ask": "a",
    }


@pytest.mark.parametrize("name", ["graph", "class", "subgraph", "style", "graph-2"])
def test_an_agent_with_a_name_that_mermaid_cannot_read_has_a_node_with_a_dot(name):
    assert nodes(lay_out(sequential("s", [leaf(name), a]))) == ["s", f"s.{name}", "a"]
    assert "." in lay_out(leaf(name)).root.node


def test_an_agent_whose_name_only_begins_like_a_word_of_mermaid_has_its_name():
    assert nodes(lay_out(sequential("s", [leaf("graph2"), leaf("classes")]))) == [
        "s",
        "graph2",
        "classes",
    ]


def test_only_a_tree_with_a_parallel_runs_tasks():
    assert lay_out(parallel("p", [a])).runs_tasks
    assert not lay_out(sequential("s", [a, loop("l", [b], max_iterations=2)])).runs_tasks
    assert lay_out(sequential("s", [a, loop("l", [parallel("p", [b])], max_iterations=2)])).runs_tasks


def test_only_a_tree_with_a_generator_speaks_early():
    def stream(ctx):
        yield "said"

    async def astream(ctx):
        yield "said"

    assert not lay_out(sequential("s", [a, human("boss", "ok?")])).speaks_early
    for fn in (stream, astream):
        streaming = function_agent("f", fn)
        assert lay_out(sequential("s", [a, parallel("p", [b, streaming])])).speaks_early


def test_the_outline_is_a_line_for_each_place():
    chat = chat_agent("writer", ScriptedChatModel(responses=[]))
    tree = lay_out(
        sequential(
            "report",
            [chat, loop("refine", [a, parallel("p", [b, c])], max_iterations=2), human("boss", "ok?")],
        )
    )
    assert tree.outline == (
        "sequential report",
        "  chat writer",
        "  loop refine",
        "    function a",
        "    parallel p",
        "      function b",
        "      function c",
        "  human boss",
    )


def test_the_fingerprint_is_eight_characters_and_the_same_for_equal_trees():
    tree = sequential("s", [a, b])
    assert fingerprint(tree) == fingerprint(sequential("s", [leaf("a"), leaf("b")]))
    assert len(fingerprint(tree)) == 8


def test_the_fingerprint_is_the_same_in_every_process_and_release():
    assert fingerprint(sequential("s", [a, b])) == "2170f4b4"


@pytest.mark.parametrize(
    "other",
    [
        sequential("s", [b, a]),
        sequential("s", [a, c]),
        sequential("t", [a, b]),
        sequential("s", [a, b, c]),
        sequential("s", [a, b, b]),
        sequential("s", [a]),
        sequential("s", [sequential("a", [b])]),
        sequential("s", [sequential("x", [a]), b]),
        sequential("s", [a, human("b", "?")]),
        sequential("s", [a, chat_agent("b", ScriptedChatModel(responses=[]))]),
        parallel("s", [a, b]),
        loop("s", [a, b], max_iterations=2),
    ],
    ids=lambda tree: " ".join(lay_out(tree).outline),
)
def test_the_fingerprint_changes_with_order_name_kind_and_nesting(other):
    assert fingerprint(other) != fingerprint(sequential("s", [a, b]))


def test_the_fingerprint_does_not_change_with_what_an_agent_says_or_how_often():
    model = ScriptedChatModel(responses=[])
    writer = chat_agent("writer", model, instruction="Write.", description="Writes.")
    tree = sequential("s", [loop("l", [writer, a], max_iterations=2), human("boss", "ok?")])
    other = sequential(
        "s",
        [
            loop(
                "l",
                [
                    replace(
                        writer,
                        instruction="Rewrite.",
                        description="",
                        model=ScriptedChatModel(responses=["x"]),
                    ),
                    function_agent("a", lambda ctx: None),
                ],
                max_iterations=9,
                until=bool,
            ),
            human("boss", "Really?", response_schema=bool, output_key="ok"),
        ],
    )
    assert fingerprint(tree) == fingerprint(other)


def test_a_tree_of_1_000_agents_is_laid_out_with_as_many_nodes():
    tree = lay_out(sequential("s", [leaf(f"a{i}") for i in range(999)]))
    assert len(set(nodes(tree))) == 1_000


def group(name: str, *sub_agents: Agent, tools=(), **options) -> Agent:
    model = ScriptedChatModel(responses=[])
    tools = [agent_tool(tool) for tool in tools]
    return chat_agent(name, model, sub_agents=sub_agents, tools=tools, **options)


def test_the_sub_agents_of_a_chat_agent_are_its_children_and_agents_as_tools_are_not():
    tree = lay_out(group("p", a, sequential("s", [b]), tools=[c, d]))
    assert [place.name for place in tree.places] == ["p", "a", "s", "b", "c", "d"]
    assert [place.name for place in tree.children[tree.root]] == ["a", "s"]
    assert [place.name for place in tree.called[tree.root]] == ["c", "d"]
    assert [(place.name, place.index) for place in tree.places if place.is_tool] == [("c", 0), ("d", 1)]


def test_targets_are_sub_agents_and_then_the_chat_agent_directly_above():
    tree = lay_out(group("p", group("q", a), sequential("s", [group("r")]), tools=[group("t", b)]))
    named_targets = {place.name: list(targets(tree, place)) for place in tree.places}
    assert named_targets == {
        "p": ["q", "s"],
        "q": ["a", "p"],
        "a": ["q"],
        "s": ["p"],
        "r": [],
        "t": ["b"],
        "b": ["t"],
    }


def test_an_agent_as_a_tool_starts_a_lane_and_one_to_transfer_to_does_not():
    tree = lay_out(sequential("s", [group("p", group("q"), tools=[sequential("t", [a, b])]), c]))
    assert [place.name for place in tree.places if place.starts_lane] == ["s", "t"]
    assert [place.name for place in tree.stops(tree.root)] == ["p", "q", "c"]
    assert [place.name for place in tree.stops(named(tree, "t"))] == ["a", "b"]
    assert [place.name for place in tree.lanes(named(tree, "p"))] == ["t"]
    assert tree.runs_tasks


def test_a_chat_agent_has_tools_where_it_may_call_any():
    provider = chat_agent("w", ScriptedChatModel(responses=[]), tools=[{"type": "web_search"}])
    tree = lay_out(group("p", group("q"), sequential("s", [group("r"), provider]), tools=[group("t")]))
    having = [p.name for p in tree.places if p.name in "pqrtw" and p.has_tools]
    assert having == ["p", "q"]
    assert lay_out(group("x", exit_tool=True)).root.has_tools


def test_a_cursor_counts_the_call_of_an_agent_as_a_tool_and_the_transfers():
    inner = loop("l", [group("q", a)], max_iterations=2)
    tree = lay_out(loop("o", [group("p", b, tools=[inner])], max_iterations=2))
    counts = [(count.place.name, count.kind) for count in named(tree, "a").counts]
    assert counts == [
        ("o", "iteration"),
        ("p", "hops"),
        ("l", "call"),
        ("l", "iteration"),
        ("q", "hops"),
    ]
    assert [count.kind for count in named(tree, "b").counts] == ["iteration", "hops"]


def test_an_agent_as_a_tool_is_in_no_loop_of_its_caller():
    inside = group("q", tools=[loop("m", [c], max_iterations=2), d])
    tree = lay_out(loop("o", [group("p", a, tools=[b]), inside], max_iterations=2))
    in_loop = {place.name for place in tree.places if place.in_loop}
    assert in_loop == {"p", "a", "q", "c"}


@pytest.mark.parametrize("name", ["tools", "call", "approve"])
def test_a_target_with_the_name_of_a_further_node_has_a_node_of_its_own(name):
    child = group(name, a)
    tree = lay_out(sequential("s", [group("p", child), sequential("t", [child])]))
    stops = [place for place in tree.places if place.is_stop]
    known = {node for place in stops for node in (place.node, place.tools_node, place.approve_node)}
    assert len(known) == 3 * len(stops)


ROOT = leaf("root")
CALL = group("call")


@pytest.mark.parametrize(
    "agent",
    [
        group("w", sequential("tools", [a]), tools=[a]),
        group("w", group("tools", CALL), tools=[CALL]),
        group("w", group("tools"), parallel("x", [group("tools")]), tools=[group("tools")]),
        parallel("call", [ROOT, ROOT]),
        loop("graph", [ROOT, sequential("s", [ROOT])], max_iterations=2),
    ],
    ids=lambda agent: agent.name,
)
def test_no_two_nodes_share_a_name_whatever_agents_are_called(agent):
    tree = lay_out(agent)
    assert len(set(nodes(tree))) == len(tree.places)
    stops = [place for place in tree.places if place.is_stop]
    assert all(tree.by_node[place.node] is place for place in stops)


def test_the_outline_tells_targets_and_tools_and_where_there_are_nodes_for_them():
    tree = lay_out(group("p", group("q"), tools=[sequential("t", [a, group("r")])]))
    assert tree.outline == (
        "chat p (tools)",
        "  chat q (tools)",
        "  tool sequential t",
        "    function a",
        "    chat r",
    )


def test_the_fingerprint_tells_a_tool_from_a_target():
    known = [group("p", a), group("p", tools=[a]), group("p"), group("p", a, b), group("p", b, a)]
    assert len({fingerprint(each) for each in known}) == len(known)

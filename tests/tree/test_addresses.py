"""Addresses and run paths as functions of a place and a cursor: loops, transfers, tools, attempts."""

import tracemalloc
from typing import Any

import pytest
from helpers.walking import (
    Endings,
    a,
    b,
    c,
    checked,
    d,
    group,
    leaf,
    leaves,
    named,
    par,
    rounds,
    seq,
    x,
    y,
)

from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.tree.addresses import (
    Cursor,
    address,
    attempts,
    is_inside,
    parse_address,
    without_last_transfers,
)
from agentgraph.tree.layout import lay_out
from agentgraph.tree.position import advance, earlier_cursors, start
from agentgraph.tree.run_paths import Chains, RunPaths, with_names


def test_the_steps_of_a_run_path_have_the_iteration_of_the_nearest_loop() -> None:
    tree = lay_out(seq("S", x, rounds(2, "L", a, seq("T", b)), y))
    steps = [(step.agent_name, step.iteration) for step in RunPaths(tree).at(named(tree, "b"), (1,))]
    before = [("S", None), ("x", None), ("L", None)]
    assert steps == [*before, ("a", 0), ("T", 0), ("a", 1), ("T", 1), ("b", 1)]
    assert RunPaths(tree).at(named(tree, "y"), ())[-1] == RunStep("y", None)
    tree = lay_out(rounds(3, "O", rounds(2, "I", a)))
    steps = [(step.agent_name, step.iteration) for step in RunPaths(tree).at(named(tree, "a"), (2, 1))]
    assert steps == [("O", None), ("I", 0), ("I", 1), ("I", 2), ("a", 0), ("a", 1)]


def test_a_run_path_is_unique_and_the_same_in_whatever_order_paths_are_computed() -> None:
    tree = lay_out(rounds(3, "O", x, rounds(3, "I", a, par("P", b, c)), y))
    visited = leaves(tree)
    forwards, backwards = RunPaths(tree), RunPaths(tree)
    expected = [forwards.at(*each) for each in visited]
    assert [backwards.at(*each) for each in reversed(visited)] == expected[::-1]
    assert [RunPaths(tree).of(address(*each)) for each in visited] == expected
    assert len(set(expected)) == len(visited) == 33
    assert forwards.of("O") == RunPath([RunStep("O")])


def test_a_run_path_shares_its_beginning_with_those_of_earlier_iterations() -> None:
    def bytes_of(iterations: int) -> int:
        tree = lay_out(rounds(None, "L", a, b))
        tracemalloc.start()
        try:
            paths = RunPaths(tree)
            held = [paths.at(place, (i,)) for i in range(iterations) for place in tree.places[1:]]
            return tracemalloc.get_traced_memory()[0] if held else 0
        finally:
            tracemalloc.stop()

    assert bytes_of(1_000) / 1_000 < 1.3 * bytes_of(200) / 200


# addresses


def test_an_address_has_the_iteration_of_each_loop_and_the_number_of_a_second_occurrence() -> None:
    inner = rounds(2, "L", a, a)
    tree = lay_out(seq("S", inner, inner))
    visited = leaves(tree)
    assert [address(*each) for each in visited[-2:]] == ["S/L#2[1]/a", "S/L#2[1]/a#2"]
    assert address(tree.root, ()) == "S"
    assert address(tree.children[tree.root][0], ()) == "S/L"


def test_an_address_is_read_back_as_the_place_and_the_cursor() -> None:
    tree = lay_out(rounds(2, "O", x, par("P", rounds(2, "I", a, a), b)))
    visited = leaves(tree)
    assert all(parse_address(tree, address(*each)) == each for each in visited)
    assert parse_address(tree, "O") == (tree.root, ())
    assert parse_address(tree, "O[3]/P/I") == (named(tree, "I"), (3,))


IMPOSSIBLE = """
/  S/  /S  T  S/z  S/L[0]/a/a  S/L/a  S/L[0]  S/L[]/a  S/L[-1]/a  S/L[x]/a  S/L[0][0]/a  S/L[0]/a[0]
S[0]/x  S[0]/L[0]/a  S[1]/L/a  S/L/a[1]  S/L#2[0]/a  s/x  S/x{0}  S/x(0)  S/L[0]/z  S/x{1}  S/b{x}
"""


@pytest.mark.parametrize("text", [*IMPOSSIBLE.split(), "", "S/ x"])
def test_an_address_that_the_tree_cannot_have_is_none(text: str) -> None:
    tree = lay_out(seq("S", x, rounds(2, "L", a), checked(b)))
    assert parse_address(tree, text) is None
    assert RunPaths(tree).of(text) is None


# transfers and agents as tools


def test_the_addresses_of_agents_as_tools_have_the_number_of_the_call() -> None:
    inner = rounds(2, "search", group("find", group("deep"), tools=[y]))
    tree = lay_out(seq("s", group("writer", tools=[inner])))
    deep, inmost = (
        (named(tree, "deep"), (3, 1, ("deep",))),
        (named(tree, "y"), (3, 1, ("deep", "find"), 7)),
    )
    assert address(*deep) == "s/writer/search(3)[1]/find[1]/deep"
    assert str(RunPaths(tree).at(*deep)) == "s/writer/search/find/find/deep"
    assert address(*inmost) == "s/writer/search(3)[1]/find[2]/y(7)"
    assert str(RunPaths(tree).at(*inmost)) == "s/writer/search/find/find/deep/find/y"


search = leaf("search")
more = group("more", group("deep", tools=[search]), tools=[search])
TRIAGE = group("triage", group("bills"), more, rounds(9, "rounds", a), tools=[search])
REACHED = """
triage  triage[1]/bills  triage[2]  triage[3]/bills  triage[2]/more/deep  triage[3]/more
triage[6]  triage[2]/more/deep/search(3)  triage[3]/rounds[4]/a  triage/search(0)
triage[2]/search(12)  triage[3]/more/search(2)  triage/search(3.1)
"""
NOT_REACHED = """
triage/bills  triage[1]  triage[0]  triage/more/deep  triage[1]/more/deep  triage[1.0]  triage[2][2]
triage[1]/bills[1]  triage[1.]/bills  triage[.1]/bills  triage[1,0]  triage[01.x]  triage/search
triage/search()  triage/search(-1)  triage(0)  triage[1]/bills(0)  triage[1]/bills/search(0)
triage[1]/search(0)  triage/search(0)[0]  triage/search(0.0)
"""


@pytest.mark.parametrize("text", REACHED.split())
def test_an_address_with_transfers_and_calls_is_read_back(text: str) -> None:
    tree = lay_out(TRIAGE)
    found = parse_address(tree, text)
    assert found is not None
    assert address(*found) == text
    path = RunPaths(tree).of(text)
    assert path == RunPaths(tree).at(*found)
    assert path.names[-1] == found[0].name


def test_a_chain_of_transfers_is_known_to_who_learned_it_from_others() -> None:
    tree, chains = lay_out(rounds(2, "l", TRIAGE)), Chains()
    paths, deep = RunPaths(tree), named(tree, "deep")
    chains.completed(3, deep, (1, ("bills", "triage", "more", "deep")))
    known = {
        "l[1]/triage[4]/more/deep": "l/triage/triage/bills/triage/more/deep",
        "l[1]/triage[2]": "l/triage/triage/bills/triage",
        "l[1]/triage[5]/more": "l/triage/triage/bills/triage/more/deep/more",
        "l[1]/triage[4]/more/deep/search(0)": "l/triage/triage/bills/triage/more/deep/search",
        "l[0]/triage[3]/bills": "l/triage/bills",  # two transfers of another chain are unknown
    }
    assert {text: str(paths.of(text, 3, chains)) for text in known} == known
    assert str(paths.of("l[1]/triage[2]", 2, chains)) == "l/triage/triage/triage"
    assert str(paths.of("l[1]/triage[2]/search(0)", 2, chains)) == "l/triage/triage/triage/search"


def test_a_return_over_several_levels_is_one_transfer() -> None:
    w = group("w", group("d"), sub_agents_return=True)
    tree, chains = lay_out(group("s", w, sub_agents_return=True)), Chains()
    chains.completed(0, tree.root, (("w", "d", "w/s"),))
    assert str(RunPaths(tree).of("s[3]", 0, chains)) == "s/w/d/w/s"
    assert with_names(tree.root, ((None, None, "s"),), [["d", "w/s"]]) == ((None, "d", "w/s"),)


@pytest.mark.parametrize("text", NOT_REACHED.split())
def test_an_address_to_which_no_transfers_and_calls_lead_is_none(text: str) -> None:
    tree = lay_out(TRIAGE)
    assert parse_address(tree, text) is None
    assert RunPaths(tree).of(text) is None


def test_where_a_chat_agent_was_before_others_returned_to_it() -> None:
    w = group("w", d, sub_agents_return=True)
    tree = lay_out(group("s", a, w, sub_agents_return=True))
    hops = ("a", "s", "w", "d", "w", "d", "w", "s")
    assert earlier_cursors(tree, tree.root, (hops,)) == [(hops[:2],), ((),)]
    assert earlier_cursors(tree, named(tree, "w"), (hops[:-1],)) == [(hops[:5],), (hops[:3],)]
    assert earlier_cursors(tree, tree.root, (("w", "d", "w/s"),)) == [((),)]
    other = lay_out(group("s", a))
    assert earlier_cursors(other, other.root, (hops[:2],)) == []


# attempts


def test_the_lane_of_a_branch_and_of_a_tool_counts_its_own_attempts() -> None:
    tree = lay_out(seq("s", par("p", checked(a)), group("c", tools=[checked(x)])))
    again = Endings(tree, {"s/p/a": "again", "s/c/x(3)": "again"})

    def after(name: str, *cursor: int) -> tuple[Any, Cursor]:
        return advance(tree, named(tree, name), cursor, None, again)[:2]

    assert start(tree, named(tree, "a")) == (named(tree, "a"), (0,), None)
    assert address(*after("a", 0)) == "s/p/a{1}"
    assert address(*after("x", 3, 0)) == "s/c/x(3){1}"
    assert parse_address(tree, "s/c/x(3){1}") == (named(tree, "x"), (3, 1))
    assert after("x", 3, 1) == (None, ())


def test_all_attempts_and_what_is_inside_one() -> None:
    tree = lay_out(checked(seq("q", a, b)))
    assert attempts(tree.root, (2,)) == [(0,), (1,), (2,)]
    assert attempts(named(tree, "a"), (2,)) == [(2,)]
    assert is_inside(tree, "q{1}/a", tree.root, (1,))
    assert not is_inside(tree, "q/a", tree.root, (1,))
    assert not is_inside(tree, "z", tree.root, (1,))


def test_a_checked_sub_agent_is_settled_where_it_was_transferred_to() -> None:
    tree = lay_out(group("s", checked(group("w", d)), sub_agents_return=True))
    assert without_last_transfers(tree, named(tree, "w"), (("w", "d"), 0)) == (("w",), 0)
    assert without_last_transfers(tree, tree.root, (("w", "d"),)) == ((),)

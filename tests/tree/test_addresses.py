"""Addresses and run paths as functions of a place and a cursor: loops, transfers, tools, attempts."""

import tracemalloc
from typing import Any

import pytest
from walking import (
    a,
    activations,
    b,
    c,
    d,
    group,
    leaf,
    named,
    par,
    rounds,
    seq,
    transfers,
    x,
    y,
)

from agentgraph import Agent
from agentgraph.agents.agents import CheckedAgent
from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.agents.signals import CheckResult
from agentgraph.tree.addresses import (
    Cursor,
    RunPaths,
    address,
    attempts,
    is_inside,
    parse_address,
    settled,
)
from agentgraph.tree.places import Place, lay_out
from agentgraph.tree.position import Next, advance, earlier_cursors, next_stops, start, transfer

# run paths


def paths(agent: Agent, expected: str, breaks: str = "") -> tuple[Agent, str, str]:
    return agent, expected, breaks


# A tree, and the run paths of its leaves.
PATHS = {
    "a loop between siblings": paths(
        seq("S", x, rounds(2, "L", a, b), y), "S/x S/x/L/a S/x/L/a/b S/x/L/a/b/a S/x/L/a/b/a/b S/x/L/y"
    ),
    "a branch is alone after its parallel": paths(
        seq("S", x, par("P", a, seq("T", b, c)), y), "S/x S/x/P/a S/x/P/T/b S/x/P/T/b/c S/x/P/y"
    ),
    "after a break the loop is one step": paths(
        seq("S", rounds(3, "L", a, b), c), "S/L/a S/L/a/b S/L/a/b/a S/L/c", breaks="S/L[1]/a"
    ),
}


@pytest.mark.parametrize(("agent", "expected", "breaks"), PATHS.values(), ids=PATHS)
def test_a_run_path(agent: Agent, expected: str, breaks: str) -> None:
    tree, visited = activations(agent, dict.fromkeys(breaks.split(), "break_loop"))
    assert " ".join(str(RunPaths(tree).at(*each)) for each in visited) == expected


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
    tree, visited = activations(rounds(3, "O", x, rounds(3, "I", a, par("P", b, c)), y))
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
    tree, visited = activations(seq("S", inner, inner))
    assert [address(*each) for each in visited[-2:]] == ["S/L#2[1]/a", "S/L#2[1]/a#2"]
    assert address(tree.root, ()) == "S"
    assert address(tree.children[tree.root][0], ()) == "S/L"


def test_an_address_is_read_back_as_the_place_and_the_cursor() -> None:
    tree, visited = activations(rounds(2, "O", x, par("P", rounds(2, "I", a, a), b)))
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

# A tree, the targets of transfers, and the address and the run path of each activation.
TRANSFERS = {
    "to children and back": (
        group("triage", group("bills"), group("press")),
        "bills triage press triage",
        {
            "triage": "triage",
            "triage[1]/bills": "triage/bills",
            "triage[1.0]": "triage/bills/triage",
            "triage[1.0.2]/press": "triage/bills/triage/press",
            "triage[1.0.2.0]": "triage/bills/triage/press/triage",
        },
    ),
    "all transfers below one agent are one list of hops": (
        group("P", group("B"), group("C", group("D"))),
        "C D C P B",
        {
            "P": "P",
            "P[2]/C": "P/C",
            "P[2.1]/C/D": "P/C/D",
            "P[2.1.0]/C": "P/C/D/C",
            "P[2.1.0.0]": "P/C/D/C/P",
            "P[2.1.0.0.1]/B": "P/C/D/C/P/B",
        },
    ),
    "an agent in a composite counts its own": (
        group("P", seq("S", group("Q", group("R")))),
        "S R Q",
        {"P": "P", "P[1]/S/Q": "P/S/Q", "P[1]/S/Q[1]/R": "P/S/Q/R", "P[1]/S/Q[1.0]": "P/S/Q/R/Q"},
    ),
}


@pytest.mark.parametrize(("agent", "names", "expected"), TRANSFERS.values(), ids=TRANSFERS)
def test_transfers_are_in_addresses_and_run_paths(agent: Agent, names: str, expected: Any) -> None:
    tree, visited = transfers(agent, *names.split())
    assert {address(*each): str(RunPaths(tree).at(*each)) for each in visited} == expected


def test_the_addresses_of_agents_as_tools_have_the_number_of_the_call() -> None:
    inner = rounds(2, "search", group("find", group("deep"), tools=[y]))
    tree = lay_out(seq("s", group("writer", tools=[inner])))
    deep, inmost = (named(tree, "deep"), (3, 1, (1,))), (named(tree, "y"), (3, 1, (1, 0), 7))
    assert address(*deep) == "s/writer/search(3)[1]/find[1]/deep"
    assert str(RunPaths(tree).at(*deep)) == "s/writer/search/find/find/deep"
    assert address(*inmost) == "s/writer/search(3)[1]/find[1.0]/y(7)"
    assert str(RunPaths(tree).at(*inmost)) == "s/writer/search/find/find/deep/find/y"


search = leaf("search")
more = group("more", group("deep", tools=[search]), tools=[search])
TRIAGE = group("triage", group("bills"), more, rounds(9, "rounds", a), tools=[search])
REACHED = """
triage  triage[1]/bills  triage[1.0]  triage[1.0.1]/bills  triage[2.1]/more/deep  triage[2.1.0]/more
triage[1.0.2.1.0.0]  triage[2.1]/more/deep/search(3)  triage[3]/rounds[4]/a  triage/search(0)
triage[1.0]/search(12)  triage[2.0.2]/more/search(2)  triage/search(3.1)
"""
NOT_REACHED = """
triage/bills  triage[1]  triage[0]  triage[2]/bills  triage[1.0]/bills  triage[4]  triage[4.0]
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


@pytest.mark.parametrize("text", NOT_REACHED.split())
def test_an_address_to_which_no_transfers_and_calls_lead_is_none(text: str) -> None:
    tree = lay_out(TRIAGE)
    assert parse_address(tree, text) is None
    assert RunPaths(tree).of(text) is None


def test_a_sub_agent_that_ends_returns_over_all_above_it_if_they_return() -> None:
    tree = lay_out(group("s", a, seq("b", x, y), sub_agents_return=True))
    first = transfer(tree, tree.root, ((),), "b")
    assert shown(first) == "s[2]/b/x"
    back = advance(tree, *ended(advance(tree, *ended(first), None, Sends())), None, Sends())
    assert (back.place, back.cursor) == (tree.root, ((2, 0),))
    assert str(RunPaths(tree).at(*ended(back))) == "s/b/s"
    tree = lay_out(group("s", group("w", d), sub_agents_return=True))
    back = advance(tree, named(tree, "d"), ((1, 1),), None, Sends())
    assert (back.place, back.cursor) == (tree.root, ((1, 1, 0, 0),))
    assert str(RunPaths(tree).at(*ended(back))) == "s/w/d/w/s"


def test_where_a_chat_agent_was_before_others_returned_to_it() -> None:
    w = group("w", d, sub_agents_return=True)
    tree = lay_out(group("s", a, w, sub_agents_return=True))
    hops = (1, 0, 2, 1, 0, 1, 0, 0)  # to a and back, to w, which goes to d and back twice, and back
    assert earlier_cursors(tree.root, (hops,)) == [((1, 0),), ((),)]
    assert earlier_cursors(named(tree, "w"), (hops[:-1],)) == [((1, 0, 2, 1, 0),), ((1, 0, 2),)]
    assert earlier_cursors(lay_out(group("s", a)).root, (hops[:2],)) == []


# attempts


def checked(agent: Agent) -> CheckedAgent:
    return CheckedAgent(agent=agent, check=lambda ctx, said, attempt: CheckResult(), repeats=True)


class Sends:
    """Sends places back a number of times, by their names; no loop ends by it."""

    def __init__(self, **times: int) -> None:
        self.times = times

    def ends(self, place: Place, cursor: Cursor) -> bool:
        return False

    def repeats(self, place: Place, cursor: Cursor) -> bool:
        self.times[place.name] = self.times.get(place.name, 0) - 1
        return self.times[place.name] >= 0


def ended(at: Next) -> tuple[Place, Cursor]:
    assert at.place is not None
    return at.place, at.cursor


def shown(at: Next) -> str:
    return address(*ended(at))


# A tree, how often each of its agents is sent back, and each address with its run path.
ATTEMPTS: dict[str, tuple[Agent, dict[str, int], str]] = {
    "each attempt adds a step": (
        seq("s", checked(a), b),
        {"a": 2},
        "s/a s/a, s/a{1} s/a/a, s/a{2} s/a/a/a, s/b s/a/b",
    ),
    "the root": (checked(a), {"a": 1}, "a a, a{1} a/a"),
    "a composite begins again with its counters at zero": (
        seq("s", checked(rounds(2, "l", a, checked(b)))),
        {"l": 1, "b": 1},
        "s/l[0]/a s/l/a, s/l[0]/b s/l/a/b, s/l[0]/b{1} s/l/a/b/b, s/l[1]/a s/l/a/b/a, "
        "s/l[1]/b s/l/a/b/a/b, s/l{1}[0]/a s/l/l/a, s/l{1}[0]/b s/l/l/a/b, s/l{1}[1]/a s/l/l/a/b/a, "
        "s/l{1}[1]/b s/l/l/a/b/a/b",
    ),
    "each iteration counts anew": (
        rounds(2, "l", checked(a)),
        {"a": 1},
        "l[0]/a l/a, l[0]/a{1} l/a/a, l[1]/a l/a/a",
    ),
}


@pytest.mark.parametrize(("agent", "times", "expected"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_attempts_are_in_addresses_and_run_paths(
    agent: Agent, times: dict[str, int], expected: str
) -> None:
    tree, sends, visited = lay_out(agent), Sends(**times), []
    at = start(tree, tree.root)
    while at.place is not None:
        visited.append(f"{shown(at)} {RunPaths(tree).at(*ended(at))}")
        assert parse_address(tree, shown(at)) == ended(at)
        at = advance(tree, *ended(at), None, sends)
    assert ", ".join(visited) == expected


def test_the_lane_of_a_branch_and_of_a_tool_counts_its_own_attempts() -> None:
    tree = lay_out(seq("s", par("p", checked(a)), group("c", tools=[checked(x)])))
    assert start(tree, named(tree, "a")) == Next(named(tree, "a"), (0,))
    assert shown(advance(tree, named(tree, "a"), (0,), None, Sends(a=1))) == "s/p/a{1}"
    assert shown(advance(tree, named(tree, "x"), (3, 0), None, Sends(x=1))) == "s/c/x(3){1}"
    assert parse_address(tree, "s/c/x(3){1}") == (named(tree, "x"), (3, 1))
    assert advance(tree, named(tree, "x"), (3, 1), None, Sends()).place is None


def test_an_agent_that_ends_with_a_signal_is_not_sent_back() -> None:
    tree = lay_out(rounds(2, "l", checked(a), b))
    assert advance(tree, named(tree, "a"), (0, 0), "break_loop", Sends(a=9)).place is None
    assert advance(tree, named(tree, "a"), (0, 0), "exit", Sends(a=9)).signal == "exit"


def test_the_way_back_of_a_check_is_drawn() -> None:
    tree = lay_out(seq("s", checked(seq("q", a, b)), y))
    assert [end and end.name for end in next_stops(tree, named(tree, "b"))] == ["a", "y"]
    assert [end and end.name for end in next_stops(tree, named(tree, "a"))] == ["b"]


def test_all_attempts_and_what_is_inside_one() -> None:
    tree = lay_out(checked(seq("q", a, b)))
    assert attempts(tree.root, (2,)) == [(0,), (1,), (2,)]
    assert attempts(named(tree, "a"), (2,)) == [(2,)]
    assert is_inside(tree, "q{1}/a", tree.root, (1,))
    assert not is_inside(tree, "q/a", tree.root, (1,))
    assert not is_inside(tree, "z", tree.root, (1,))


def test_a_checked_sub_agent_is_checked_where_it_was_transferred_to() -> None:
    tree = lay_out(group("s", checked(group("w", d)), sub_agents_return=True))
    w = named(tree, "w")
    assert settled(tree, w, ((1, 1), 0)) == ((1,), 0)
    again = advance(tree, named(tree, "d"), ((1, 1), 0), None, Sends(w=1))
    assert (again.place, shown(again)) == (w, "s[1]/w{1}")
    assert settled(tree, tree.root, ((1, 1),)) == ((),)

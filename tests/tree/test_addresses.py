"""Addresses and run paths, as functions of a place and a cursor."""

import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from walking import a, activations, anything, b, c, d, group, leaf, named, never, transfers, x, y

from agentgraph import Agent, loop, parallel, sequential
from agentgraph.agents.agents import ChatAgent, LoopAgent, ParallelAgent
from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.tree.addresses import Cursor, RunPaths, address, parse_address
from agentgraph.tree.places import Place, Tree, lay_out, targets
from agentgraph.tree.position import advance, next_stops, start, transfer

planner, executor, replanner = map(leaf, ("planner", "executor", "replanner"))
IMPOSSIBLE = """
/  S/  /S  T  S/z  S/L[0]/a/a  S/L/a  S/L[0]  S/L[]/a  S/L[-1]/a  S/L[x]/a  S/L[0][0]/a  S/L[0]/a[0]
S[0]/x  S[0]/L[0]/a  S[1]/L/a  S/L/a[1]  S/L#2[0]/a  s/x  S/x{0}  S/x(0)
"""
TRANSFERRED = """
triage  triage[1]/bills  triage[1.0]  triage[1.0.1]/bills  triage[2.1]/more/deep  triage[2.1.0]/more
triage[1.0.2.1.0.0]  triage[2.1]/more/deep/search(3)  triage[3]/rounds[4]/a  triage/search(0)
triage[1.0]/search(12)  triage[2.0.2]/more/search(2)  triage/search(3.1)
"""
NOT_REACHED = """
triage/bills  triage[1]  triage[0]  triage[2]/bills  triage[1.0]/bills  triage[3]  triage[3.0]
triage[1]/bills[1]  triage[1.]/bills  triage[.1]/bills  triage[1,0]  triage[01.x]  triage/search
triage/search()  triage/search(-1)  triage(0)  triage[1]/bills(0)  triage[1]/bills/search(0)
triage[1]/search(0)  triage/search(0)[0]  triage/search(0.0)
"""
# A tree, the signals with which agents end by address, and the run paths of its leaves.
PATHS = {
    "a root": (a, {}, "a"),
    "earlier siblings in a sequential": (sequential("S", [a, b, c]), {}, "S/a S/a/b S/a/b/c"),
    "an earlier sibling is one step however deep it went": (
        sequential("S", [sequential("T", [a, parallel("P", [b, c])]), d]),
        {},
        "S/T/a S/T/a/P/b S/T/a/P/c S/T/d",
    ),
    "a loop between siblings": (
        sequential("S", [x, loop("L", [a, b], max_iterations=2), y]),
        {},
        "S/x S/x/L/a S/x/L/a/b S/x/L/a/b/a S/x/L/a/b/a/b S/x/L/y",
    ),
    "a sequential in a loop": (
        loop("L", [sequential("S", [a, b])], max_iterations=2),
        {},
        "L/S/a L/S/a/b L/S/S/a L/S/S/a/b",
    ),
    "a branch is alone after its parallel": (
        sequential("S", [x, parallel("P", [a, sequential("T", [b, c])]), y]),
        {},
        "S/x S/x/P/a S/x/P/T/b S/x/P/T/b/c S/x/P/y",
    ),
    "a parallel in a loop is one step of each iteration": (
        loop("L", [a, parallel("P", [b, c])], max_iterations=2),
        {},
        "L/a L/a/P/b L/a/P/c L/a/P/a L/a/P/a/P/b L/a/P/a/P/c",
    ),
    "a loop in a loop begins anew in each iteration of the outer": (
        loop("O", [loop("I", [a], max_iterations=2), b], max_iterations=2),
        {},
        "O/I/a O/I/a/a O/I/b O/I/b/I/a O/I/b/I/a/a O/I/b/I/b",
    ),
    "an agent in two places": (
        sequential("S", [a, sequential("T", [a, a])]),
        {},
        "S/a S/a/T/a S/a/T/a/a",
    ),
    "after a break the loop is one step": (
        sequential("S", [loop("L", [a, b], max_iterations=3), c]),
        {"S/L[1]/a": "break_loop"},
        "S/L/a S/L/a/b S/L/a/b/a S/L/c",
    ),
}


@pytest.mark.parametrize(("agent", "signals", "paths"), PATHS.values(), ids=PATHS)
def test_a_run_path(agent, signals, paths):
    tree, visited = activations(agent, signals)
    assert [str(RunPaths(tree).at(*each)) for each in visited] == paths.split()


class TestARunPath:
    def test_has_steps_with_the_iteration_of_the_nearest_loop(self):
        agent = sequential("S", [x, loop("L", [a, sequential("T", [b])], max_iterations=2), y])
        tree = lay_out(agent)
        steps = [
            (step.agent_name, step.iteration) for step in RunPaths(tree).at(named(tree, "b"), (1,))
        ]
        before = [("S", None), ("x", None), ("L", None)]
        assert steps == [*before, ("a", 0), ("T", 0), ("a", 1), ("T", 1), ("b", 1)]
        assert RunPaths(tree).at(named(tree, "y"), ())[-1] == RunStep("y", None)

    def test_of_a_loop_in_a_loop_has_the_iteration_of_the_outer(self):
        tree = lay_out(loop("O", [loop("I", [a], max_iterations=2)], max_iterations=3))
        steps = [
            (step.agent_name, step.iteration) for step in RunPaths(tree).at(named(tree, "a"), (2, 1))
        ]
        assert steps == [("O", None), ("I", 0), ("I", 1), ("I", 2), ("a", 0), ("a", 1)]

    def test_is_the_same_in_whatever_order_paths_are_computed_and_unique(self):
        inner = loop("I", [a, parallel("P", [b, c])], max_iterations=3)
        tree, visited = activations(loop("O", [x, inner, y], max_iterations=3))
        forwards, backwards = RunPaths(tree), RunPaths(tree)
        expected = [forwards.at(*each) for each in visited]
        assert [backwards.at(*each) for each in reversed(visited)] == expected[::-1]
        assert [RunPaths(tree).at(*each) for each in visited] == expected
        assert len(set(expected)) == len(visited) == 33

    def test_is_found_by_address(self):
        body = [a, a, parallel("P", [b, c])]
        tree, visited = activations(sequential("S", [loop("L", body, max_iterations=2)]))
        paths = RunPaths(tree)
        assert all(paths.of(address(*each)) == paths.at(*each) for each in visited)
        assert paths.of("S/L[0]/z") is None
        assert paths.of("S") == RunPath([RunStep("S")])

    def test_shares_its_beginning_with_those_of_earlier_iterations(self):
        def bytes_of(iterations: int) -> int:
            tree = lay_out(loop("L", [a, b], max_iterations=None))
            tracemalloc.start()
            try:
                paths = RunPaths(tree)
                held = [paths.at(place, (i,)) for i in range(iterations) for place in tree.places[1:]]
                return tracemalloc.get_traced_memory()[0] if held else 0
            finally:
                tracemalloc.stop()

        assert bytes_of(5_000) / 5_000 < 1.3 * bytes_of(500) / 500


class TestAnAddress:
    def test_has_the_iteration_of_each_loop_and_the_number_of_a_second_occurrence(self):
        inner = loop("L", [a, a], max_iterations=2)
        tree, visited = activations(sequential("S", [inner, inner]))
        assert [address(*each) for each in visited[-2:]] == ["S/L#2[1]/a", "S/L#2[1]/a#2"]
        assert address(tree.root, ()) == "S"
        assert address(tree.children[tree.root][0], ()) == "S/L"

    def test_is_read_back_as_the_place_and_the_cursor(self):
        body = [x, parallel("P", [loop("I", [a, a], max_iterations=2), b])]
        tree, visited = activations(loop("O", body, max_iterations=2))
        assert all(parse_address(tree, address(*each)) == each for each in visited)
        assert parse_address(tree, "O") == (tree.root, ())
        assert parse_address(tree, "O[3]/P/I") == (named(tree, "I"), (3,))

    @pytest.mark.parametrize(
        "text",
        [*IMPOSSIBLE.split(), "", "S/ x"],
    )
    def test_that_the_tree_cannot_have_is_none(self, text):
        tree = lay_out(sequential("S", [x, loop("L", [a], max_iterations=2)]))
        assert parse_address(tree, text) is None
        assert RunPaths(tree).of(text) is None


# A tree, the targets of transfers, and the address and the run path of each activation.
TRANSFERS = {
    "to children and back": (
        group("triage", group("bills"), group("press")),
        "bills triage press triage press",
        {
            "triage": "triage",
            "triage[1]/bills": "triage/bills",
            "triage[1.0]": "triage/bills/triage",
            "triage[1.0.2]/press": "triage/bills/triage/press",
            "triage[1.0.2.0]": "triage/bills/triage/press/triage",
            "triage[1.0.2.0.2]/press": "triage/bills/triage/press/triage/press",
        },
    ),
    "all transfers below one agent are one list of hops": (
        group("P", group("B"), group("C", group("D"))),
        "C D C D C P B",
        {
            "P": "P",
            "P[2]/C": "P/C",
            "P[2.1]/C/D": "P/C/D",
            "P[2.1.0]/C": "P/C/D/C",
            "P[2.1.0.1]/C/D": "P/C/D/C/D",
            "P[2.1.0.1.0]/C": "P/C/D/C/D/C",
            "P[2.1.0.1.0.0]": "P/C/D/C/D/C/P",
            "P[2.1.0.1.0.0.1]/B": "P/C/D/C/D/C/P/B",
        },
    ),
    "an agent in a composite counts its own": (
        group("P", sequential("S", [group("Q", group("R"))])),
        "S R Q",
        {"P": "P", "P[1]/S/Q": "P/S/Q", "P[1]/S/Q[1]/R": "P/S/Q/R", "P[1]/S/Q[1.0]": "P/S/Q/R/Q"},
    ),
}


@pytest.mark.parametrize(("agent", "names", "expected"), TRANSFERS.values(), ids=TRANSFERS)
def test_transfers_are_in_addresses_and_run_paths(agent, names, expected):
    tree, visited = transfers(agent, *names.split())
    paths = RunPaths(tree)
    assert [(address(*each), str(paths.at(*each))) for each in visited] == [*expected.items()]


def test_the_addresses_of_agents_as_tools_have_the_number_of_the_call():
    inner = loop("search", [group("find", group("deep"), tools=[y])], max_iterations=2)
    tree = lay_out(sequential("s", [group("writer", tools=[inner])]))
    deep, inmost = (named(tree, "deep"), (3, 1, (1,))), (named(tree, "y"), (3, 1, (1, 0), 7))
    assert address(*deep) == "s/writer/search(3)[1]/find[1]/deep"
    assert str(RunPaths(tree).at(*deep)) == "s/writer/search/find/find/deep"
    assert address(*inmost) == "s/writer/search(3)[1]/find[1.0]/y(7)"
    assert str(RunPaths(tree).at(*inmost)) == "s/writer/search/find/find/deep/find/y"


@pytest.mark.parametrize(
    "text",
    TRANSFERRED.split(),
)
def test_an_address_with_transfers_and_calls_is_read_back(text):
    search = leaf("search")
    more = group("more", group("deep", tools=[search]), tools=[search])
    rounds = loop("rounds", [a], max_iterations=9)
    tree = lay_out(group("triage", group("bills"), more, rounds, tools=[search]))
    place, cursor = parse_address(tree, text)
    assert address(place, cursor) == text
    path = RunPaths(tree).of(text)
    assert path == RunPaths(tree).at(place, cursor)
    assert path.names[-1] == place.name


@pytest.mark.parametrize(
    "text",
    NOT_REACHED.split(),
)
def test_an_address_to_which_no_transfers_and_calls_lead_is_none(text):
    tree = lay_out(group("triage", group("bills"), group("press"), tools=[leaf("search")]))
    assert parse_address(tree, text) is None
    assert RunPaths(tree).of(text) is None


Choose = Callable[[list[str]], str | None]


@st.composite
def groups(draw) -> Agent:
    """Draw a tree with chat agents that transfer; every agent has a name of its own."""
    count = iter(range(1_000))
    kinds = ["leaf", "chat", "group", "group", "sequential", "parallel", "loop"]

    def agent(depth: int) -> Agent:
        kind = draw(st.sampled_from(kinds if depth else ["leaf", "chat"]))
        name = f"{kind}{next(count)}"
        if kind == "leaf":
            return leaf(name, anything)
        inside = [agent(depth - 1) for _ in range(draw(st.integers(1, 3)))] if depth else []
        if kind in ("chat", "group"):
            return group(name, *(inside if kind == "group" else ()))
        if kind == "loop":
            return loop(name, inside, max_iterations=draw(st.integers(1, 2)))
        return (sequential if kind == "sequential" else parallel)(name, inside)

    return agent(3)


def transferring(tree: Tree, choose: Choose) -> Iterator[tuple[Place, Cursor]]:
    """Walk a tree as a run does, and yield the leaves; lanes run one after the other."""

    def lane(place: Place, cursor: Cursor):
        following = start(tree, place, cursor)
        while following.place is not None:
            place, cursor = following.place, following.cursor
            target = None
            if place.kind.is_fork:
                for branch in tree.children[place]:
                    yield from lane(branch, cursor)
            else:
                yield place, cursor
                target = choose(list(targets(tree, place)))
            following = (
                transfer(tree, place, cursor, target)
                if target
                else advance(tree, place, cursor, None, never)
            )
            assert following.place in next_stops(tree, place)

    yield from lane(tree.root, ())


def reference(agent: Agent, path: list[str], above: str | None, choose: Choose):
    """Yield the run paths of an agent by their definition alone.

    Returns the name of the agent above, if it transfers there, and its own last path.
    """
    if isinstance(agent, ChatAgent) or not hasattr(agent, "sub_agents"):
        below = {each.name: each for each in getattr(agent, "sub_agents", ())}
        while True:
            yield path
            chosen = choose([*below, *([above] if above else [])])
            if chosen not in below:
                return chosen, path
            back, path = yield from reference(below[chosen], [*path, chosen], agent.name, choose)
            if back is None:
                return None, path
            path = [*path, agent.name]
    for _ in range(agent.max_iterations if isinstance(agent, LoopAgent) else 1):
        for child in agent.sub_agents:
            if isinstance(agent, ParallelAgent):
                yield from reference(child, [*path, child.name], None, choose)
            else:
                path = [*path, child.name]
                yield from reference(child, path, None, choose)
    return None, path


@given(groups(), st.data())
def test_random_transfers_give_unique_addresses_and_the_run_paths_of_the_reference(agent, data):
    tree = lay_out(agent)
    chosen: list[str | None] = []

    def choose(names: list[str]) -> str | None:
        capabilities = [None, *names] if len(chosen) < 30 else [None]
        chosen.append(data.draw(st.sampled_from(capabilities)))
        return chosen[-1]

    visited = list(transferring(tree, choose))
    found = [address(*each) for each in visited]
    assert len(set(found)) == len(found)
    assert [parse_address(tree, text) for text in found] == visited
    again = iter(chosen)
    paths = list(reference(agent, [agent.name], None, lambda names: next(again)))
    assert [list(RunPaths(tree).of(text).names) for text in found] == paths
    assert next(again, "none") == "none"

"""The next node: in a run, by counters and signals; in a drawing, by the capabilities of nodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.walking import (
    NAMES,
    Endings,
    a,
    anything,
    b,
    c,
    cases,
    d,
    e,
    group,
    leaf,
    may_leave,
    may_stop,
    named,
    par,
    rounds,
    say,
    seq,
    stop,
    walk,
    x,
    y,
)
from hypothesis import given
from hypothesis import strategies as st

from agentgraph import Agent, Ask, human
from agentgraph.agents.signals import Capabilities
from agentgraph.tree.addresses import Cursor, address, cursor_at, parse_address
from agentgraph.tree.layout import lay_out
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.position import advance, capabilities_at, next_nodes, start
from agentgraph.tree.run_paths import Chains, RunPaths
from agentgraph.tree.targets import targets


@pytest.mark.parametrize(("expression", "expected"), cases(Path(__file__).with_name("runs.txt")))
def test_a_run(expression: str, expected: str) -> None:
    agent, endings = (
        (*made, {})[:2] if isinstance(made := eval(expression, dict(NAMES)), tuple) else (made, {})
    )
    assert "\n".join(stops_of(lay_out(agent), endings)) == expected


def stops_of(tree: Tree, endings: Any) -> Iterator[str]:
    """Yield a line for each stop of a run: its address, its run path, and what may follow it."""
    paths, chains = RunPaths(tree), Chains()
    for place, cursor, _ in walk(tree, endings):
        assert read_back(tree, place, cursor, chains) == (place, cursor)
        ways = sorted(stop.node if stop else "END" for stop in next_nodes(tree, place))
        yield f"{address(place, cursor)} | {paths.at(place, cursor)} | {', '.join(ways)}"


def read_back(tree: Tree, place: Place, cursor: Cursor, chains: Chains) -> tuple[Place, Cursor]:
    """Return an address as a reader parses it that knows the targets of transfers."""
    assert chains.completed(0, place, cursor) == cursor
    found = parse_address(tree, address(place, cursor))
    assert found is not None
    return found[0], chains.completed(0, *found)


class Until(Endings):
    """Notes which loops are asked, and ends the inner one."""

    def __init__(self, tree: Tree, endings: Any = None) -> None:
        super().__init__(tree, endings)
        self.asked: list[Any] = []

    def ends(self, loop: Place, cursor: Cursor) -> bool:
        self.asked.append((loop.name, cursor))
        return loop.name == "I"


def test_until_is_asked_after_each_iteration_but_the_last_and_not_after_a_signal() -> None:
    tree = lay_out(rounds(3, "O", rounds(None, "I", a, until=bool), until=bool))
    until = Until(tree)
    list(walk(tree, until))
    assert until.asked == [("I", (0, 0)), ("O", (0,)), ("I", (1, 0)), ("O", (1,)), ("I", (2, 0))]
    tree = lay_out(rounds(3, "L", leaf("f", may_leave), leaf("g", may_stop), until=bool))
    for endings, left in ({"L[0]/f": "break_loop"}, []), ({"L[1]/g": "exit"}, [("L", (0,))]):
        until = Until(tree, endings)
        list(walk(tree, until))
        assert until.asked == left


def test_a_lane_begins_at_its_first_stop_with_zeros_for_the_loops_that_it_enters() -> None:
    tree = lay_out(seq("S", rounds(2, "O", rounds(2, "I", a))))
    assert start(tree, tree.root) == (named(tree, "a"), (0, 0), None)
    assert start(tree, named(tree, "I"), (4,)) == (named(tree, "a"), (4, 0), None)
    tree = lay_out(rounds(2, "L", par("P", rounds(2, "M", a))))
    assert start(tree, tree.root) == (named(tree, "P"), (0,), None)
    assert start(tree, named(tree, "M"), (1,)) == (named(tree, "a"), (1, 0), None)


def test_a_lane_ends_with_its_signal_and_the_counters_around_it() -> None:
    tree = lay_out(rounds(2, "O", par("P", rounds(2, "I", a), b)))
    inside, branch = named(tree, "a"), named(tree, "b")
    assert advance(tree, inside, (1, 0), "exit", Endings(tree)) == (None, (1,), "exit")
    assert advance(tree, inside, (1, 0), "break_loop", Endings(tree)) == (None, (1,), None)
    assert advance(tree, inside, (1, 1), None, Endings(tree)) == (None, (1,), None)
    assert advance(tree, branch, (1,), "break_loop", Endings(tree)) == (None, (1,), "break_loop")


def test_a_jump_keeps_the_counters_of_the_loops_that_both_places_are_in() -> None:
    tree = lay_out(seq("S", rounds(9, "O", rounds(9, "I", a, b), rounds(9, "J", c), d), e))
    jumps = {name: cursor_at(named(tree, name), named(tree, "a"), (3, 5)) for name in "abcde"}
    assert jumps == {"a": (3, 5), "b": (3, 5), "c": (3, 0), "d": (3,), "e": ()}
    assert cursor_at(named(tree, "a"), None, ()) == (0, 0)


def test_a_transfer_may_lead_to_the_sub_agents_and_then_the_chat_agent_directly_above() -> None:
    tree = lay_out(group("P", group("C", x), seq("S", group("D")), tools=[group("T", y)]))
    assert {place.name: " ".join(targets(tree, place)) for place in tree.places} == {
        **{"P": "C S", "C": "x P", "x": "C", "S": "P", "D": "", "T": "y", "y": "T"}
    }


def test_what_a_stop_may_do_is_read_from_its_annotation() -> None:
    def may_ask(ctx: Any) -> Iterator[str | Ask]:
        yield "said"

    tree = lay_out(seq("S", a, leaf("f", may_ask), leaf("g", stop), human("h", "?")))
    assert [capabilities_at(tree, stop) for stop in tree.node_places(tree.root)] == [
        Capabilities(),
        Capabilities(ask=True),
        Capabilities(proceed=False, exit=True),
        Capabilities(),
    ]


FUNCTIONS: list[Any] = [say, stop, may_stop, may_leave, anything]


@st.composite
def trees(draw: st.DrawFn) -> Agent:
    """Draw a tree in which every agent has its own name."""
    count = iter(range(1_000))

    def agent(depth: int) -> Agent:
        kinds = ["leaf", "sequential", "parallel", "loop", "chat", "chat"]
        kind = draw(st.sampled_from(kinds if depth else ["leaf"]))
        name = f"{kind}{next(count)}"
        if kind == "leaf":
            return leaf(name, draw(st.sampled_from(FUNCTIONS)))
        inside = [agent(depth - 1) for _ in range(draw(st.integers(1, 3)))]
        match kind:
            case "loop":
                return rounds(draw(st.integers(1, 3)), name, *inside)
            case "chat":
                return group(name, *inside)
        return (seq if kind == "sequential" else par)(name, *inside)

    return agent(3)


class Drawn(Endings):
    """Draws how each leaf ends, of all that it may do; transfers 30 times at most."""

    def __init__(self, tree: Tree, data: Any) -> None:
        super().__init__(tree)
        self._data, self._transfers = data, 0

    def of(self, place: Place, cursor: Cursor) -> Any:
        may = capabilities_at(self._tree, place)
        choices = [None] * may.proceed + ["exit"] * may.exit + ["break_loop"] * may.break_loop
        if self._transfers < 30 and may.transfer:
            choices += targets(self._tree, place)
        chosen = self._data.draw(st.sampled_from(choices))
        self._transfers += chosen in targets(self._tree, place)
        return chosen


@given(trees(), st.data())
def test_a_run_takes_only_edges_that_are_drawn_and_visits_each_address_once(
    agent: Agent, data: Any
) -> None:
    tree, visited = lay_out(agent), []
    paths, chains = RunPaths(tree), Chains()
    for place, cursor, following in walk(tree, Drawn(tree, data)):
        stops = next_nodes(tree, place)
        assert following.place in stops
        assert len(stops) == len(set(stops))
        assert following.place is None or len(following.cursor) == len(following.place.counts)
        assert read_back(tree, place, cursor, chains) == (place, cursor)
        assert paths.at(place, cursor).names[-1] == place.name
        visited.append(address(place, cursor))
    assert len(set(visited)) == len(visited)

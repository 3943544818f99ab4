"""What runs next: in a run, by counters and signals, and in a drawing, by what each stop may do."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from walking import (
    a,
    activations,
    anything,
    b,
    c,
    d,
    e,
    group,
    leaf,
    leave,
    may_leave,
    may_stop,
    named,
    never,
    par,
    rounds,
    say,
    seq,
    stop,
    walk,
    x,
    y,
)

from agentgraph import Agent, Ask, human, step, workflow
from agentgraph.agents.signals import Capabilities
from agentgraph.tree.addresses import Cursor, RunPaths, address, cursor_at, parse_address
from agentgraph.tree.places import Place, lay_out, targets
from agentgraph.tree.position import advance, capabilities_at, next_stops, start


def addresses(agent: Agent, signals: Any = None, until: Any = None) -> str:
    return " ".join(address(*visited) for visited in activations(agent, signals, until)[1])


def run(agent: Agent, visited: str, breaks: str = "", exits: str = "") -> tuple[Agent, str, Any]:
    """Return a tree, the addresses that run, and the signals with which some of them end."""
    signals = dict.fromkeys(breaks.split(), "break_loop") | dict.fromkeys(exits.split(), "exit")
    return agent, visited, signals


RUNS = {
    "a sequential runs its sub-agents in order": run(seq("S", a, b, c), "S/a S/b S/c"),
    "what follows a loop has no counter of it": run(
        seq("S", rounds(2, "L", a, b), c), "S/L[0]/a S/L[0]/b S/L[1]/a S/L[1]/b S/c"
    ),
    "a loop in a loop begins at 0 in each iteration of the outer": run(
        rounds(2, "O", rounds(2, "I", a), b),
        "O[0]/I[0]/a O[0]/I[1]/a O[0]/b O[1]/I[0]/a O[1]/I[1]/a O[1]/b",
    ),
    "a loop without bound runs until a break": run(
        seq("S", rounds(None, "L", a, b), c),
        "S/L[0]/a S/L[0]/b S/L[1]/a S/L[1]/b S/L[2]/a S/c",
        breaks="S/L[2]/a",
    ),
    "a break ends the nearest loop only": run(
        rounds(2, "O", rounds(2, "I", a, b), c),
        "O[0]/I[0]/a O[0]/c O[1]/I[0]/a O[1]/I[0]/b O[1]/I[1]/a O[1]/c",
        breaks="O[0]/I[0]/a O[1]/I[1]/a",
    ),
    "a break leaves the sequentials between it and its loop": run(
        seq("S", rounds(3, "L", seq("T", seq("U", a, b), c), d), e),
        "S/L[0]/T/U/a S/e",
        breaks="S/L[0]/T/U/a",
    ),
    "a break outside every loop changes nothing": run(
        seq("S", rounds(1, "L", a), b, par("P", seq("T", c, d))),
        "S/L[0]/a S/b S/P/T/c S/P/T/d",
        breaks="S/b S/P/T/c",
    ),
    "a break in a branch ends the loop around the parallel when its siblings have ended": run(
        seq("S", rounds(2, "L", par("P", seq("T", a, b), c), d), e),
        "S/L[0]/P/T/a S/L[0]/P/c S/e",
        breaks="S/L[0]/P/T/a",
    ),
    "an exit ends everything around it": run(
        seq("S", rounds(2, "O", rounds(2, "I", a, b)), c),
        "S/O[0]/I[0]/a S/O[0]/I[0]/b S/O[0]/I[1]/a",
        exits="S/O[0]/I[1]/a",
    ),
    "an exit in a branch ends the run at the join, and outweighs a break": run(
        seq("S", rounds(2, "L", par("P", seq("T", a, b), c)), d),
        "S/L[0]/P/T/a S/L[0]/P/c",
        breaks="S/L[0]/P/c",
        exits="S/L[0]/P/T/a",
    ),
}


@pytest.mark.parametrize(("agent", "visited", "signals"), RUNS.values(), ids=RUNS)
def test_a_run(agent: Agent, visited: str, signals: Any) -> None:
    assert addresses(agent, signals) == visited


def test_until_is_asked_after_each_iteration_but_the_last_with_the_counters_of_its_loop() -> None:
    asked = []

    def until(loop: Place, cursor: Cursor) -> bool:
        asked.append((loop.name, cursor))
        return loop.name == "I"

    addresses(rounds(3, "O", rounds(None, "I", a, until=bool), until=bool), until=until)
    assert asked == [("I", (0, 0)), ("O", (0,)), ("I", (1, 0)), ("O", (1,)), ("I", (2, 0))]


def test_until_is_not_asked_after_a_signal() -> None:
    def until(loop: Place, cursor: Cursor) -> bool:
        raise AssertionError("not to be asked")

    agent = rounds(3, "L", a, b, until=bool)
    assert addresses(agent, {"L[0]/a": "break_loop"}, until) == "L[0]/a"
    assert addresses(agent, {"L[0]/b": "exit"}, until) == "L[0]/a L[0]/b"


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
    assert advance(tree, inside, (1, 0), "exit", never) == (None, (1,), "exit")
    assert advance(tree, inside, (1, 0), "break_loop", never) == (None, (1,), None)
    assert advance(tree, inside, (1, 1), None, never) == (None, (1,), None)
    assert advance(tree, branch, (1,), "break_loop", never) == (None, (1,), "break_loop")


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


writer = group("writer")
exits, may_exit = leaf("exits", stop), leaf("may_exit", may_stop)
breaks, may_break = leaf("breaks", leave), leaf("may_break", may_leave)
free = leaf("free", anything)


def ways(agent: Agent, **followers: str) -> tuple[Agent, dict[str, str]]:
    """Return a tree, and for some of its stops all that may follow; `END` is the end of the lane."""
    return agent, followers


DRAWN = {
    "functions, chat agents and humans in a chain only go on": ways(
        seq("S", a, writer, human("boss", "ok?"), b), a="writer", writer="boss", boss="b", b="END"
    ),
    "a function that may exit": ways(seq("S", may_exit, b), may_exit="END b"),
    "a function that always exits": ways(seq("S", exits, b), exits="END"),
    "a function without annotation may do everything": ways(
        seq("S", rounds(2, "L", free, b), c), free="END b c"
    ),
    "a loop has a way back and a way out": ways(
        seq("S", rounds(2, "L", a, b), c), a="b", b="a c", c="END"
    ),
    "a loop of one iteration has no way back": ways(
        seq("S", rounds(1, "L", a, b, until=bool), c), a="b", b="c", c="END"
    ),
    "a loop without bound has no way out but by signal": ways(
        seq("S", rounds(None, "L", may_break, b), c), may_break="b c", b="may_break"
    ),
    "a loop that until may end has a way out": ways(
        seq("S", rounds(None, "L", a, until=bool), c), a="a c"
    ),
    "loops that end in one place have a way back each": ways(
        seq("S", rounds(2, "O", x, rounds(2, "I", a)), c), a="a c x"
    ),
    "an inner loop without bound hides the way back of the outer": ways(
        rounds(2, "O", x, rounds(None, "I", may_exit)), may_exit="END may_exit"
    ),
    "a break in an inner loop leads on in the outer": ways(
        rounds(2, "O", rounds(2, "I", breaks, b), c), breaks="c"
    ),
    "a break at the end of the outer goes round or out": ways(
        rounds(2, "O", x, rounds(2, "I", breaks, b)), breaks="END x"
    ),
    "a break at the end of an outer loop of one iteration goes out": ways(
        rounds(1, "O", x, rounds(2, "I", breaks, b)), breaks="END"
    ),
    "a break outside every loop goes on": ways(seq("S", breaks, b), breaks="b"),
    "a branch ends at the end of its lane": ways(
        seq("S", par("P", a, seq("T", b, c)), d), P="d", a="END", b="c", c="END", d="END"
    ),
    "an exit that may come out of a branch": ways(seq("S", par("P", may_exit, b), c), P="END c"),
    "a branch that always exits leaves no other way after the join": ways(
        rounds(2, "L", par("P", exits, may_break), c), P="END"
    ),
    "a break that may come out of a branch": ways(
        seq("S", rounds(2, "L", par("P", may_break, b), c), d), P="c d", may_break="END"
    ),
    "a break of a loop inside a branch does not come out": ways(
        rounds(2, "O", par("P", rounds(2, "I", may_break)), c), P="c", c="END P"
    ),
    "signals come out of parallels in parallels": ways(
        seq("S", rounds(2, "L", par("P", par("Q", may_break, may_exit), c), d), e), P="END d e"
    ),
    "what undoes a step leads nowhere": ways(
        seq("s", workflow("f", [step(a, compensate=lambda ctx: None)]), y), f="y"
    ),
    "transfers lead to sub-agents and back": ways(
        seq("s", group("P", group("C"), seq("S", free, x)), y),
        P="C free y",
        C="P y",
        free="END x",
        x="y",
        y="END",
    ),
}


@pytest.mark.parametrize(("agent", "followers"), DRAWN.values(), ids=DRAWN)
def test_what_may_follow_a_stop(agent: Agent, followers: dict[str, str]) -> None:
    tree = lay_out(agent)
    found = {
        name: [s.node if s else "END" for s in next_stops(tree, named(tree, name))]
        for name in followers
    }
    assert {name: " ".join(sorted(stops)) for name, stops in found.items()} == followers


def test_what_a_stop_may_do_is_read_from_its_annotation() -> None:
    def may_ask(ctx: Any) -> Iterator[str | Ask]:
        yield "said"

    tree = lay_out(seq("S", a, leaf("f", may_ask), leaf("g", stop), human("h", "?")))
    assert [capabilities_at(tree, stop) for stop in tree.stops(tree.root)] == [
        Capabilities(),
        Capabilities(ask=True),
        Capabilities(go_on=False, exit=True),
        Capabilities(),
    ]


FUNCTIONS: list[Any] = [say, stop, may_stop, may_leave, anything]


@st.composite
def trees(draw: st.DrawFn) -> Agent:
    """Draw a tree in which every agent has a name of its own."""
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


@given(trees(), st.data())
def test_a_run_takes_only_edges_that_are_drawn_and_visits_each_address_once(
    agent: Agent, data: Any
) -> None:
    tree, transferred, visited = lay_out(agent), [0], []
    paths = RunPaths(tree)

    def ending_of(place: Place, cursor: Cursor) -> Any:
        may = capabilities_at(tree, place)
        choices = [None] * may.go_on + ["exit"] * may.exit + ["break_loop"] * may.break_loop
        if transferred[0] < 30 and may.transfer:
            choices += targets(tree, place)
        chosen = data.draw(st.sampled_from(choices))
        transferred[0] += chosen not in (None, "exit", "break_loop")
        return chosen

    for place, cursor, following in walk(tree, ending_of):
        stops = next_stops(tree, place)
        assert following.place in stops
        assert len(stops) == len(set(stops))
        assert following.place is None or len(following.cursor) == len(following.place.counts)
        assert parse_address(tree, address(place, cursor)) == (place, cursor)
        assert paths.at(place, cursor).names[-1] == place.name
        visited.append((address(place, cursor), paths.at(place, cursor)))
    assert len(dict(visited)) == len(visited)

"""What runs next: in a run, by counters and signals, and in a drawing, by what each stop may do."""

from collections.abc import Iterator

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
    stop,
    transfers,
    walk,
    x,
    y,
)

from agentgraph import Agent, Ask, chat_agent, human, loop, parallel, sequential
from agentgraph.agents.signals import Capabilities
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.addresses import Cursor, RunPaths, address, cursor_at
from agentgraph.tree.places import Place, lay_out, targets
from agentgraph.tree.position import Next, advance, capabilities_at, next_stops, start, transfer


def addresses(agent: Agent, signals=None, until=None) -> list[str]:
    return [address(*visited) for visited in activations(agent, signals, until)[1]]


# A tree, the signals with which agents end by address, and the addresses that run.
RUNS = {
    "a sequential runs its sub-agents in order": (sequential("S", [a, b, c]), {}, "S/a S/b S/c"),
    "a loop goes round as often as it may, and what follows it has no counter of it": (
        sequential("S", [loop("L", [a, b], max_iterations=2), c]),
        {},
        "S/L[0]/a S/L[0]/b S/L[1]/a S/L[1]/b S/c",
    ),
    "a loop in a loop begins at 0 in each iteration of the outer": (
        loop("O", [loop("I", [a], max_iterations=2), b], max_iterations=2),
        {},
        "O[0]/I[0]/a O[0]/I[1]/a O[0]/b O[1]/I[0]/a O[1]/I[1]/a O[1]/b",
    ),
    "loops that end together end at once": (
        loop("O", [loop("M", [loop("I", [a], max_iterations=1)], max_iterations=1)], max_iterations=2),
        {},
        "O[0]/M[0]/I[0]/a O[1]/M[0]/I[0]/a",
    ),
    "a loop without bound runs until a break": (
        sequential("S", [loop("L", [a, b], max_iterations=None), c]),
        {"S/L[2]/a": "break_loop"},
        "S/L[0]/a S/L[0]/b S/L[1]/a S/L[1]/b S/L[2]/a S/c",
    ),
    "a break ends the nearest loop only": (
        loop("O", [loop("I", [a, b], max_iterations=2), c], max_iterations=2),
        {"O[0]/I[0]/a": "break_loop", "O[1]/I[1]/a": "break_loop"},
        "O[0]/I[0]/a O[0]/c O[1]/I[0]/a O[1]/I[0]/b O[1]/I[1]/a O[1]/c",
    ),
    "a break leaves the sequentials between it and its loop": (
        sequential(
            "S",
            [
                loop("L", [sequential("T", [sequential("U", [a, b]), c]), d], max_iterations=3),
                e,
            ],
        ),
        {"S/L[0]/T/U/a": "break_loop"},
        "S/L[0]/T/U/a S/e",
    ),
    "a break after an inner loop ends the outer": (
        loop("O", [loop("I", [a], max_iterations=1), b], max_iterations=3),
        {"O[1]/b": "break_loop"},
        "O[0]/I[0]/a O[0]/b O[1]/I[0]/a O[1]/b",
    ),
    "after a break of an inner loop at its end the outer goes round": (
        loop("O", [loop("I", [a], max_iterations=9)], max_iterations=2),
        {"O[0]/I[0]/a": "break_loop", "O[1]/I[1]/a": "break_loop"},
        "O[0]/I[0]/a O[1]/I[0]/a O[1]/I[1]/a",
    ),
    "a break outside every loop changes nothing": (
        sequential("S", [loop("L", [a], max_iterations=1), b, c]),
        {"S/b": "break_loop"},
        "S/L[0]/a S/b S/c",
    ),
    "a break in a branch outside every loop changes nothing": (
        parallel("P", [sequential("T", [a, b])]),
        {"P/T/a": "break_loop"},
        "P/T/a P/T/b",
    ),
    "a break in a branch ends the loop around the parallel when its siblings have ended": (
        sequential(
            "S",
            [loop("L", [parallel("P", [sequential("T", [a, b]), c]), d], max_iterations=2), e],
        ),
        {"S/L[0]/P/T/a": "break_loop"},
        "S/L[0]/P/T/a S/L[0]/P/c S/e",
    ),
    "a break of a loop inside a branch ends that loop only": (
        loop(
            "O",
            [parallel("P", [sequential("T", [loop("I", [a], max_iterations=3), b]), c]), d],
            max_iterations=1,
        ),
        {"O[0]/P/T/I[0]/a": "break_loop"},
        "O[0]/P/T/I[0]/a O[0]/P/T/b O[0]/P/c O[0]/d",
    ),
    "an exit ends everything around it": (
        sequential("S", [loop("O", [loop("I", [a, b], max_iterations=2)], max_iterations=2), c]),
        {"S/O[0]/I[1]/a": "exit"},
        "S/O[0]/I[0]/a S/O[0]/I[0]/b S/O[0]/I[1]/a",
    ),
    "an exit in a branch ends the run at the join": (
        sequential(
            "S", [parallel("P", [sequential("T", [loop("L", [a, b], max_iterations=2), c]), d]), e]
        ),
        {"S/P/T/L[0]/a": "exit"},
        "S/P/T/L[0]/a S/P/d",
    ),
    "an exit in one branch outweighs a break in another": (
        sequential("S", [loop("L", [parallel("P", [a, b])], max_iterations=2), c]),
        {"S/L[0]/P/a": "break_loop", "S/L[0]/P/b": "exit"},
        "S/L[0]/P/a S/L[0]/P/b",
    ),
}


@pytest.mark.parametrize(("agent", "signals", "visited"), RUNS.values(), ids=RUNS)
def test_a_run(agent, signals, visited):
    assert addresses(agent, signals) == visited.split()


class TestUntil:
    def test_is_asked_after_each_iteration_but_the_last_with_the_counters_of_its_loop(self):
        asked = []

        def until(loop: Place, cursor: Cursor) -> bool:
            asked.append((loop.name, cursor))
            return loop.name == "I"

        inner = loop("I", [a], max_iterations=None, until=bool)
        addresses(loop("O", [inner], max_iterations=3, until=bool), until=until)
        assert asked == [("I", (0, 0)), ("O", (0,)), ("I", (1, 0)), ("O", (1,)), ("I", (2, 0))]

    def test_ends_the_loop(self):
        agent = sequential("S", [loop("L", [a, b], max_iterations=None, until=bool), c])
        visited = addresses(agent, until=lambda loop, cursor: cursor == (1,))
        assert visited == ["S/L[0]/a", "S/L[0]/b", "S/L[1]/a", "S/L[1]/b", "S/c"]

    def test_is_not_asked_after_a_signal(self):
        def until(loop: Place, cursor: Cursor) -> bool:
            raise AssertionError("not to be asked")

        agent = loop("L", [a, b], max_iterations=3, until=bool)
        assert addresses(agent, {"L[0]/a": "break_loop"}, until) == ["L[0]/a"]
        assert addresses(agent, {"L[0]/b": "exit"}, until) == ["L[0]/a", "L[0]/b"]


class TestALane:
    def test_starts_at_the_first_stop_with_zeros_for_the_loops_that_it_enters(self):
        inner = loop("I", [a], max_iterations=2)
        tree = lay_out(sequential("S", [loop("O", [inner], max_iterations=2)]))
        assert start(tree, tree.root) == (named(tree, "a"), (0, 0), None)
        assert start(tree, named(tree, "I"), (4,)) == (named(tree, "a"), (4, 0), None)

    def test_of_a_branch_starts_with_the_counters_around_its_parallel_which_is_a_stop(self):
        inner = loop("M", [a], max_iterations=2)
        tree = lay_out(loop("L", [parallel("P", [inner])], max_iterations=2))
        assert start(tree, tree.root) == (named(tree, "P"), (0,), None)
        assert start(tree, named(tree, "M"), (1,)) == (named(tree, "a"), (1, 0), None)

    def test_ends_with_its_signal_and_the_counters_around_it(self):
        inner = loop("I", [a], max_iterations=2)
        tree = lay_out(loop("O", [parallel("P", [inner])], max_iterations=2))
        inside = named(tree, "a")
        assert advance(tree, inside, (1, 0), "exit", never) == (None, (1,), "exit")
        assert advance(tree, inside, (1, 0), "break_loop", never) == (None, (1,), None)
        assert advance(tree, inside, (1, 1), None, never) == (None, (1,), None)
        branch = lay_out(loop("O", [parallel("P", [a, b])], max_iterations=2))
        broken = advance(branch, named(branch, "a"), (1,), "break_loop", never)
        assert broken == (None, (1,), "break_loop")


class TestAJump:
    def test_keeps_the_counters_of_the_loops_that_both_places_are_in(self):
        inner, other = loop("I", [a, b], max_iterations=9), loop("J", [c], max_iterations=9)
        tree = lay_out(sequential("S", [loop("O", [inner, other, d], max_iterations=9), e]))
        jumps = {name: cursor_at(named(tree, name), named(tree, "a"), (3, 5)) for name in "abcde"}
        assert jumps == {"a": (3, 5), "b": (3, 5), "c": (3, 0), "d": (3,), "e": ()}

    def test_from_nowhere_starts_all_counters(self):
        tree = lay_out(loop("O", [loop("I", [a], max_iterations=9)], max_iterations=9))
        assert cursor_at(named(tree, "a"), None, ()) == (0, 0)


class TestATransfer:
    def test_leads_to_the_first_stop_of_a_composite(self):
        rounds = loop("L", [sequential("S", [a, b])], max_iterations=2)
        agent = group("P", rounds, parallel("B", [c, d]))
        tree, visited = transfers(agent, "L")
        assert address(*visited[1]) == "P[1]/L[0]/S/a"
        assert str(RunPaths(tree).at(*visited[1])) == "P/L/S/a"
        assert address(*transfers(agent, "B")[1][1]) == "P[2]/B"

    @pytest.mark.parametrize("names", [(), ("C",), ("C", "D"), ("C", "P")], ids=str)
    def test_an_agent_that_ends_without_one_ends_the_group(self, names):
        agent = sequential("s", [group("P", group("C", group("D"))), x])
        tree, visited = transfers(agent, *names)
        assert advance(tree, *visited[-1], None, never) == Next(named(tree, "x"), ())

    def test_is_counted_anew_in_each_iteration(self):
        tree = lay_out(loop("L", [group("P", group("C"))], max_iterations=3))
        following = transfer(tree, named(tree, "P"), (1, ()), "C")
        assert address(*following[:2]) == "L[1]/P[1]/C"
        following = advance(tree, *following[:2], None, never)
        assert address(*following[:2]) == "L[2]/P"
        path = RunPaths(tree).at(*following[:2])
        assert [step.iteration for step in path] == [None, 0, 1, 2]

    def test_may_lead_to_the_sub_agents_and_then_the_chat_agent_directly_above(self):
        below = group("C", x), sequential("S", [group("D")])
        tree = lay_out(group("P", *below, tools=[group("T", y)]))
        assert {place.name: list(targets(tree, place)) for place in tree.places} == {
            **{"P": ["C", "S"], "C": ["x", "P"], "x": ["C"], "S": ["P"], "D": []},
            **{"T": ["y"], "y": ["T"]},
        }


def ways_on(agent: Agent) -> dict[str, str]:
    """Return what may follow each stop of all lanes, `END` for the end of its lane."""
    tree = lay_out(agent)
    return {
        place.name: " ".join(
            sorted("END" if stop is None else stop.node for stop in next_stops(tree, place))
        )
        for place in tree.places
        if place.is_stop
    }


writer = chat_agent("writer", ScriptedChatModel(responses=[]))
exits, may_exit = leaf("exits", stop), leaf("may_exit", may_stop)
breaks, may_break = leaf("breaks", leave), leaf("may_break", may_leave)
free = leaf("free", anything)
# A tree, and some of its stops with all that may follow each.
DRAWN = {
    "a chain, in which functions, chat agents and humans only go on": (
        sequential("S", [a, writer, human("boss", "ok?"), b]),
        {"a": "writer", "writer": "boss", "boss": "b", "b": "END"},
    ),
    "a function that may exit": (sequential("S", [may_exit, b]), {"may_exit": "END b"}),
    "a function that always exits": (sequential("S", [exits, b]), {"exits": "END"}),
    "a function without annotation may do everything": (
        sequential("S", [loop("L", [free, b], max_iterations=2), c]),
        {"free": "END b c"},
    ),
    "a loop has a way back and a way out": (
        sequential("S", [loop("L", [a, b], max_iterations=2), c]),
        {"a": "b", "b": "a c", "c": "END"},
    ),
    "a loop of one iteration has no way back": (
        sequential("S", [loop("L", [a, b], max_iterations=1, until=bool), c]),
        {"a": "b", "b": "c", "c": "END"},
    ),
    "a loop without bound has no way out but by signal": (
        sequential("S", [loop("L", [may_break, b], max_iterations=None), c]),
        {"may_break": "b c", "b": "may_break", "c": "END"},
    ),
    "a loop that until may end has a way out": (
        sequential("S", [loop("L", [a], max_iterations=None, until=bool), c]),
        {"a": "a c"},
    ),
    "loops that end in one place have a way back each": (
        sequential("S", [loop("O", [x, loop("I", [a], max_iterations=2)], max_iterations=2), c]),
        {"a": "a c x"},
    ),
    "an inner loop without bound hides the way back of the outer": (
        sequential("S", [loop("O", [x, loop("I", [may_exit], max_iterations=None)], max_iterations=2)]),
        {"may_exit": "END may_exit"},
    ),
    "a break in an inner loop leads on in the outer": (
        loop("O", [loop("I", [breaks, b], max_iterations=2), c], max_iterations=2),
        {"breaks": "c"},
    ),
    "a break at the end of the outer goes round or out": (
        loop("O", [x, loop("I", [breaks, b], max_iterations=2)], max_iterations=2),
        {"breaks": "END x"},
    ),
    "a break at the end of an outer loop of one iteration goes out": (
        loop("O", [x, loop("I", [breaks, b], max_iterations=2)], max_iterations=1),
        {"breaks": "END"},
    ),
    "a break outside every loop goes on": (sequential("S", [breaks, b]), {"breaks": "b"}),
    "a branch ends at the end of its lane": (
        sequential("S", [parallel("P", [a, sequential("T", [b, c])]), d]),
        {"P": "d", "a": "END", "b": "c", "c": "END", "d": "END"},
    ),
    "an exit that may come out of a branch": (
        sequential("S", [parallel("P", [may_exit, b]), c]),
        {"P": "END c"},
    ),
    "a branch that always exits leaves no other way after the join": (
        sequential("S", [parallel("P", [exits, b]), c]),
        {"P": "END"},
    ),
    "a break that may come out of a branch": (
        sequential("S", [loop("L", [parallel("P", [may_break, b]), c], max_iterations=2), d]),
        {"P": "c d", "may_break": "END"},
    ),
    "a break of a loop inside a branch does not come out": (
        loop("O", [parallel("P", [loop("I", [may_break], max_iterations=2)]), c], max_iterations=2),
        {"P": "c", "c": "END P"},
    ),
    "signals come out of parallels in parallels": (
        sequential(
            "S",
            [
                loop(
                    "L", [parallel("P", [parallel("Q", [may_break, may_exit]), c]), d], max_iterations=2
                ),
                e,
            ],
        ),
        {"P": "END d e"},
    ),
    "transfers lead to sub-agents and back": (
        sequential("s", [group("P", group("C"), sequential("S", [free, x])), y]),
        {"P": "C free y", "C": "P y", "free": "END x", "x": "y", "y": "END"},
    ),
}


@pytest.mark.parametrize(("agent", "followers"), DRAWN.values(), ids=DRAWN)
def test_what_may_follow_a_stop(agent, followers):
    found = ways_on(agent)
    assert {name: found[name] for name in followers} == followers


def test_no_stop_follows_twice():
    tree = lay_out(loop("L", [loop("M", [free], max_iterations=2)], max_iterations=2))
    found = next_stops(tree, named(tree, "free"))
    assert len(found) == len(set(found))


def test_what_a_stop_may_do_is_read_from_its_annotation():
    def may_ask(ctx) -> Iterator[str | Ask]:
        yield "said"

    tree = lay_out(sequential("S", [a, leaf("f", may_ask), leaf("g", stop), human("h", "?")]))
    assert [capabilities_at(tree, stop) for stop in tree.stops(tree.root)] == [
        Capabilities(),
        Capabilities(ask=True),
        Capabilities(go_on=False, exit=True),
        Capabilities(),
    ]


LEAVES = [leaf, lambda name: leaf(name, stop), lambda name: leaf(name, may_stop)]
LEAVES += [lambda name: leaf(name, may_leave), lambda name: leaf(name, anything)]


@st.composite
def trees(draw) -> Agent:
    """Draw a tree in which every agent has a name of its own."""
    count = iter(range(1_000))

    def agent(depth: int) -> Agent:
        kind = draw(st.sampled_from(["leaf", "sequential", "parallel", "loop"] if depth else ["leaf"]))
        name = f"{kind}{next(count)}"
        if kind == "leaf":
            return draw(st.sampled_from(LEAVES))(name)
        inside = [agent(depth - 1) for _ in range(draw(st.integers(1, 3)))]
        if kind == "loop":
            return loop(name, inside, max_iterations=draw(st.integers(1, 3)))
        return (sequential if kind == "sequential" else parallel)(name, inside)

    return agent(3)


@given(trees(), st.data())
def test_a_run_takes_only_edges_that_are_drawn(agent, data):
    tree = lay_out(agent)

    def signal_of(place: Place, cursor: Cursor):
        may = capabilities_at(tree, place)
        choices = [None] * may.go_on + ["exit"] * may.exit + ["break_loop"] * may.break_loop
        return data.draw(st.sampled_from(choices))

    for place, cursor, following in walk(tree, signal_of):
        assert following.place in next_stops(tree, place)
        assert len(cursor) == len(place.counts)
        assert following.place is None or len(following.cursor) == len(following.place.counts)

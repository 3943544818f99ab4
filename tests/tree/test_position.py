"""Position: what comes next, how it is addressed, and the run path that led there."""

import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgraph import (
    Agent,
    Ask,
    BreakLoop,
    Exit,
    agent_tool,
    chat_agent,
    function_agent,
    human,
    loop,
    parallel,
    sequential,
)
from agentgraph.agents.agents import ChatAgent, LoopAgent, ParallelAgent
from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.agents.signals import Capabilities, Signal
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.addresses import Cursor, RunPaths, address, cursor_at, parse_address
from agentgraph.tree.places import Place, Tree, lay_out, targets
from agentgraph.tree.position import Next, advance, capabilities_at, next_stops, start, transfer

Ending = Callable[[Place, Cursor], Signal | None]


def say(ctx) -> str:
    return "said"


def stop(ctx) -> Exit:
    return Exit()


def may_stop(ctx) -> str | Exit:
    return Exit()


def leave(ctx) -> BreakLoop:
    return BreakLoop()


def may_leave(ctx) -> str | BreakLoop:
    return BreakLoop()


def anything(ctx):
    return None


def leaf(name: str, fn=say) -> Agent:
    return function_agent(name, fn)


a, b, c, d, e, x, y = map(leaf, "abcdexy")


class Asked:
    """Ends loops by a function, and sends agents back by another one."""

    def __init__(self, ends, repeats) -> None:
        self.ends, self.repeats = ends, repeats


def no(place: Place, cursor: Cursor) -> bool:
    return False


never = Asked(no, no)


def named(tree: Tree, name: str) -> Place:
    (place,) = (place for place in tree.places if place.name == name)
    return place


def walk(tree: Tree, signal_of: Ending, until=no) -> Iterator[tuple[Place, Cursor, Next]]:
    """Walk a tree as a run does; yield each stop that ended, and what comes behind it."""

    def lane(place: Place, cursor: Cursor):
        comes = start(tree, place, cursor)
        while comes.place is not None:
            place, cursor = comes.place, comes.cursor
            if place in tree.children:
                ended = set()
                for branch in tree.children[place]:
                    ended.add((yield from lane(branch, cursor)))
                signal = next((s for s in ("exit", "break_loop") if s in ended), None)
            else:
                signal = signal_of(place, cursor)
            comes = advance(tree, place, cursor, signal, Asked(until, no))
            yield place, cursor, comes
        return comes.signal

    yield from lane(tree.root, ())


def activations(agent: Agent, signals=None, until=no) -> tuple[Tree, list[tuple[Place, Cursor]]]:
    """Return the leaves that run, in order; `signals` says with what the one at an address ends."""
    tree = lay_out(agent)
    stops = walk(tree, lambda *leaf: (signals or {}).get(address(*leaf)), until)
    return tree, [(place, cursor) for place, cursor, _ in stops if place not in tree.children]


def addresses(agent: Agent, signals=None, until=no) -> list[str]:
    return [address(*visited) for visited in activations(agent, signals, until)[1]]


def run_paths(agent: Agent, signals=None) -> list[str]:
    tree, visited = activations(agent, signals)
    paths = RunPaths(tree)
    return [",".join(paths.at(*each).names) for each in visited]


def ways_on(agent: Agent) -> dict[str, set[str]]:
    """Return what is drawn behind each stop of all lanes, `END` for the end of its lane."""
    tree = lay_out(agent)
    return {
        place.name: {"END" if end is None else end.node for end in next_stops(tree, place)}
        for place in tree.places
        if place.is_stop
    }


def test_the_path_of_a_root_is_its_name():
    assert run_paths(a) == ["a"]


def test_in_a_sequential_earlier_siblings_stay():
    assert run_paths(sequential("S", [a, b, c])) == ["S,a", "S,a,b", "S,a,b,c"]


def test_a_sibling_stays_as_one_step_however_deep_it_went():
    inner = sequential("T", [a, parallel("P", [b, c])])
    assert run_paths(sequential("S", [inner, d]))[-1] == "S,T,d"


def test_a_loop_between_siblings_has_its_paths():
    agent = sequential("S", [x, loop("L", [a, b], max_iterations=2), y])
    assert run_paths(agent) == [
        "S,x",
        "S,x,L,a",
        "S,x,L,a,b",
        "S,x,L,a,b,a",
        "S,x,L,a,b,a,b",
        "S,x,L,y",
    ]


def test_a_sequential_in_a_loop_has_its_paths():
    agent = loop("L", [sequential("S", [a, b])], max_iterations=2)
    assert run_paths(agent) == ["L,S,a", "L,S,a,b", "L,S,S,a", "L,S,S,a,b"]


def test_plan_and_execute_have_their_paths():
    planner, executor, replanner = map(leaf, ("planner", "executor", "replanner"))
    agent = sequential("pe", [planner, loop("execute", [executor, replanner], max_iterations=2)])
    assert run_paths(agent) == [
        "pe,planner",
        "pe,planner,execute,executor",
        "pe,planner,execute,executor,replanner",
        "pe,planner,execute,executor,replanner,executor",
        "pe,planner,execute,executor,replanner,executor,replanner",
    ]


def test_a_branch_has_only_itself_behind_the_path_of_its_parallel():
    agent = sequential("S", [x, parallel("P", [a, sequential("T", [b, c])]), y])
    assert run_paths(agent) == ["S,x", "S,x,P,a", "S,x,P,T,b", "S,x,P,T,b,c", "S,x,P,y"]


def test_a_parallel_in_a_loop_is_one_step_of_each_iteration():
    agent = loop("L", [a, parallel("P", [b, c])], max_iterations=2)
    assert run_paths(agent) == ["L,a", "L,a,P,b", "L,a,P,c", "L,a,P,a", "L,a,P,a,P,b", "L,a,P,a,P,c"]


def test_a_loop_in_a_loop_begins_anew_in_each_iteration_of_the_outer():
    agent = loop("O", [loop("I", [a], max_iterations=2), b], max_iterations=2)
    assert run_paths(agent) == [
        "O,I,a",
        "O,I,a,a",
        "O,I,b",
        "O,I,b,I,a",
        "O,I,b,I,a,a",
        "O,I,b,I,b",
    ]


def test_an_agent_in_two_places_is_in_the_path_at_each():
    assert run_paths(sequential("S", [a, sequential("T", [a, a])])) == ["S,a", "S,a,T,a", "S,a,T,a,a"]


def test_after_a_break_the_loop_is_one_step():
    agent = sequential("S", [loop("L", [a, b], max_iterations=3), c])
    assert run_paths(agent, {"S/L[1]/a": "break_loop"})[-2:] == ["S,L,a,b,a", "S,L,c"]


def test_a_step_carries_the_iteration_of_the_nearest_loop():
    agent = sequential("S", [x, loop("L", [a, sequential("T", [b])], max_iterations=2), y])
    tree = lay_out(agent)
    paths = RunPaths(tree)
    assert tuple(paths.at(named(tree, "b"), (1,))) == (
        RunStep("S"),
        RunStep("x"),
        RunStep("L"),
        RunStep("a", 0),
        RunStep("T", 0),
        RunStep("a", 1),
        RunStep("T", 1),
        RunStep("b", 1),
    )
    assert paths.at(named(tree, "y"), ())[-1] == RunStep("y", None)


def test_a_loop_in_a_loop_carries_the_iteration_of_the_outer_its_body_that_of_its_own():
    tree = lay_out(loop("O", [loop("I", [a], max_iterations=2)], max_iterations=3))
    assert tuple(RunPaths(tree).at(named(tree, "a"), (2, 1))) == (
        RunStep("O"),
        RunStep("I", 0),
        RunStep("I", 1),
        RunStep("I", 2),
        RunStep("a", 0),
        RunStep("a", 1),
    )


def test_run_paths_are_the_same_in_whatever_order_they_are_asked_for():
    agent = loop("O", [x, loop("I", [a, b], max_iterations=3), y], max_iterations=3)
    tree, visited = activations(agent)
    forwards, backwards = RunPaths(tree), RunPaths(tree)
    expected = [forwards.at(*each) for each in visited]
    assert [backwards.at(*each) for each in reversed(visited)] == expected[::-1]
    assert [RunPaths(tree).at(*each) for each in visited] == expected


def test_each_activation_of_a_run_has_a_path_of_its_own():
    agent = loop("O", [x, loop("I", [a, parallel("P", [b, c])], max_iterations=3), y], max_iterations=3)
    tree, visited = activations(agent)
    paths = RunPaths(tree)
    assert len({paths.at(*each) for each in visited}) == len(visited) == 33


def test_the_path_of_an_address_is_that_of_the_activation():
    tree, visited = activations(
        sequential("S", [loop("L", [a, a, parallel("P", [b, c])], max_iterations=2)])
    )
    paths = RunPaths(tree)
    assert all(paths.of(address(*each)) == paths.at(*each) for each in visited)
    assert paths.of("S/L[0]/z") is None
    assert paths.of("S") == RunPath([RunStep("S")])


def test_the_paths_of_a_long_loop_share_their_beginnings():
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


def test_a_lane_starts_at_the_first_stop_with_zeros_for_the_loops_that_it_enters():
    tree = lay_out(sequential("S", [loop("O", [loop("I", [a], max_iterations=2)], max_iterations=2)]))
    assert start(tree, tree.root) == (named(tree, "a"), (0, 0), None)
    assert start(tree, named(tree, "I"), (4,)) == (named(tree, "a"), (4, 0), None)


def test_a_parallel_is_a_stop_and_its_branches_start_with_the_counters_around_it():
    tree = lay_out(loop("L", [parallel("P", [loop("M", [a], max_iterations=2)])], max_iterations=2))
    assert start(tree, tree.root) == (named(tree, "P"), (0,), None)
    assert start(tree, named(tree, "M"), (1,)) == (named(tree, "a"), (1, 0), None)


def test_a_sequential_runs_its_sub_agents_in_order_and_then_ends():
    assert addresses(sequential("S", [a, b, c])) == ["S/a", "S/b", "S/c"]


def test_a_loop_goes_round_as_often_as_it_may():
    assert addresses(loop("L", [a, b], max_iterations=2)) == ["L[0]/a", "L[0]/b", "L[1]/a", "L[1]/b"]


def test_what_follows_a_loop_has_no_counter_of_it():
    assert addresses(sequential("S", [loop("L", [a], max_iterations=2), b])) == [
        "S/L[0]/a",
        "S/L[1]/a",
        "S/b",
    ]


def test_loops_in_loops_count_apart():
    inner = loop("I", [a], max_iterations=2)
    assert addresses(loop("O", [inner, b], max_iterations=2)) == [
        "O[0]/I[0]/a",
        "O[0]/I[1]/a",
        "O[0]/b",
        "O[1]/I[0]/a",
        "O[1]/I[1]/a",
        "O[1]/b",
    ]


def test_loops_that_end_together_end_at_once():
    agent = loop(
        "O", [loop("M", [loop("I", [a], max_iterations=1)], max_iterations=1)], max_iterations=2
    )
    assert addresses(agent) == ["O[0]/M[0]/I[0]/a", "O[1]/M[0]/I[0]/a"]


def test_a_loop_without_bound_goes_round_until_something_ends_it():
    agent = sequential("S", [loop("L", [a, b], max_iterations=None), c])
    assert addresses(agent, {"S/L[7]/a": "break_loop"})[-3:] == ["S/L[6]/b", "S/L[7]/a", "S/c"]


def test_until_is_asked_behind_each_iteration_but_the_last():
    asked = []

    def until(loop: Place, cursor: Cursor) -> bool:
        asked.append((loop.name, cursor))
        return False

    addresses(loop("L", [a, b], max_iterations=3, until=bool), until=until)
    assert asked == [("L", (0,)), ("L", (1,))]


def test_a_loop_ends_when_until_says_yes():
    def until(loop: Place, cursor: Cursor) -> bool:
        return cursor == (1,)

    agent = sequential("S", [loop("L", [a, b], max_iterations=None, until=bool), c])
    assert addresses(agent, until=until) == ["S/L[0]/a", "S/L[0]/b", "S/L[1]/a", "S/L[1]/b", "S/c"]


def test_until_is_asked_of_the_inner_loop_with_the_counters_of_both():
    asked = []

    def until(loop: Place, cursor: Cursor) -> bool:
        asked.append((loop.name, cursor))
        return loop.name == "I" or cursor == (1,)

    inner = loop("I", [a], max_iterations=None, until=bool)
    addresses(loop("O", [inner], max_iterations=None, until=bool), until=until)
    assert asked == [("I", (0, 0)), ("O", (0,)), ("I", (1, 0)), ("O", (1,))]


def test_until_is_not_asked_where_the_iteration_was_broken_off():
    def until(loop: Place, cursor: Cursor) -> bool:
        raise AssertionError("not to be asked")

    agent = loop("L", [a, b], max_iterations=3, until=bool)
    assert addresses(agent, {"L[0]/a": "break_loop"}, until) == ["L[0]/a"]
    assert addresses(agent, {"L[0]/b": "exit"}, until) == ["L[0]/a", "L[0]/b"]


def test_a_break_ends_the_nearest_loop_only():
    agent = loop("O", [loop("I", [a, b], max_iterations=2), c], max_iterations=2)
    assert addresses(agent, {"O[0]/I[0]/a": "break_loop", "O[1]/I[1]/a": "break_loop"}) == [
        "O[0]/I[0]/a",
        "O[0]/c",
        "O[1]/I[0]/a",
        "O[1]/I[0]/b",
        "O[1]/I[1]/a",
        "O[1]/c",
    ]


def test_a_break_leaves_the_sequentials_between_it_and_its_loop():
    body = sequential("T", [sequential("U", [a, b]), c])
    agent = sequential("S", [loop("L", [body, d], max_iterations=3), e])
    assert addresses(agent, {"S/L[0]/T/U/a": "break_loop"}) == ["S/L[0]/T/U/a", "S/e"]


def test_a_break_behind_an_inner_loop_ends_the_outer():
    agent = loop("O", [loop("I", [a], max_iterations=1), b], max_iterations=3)
    assert addresses(agent, {"O[1]/b": "break_loop"})[-1] == "O[1]/b"


def test_a_break_in_the_last_place_of_an_inner_loop_lets_the_outer_go_round():
    agent = loop("O", [loop("I", [a], max_iterations=9)], max_iterations=2)
    assert addresses(agent, {"O[0]/I[0]/a": "break_loop", "O[1]/I[1]/a": "break_loop"}) == [
        "O[0]/I[0]/a",
        "O[1]/I[0]/a",
        "O[1]/I[1]/a",
    ]


def test_a_break_outside_every_loop_changes_nothing():
    assert addresses(sequential("S", [a, b]), {"S/a": "break_loop"}) == ["S/a", "S/b"]
    assert addresses(parallel("P", [sequential("T", [a, b])]), {"P/T/a": "break_loop"}) == [
        "P/T/a",
        "P/T/b",
    ]


def test_a_break_behind_a_loop_is_outside_of_it():
    agent = sequential("S", [loop("L", [a], max_iterations=1), b, c])
    assert addresses(agent, {"S/b": "break_loop"}) == ["S/L[0]/a", "S/b", "S/c"]


def test_a_break_in_a_branch_ends_the_loop_around_the_parallel_when_its_siblings_have_finished():
    body = parallel("P", [sequential("T", [a, b]), c])
    agent = sequential("S", [loop("L", [body, d], max_iterations=2), e])
    assert addresses(agent, {"S/L[0]/P/T/a": "break_loop"}) == ["S/L[0]/P/T/a", "S/L[0]/P/c", "S/e"]


def test_a_break_in_a_loop_of_a_branch_ends_that_loop_only():
    branch = sequential("T", [loop("I", [a], max_iterations=3), b])
    agent = loop("O", [parallel("P", [branch, c]), d], max_iterations=1)
    assert addresses(agent, {"O[0]/P/T/I[0]/a": "break_loop"}) == [
        "O[0]/P/T/I[0]/a",
        "O[0]/P/T/b",
        "O[0]/P/c",
        "O[0]/d",
    ]


def test_an_exit_ends_everything_around_it():
    agent = sequential("S", [loop("O", [loop("I", [a, b], max_iterations=2)], max_iterations=2), c])
    assert addresses(agent, {"S/O[0]/I[1]/a": "exit"}) == [
        "S/O[0]/I[0]/a",
        "S/O[0]/I[0]/b",
        "S/O[0]/I[1]/a",
    ]


def test_an_exit_in_a_branch_ends_the_run_at_the_join():
    branch = sequential("T", [loop("L", [a, b], max_iterations=2), c])
    agent = sequential("S", [parallel("P", [branch, d]), e])
    assert addresses(agent, {"S/P/T/L[0]/a": "exit"}) == ["S/P/T/L[0]/a", "S/P/d"]


def test_an_exit_in_one_branch_weighs_more_than_a_break_in_another():
    agent = sequential("S", [loop("L", [parallel("P", [a, b])], max_iterations=2), c])
    assert addresses(agent, {"S/L[0]/P/a": "break_loop", "S/L[0]/P/b": "exit"}) == [
        "S/L[0]/P/a",
        "S/L[0]/P/b",
    ]


def test_a_lane_that_ends_hands_on_its_signal_with_the_counters_around_it():
    tree = lay_out(loop("O", [parallel("P", [loop("I", [a], max_iterations=2)])], max_iterations=2))
    inside = named(tree, "a")
    assert advance(tree, inside, (1, 0), "exit", never) == (None, (1,), "exit")
    assert advance(tree, inside, (1, 0), "break_loop", never) == (None, (1,), None)
    assert advance(tree, inside, (1, 1), None, never) == (None, (1,), None)
    branch = lay_out(loop("O", [parallel("P", [a, b])], max_iterations=2))
    assert advance(branch, named(branch, "a"), (1,), "break_loop", never) == (None, (1,), "break_loop")


def test_a_sequential_is_drawn_as_a_chain():
    assert ways_on(sequential("S", [a, b, c])) == {"a": {"b"}, "b": {"c"}, "c": {"END"}}


def test_a_function_that_only_speaks_has_no_exit():
    assert ways_on(sequential("S", [a, b]))["a"] == {"b"}


def test_a_function_that_may_exit_has_an_edge_to_the_end():
    assert ways_on(sequential("S", [leaf("a", may_stop), b]))["a"] == {"b", "END"}


def test_a_function_that_always_exits_has_no_other_edge():
    assert ways_on(sequential("S", [leaf("a", stop), b]))["a"] == {"END"}


def test_a_function_that_says_nothing_of_itself_may_do_everything():
    agent = sequential("S", [loop("L", [leaf("a", anything), b], max_iterations=2), c])
    assert ways_on(agent)["a"] == {"b", "c", "END"}


def test_chat_agents_and_humans_only_go_on():
    chat = chat_agent("writer", ScriptedChatModel(responses=[]))
    assert ways_on(sequential("S", [chat, human("boss", "ok?"), a])) == {
        "writer": {"boss"},
        "boss": {"a"},
        "a": {"END"},
    }


def test_a_loop_has_a_way_back_and_a_way_out():
    agent = sequential("S", [loop("L", [a, b], max_iterations=2), c])
    assert ways_on(agent) == {"a": {"b"}, "b": {"a", "c"}, "c": {"END"}}


def test_a_loop_of_one_iteration_has_no_way_back():
    agent = sequential("S", [loop("L", [a, b], max_iterations=1, until=bool), c])
    assert ways_on(agent) == {"a": {"b"}, "b": {"c"}, "c": {"END"}}


def test_a_loop_without_bound_has_no_way_out_but_by_signal():
    agent = sequential("S", [loop("L", [leaf("a", may_leave), b], max_iterations=None), c])
    assert ways_on(agent) == {"a": {"b", "c"}, "b": {"a"}, "c": {"END"}}


def test_a_loop_that_until_may_end_has_a_way_out():
    agent = sequential("S", [loop("L", [a], max_iterations=None, until=bool), c])
    assert ways_on(agent)["a"] == {"a", "c"}


def test_loops_that_end_in_one_place_have_a_way_back_each():
    agent = sequential("S", [loop("O", [x, loop("I", [a], max_iterations=2)], max_iterations=2), c])
    assert ways_on(agent)["a"] == {"a", "x", "c"}


def test_an_inner_loop_without_bound_hides_the_way_back_of_the_outer():
    inner = loop("I", [leaf("a", may_stop)], max_iterations=None)
    assert ways_on(sequential("S", [loop("O", [x, inner], max_iterations=2), c]))["a"] == {"a", "END"}


def test_a_break_in_an_inner_loop_goes_on_in_the_outer():
    inner = loop("I", [leaf("a", leave), b], max_iterations=2)
    assert ways_on(loop("O", [inner, c], max_iterations=2))["a"] == {"c"}
    assert ways_on(loop("O", [x, inner], max_iterations=2))["a"] == {"x", "END"}
    assert ways_on(loop("O", [x, inner], max_iterations=1))["a"] == {"END"}


def test_a_break_outside_every_loop_is_drawn_as_going_on():
    assert ways_on(sequential("S", [leaf("a", leave), b]))["a"] == {"b"}


def test_a_branch_ends_at_the_end_of_its_lane():
    assert ways_on(sequential("S", [parallel("P", [a, sequential("T", [b, c])]), d])) == {
        "P": {"d"},
        "a": {"END"},
        "b": {"c"},
        "c": {"END"},
        "d": {"END"},
    }


def test_a_signal_that_may_come_out_of_a_branch_is_drawn_behind_the_join():
    assert ways_on(sequential("S", [parallel("P", [leaf("a", may_stop), b]), c]))["P"] == {"c", "END"}
    looped = loop("L", [parallel("P", [leaf("a", may_leave), b]), c], max_iterations=2)
    assert ways_on(sequential("S", [looped, d]))["P"] == {"c", "d"}
    assert ways_on(sequential("S", [looped, d]))["a"] == {"END"}


def test_a_break_for_a_loop_inside_a_branch_is_not_drawn_behind_the_join():
    branch = loop("I", [leaf("a", may_leave)], max_iterations=2)
    agent = sequential("S", [loop("O", [parallel("P", [branch]), c], max_iterations=2), d])
    assert ways_on(agent)["P"] == {"c"}


def test_signals_come_out_of_parallels_in_parallels():
    inner = parallel("Q", [leaf("a", may_leave), leaf("b", may_stop)])
    agent = sequential("S", [loop("L", [parallel("P", [inner, c]), d], max_iterations=2), e])
    assert ways_on(agent)["P"] == {"d", "e", "END"}


def test_a_branch_that_always_exits_leaves_no_other_edge_behind_the_join():
    agent = sequential("S", [parallel("P", [leaf("a", stop), b]), c])
    assert ways_on(agent)["P"] == {"END"}


def test_no_end_is_named_twice():
    agent = loop("L", [loop("M", [leaf("a", anything)], max_iterations=2)], max_iterations=2)
    tree = lay_out(agent)
    found = next_stops(tree, named(tree, "a"))
    assert len(found) == len(set(found))


def test_what_an_agent_may_do_is_read_off_its_annotation():
    def may_ask(ctx) -> Iterator[str | Ask]:
        yield "said"

    tree = lay_out(sequential("S", [a, leaf("f", may_ask), leaf("g", stop), human("h", "?")]))
    assert [capabilities_at(tree, stop) for stop in tree.stops(tree.root)] == [
        Capabilities(),
        Capabilities(ask=True),
        Capabilities(go_on=False, exit=True),
        Capabilities(),
    ]


def test_an_address_names_the_way_with_the_iteration_of_each_loop():
    tree = lay_out(
        sequential("report", [loop("refine", [sequential("step", [leaf("critic")])], max_iterations=2)])
    )
    assert address(tree.root, ()) == "report"
    assert address(named(tree, "refine"), ()) == "report/refine"
    assert address(named(tree, "step"), (1,)) == "report/refine[1]/step"
    assert address(named(tree, "critic"), (1,)) == "report/refine[1]/step/critic"


def test_a_second_occurrence_is_addressed_by_its_number():
    inner = loop("L", [a, a], max_iterations=2)
    assert addresses(sequential("S", [inner, inner]))[-2:] == ["S/L#2[1]/a", "S/L#2[1]/a#2"]


def test_an_address_is_read_back_as_the_place_and_the_cursor():
    tree, visited = activations(
        loop("O", [x, parallel("P", [loop("I", [a, a], max_iterations=2), b])], max_iterations=2)
    )
    assert all(parse_address(tree, address(*each)) == each for each in visited)
    assert parse_address(tree, "O") == (tree.root, ())
    assert parse_address(tree, "O[3]/P/I") == (named(tree, "I"), (3,))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "S/",
        "/S",
        "T",
        "S/z",
        "S/L[0]/a/a",
        "S/L/a",
        "S/L[0]",
        "S/L[]/a",
        "S/L[-1]/a",
        "S/L[x]/a",
        "S/L[0][0]/a",
        "S/L[0]/a[0]",
        "S[0]/x",
        "S[0]/L[0]/a",
        "S[1]/L/a",
        "S/L/a[1]",
        "S/L#2[0]/a",
        "s/x",
        "S/ x",
    ],
)
def test_an_address_that_the_tree_does_not_have_is_none(text):
    tree = lay_out(sequential("S", [x, loop("L", [a], max_iterations=2)]))
    assert parse_address(tree, text) is None
    assert RunPaths(tree).of(text) is None


def test_a_jump_keeps_the_counters_of_the_loops_that_both_places_are_in():
    inner = loop("I", [a, b], max_iterations=9)
    other = loop("J", [c], max_iterations=9)
    tree = lay_out(sequential("S", [loop("O", [inner, other, d], max_iterations=9), e]))
    left, cursor = named(tree, "a"), (3, 5)
    jumps = {name: cursor_at(named(tree, name), left, cursor) for name in "abcde"}
    assert jumps == {"a": (3, 5), "b": (3, 5), "c": (3, 0), "d": (3,), "e": ()}


def test_a_jump_from_nowhere_starts_all_counters():
    tree = lay_out(loop("O", [loop("I", [a], max_iterations=9)], max_iterations=9))
    assert cursor_at(named(tree, "a"), None, ()) == (0, 0)


LEAVES = {"say": say, "stop": stop, "may_stop": may_stop, "may_leave": may_leave, "any": anything}


@st.composite
def trees(draw) -> Agent:
    """Draw a tree in which every agent has a name of its own."""
    count = iter(range(1_000))

    def agent(depth: int) -> Agent:
        kind = draw(st.sampled_from(["leaf", "sequential", "parallel", "loop"] if depth else ["leaf"]))
        name = f"{kind}{next(count)}"
        if kind == "leaf":
            return leaf(name, LEAVES[draw(st.sampled_from(sorted(LEAVES)))])
        inside = [agent(depth - 1) for _ in range(draw(st.integers(1, 3)))]
        if kind == "loop":
            return loop(name, inside, max_iterations=draw(st.integers(1, 3)))
        return (sequential if kind == "sequential" else parallel)(name, inside)

    return agent(3)


@given(trees(), st.data())
def test_a_run_takes_only_edges_that_are_drawn(agent, data):
    tree = lay_out(agent)

    def signal_of(place: Place, cursor: Cursor):
        capabilities = capabilities_at(tree, place)
        choices = (
            [None] * capabilities.go_on
            + ["exit"] * capabilities.exit
            + ["break_loop"] * capabilities.break_loop
        )
        return data.draw(st.sampled_from(choices))

    for place, cursor, comes in walk(tree, signal_of):
        assert comes.place in next_stops(tree, place)
        assert len(cursor) == len(place.counts)
        assert comes.place is None or len(comes.cursor) == len(comes.place.counts)


@given(trees())
def test_every_address_of_a_run_is_unique_and_read_back(agent):
    tree, visited = activations(agent)
    told = [address(*each) for each in visited]
    assert len(set(told)) == len(told)
    assert [parse_address(tree, text) for text in told] == visited


def group(name: str, *sub_agents: Agent, tools=()) -> Agent:
    model = ScriptedChatModel(responses=[])
    return chat_agent(name, model, sub_agents=sub_agents, tools=[agent_tool(tool) for tool in tools])


def transfers(agent: Agent, *names: str) -> tuple[Tree, list[tuple[Place, Cursor]]]:
    """Return the activations of a run in which each agent transfers to the next of `names`."""
    tree = lay_out(agent)
    comes = start(tree, tree.root)
    visited = [(comes.place, comes.cursor)]
    for name in names:
        comes = transfer(tree, *visited[-1], name)
        visited.append((comes.place, comes.cursor))
    return tree, visited


def test_a_transfer_to_a_child_and_back_is_counted_at_the_agent_where_transfers_begin():
    triage = group("triage", group("bills"), group("press"))
    tree, visited = transfers(triage, "bills", "triage", "press", "triage", "press")
    assert [address(*each) for each in visited] == [
        "triage",
        "triage[1]/bills",
        "triage[1.0]",
        "triage[1.0.2]/press",
        "triage[1.0.2.0]",
        "triage[1.0.2.0.2]/press",
    ]
    paths = RunPaths(tree)
    assert [str(paths.at(*each)) for each in visited] == [
        "triage",
        "triage/bills",
        "triage/bills/triage",
        "triage/bills/triage/press",
        "triage/bills/triage/press/triage",
        "triage/bills/triage/press/triage/press",
    ]


def test_all_transfers_below_one_agent_are_one_list_of_hops():
    tree, visited = transfers(group("P", group("B"), group("C", group("D"))), *"CDCDCPB")
    assert [address(*each) for each in visited] == [
        "P",
        "P[2]/C",
        "P[2.1]/C/D",
        "P[2.1.0]/C",
        "P[2.1.0.1]/C/D",
        "P[2.1.0.1.0]/C",
        "P[2.1.0.1.0.0]",
        "P[2.1.0.1.0.0.1]/B",
    ]
    paths = [RunPaths(tree).at(*each).names for each in visited]
    assert paths == [tuple("PCDCDCPB")[: i + 1] for i in range(8)]


def test_a_group_in_a_composite_or_as_a_tool_counts_its_transfers_apart():
    inner = group("Q", group("R"))
    tree, visited = transfers(
        group("P", sequential("S", [inner]), tools=[group("T", x)]), "S", "R", "Q"
    )
    assert [address(*each) for each in visited] == [
        "P",
        "P[1]/S/Q",
        "P[1]/S/Q[1]/R",
        "P[1]/S/Q[1.0]",
    ]
    assert str(RunPaths(tree).at(*visited[-1])) == "P/S/Q/R/Q"
    assert address(named(tree, "x"), ((1, 0), 3, (1,))) == "P[1.0]/T(3)[1]/x"


def test_a_transfer_leads_to_the_first_stop_of_a_composite():
    rounds = loop("L", [sequential("S", [a, b])], max_iterations=2)
    both = parallel("B", [c, d])
    tree, visited = transfers(group("P", rounds, both), "L")
    assert address(*visited[1]) == "P[1]/L[0]/S/a"
    assert str(RunPaths(tree).at(*visited[1])) == "P/L/S/a"
    tree, visited = transfers(group("P", rounds, both), "B")
    assert address(*visited[1]) == "P[2]/B"


def test_an_agent_that_ends_without_a_transfer_ends_the_group():
    tree = lay_out(sequential("s", [group("P", group("C", group("D"))), x]))
    for names in ((), ("C",), ("C", "D"), ("C", "P")):
        comes = start(tree, tree.root)
        for name in names:
            comes = transfer(tree, comes.place, comes.cursor, name)
        assert advance(tree, comes.place, comes.cursor, None, never) == Next(named(tree, "x"), ())


def test_a_group_in_a_loop_counts_its_transfers_anew():
    tree = lay_out(loop("L", [group("P", group("C"))], max_iterations=3))
    comes = transfer(tree, named(tree, "P"), (1, ()), "C")
    assert address(comes.place, comes.cursor) == "L[1]/P[1]/C"
    comes = advance(tree, comes.place, comes.cursor, None, never)
    assert address(comes.place, comes.cursor) == "L[2]/P"
    assert [step.iteration for step in RunPaths(tree).at(comes.place, comes.cursor)] == [None, 0, 1, 2]


def test_the_targets_of_a_place_are_its_sub_agents_and_then_the_chat_agent_above():
    tree = lay_out(group("P", group("C", x), sequential("S", [group("D")]), tools=[group("T")]))
    assert {place.name: list(targets(tree, place)) for place in tree.places} == {
        "P": ["C", "S"],
        "C": ["x", "P"],
        "x": ["C"],
        "S": ["P"],
        "D": [],
        "T": [],
    }


def test_what_can_follow_a_transfer_is_drawn():
    tree = group("P", group("C"), sequential("S", [leaf("back", anything), x]))
    assert ways_on(sequential("s", [tree, y])) == {
        "P": {"C", "back", "y"},
        "C": {"P", "y"},
        "back": {"x", "END"},
        "x": {"y"},
        "y": {"END"},
    }


def test_the_addresses_of_agents_as_tools_name_the_call():
    inner = loop("search", [group("find", group("deep"), tools=[y])], max_iterations=2)
    tree = lay_out(sequential("s", [group("writer", tools=[inner])]))
    place = named(tree, "deep")
    assert address(place, (3, 1, (1,))) == "s/writer/search(3)[1]/find[1]/deep"
    assert str(RunPaths(tree).at(place, (3, 1, (1,)))) == "s/writer/search/find/find/deep"
    assert address(named(tree, "y"), (3, 1, (1, 0), 7)) == "s/writer/search(3)[1]/find[1.0]/y(7)"
    assert str(RunPaths(tree).at(named(tree, "y"), (3, 1, (1, 0), 7))) == (
        "s/writer/search/find/find/deep/find/y"
    )


@pytest.mark.parametrize(
    "text",
    [
        "triage",
        "triage[1]/bills",
        "triage[1.0]",
        "triage[1.0.1]/bills",
        "triage[2.1]/more/deep",
        "triage[2.1.0]/more",
        "triage[1.0.2.1.0.0]",
        "triage[2.1]/more/deep/search(3)",
        "triage[3]/rounds[4]/a",
        "triage/search(0)",
        "triage[1.0]/search(12)",
        "triage[2.0.2]/more/search(2)",
    ],
)
def test_an_address_with_transfers_and_calls_is_read_back(text):
    search = leaf("search")
    more = group("more", group("deep", tools=[search]), tools=[search])
    rounds = loop("rounds", [a], max_iterations=9)
    tree = lay_out(group("triage", group("bills"), more, rounds, tools=[search]))
    place, cursor = parse_address(tree, text)
    assert address(place, cursor) == text
    assert RunPaths(tree).of(text) == RunPaths(tree).at(place, cursor)
    assert RunPaths(tree).of(text).names[-1] == place.name


@pytest.mark.parametrize(
    "text",
    [
        "triage/bills",
        "triage[1]",
        "triage[0]",
        "triage[2]/bills",
        "triage[1.0]/bills",
        "triage[3]",
        "triage[3.0]",
        "triage[1]/bills[1]",
        "triage[1.]/bills",
        "triage[.1]/bills",
        "triage[1,0]",
        "triage[01.x]",
        "triage/search",
        "triage/search()",
        "triage/search(-1)",
        "triage(0)",
        "triage[1]/bills(0)",
        "triage[1]/bills/search(0)",
        "triage[1]/search(0)",
        "triage/search(0)[0]",
    ],
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
    """Walk a tree as a run does; yield the leaves. Lanes run one after the other."""

    def lane(place: Place, cursor: Cursor):
        comes = start(tree, place, cursor)
        while comes.place is not None:
            place, cursor = comes.place, comes.cursor
            target = None
            if isinstance(place.agent, ParallelAgent):
                for branch in tree.children[place]:
                    yield from lane(branch, cursor)
            else:
                yield place, cursor
                target = choose(list(targets(tree, place)))
            comes = (
                transfer(tree, place, cursor, target)
                if target
                else advance(tree, place, cursor, None, never)
            )
            assert comes.place in next_stops(tree, place)

    yield from lane(tree.root, ())


def reference(agent: Agent, path: list[str], above: str | None, choose: Choose):
    """Run an agent by the table of run paths alone, and yield them.

    Return the name of the agent above, if it transfers there, and its own last path.
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
    told = [address(*each) for each in visited]
    assert len(set(told)) == len(told)
    assert [parse_address(tree, text) for text in told] == visited
    again = iter(chosen)
    paths = list(reference(agent, [agent.name], None, lambda names: next(again)))
    assert [list(RunPaths(tree).of(text).names) for text in told] == paths
    assert next(again, "none") == "none"

"""Places that a check may send back, and sub-agents that hand back, as pure functions."""

from dataclasses import replace

from agentgraph.agents.agents import Agent, CheckedAgent
from agentgraph.agents.builders import agent_tool, chat_agent, function_agent
from agentgraph.agents.composites import loop, parallel, sequential, step, workflow
from agentgraph.agents.signals import CheckResult
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.addresses import RunPaths, address, attempts, is_inside, parse_address, settled
from agentgraph.tree.places import Place, Tree, lay_out
from agentgraph.tree.position import (
    Next,
    advance,
    capabilities_at,
    earlier_cursors,
    next_stops,
    start,
    transfer,
)


def say(ctx) -> str:
    return "said"


def leaf(name: str) -> Agent:
    return function_agent(name, say)


def chat(name: str, *sub_agents: Agent, returns: bool = True) -> Agent:
    model = ScriptedChatModel(responses=[])
    return chat_agent(name, model, sub_agents=sub_agents, sub_agents_return=returns)


def checked(agent: Agent) -> CheckedAgent:
    return CheckedAgent(agent=agent, check=lambda ctx, said, attempt: CheckResult(), repeats=True)


class Sends:
    """Sends places back as often as it is told, by their names; no loop ends by it."""

    def __init__(self, **times: int) -> None:
        self.times = times

    def ends(self, place: Place, cursor) -> bool:
        return False

    def repeats(self, place: Place, cursor) -> bool:
        self.times[place.name] = self.times.get(place.name, 0) - 1
        return self.times[place.name] >= 0


def named(tree: Tree, name: str) -> Place:
    (place,) = (place for place in tree.places if place.name == name)
    return place


def walked(agent: Agent, **times: int) -> list[str]:
    """Return the addresses that a run visits, with the names of their run paths."""
    tree, sends, told = lay_out(agent), Sends(**times), []
    paths = RunPaths(tree)
    comes = start(tree, tree.root)
    while comes.place is not None:
        told.append(f"{address(comes.place, comes.cursor)} {paths.at(comes.place, comes.cursor)}")
        assert parse_address(tree, told[-1].split()[0]) == (comes.place, comes.cursor)
        comes = advance(tree, comes.place, comes.cursor, None, sends)
    return told


def test_each_attempt_has_an_address_and_adds_a_step_to_the_path():
    assert walked(sequential("s", [checked(leaf("a")), leaf("b")]), a=2) == [
        "s/a s/a",
        "s/a{1} s/a/a",
        "s/a{2} s/a/a/a",
        "s/b s/a/b",
    ]


def test_the_root_may_be_sent_back():
    assert walked(checked(leaf("a")), a=1) == ["a a", "a{1} a/a"]


def test_a_composite_begins_again_with_its_first_leaf_and_its_counters_at_zero():
    body = checked(loop("l", [leaf("a"), checked(leaf("b"))], max_iterations=2))
    assert walked(sequential("s", [body]), l=1, b=1) == [
        "s/l[0]/a s/l/a",
        "s/l[0]/b s/l/a/b",
        "s/l[0]/b{1} s/l/a/b/b",
        "s/l[1]/a s/l/a/b/a",
        "s/l[1]/b s/l/a/b/a/b",
        "s/l{1}[0]/a s/l/l/a",
        "s/l{1}[0]/b s/l/l/a/b",
        "s/l{1}[1]/a s/l/l/a/b/a",
        "s/l{1}[1]/b s/l/l/a/b/a/b",
    ]


def test_each_iteration_counts_attempts_anew():
    assert walked(loop("l", [checked(leaf("a"))], max_iterations=2), a=1) == [
        "l[0]/a l/a",
        "l[0]/a{1} l/a/a",
        "l[1]/a l/a/a",
    ]


def test_the_lane_of_a_branch_and_of_a_tool_counts_its_own_attempts():
    tree = lay_out(
        sequential(
            "s",
            [
                parallel("p", [checked(leaf("a"))]),
                replace(chat("c"), tools=(agent_tool(checked(leaf("t"))),)),
            ],
        )
    )
    assert start(tree, named(tree, "a")) == Next(named(tree, "a"), (0,))
    again = advance(tree, named(tree, "a"), (0,), None, Sends(a=1))
    assert address(again.place, again.cursor) == "s/p/a{1}"
    again = advance(tree, named(tree, "t"), (3, 0), None, Sends(t=1))
    assert address(again.place, again.cursor) == "s/c/t(3){1}"
    assert parse_address(tree, "s/c/t(3){1}") == (named(tree, "t"), (3, 1))
    assert advance(tree, named(tree, "t"), (3, 1), None, Sends()).place is None


def test_a_signal_is_not_checked():
    tree = lay_out(loop("l", [checked(leaf("a")), leaf("b")], max_iterations=2))
    assert advance(tree, named(tree, "a"), (0, 0), "break_loop", Sends(a=9)).place is None
    assert advance(tree, named(tree, "a"), (0, 0), "exit", Sends(a=9)).signal == "exit"


def test_an_address_with_an_attempt_where_none_is_counted_is_none():
    tree = lay_out(sequential("s", [leaf("a"), checked(leaf("b"))]))
    assert parse_address(tree, "s/a{1}") is None
    assert parse_address(tree, "s/b{1}") == (named(tree, "b"), (1,))
    assert parse_address(tree, "s/b{x}") is None


def test_the_way_back_is_drawn():
    tree = lay_out(sequential("s", [checked(sequential("q", [leaf("a"), leaf("b")])), leaf("z")]))
    assert [end and end.name for end in next_stops(tree, named(tree, "b"))] == ["a", "z"]
    assert [end and end.name for end in next_stops(tree, named(tree, "a"))] == ["b"]


def test_all_attempts_and_what_is_inside_an_attempt():
    tree = lay_out(checked(sequential("q", [leaf("a"), leaf("b")])))
    assert attempts(tree.root, (2,)) == [(0,), (1,), (2,)]
    assert attempts(named(tree, "a"), (2,)) == [(2,)]
    assert is_inside(tree, "q{1}/a", tree.root, (1,))
    assert not is_inside(tree, "q/a", tree.root, (1,))
    assert not is_inside(tree, "z", tree.root, (1,))


def test_a_sub_agent_that_ends_hands_back():
    tree = lay_out(chat("s", leaf("a"), sequential("b", [leaf("x"), leaf("y")])))
    first = transfer(tree, tree.root, ((),), "b")
    assert address(first.place, first.cursor) == "s[2]/b/x"
    second = advance(tree, first.place, first.cursor, None, Sends())
    back = advance(tree, second.place, second.cursor, None, Sends())
    assert (back.place, back.cursor) == (tree.root, ((2, 0),))
    assert str(RunPaths(tree).at(*back[:2])) == "s/b/s"


def test_one_that_ends_below_another_hands_back_over_both():
    tree = lay_out(chat("s", chat("w", leaf("d"), returns=False)))
    back = advance(tree, named(tree, "d"), ((1, 1),), None, Sends())
    assert (back.place, back.cursor) == (tree.root, ((1, 1, 0, 0),))
    assert str(RunPaths(tree).at(*back[:2])) == "s/w/d/w/s"


def test_where_a_chat_agent_was_before_others_handed_back_to_it():
    tree = lay_out(chat("s", leaf("a"), chat("w", leaf("d"))))
    hops = (1, 0, 2, 1, 0, 1, 0, 0)  # to a and back, to w, which goes to d and back twice, and back
    assert earlier_cursors(tree.root, (hops,)) == [((1, 0),), ((),)]
    assert earlier_cursors(named(tree, "w"), (hops[:-1],)) == [((1, 0, 2, 1, 0),), ((1, 0, 2),)]
    assert earlier_cursors(lay_out(chat("s", leaf("a"), returns=False)).root, (hops[:2],)) == []


def test_a_checked_worker_is_looked_at_where_it_was_handed_over_to():
    tree = lay_out(chat("s", checked(chat("w", leaf("d"), returns=False))))
    w = named(tree, "w")
    assert settled(tree, w, ((1, 1), 0)) == ((1,), 0)
    again = advance(tree, named(tree, "d"), ((1, 1), 0), None, Sends(w=1))
    assert (again.place, address(w, again.cursor)) == (w, "s[1]/w{1}")
    assert settled(tree, tree.root, ((1, 1),)) == ((),)


def test_what_undoes_a_step_leads_nowhere():
    flow = workflow("f", [step(leaf("a"), compensate=lambda ctx: None)])
    tree = lay_out(sequential("s", [flow, leaf("z")]))
    place = named(tree, "f")
    assert not capabilities_at(tree, place).exit
    assert [end and end.name for end in next_stops(tree, place)] == ["z"]

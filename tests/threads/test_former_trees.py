"""Events of turns that another tree ran have the run paths that they had then."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from helpers import Disk, Drive, asks, chat, fails, says
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from agentgraph.tree.former_trees import former_tree
from agentgraph.tree.layout import lay_out
from agentgraph.tree.places import Place


def flat() -> ag.Agent:
    builder = StateGraph(MessagesState)
    for name in ("one", "two"):
        builder.add_node(name, lambda state: {"messages": [AIMessage("Hi.")]})
    graph = builder.add_edge(START, "one").add_edge("one", "two").compile()
    return ag.graph_agent("desk", graph, flat=True)


def handing_over() -> ag.Agent:
    to = [calls(call("transfer_to_bills")), calls(call("transfer_to_press"))]
    bills = ag.chat_agent("bills", ScriptedChatModel(responses=[to[1]]))
    press = chat("press", "Press.")
    return ag.chat_agent(
        "triage", ScriptedChatModel(responses=to[:1]), sub_agents=[bills, press], peers=True
    )


def swarming() -> ag.Agent:
    first = ag.function_agent("al", lambda ctx: ag.TransferTo("bo"))
    return ag.swarm("sw", [first, says("bo")])


def calling() -> ag.Agent:
    made = [calls(call("t", request="Go."), call("t", request="On.")), "Done."]
    tool = ag.agent_tool(ag.sequential("t", [says("x"), says("y")]))
    return ag.chat_agent("c", ScriptedChatModel(responses=made), tools=[tool])


def running() -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return f"{ctx.run('t', 'Go.')} {ctx.run('t', 'On.')}"

    return ag.function_agent("f", fn, agents=[ag.sequential("t", [says("x"), says("y")])])


def checked() -> ag.Agent:
    return ag.validated(says("v", "no", "yes"), lambda text: text == "yes")


TREES: dict[str, Callable[[], ag.Agent]] = {
    "a sequence": lambda: ag.sequential("s", [says("a"), ag.sequential("i", [says("c")]), says("d")]),
    "a loop": lambda: ag.sequential("s", [says("a"), ag.loop("l", [says("b")], max_iterations=2)]),
    "branches": lambda: ag.parallel("p", [ag.sequential("q", [says("a"), says("b")]), says("c")]),
    "a workflow": lambda: ag.workflow(
        "w", [ag.step(says("a")), ag.step(ag.sequential("q", [says("b"), says("c")]), depends_on=["a"])]
    ),
    "items": lambda: ag.each("e", ag.sequential("i", [says("a"), says("b")]), lambda ctx: [1, 2]),
    "a switch": lambda: ag.switch("w", lambda ctx: "b", {"a": says("a"), "b": says("b")}),
    "a swarm": swarming,
    "transfers": handing_over,
    "tools": calling,
    "a function that runs agents": running,
    "a flat graph": flat,
    "a check": checked,
    "a person": lambda: ag.sequential("s", [says("a"), ag.human("boss", "Well?"), says("b")]),
}


def paths(events: Any) -> list[tuple[str, str]]:
    return [(each.address, str(each.run_path)) for each in events if not each.partial]


@pytest.mark.parametrize("name", TREES)
def test_turns_of_another_tree_keep_their_run_paths(name: str, disk: Disk) -> None:
    before = paths(disk.run(TREES[name]()))
    if name == "a person":
        before += paths(disk.resume(TREES[name](), "Fine."))
    other = ag.sequential("s", [says("z"), ag.loop("l", [says("b")], max_iterations=1)])
    after = paths(disk.run(other))
    assert after == [("s/z", "s/z"), ("s/l[0]/b", "s/z/l/b")]
    again = paths(disk.events(other))
    if name in ("tools", "a function that runs agents"):  # which run side by side
        before, again = sorted(before), [*sorted(again[:-2]), *again[-2:]]
    assert again == [*before, *after]


def test_each_part_of_a_turn_has_the_run_paths_of_the_tree_that_ran_it() -> None:
    saver = InMemorySaver()
    first = ag.sequential("s", [says("a"), ag.human("boss", "Well?"), says("b")])
    second = ag.sequential("s", [says("a"), ag.human("boss", "Well?"), says("new"), says("b")])
    told = paths(ag.Runner(first, checkpointer=saver).run("Go.", thread_id="t"))
    told += paths(ag.Runner(second, checkpointer=saver).resume("t", "Fine."))
    last = ag.Runner(says("last"), checkpointer=saver)
    told += paths(last.run("Go.", thread_id="t"))
    assert paths(last.events("t")) == told


def shape(place: Place) -> tuple[object, ...]:
    counts = [(each.kind, each.place.segment) for each in place.counts]
    kind = place.kind.name, place.is_called, place.is_target
    return place.segment, place.node, place.index, place.repeats, counts, kind


@pytest.mark.parametrize("name", TREES)
def test_an_outline_says_where_the_places_of_a_tree_are(name: str) -> None:
    tree = lay_out(TREES[name]())
    assert [*map(shape, former_tree(tree.outline).places)] == [*map(shape, tree.places)]


def swarm_of_a() -> ag.Agent:
    first = ag.function_agent("a", lambda ctx: ["A.", ag.TransferTo("b")])
    return ag.swarm("sw", [first, says("b")], sticky=False)


PLACES: dict[str, Callable[[], ag.Agent]] = {
    "a sequence": lambda: ag.sequential("s", [says("a"), says("b")]),
    "a loop": lambda: ag.loop("l", [says("a"), says("b")], max_iterations=2),
    "a swarm": swarm_of_a,
    "branches": lambda: ag.parallel("p", [says("a"), says("b")]),
    "items": lambda: ag.each("e", says("a"), lambda ctx: [1, 2]),
    "a function": lambda: ag.function_agent("f", lambda ctx: ctx.run("a", "Go."), agents=[says("a")]),
    "a check": lambda: ag.validated(says("a", "no", "yes"), lambda text: text == "yes"),
}
"""Trees in which an agent of one name stands, where its counters are others."""


@pytest.mark.parametrize("now", PLACES)
@pytest.mark.parametrize("was", PLACES)
def test_what_another_tree_ran_is_no_visit_of_an_agent_that_stands_elsewhere(
    was: str, now: str
) -> None:
    saver = InMemorySaver()
    ag.Runner(PLACES[was](), checkpointer=saver).invoke("Go.", thread_id="t")
    former = ag.Runner(PLACES[was](), checkpointer=saver).visits("t")
    runner = ag.Runner(PLACES[now](), checkpointer=saver)
    runner.invoke("On.", thread_id="t")
    every = runner.visits("t")
    told = {each.address for each in every if each.turn == 0}
    assert told == ({each.address for each in former} if was == now else set())
    here = [each for each in every if each.turn == 1]
    assert {each.agent_name for each in here} >= {"a"}
    assert runner.timeline("t").bars
    list(runner.rewind("t", here[0].address))
    assert runner.thread("t").status == "done"


LEAVING: dict[str, ag.Agent] = {
    "a question": asks("h"),
    "a question of a branch": ag.parallel("p", [asks("x"), says("y")]),
    "a question of a loop": ag.loop("l", [says("a"), asks("h")], max_iterations=2),
    "a question in a graph": ag.sequential("s", [says("a"), flat(), asks("h")]),
    "a failure": ag.sequential("s", [says("a"), fails("b")]),
}
COMING: dict[str, ag.Agent] = {
    "a leaf": says("z"),
    "a sequence": ag.sequential("s", [says("a"), says("z")]),
    "branches": ag.parallel("p2", [says("x"), says("z")]),
    "a loop": ag.loop("l", [says("z")], max_iterations=2),
}


@pytest.mark.parametrize("leaving", LEAVING)
@pytest.mark.parametrize("coming", COMING)
def test_a_turn_of_another_tree_is_done_whatever_the_last_one_had_left(
    drive: Drive, saver: Any, leaving: str, coming: str
) -> None:
    with suppress(ValueError), ag.Runner(LEAVING[leaving], checkpointer=saver) as runner:
        list(drive.run(runner, "Go.", thread_id="t"))
    with ag.Runner(COMING[coming], checkpointer=saver) as runner:
        list(drive.run(runner, "Again.", thread_id="t", drop_pending=True))
        assert (runner.thread("t").status, runner.pending("t")) == ("done", [])
        assert runner.activation("t", COMING[coming].name).status == "done"
        assert [each.status for each in runner.threads()] == ["done"]

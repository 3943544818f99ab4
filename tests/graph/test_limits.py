"""Limits of a turn: transfers are bounded, and a thread that reached the bound goes on with another."""

import asyncio
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers import scripted

import agentgraph as ag
from agentgraph.graph.nodes.context import LIMITS
from agentgraph.testing import call, calls


def to(name: str, *more: Any) -> Any:
    return calls(*more, call(f"transfer_to_{name}"))


def endless(**options: Any) -> ag.Agent:
    """Return two chat agents that hand over to each other, and never end."""
    child = ag.chat_agent("bob", scripted(*[to("ann")] * 200), max_iterations=3)
    model = scripted(*[to("bob")] * 200)
    return ag.chat_agent("ann", model, sub_agents=[child], max_iterations=3, **options)


Go = Callable[..., list[ag.AgentEvent]]


@pytest.fixture(params=["sync", "async"])
def go(request: pytest.FixtureRequest) -> Go:
    """Run a graph on a thread to its end, or go on without input, and return its events."""

    def run(agent: ag.Agent, graph: Any, given: Any = None, limits: Any = None) -> Any:
        configurable = {"thread_id": "t", **({LIMITS: limits} if limits else {})}
        options: Any = {
            "stream_mode": ["updates", "custom"],
            "subgraphs": True,
            "config": {"configurable": configurable},
        }
        told: list[ag.AgentEvent] = []
        state = {"messages": [given]} if given else None

        async def arun() -> None:
            async for event in ag.atranslate(agent, graph.astream(state, **options)):
                told.append(event)

        def both() -> None:
            if request.param == "sync":
                told.extend(ag.translate(agent, graph.stream(state, **options)))
            else:
                asyncio.run(arun())

        with suppress(ag.LimitError):
            both()
        return told

    return run


def transfers(events: list[ag.AgentEvent]) -> int:
    return sum(event.kind == "transfer_to" for event in events)


def saver() -> Any:
    from langgraph.checkpoint.memory import InMemorySaver

    return InMemorySaver()


def test_two_agents_that_hand_over_to_each_other_are_stopped(go: Go) -> None:
    tree = endless()
    events = go(tree, ag.compile_agent(tree, checkpointer=saver()), "Go.")
    assert transfers(events) == 51  # the last one is told, and not carried out
    assert events[-1].agent_name == "ann"


def test_the_error_says_where_what_and_how_to_go_on() -> None:
    graph = ag.compile_agent(endless(), limits=ag.Limits(transfers=2))
    with pytest.raises(ag.LimitError) as caught:
        graph.invoke({"messages": ["Go."]})
    error = caught.value
    assert (error.agent_name, error.address, error.limit, error.value) == (
        "ann",
        "ann[1.0]",
        "transfers",
        2,
    )
    assert str(error) == (
        "ann[1.0]: the agent 'ann' reached Limits.transfers, which is 2 for a turn; if that is not "
        "enough, resume with higher limits, such as Limits(transfers=4)"
    )
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.value) == (str(error), 2)


def test_higher_limits_go_on_and_nothing_runs_again(go: Go) -> None:
    looked: list[str] = []

    def look() -> str:
        """Look."""
        looked.append("look")
        return "seen"

    parent = scripted(to("bob"), to("bob", call("look")), "Done.")
    child = scripted(to("ann"), to("ann"))
    bob = ag.chat_agent("bob", child)
    tree = ag.chat_agent("ann", parent, tools=[look], sub_agents=[bob])
    graph = ag.compile_agent(tree, checkpointer=saver(), limits=ag.Limits(transfers=2))
    first = go(tree, graph, "Go.")
    assert (transfers(first), first[-1].address, looked) == (3, "ann[1.0]", ["look"])
    results = [e.text for e in first if e.message is not None][-2:]  # as they ended
    assert sorted(results) == ["Transferred to bob.", "seen"]
    again = go(tree, graph)
    assert [event.kind for event in again] == ["error"]
    rest = go(tree, graph, limits=ag.Limits(transfers=10))
    assert rest[-1].text == "Done."
    assert (len(parent.inputs), len(child.inputs), looked) == (3, 2, ["look"])
    everything = [event for event in [*first, *rest] if event.kind != "error"]
    ids = [event.id for event in everything]
    assert len(ids) == len(set(ids))


def test_another_process_goes_on(tmp_path: Path) -> None:
    def tree(*more: Any) -> ag.Agent:
        bob = ag.chat_agent("bob", scripted(*more or [to("ann")]))
        return ag.chat_agent("ann", scripted(*more or [to("bob"), to("bob")]), sub_agents=[bob])

    def config(**more: Any) -> Any:
        return {"configurable": {"thread_id": "t", **more}}

    with ag.sqlite_saver(tmp_path / "t.db") as disk:
        graph = ag.compile_agent(tree(), checkpointer=disk, limits=ag.Limits(transfers=2))
        with pytest.raises(ag.LimitError):
            graph.invoke({"messages": ["Go."]}, config())
        assert graph.get_state(config()).values["position"]["border"]["target"] == "bob"
    with ag.sqlite_saver(tmp_path / "t.db") as disk:
        graph = ag.compile_agent(tree("Done."), checkpointer=disk, limits=ag.Limits(transfers=2))
        ended = graph.invoke(None, config(**{LIMITS: ag.Limits(transfers=3)}))
        assert [message.text for message in ended["messages"]][-1] == "Done."


def test_each_turn_counts_anew(go: Go) -> None:
    bob = ag.chat_agent("bob", scripted(*[to("ann")] * 4))
    tree = ag.chat_agent("ann", scripted(*[to("bob"), "Done."] * 4), sub_agents=[bob])
    graph = ag.compile_agent(tree, checkpointer=saver(), limits=ag.Limits(transfers=2))
    for _ in range(4):
        assert go(tree, graph, "Go.")[-1].text == "Done."


def test_a_bound_is_exact(go: Go) -> None:
    bob = ag.chat_agent("bob", scripted(to("ann"), to("ann")))
    tree = ag.chat_agent("ann", scripted(to("bob"), to("bob"), "Done."), sub_agents=[bob])
    assert go(tree, ag.compile_agent(tree, limits=ag.Limits(transfers=4)), "Go.")[-1].text == "Done."


def test_no_bound_is_none(go: Go) -> None:
    bob = ag.chat_agent("bob", scripted(*[to("ann")] * 60))
    tree = ag.chat_agent(
        "ann", scripted(*[to("bob")] * 60, "Done."), sub_agents=[bob], max_iterations=1
    )
    assert go(tree, ag.compile_agent(tree, limits=ag.Limits(transfers=None)), "Go.")[-1].text == "Done."


def test_a_function_that_hands_over_is_counted(go: Go) -> None:
    bob = ag.function_agent("bob", lambda ctx: ag.TransferTo("ann"))
    tree = ag.chat_agent("ann", scripted(*[to("bob")] * 9), sub_agents=[bob])
    events = go(tree, ag.compile_agent(tree, limits=ag.Limits(transfers=3)), "Go.")
    assert (transfers(events), events[-1].agent_name) == (4, "bob")


def test_a_worker_that_hands_back_is_not_counted(go: Go) -> None:
    worker = ag.function_agent("w", lambda ctx: "Done.")
    model = scripted(*[to("w")] * 3, "All done.")
    tree = ag.supervisor("S", model, [worker], mode="handoff")
    events = go(tree, ag.compile_agent(tree, limits=ag.Limits(transfers=3)), "Go.")
    assert events[-1].text == "All done."


def around(name: str, inner: ag.Agent) -> ag.Agent:
    """Return an agent that runs another one in a lane, and then hands over twice."""
    bob = ag.chat_agent("bob", scripted(to("ann")))
    ann = ag.chat_agent("ann", scripted(to("bob"), "Done."), sub_agents=[bob])
    if name == "tool":
        caller = scripted(calls(call("x", request="Do."), call("x", request="Do.")), "So.")
        lane: ag.Agent = ag.chat_agent("c", caller, tools=[ag.agent_tool(inner)])
    elif name == "parallel":
        lane = ag.parallel("p", [inner])
    else:
        lane = ag.workflow("f", [ag.step(inner, input="Do.")])
    return ag.sequential("s", [lane, ann])


def hands_over(*times: int) -> ag.Agent:
    y = ag.chat_agent("y", scripted(*[to("x")] * 9))
    model = scripted(*[each for n in times for each in [*[to("y")] * n, "So."]])
    return ag.chat_agent("x", model, sub_agents=[y])


@pytest.mark.parametrize(("kind", "inside"), [("parallel", 2), ("workflow", 2), ("tool", 4)])
def test_transfers_in_lanes_are_added_where_these_are_joined(go: Go, kind: str, inside: int) -> None:
    tree = around(kind, hands_over(1, 1))
    graph = ag.compile_agent(tree, checkpointer=saver(), limits=ag.Limits(transfers=inside + 1))
    events = go(tree, graph, "Go.")
    assert (events[-1].kind, events[-1].agent_name) == ("error", "bob")
    tree = around(kind, hands_over(1, 1))
    graph = ag.compile_agent(tree, checkpointer=saver(), limits=ag.Limits(transfers=inside + 2))
    assert go(tree, graph, "Go.")[-1].text == "Done."


def test_a_lane_counts_on_from_what_was_before_it(go: Go) -> None:
    bob = ag.chat_agent("bob", scripted(to("ann")))
    ann = ag.chat_agent("ann", scripted(to("bob"), "So."), sub_agents=[bob])
    tree = ag.sequential("s", [ann, ag.parallel("p", [hands_over(1)])])
    graph = ag.compile_agent(tree, checkpointer=saver(), limits=ag.Limits(transfers=3))
    events = go(tree, graph, "Go.")
    assert (events[-1].kind, events[-1].address) == ("error", "s/p/x[1]/y")
    assert go(tree, graph, limits=ag.Limits(transfers=4))[-1].text == "So."


def test_a_caller_is_not_told_that_its_tool_reached_a_limit(go: Go) -> None:
    model = scripted(calls(call("x", request="Do.")), "So.")
    tree = ag.chat_agent("c", model, tools=[ag.agent_tool(hands_over(2))])
    graph = ag.compile_agent(tree, checkpointer=saver(), limits=ag.Limits(transfers=2))
    events = go(tree, graph, "Go.")
    assert (events[-1].kind, events[-1].address, len(model.inputs)) == ("error", "c/x(0)[1.0]", 1)
    assert go(tree, graph, limits=ag.Limits(transfers=4))[-1].text == "So."


def test_the_count_is_kept_over_a_question() -> None:
    asks = ag.function_agent("h", lambda ctx: "Yes." if ctx.answered else ag.Ask("Well?"))
    bob = ag.chat_agent("bob", scripted(to("ann")))
    ann = ag.chat_agent("ann", scripted(to("bob"), "So."), sub_agents=[bob])
    runner = ag.Runner(ag.sequential("s", [ann, asks]))
    list(runner.run("Go.", thread_id="t"))
    list(runner.resume("t", "yes"))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    assert state.values["position"]["transfers"] == 2


def test_without_a_transfer_nothing_is_kept() -> None:
    bob = ag.chat_agent("bob", scripted())
    runner = ag.Runner(ag.chat_agent("ann", scripted("Hi."), sub_agents=[bob]))
    list(runner.run("Go.", thread_id="t"))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    assert "transfers" not in state.values["position"]


@pytest.mark.parametrize("value", [0, -1, True, "x", 1.5])
def test_a_bad_limit_is_refused(value: Any) -> None:
    with pytest.raises(ag.AgentGraphError) as caught:
        ag.Limits(transfers=value)
    assert str(caught.value) == (
        f"Limits(transfers={value!r}): pass a whole number above 0, or None for no bound"
    )


def test_limits_that_are_none_are_refused() -> None:
    given: Any = {"transfers": 3}
    with pytest.raises(ag.AgentGraphError, match=r"^limits=\{'transfers': 3\}: pass Limits"):
        ag.compile_agent(endless(), limits=given)

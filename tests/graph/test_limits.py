"""Limits of a turn; what they do to transfers is in `tests/transcripts/limits.txt`."""

import pickle
from collections.abc import Iterable
from threading import Barrier
from typing import Any

import pytest
from helpers import Drive, chat, failing, fails, gives, lines, middleware, retrying, says
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.testing import call, calls


def hops(times: int) -> ag.Agent:
    """Return two chat agents that transfer to each other so many times."""
    there, back = calls(call("transfer_to_bob")), calls(call("transfer_to_ann"))
    bob = chat("bob", *[back] * (times // 2))
    return chat("ann", *[there] * (times // 2), "Done.", sub_agents=[bob], max_iterations=1)


def team(number: int) -> ag.Agent:
    """Return a chat agent that transfers to a function agent, which transfers back."""
    back = gives(f"y{number}", ag.TransferTo(f"x{number}"))
    return chat(f"x{number}", calls(call(f"transfer_to_y{number}")), "Mine.", sub_agents=[back])


def transfers(events: Iterable[ag.AgentEvent]) -> int:
    return sum(event.kind == "transfer_to" for event in events)


def test_a_turn_has_fifty_transfers_by_default_and_any_number_without_a_bound() -> None:
    runner = ag.Runner(hops(52))
    events: list[ag.AgentEvent] = []
    with pytest.raises(ag.LimitError) as caught:
        events.extend(runner.run("Go.", thread_id="t"))
    assert caught.value.value == 50
    assert transfers(events) == 50
    assert lines(runner.resume("t", limits=ag.Limits(transfers=1000)))[-1].endswith(": Done.")


def test_a_reached_limit_is_an_error_that_says_where_and_can_be_pickled() -> None:
    graph = ag.compile_agent(hops(4), limits=ag.Limits(transfers=2))
    with pytest.raises(ag.LimitError) as caught:
        graph.invoke({"messages": ["Go."]})
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        fields = (error.agent_name, error.address, error.limit, error.value)
        assert fields == ("ann", "ann[2]", "transfers", 2)
        assert str(error).startswith("ann[2]: the agent 'ann' reached Limits.transfers")


def test_without_transfers_the_state_has_no_count() -> None:
    runner = ag.Runner(chat("ann", "Hi.", sub_agents=[chat("bob", "")]))
    list(runner.run("Go.", thread_id="t"))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    assert "transfers" not in state.values["position"]


@pytest.mark.parametrize("value", [0, -1, True, "x", 1.5])
def test_a_limit_that_is_not_a_positive_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(ag.AgentGraphError) as caught:
        ag.Limits(transfers=value)
    assert str(caught.value) == (
        f"Limits(transfers={value!r}): pass a whole number above 0, or None to inherit the limit"
    )


def test_anything_but_limits_is_refused() -> None:
    given: Any = {"transfers": 3}
    with pytest.raises(ag.AgentGraphError, match=r"^limits=\{'transfers': 3\}: pass Limits"):
        ag.compile_agent(hops(2), limits=given)


@pytest.mark.parametrize("kind", ["sequential", "parallel", "loop", "each", "workflow", "switch"])
def test_the_limits_of_a_composite_bound_the_agents_in_it(kind: str) -> None:
    limits, pair = ag.Limits(steps=1), [says("a"), says("b")]
    made: dict[str, Any] = {
        "sequential": lambda: ag.sequential("s", pair, limits=limits),
        "parallel": lambda: ag.parallel("s", pair, limits=limits),
        "loop": lambda: ag.loop("s", pair, max_iterations=2, limits=limits),
        "each": lambda: ag.each("s", says("a"), lambda ctx: [1, 2], limits=limits),
        "workflow": lambda: ag.workflow("s", pair, limits=limits),
        "switch": lambda: ag.switch(
            "s", lambda ctx: True, {True: ag.sequential("t", pair)}, limits=limits
        ),
    }
    with pytest.raises(ag.LimitError, match=r"reached Limits\.steps of 's', which is 1 for a turn"):
        ag.Runner(made[kind]()).invoke("Go.")


def test_branches_of_a_bare_graph_share_one_counter_also_over_resumes() -> None:
    tree, saver = (
        ag.parallel("p", [team(number) for number in range(3)], on_error="wait"),
        InMemorySaver(),
    )
    graph = ag.compile_agent(tree, limits=ag.Limits(transfers=3), checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    for given in ({"messages": ["Go."]}, None, None):
        with pytest.raises(ag.LimitError):
            graph.invoke(given, config)
        assert transfers(ag.Runner(tree, checkpointer=saver).events("t")) <= 3
    ag.compile_agent(tree, limits=ag.Limits(transfers=6), checkpointer=saver).invoke(None, config)
    assert transfers(ag.Runner(tree, checkpointer=saver).events("t")) == 6


def test_of_two_branches_that_transfer_at_the_same_instant_one_is_refused(drive: Drive) -> None:
    together = Barrier(2)

    def pair(number: int) -> ag.Agent:
        def fn(ctx: ag.Context) -> ag.TransferTo:
            together.wait(30)
            return ag.TransferTo(f"x{number}")

        back = ag.function_agent(f"y{number}", fn)
        return chat(f"x{number}", calls(call(f"transfer_to_y{number}")), "Mine.", sub_agents=[back])

    runner = ag.Runner(ag.parallel("p", [pair(1), pair(2)]))
    limits = ag.Limits(transfers=3)
    events, _ = failing(drive.run(runner, "Go.", thread_id="t", limits=limits), ag.LimitError)
    assert transfers(events) == 3
    assert transfers(drive.resume(runner, "t", limits=ag.Limits(transfers=4))) == 1


def test_of_two_calls_at_the_same_instant_nothing_says_that_the_refused_one_was_made() -> None:
    together = Barrier(2)

    def meet(number: int) -> Any:
        def reply(messages: Any) -> Any:
            together.wait(30)
            return calls(call(f"transfer_to_y{number}"))

        return chat(f"x{number}", reply, sub_agents=[says(f"y{number}")])

    runner = ag.Runner(ag.parallel("p", [meet(1), meet(2)]), limits=ag.Limits(transfers=1))
    events, _ = failing(runner.run("Go.", thread_id="t"), ag.LimitError)
    assert transfers(events) == sum("Transferred" in line for line in lines(events)) == 1


def test_what_a_branch_used_before_it_failed_counts_after_a_resume(drive: Drive) -> None:
    tree = ag.parallel("p", [ag.sequential("s", [team(1), fails("late")]), team(2)], on_error="wait")
    limits, runner = ag.Limits(transfers=3), ag.Runner(tree)
    first, _ = failing(drive.run(runner, "Go.", thread_id="t", limits=limits), ag.LimitError)
    rest, _ = failing(drive.resume(runner, "t", limits=limits), ag.LimitError)
    assert transfers([*first, *rest]) == 3


def test_a_transfer_with_hooks_after_it_is_counted_once(drive: Drive) -> None:
    there = chat(
        "a",
        calls(call("transfer_to_b")),
        "Done.",
        sub_agents=[gives("b", ag.TransferTo("a"))],
        middleware=[middleware(after_agent=lambda state: None)],
    )
    events = [*drive.run(ag.Runner(there, limits=ag.Limits(transfers=2)), "Go.")]
    assert lines(events)[-1] == "a[2]: Done."


def test_the_limit_of_a_runner_inside_a_tool_is_a_failure_of_that_tool() -> None:
    def research(query: str) -> str:
        """Research."""
        return ag.Runner(team(1), limits=ag.Limits(transfers=1)).invoke(query).text

    boss = chat("boss", calls(call("research", query="bees")), "So.", tools=[research])
    said = lines(ag.Runner(ag.sequential("s", [boss, team(2)])).run("Go."))
    assert "Error: LimitError" in said[1]
    assert said[2] == "s/boss: So."


def test_a_retry_does_not_see_a_limit(drive: Drive) -> None:
    inner = ag.compile_agent(team(1))
    outer = ag.graph_agent("g", inner, retry=retrying())
    tree = ag.sequential("s", [outer, team(2)])
    events, _ = failing(drive.run(ag.Runner(tree), "Go.", limits=ag.Limits(transfers=1)), ag.LimitError)
    assert transfers(events) <= 1


def test_a_graph_with_a_saver_and_without_a_thread_is_refused_by_langgraph() -> None:
    graph = ag.compile_agent(team(1), checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="Checkpointer requires"):
        graph.invoke({"messages": ["Go."]})

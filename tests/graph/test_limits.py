"""Limits of a turn; what they do to transfers is in `tests/transcripts/limits.txt`."""

import pickle
from typing import Any

import pytest
from helpers import chat, lines

import agentgraph as ag
from agentgraph.testing import call, calls


def hops(times: int) -> ag.Agent:
    """Return two chat agents that transfer to each other so many times."""
    there, back = calls(call("transfer_to_bob")), calls(call("transfer_to_ann"))
    bob = chat("bob", *[back] * (times // 2))
    return chat("ann", *[there] * (times // 2), "Done.", sub_agents=[bob], max_iterations=1)


def test_a_turn_has_fifty_transfers_by_default_and_any_number_without_a_bound() -> None:
    runner = ag.Runner(hops(52))
    events: list[ag.AgentEvent] = []
    with pytest.raises(ag.LimitError) as caught:
        events.extend(runner.run("Go.", thread_id="t"))
    assert caught.value.value == 50
    assert sum(event.kind == "transfer_to" for event in events) == 51  # the last is not carried out
    assert lines(runner.resume("t", limits=ag.Limits(transfers=None)))[-1].endswith(": Done.")


def test_a_reached_limit_is_an_error_that_says_where_and_can_be_pickled() -> None:
    graph = ag.compile_agent(hops(4), limits=ag.Limits(transfers=2))
    with pytest.raises(ag.LimitError) as caught:
        graph.invoke({"messages": ["Go."]})
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        fields = (error.agent_name, error.address, error.limit, error.value)
        assert fields == ("ann", "ann[1.0]", "transfers", 2)
        assert str(error).startswith("ann[1.0]: the agent 'ann' reached Limits.transfers")


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
        f"Limits(transfers={value!r}): pass a whole number above 0, or None for no bound"
    )


def test_anything_but_limits_is_refused() -> None:
    given: Any = {"transfers": 3}
    with pytest.raises(ag.AgentGraphError, match=r"^limits=\{'transfers': 3\}: pass Limits"):
        ag.compile_agent(hops(2), limits=given)

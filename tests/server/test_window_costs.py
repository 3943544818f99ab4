"""Costs in the window: of the last turn, and as a limit."""

from decimal import Decimal

import pytest
from helpers import asks
from helpers.costs import named, table

import agentgraph as ag
from agentgraph.window.calls import Window


def window(**options: object) -> Window:
    tree = ag.sequential("s", [named("a", "cheap", "One.", "Two."), asks("boss")])
    return Window(ag.Runner(tree, **options), "s")  # type: ignore[arg-type]


def test_a_thread_shows_the_cost_of_its_last_turn() -> None:
    priced = window(prices=table)
    priced.runner.invoke("Go.", thread_id="t")
    assert priced.call("thread", {"thread_id": "t"})["cost"] == "0.02"
    unknown = window(prices=lambda model, usage: None)
    unknown.runner.invoke("Go.", thread_id="t")
    assert unknown.call("thread", {"thread_id": "t"})["cost"] == "unknown"
    for limits in (None, ag.Limits(steps=9)):
        without = window(limits=limits)
        without.runner.invoke("Go.", thread_id="t")
        assert without.call("thread", {"thread_id": "t"})["cost"] is None


@pytest.mark.parametrize("cost", ["0.01", 0.01])
def test_a_cost_is_limited_from_the_page(cost: object) -> None:
    tree = ag.loop("l", [named("a", "cheap", "One.", "Two.")], max_iterations=2)
    opened = Window(ag.Runner(tree, prices=table), "l")
    with opened.runner:
        opened.call("start", {"text": "Go.", "thread_id": "t", "limits": {"cost": cost}})
        opened.runner.wait("t", 30)
        bars = opened.call("timeline", {"thread_id": "t"})["bars"]
        failed = [each["text"] for each in bars if each["state"] == "failed"]
        assert "reached Limits.cost, which is 0.01 for a turn" in failed[-1]
        opened.call("resume", {"thread_id": "t", "limits": {"cost": "5"}})
        opened.runner.wait("t", 30)
        assert opened.runner.thread("t").spent.cost == Decimal("0.05")


@pytest.mark.parametrize("cost", ["much", -1, True])
def test_a_cost_that_is_no_number_is_refused(cost: object) -> None:
    with pytest.raises(ag.AgentGraphError, match=r"Limits\(cost=.*\): pass a Decimal above 0"):
        window(prices=table).call("start", {"text": "Go.", "limits": {"cost": cost}})

"""Checks by address: iterations, the order of calls, spending, and scores."""

from decimal import Decimal
from typing import Any

import pytest
from helpers import scripted

import agentgraph as ag
from agentgraph.testing import (
    ScriptedChatModel,
    at_least,
    call,
    calls,
    ends_within,
    evaluate,
    no_call_before,
    spends_at_most,
)


def pay(euros: int) -> str:
    """Pay."""
    return "Paid."


def approve(euros: int) -> str:
    """Ask for approval."""
    if euros > 100:
        raise ValueError("too much")
    return "Approved."


def says(name: str) -> ag.Agent:
    return ag.function_agent(name, lambda ctx: f"I am {name}.")


def failure(check: Any, result: ag.Result) -> str:
    """Return why a check fails as a test asks it; empty if it passes."""
    try:
        return "" if check(result) else "False"
    except AssertionError as error:
        return str(error)


def refining(times: int) -> ag.Agent:
    def critic(ctx: ag.Context) -> Any:
        yield "Fine." if ctx.iteration == times - 1 else "Again."
        if ctx.iteration == times - 1:
            yield ag.BreakLoop()

    refine = ag.loop("refine", [says("writer"), ag.function_agent("critic", critic)], max_iterations=9)
    return ag.sequential("report", [refine, ag.human("boss", "Print it?")])


def test_a_loop_ends_within_its_iterations() -> None:
    result = ag.Runner(refining(3)).invoke("Go.")
    assert [failure(ends_within(name, 3), result) for name in ("report/refine", "refine")] == ["", ""]
    assert failure(ends_within("report/refine", 2), result) == (
        "report/refine took 3 iterations, more than 2"
    )
    assert failure(ends_within("report/refined", 3), result) == "report/refined did not run"
    assert ends_within("refine", 1).name == "refine ends within 1 iteration"
    outer = ag.loop("days", [refining(2)], max_iterations=2)
    runner = ag.Runner(outer)
    runner.invoke("Go.", thread_id="t")
    result = runner.invoke(thread_id="t", answers="yes")
    assert failure(ends_within("days/report/refine", 2), result) == ""
    assert failure(ends_within("days[1]/report/refine", 1), result) != ""
    assert failure(ends_within("days", 2), result) == (
        "days has not ended: days[1]/report/boss waits for an answer"
    )


ORDERS: dict[str, tuple[list[Any], str]] = {
    "after": ([call("approve", euros=5)], ""),
    "never": ([], "clerk called pay before approve, which has not ended"),
    "in one message": (
        [call("approve", euros=5), call("pay", euros=5)],
        "clerk called pay before approve, which ended later",
    ),
    "after an error": (
        [call("approve", euros=500)],
        "clerk called pay before approve, which has not ended",
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_a_tool_is_not_called_before_another_one_has_ended(name: str) -> None:
    first, reason = ORDERS[name]
    rounds = [*([calls(*first)] if first else []), calls(call("pay", euros=5)), "Done."]
    tree = ag.chat_agent("clerk", scripted(*rounds), tools=[pay, approve])
    result = ag.Runner(tree).invoke("Go.")
    assert failure(no_call_before("pay", "approve"), result) == reason
    assert failure(no_call_before("refund", "approve"), result) == ""


def test_an_agent_is_not_called_before_another_one_has_ended() -> None:
    result = ag.Runner(refining(2)).invoke("Go.")
    assert failure(no_call_before("boss", "report/refine"), result) == ""
    assert failure(no_call_before("report/refine", "writer"), result) == (
        "report/refine[0]/writer called report/refine before writer, which ended later"
    )
    assert failure(no_call_before("critic", "report/boss"), result) == (
        "report/refine[0]/critic called critic before report/boss, which has not ended"
    )
    assert failure(no_call_before("critic", "writer"), result) == ""


def test_spending_has_bounds() -> None:
    def prices(model: str, usage: Any) -> Decimal:
        return Decimal("0.01") * usage["total_tokens"]

    model = ScriptedChatModel(responses=lambda messages: "One two.", counts_tokens=True)
    tree = ag.sequential("s", [ag.chat_agent("ann", model), ag.chat_agent("bob", model)])
    result = ag.Runner(tree, prices=prices).invoke("Go.")
    assert (result.spent.tokens, result.spent.cost) == (10, Decimal("0.10"))
    bounds = {"tokens": 10, "cost": Decimal("0.10"), "model_calls": 2, "seconds": 60}
    assert failure(spends_at_most(**bounds), result) == ""
    assert spends_at_most(**bounds).name == ("at most 2 model calls, 10 tokens, 0.10 cost, 60 seconds")
    assert failure(spends_at_most(tokens=9), result) == "10 tokens, more than 9"
    assert failure(spends_at_most(agent="bob", tokens=5), result) == "bob: 7 tokens, more than 5"
    assert failure(spends_at_most(agent="eve", tokens=4, cost=1), result) == ""
    unpriced = ag.Runner(tree).invoke("Go.")
    assert failure(spends_at_most(cost=1), unpriced) == (
        "the cost is not known; pass prices= to the runner"
    )
    assert failure(spends_at_most(seconds=1), unpriced) == (
        "the seconds are not counted; give the run a limit, or use evaluate()"
    )


def test_a_score_is_at_least_a_minimum() -> None:
    def length(result: ag.Result) -> int:
        return len(result.text)

    runner = ag.Runner(says("ann"))
    report = evaluate(runner, ["Go."], [at_least(9, length), at_least(10, length), length], name="e")
    assert report.rows[0] == {
        "case": "1",
        "status": "done",
        "length at least 9": "9",
        "length at least 10": "9 ✗",
        "length": "9",
        "tokens": "0",
        "seconds": report.rows[0]["seconds"],
        "failure": "length at least 10: 9 is less than 10",
    }
    assert failure(at_least(10, length), runner.invoke("Go.")) == "9 is less than 10"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: ends_within("refine", 0),
            "iterations=0 is out of range; pass an integer of at least 1",
        ),
        (lambda: spends_at_most(), "spends_at_most() has no maximum; pass one, such as tokens=1000"),
        (
            lambda: spends_at_most(tokens=0),
            "Limits(tokens=0): pass a whole number above 0, or None to inherit the limit",
        ),
    ],
)
def test_a_check_without_sense_is_rejected(make: Any, text: str) -> None:
    with pytest.raises(ag.AgentGraphError) as caught:
        make()
    assert str(caught.value) == text

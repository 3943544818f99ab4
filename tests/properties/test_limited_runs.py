"""Limits of random trees, met at every count: what is spent in the end is what it always is."""

from collections import Counter
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import spending
from helpers.forking import Forker
from hypothesis import given
from hypothesis import strategies as st
from spending import CALLS, ENOUGH, Spec, answers_for, priced, request, without_time
from test_spine import share

import agentgraph as ag

MOST_REQUESTS = 300
MEASURES = ("model_calls", "steps", "tokens", "cost", "transfers")


@pytest.fixture
def spender(forker: Forker) -> Forker:
    return forker.of("spending")


def unlimited(spec: Spec) -> ag.Spent:
    """Return what a turn spends that no limit stops."""
    runner = priced(spec)
    for _ in range(MOST_REQUESTS):
        limits = ag.Limits(model_calls=ENOUGH, transfers=ENOUGH)
        answers = answers_for(runner.thread("t").pending) if runner.thread("t").turns else {}
        _, error = request(runner, False, answers, limits)
        assert error is None
        if runner.thread("t").status == "done":
            return runner.thread("t").spent
    raise AssertionError("the turn has no end")


@share(0.15)
@given(spec=spending.specs(), measure=st.sampled_from(MEASURES), is_async=st.booleans())
def test_a_limit_met_at_every_count_changes_nothing(spec: Spec, measure: str, is_async: bool) -> None:
    whole, runner, bound = unlimited(spec), priced(spec), 1
    CALLS.clear()
    for _ in range(MOST_REQUESTS):
        left = runner.thread("t")
        if left.status == "done":
            break
        limits = ag.Limits(**{"transfers": ENOUGH, "model_calls": ENOUGH, measure: bound})
        _, error = request(runner, is_async, answers_for(left.pending), limits)
        spent = getattr(runner.thread("t").spent, measure)
        if error is not None:
            assert error.limit == measure
            assert spent == bound if measure not in ("tokens", "cost") else spent >= bound
            bound = spent + 1
        assert runner.thread("t").spent.model_calls == len(CALLS)
    assert without_time(runner.thread("t").spent) == without_time(whole)


@share(0.15)
@given(spec=spending.specs(), bound=st.integers(1, 4), measure=st.sampled_from(MEASURES[:2]))
def test_leave_given_as_often_as_asked_for_changes_nothing(
    spec: Spec, bound: int, measure: str
) -> None:
    whole, runner = unlimited(spec), priced(spec)
    limits = ag.Limits(**{"transfers": ENOUGH, "model_calls": ENOUGH, measure: bound}, on_limit="ask")
    asked = 0
    for _ in range(MOST_REQUESTS):
        left = runner.thread("t")
        if left.status == "done":
            break
        about = [each for each in left.pending if "limit" in (each.response_schema or {})]  # type: ignore[operator]
        assert len(about) <= 1
        asked += len(about)
        _, error = request(runner, False, answers_for(left.pending), limits)
        assert error is None
        assert getattr(runner.thread("t").spent, measure) <= bound * (1 + asked)
    assert without_time(runner.thread("t").spent) == without_time(whole)
    assert asked == max(0, -(-getattr(whole, measure) // bound) - 1)


@share(0.05)
@given(spec=spending.specs(), is_async=st.booleans(), deaths=st.lists(st.integers(1, 40), max_size=8))
def test_a_killed_process_loses_what_its_step_had_spent_and_no_more(
    spender: Forker, spec: Spec, is_async: bool, deaths: list[int]
) -> None:
    whole = unlimited(spec)
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "threads.db")
        for after in [*deaths, *repeat(0, MOST_REQUESTS)]:
            with priced(spec, checkpointer=path) as runner:
                left = runner.thread("t")
                if left.status == "done":
                    assert without_time(left.spent) == without_time(whole)
                    return
                answers = answers_for(left.pending)
            spender.start(path=path, spec=spec, is_async=is_async, answers=answers, after=after)
            assert spender.wait() in (0, -9)
    raise AssertionError("the turn has no end")


TWO_HUNDRED: Spec = [
    "loop",
    [["parallel", [["model"], ["tool"], ["graph"], ["helped", ["model"]], ["asks a model"]]]],
    20,
]
"""A tree that calls models ten times in each of its iterations."""


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_bill_of_200_calls_with_a_budget_of_80_is_asked_about_twice(is_async: bool) -> None:
    runner, limits = priced(TWO_HUNDRED), ag.Limits(model_calls=80, on_limit="ask")
    CALLS.clear()
    for budget in (80, 160, 200):
        _, error = request(runner, is_async, answers_for(runner.thread("t").pending), limits)
        spent = runner.thread("t").spent
        assert error is None
        assert spent.model_calls == len(CALLS) == budget
        by_agent = {name: each.model_calls for name, each in spent.by_agent.items()}
        assert {name: calls for name, calls in by_agent.items() if calls} == Counter(CALLS)
    assert runner.thread("t").status == "done"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_bill_of_a_killed_process_lacks_the_step_that_it_was_killed_in(
    spender: Forker, is_async: bool, tmp_path: Path
) -> None:
    path, bill = str(tmp_path / "threads.db"), tmp_path / "bill"
    job = {"path": path, "spec": TWO_HUNDRED, "is_async": is_async, "budget": 80, "bill": str(bill)}
    codes = []
    for after in (400, 0, 0, 0):
        with priced(TWO_HUNDRED, checkpointer=path) as runner:
            answers = answers_for(runner.thread("t").pending)
        spender.start(**job, answers=answers, after=after)
        codes.append(spender.wait())
    with priced(TWO_HUNDRED, checkpointer=path) as runner:
        left = runner.thread("t")
    assert (codes, left.status) == ([-9, 0, 0, 0], "done")
    assert left.spent.model_calls == 200
    assert 200 <= len(bill.read_text().splitlines()) <= 200 + 5

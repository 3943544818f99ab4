"""Exceptions of all kinds, raised once at every place where users' code runs.

Whatever it is, and wherever: the run does not look like success and does not hang, the thread is free,
a resume completes it, and what had finished is done once. `AGENTGRAPH_EXAMPLES=100000` drives each pair
in all ways.
"""

from pathlib import Path

import pytest
from campaign import Heard, Ledger, Way, check_told_again, in_turn, shown
from kinds import (
    KINDS,
    Fault,
    comes_from,
    is_open,
    is_ordinary,
    may_be_garbled,
    may_end_the_loop,
    never,
)
from sites import SITES, Site, leaf

import agentgraph as ag


@pytest.mark.filterwarnings(  # what LangGraph itself says of a GeneratorExit in a node of its own
    "ignore:.*arun_with_retry.*:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize(("site", "kind", "way"), in_turn(SITES, KINDS, every=4))
def test_what_fails_once_is_told_and_tried_again(
    site: str, kind: str, way: str, tmp_path: Path
) -> None:
    at, fault, ledger, driven = SITES[site], Fault(kind), Ledger(), Way(way, tmp_path)
    tree = at.build(fault, ledger)
    parts = [driven.run(tree)]
    assert fault.raised is not None, "the site is not reached"
    absorbed = at.absorbs(fault.raised)
    if is_open(kind) and at.absorbs is not never:
        absorbed = parts[0].error is None
    if absorbed:
        check_done(parts[0])
    else:
        check_failed(parts[0], fault, at)
        parts.append(driven.resume(tree))
        check_done(parts[1])
    check_effects(ledger, at, absorbed=absorbed)
    told = [part.events for part in parts]
    if not at.yields:
        check_told_again(told, driven.events(tree), killed=may_end_the_loop(fault.raised))
    assert driven.resume(tree) == ([], None)
    assert driven.run(tree).error is None, "the next turn fails"


def check_done(heard: Heard) -> None:
    assert heard.error is None, f"it fails with {shown(heard.error)}"


def check_failed(heard: Heard, fault: Fault, at: Site) -> None:
    """Check that a run failed with what was raised, and told first which agent did."""
    assert fault.raised is not None
    assert heard.error is not None, "it looks like success"
    garbled = at.garbles and may_be_garbled(fault.raised)
    is_it = garbled or comes_from(heard.error, fault.raised, at.wraps)
    assert is_it, f"{shown(heard.error)} comes out instead of {shown(fault.raised)}"
    if not may_end_the_loop(fault.raised):
        told = {event.agent_name for event in heard.events if event.kind == "error"}
        assert told, "no event tells the failure"
        assert "s" not in told, "the failure is told of the root instead of the agent"


def check_effects(ledger: Ledger, at: Site, *, absorbed: bool) -> None:
    """Check that each effect was done as often as it is to be."""
    fine = Ledger()
    quiet = Fault("ValueError")
    quiet.raised = ValueError("it is over")
    quiet.over.set()
    for event in ag.Runner(at.build(quiet, fine)).query("Go."):
        assert event.kind != "error"
    wanted = {**fine.done, **(at.instead if absorbed else {})}
    done = dict.fromkeys(wanted, 0) | ledger.done
    assert {k: n for k, n in done.items() if k not in at.free} == {
        k: n for k, n in wanted.items() if k not in at.free
    }
    assert all(ledger.done[name] <= 1 for name in at.free)


COMPENSATED = ("plain", "coroutine")


def workflow(fault: Fault, ledger: Ledger, where: str, shape: str) -> ag.Agent:
    """Return steps of which the first can be undone, and the second fails."""

    def fails() -> None:
        raise ValueError("no step")

    undo = leaf("undo", ledger, fault if where == "undo" else None, shape)
    second = leaf("second", ledger, fault if where == "step" else fails, shape)
    steps = [ag.step(leaf("one", ledger), compensate=undo), ag.step(second, depends_on=["one"])]
    return ag.workflow("fork", steps)


@pytest.mark.parametrize(("shape", "kind", "way"), in_turn(COMPENSATED, KINDS))
def test_only_an_ordinary_failure_of_a_step_is_final_and_undone(
    shape: str, kind: str, way: str, tmp_path: Path
) -> None:
    fault, ledger, driven = Fault(kind), Ledger(), Way(way, tmp_path)
    tree = workflow(fault, ledger, "step", shape)
    first, again = driven.run(tree), driven.resume(tree)
    assert fault.raised is not None
    final = isinstance(first.error, ag.StepFailedError) if is_open(kind) else is_ordinary(fault.raised)
    if final:
        assert isinstance(first.error, ag.StepFailedError), shown(first.error)
        assert isinstance(again.error, ag.StepFailedError), shown(again.error)
        assert ledger.done == {"one": 1, "undo": 1}
    else:
        check_failed(first, fault, Site(lambda *_: tree))
        check_done(again)
        assert ledger.done == {"one": 1, "second": 1}
    told = [first.events, again.events]
    check_told_again(told, driven.events(tree), killed=may_end_the_loop(fault.raised))


@pytest.mark.parametrize(("shape", "kind", "way"), in_turn(COMPENSATED, KINDS))
def test_an_undo_that_fails_is_tried_again(shape: str, kind: str, way: str, tmp_path: Path) -> None:
    fault, ledger, driven = Fault(kind), Ledger(), Way(way, tmp_path)
    tree = workflow(fault, ledger, "undo", shape)
    first, again = driven.run(tree), driven.resume(tree)
    assert fault.raised is not None
    final = isinstance(first.error, ag.StepFailedError) if is_open(kind) else is_ordinary(fault.raised)
    if final:
        assert isinstance(first.error, ag.StepFailedError), shown(first.error)
        assert set(first.error.not_undone) == {"one"}
    else:
        check_failed(first, fault, Site(lambda *_: tree))
    assert isinstance(again.error, ag.StepFailedError), shown(again.error)
    assert again.error.undone == ("one",)
    assert ledger.done == {"one": 1, "undo": 1}
    told = [first.events, again.events]
    check_told_again(told, driven.events(tree), killed=may_end_the_loop(fault.raised))

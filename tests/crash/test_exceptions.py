"""Exceptions of all kinds, raised once at every place where users' code runs.

Whatever it is, and wherever: the run does not look like success and does not hang, the thread is free,
a resume completes it, and what had finished is done once. `AGENTGRAPH_EXAMPLES=100000` drives each pair
in all ways.
"""

from functools import cache
from pathlib import Path

import pytest
from campaign import WAYS, Heard, Watched, World, check_again, in_turn, leaf, shown
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
from sites import SHAPES, SITES, Site

import agentgraph as ag


@pytest.mark.filterwarnings(  # what LangGraph itself says of a GeneratorExit in a node of its own
    "ignore:.*arun_with_retry.*:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize(("site", "kind", "way"), in_turn(SITES, KINDS, WAYS, every=29))
def test_what_fails_once_is_reported_and_tried_again(
    site: str, kind: str, way: str, tmp_path: Path
) -> None:
    at, fault, world = SITES[site], Fault(kind), World()
    driven = Watched(at.build(fault, world), way, tmp_path)
    parts = [driven.run()]
    assert fault.raised is not None, "the site is not reached"
    absorbed = at.absorbs(fault.raised)
    if is_open(kind) and at.absorbs is not never:
        absorbed = parts[0].error is None
    if not absorbed:
        check_failed(parts[0], fault, at)
        parts.append(driven.resume())
    assert parts[-1].error is None, f"it fails with {shown(parts[-1].error)}"
    check_effects(world, site, absorbed=absorbed)
    heard = [part.events for part in parts]
    check_again(heard, driven.events(), killed=may_end_the_loop(fault.raised))
    assert driven.resume() == ([], None)
    assert driven.run().error is None, "the next turn fails"


def check_failed(heard: Heard, fault: Fault, at: Site) -> None:
    """Check that a run failed with what was raised, and reported first which agent did."""
    assert fault.raised is not None
    assert heard.error is not None, "it looks like success"
    garbled = at.garbles and may_be_garbled(fault.raised)
    is_it = garbled or comes_from(heard.error, fault.raised, at.wraps)
    assert is_it, f"{shown(heard.error)} comes out instead of {shown(fault.raised)}"
    if not may_end_the_loop(fault.raised):
        failing = {event.agent_name for event in heard.events if event.kind == "error"}
        assert failing, "no event reports the failure"
        assert "s" not in failing, "the failure is reported of the root instead of the agent"


@cache
def effects(site: str) -> dict[str, int]:
    """Return how often each effect is done in a run in which nothing fails."""
    world, quiet = World(), Fault("ValueError")
    quiet.raised = ValueError("it is over")
    quiet.over.set()
    events = ag.Runner(SITES[site].build(quiet, world)).query("Go.")
    assert all(event.kind != "error" for event in events)
    return dict(world.done)


def check_effects(world: World, site: str, *, absorbed: bool) -> None:
    """Check that each effect was done as often as it is to be."""
    at = SITES[site]
    wanted = {**effects(site), **(at.instead if absorbed else {})}
    done = dict.fromkeys(wanted, 0) | world.done
    assert {k: n for k, n in done.items() if k not in at.free} == {
        k: n for k, n in wanted.items() if k not in at.free
    }
    assert all(world.done[name] <= 1 for name in at.free)


@pytest.mark.parametrize("where", ["step", "undo"])
@pytest.mark.parametrize(("shape", "kind", "way"), in_turn(SHAPES, KINDS, WAYS, every=5))
def test_only_an_ordinary_failure_of_a_step_or_its_undo_is_final(
    where: str, shape: str, kind: str, way: str, tmp_path: Path
) -> None:
    """Of two steps the first can be undone, and the second fails."""
    fault, world = Fault(kind), World()

    def no_step() -> None:
        raise ValueError("no step")

    undo = leaf("undo", world, fault if where == "undo" else None, shape)
    second = leaf("second", world, fault if where == "step" else no_step, shape)
    steps = [ag.step(leaf("one", world), compensate=undo), ag.step(second, depends_on=["one"])]
    tree = ag.workflow("fork", steps)
    driven = Watched(tree, way, tmp_path)
    first, again = driven.run(), driven.resume()
    assert fault.raised is not None
    is_final = isinstance(first.error, ag.StepFailedError)
    if not is_open(kind):
        assert is_final == is_ordinary(fault.raised)
    if not is_final:
        check_failed(first, fault, Site(lambda *_: tree))
    elif where == "undo":
        assert set(first.error.not_undone) == {"one"}
    if where == "step" and not is_final:
        assert again.error is None, shown(again.error)
        assert world.done == {"one": 1, "second": 1}
    else:
        assert isinstance(again.error, ag.StepFailedError), shown(again.error)
        assert again.error.undone == ("one",)
        assert world.done == {"one": 1, "undo": 1}
    heard = [first.events, again.events]
    check_again(heard, driven.events(), killed=may_end_the_loop(fault.raised))

"""Activations of random trees, told from the saver: what they saw is what their calls saw."""

import re
from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import specs
from comparison import name_at
from conversations import Thread, hold
from helpers import Drive
from hypothesis import event, given
from record import rendered
from test_rewound_trees import NUMBERS, SIBLINGS, GoingBack
from test_spine import DRIVES, TEXTS, cases, file, share

import agentgraph as ag

__all__ = ["file"]
HARMLESS = ("model_input= is a function", "middleware wraps the model call")
"""The beginnings of remarks on what the hooks of these trees mark, but do not change."""


def report(thread: Thread, at: str, turn: int | None = None) -> ag.ActivationReport:
    told: ag.ActivationReport = thread.use(
        lambda runner: runner.activation(thread.id, at, turn=turn),
        lambda runner: runner.aactivation(thread.id, at, turn=turn),
    )
    return told


def is_told(spec: specs.Spec, told: ag.ActivationReport) -> bool:
    """Return whether all that an activation saw can be told, and its model has recorded all calls."""
    wraps = [each for each in getattr(spec, "middleware", ()) if each.place == "wrap_model_call"]
    if any(each.does in ("remind", "answer") for each in wraps):
        assert any(each.startswith(HARMLESS[1]) for each in told.remarks)
        return False
    return all(each.startswith(HARMLESS) for each in told.remarks)


def once(several: Sequence[Any]) -> list[Any]:
    """Return sights without those that are seen again when a step is tried again."""
    return [each for each, _ in groupby(several)]


def check_told(thread: Thread, *, from_within: bool = False) -> None:
    """Compare what is told of each activation with what its calls have recorded.

    Args:
        thread: The thread.
        from_within: Whether the record may lack the first calls of a model.
    """
    kinds = {spec.name: spec for spec in specs.walk(thread.case.tree)}
    steps: dict[str, list[ag.Visit]] = {}
    every = thread.visits()
    shared = {one.step for one, next_ in pairwise(every) if one.step == next_.step}
    for visit in every:
        spec = kinds.get(name_at(visit.address))
        is_model = isinstance(spec, specs.Chat) and "." not in visit.node
        if is_model or isinstance(spec, specs.Function):
            steps.setdefault(visit.address, []).append(visit)
    for at, visits in steps.items():
        if at not in thread.record.saw:
            continue
        spec, sights = kinds[name_at(at)], thread.record.saw[at]
        told = [report(thread, each.address, each.turn) for each in visits]
        if not all(is_told(spec, each) for each in told):
            event("not all can be told")
            continue
        if isinstance(spec, specs.Chat):
            told = [
                report(thread, each.address, each.turn)
                if each.step in shared
                else report(thread, each.step)
                for each in visits
            ]
            saw = once([rendered(each.saw) for each in told])
            recorded = once([each.messages for each in sights])
            assert saw[-len(recorded) :] == recorded, at
            assert from_within or len(saw) == len(recorded), at
            if from_within:
                continue
        first = {each.turn: each for each in reversed(told)}
        firsts = [(rendered(each.saw), dict(each.values_before)) for each in first.values()]
        assert all(each in [(s.messages, s.values) for s in sights] for each in firsts), at
        assert firsts[-1] == (sights[0].messages, sights[0].values), at
        event(f"told {type(spec).__name__}")

    root = kinds[thread.case.tree.name]
    assert report(thread, root.name).status == "done"
    # of one that a check has sent back "writer" is the first attempt alone, "writer{1}" the second
    last_attempt = re.split(r"[/\[(]", every[-1].address)[0]
    if not getattr(root, "sub_agents", ()) or not isinstance(root, specs.Chat):  # or others go on
        assert report(thread, last_attempt).values_after == thread.state()["values"]


@share(0.5)
@given(case=cases(texts=TEXTS), drive=DRIVES)
def test_what_an_activation_saw_is_what_its_calls_saw(case: Any, drive: Drive) -> None:
    thread = Thread(case, drive)
    hold(thread)
    check_told(thread)


@share(0.2)
@given(case=cases(texts=TEXTS), drive=DRIVES)
def test_a_file_tells_what_an_activation_saw(file: Path, case: Any, drive: Drive) -> None:
    thread = Thread(case, drive, file)
    hold(thread)
    check_told(thread)


@share(0.2)
@given(case=cases(), drive=DRIVES, numbers=NUMBERS, siblings=SIBLINGS)
def test_what_is_told_is_of_the_present_line(
    case: Any, drive: Drive, numbers: Sequence[int], siblings: str
) -> None:
    thread = Thread(case, drive)
    hold(thread)
    back = GoingBack(thread)
    for number in numbers:
        back.go(number, siblings, by_step=False)
        check_told(thread, from_within=True)

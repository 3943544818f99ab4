"""Rewinds whose processes are killed: readers and the thread agree in the end."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from conversations import Case
from helpers.forking import Forker
from hypothesis import event, given
from hypothesis import strategies as st
from test_killed_runs import TREES, UNHARMED, Killed
from test_spine import EXAMPLES, cases, share

import agentgraph as ag

ALL = 1000
"""From so many examples on each visit and each save is tried."""
STRIDE = 1 if EXAMPLES >= ALL else 17
FEW = 1 if EXAMPLES >= ALL else 6
"""Each how-manyth visit is tried."""


def visits(killed: Killed) -> list[ag.Visit]:
    return killed.use(lambda r: r.visits(killed.id), lambda r: r.avisits(killed.id))


@share(0.12)
@given(case=cases(), mode=st.sampled_from(("sync", "async")))
def test_what_killed_rewinds_gave_is_what_the_thread_gives(
    killer: Forker, case: Case, mode: str
) -> None:
    choices = random.Random(case.seed)
    with TemporaryDirectory() as folder:
        killed = Killed(case, Path(folder), killer, mode)
        for _ in range(choices.randint(1, 6)):
            killed.request(UNHARMED)
        for _ in range(3):
            if there := visits(killed):
                death = choices.choice(("saved", "heard")), choices.randint(1, 20)
                siblings = choices.choice(("keep", "keep", "rerun"))
                killed.rewind(death, choices.choice(there), siblings=siblings)
            killed.request((choices.choice(("saved", "heard")), choices.randint(1, 20)))
        killed.finish()
    event(f"killed {killed.kills} times")


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.by_turns("mode")
def test_a_kill_after_any_save_of_a_rewind_loses_nothing(
    killer: Forker, tree: str, mode: str, tmp_path: Path
) -> None:
    begun = Killed(Case(TREES[tree], {}, 0), tmp_path / "begun", killer, mode)
    begun.folder.mkdir()
    begun.finish()
    for nth, to in list(enumerate(visits(begun)))[(len(tree) + len(mode)) % FEW :: FEW]:
        for after in range(1 + nth % STRIDE, 100, STRIDE):
            killed = begun.copied(tmp_path / f"{nth}-{after}")
            killed.rewind(("saved", after), to)
            if not killed.kills:
                break
            killed.finish()

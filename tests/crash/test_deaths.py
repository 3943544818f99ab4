"""Turns whose run dies behind each of its saves, in every kind of tree.

Whatever was saved last: the thread is listed with what the user said, a new runner goes on with it, and
in the end it is as one whose run nobody disturbed. `AGENTGRAPH_EXAMPLES=100000` lets a run die behind
each save, in all ways.
"""

from pathlib import Path

import pytest
from campaign import WAYS, in_turn, shown
from saved_trees import TREES
from test_saving import STEP, Failing, Faults, How, blamed, check_failing


class DiedError(BaseException):
    """The process of a saver has died: it saves nothing more."""


class Deaths(Faults):
    """Lets a run die instead of its n-th save."""

    def __init__(self, die_at: int) -> None:
        super().__init__("once", die_at)
        self.how = How(DiedError(), again=1)

    def check(self, error: BaseException) -> None:
        assert error is self.how.error, shown(error)


TURNS = ("the first turn", "the second turn")


def begun(tree: str, turn: str, way: str, folder: Path, die_at: int) -> Failing:
    """Return a thread at the begin of a turn, which is to die."""
    thread = Failing(tree, way, folder, Deaths(0))
    if turn == "the second turn":
        thread.finish()
    thread.faults = Deaths(die_at)
    return thread


@pytest.mark.parametrize(("tree", "turn", "way"), in_turn(TREES, TURNS, WAYS, every=5))
def test_a_turn_that_died_behind_a_save_is_listed_and_comes_to_its_end(
    tree: str, turn: str, way: str, tmp_path: Path
) -> None:
    whole = begun(tree, turn, way, tmp_path / "whole", 0)
    fails = blamed(whole.finish("More."))
    for number in range(1 + len(tree + turn) % STEP, whole.faults.calls + 1, STEP):
        driven = begun(tree, turn, way, tmp_path / str(number), number)
        try:
            check_failing(whole, driven, fails, "More.")
        except BaseException as error:
            error.add_note(f"It died instead of save {number} of {whole.faults.calls}.")
            raise

"""Ctrl-C in a sync run: what runs ends, nothing more begins, and a resume runs only the rest."""

from pathlib import Path

import pytest
from helpers.commands import Commands
from interrupted_trees import COUNT, TREES

PROGRAM = Path(__file__).with_name("interrupted_trees.py")


@pytest.mark.parametrize("tree", TREES)
def test_after_ctrl_c_nothing_more_begins_and_a_resume_runs_only_the_rest(
    program: Commands, tree: str
) -> None:
    ended = program(str(PROGRAM), tree, str(program.folder))
    assert ended.lines == ["interrupted 2", f"resumed {COUNT} {COUNT}"], ended.err

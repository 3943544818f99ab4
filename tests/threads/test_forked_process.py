"""A process that forks while a run is open: the run stays that of the first one, and nothing hangs."""

from ast import literal_eval
from pathlib import Path

import pytest
from forked_process import ACTS
from helpers.commands import Commands
from helpers.databases import Databases

PROGRAM = Path(__file__).with_name("forked_process.py")
ON_A_FILE = {"the same thread", "another runner"}
"""In memory a forked process has a copy of the threads, which nothing locks."""


@pytest.mark.parametrize(
    ("act", "place"),
    [(act, place) for act in ACTS for place in ("SQLite", "memory")[: 1 + (act not in ON_A_FILE)]],
)
def test_a_forked_process_leaves_the_run_alone(program: Commands, act: str, place: str) -> None:
    check(program, act, place)


@pytest.mark.parametrize("act", ACTS)
def test_a_forked_process_has_connections_of_its_own(
    program: Commands, act: str, databases: Databases
) -> None:
    check(program, act, databases.make())


def check(program: Commands, act: str, place: str) -> None:
    ended = program.start(str(PROGRAM), str(program.folder), act, place).wait()
    assert ended.code == 0, ended.err
    *said, code, rest = ended.lines
    assert (said, code) == ([ACTS[act][1]] if act != "exit" else [], "ended with 0")
    texts, _, status = rest.rpartition(" ")
    assert (sorted(literal_eval(texts)), status) == (["b", "c", "d", "z"], "done")

"""A kill in the middle of many leaves: at most as many run again as run at once."""

import json
from pathlib import Path

import pytest
from campaign import EXAMPLES
from helpers.commands import Commands
from wide_process import KINDS

PROGRAM = Path(__file__).with_name("wide_process.py")
COUNT, KILLS = (1000, [250, 250, 100]) if EXAMPLES else (100, [80])


@pytest.mark.by_turns("mode")
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("kind", KINDS)
def test_at_most_as_many_leaves_run_again_as_run_at_once(
    program: Commands, kind: str, mode: str
) -> None:
    arguments = str(program.folder), str(COUNT), json.dumps(KILLS), kind, mode
    ended = program.start(str(PROGRAM), *arguments).wait()
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result["codes"] == [*[-9 for _ in KILLS], 0], ended.err
    assert result["ended"][:-1] == KILLS
    assert result["leaves"] == COUNT * (2 if kind == "pairs" else 1)
    assert max(result["again"]) <= KINDS[kind][1], result

"""Processes that advance turns of one database at random, and die: every turn runs once.

With `AGENTGRAPH_EXAMPLES` of at least 1,000 they make 2,000 calls.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
from advancing_processes import TURNS, tree
from helpers.commands import Commands

import agentgraph as ag

PROGRAM = str(Path(__file__).with_name("advancing_processes.py"))
CALLS = 2000 if int(os.environ.get("AGENTGRAPH_EXAMPLES", "0")) >= 1000 else 80
STEPS = ("first", "left", "right", "last")


@pytest.mark.parametrize("place", ["database", "file"])
def test_each_turn_runs_once_however_often_and_where_it_is_called(
    place: str, program: Commands, request: pytest.FixtureRequest
) -> None:
    at = request.getfixturevalue("url") if place == "database" else str(program.folder / "t.db")
    ended = program(PROGRAM, at, str(CALLS), place)
    assert (ended.code, ended.err) == (0, "")
    with ag.Runner(tree(), checkpointer=at) as runner:
        ran, died = (Counter(lines(program.folder / name)) for name in ("ledger", "deaths"))
        for each in runner.threads():
            check(runner, each.thread_id, ran, died)


def check(runner: ag.Runner, name: str, ran: Counter[str], died: Counter[str]) -> None:
    """Check that each step of the turns of a thread ran once, and again only where it died."""
    thread = runner.thread(name)
    inputs = [each.text for turn in thread.turns for each in turn.messages]
    assert len({*inputs}) == len(inputs) <= TURNS
    for number, turn in enumerate(thread.turns, start=1):
        is_open = turn is thread.turns[-1] and thread.status == "paused"
        said = [each.text for each in turn.events if each.message and each.agent_name in STEPS]
        assert sorted(said) == sorted(STEPS[: 3 if is_open else 4])
        for step in said:
            key = f"{name} {number} {step}"
            deaths = sum(died[f"{name} {number} {each}"] for each in beside(step))
            assert 1 <= ran[key] <= 1 + deaths, key
        result = runner.advance(name, turn_id=f"turn {inputs[number - 1][3:-1]}")
        assert [each.id for each in result.events] == [each.id for each in turn.events]


def beside(step: str) -> tuple[str, ...]:
    """Return the steps in which a death has a step run again: its own, and those beside it."""
    return ("left", "right") if step in ("left", "right") else (step,)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []

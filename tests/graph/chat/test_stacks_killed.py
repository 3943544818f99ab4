"""Processes that are killed in hooks and wraps of middleware: only what was in flight runs again."""

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers import check_heard, read, stack_process
from helpers.commands import Commands
from helpers.stack_process import NOWHERE

import agentgraph as ag

IN_FLIGHT = {
    "before_agent 0": (),
    "before the tool b": (),
    "after the tool b": ("before the tool b", "tool b"),
    "before_model 1": (),
    "before the model 2": (),
    "after the model 2": ("before the model 2", "model 2"),
    "after_model 1": (),
    "after the tool c": ("before the tool c", "tool c"),
    "after_agent 0": (),
}
"""Where one process after the other is killed, and what it had done in the same step before that."""

FIRST_CALL = Counter(["before the tool a", "tool a", "after the tool a"])
"""A call that ended just before another one of its message: LangGraph saves and streams the result of
a task while the node goes on. If it was not saved yet, it runs again, and its first result is void."""


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_after_each_kill_only_what_was_in_flight_runs_again(
    program: Commands, mode: str, tmp_path: Path
) -> None:
    def run(folder: Path, method: str, point: str) -> int:
        """Run a method in a process, to its end or to where it is killed; return its exit code."""
        return program(stack_process.__file__, str(folder), mode, method, point).code

    undisturbed, killed = (tmp_path / name for name in ("undisturbed", "killed"))
    undisturbed.mkdir()
    killed.mkdir()
    assert run(undisturbed, "run", NOWHERE) == 0
    assert set(done(undisturbed).values()) == {1}
    again = Counter[str]()
    for number, (point, before) in enumerate(IN_FLIGHT.items()):
        method = "resume" if number else "run"
        assert run(killed, method, point) == -signal.SIGKILL, point
        again += Counter([point, *before])
    assert run(killed, "resume", NOWHERE) == 0
    least = done(undisturbed) + again
    assert done(killed) in [least, least + FIRST_CALL, least + FIRST_CALL + FIRST_CALL]
    assert kept(killed) == kept(undisturbed)
    for folder in (undisturbed, killed):
        check_heard(read((folder / "heard").read_text().splitlines()), events(folder))


def done(folder: Path) -> Counter[str]:
    return Counter((folder / "ledger").read_text().splitlines())


def events(folder: Path) -> list[ag.AgentEvent]:
    found = json.loads((folder / "kept").read_text())["events"]
    return [ag.AgentEvent.from_dict(each) for each in found]


def kept(folder: Path) -> Any:
    """Return what a thread keeps, without ids."""
    found = json.loads((folder / "kept").read_text())
    lines = [(event.address, event.kind, event.text) for event in events(folder)]
    return lines, found["values"], found["messages"]

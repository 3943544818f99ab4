"""A process that is killed in a hook or a wrap of middleware: only what was in flight runs again."""

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forking
import pytest
import stack_process
from helpers import check_heard, read
from stack_process import NOWHERE

import agentgraph as ag

IN_FLIGHT = {
    "before_agent 0": (),
    "before_model 1": (),
    "before the model 2": (),
    "after the model 2": ("before the model 2", "model 2"),
    "after_model 1": (),
    "before the tool b": (),
    "after the tool b": ("before the tool b", "tool b"),
    "after the tool c": ("before the tool c", "tool c"),
    "after_agent 0": (),
}
"""Where a process is killed, and what was done in the same step before that."""

FIRST_CALL = Counter(["before the tool a", "tool a", "after the tool a"])
"""A call that ended just before another one of its message: LangGraph saves and streams the result of
a task while the node goes on. If it was not saved yet, it runs again, and its first result is void."""


Run = Callable[[Path, str, str, str], int]
"""Runs a method in a process, to its end or to where it is killed; gives its exit code."""


@pytest.fixture(scope="module")
def stacks() -> Iterator[Run]:
    with forking.serving(stack_process.__file__) as forker:

        def run(folder: Path, mode: str, method: str, point: str) -> int:
            folder.mkdir(exist_ok=True)
            forker.start(folder=str(folder), mode=mode, method=method, point=point)
            return forker.wait()

        yield run


@pytest.fixture(scope="module")
def undisturbed(stacks: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of a sync and an async run that nobody killed."""
    folders = {mode: tmp_path_factory.mktemp(mode) for mode in ("sync", "async")}
    assert [stacks(folder, mode, "run", NOWHERE) for mode, folder in folders.items()] == [0, 0]
    return folders


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("point", IN_FLIGHT)
def test_after_a_kill_in_middleware_only_what_was_in_flight_runs_again(
    stacks: Run, undisturbed: dict[str, Path], mode: str, point: str, tmp_path: Path
) -> None:
    assert stacks(tmp_path, mode, "run", point) == -signal.SIGKILL
    assert stacks(tmp_path, mode, "resume", NOWHERE) == 0
    wanted = undisturbed[mode]
    at_least = done(wanted) + Counter([point, *IN_FLIGHT[point]])
    assert kept(tmp_path) == kept(wanted)
    check_heard(told(tmp_path), again(tmp_path))
    may_be = [Counter(), FIRST_CALL] if point.endswith("the tool b") else [Counter()]
    assert done(tmp_path) in [at_least + more for more in may_be]


def test_an_undisturbed_run_tells_what_it_tells_again(undisturbed: dict[str, Path]) -> None:
    for folder in undisturbed.values():
        check_heard(told(folder), again(folder))
        assert set(done(folder).values()) == {1}
    assert kept(undisturbed["sync"]) == kept(undisturbed["async"])


def done(folder: Path) -> Counter[str]:
    return Counter((folder / "ledger").read_text().splitlines())


def told(folder: Path) -> list[ag.AgentEvent]:
    """Return what the runs told, also what is void by now."""
    return read((folder / "told").read_text().splitlines())


def again(folder: Path) -> list[ag.AgentEvent]:
    found = json.loads((folder / "kept").read_text())["events"]
    return [ag.AgentEvent.from_dict(each) for each in found]


def kept(folder: Path) -> Any:
    """Return what a thread keeps, ids aside."""
    found = json.loads((folder / "kept").read_text())
    lines = [(event.address, event.kind, event.text) for event in again(folder)]
    return lines, found["values"], found["messages"]

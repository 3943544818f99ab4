"""A step that is running when the process dies, after another one has failed for good.

The process dies as soon as the failure is saved, before a step can hear of it. The resume runs what was
running to its end, and undoes it.
"""

from collections import Counter
from pathlib import Path

import pytest
from helpers import check_heard, lines, read
from helpers.commands import Commands, Ended

import agentgraph as ag

PROGRAM = Path(__file__).with_name("failing_steps.py")


class Killed:
    """A run whose process dies when the failure of a step is saved, and its resumes.

    Attributes:
        heard: The events of all processes so far.
    """

    def __init__(self, program: Commands, *arguments: str) -> None:
        self._program, self.folder = program, program.folder
        self._arguments = (str(self.folder), *arguments)
        first = self._process("run")
        assert first.code in (-9, 137), first.err
        self.heard = read(first.lines)

    def resume(self) -> list[str]:
        """Resume, and return what is new in the ledger."""
        before = len(self._ledger())
        ended = self._process("resume")
        assert ended.code == 0, ended.err
        self.heard += read(ended.lines)
        check_heard(self.heard, self.again())
        return self._ledger()[before:]

    def again(self) -> list[ag.AgentEvent]:
        return read((self.folder / "again").read_text().splitlines())

    @property
    def error(self) -> str:
        return (self.folder / "error").read_text()

    def _process(self, method: str) -> Ended:
        return self._program.start(str(PROGRAM), *self._arguments, method).wait()

    def _ledger(self) -> list[str]:
        return (self.folder / "ledger").read_text().splitlines()


AGAIN = {
    "leaf": ["c", "undo_c"],
    "coroutine": ["c", "undo_c"],
    "sequence": ["c/c1", "c/c2", "undo_c"],
    "branches": ["c/c2", "undo_c"],
    "items": ["c/work(1:y)", "undo_c"],
    "chosen": ["c/c2", "undo_c"],
    "nested": ["c/undo_j", "c/undo_i"],
    "loop": ["c", "undo_c"],
}
"""What a resume runs before it undoes `a`, by tree; in `nested` that itself undoes its steps."""


@pytest.mark.parametrize("on_error", ["fail", "wait"])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("tree", AGAIN)
@pytest.mark.by_turns("mode", "on_error")
def test_a_step_in_flight_is_run_to_its_end_and_undone(
    program: Commands, tree: str, mode: str, on_error: str
) -> None:
    killed, at = Killed(program, tree, mode, on_error), "l[1]/wf" if tree == "loop" else "wf"
    ran = [f"{at}/{name}" for name in [*AGAIN[tree], "undo_a"]]
    wanted = [f"{what} {where}" for where in ran for what in ("start", "end")]
    new = killed.resume()
    beside = [line for line in new if line.endswith("/d")]  # nothing undoes it
    assert len(beside) == 2 * (on_error == "wait" and tree in ("leaf", "coroutine"))
    assert [line for line in new if line not in beside] == wanted
    undone = "a" if tree == "nested" else "c, a"
    shown = f"{at}: the step 'bad' failed: ValueError('bad'); undone: {undone}"
    assert killed.error == shown
    said = lines(killed.again())
    assert said[-1] == f"{at}: [error] StepFailedError({shown!r})"
    assert max(Counter(said).values()) == 1
    assert (killed.resume(), killed.error) == ([], shown)
    assert lines(killed.again()) == [*said, said[-1]]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_step_in_flight_is_tried_again_as_its_retry_says(program: Commands, mode: str) -> None:
    killed = Killed(program, "retried", mode, "fail")
    assert killed.resume()[:3] == ["start wf/c", "start wf/c", "end wf/c"]
    assert killed.error.endswith("; undone: c, a")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_with_fail_a_step_in_flight_that_asks_is_left(program: Commands, mode: str) -> None:
    killed = Killed(program, "asking", mode, "fail")
    assert killed.resume() == ["start wf/c/boss", "start wf/undo_a", "end wf/undo_a"]
    assert killed.error.endswith("; undone: a")
    assert (killed.resume(), (killed.folder / "pending").read_text()) == ([], "[]")
    assert "interrupted" not in [event.kind for event in killed.again()]

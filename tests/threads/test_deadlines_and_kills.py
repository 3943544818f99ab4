"""Processes that die between a deadline, an answer and the default: one of them counts, and once."""

import signal
import time
from pathlib import Path

import pytest
from deadline_process import tree
from helpers.commands import Commands

import agentgraph as ag

PROGRAM = str(Path(__file__).with_name("deadline_process.py"))
ENDS = (0, -signal.SIGKILL)


def until_passed(runner: ag.Runner) -> None:
    """Wait until the deadlines of a thread have passed, also of questions that were answered."""
    actions = [each.action for each in runner.events("t")]
    asked = [each.interrupted for each in actions if each and each.interrupted]
    while time.time() <= max(each.deadline or 0 for each in asked):
        time.sleep(0.01)


def counted(runner: ag.Runner, kind: str) -> int:
    return [each.kind for each in runner.events("t")].count(kind)


def said(runner: ag.Runner) -> list[str]:
    return [each.text for each in runner.thread("t").messages][1:]


@pytest.mark.parametrize("saves", [1, 2, 3, 5])
def test_a_default_is_taken_once_whenever_its_process_dies(program: Commands, saves: int) -> None:
    path = str(program.folder / "t.db")
    assert program(PROGRAM, path, "run", "0", "default").code == 0
    with ag.Runner(tree("default"), checkpointer=path) as runner:
        until_passed(runner)
        assert program(PROGRAM, path, "resume", str(saves), "default").code in ENDS
        with pytest.raises(ag.UnknownInterruptError, match="'no' is the answer"):
            runner.invoke(thread_id="t", answers={"p/lane/boss": "yes"})
        runner.invoke(thread_id="t")
        assert (runner.thread("t").status, counted(runner, "default")) == ("done", 1)
        assert said(runner) == ["no", "Printed.", "A draft."]


@pytest.mark.parametrize("saves", [1, 2, 3])
def test_an_answer_that_was_saved_in_time_counts(program: Commands, saves: int) -> None:
    path = str(program.folder / "t.db")
    assert program(PROGRAM, path, "run", "0", "default").code == 0
    with ag.Runner(tree("default"), checkpointer=path) as runner:
        program(PROGRAM, path, "answer", str(saves), "default")  # on a slow machine it may be late
        is_saved = not runner.pending("t")
        until_passed(runner)
        runner.invoke(thread_id="t")
        assert said(runner) == ["yes" if is_saved else "no", "Printed.", "A draft."]
        assert counted(runner, "default") == (not is_saved)


@pytest.mark.parametrize("saves", [2, 4, 6])
def test_approvals_are_rejected_once_whenever_their_process_dies(program: Commands, saves: int) -> None:
    path = str(program.folder / "t.db")
    assert program(PROGRAM, path, "run", "0", "approval").code == 0
    with ag.Runner(tree("approval"), checkpointer=path) as runner:
        asked = {each.id for each in runner.pending("t")}
        until_passed(runner)
        assert program(PROGRAM, path, "resume", str(saves), "approval").code in ENDS
        runner.invoke(thread_id="t")
        assert runner.thread("t").status == "done"
        defaults = [each.action and each.action.default for each in runner.events("t")]
        assert sorted(each.id for each in defaults if each) == sorted(asked)
        bars = [each for each in runner.timeline("t").bars if each.kind == "question"]
        assert [each.label for each in bars] == ["approve pay? (not answered in time)"] * 2


@pytest.mark.parametrize("saves", [1, 3])
def test_a_failure_is_raised_and_the_question_is_asked_again(program: Commands, saves: int) -> None:
    path = str(program.folder / "t.db")
    assert program(PROGRAM, path, "run", "0", "fails").code == 0
    with ag.Runner(tree("fails"), checkpointer=path) as runner:
        (first,) = runner.pending("t")
        until_passed(runner)
        assert program(PROGRAM, path, "resume", str(saves), "fails").code in ENDS
        with pytest.raises(ag.QuestionTimeoutError):  # the branch has saved it, but the run has not
            runner.invoke(thread_id="t")
        (again,) = runner.invoke(thread_id="t").pending
        assert again.id != first.id
        assert counted(runner, "error") == 1
        assert runner.invoke(thread_id="t", answers="yes").status == "done"

"""Random trees whose questions are answered while they run: all is as if the run had paused for it."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from answering import Answered, beside_a_person, hurried
from comparison import check
from conversations import MOST_RESUMES, Case, Turn, as_argument, settling, some_of
from helpers import Drive
from hypothesis import event, given
from hypothesis import strategies as st
from test_spine import DRIVES, cases, share

import agentgraph as ag


def _hold(thread: Answered) -> None:
    """Run a turn for each text, to its end: questions that were not answered are answered at rest."""
    for text in thread.case.texts:
        thread.turns.append(turn := Turn(text))
        turn.events += thread.run(text)
        for _ in range(MOST_RESUMES):
            turn.pending.append(questions := thread.pending())
            assert thread.taken.isdisjoint(question.id for question in questions)
            if not questions and thread.thread().status == "done":
                break
            turn.events += _go_on(thread, questions)
        else:
            raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")


def _go_on(thread: Answered, questions: list[ag.Interrupt]) -> list[ag.AgentEvent]:
    """Answer some questions in a resume, or before it; where deadlines are short, others than those."""
    choices = thread.choices
    untimed = [each for each in questions if each.deadline is None or thread.case.patience > 1]
    chosen = some_of(untimed, choices)
    answers = as_argument(chosen, questions, choices)
    thread.taken.update(question.id for question in chosen)
    options = settling(thread.error)
    if not answers or choices.random() < 0.5:
        return thread.resume(*answers, **options)
    thread.use(lambda r: r.answer(thread.id, *answers), lambda r: r.aanswer(thread.id, *answers))
    for question in chosen:
        with pytest.raises(ag.UnknownInterruptError):
            thread.use(*_again(thread, question))
    return thread.resume(**options)


def _again(thread: Answered, question: ag.Interrupt) -> tuple[Any, Any]:
    answers = {question.id: "stale"}

    def aanswer(runner: ag.Runner) -> Coroutine[Any, Any, None]:
        return runner.aanswer(thread.id, answers)

    return (lambda runner: runner.answer(thread.id, answers)), aanswer


@share(0.4)
@given(case=cases().map(beside_a_person).map(hurried), drive=DRIVES)
def test_a_run_whose_questions_are_answered_meanwhile_does_what_the_reference_does(
    case: Case, drive: Drive
) -> None:
    thread = Answered(case, drive)
    _hold(thread)
    event(f"{min(thread.while_running, 4)} answers taken by a run")
    check(thread)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answered") / "threads.db"


@share(0.2)
@given(case=cases().map(beside_a_person).map(hurried), in_file=st.booleans(), drive=DRIVES)
def test_a_saved_thread_is_answered_meanwhile(
    file: Path, database: str, case: Case, in_file: bool, drive: Drive
) -> None:
    thread = Answered(case, drive, file if in_file else database)
    _hold(thread)
    check(thread)

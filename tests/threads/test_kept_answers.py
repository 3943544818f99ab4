"""Answers on a thread at rest: they are stored, and the next run takes them."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from answering_process import BOSS, LEGAL, tree
from helpers import Async, Session, Sync, chat, says
from helpers.forking import Forker
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.journal.locks import ThreadLock
from agentgraph.testing import call, calls
from agentgraph.threads.live import answering as live_answering


class Answered(Session):
    """A thread whose questions are answered at rest."""

    def answer(self, answers: object) -> None:
        self.use(lambda r: r.answer(self.id, answers), lambda r: r.aanswer(self.id, answers))

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        return self.use(
            lambda r: getattr(r, method)(*args, **options),
            lambda r: getattr(r, f"a{method}")(*args, **options),
        )

    def lines(self, method: str, *args: Any, **options: Any) -> list[str]:
        events: list[ag.AgentEvent] = []
        self.follow(method, *args, hear=events.append, **options)
        return [each.text or each.kind for each in events]

    def refuses(self, answers: object, error: type[Exception] = ag.UnknownInterruptError) -> str:
        before = self.thread()
        with pytest.raises(error) as caught:
            self.answer(answers)
        assert self.thread() == before
        return str(caught.value)

    def by_address(self) -> dict[str, object]:
        return {each.question.address: each.answer for each in self.thread().answered}


@pytest.fixture(params=["sync in memory", "async in a file", "async in memory", "sync in a database"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Answered:
    drive, _, *_, kind = request.param.split()
    place = {"memory": None, "file": tmp_path / "t.db"}
    at = request.getfixturevalue("url") if kind == "database" else place[kind]
    return Answered(tree(), Sync if drive == "sync" else Async, at)


def paused(session: Answered) -> Answered:
    session.lines("run", "Go.", thread_id=session.id)
    return session


def test_answers_are_stored_one_after_the_other_and_the_next_run_takes_them(session: Answered) -> None:
    paused(session).answer({BOSS: "yes"})
    thread = session.thread()
    assert (thread.status, [each.address for each in thread.pending]) == ("paused", [LEGAL])
    assert session.call("threads")[0].status == "paused"
    session.answer(True)
    thread = session.thread()
    assert (thread.status, [*thread.pending], session.pending()) == ("stopped", [], [])
    assert session.by_address() == {LEGAL: True, BOSS: "yes"}
    assert [each.status for each in session.call("threads", "stopped")] == ["stopped"]
    assert session.call("result", "t").status == "stopped"
    assert session.lines("resume", "t")[-1] == "Printed."
    assert (session.thread().status, session.by_address()) == ("done", {})
    assert [each.kind for each in session.events()][:2] == ["interrupted", "interrupted"]


def test_a_resume_adds_answers_to_those_that_are_stored(session: Answered) -> None:
    paused(session).answer({BOSS: "no"})
    assert {*session.lines("resume", "t", True)} == {"true", "no", "Printed."}


def test_a_resume_without_all_answers_takes_those_that_are_stored(session: Answered) -> None:
    paused(session).answer({BOSS: "no"})
    assert sorted(session.lines("resume", "t")) == ["discarded", "interrupted", "no"]
    thread = session.thread()
    assert (thread.status, [*thread.answered], len(thread.pending)) == ("paused", [], 1)


def test_the_first_answer_counts(session: Answered) -> None:
    paused(session).answer({BOSS: "yes", LEGAL: True})
    assert "is not pending (was it answered already?)" in session.refuses({BOSS: "no"})
    assert "no question is pending" in session.refuses("no")
    with pytest.raises(ag.UnknownInterruptError, match="is not pending"):
        session.lines("resume", "t", {BOSS: "no"})
    assert session.by_address() == {LEGAL: True, BOSS: "yes"}


def test_wrong_answers_store_nothing(session: Answered) -> None:
    paused(session)
    assert "answers no question" in session.refuses({})
    assert "s/nobody" in session.refuses({"s/nobody": 1, BOSS: "yes"})
    assert "2 questions are pending" in session.refuses("yes")
    assert "maybe" in session.refuses({LEGAL: True, BOSS: "maybe"}, ag.InvalidAnswerError)
    assert "has no JSON form" in session.refuses({LEGAL: object()}, ag.InvalidAnswerError)
    session.id = "nobody"
    with pytest.raises(ag.UnknownThreadError):
        session.answer("yes")


def test_new_input_is_rejected_until_a_run_has_taken_the_answers(session: Answered) -> None:
    paused(session).answer({BOSS: "yes"})
    session.answer(True)
    for call_ in (lambda: session.lines("run", "New.", thread_id="t"), lambda: advance(session, "two")):
        with pytest.raises(ag.PendingInterruptError, match="that no run has taken"):
            call_()
    assert session.by_address() == {LEGAL: True, BOSS: "yes"}
    if session.path is None:
        queued_input_is_rejected(session)
    assert session.lines("run", "New.", thread_id="t", drop_pending=True)[0] == "discarded"
    assert session.by_address() == {}


def queued_input_is_rejected(session: Answered) -> None:
    """Queue input behind a run that ends before it has taken the answers."""
    runner = session.runner(session.memory)
    run = runner.rewind("t", BOSS)
    next(run)
    waits = runner.run("New.", thread_id="t", while_running="queue")
    list(run)
    runner.answer("t", {LEGAL: True, BOSS: "yes"})
    with pytest.raises(ag.PendingInterruptError, match="has answers that no run has taken"):
        next(waits)


def advance(session: Answered, turn: str, **options: Any) -> ag.Result:
    result: ag.Result = session.call("advance", "t", "Go.", turn_id=turn, **options)
    return result


def test_advance_takes_stored_answers_and_knows_them(session: Answered) -> None:
    advance(session, "one")
    session.answer({BOSS: "yes"})
    with pytest.raises(ag.UnknownInterruptError, match="was answered otherwise"):
        advance(session, "one", answers={BOSS: "no"})
    assert session.by_address() == {BOSS: "yes"}
    session.answer(True)
    result = advance(session, "one", answers={BOSS: "yes"})
    assert (result.status, result.text) == ("done", "Printed.")
    assert advance(session, "one", answers={BOSS: "yes", LEGAL: True}) == result
    with pytest.raises(ag.UnknownInterruptError, match="was answered otherwise"):
        advance(session, "one", answers={LEGAL: False})


def test_advance_takes_an_answer_after_a_stop_and_waits_for_the_rest(session: Answered) -> None:
    advance(session, "one")
    assert advance(session, "one").status == "paused"
    session.answer({BOSS: "yes"})
    result = advance(session, "one")
    assert (result.status, [each.address for each in result.pending]) == ("paused", [LEGAL])
    assert (advance(session, "one").status, session.by_address()) == ("paused", {})


def test_a_copy_has_the_answers_and_a_copy_up_to_a_visit_asks(session: Answered) -> None:
    paused(session).answer({BOSS: "yes", LEGAL: True})
    session.call("copy", "t", "whole")
    session.call("copy", "t", "upto", at=BOSS)
    assert session.lines("resume", "whole")[-1] == "Printed."
    session.id = "upto"
    assert session.lines("resume", "upto")[-1] == "interrupted"
    assert {each.address for each in session.pending()} >= {BOSS}


def test_a_rewind_asks_again(session: Answered) -> None:
    paused(session).answer({BOSS: "yes", LEGAL: True})
    assert session.lines("rewind", "t", BOSS)[0] == "discarded"
    assert (session.by_address(), len(session.pending())) == ({}, 2)
    assert session.thread().status == "paused"


def test_pruning_leaves_the_answers(tmp_path: Path) -> None:
    runner = ag.Runner(tree(), checkpointer=tmp_path / "t.db")
    runner.invoke("Go.", thread_id="t")
    runner.invoke(thread_id="t", answers={LEGAL: True, BOSS: "yes"})
    runner.invoke("Again.", thread_id="t")
    runner.answer("t", {LEGAL: False, BOSS: "no"})
    assert runner.prune("t", keep_turns=1).turns == 1
    assert runner.prune(older_than=0).threads == 0
    assert runner.invoke(thread_id="t").text == "Printed."
    assert {"false", "no"} <= {each.text for each in runner.events("t")}
    runner.close()


def asks_twice(city: str) -> str:
    """Book."""
    return f"{city}: {interrupt('Which day?')} {interrupt('Which hour?')}"


def test_several_questions_of_a_call_are_answered_in_their_order(session: Answered) -> None:
    made = calls(call("asks_twice", city="Rome"), call("asks_twice", city="Oslo"))
    session.tree = chat("c", made, "Booked.", tools=[asks_twice])
    paused(session)
    for number in range(2):
        for question in session.pending():
            session.answer({question.id: f"{question.value}{number}"})
        session.lines("resume", "t")
    said = [each.text for each in session.events() if each.text]
    expected = "Which day?0 Which hour?1"
    assert sorted(said) == ["Booked.", f"Oslo: {expected}", f"Rome: {expected}"]


def test_a_persons_leave_is_stored(session: Answered) -> None:
    limits = ag.Limits(steps=1, on_limit="ask")
    session.tree = ag.sequential("s", [says("a", "A."), says("b", "B.")])
    session.lines("run", "Go.", thread_id="t", limits=limits)
    session.answer(False)
    with pytest.raises(ag.LimitError):
        session.lines("resume", "t", limits=limits)
    assert session.by_address() == {}
    assert session.lines("resume", "t", limits=limits)[-1] == "interrupted"
    session.answer(True)
    assert session.lines("resume", "t", limits=limits)[-1] == "B."


def test_another_tree_sees_that_all_is_answered(session: Answered) -> None:
    paused(session).answer({BOSS: "yes"})
    session.tree, own = ag.human("other", "?"), session.tree
    assert [each.status for each in session.call("threads")] == ["paused"]
    session.tree = own
    session.answer(True)
    session.tree = ag.human("other", "?")
    assert [each.status for each in session.call("threads")] == ["stopped"]
    with pytest.raises(ag.TreeChangedError):
        session.answer({BOSS: "yes"})


def edited(session: Answered) -> None:
    at: Any = {"configurable": {"thread_id": "t"}}
    update = at, {"values": {"mood": "fine"}}
    session.use(lambda r: r.graph.update_state(*update), lambda r: r.graph.aupdate_state(*update))


@pytest.mark.parametrize("kind", ["limit", "edited", "edited around a branch"])
def test_a_run_that_has_begun_with_an_answer_takes_no_other(kind: str) -> None:
    limits = ag.Limits(steps=1, on_limit="ask") if kind == "limit" else None
    boss = ag.parallel("p", [ag.human("boss", "?")]) if "branch" in kind else ag.human("boss", "?")
    first = says("a", "A.") if kind == "limit" else boss
    session = Answered(ag.sequential("s", [first, says("b", "B.")]), Sync)
    session.lines("run", "Go.", thread_id="t", limits=limits)
    "edited" in kind and edited(session)

    def both(runner: ag.Runner) -> list[str]:
        (question,) = runner.pending("t")
        run = runner.resume("t", {question.id: True}, limits=limits)
        with pytest.raises(ag.UnknownInterruptError, match="has an answer by now"):
            runner.answer("t", {question.id: False})
        return [each.text for each in run]

    assert "B." in session.use(both, both)
    assert session.by_address() == {}


def test_an_answer_to_the_only_question_survives_edits(session: Answered) -> None:
    session.tree = ag.sequential("s", [ag.human("boss", "Print it?"), says("printer", "Printed.")])
    paused(session)
    edited(session)
    session.answer("yes")
    edited(session)
    assert (session.thread().status, session.by_address()) == ("stopped", {"s/boss": "yes"})
    assert session.lines("resume", "t") == ["yes", "Printed."]


def test_an_edit_has_several_questions_asked_again(session: Answered) -> None:
    paused(session).answer({BOSS: "yes"})
    edited(session)
    assert (session.thread().status, session.by_address()) == ("paused", {})
    assert "resume(thread_id) asks again" in session.refuses({BOSS: "yes"})
    assert session.lines("resume", "t").count("interrupted") == 2
    session.answer({BOSS: "yes", LEGAL: True})
    assert session.lines("resume", "t")[-1] == "Printed."


def test_a_timeline_shows_when_a_question_was_answered() -> None:
    runner = ag.Runner(tree())
    runner.invoke("Go.", thread_id="t")
    runner.answer("t", {BOSS: "yes"})
    bars = {each.address: each for each in runner.timeline("t").bars if each.kind == "question"}
    assert (bars[BOSS].state, bars[LEGAL].state) == ("done", "asks")
    ended = bars[BOSS].ended
    runner.invoke(thread_id="t", answers=True)
    bars = {each.address: each for each in runner.timeline("t").bars if each.kind == "question"}
    assert bars[BOSS].ended == ended
    assert ended is not None
    assert bars[LEGAL].ended is not None
    assert bars[LEGAL].ended > ended


@pytest.fixture
def answering(forker: Forker) -> Forker:
    return forker.of("answering_process")


@pytest.fixture(params=["file", "database"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where several processes have their threads."""
    return request.getfixturevalue("url") if request.param == "database" else str(tmp_path / "t.db")


def test_of_answers_by_several_processes_the_first_counts(
    at: str, answering: Forker, tmp_path: Path
) -> None:
    with ag.Runner(tree(), checkpointer=at) as runner:
        for number in range(4):
            runner.invoke("Go.", thread_id=f"t{number}")
        answering.start(folder=str(tmp_path), place=at, threads=4, workers=4)
        assert answering.wait() == 0
        told = [line.split() for line in (tmp_path / "ledger").read_text().splitlines()]
        assert len(told) == 16
        taken = {thread: answer for thread, answer, how in told if how == "taken"}
        assert Counter(how for *_, how in told) == {"taken": 4, "UnknownInterruptError": 12}
        for thread, answer in taken.items():
            assert [each.answer for each in runner.thread(thread).answered] == [answer]


def test_another_process_learns_that_a_run_has_begun_with_an_answer(
    at: str, answering: Forker, tmp_path: Path
) -> None:
    with ag.Runner(tree(), checkpointer=at) as runner:
        runner.invoke("Go.", thread_id="t0")
        run = runner.resume("t0", {LEGAL: True, BOSS: "no"})  # nothing of it is saved yet
        answering.start(folder=str(tmp_path), place=at, threads=1, workers=1)
        assert answering.wait() == 0
        assert (tmp_path / "ledger").read_text() == "t0 yes UnknownInterruptError\n"
        assert [each.text for each in run if each.agent_name == "boss" and each.text] == ["no"]


def test_a_killed_run_leaves_the_answers_that_it_has_not_used(
    at: str, answering: Forker, tmp_path: Path
) -> None:
    deaths = 0
    with ag.Runner(tree(), checkpointer=at) as runner:
        for after in range(1, 30):
            thread = f"killed {after}"
            runner.invoke("Go.", thread_id=thread)
            answering.start(folder=str(tmp_path), place=at, thread=thread, after=after)
            if answering.wait() == 0:
                break
            deaths += 1
            pending = {each.address for each in runner.pending(thread)}
            if pending:  # nothing was stored: `answer` had not returned
                assert pending == {LEGAL, BOSS}
                assert not (tmp_path / thread).exists()
                runner.answer(thread, {LEGAL: True, BOSS: "yes"})
            assert runner.invoke(thread_id=thread).status == "done"
            said = Counter(each.text or each.kind for each in runner.events(thread))
            assert said == {"interrupted": 2, "true": 1, "yes": 1, "Printed.": 1}
    assert deaths > 4
    assert after < 29


def test_an_answer_in_time_counts_after_the_deadline(session: Answered) -> None:
    asks = [ag.human(name, "Print it?", timeout=0.4, default="no") for name in ("ann", "bob")]
    session.tree = ag.parallel("p", asks)
    paused(session)
    session.answer({"p/ann": "yes"})
    deadline = max(each.deadline or 0 for each in session.pending())
    while time.time() <= deadline:
        time.sleep(0.02)
    assert "its default 'no' is the answer" in session.refuses("yes")
    assert session.call("advance", "t").status == "done"
    assert {each.agent_name: each.text for each in session.events() if each.text} == {
        "ann": "yes",
        "bob": "no",
    }


def test_an_answer_waits_while_other_calls_answer_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = ag.Runner(ag.human("boss", "Print it?"))
    runner.invoke("Go.", thread_id="t")
    other = ThreadLock(runner.saver, "agentgraph-answer-t")
    other.acquire()
    with monkeypatch.context() as hurried, pytest.raises(ag.ThreadBusyError) as caught:
        hurried.setattr(live_answering, "_LONGEST", 0.0)
        runner.answer("t", "yes")
    assert str(caught.value) == (
        "thread 't' is busy: other calls are answering its questions; nothing was saved, so answer "
        "again"
    )
    monkeypatch.setattr(live_answering, "_ATTEMPTS", 1)
    threading.Timer(0.1, other.release).start()
    runner.answer("t", "yes")
    assert [each.answer for each in runner.thread("t").answered] == ["yes"]

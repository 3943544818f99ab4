"""`advance`: a call that brings a turn further, is safe to repeat, and gives the result of the turn."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Session, Sync, says
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag


class Turns:
    """A thread of a tree, advanced sync or async, with what ran in the world."""

    def __init__(self, session: Session) -> None:
        self.session, self.ran, self.fails = session, list[str](), set[str]()
        session.tree = self.tree()

    def tree(self) -> ag.Agent:
        def does(name: str) -> ag.Agent:
            def fn(ctx: ag.Context) -> str:
                self.ran.append(name)
                if name in self.fails:
                    self.fails.remove(name)
                    raise ValueError("as told")
                return f"{name}: {len(ctx.messages)}"

            return ag.function_agent(name, fn)

        boss = ag.human("boss", "Print it?")
        return ag.sequential("report", [does("writer"), boss, does("printer")])

    def advance(self, *args: Any, **options: Any) -> ag.Result:
        thread = self.session.id
        found: ag.Result = self.session.use(
            lambda runner: runner.advance(thread, *args, **options),
            lambda runner: runner.aadvance(thread, *args, **options),
        )
        return found

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        return self.session.use(
            lambda runner: getattr(runner, method)(*args, **options),
            lambda runner: getattr(runner, f"a{method}")(*args, **options),
        )

    def left(self, after: int, *args: Any, **options: Any) -> None:
        """Run or resume the thread, and leave it after some events."""
        self.session.follow(*args, hear=lambda event: None, left=after, **options)


@pytest.fixture(params=["sync in memory", "async in a file", "async in memory", "sync in a database"])
def turns(request: pytest.FixtureRequest, tmp_path: Path) -> Turns:
    place = {"memory": None, "file": tmp_path / "t.db"}
    kind = request.param.split()[-1]
    at = request.getfixturevalue("url") if kind == "database" else place[kind]
    return Turns(Session(says("none"), Sync if request.param[:7] == "sync in" else Async, at))


def paused(turns: Turns) -> dict[str, object]:
    """Advance a first turn to its question, and return an answer."""
    return {turns.advance("Go.", turn_id="one").pending[0].id: "yes"}


def told(result: ag.Result) -> list[str]:
    return [each.text or each.kind for each in result.events]


def test_a_turn_begins_once_and_its_result_is_the_same_at_each_call(turns: Turns) -> None:
    first = turns.advance("Go.", turn_id="one")
    again = turns.advance("Go.", turn_id="one")
    assert first == again
    assert (first.status, first.text, turns.ran) == ("paused", "writer: 1", ["writer"])
    assert turns.advance(turn_id="one") == turns.advance() == first


def test_an_answer_is_taken_once_and_the_result_has_the_whole_turn(turns: Turns) -> None:
    answers = paused(turns)
    done = turns.advance("Go.", turn_id="one", answers=answers)
    assert turns.advance("Go.", turn_id="one", answers=answers) == done
    assert (done.status, turns.ran) == ("done", ["writer", "printer"])
    assert told(done) == ["writer: 1", "interrupted", "yes", "printer: 3"]
    assert [*done.events] == turns.session.events()


def test_an_answer_by_address_is_taken_once(turns: Turns) -> None:
    turns.advance("Go.", turn_id="one")
    for _ in range(2):
        assert turns.advance(turn_id="one", answers={"report/boss": "yes"}).status == "done"
    assert turns.ran == ["writer", "printer"]


def test_another_answer_than_the_first_is_refused_also_later(turns: Turns) -> None:
    (question,) = answers = paused(turns)
    turns.advance(turn_id="one", answers=answers)
    for turn_id in ("one", "two"):
        with suppress(ag.PendingInterruptError):
            turns.advance("More.", turn_id=turn_id) if turn_id == "two" else None
        with pytest.raises(ag.UnknownInterruptError, match="was answered otherwise; the first"):
            turns.advance(turn_id="one", answers={question: "no"})
        assert turns.advance(turn_id="one", answers=answers).status == "done"


def test_an_answer_to_what_was_never_asked_is_refused_in_each_state(turns: Turns) -> None:
    answers = paused(turns)
    for _ in range(2):
        with pytest.raises(ag.UnknownInterruptError, match="was never asked in this turn"):
            turns.advance(turn_id="one", answers={"0" * 32: "yes"})
        turns.advance(turn_id="one", answers=answers)


def test_a_failed_turn_continues_and_fails_again_as_invoke_does(turns: Turns) -> None:
    turns.fails.add("writer")
    with pytest.raises(ValueError, match="as told"):
        turns.advance("Go.", turn_id="one")
    with pytest.raises(ag.TurnOpenError, match="its last turn has failed, so the turn 'two' cannot"):
        turns.advance("More.", turn_id="two")
    assert turns.advance("Go.", turn_id="one").status == "paused"
    assert turns.ran == ["writer", "writer"]


def test_a_turn_that_was_left_continues_and_finished_work_does_not_run_again(turns: Turns) -> None:
    answers = paused(turns)
    turns.left(1, "resume", "t", answers)
    assert turns.session.thread().status == "stopped"
    done = turns.advance("Go.", turn_id="one", answers=answers)
    assert (done.status, turns.ran) == ("done", ["writer", "printer"])
    assert told(done) == ["writer: 1", "interrupted", "yes", "printer: 3"]


@pytest.mark.parametrize("method", ["advance", "resume"])  # only the first one saves the outcome
def test_an_older_turn_has_its_own_result(method: str, turns: Turns) -> None:
    answers = paused(turns)
    if method == "advance":
        turns.advance(turn_id="one", answers=answers)
    else:
        turns.session.follow("resume", "t", answers, hear=lambda event: None)
    first = turns.call("result", "t")
    second = turns.advance("More.", turn_id="two")
    assert second.status == "paused"
    assert turns.advance("Go.", turn_id="one", answers=answers) == first
    assert turns.call("result", "t", 0) == first
    assert turns.call("result", "t") == second


class Listing(InMemorySaver):
    """Counts how often all checkpoints of a thread are read."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = 0

    def list(self, *args: Any, limit: int | None = None, **options: Any) -> Any:
        self.lists += limit is None
        return super().list(*args, limit=limit, **options)


def test_an_older_turn_is_read_once_for_the_same_call_again() -> None:
    saver = Listing()
    tree = ag.sequential("report", [says("writer", "A draft."), ag.human("boss", "Print it?")])
    runner = ag.Runner(tree, checkpointer=saver)
    answers = {runner.advance("t", "Go.", turn_id="one").pending[0].id: "yes"}
    first = runner.advance("t", "Go.", turn_id="one", answers=answers)
    runner.advance("t", "More.", turn_id="two")
    for given in ({}, answers):
        saver.lists = 0
        assert runner.advance("t", "Go.", turn_id="one", answers=given) == first
        assert saver.lists == 1


def test_a_turn_that_was_given_up_is_stopped_and_never_runs_again(turns: Turns) -> None:
    paused(turns)
    turns.call("invoke", "Something else.", thread_id="t", drop_pending=True)
    assert turns.advance("Go.", turn_id="one").status == "stopped"
    assert len(turns.session.thread().turns) == 2


def test_other_input_under_a_known_name_is_refused(turns: Turns) -> None:
    answers = paused(turns)
    for _ in range(2):
        with pytest.raises(ag.ThreadError, match="has begun with other messages or values"):
            turns.advance("Stop.", turn_id="one")
        with pytest.raises(ag.ThreadError, match="has begun with other messages or values"):
            turns.advance("Go.", turn_id="one", values={"topic": "bees"})
        turns.advance(turn_id="one", answers=answers)


def test_equal_values_are_the_same_input_in_each_process(turns: Turns) -> None:
    first, second = {0, 8}, {8, 0}  # equal, in another order, as those of two processes
    assert [*first] != [*second]
    for seats in (first, second):
        values = {"seats": seats, "photo": b"\xff"}
        assert turns.advance("Go.", turn_id="one", values=values).status == "paused"
    with pytest.raises(ag.ThreadError, match="has begun with other messages or values"):
        turns.advance("Go.", turn_id="one", values={"seats": {8}, "photo": b"\xff"})
    assert turns.ran == ["writer"]


def test_a_new_turn_is_refused_while_another_one_waits(turns: Turns) -> None:
    paused(turns)
    with pytest.raises(ag.PendingInterruptError):
        turns.advance("More.", turn_id="two")
    assert turns.advance(turn_id="one").status == "paused"


def test_a_turn_that_has_not_begun_needs_messages(turns: Turns) -> None:
    with pytest.raises(ag.ThreadError, match="'one' has not begun; pass its messages"):
        turns.advance(turn_id="one")
    with pytest.raises(ag.UnknownThreadError):
        turns.advance()


def test_a_name_is_known_on_copies_and_after_a_rewind_before_its_turn(turns: Turns) -> None:
    answers = paused(turns)
    first = turns.advance(turn_id="one", answers=answers)
    second = turns.advance("More.", turn_id="two")
    turns.call("copy", "t", "copied")
    turns.session.id = "copied"
    assert turns.advance("Go.", turn_id="one", answers=answers).text == first.text
    assert turns.advance("More.", turn_id="two").text == second.text
    turns.session.id = "t"
    turns.left(99, "rewind", "t", "report/printer", turn=0)
    assert turns.advance("More.", turn_id="two").text == second.text
    assert turns.advance("Go.", turn_id="one").text == "printer: 3"


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"messages": "Go."}, "needs a turn_id for messages and values"),
        ({"turn_id": "", "messages": "Go."}, "turn_id='' is not a non-empty text"),
        ({"turn_id": 7, "messages": "Go."}, "turn_id=7 is not a non-empty text"),
        ({"turn_id": "\0", "messages": "Go."}, "is not a non-empty text that can be stored"),
        ({"turn_id": "\ud800", "messages": "Go."}, "is not a non-empty text that can be stored"),
        ({"turn_id": "one", "messages": []}, "has no messages; pass at least one"),
        ({"turn_id": "one", "values": {"topic": "bees"}}, "values of a named turn belong to its"),
        ({"turn_id": "one", "answers": "yes"}, "answers='yes' names no question"),
    ],
)
def test_what_is_not_safe_to_repeat_is_refused(options: dict[str, Any], fault: str) -> None:
    runner = ag.Runner(says("writer", "A draft."))
    with pytest.raises(ag.AgentGraphError, match=fault):
        runner.advance("t", options.pop("messages", None), **options)
    assert runner.thread("t").status == "new"

"""Branches and steps that run while another one fails, exits, wins or asks.

The cases without concurrency are in `tests/transcripts/branches.txt` and `workflows.txt`.
"""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from helpers import Async, Drive, asks, failing, fails, lines, retrying, says, sees

import agentgraph as ag
from agentgraph.errors import StepFailedError
from agentgraph.graph.nodes.schedule import Schedule

PATIENCE = 20


def decides(future: Any) -> bool:
    """Return whether the lane of a future failed, exited, or is the winner `b`."""
    if future.cancelled() or future.exception() is not None:
        return True
    result = future.result()
    return "failed" in result or result["signal"] or result["messages"][-1].text == "b"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set when a failure, a signal or a win has reached the scheduler."""
    event, record = threading.Event(), Schedule.record

    def recording(self: Schedule, ended: Any) -> None:
        record(self, ended)
        if any(map(decides, ended.values())):
            event.set()

    monkeypatch.setattr(Schedule, "record", recording)
    return event


def does(name: str, *acts: Callable[[], Any]) -> ag.Agent:
    """Return an agent that calls functions, the last of which returns what it says."""

    def fn(ctx: ag.Context) -> Any:
        return [act() for act in acts][-1]

    return ag.function_agent(name, fn)


def waiting(event: threading.Event) -> Callable[[], None]:
    def wait() -> None:
        assert event.wait(PATIENCE)

    return wait


def once(error: Exception) -> Callable[[], str]:
    """Return a function that raises an error once."""
    left = [error]

    def act() -> str:
        if left:
            raise left.pop()
        return "b"

    return act


def beside(seen: threading.Event, other: Callable[[], Any]) -> tuple[ag.Agent, ag.Agent]:
    """Return a lane of two agents, and an agent `b` that ends while the first of the two runs."""
    begun = threading.Event()
    long = does("long", begun.set, waiting(seen), lambda: "long")
    return ag.sequential("s", [long, says("after")]), does("b", waiting(begun), other)


def run(drive: Drive, runner: ag.Runner) -> list[str]:
    return lines(drive.run(runner, "Go.", thread_id="t"))


def run_failing(drive: Drive, runner: ag.Runner) -> tuple[list[str], Exception]:
    events, error = failing(drive.run(runner, "Go.", thread_id="t"), Exception)
    return lines(events), error


def resume(drive: Drive, runner: ag.Runner, *answers: Any) -> list[str]:
    return sorted(lines(drive.resume(runner, "t", *answers)))


class TestAFailureBesideALaneOfTwoAgents:
    def test_with_fail_stops_the_lane_after_its_agent_and_a_resume_runs_the_rest(
        self, drive: Drive, seen: threading.Event
    ) -> None:
        s, b = beside(seen, once(ValueError("no")))
        runner = ag.Runner(ag.sequential("q", [ag.parallel("p", [s, b]), sees("last")]))
        told, error = run_failing(drive, runner)
        assert (told, str(error)) == (
            ["q/p/s/long: long", "q/p/b: [error] ValueError('no')"],
            "no",
        )
        assert resume(drive, runner) == [
            "q/last: saw Go. | [long] said: long | [after] said: after | [b] said: b",
            "q/p/b: b",
            "q/p/s/after: after",
        ]

    def test_with_wait_lets_the_lane_finish(self, drive: Drive, seen: threading.Event) -> None:
        runner = ag.Runner(ag.parallel("p", beside(seen, once(ValueError("no"))), on_error="wait"))
        told, error = run_failing(drive, runner)
        assert told == ["p/s/long: long", "p/s/after: after", "p/b: [error] ValueError('no')"]
        assert str(error) == "no"
        assert resume(drive, runner) == ["p/b: b"]

    def test_with_collect_is_emitted_while_the_lane_runs(self, drive: Drive) -> None:
        heard = threading.Event()
        branches = [fails("x"), does("y", waiting(heard), lambda: "y")]
        told = []
        for event in drive.run(ag.Runner(ag.parallel("p", branches, on_error="collect")), "Go."):
            told += lines([event])
            if event.kind == "error":
                heard.set()
        assert told[1:] == ["p/x: Failed: ValueError('x failed, time 1')", "p/y: y"]

    @pytest.mark.parametrize("on_error", ["fail", "wait"])
    def test_in_a_workflow_lets_no_other_step_begin(
        self, drive: Drive, seen: threading.Event, on_error: Any
    ) -> None:
        s, b = beside(seen, once(ValueError("no")))
        after = [ag.step(says("c"), depends_on=["s"]), ag.step(says("d"), depends_on=["b"])]
        runner = ag.Runner(ag.workflow("w", [s, b, *after], on_error=on_error))
        told, error = run_failing(drive, runner)
        finished = ["w/s/after: after"] * (on_error == "wait")
        assert sorted(told) == ["w/b: [error] ValueError('no')", *finished, "w/s/long: long"]
        assert isinstance(error, StepFailedError)
        assert (error.workflow, error.step, error.undone) == ("w", "b", ())
        rest = ["w/s/after: after"] * (on_error == "fail")
        assert resume(drive, runner) == ["w/b: b", "w/c: c", "w/d: d", *rest]

    @pytest.mark.parametrize("on_error", ["fail", "wait"])
    def test_that_is_final_undoes_the_lane_if_it_finished_and_a_resume_runs_nothing(
        self, drive: Drive, seen: threading.Event, on_error: Any
    ) -> None:
        s, b = beside(seen, once(ValueError("no")))
        steps = [ag.step(s, compensate=says("undo_s")), b]
        runner = ag.Runner(ag.workflow("w", steps, on_error=on_error))
        told, error = run_failing(drive, runner)
        finished = on_error == "wait"
        assert [line for line in told if "undo" in line or "after" in line] == [
            *["w/s/after: after", "w/undo_s: undo_s"] * finished,
            f"w: [error] {error!r}",
        ]
        undone = "s" if finished else "nothing"
        assert str(error) == f"w: the step 'b' failed: ValueError('no'); undone: {undone}"
        events, again = failing(drive.resume(runner, "t"), StepFailedError)
        assert (lines(events), str(again)) == ([f"w: [error] {error!r}"], str(error))


@pytest.mark.parametrize("kind", [ag.parallel, ag.workflow])
def test_with_wait_failures_at_the_same_time_are_all_emitted_and_all_run_again(
    drive: Drive, kind: Any
) -> None:
    both = threading.Barrier(2)
    branches = [does(n, lambda: both.wait(PATIENCE), once(ValueError(n))) for n in "ac"]
    runner = ag.Runner(kind("p", [*branches, says("d")], on_error="wait"))
    told, error = run_failing(drive, runner)
    assert told[-2:] == ["p/a: [error] ValueError('a')", "p/c: [error] ValueError('c')"]
    assert "ValueError('a')" in str(error) or str(error) == "a"


def test_of_final_failures_the_first_in_time_is_named(drive: Drive, seen: threading.Event) -> None:
    steps = [
        ag.step(says("a"), compensate=says("undo_a")),
        does("late", waiting(seen), once(ValueError("late"))),
        does("early", once(ValueError("early"))),
    ]
    told, error = run_failing(drive, ag.Runner(ag.workflow("w", steps, on_error="wait")))
    assert [line for line in told if "ValueError" in line][:2] == [
        "w/early: [error] ValueError('early')",
        "w/late: [error] ValueError('late')",
    ]
    assert "the step 'early' failed" in str(error)


def test_steps_are_undone_in_the_reverse_of_the_order_in_which_they_finished(drive: Drive) -> None:
    ended = threading.Event()
    steps = [
        ag.step(does("a", waiting(ended), lambda: "a"), compensate=says("undo_a")),
        ag.step(says("b"), compensate=says("undo_b")),
        ag.step(does("c", ended.set, lambda: "c"), depends_on=["b"]),
        ag.step(fails("d"), depends_on=["a", "c"]),
    ]
    _, error = run_failing(drive, ag.Runner(ag.workflow("w", steps)))
    assert isinstance(error, StepFailedError)
    assert error.undone == ("a", "b")


def test_the_error_of_a_step_is_emitted_before_its_workflow_is_undone(drive: Drive) -> None:
    told: list[ag.AgentEvent] = []
    undo = ag.function_agent("undo", lambda ctx: lines(told)[-1])
    tree = ag.workflow(
        "w", [ag.step(says("a"), compensate=undo), ag.step(fails("b"), depends_on=["a"])]
    )
    with pytest.raises(StepFailedError):
        told.extend(drive.run(ag.Runner(tree), "Go."))
    assert lines(told)[2] == "w/undo: w/b: [error] ValueError('b failed, time 1')"


@pytest.mark.parametrize("undone", [False, True])
def test_after_an_exit_running_steps_finish_and_no_other_begins(
    drive: Drive, seen: threading.Event, undone: bool
) -> None:
    def leave() -> list[Any]:
        return ["bye", ag.Exit()]

    s, b = beside(seen, leave)
    steps = [
        ag.step(b, compensate=says("undo_b") if undone else None),
        s,
        ag.step(says("c"), depends_on=["s"]),
        ag.step(says("d"), depends_on=["b"]),
    ]
    runner = ag.Runner(ag.sequential("q", [ag.workflow("w", steps), says("last")]))
    finished = ["q/w/s/after: after", "q/w/s/long: long"]
    assert sorted(run(drive, runner)) == ["q/w/b: [exit]", "q/w/b: bye", *finished]
    assert resume(drive, runner) == []


class TestAQuestionBesideAFailure:
    def tree(self, undone: bool) -> ag.Agent:
        asked = threading.Event()
        s = ag.sequential("s", [says("a"), asks("h", "Who?")])
        b = does("b", waiting(asked), once(ValueError("no")))
        self.asked = asked
        return ag.workflow("w", [ag.step(s, compensate=says("undo_s") if undone else None), b])

    def test_stays_pending_if_the_failure_is_not_final(self, drive: Drive) -> None:
        runner = ag.Runner(self.tree(undone=False))
        events = []
        with pytest.raises(StepFailedError):
            for event in drive.run(runner, "Go.", thread_id="t"):
                events.append(event)
                if event.kind == "interrupted":
                    self.asked.set()
        assert resume(drive, runner, "Me.") == ["w/b: b", "w/s/h: Me."]

    def test_is_never_asked_if_the_failure_is_final(
        self, drive: Drive, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hold = Schedule.hold

        def holding(schedule: Schedule, number: int) -> Any:
            held = hold(schedule, number)
            self.asked.set()
            return held

        monkeypatch.setattr(Schedule, "hold", holding)
        runner = ag.Runner(self.tree(undone=True))
        run_failing(drive, runner)
        assert runner.pending("t") == []
        failing(drive.resume(runner, "t"), StepFailedError)
        assert runner.pending("t") == []


class TestWithFirst:
    def test_a_loser_stops_after_its_agent_and_leaves_nothing(
        self, drive: Drive, seen: threading.Event
    ) -> None:
        slow, fast = beside(seen, lambda: "b")
        race = ag.parallel("p", [slow, fast], on_error="first")
        runner = ag.Runner(ag.sequential("q", [race, sees("last")]))
        told = run(drive, runner)
        assert told[-1] == "q/last: saw Go. | [b] said: b"
        assert not any("after" in line for line in told)
        assert resume(drive, runner) == []

    def test_a_loser_on_the_event_loop_is_cancelled(self) -> None:
        cancelled = []

        async def slow(ctx: ag.Context) -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append("slow")
                raise
            return "slow"

        race = ag.parallel("p", [ag.function_agent("slow", slow), says("fast")], on_error="first")
        assert run(Async, ag.Runner(ag.sequential("s", [race, sees("last")]))) == [
            "s/p/fast: fast",
            "s/last: saw Go. | [fast] said: fast",
        ]
        assert cancelled == ["slow"]

    @pytest.mark.parametrize("at_once", [1, 2, 3])
    def test_a_held_question_leaves_room_for_the_others_on_an_event_loop(self, at_once: int) -> None:
        """LangGraph's own bound counts a branch that asks and waits for the others to lose."""

        async def ask(ctx: ag.Context) -> str | ag.Ask:
            return str(ctx.answer) if ctx.answered else ag.Ask("?")

        async def win(ctx: ag.Context) -> str:
            return "won"

        others = [ag.function_agent(name, fn) for name, fn in (("b", ask), ("c", win), ("d", win))]
        graph = ag.compile_agent(ag.parallel("p", [fails("a", 9), *others], on_error="first"))

        async def play() -> Any:
            playing = graph.ainvoke({"messages": ["Go."]}, {"max_concurrency": at_once})
            return await asyncio.wait_for(playing, PATIENCE)

        assert [message.text for message in asyncio.run(play())["messages"]] == ["Go.", "won"]


class TestAWorkflow:
    def test_asks_for_a_missing_value_which_a_resume_may_bring(self, drive: Drive) -> None:
        b = ag.step(sees("b"), depends_on=["a"], input="About {topic}, ${results.a}")
        runner = ag.Runner(ag.workflow("w", [says("a"), b]))
        told, error = run_failing(drive, runner)
        assert told == ["w/a: a", f"w/b: [error] {error.__cause__!r}"]
        assert str(error.__cause__).startswith(
            "b: the template names {topic}, but the run has no value"
        )
        assert lines(drive.resume(runner, "t", values={"topic": "bees"})) == ["w/b: saw About bees, a"]

    def test_lists_its_questions_in_the_order_in_which_the_steps_are_joined(self, drive: Drive) -> None:
        waits = ag.step(says("b"), depends_on=["second"])
        runner = ag.Runner(ag.workflow("w", [waits, asks("first", "1?"), asks("second", "2?")]))
        run(drive, runner)
        assert [asked.address for asked in runner.pending("t")] == ["w/second", "w/first"]

    def test_stops_a_step_at_its_timeout_and_retries_it_if_its_policy_allows(self) -> None:
        def slow_once() -> ag.Agent:
            tries: list[int] = []

            async def fn(ctx: ag.Context) -> str:
                tries.append(1)
                await asyncio.sleep(PATIENCE if len(tries) == 1 else 0)
                return "quick"

            return ag.function_agent("b", fn)

        runner = ag.Runner(ag.workflow("w", [ag.step(slow_once(), timeout=0.05)]))
        told, error = run_failing(Async, runner)
        assert told[0].startswith("w/b: [error] NodeTimeoutError(")
        assert isinstance(error, StepFailedError)
        assert resume(Async, runner) == ["w/b: quick"]
        again = ag.step(slow_once(), timeout=timedelta(milliseconds=50), retry=retrying())
        assert run(Async, ag.Runner(ag.workflow("w", [again]))) == ["w/b: quick"]

"""`advance` on threads where other runs are active, were stopped, or died; and `wait`."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import asks, says
from helpers.commands import wait_until

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from agentgraph.threads.live.active_run import active_run_on


class Steps:
    """A tree whose first agent waits until it is let go, and what ran."""

    def __init__(self) -> None:
        self.ran, self.begun, self.may_end = list[str](), threading.Event(), threading.Event()
        self.fails = False

    def first(self, ctx: ag.Context) -> str:
        self.ran.append("first")
        self.begun.set()
        assert self.may_end.wait(20)
        if self.fails:
            raise ValueError("as told")
        return "First."

    def second(self, ctx: ag.Context) -> str:
        self.ran.append("second")
        return "Second."

    @property
    def tree(self) -> ag.Agent:
        first, second = (ag.function_agent(fn.__name__, fn) for fn in (self.first, self.second))
        return ag.sequential("report", [first, second])


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def runner(steps: Steps, saver: Any) -> ag.Runner:
    return ag.Runner(steps.tree, checkpointer=saver)


class Calls:
    """Calls in threads of their own, and what came of them."""

    def __init__(self) -> None:
        self.came: list[Any] = []
        self._threads: list[threading.Thread] = []

    def begin(self, call: Callable[[], Any]) -> None:
        def calling() -> None:
            try:
                self.came.append(call())
            except BaseException as error:
                self.came.append(error)

        self._threads.append(threading.Thread(target=calling))
        self._threads[-1].start()

    def end(self) -> list[Any]:
        for each in self._threads:
            each.join(30)
            assert not each.is_alive()
        return self.came


def test_of_several_callers_one_runs_the_turn_and_all_get_its_result(
    steps: Steps, runner: ag.Runner
) -> None:
    callers = Calls()
    for _ in range(4):
        callers.begin(lambda: runner.advance("t", "Go.", turn_id="one"))
    assert steps.begun.wait(20)
    steps.may_end.set()
    first, *others = callers.end()
    assert first.status == "done"
    assert others == [first] * 3
    assert steps.ran == ["first", "second"]


def test_on_an_event_loop_callers_wait_without_blocking_it(steps: Steps, saver: Any) -> None:
    async def run() -> list[ag.Result]:
        async with ag.Runner(steps.tree, checkpointer=saver) as runner:
            several = [runner.aadvance("t", "Go.", turn_id="one") for _ in range(4)]
            waiting = asyncio.gather(*several)
            await asyncio.to_thread(steps.begun.wait, 20)
            steps.may_end.set()
            return await waiting

    assert [each.status for each in asyncio.run(run())] == ["done"] * 4
    assert steps.ran == ["first", "second"]


def test_a_turn_that_has_ended_has_a_result_while_the_thread_is_locked(
    steps: Steps, runner: ag.Runner
) -> None:
    steps.may_end.set()
    done = runner.advance("t", "Go.", turn_id="one")
    with runner.run("More.", thread_id="t"):  # its turn has not begun
        with pytest.raises(ag.ThreadBusyError):
            runner.wait("t", 0.01)
        assert runner.result("t") == runner.result("t", 0) == done


def test_a_failure_is_raised_to_who_waited_for_it_and_not_run_again(
    steps: Steps, runner: ag.Runner
) -> None:
    steps.fails = True
    callers = Calls()
    callers.begin(lambda: runner.advance("t", "Go.", turn_id="one"))
    assert steps.begun.wait(20)
    callers.begin(lambda: runner.advance("t", "Go.", turn_id="one"))
    steps.may_end.set()
    kinds = {type(each): each for each in callers.end()}
    assert kinds.keys() == {ValueError, ag.TurnFailedError}
    waited = kinds[ag.TurnFailedError]
    assert (waited.address, waited.error) == ("report/first", "ValueError('as told')")
    assert steps.ran == ["first"]
    steps.fails = False
    assert runner.result("t").status == "failed"
    assert runner.advance("t", "Go.", turn_id="one").status == "done"


def test_another_turn_begins_when_the_one_before_has_ended(steps: Steps, runner: ag.Runner) -> None:
    callers = Calls()
    callers.begin(lambda: runner.advance("t", "Go.", turn_id="one"))
    assert steps.begun.wait(20)
    callers.begin(lambda: runner.advance("t", "More.", turn_id="two"))
    steps.may_end.set()
    assert [each.status for each in callers.end()] == ["done", "done"]
    assert len(runner.thread("t").turns) == 2


def test_who_does_not_wait_is_told_that_the_thread_is_busy(steps: Steps, runner: ag.Runner) -> None:
    callers = Calls()
    callers.begin(lambda: runner.advance("t", "Go.", turn_id="one"))
    assert steps.begun.wait(20)
    with pytest.raises(ag.ThreadBusyError):
        runner.advance("t", "Go.", turn_id="one", wait=False)
    with pytest.raises(ag.ThreadBusyError, match="still busy after 0 seconds"):
        runner.wait("t", timeout=0)
    with pytest.raises(ag.ThreadBusyError, match="has no result yet"):
        runner.result("t")
    steps.may_end.set()
    assert runner.wait("t") == "done"
    callers.end()


def test_a_call_inside_the_run_is_refused_and_not_waited_for() -> None:
    came: list[BaseException] = []

    def inside(ctx: ag.Context) -> str:
        try:
            runner.advance("t", "Go.", turn_id="one")
        except ag.ThreadBusyError as error:
            came.append(error)
        return "Done."

    runner = ag.Runner(ag.function_agent("a", inside))
    assert runner.advance("t", "Go.", turn_id="one").text == "Done."
    assert len(came) == 1


def test_what_a_person_stopped_stays_stopped_until_it_is_resumed(
    steps: Steps, runner: ag.Runner
) -> None:
    callers = Calls()
    callers.begin(lambda: runner.advance("t", "Go.", turn_id="one"))
    assert steps.begun.wait(20)
    runner.stop("t", "too long")
    steps.may_end.set()
    (stopped,) = callers.end()
    for each in (stopped, runner.advance("t", "Go.", turn_id="one"), runner.advance("t")):
        assert (each.status, each.stop_reason, each.text) == ("stopped", "too long", "First.")
    assert [each.stop_reason for each in runner.threads("stopped")] == ["too long"]
    assert runner.thread("t").stop_reason == "too long"
    assert runner.invoke(thread_id="t").status == "done"
    assert runner.thread("t").stop_reason is None
    assert steps.ran == ["first", "second"]


def test_what_a_closed_runner_stopped_continues(steps: Steps, tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    runner = ag.Runner(steps.tree, checkpointer=path)
    runner.start("Go.", thread_id="t")
    assert steps.begun.wait(20)
    run = active_run_on(runner.saver, "t")
    assert run is not None
    callers = Calls()
    callers.begin(runner.close)
    wait_until(lambda: run.stop_reason is not None)
    steps.may_end.set()
    assert callers.end() == [None]
    with ag.Runner(steps.tree, checkpointer=path) as runner:
        (stopped,) = runner.threads("stopped")
        assert stopped.stop_reason is None
        assert runner.advance("t").status == "done"
    assert steps.ran == ["first", "second"]


def test_answers_to_some_of_several_questions_leave_the_others_open(saver: Any) -> None:
    tree = ag.parallel("p", [asks("ann"), asks("ben")])
    runner = ag.Runner(tree, checkpointer=saver)
    ann, ben = runner.advance("t", "Go.", turn_id="one").pending
    for _ in range(2):
        left = runner.advance("t", turn_id="one", answers={ann.id: "yes"})
        assert [each.address for each in left.pending] == ["p/ben"]
    both = {ann.id: "yes", ben.id: "no"}
    assert [runner.advance("t", turn_id="one", answers=both).status for _ in "12"] == ["done"] * 2


def test_an_iteration_is_part_of_an_address(saver: Any) -> None:
    runner = ag.Runner(ag.loop("l", [asks("boss")], max_iterations=2), checkpointer=saver)
    runner.advance("t", "Go.", turn_id="one")
    again = runner.advance("t", turn_id="one", answers={"l[0]/boss": "yes"})
    assert [each.address for each in again.pending] == ["l[1]/boss"]
    assert runner.advance("t", turn_id="one", answers={"l[0]/boss": "yes"}) == again
    assert runner.advance("t", turn_id="one", answers={"l[1]/boss": "yes"}).status == "done"


def test_an_address_at_which_two_questions_were_asked_is_refused(saver: Any) -> None:
    def pay(to: str) -> str:
        """Pay."""
        return f"paid {to}"

    pays = [calls(call("pay", id=each, to=each)) for each in ("ann", "ben")]
    model = ScriptedChatModel(responses=[*pays, "Done."])
    runner = ag.Runner(ag.chat_agent("bot", model, tools=[pay], approve=["pay"]), checkpointer=saver)
    first = runner.advance("t", "Go.", turn_id="one").pending[0]
    second = runner.advance("t", turn_id="one", answers={"bot": "approve"}).pending[0]
    assert second.id != first.id
    with pytest.raises(ag.UnknownInterruptError, match="'bot' was asked more than once; answer by id"):
        runner.advance("t", turn_id="one", answers={"bot": "approve"})
    assert runner.advance("t", turn_id="one", answers={first.id: "approve"}).pending[0] == second
    done = runner.advance("t", turn_id="one", answers={first.id: "approve", second.id: "approve"})
    assert done.text == "Done."


def test_waiting_for_a_thread_at_rest_returns_its_status() -> None:
    runner = ag.Runner(says("writer", "A draft."))
    with pytest.raises(ag.UnknownThreadError):
        runner.wait("t")
    runner.invoke("Go.", thread_id="t")
    assert runner.wait("t") == asyncio.run(runner.await_("t")) == "done"


@pytest.mark.parametrize("timeout", [-1, "soon", float("nan")])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    runner = ag.Runner(says("writer", "A draft."))
    runner.invoke("Go.", thread_id="t")
    with pytest.raises(ag.AgentGraphError, match="is not a number of seconds; pass 0 or more"):
        runner.wait("t", timeout)

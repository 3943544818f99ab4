"""Branches and steps that run while another one fails, exits, wins or asks.

The cases without concurrency are in `tests/transcripts/branches.txt` and `workflows.txt`.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from helpers import Async, Drive, asks, chat, failing, fails, in_turn, lines, says, sees

import agentgraph as ag
from agentgraph.errors import StepFailedError
from agentgraph.graph.nodes.desk import Desk
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.testing import call, calls

PATIENCE = 20


def decides(future: Any) -> bool:
    """Return whether the lane of a future failed, exited, or is the winner `b`."""
    if future.cancelled() or future.exception() is not None:
        return True
    result = future.result()
    won = [message.text for message in result["messages"][-1:]] == ["b"]
    return "failed" in result or result["signal"] or won


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


def beside(seen: threading.Event, *given: Any) -> tuple[Any, Any]:
    """Return a lane of two agents, and an agent `b` that ends while the first of the two runs."""
    begun = threading.Event()
    long = does("long", begun.set, waiting(seen), lambda: "long")
    return ag.sequential("s", [long, says("after")]), does("b", waiting(begun), in_turn(*given))


def failing_once() -> tuple[Exception, str]:
    return ValueError("no"), "b"


def run(drive: Drive, tree: ag.Agent) -> tuple[ag.Runner, list[str], Exception | None]:
    """Run a tree, and return the runner, the lines and the error of the run."""
    runner = ag.Runner(tree)
    events: list[ag.AgentEvent] = []
    try:
        events.extend(drive.run(runner, "Go.", thread_id="t"))
    except Exception as error:
        return runner, lines(events), error
    return runner, lines(events), None


def resume(drive: Drive, runner: ag.Runner, *answers: Any) -> list[str]:
    return sorted(lines(drive.resume(runner, "t", *answers)))


ERROR = "b: [error] ValueError('no')"


def test_a_failure_stops_a_branch_after_its_agent_and_a_resume_runs_the_rest(
    drive: Drive, seen: threading.Event
) -> None:
    branches = beside(seen, *failing_once())
    tree = ag.sequential("q", [ag.parallel("p", branches), sees("last")])
    runner, said, error = run(drive, tree)
    assert (said, str(error)) == (["q/p/s/long: long", f"q/p/{ERROR}"], "no")
    assert resume(drive, runner) == [
        "q/last: saw Go. | [long] said: long | [after] said: after | [b] said: b",
        *["q/p/b: b", "q/p/s/after: after"],
    ]


def test_with_wait_a_failure_lets_a_branch_finish(drive: Drive, seen: threading.Event) -> None:
    branches = beside(seen, *failing_once())
    runner, said, error = run(drive, ag.parallel("p", branches, on_error="wait"))
    assert (said, str(error)) == (["p/s/long: long", "p/s/after: after", f"p/{ERROR}"], "no")
    assert resume(drive, runner) == ["p/b: b"]


def test_with_collect_a_failure_is_emitted_while_a_branch_runs(drive: Drive) -> None:
    heard = threading.Event()
    branches = [fails("x"), does("y", waiting(heard), lambda: "y")]
    said = []
    for event in drive.run(ag.Runner(ag.parallel("p", branches, on_error="collect")), "Go."):
        said += lines([event])
        if event.kind == "error":
            heard.set()
    assert said[1:] == ["p/x: Failed: ValueError('x failed, time 1')", "p/y: y"]


@pytest.mark.parametrize("on_error", ["fail", "wait"])
def test_a_failed_step_lets_no_other_begin(drive: Drive, seen: threading.Event, on_error: Any) -> None:
    steps = beside(seen, *failing_once())
    after = [ag.step(says("c"), depends_on=["s"]), ag.step(says("d"), depends_on=["b"])]
    runner, said, error = run(drive, ag.workflow("w", [*steps, *after], on_error=on_error))
    finishes = on_error == "wait"
    assert sorted(said) == [f"w/{ERROR}", *["w/s/after: after"] * finishes, "w/s/long: long"]
    assert isinstance(error, StepFailedError)
    assert (error.workflow, error.step, error.undone) == ("w", "b", ())
    rest = ["w/b: b", "w/c: c", "w/d: d", *["w/s/after: after"] * (not finishes)]
    assert resume(drive, runner) == rest


@pytest.mark.parametrize("on_error", ["fail", "wait"])
def test_a_final_failure_undoes_a_step_if_it_finished_and_a_resume_runs_nothing(
    drive: Drive, seen: threading.Event, on_error: Any
) -> None:
    s, b = beside(seen, *failing_once())
    tree = ag.workflow("w", [ag.step(s, compensate=says("undo_s")), b], on_error=on_error)
    runner, said, error = run(drive, tree)
    finished = on_error == "wait"
    assert [line for line in said if "long" not in line and ERROR not in line] == [
        *["w/s/after: after", "w/undo_s: undo_s"] * finished,
        f"w: [error] {error!r}",
    ]
    undone = "s" if finished else "nothing"
    assert str(error) == f"w: the step 'b' failed: ValueError('no'); undone: {undone}"
    events, again = failing(drive.resume(runner, "t"), StepFailedError)
    assert (lines(events), str(again)) == ([f"w: [error] {error!r}"], str(error))


@pytest.mark.parametrize("kind", [ag.parallel, ag.workflow])
def test_with_wait_failures_at_the_same_time_are_all_emitted(drive: Drive, kind: Any) -> None:
    both = threading.Barrier(2)
    branches = [does(n, lambda: both.wait(PATIENCE), in_turn(ValueError(n))) for n in "ac"]
    _, said, error = run(drive, kind("p", [*branches, says("d")], on_error="wait"))
    assert said[-2:] == ["p/a: [error] ValueError('a')", "p/c: [error] ValueError('c')"]
    assert "ValueError('a')" in str(error) or str(error) == "a"


def test_an_until_that_fails_after_another_branch_failed_is_emitted_too(
    drive: Drive, seen: threading.Event
) -> None:
    s, b = beside(seen, *failing_once())
    loop = ag.loop("l", [*s.sub_agents][:1], max_iterations=2, until=in_turn(KeyError("until")))
    _, said, _ = run(drive, ag.parallel("p", [b, loop]))
    until = ["p/l[0]/long: [error] KeyError('until')", "p/l[0]/long: long"]
    assert sorted(said) == [f"p/{ERROR}", *until]


def test_of_final_failures_the_first_in_time_is_named(drive: Drive, seen: threading.Event) -> None:
    steps = [
        ag.step(says("a"), compensate=says("undo_a")),
        does("late", waiting(seen), in_turn(ValueError("late"))),
        does("early", in_turn(ValueError("early"))),
    ]
    _, said, error = run(drive, ag.workflow("w", steps, on_error="wait"))
    assert [line for line in said if "ValueError" in line][:2] == [
        "w/early: [error] ValueError('early')",
        "w/late: [error] ValueError('late')",
    ]
    assert "the step 'early' failed" in str(error)


def test_the_error_of_a_step_is_emitted_before_its_workflow_is_undone(drive: Drive) -> None:
    events: list[ag.AgentEvent] = []
    heard = threading.Event()  # who reads has a thread of its own, and may be slower than the undo

    def undone(ctx: ag.Context) -> str:
        heard.wait(10)
        return lines(events)[-1]

    undo = ag.function_agent("undo", undone)
    steps = [ag.step(says("a"), compensate=undo), ag.step(fails("b"), depends_on=["a"])]
    with pytest.raises(StepFailedError):
        for event in drive.run(ag.Runner(ag.workflow("w", steps)), "Go."):
            events.append(event)
            if event.error:
                heard.set()
    assert lines(events)[2] == "w/undo: w/b: [error] ValueError('b failed, time 1')"


@pytest.mark.parametrize("undone", [False, True])
def test_after_an_exit_running_steps_finish_and_no_other_begins(
    drive: Drive, seen: threading.Event, undone: bool
) -> None:
    s, b = beside(seen, ["bye", ag.Exit()])
    first = ag.step(b, compensate=says("undo_b") if undone else None)
    after = [ag.step(says("c"), depends_on=["s"]), ag.step(says("d"), depends_on=["b"])]
    tree = ag.sequential("q", [ag.workflow("w", [first, s, *after]), says("last")])
    runner, said, _ = run(drive, tree)
    assert sorted(said) == ["q/w/b: [exit]", "q/w/b: bye", "q/w/s/after: after", "q/w/s/long: long"]
    assert resume(drive, runner) == []


def asking_beside(asked: threading.Event, *, is_final: bool) -> ag.Agent:
    """Return a workflow in which a step fails once another one has asked."""
    s = ag.sequential("s", [says("a"), asks("h", "Who?")])
    undo = says("undo_s") if is_final else None
    return ag.workflow(
        "w", [ag.step(s, compensate=undo), does("b", waiting(asked), in_turn(*failing_once()))]
    )


def test_a_question_beside_a_failure_stays_pending(drive: Drive) -> None:
    asked = threading.Event()
    runner = ag.Runner(asking_beside(asked, is_final=False))
    with pytest.raises(StepFailedError):
        for event in drive.run(runner, "Go.", thread_id="t"):
            if event.kind == "interrupted":
                asked.set()
    assert resume(drive, runner, "Me.") == ["w/b: b", "w/s/h: Me."]


def test_a_question_beside_a_final_failure_is_void(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, park = threading.Event(), Desk.park

    def parking(*arguments: Any) -> None:
        park(*arguments)
        asked.set()

    monkeypatch.setattr(Desk, "park", parking)
    runner, *_ = run(drive, asking_beside(asked, is_final=True))
    assert (runner.pending("t"), "interrupted" in kinds(runner)) == ([], False)
    failing(drive.resume(runner, "t"), StepFailedError)
    assert (runner.pending("t"), "interrupted" in kinds(runner)) == ([], False)


def kinds(runner: ag.Runner) -> list[str]:
    return [event.kind for event in runner.events("t")]


@pytest.mark.parametrize("kind", ["parallel", "workflow", "first"])
def test_what_undoes_a_step_is_not_stopped_by_the_failure_of_another_lane(
    drive: Drive, seen: threading.Event, kind: str
) -> None:
    begun = threading.Event()
    undo = does("undo_j", begun.set, waiting(seen), lambda: "undo_j")
    steps = [
        ag.step(says("i"), compensate=says("undo_i")),
        ag.step(says("j"), depends_on=["i"], compensate=undo),
        ag.step(fails("k"), depends_on=["j"]),
    ]
    inner = ag.workflow("inner", steps)
    beside = does("b", waiting(begun), in_turn("b" if kind == "first" else ValueError("no")))
    forks = {
        "parallel": lambda: ag.parallel("p", [inner, beside]),
        "workflow": lambda: ag.workflow("p", [ag.step(inner, compensate=says("undo")), beside]),
        "first": lambda: ag.parallel("p", [inner, beside], on_error="first"),
    }
    _, said, _ = run(drive, forks[kind]())
    assert [line for line in said if "undo_" in line and "error" not in line] == [
        *["p/inner/undo_j: undo_j", "p/inner/undo_i: undo_i"],
    ]


def test_a_step_that_an_earlier_run_left_is_undone_though_another_one_fails_before_it_goes_on() -> None:
    """LangGraph runs one lane at a time in the second run: the step that was left comes last."""
    begun, ledger = asyncio.Event(), list[str]()

    async def play() -> Any:
        async def bad(ctx: ag.Context) -> str:
            if not begun.is_set():
                await begun.wait()
                await asyncio.Event().wait()
            raise ValueError("no")

        async def long(ctx: ag.Context) -> Any:
            ledger.append("long")
            if not begun.is_set():
                yield ag.Custom("begun")
                begun.set()
                await asyncio.Event().wait()
            yield "long"

        steps = [
            ag.function_agent("bad", bad),
            ag.step(ag.function_agent("long", long), compensate=says("undo")),
        ]
        runner = ag.Runner(ag.workflow("w", steps))
        async with aclosing(runner.arun("Go.", thread_id="t")) as events:
            async for _ in events:
                await begun.wait()
                break
        said = []
        with pytest.raises(StepFailedError) as caught:
            async for event in runner.aresume("t", config={"max_concurrency": 2}):
                said += lines([event])
        return said, caught.value

    said, error = asyncio.run(play())
    assert (ledger, error.undone) == (["long", "long"], ("long",))
    assert [line for line in said if "error" not in line][-2:] == ["w/long: long", "w/undo: undo"]


def test_questions_are_pending_in_the_order_in_which_the_steps_are_joined(drive: Drive) -> None:
    first, second = asks("first", "1?"), asks("second", "2?")
    steps = [ag.step(says("b"), depends_on=["second"]), first, second]
    runner, *_ = run(drive, ag.workflow("w", steps))
    assert [asked.address for asked in runner.pending("t")] == ["w/second", "w/first"]


def test_with_first_a_loser_stops_after_its_agent_and_leaves_nothing(
    drive: Drive, seen: threading.Event
) -> None:
    race = ag.parallel("p", beside(seen, "b"), on_error="first")
    runner, said, _ = run(drive, ag.sequential("q", [race, sees("last")]))
    assert said[-1] == "q/last: saw Go. | [b] said: b"
    assert not any("after" in line for line in said)
    assert resume(drive, runner) == []


def test_with_first_a_loser_on_the_event_loop_is_cancelled() -> None:
    cancelled = []

    async def slow(ctx: ag.Context) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("slow")
            raise
        return "slow"

    race = ag.parallel("p", [ag.function_agent("slow", slow), says("fast")], on_error="first")
    _, said, _ = run(Async, ag.sequential("s", [race, sees("last")]))
    assert said == ["s/p/fast: fast", "s/last: saw Go. | [fast] said: fast"]
    assert cancelled == ["slow"]


def endless(told: list[str], begun: threading.Event) -> ag.Agent:
    """Return a sync generator that never ends by itself, and tells how it is closed."""

    def fn(ctx: ag.Context) -> Iterator[ag.Custom]:
        begun.set()
        until = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < until:
                yield ag.Custom("still")
                time.sleep(0.005)
            told.append("by itself")
        except GeneratorExit:
            told.append("closed")
            raise

    return ag.function_agent("slow", fn)


def _in_a_parallel(slow: ag.Agent, fast: ag.Agent) -> ag.Agent:
    return ag.parallel("p", [ag.sequential("inner", [slow, says("after")]), fast], on_error="first")


def _in_items(slow: ag.Agent, fast: ag.Agent) -> ag.Agent:
    worker = ag.switch("w", lambda ctx: ctx.item.number, {0: slow, 1: fast})
    return ag.each("p", worker, lambda ctx: ["a", "b"], on_error="first")


def _as_a_tool(slow: ag.Agent, fast: ag.Agent) -> ag.Agent:
    caller = chat("boss", calls(call("slow", request="x")), tools=[ag.agent_tool(slow)])
    return ag.parallel("p", [caller, fast], on_error="first")


@pytest.mark.parametrize("race", [_in_a_parallel, _in_items, _as_a_tool])
def test_with_first_a_generator_that_lost_is_closed_at_its_next_yield(
    race: Callable[[ag.Agent, ag.Agent], ag.Agent], drive: Drive
) -> None:
    told: list[str] = []
    begun = threading.Event()
    fast = does("fast", waiting(begun), lambda: "fast")
    runner, said, _ = run(drive, ag.sequential("s", [race(endless(told, begun), fast), sees("last")]))
    assert said[-1] == "s/last: saw Go. | [fast] said: fast"
    assert told == ["closed"]
    assert [event.text for event in runner.events("t") if event.text][-2:] == [
        "fast",
        "saw Go. | [fast] said: fast",
    ]


def test_a_generator_of_a_call_that_is_given_up_is_closed_too(drive: Drive) -> None:
    told: list[str] = []

    async def fn(ctx: ag.Context) -> str:
        try:
            async with asyncio.timeout(None) as limit:
                slow = asyncio.create_task(ctx.run("slow", "x"))
                await asyncio.to_thread(begun.wait, PATIENCE)
                limit.reschedule(0)
                return str(await slow)
        except TimeoutError:
            return "late"

    begun = threading.Event()
    agent = ag.function_agent("flow", fn, agents=[endless(told, begun)])
    _, said, _ = run(drive, agent)
    assert (said[-1], told) == ("flow: late", ["closed"])


def test_a_generator_beside_a_failure_ends_and_is_kept(drive: Drive) -> None:
    begun = threading.Event()

    def fn(ctx: ag.Context) -> Iterator[str]:
        for number in range(3):
            begun.set()
            yield f"{number}"
            time.sleep(0.05)

    bad = does("bad", waiting(begun), in_turn(ValueError("bad"), "bad"))
    runner, *_ = run(drive, ag.parallel("p", [ag.function_agent("long", fn), bad]))
    assert not any("long" in line for line in resume(drive, runner))
    kept = [line for line in lines(runner.events("t")) if "long" in line]
    assert kept == [f"p/long: {number}" for number in range(3)]


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_with_first_a_held_question_leaves_room_for_the_others_on_an_event_loop(at_once: int) -> None:
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


def test_an_exception_that_is_raised_again_is_of_the_agent_that_raises_it_now(drive: Drive) -> None:
    """Also in another run, and where one agent's name begins as the other's."""
    error = ValueError("again")

    def failer(name: str) -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            raise error

        return ag.function_agent(name, fn)

    trees = (
        ag.parallel("both", [failer("fail"), says("x")]),
        ag.sequential("s", [failer("fail2")]),
        ag.sequential("s", [failer("fail")]),
        failer("fail"),
    )
    for tree, at in zip(trees, ("both/fail", "s/fail2", "s/fail", "fail"), strict=True):
        _, said, raised = run(drive, tree)
        assert said[-1] == f"{at}: [error] ValueError('again')"
        assert raised is error


def test_an_error_in_a_compiled_tree_is_of_the_graph_agent_that_runs_it(drive: Drive) -> None:
    inner = ag.compile_agent(ag.sequential("inner", [says("a"), fails("deep")]))
    _, said, _ = run(drive, ag.sequential("s", [ag.graph_agent("g", inner)]))
    assert said == ["s/g: a", "s/g: [error] ValueError('deep failed, time 1')"]


class StrangeError(BaseException):
    """Not an `Exception`."""


def test_a_condition_that_raises_anything_is_of_its_step(drive: Drive) -> None:
    def when(ctx: ag.Context) -> bool:
        raise StrangeError("strange")

    tree, heard = ag.workflow("wf", [ag.step(says("a"), when=when)]), list[ag.AgentEvent]()
    with pytest.raises(StrangeError):
        heard.extend(drive.run(ag.Runner(tree), "Go.", thread_id="t"))
    assert lines(heard) == ["wf/a: [error] StrangeError('strange')"]

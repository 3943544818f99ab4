"""What becomes of the branches of a parallel when one fails: `on_error`."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers import Async, Disk, Drive, failing, scripted
from langchain_core.messages import AIMessage

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

PATIENCE = 20


class Ledger(list[str]):
    """The names of agents, each time that they run."""

    def agent(self, name: str, act: Callable[[Any], Any] | None = None, **options: Any) -> ag.Agent:
        def noted(ctx) -> str:
            self.append(name)
            return name if act is None else act(ctx)

        return ag.function_agent(name, noted, **options)

    def fails(self, name: str, times: int = 1) -> ag.Agent:
        """Make an agent that fails so many times."""

        def act(ctx) -> str:
            if self.count(name) <= times:
                raise ValueError(f"{name} {self.count(name)}")
            return name

        return self.agent(name, act)


def soon(event: threading.Event) -> None:
    """Set an event when an exception that is raised now has come to the node of the parallel."""
    threading.Timer(0.5, event.set).start()


def waiting(event: threading.Event, text: str) -> Callable[[Any], str]:
    def act(ctx) -> str:
        assert event.wait(PATIENCE)
        return text

    return act


def tells_all(ctx) -> str:
    return ", ".join(message.text for message in ctx.messages)


LAST = ag.function_agent("last", tells_all)


def history(runner: ag.Runner) -> list[str]:
    """Return what stands in the thread."""
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    return [message.text for message in state.values["messages"]]


def run(drive: Drive, runner: ag.Runner, **options: Any) -> Iterator[ag.AgentEvent]:
    return drive.run(runner, "Go.", thread_id="t", **options)


def run_failing(drive: Drive, runner: ag.Runner) -> tuple[list[str], Exception]:
    told, error = failing(run(drive, runner), ValueError)
    return transcript(told), error


# fail and wait


def two(ran: Ledger, on_error: Any) -> ag.Agent:
    """Make a branch that fails once, and one of two agents that ends later."""
    begun, failed = threading.Event(), threading.Event()

    def long(ctx) -> str:
        begun.set()
        assert failed.wait(PATIENCE)
        return "long"

    def fails(ctx) -> str:
        assert begun.wait(PATIENCE)
        if ran.count("b") == 1:
            soon(failed)
            raise ValueError("b 1")
        return "b"

    branches = [
        ag.sequential("a", [ran.agent("long", long), ran.agent("after")]),
        ran.agent("b", fails),
    ]
    return ag.sequential("s", [ag.parallel("p", branches, on_error=on_error), LAST])


def test_with_fail_the_others_stop_behind_what_they_do_and_go_on_from_there(drive):
    ran = Ledger()
    runner = ag.Runner(two(ran, "fail"))
    told, error = run_failing(drive, runner)
    assert sorted(told) == ["s/p/a/long: long", "s/p/b: [error] ValueError('b 1')"]
    assert str(error) == "b 1"
    told = transcript(drive.resume(runner, "t"))
    assert sorted(told[:2]) == ["s/p/a/long/after: after", "s/p/b: b"]
    assert told[2:] == ["s/p/last: Go., [long] said: long, [after] said: after, [b] said: b"]
    assert sorted(ran) == ["after", "b", "b", "long"]


def test_with_wait_the_others_finish_first(drive):
    ran = Ledger()
    runner = ag.Runner(two(ran, "wait"))
    told, error = run_failing(drive, runner)
    assert told == ["s/p/a/long: long", "s/p/a/long/after: after", "s/p/b: [error] ValueError('b 1')"]
    assert str(error) == "b 1"
    assert transcript(drive.resume(runner, "t"))[0] == "s/p/b: b"
    assert sorted(ran) == ["after", "b", "b", "long"]


def test_with_wait_all_failures_are_told_each_once_and_tried_again(drive):
    ran, both = Ledger(), threading.Barrier(2)

    def fails(name: str) -> ag.Agent:
        def act(ctx) -> str:
            if ran.count(name) == 1:
                both.wait(PATIENCE)
                raise ValueError(name)
            return name

        return ran.agent(name, act)

    runner = ag.Runner(ag.parallel("p", [fails("a"), fails("b"), ran.agent("c")], on_error="wait"))
    told, error = run_failing(drive, runner)
    assert told == ["p/c: c", "p/a: [error] ValueError('a')", "p/b: [error] ValueError('b')"]
    assert str(error) == "a"
    assert sorted(transcript(drive.resume(runner, "t"))) == ["p/a: a", "p/b: b"]


# collect


def collecting(ran: Ledger, **options: Any) -> ag.Agent:
    failing_branch = ag.sequential("x", [ran.agent("x1"), ran.fails("x2"), ran.agent("x3")])
    both = ag.parallel("p", [failing_branch, ran.agent("y")], on_error="collect", **options)
    return ag.sequential("s", [both, LAST])


COLLECTED = [
    "s/p/x/x1: x1",
    "s/p/x/x1/x2: [error] ValueError('x2 1')",
    "s/p/x/x1/x2: Failed: ValueError('x2 1')",
]


def test_with_collect_the_error_becomes_the_last_message_of_its_branch_and_the_run_goes_on(drive):
    ran = Ledger()
    runner = ag.Runner(collecting(ran))
    told = list(run(drive, runner))
    lines = transcript(told)
    assert [line for line in lines[:-1] if line != "s/p/y: y"] == COLLECTED
    said = "[x1] said: x1, [x2] said: Failed: ValueError('x2 1'), [y] said: y"
    assert lines[-1] == f"s/p/last: Go., {said}"
    assert history(runner)[1:4] == ["x1", "Failed: ValueError('x2 1')", "y"]
    [failed] = [event for event in told if event.text.startswith("Failed")]
    assert (failed.agent_name, failed.address) == ("x2", "s/p/x/x2")
    assert isinstance(failed.message, AIMessage)
    assert sorted(ran) == ["x1", "x2", "y"]


def test_a_collected_failure_is_told_while_the_others_still_run(drive):
    ran, seen = Ledger(), threading.Event()
    branches = [ran.fails("x"), ran.agent("y", waiting(seen, "y"))]
    told = []
    for event in run(drive, ag.Runner(ag.parallel("p", branches, on_error="collect"))):
        told += transcript([event])
        if event.kind == "error":
            seen.set()
    assert sorted(told) == [
        "p/x: Failed: ValueError('x 1')",
        "p/x: [error] ValueError('x 1')",
        "p/y: y",
    ]


def test_a_resume_behind_a_collected_failure_runs_nothing_again(drive, tmp_path):
    ran = Ledger()
    disk = Disk(drive, tmp_path / "x.db")
    disk.run(collecting(ran))
    before = list(ran)
    assert disk.resume(collecting(ran)) == []
    assert ran == before


def test_a_question_beside_a_collected_failure_is_asked_and_the_failure_told_once(drive, tmp_path):
    ran = Ledger()

    def tree() -> ag.Agent:
        branches = [ran.fails("x"), ag.sequential("q", [ag.human("h", "Who?"), ran.agent("y")])]
        return ag.sequential("s", [ag.parallel("p", branches, on_error="collect"), LAST])

    disk = Disk(drive, tmp_path / "x.db")
    assert sorted(transcript(disk.run(tree()))) == [
        "s/p/q/h: [asks] Who?",
        "s/p/x: Failed: ValueError('x 1')",
        "s/p/x: [error] ValueError('x 1')",
    ]
    said = "[x] said: Failed: ValueError('x 1'), [h] said: Me., [y] said: y"
    assert transcript(disk.resume(tree(), "Me.")) == [
        "s/p/q/h: Me.",
        "s/p/q/h/y: y",
        f"s/p/last: Go., {said}",
    ]
    assert ran == ["x", "y"]
    told = {event.id: event for event in disk.events(tree())}
    assert told == {event.id: event for event in disk.told}


def test_collected_failures_are_told_again_from_the_thread(drive):
    runner = ag.Runner(collecting(Ledger(), max_concurrency=1))
    streamed = list(run(drive, runner))
    assert list(runner.events("t")) == streamed


def test_where_all_branches_fail_all_failures_are_collected(drive):
    ran = Ledger()
    runner = ag.Runner(ag.parallel("p", [ran.fails("a"), ran.fails("b")], on_error="collect"))
    assert len(list(run(drive, runner))) == 4
    assert history(runner) == ["Go.", "Failed: ValueError('a 1')", "Failed: ValueError('b 1')"]


def test_values_of_a_branch_that_failed_are_kept_with_what_it_said(drive):
    ran = Ledger()
    branch = ag.sequential("x", [ran.agent("x1", output_key="kept"), ran.fails("x2")])
    shown = ag.function_agent("last", shows_values)
    tree = ag.sequential("s", [ag.parallel("p", [branch, ran.agent("y")], on_error="collect"), shown])
    assert transcript(run(drive, ag.Runner(tree)))[-1] == "s/p/last: {'kept': 'x1'}"


def shows_values(ctx) -> str:
    return str(dict(ctx.values))


def test_a_chat_agent_that_fails_among_its_tools_leaves_a_conversation_that_a_model_takes(drive):
    def search() -> str:
        """Search."""
        raise ValueError("no net")

    chat = ag.chat_agent("c", scripted(calls(call("search"))), tools=[search], on_tool_error="raise")
    model = scripted("Behind.")
    both = ag.parallel("p", [chat, Ledger().agent("y")], on_error="collect")
    tree = ag.sequential("s", [both, ag.chat_agent("d", model)])
    lines = transcript(run(drive, ag.Runner(tree)))
    assert "s/p/c: Failed: ValueError('no net')" in lines
    assert lines[-1] == "s/p/d: Behind."


def test_a_failure_in_an_inner_parallel_that_fails_is_collected_by_the_one_around_it(drive):
    ran = Ledger()
    inner = ag.parallel("in", [ran.fails("a"), ran.agent("b")], on_error="wait")
    runner = ag.Runner(ag.parallel("p", [inner, ran.agent("c")], on_error="collect"))
    lines = transcript(run(drive, runner))
    assert lines.count("p/in/a: [error] ValueError('a 1')") == 1
    assert lines.count("p/in/a: Failed: ValueError('a 1')") == 1
    assert history(runner)[1:] == ["Failed: ValueError('a 1')", "c"]


# first


def test_with_first_the_first_success_wins_and_nothing_of_the_others_is_kept(drive):
    ran, won = Ledger(), threading.Event()

    def wins(ctx) -> str:
        soon(won)
        return "fast"

    slow = ag.sequential("slow", [ran.agent("s1", waiting(won, "s1")), ran.agent("s2")])
    runner = ag.Runner(
        ag.sequential("s", [ag.parallel("p", [slow, ran.agent("fast", wins)], on_error="first"), LAST])
    )
    lines = transcript(run(drive, runner))
    assert lines[0] == "s/p/fast: fast"
    assert lines[-1] == "s/p/last: Go., [fast] said: fast"
    assert history(runner)[:2] == ["Go.", "fast"]
    assert "s2" not in ran
    before = list(ran)
    assert list(drive.resume(runner, "t")) == []
    assert ran == before


def test_with_first_failures_are_told_and_the_run_goes_on(drive):
    ran = Ledger()
    tree = ag.parallel(
        "p", [ran.fails("a"), ran.agent("b"), ran.agent("c")], on_error="first", max_concurrency=1
    )
    runner = ag.Runner(tree)
    streamed = list(run(drive, runner))
    assert transcript(streamed) == ["p/b: b", "p/a: [error] ValueError('a 1')"]
    assert ran == ["a", "b"]
    assert history(runner) == ["Go.", "b"]
    assert {e.id for e in runner.events("t")} == {e.id for e in streamed}


def test_with_one_at_a_time_first_is_a_chain_of_fallbacks(drive):
    ran = Ledger()
    branches = [ran.fails("a"), ran.fails("b"), ran.agent("c"), ran.agent("d")]
    runner = ag.Runner(ag.parallel("p", branches, on_error="first", max_concurrency=1))
    list(run(drive, runner))
    assert ran == ["a", "b", "c"]
    assert history(runner) == ["Go.", "c"]


def test_where_none_is_first_all_failures_are_raised_as_one_and_a_resume_tries_again(drive):
    ran = Ledger()
    branches = [
        ag.sequential("x", [ran.agent("x1"), ran.fails("x2", times=2)]),
        ran.fails("y", times=1),
    ]
    runner = ag.Runner(ag.parallel("p", branches, on_error="first", max_concurrency=1))
    told, error = run_failing(drive, runner)
    assert told == [
        "p/x/x1: x1",
        "p/x/x1/x2: [error] ValueError('x2 1')",
        "p/y: [error] ValueError('y 1')",
    ]
    assert str(error) == "x2 1"
    told = transcript(drive.resume(runner, "t"))
    assert told == ["p/y: y", "p: [discarded]", "p/x/x1/x2: [error] ValueError('x2 2')"]
    assert ran == ["x1", "x2", "y", "x2", "y"]
    assert history(runner) == ["Go.", "y"]


def test_the_winner_does_not_wait_for_a_slow_loser_on_the_event_loop():
    cancelled = []

    async def slow(ctx) -> str:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            cancelled.append(1)
            raise
        return "slow"

    async def fast(ctx) -> str:
        await asyncio.sleep(0.05)
        return "fast"

    branches = [ag.function_agent("slow", slow), ag.function_agent("fast", fast)]
    runner = ag.Runner(ag.sequential("s", [ag.parallel("p", branches, on_error="first"), LAST]))
    began = time.perf_counter()
    assert transcript(run(Async, runner)) == ["s/p/fast: fast", "s/p/last: Go., [fast] said: fast"]
    assert time.perf_counter() - began < PATIENCE / 2
    assert cancelled == [1]
    assert transcript(runner.events("t")) == ["s/p/fast: fast", "s/p/last: Go., [fast] said: fast"]


def test_a_question_of_a_loser_is_not_asked_any_more(drive, tmp_path):
    ran = Ledger()

    def tree() -> ag.Agent:
        branches = [ag.sequential("q", [ag.human("h", "Who?"), ran.agent("x")]), ran.agent("y")]
        return ag.sequential("s", [ag.parallel("p", branches, on_error="first"), LAST])

    disk = Disk(drive, tmp_path / "x.db")
    lines = transcript(disk.run(tree()))
    assert lines[-1] == "s/p/last: Go., [y] said: y"
    assert ran == ["y"]
    assert disk.resume(tree()) == []
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        assert ag.Runner(tree(), checkpointer=saver).pending("t") == []


def test_where_the_others_failed_a_question_is_asked_and_its_answer_wins(drive, tmp_path):
    ran = Ledger()

    def tree() -> ag.Agent:
        branches = [
            ran.fails("x", times=9),
            ag.sequential("q", [ag.human("h", "Who?"), ran.agent("y")]),
        ]
        return ag.sequential("s", [ag.parallel("p", branches, on_error="first"), LAST])

    disk = Disk(drive, tmp_path / "x.db")
    assert "s/p/q/h: [asks] Who?" in transcript(disk.run(tree()))
    lines = transcript(disk.resume(tree(), "Me."))
    assert lines[:2] == ["s/p/q/h: Me.", "s/p/q/h/y: y"]
    assert lines[-1] == "s/p/last: Go., [h] said: Me., [y] said: y"


def test_branches_of_which_one_wins_may_write_one_key(drive):
    branches = [
        ag.function_agent("a", tells_all, output_key="k"),
        ag.function_agent("b", tells_all, output_key="k"),
    ]
    shown = ag.function_agent("last", shows_values)
    race = ag.parallel("p", branches, on_error="first", max_concurrency=1)
    assert transcript(run(drive, ag.Runner(ag.sequential("s", [race, shown]))))[-1] == (
        "s/p/last: {'k': 'Go.'}"
    )


def test_an_exit_of_the_winner_ends_the_run_and_one_of_a_loser_does_not(drive):
    def exits(ctx) -> Iterator[str | ag.Exit]:
        yield "bye"
        yield ag.Exit()

    ran = Ledger()

    def tree(*branches: ag.Agent) -> ag.Agent:
        race = ag.parallel("p", branches, on_error="first", max_concurrency=1)
        return ag.sequential("s", [race, ran.agent("last")])

    leaves = ag.function_agent("e", exits)
    list(run(drive, ag.Runner(tree(leaves, ran.agent("x")))))
    assert ran == []
    list(run(drive, ag.Runner(tree(ran.agent("x"), leaves))))
    assert ran == ["x", "last"]


@pytest.mark.parametrize("on_error", ["never", None, "Fail"])
def test_an_unknown_word_is_refused_before_the_run(on_error):
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.Runner(ag.parallel("p", [Ledger().agent("a")], on_error=on_error))
    assert str(caught.value) == (
        f"p: on_error={on_error!r} is not known; use 'fail' or 'wait' or 'collect' or 'first'"
    )


def leaves_or_fails(ctx) -> ag.Exit:
    raise ValueError("no")


def leaves(ctx) -> ag.Exit:
    return ag.Exit()


def test_a_branch_that_can_only_exit_may_fail_where_failures_are_collected(drive):
    ran = Ledger()
    both = ag.parallel(
        "p", [ran.agent("a"), ag.function_agent("e", leaves_or_fails)], on_error="collect"
    )
    list(run(drive, ag.Runner(ag.sequential("s", [both, ran.agent("last")]))))
    assert ran == ["a", "last"]


def test_the_first_branch_to_succeed_need_not_be_one_that_can_only_exit(drive):
    ran = Ledger()
    race = ag.parallel(
        "p", [ran.agent("x"), ag.function_agent("e", leaves)], on_error="first", max_concurrency=1
    )
    list(run(drive, ag.Runner(ag.sequential("s", [race, ran.agent("last")]))))
    assert ran == ["x", "last"]


def test_a_failure_that_is_collected_inside_a_loop_lets_it_go_on(drive):
    ran = Ledger()

    def breaks(ctx) -> ag.BreakLoop:
        if ran.count("last") == 0:
            raise ValueError("no")
        return ag.BreakLoop()

    both = ag.parallel("p", [ag.function_agent("b", breaks), ran.agent("a")], on_error="collect")
    list(run(drive, ag.Runner(ag.loop("l", [both, ran.agent("last")], max_iterations=5))))
    assert ran == ["a", "last", "a"]


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_a_question_that_is_held_leaves_room_for_the_others_on_an_event_loop(at_once: int) -> None:
    """LangGraph's own bound counts a branch that has asked and waits for the others to lose."""

    async def asks(ctx: ag.Context) -> str | ag.Ask:
        return str(ctx.answer) if ctx.answered else ag.Ask("?")

    async def wins(ctx: ag.Context) -> str:
        return "won"

    fails = Ledger().fails("a", 9)
    others = [ag.function_agent("b", asks), ag.function_agent("c", wins), ag.function_agent("d", wins)]
    graph = ag.compile_agent(ag.parallel("p", [fails, *others], on_error="first"))

    async def run() -> Any:
        running = graph.ainvoke({"messages": ["Go."]}, {"max_concurrency": at_once})
        return await asyncio.wait_for(running, PATIENCE)

    assert [message.text for message in asyncio.run(run())["messages"]] == ["Go.", "won"]

"""Branches, steps and items that end the others by `Exit(cancel=True)` or `BreakLoop(cancel=True)`."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deciding_process import tree as deciding
from helpers import THREAD, Async, Drive, asks, chat, fresh, lines, unvoided
from helpers.commands import Commands
from langgraph.cache.memory import InMemoryCache
from langgraph.types import CachePolicy

import agentgraph as ag
from agentgraph.testing import call, calls

PROGRAM = Path(__file__).with_name("deciding_process.py")
PATIENCE = 20


def says(name: str, *said: Any) -> ag.Agent:
    return ag.function_agent(name, lambda ctx: list(said))


class Slow:
    """An agent that ends only when it is cancelled.

    Attributes:
        begun: Set when it runs.
    """

    def __init__(self, drive: Drive) -> None:
        self.begun, self.ended, self.is_async = threading.Event(), False, drive is Async

    def agent(self, name: str = "slow") -> ag.Agent:
        def fn(ctx: ag.Context) -> Any:
            yield f"{name} begins"
            self.begun.set()
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                time.sleep(0.01)
                yield None
            self.ended = True

        async def afn(ctx: ag.Context) -> Any:
            yield f"{name} begins"
            self.begun.set()
            await asyncio.sleep(PATIENCE)
            self.ended = True

        return ag.function_agent(name, afn if self.is_async else fn)

    def after(self, name: str, *said: Any) -> ag.Agent:
        """Return an agent that says something once this one has begun."""

        def fn(ctx: ag.Context) -> Any:
            assert self.begun.wait(PATIENCE)
            return list(said)

        async def afn(ctx: ag.Context) -> Any:
            assert await asyncio.to_thread(self.begun.wait, PATIENCE)
            return list(said)

        return ag.function_agent(name, afn if self.is_async else fn)


@pytest.fixture
def slow(drive: Drive) -> Iterator[Slow]:
    made = Slow(drive)
    yield made
    assert not made.ended


EXIT, BREAK = ag.Exit(cancel=True), ag.BreakLoop(cancel=True)


def ran(drive: Drive, tree: ag.Agent) -> tuple[list[str], ag.Runner]:
    """Run a tree, and return what stays of it; the same must be in the saver."""
    runner = ag.Runner(tree)
    events = [*drive.run(runner, "Go.", thread_id="t")]
    stays = lines(unvoided(events))
    assert lines([each for each in runner.events("t") if each.kind != "discarded"]) == stays
    assert runner.thread("t").status == "done"
    return stays, runner


FORKS: dict[str, Callable[..., ag.Agent]] = {
    "fail": lambda *each: ag.parallel("f", each),
    "wait": lambda *each: ag.parallel("f", each, on_error="wait"),
    "collect": lambda *each: ag.parallel("f", each, on_error="collect"),
    "workflow": lambda *each: ag.workflow("f", [ag.step(one) for one in each]),
    "compensated": lambda *each: ag.workflow(
        "f", [ag.step(one, compensate=says(f"undo_{one.name}", "undone")) for one in each]
    ),
}


@pytest.mark.parametrize("fork", FORKS)
def test_an_exit_that_cancels_ends_the_others(drive: Drive, slow: Slow, fork: str) -> None:
    tree = ag.sequential("s", [FORKS[fork](slow.agent(), slow.after("b", "no", EXIT)), says("c", "c")])
    assert ran(drive, tree)[0] == ["s/f/b: no", "s/f/b: [exit]"]


def test_who_had_ended_stays_and_is_joined_in_declared_order(drive: Drive, slow: Slow) -> None:
    branches = [says("a", "a"), slow.agent(), says("b", "b"), slow.after("c", "no", EXIT)]
    tree = ag.parallel("p", branches, max_concurrency=2)  # each begins when the one before has ended
    stays, runner = ran(drive, ag.sequential("s", [tree, says("d", "d")]))
    assert stays == ["s/p/a: a", "s/p/b: b", "s/p/c: no", "s/p/c: [exit]"]
    assert [each.text for each in runner.graph.get_state(THREAD).values["messages"]] == [
        *("Go.", "a", "b", "no")
    ]


def test_who_ends_later_loses(drive: Drive, slow: Slow) -> None:
    over = threading.Event()

    def late(ctx: ag.Context) -> str:
        slow.begun.set()
        over.wait(0.3)
        return "late"

    tree = ag.parallel("p", [ag.function_agent("late", late), slow.after("b", "no", EXIT)])
    assert ran(drive, tree)[0] == ["p/b: no", "p/b: [exit]"]


def test_an_item_cancels_the_others(drive: Drive, slow: Slow) -> None:
    worker = ag.switch(
        "w", choose="kind", cases={"slow": slow.agent(), "exit": slow.after("b", "no", EXIT)}
    )
    each = ag.each("e", worker, over=lambda ctx: ["slow", "exit"], as_="kind", output_key="all")
    stays, runner = ran(drive, ag.sequential("s", [each, says("c", "c")]))
    assert [line for line in stays if "chosen" not in line][-2:] == [
        *("s/e/w(1)/b: no", "s/e/w(1)/b: [exit]")
    ]
    assert runner.thread("t").values["all"] == [None, "no"]


def test_an_exit_cancels_outwards_to_the_root(drive: Drive, slow: Slow) -> None:
    inner = ag.parallel("i", [slow.after("b", "no", EXIT), says("a", "a")])
    tree = ag.sequential("s", [ag.parallel("o", [inner, slow.agent()]), says("c", "c")])
    stays, _ = ran(drive, tree)
    assert stays[-2:] == ["s/o/i/b: no", "s/o/i/b: [exit]"]
    assert not any("slow" in line for line in stays)


def test_a_break_cancels_up_to_its_loop(drive: Drive, slow: Slow) -> None:
    inner = ag.parallel("i", [slow.agent(), slow.after("b", BREAK)])
    loop = ag.loop("l", [inner], max_iterations=3)
    other = says("other", "other")
    stays, _ = ran(drive, ag.sequential("s", [ag.parallel("o", [loop, other]), says("c", "c")]))
    assert sorted(stays) == ["s/c: c", "s/o/l[0]/i/b: [break_loop]", "s/o/other: other"]


def test_a_signal_that_ends_nothing_outside_its_branch_is_as_without(drive: Drive) -> None:
    loop = ag.loop("l", [says("b", BREAK)], max_iterations=3)
    tool = chat("helper", calls(call("stop")), tools=[stop], description="Helps.")
    caller = chat("boss", calls(call("helper", request="Go.")), "boss", tools=[ag.agent_tool(tool)])
    after = ag.parallel("p", [loop, caller, says("c", "c")])
    stays, _ = ran(drive, after)
    assert {"p/c: c", "p/boss: boss", "p/l[0]/b: [break_loop]"} <= {*stays}


def stop() -> Any:
    """Stop."""
    return ["stopped", ag.Exit(cancel=True, reason="a tool")]


def test_a_tool_cancels(drive: Drive, slow: Slow) -> None:
    def halt() -> Any:
        """Stop."""
        assert slow.begun.wait(PATIENCE)
        return ["stopped", ag.Exit(cancel=True, reason="a tool")]

    boss = chat("boss", calls(call("halt")), tools=[halt])
    stays, runner = ran(
        drive, ag.sequential("s", [ag.parallel("p", [slow.agent(), boss]), says("c", "c")])
    )
    assert stays[-1] == "s/p/boss: [exit]"
    assert runner.result("t").reason == "a tool"


def test_a_case_cancels(drive: Drive, slow: Slow) -> None:
    def choose(ctx: ag.Context) -> bool:
        return slow.begun.wait(PATIENCE)

    case = ag.switch("w", choose=choose, cases={True: EXIT})
    stays, _ = ran(drive, ag.sequential("s", [ag.parallel("p", [slow.agent(), case]), says("c", "c")]))
    assert stays == ["s/p/w: [chosen] exit"]


def test_a_cached_signal_cancels_again_with_its_reason(drive: Drive, slow: Slow) -> None:
    cached = ag.function_agent(
        "b", lambda ctx: ag.Exit(cancel=True, reason="known"), cache_policy=CachePolicy()
    )
    cache = InMemoryCache()
    for _ in range(2):
        tree = ag.parallel("p", [slow.agent(), ag.sequential("q", [slow.after("x", "x"), cached])])
        runner = ag.Runner(tree, cache=cache)
        events = [*drive.run(runner, "Go.", thread_id="t")]
        assert lines(unvoided(events)) == ["p/q/x: x", "p/q/b: [exit]"]
        assert runner.result("t").reason == "known"


@pytest.mark.parametrize("question", [asks("q", "Well?"), ag.human("q", "Well?")])
def test_a_question_of_a_cancelled_branch_is_dropped(
    drive: Drive, slow: Slow, question: ag.Agent
) -> None:
    asker = ag.sequential("a", [says("x", "x"), question])
    tree = ag.parallel("p", [asker, slow.agent(), slow.after("b", "no", EXIT)])
    runner = ag.Runner(ag.sequential("s", [tree, says("c", "c")]))
    events = [*drive.run(runner, "Go.", thread_id="t")]
    assert lines(unvoided(events)) == ["s/p/b: no", "s/p/b: [exit]"]
    assert (runner.thread("t").status, runner.pending("t")) == ("done", [])


def test_a_signal_shows_the_options_that_it_sets() -> None:
    signals = [ag.Exit(), ag.Exit(cancel=True, reason="why"), ag.BreakLoop(), ag.BreakLoop(cancel=True)]
    assert [*map(repr, signals)] == [
        "Exit()",
        "Exit(cancel=True, reason='why')",
        "BreakLoop()",
        "BreakLoop(cancel=True)",
    ]


def test_a_reason_that_is_not_a_text_is_refused(drive: Drive) -> None:
    runner = ag.Runner(ag.function_agent("a", lambda ctx: ag.Exit(reason=3)))  # type: ignore[arg-type]
    with pytest.raises(ag.errors.InvalidOutputError) as caught:
        [*drive.run(runner, "Go.")]
    assert str(caught.value) == "a: Exit(reason=3) is not a text; pass a text"


def test_a_reason_is_in_the_result_live_and_saved(drive: Drive) -> None:
    tree = ag.sequential("s", [says("a", "a", ag.Exit(reason="enough")), says("b", "b")])
    runner = ag.Runner(tree)
    assert runner.invoke("Go.", thread_id="t").reason == "enough"
    assert runner.result("t").reason == "enough"
    assert runner.advance("t", "Go on.", turn_id="2").reason == "enough"


@pytest.mark.parametrize("name", ["cancelled", "cancelled twice"])
@pytest.mark.parametrize("saves", [4, 6, 7, 8, 9, 11])
def test_a_decision_outlives_its_process(
    drive: Drive, program: Commands, tmp_path: Path, name: str, saves: int
) -> None:
    ledger = tmp_path / "ledger"
    mode = "async" if drive is Async else "sync"
    program.start(str(PROGRAM), str(tmp_path), name, mode, str(saves)).wait()
    before = ledger.read_text().split()
    tree = deciding(name, ledger)
    fresh(drive, tmp_path / "threads.db", tree, "resume", "t")
    again = ledger.read_text().split()[len(before) :]
    events = fresh(drive, tmp_path / "threads.db", tree, "events", "t")
    assert [each.text for each in events if each.kind == "message"] == ["a", "b"]
    if "b" in before and "b" not in again:  # the decision was saved
        assert not again


def test_a_rewind_decides_again_and_keeps_no_branch_that_lost(drive: Drive) -> None:
    ran_again: list[str] = []
    begun = threading.Event()

    def late(ctx: ag.Context) -> str:
        begun.set()
        time.sleep(0.2)
        ran_again.append("late")
        return "late"

    def decide(ctx: ag.Context) -> Any:
        assert begun.wait(PATIENCE)
        ran_again.append("b")
        return ["no", EXIT]

    branches = [says("a", "a"), ag.function_agent("late", late), ag.function_agent("b", decide)]
    runner = ag.Runner(ag.parallel("p", branches, max_concurrency=2))
    [*drive.run(runner, "Go.", thread_id="t")]
    for at in ("p/b", "p/late"):
        ran_again.clear()
        begun.clear()
        [*runner.rewind("t", at)]
        assert ran_again == ["b", "late"]
        assert lines(runner.events("t")) == ["p/a: a", "p/b: no", "p/b: [exit]"]

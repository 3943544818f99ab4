"""Runs in the background: what is refused, how many run, how they fail, and how they end."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import asks, fails, says, texts
from helpers.commands import Commands, wait_until

import agentgraph as ag
from agentgraph.threads.rewinds.rewinding import RewindArguments


class Gate:
    """Agents that wait until a gate is opened, and who of them runs.

    Attributes:
        begun: The threads that have begun, in order.
        most: How many ran at the same time at most.
    """

    def __init__(self) -> None:
        self.open, self.begun, self.most = threading.Event(), list[str](), 0
        self._running, self._lock = 0, threading.Lock()

    def enter(self, thread_id: str) -> None:
        with self._lock:
            self.begun.append(thread_id)
            self._running += 1
            self.most = max(self.most, self._running)

    def leave(self) -> None:
        with self._lock:
            self._running -= 1

    def agent(self, name: str = "a") -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            self.enter(ctx.config["configurable"]["thread_id"])
            assert self.open.wait(30)
            self.leave()
            return name

        return ag.function_agent(name, fn)

    def coroutine(self, name: str = "a") -> ag.Agent:
        async def fn(ctx: ag.Context) -> str:
            self.enter(ctx.config["configurable"]["thread_id"])
            while not self.open.is_set():
                await asyncio.sleep(0.001)
            self.leave()
            return name

        return ag.function_agent(name, fn)


def is_done(runner: ag.Runner, *threads: str, status: str = "done") -> Callable[[], bool]:
    return lambda: all(runner.thread(each).status == status for each in threads)


def test_what_can_be_refused_is_refused_at_the_call(tmp_path: Path) -> None:
    with ag.Runner(asks("boss"), checkpointer=tmp_path / "threads.db") as runner:
        held = runner.run("Go.", thread_id="t")
        with pytest.raises(ag.ThreadBusyError):
            runner.start("Go.", thread_id="t")
        list(held)
        with pytest.raises(ag.PendingInterruptError):
            runner.start("Go.", thread_id="t")
        with pytest.raises(ag.UnknownInterruptError):
            runner.start(thread_id="t", answers={"boss/x": "yes"})
        with pytest.raises(ag.UnknownThreadError):
            runner.start(thread_id="u")
        with pytest.raises(ag.AgentGraphError, match="nothing to run"):
            runner.start()
        with pytest.raises(ag.AgentGraphError, match="while_running='now' is unknown"):
            runner.start("Go.", while_running="now")  # type: ignore[arg-type]

        async def refused() -> None:
            with pytest.raises(ag.PendingInterruptError):
                await runner.astart("Go.", thread_id="t")

        asyncio.run(refused())
        assert runner.start(thread_id="t", answers="yes") == "t"
        wait_until(is_done(runner, "t"))


@pytest.mark.parametrize("number", [0, -1, "2", 1.5, None])
def test_a_number_of_runs_that_is_none_is_refused(number: Any) -> None:
    with pytest.raises(ag.AgentGraphError, match="max_running"):
        ag.Runner(says("a"), max_running=number)


@pytest.mark.parametrize("kept", ["memory", "file"])
def test_a_few_runs_run_at_a_time_and_all_in_their_order(kept: str, tmp_path: Path) -> None:
    gate = Gate()
    saver = tmp_path / "threads.db" if kept == "file" else None
    threads = [f"t{number}" for number in range(12)]
    with ag.Runner(gate.agent(), checkpointer=saver, max_running=3) as runner:
        for each in threads:
            runner.start("Go.", thread_id=each)
        wait_until(lambda: len(gate.begun) == 3)
        with pytest.raises(ag.ThreadBusyError):
            runner.run("Go.", thread_id="t11")  # it waits, and holds its thread
        gate.open.set()
        wait_until(is_done(runner, *threads))
        assert gate.most == 3
        assert {*gate.begun[:3]} == {"t0", "t1", "t2"}
        assert {*gate.begun} == {*threads}


def test_one_run_at_a_time_runs_in_order() -> None:
    gate = Gate()
    gate.open.set()
    threads = [f"t{number}" for number in range(20)]
    with ag.Runner(gate.agent(), max_running=1) as runner:
        for each in threads:
            runner.start("Go.", thread_id=each)
        wait_until(is_done(runner, *threads))
    assert gate.begun == threads
    assert gate.most == 1


def test_async_runs_run_in_order_and_one_that_waits_for_another_lets_it_end() -> None:
    """The input that is queued behind a run that has not begun does not take its place."""
    gate = Gate()
    gate.open.set()

    async def started(runner: ag.Runner) -> None:
        threads = [f"t{number}" for number in range(10)]
        for each in threads:
            await runner.astart("Go.", thread_id=each)
            await runner.astart("More.", thread_id=each, while_running="queue")
        while len(gate.begun) < 2 * len(threads):
            await asyncio.sleep(0.01)
        await runner.aclose()
        assert gate.begun == [each for each in threads for _ in range(2)]

    with ag.Runner(gate.coroutine(), max_running=1) as runner:
        asyncio.run(started(runner))
    assert gate.most == 1


def test_fifty_runs_at_once(tmp_path: Path) -> None:
    gate = Gate()
    threads = [f"t{number}" for number in range(50)]
    with ag.Runner(
        ag.sequential("s", [gate.agent(), says("b")]),
        checkpointer=tmp_path / "threads.db",
        max_running=50,
    ) as runner:
        for each in threads:
            runner.start("Go.", thread_id=each)
        wait_until(lambda: len(gate.begun) == 50)
        gate.open.set()
        for each in threads:
            assert [event.text for event in runner.follow(each)] == ["a", "b"]
        assert gate.most == 50


def test_a_failure_is_in_the_status_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with ag.Runner(fails("a"), max_running=1) as runner, caplog.at_level(logging.ERROR, "agentgraph"):
        runner.start("Go.", thread_id="t")
        wait_until(is_done(runner, "t", status="failed"))
        wait_until(lambda: "ValueError: a failed, time 1" in caplog.text)
        assert "the run on thread 't' failed" in caplog.text
        runner.start(thread_id="t")
        wait_until(is_done(runner, "t"))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_an_agent_that_ends_the_program_ends_no_other_run(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fn(ctx: ag.Context) -> str:
        if ctx.config["configurable"]["thread_id"] == "t":
            raise error
        return "a"

    with ag.Runner(ag.function_agent("a", fn), max_running=1) as runner:
        runner.start("Go.", thread_id="t")
        runner.start("Go.", thread_id="u")
        wait_until(is_done(runner, "u"))
        assert "'t' failed" in caplog.text


def test_close_stops_what_it_began_and_nothing_else(tmp_path: Path) -> None:
    """Also a run that has no place yet, and an input that is queued behind another caller's run."""
    path, gate = tmp_path / "threads.db", Gate()
    tree = ag.sequential("s", [gate.agent(), says("b")])
    other = ag.Runner(tree, checkpointer=path)
    own = other.run("Go.", thread_id="other")
    runner = ag.Runner(tree, checkpointer=other.saver, max_running=2)
    runner.start("Go.", thread_id="t")
    runner.start("More.", thread_id="other", while_running="queue")
    runner.start("Go.", thread_id="u")
    wait_until(lambda: gate.begun == ["t"])
    closing = threading.Thread(target=runner.close)
    closing.start()
    time.sleep(0.05)
    assert closing.is_alive()  # it waits for the function
    gate.open.set()
    closing.join(30)
    assert not closing.is_alive()
    assert gate.begun == ["t"]
    assert [other.thread(each).status for each in ("t", "u")] == ["stopped", "stopped"]
    assert [event.text for event in own] == ["a", "b"]
    assert texts(other.thread("other").queued) == ["human: More."]
    assert [event.text for event in other.resume("t") if event.text] == ["b"]
    assert [event.text for event in other.resume("u") if event.text] == ["a", "b"]
    other.close()


def test_aclose_stops_what_it_began_and_nothing_else(tmp_path: Path) -> None:
    gate = Gate()

    async def closed() -> None:
        tree = ag.sequential("s", [gate.coroutine(), says("b")])
        async with ag.Runner(tree, checkpointer=tmp_path / "threads.db") as other:
            own = await other.arun("Go.", thread_id="other")
            runner = ag.Runner(tree, checkpointer=other.saver, max_running=2)
            await runner.astart("Go.", thread_id="t")
            await runner.astart("More.", thread_id="other", while_running="queue")
            await runner.astart("Go.", thread_id="u")
            while gate.begun != ["t"]:
                await asyncio.sleep(0.01)
            closing = asyncio.create_task(runner.aclose())
            await asyncio.sleep(0.05)
            assert not closing.done()
            gate.open.set()
            await asyncio.wait_for(closing, 30)
            assert [(await other.athread(each)).status for each in ("t", "u")] == ["stopped"] * 2
            assert [event.text async for event in own] == ["a", "b"]
            assert texts((await other.athread("other")).queued) == ["human: More."]
            assert [event.text async for event in other.aresume("t") if event.text] == ["b"]

    asyncio.run(closed())


PROGRAM = """
import sys, threading, time
import agentgraph as ag

entered = threading.Event()

@ag.agent
def a(ctx):
    with open("ran", "a") as file:
        file.write("a\\n")
    return "a"

@ag.agent
def b(ctx):
    with open("ran", "a") as file:
        file.write("b\\n")
    entered.set()
    time.sleep(float(sys.argv[1]))
    return "b"

@ag.agent
def c(ctx):
    with open("ran", "a") as file:
        file.write("c\\n")
    return "c"

report = ag.sequential("s", [a, b, c])
runner = ag.Runner(report, checkpointer="threads.db")
if sys.argv[2] == "start":
    runner.start("Go.", thread_id="t")
    entered.wait()
else:
    print(runner.thread("t").status)
    print([event.text for event in runner.resume("t") if event.text])
    print([event.text for event in runner.events("t")])
"""


def test_a_program_that_ends_stops_its_runs_and_nothing_is_lost(program: Commands) -> None:
    path = program.folder / "started.py"
    path.write_text(PROGRAM)
    ended = program(str(path), "0.3", "start")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    ended = program(str(path), "0", "resume")
    assert ended.err == ""
    status, resumed, every = ended.lines
    assert (status, every) == ("stopped", "['a', 'b', 'c']")
    assert resumed == "['c']"
    assert (program.folder / "ran").read_text().split() == ["a", "b", "c"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_rewind_and_variants_run_in_the_background(is_async: bool) -> None:
    tree = ag.sequential("s", [says("a"), ag.function_agent("b", lambda ctx: ctx.values["mood"])])

    async def moods(runner: ag.Runner) -> list[list[str]]:
        back = RewindArguments("s/b", values={"mood": "sad"})
        variants = {"glad": {"values": {"mood": "glad"}}, "cross": {"values": {"mood": "cross"}}}
        if is_async:
            assert await runner.astart(thread_id="t", at=back) == "t"
            await asyncio.to_thread(wait_until, lambda: runner.is_idle)
            threads = await runner.astart_many("t", "s/b", variants)
        else:
            assert runner.start(thread_id="t", at="s/b", values={"mood": "sad"}) == "t"
            wait_until(lambda: runner.is_idle)
            threads = runner.start_many("t", "s/b", variants)
        assert threads == {"glad": "t-glad", "cross": "t-cross"}
        await asyncio.to_thread(wait_until, lambda: runner.is_idle)
        with pytest.raises(ag.UnknownAddressError):
            runner.start(thread_id="t", at="s/c")
        with pytest.raises(ag.UnknownAddressError):
            runner.start_many("t", "s/c", {"x": {}})
        with pytest.raises(ag.ThreadError, match="exists already"):
            runner.start_many("t", "s/b", variants)
        await runner.aclose()
        return [[event.text for event in runner.events(t)] for t in ("t", "t-glad", "t-cross")]

    with ag.Runner(tree) as runner:
        runner.invoke("Go.", thread_id="t", values={"mood": "calm"})
        assert asyncio.run(moods(runner)) == [["a", "sad"], ["a", "glad"], ["a", "cross"]]

"""An event loop that ends closes the async runs that were left on it, as `aclose` does."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import chat, says, unvoided

import agentgraph as ag
from agentgraph.testing import call, calls


class Ledger:
    """Agents whose functions run in threads, and how often each function has ended."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, name: str) -> str:
        time.sleep(0.003)
        with self._lock:
            self.ended[name] += 1
        return name

    def agent(self, name: str) -> ag.Agent:
        return ag.function_agent(name, lambda ctx: self.note(ctx.address))

    def steps(self, name: str) -> ag.Agent:
        return ag.sequential(name, [self.agent(f"{name}{number}") for number in range(4)])


def tools(ledger: Ledger) -> ag.Agent:
    def work(number: int) -> str:
        """Work."""
        return ledger.note(f"work {number}")

    asked = calls(*(call("work", str(n), number=n) for n in range(4)))
    return chat("c", asked, "Done.", tools=[work])


def running(ledger: Ledger) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        every = (ctx.run("w", str(n), key=n) for n in range(4))
        return str(len(await asyncio.gather(*every)))

    return ag.function_agent("flow", fn, agents=[ledger.steps("w")])


TREES: dict[str, Callable[[Ledger], ag.Agent]] = {
    "sequence": lambda ledger: ledger.steps("s"),
    "parallel": lambda ledger: ag.parallel("p", [ledger.steps("a"), ledger.steps("b")]),
    "a question beside": lambda ledger: ag.parallel(
        "p", [ag.sequential("o", [ledger.agent("x"), ag.human("h", "?")]), ledger.steps("a")]
    ),
    "each": lambda ledger: ag.each(
        "all", ledger.agent("w"), lambda ctx: [*range(8)], max_concurrency=2
    ),
    "each of steps": lambda ledger: ag.each("all", ledger.steps("s"), lambda ctx: [1, 2]),
    "workflow": lambda ledger: ag.workflow("w", [ag.step(ledger.steps(name)) for name in "ab"]),
    "a loop in a branch": lambda ledger: ag.parallel(
        "p", [ag.loop("l", [ledger.agent("a")], max_iterations=4), ledger.agent("b")]
    ),
    "tools": tools,
    "ctx.run": running,
}
HELD: list[Any] = []


async def leave(run: Any, told: list[ag.AgentEvent], count: int) -> None:
    async for event in run:
        told.append(event)
        count -= 1
        if count == 0:
            return


async def hold(run: Any, told: list[ag.AgentEvent], count: int) -> None:
    HELD.append(run)
    await leave(run, told, count)


async def wait_beside(run: Any, told: list[ag.AgentEvent], count: int) -> None:
    """Leave a task that reads the run behind; it is cancelled while it waits for an event."""
    reading = asyncio.create_task(leave(run, told, 0))
    HELD.append(reading)
    while len(told) < count and not reading.done():
        await asyncio.sleep(0)


WAYS = {"dropped": leave, "held": hold, "read by another task": wait_beside}


@pytest.mark.by_turns("way")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_run_that_is_left_as_its_loop_ends_is_closed(tree: str, way: str, tmp_path: Path) -> None:
    for count in (1, 2, 3):
        ledger, told = Ledger(), list[ag.AgentEvent]()
        path = tmp_path / f"{count}.db"
        with ag.Runner(TREES[tree](ledger), checkpointer=path) as runner:
            asyncio.run(WAYS[way](runner.arun("Go.", thread_id="t"), told, count))
            assert runner.thread("t").status != "running"
            for _ in range(2):  # it is left once more where it goes on
                if runner.thread("t").status in ("stopped", "failed"):
                    asyncio.run(WAYS[way](runner.aresume("t"), told, 1 + count))
            while (status := runner.thread("t").status) != "done":
                answer = {"answers": "yes"} if status == "paused" else {}
                told += runner.resume("t", **answer)
            kept = [event.id for event in runner.events("t")]
        assert set(ledger.ended.values()) == {1}, ledger.ended
        left = unvoided(told)
        assert [event.address for event in left if event.id not in kept] == []
        if way != "read by another task":  # it may be cancelled with an event in its hands
            assert {event.id for event in left} == set(kept)
    HELD.clear()


def test_a_run_in_the_background_is_closed_too(tmp_path: Path) -> None:
    ledger = Ledger()
    with ag.Runner(TREES["parallel"](ledger), checkpointer=tmp_path / "runs.db") as runner:

        async def begin() -> None:
            await runner.astart("Go.", thread_id="t")
            while not ledger.ended:
                await asyncio.sleep(0.001)

        asyncio.run(begin())
        assert runner.thread("t").status == "stopped"
        runner.invoke(thread_id="t")
    assert set(ledger.ended.values()) == {1}


def test_a_loop_has_its_own_way_to_make_tasks_once_nothing_runs() -> None:
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        made.append(coroutine.__qualname__)
        return asyncio.Task(coroutine, loop=loop, **options)

    async def main() -> set[asyncio.Task[Any]]:
        loop = asyncio.get_running_loop()
        for each in (None, factory):
            loop.set_task_factory(each)
            runner = ag.Runner(TREES["parallel"](Ledger()))
            first, second = runner.arun("Go.", thread_id="a"), runner.arun("Go.", thread_id="b")
            await anext(first)
            await anext(second)
            await first.aclose()
            assert loop.get_task_factory() is not each
            _ = [event async for event in second]
            assert loop.get_task_factory() is each
        loop.set_task_factory(None)
        return asyncio.all_tasks()

    assert len(asyncio.run(main())) == 1
    assert made


def test_a_task_of_a_function_ends_with_the_loop() -> None:
    """What users make is theirs: the loop cancels it, as ever."""
    ends: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("cancelled")

    async def fn(ctx: ag.Context) -> str:
        HELD.append(asyncio.create_task(forever()))
        await asyncio.sleep(0)
        return "a"

    async def main() -> None:
        await anext(ag.Runner(ag.sequential("s", [ag.function_agent("a", fn)])).arun("Go."))

    asyncio.run(main())
    assert ends == ["cancelled"]
    HELD.clear()


class Once:
    """A function that ends the process the first time."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, 0

    def __call__(self, *_: object) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise SystemExit(3)
        return self.answer


ASKED: dict[str, Callable[[], ag.Agent]] = {
    "over": lambda: ag.each("e", says("a"), Once([1, 2])),
    "key": lambda: ag.each("e", says("a"), lambda _: [1], key=Once("k")),
    "input": lambda: ag.each("e", says("a"), lambda _: [1], input=Once("Do it.")),
    "when": lambda: ag.workflow("w", [says("a"), ag.step(says("b"), depends_on="a", when=Once(True))]),
    "a branch": lambda: ag.parallel("p", [ag.function_agent("a", Once("Yes.")), says("b")]),
    "a branch of a branch": lambda: ag.parallel(
        "p", [ag.parallel("q", [ag.sequential("s", [ag.function_agent("a", Once("Yes."))])])]
    ),
}


@pytest.mark.parametrize("where", ASKED)
def test_a_function_that_ends_the_process_leaves_the_thread_free(where: str, tmp_path: Path) -> None:
    with ag.Runner(ASKED[where](), checkpointer=tmp_path / "t.db") as runner:
        with pytest.raises(SystemExit):
            asyncio.run(runner.ainvoke("Go.", thread_id="t"))
        assert runner.thread("t").status in ("failed", "stopped")

        async def resume() -> None:
            async with asyncio.timeout(30):
                async for _ in runner.aresume("t"):
                    pass

        asyncio.run(resume())
        assert runner.thread("t").status == "done"

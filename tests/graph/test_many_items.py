"""An `each` of many items: what is held of them, how they are saved, one that asks, stop and steer."""

import asyncio
import gc
import sys
from collections import Counter
from contextlib import AsyncExitStack, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync
from helpers.databases import asaver_at, saver_at
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.agents.entries import Item
from agentgraph.graph.guarded_saver import Order

MANY, AT_ONCE = 1000, 32


def each(fn: Any, drive: Drive, count: int = MANY) -> ag.Agent:
    """Return an each over so many items, whose worker is async in async runs."""

    async def afn(ctx: ag.Context) -> Any:
        await asyncio.sleep(0)
        return fn(ctx)

    worker = ag.function_agent("w", fn if drive is Sync else afn)
    return ag.each("all", worker, lambda ctx: [*range(count)], output_key="out")


def test_a_node_holds_no_more_items_than_run_at_once(drive: Drive) -> None:
    held: list[int] = []

    def fn(ctx: ag.Context) -> str:
        if ctx.item.number == 299:
            held.append(sum(isinstance(each, Item) for each in gc.get_objects()))
        return "done"

    [*drive.run(ag.Runner(each(fn, drive, 300)), "Go.", thread_id="t")]
    assert len(held) == 1
    assert held[0] <= 2 * AT_ONCE


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_is_saved_at_once_waits_once_each(mode: str) -> None:
    order = Order()
    saved: list[int] = []

    def save(number: int) -> None:
        saved.append(number)

    async def asave(number: int) -> None:
        await asyncio.sleep(0)
        saved.append(number)

    call, acall = order.in_order(save, asave)

    async def saves(count: int) -> None:
        if mode == "async":
            await asyncio.gather(*map(acall, range(count)))
        else:
            first = asyncio.create_task(acall(0))
            await asyncio.sleep(0)
            await asyncio.gather(first, *(asyncio.to_thread(call, n) for n in range(1, count)))

    calls = Counter[int]()

    def run(count: int) -> None:
        def note(*_: object) -> None:
            calls[count] += 1

        with asyncio.Runner() as loop:
            sys.setprofile(note)
            try:
                loop.run(saves(count))
            finally:
                sys.setprofile(None)

    run(10)
    assert sorted(saved) == [*range(10)]
    saved.clear()
    run(100)
    assert sorted(saved) == [*range(100)]
    assert mode == "sync" or saved == [*range(100)]
    assert calls[100] <= 12 * calls[10]


def test_who_waits_behind_a_cancelled_call_waits_for_those_before_it() -> None:
    order, saved = Order(), list[str]()

    async def main() -> None:
        ends = asyncio.Event()

        async def asave(name: str) -> None:
            if name == "first":
                await ends.wait()
            saved.append(name)

        _, acall = order.in_order(saved.append, asave)
        first, second, third = (asyncio.create_task(acall(n)) for n in ("first", "second", "third"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait({second})
        fourth = asyncio.create_task(acall("fourth"))
        await asyncio.sleep(0.01)
        assert saved == []
        ends.set()
        await asyncio.gather(first, third, fourth)

    asyncio.run(main())
    assert saved == ["first", "third", "fourth"]


class Many:
    """Runs an each of many items, in memory or on a file, each time with a new runner.

    Attributes:
        runner: The runner that runs now.
        calls: How often the worker was called, by item.
        act: Called by the worker of one item in the middle.
    """

    def __init__(self, drive: Drive, place: Any) -> None:
        self.drive, self.place = drive, place
        self.runner: ag.Runner
        self.calls = Counter[int]()
        self.act: Any = None

    def work(self, ctx: ag.Context) -> Any:
        self.calls[ctx.item.number] += 1
        if ctx.item.number == MANY // 2 and self.act is not None:
            return self.act(ctx)
        return f"done {ctx.item.value}"

    def play(self, method: str, *args: Any, **options: Any) -> list[ag.AgentEvent]:
        """Return the events of a run or a resume."""
        if self.drive is not Sync:
            return asyncio.run(self._aplay(f"a{method}", *args, **options))
        with ExitStack() as stack:
            is_file = isinstance(self.place, Path)
            self._take(stack.enter_context(saver_at(self.place)) if is_file else self.place)
            return [*getattr(self.runner, method)(*args, **options)]

    async def _aplay(self, method: str, *args: Any, **options: Any) -> list[ag.AgentEvent]:
        async with AsyncExitStack() as stack:
            is_file = isinstance(self.place, Path)
            self._take(
                await stack.enter_async_context(asaver_at(self.place)) if is_file else self.place
            )
            return [event async for event in getattr(self.runner, method)(*args, **options)]

    def _take(self, saver: Any) -> None:
        self.runner = ag.Runner(each(self.work, self.drive), checkpointer=saver)

    def check(self, heard: list[ag.AgentEvent]) -> None:
        """Check that the thread has all that the items gave, once each, as it was heard."""
        again = self.play("events", "t")
        heard = [each for each in heard if each.kind != "interrupted"]
        again = [each for each in again if each.kind != "interrupted"]
        assert [each.id for each in again] == [each.id for each in heard]
        gave = [each.text for each in again if each.address.startswith("all/") and each.text]
        assert sorted(gave) == sorted(f"done {number}" for number in range(MANY))


@pytest.fixture(params=["memory", "SQLite"])
def many(drive: Drive, tmp_path: Path, request: pytest.FixtureRequest) -> Many:
    return Many(drive, InMemorySaver() if request.param == "memory" else tmp_path / "x.db")


def test_an_item_asks_among_a_thousand_that_do_not(many: Many) -> None:
    many.act = lambda ctx: f"done {ctx.item.value}" if ctx.answered else ag.Ask("Well?")
    heard = many.play("run", "Go.", thread_id="t")
    assert many.calls == dict.fromkeys(range(MANY), 1)
    heard += many.play("resume", "t", "Yes.")
    assert many.calls == dict.fromkeys(range(MANY), 1) | {MANY // 2: 2}
    many.check(heard)


def test_a_run_of_a_thousand_items_is_stopped_and_goes_on(many: Many) -> None:
    def stop(ctx: ag.Context) -> str:
        many.runner.stop("t")
        return f"done {ctx.item.value}"

    many.act = stop
    heard = many.play("run", "Go.", thread_id="t")
    assert 0 < len(many.calls) <= MANY // 2 + AT_ONCE
    many.act = None
    heard += many.play("resume", "t")
    assert many.calls == dict.fromkeys(range(MANY), 1)
    many.check(heard)


def test_a_message_is_sent_while_a_thousand_items_run(many: Many) -> None:
    def steer(ctx: ag.Context) -> str:
        many.runner.steer("t", "Be brief.")
        return f"done {ctx.item.value}"

    many.act = steer
    heard = many.play("run", "Go.", thread_id="t")
    assert many.calls == dict.fromkeys(range(MANY), 1)
    many.check(heard)
    many.act = None
    many.play("run", "Once more.", thread_id="t")
    with saver_at(many.place) if isinstance(many.place, Path) else nullcontext(many.place) as saver:
        thread = ag.Runner(each(many.work, Sync), checkpointer=saver).thread("t")
    assert [m.text for m in thread.messages if m.type == "human"] == ["Go.", "Be brief.", "Once more."]

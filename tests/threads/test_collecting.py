"""The garbage collector waits while a thread is read, and never while a reader waits."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from helpers import asks, says
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag

READS: dict[str, tuple[Any, ...]] = {"events": (), "thread": (), "timeline": (), "visits": ()}


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    assert gc.isenabled()
    yield
    was_enabled = gc.isenabled()
    gc.enable()
    assert was_enabled


class Looking(InMemorySaver):
    """Notes whether the collector is on while it waits, as one does that asks a database."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[bool] = []

    async def aget_tuple(self, config: Any) -> Any:
        await self._wait()
        return await super().aget_tuple(config)

    async def alist(self, *args: Any, **bounds: Any) -> Any:
        async for each in super().alist(*args, **bounds):
            await self._wait()
            yield each

    async def _wait(self) -> None:
        self.states.append(gc.isenabled())
        await asyncio.sleep(0)
        self.states.append(gc.isenabled())


async def waiting(saver: Any) -> ag.Runner:
    runner = ag.Runner(ag.sequential("s", [says("a"), asks("boss")]), checkpointer=saver)
    await runner.ainvoke("Go.", thread_id="t")
    return runner


@pytest.mark.parametrize("call", READS)
def test_it_collects_while_an_async_reader_waits(call: str) -> None:
    async def whole() -> list[bool]:
        saver = Looking()
        runner = await waiting(saver)
        saver.states.clear()
        read = getattr(runner, f"a{call}")("t")
        _ = [each async for each in read] if call == "events" else await read
        return saver.states

    states = asyncio.run(whole())
    assert states != []
    assert all(states)


def test_it_collects_again_after_a_reader_that_is_left_in_the_middle() -> None:
    class Hanging(InMemorySaver):
        is_hanging = False

        async def alist(self, *args: Any, **bounds: Any) -> Any:
            if self.is_hanging:
                await asyncio.get_running_loop().create_future()
            async for each in super().alist(*args, **bounds):
                yield each

    async def whole() -> None:
        saver = Hanging()
        runner = await waiting(saver)
        saver.is_hanging = True
        reading = asyncio.ensure_future(runner.atimeline("t"))
        await asyncio.sleep(0.01)
        assert (reading.done(), gc.isenabled()) == (False, True)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading

    asyncio.run(whole())


@pytest.mark.parametrize("call", READS)
def test_it_collects_again_after_a_reader_that_fails(call: str) -> None:
    class Failing(InMemorySaver):
        fails = False

        def list(self, *args: Any, **bounds: Any) -> Any:
            for each in super().list(*args, **bounds):
                yield each
                if self.fails:
                    raise KeyboardInterrupt

    saver = Failing()
    runner = asyncio.run(waiting(saver))
    saver.fails = True
    with pytest.raises(KeyboardInterrupt):
        getattr(runner, call)("t")
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    runner = asyncio.run(waiting(InMemorySaver()))
    gc.disable()
    try:
        assert [*runner.events("t")] != []
        assert not gc.isenabled()
    finally:
        gc.enable()

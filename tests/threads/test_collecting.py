"""The garbage collector waits while a thread is read, and never while a reader waits."""

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from helpers import Drive, asks, says
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.graph.collecting import Decoding
from agentgraph.graph.strict_serializer import StrictSerializer

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


class Noting(StrictSerializer):
    """Notes whether the collector is on where it decodes."""

    def __init__(self) -> None:
        super().__init__({})
        self.states: list[bool] = []

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        value = super().loads_typed(data)
        self.states.append(gc.isenabled())
        return value


def test_it_waits_while_a_resume_decodes_what_has_finished(drive: Drive) -> None:
    saver = InMemorySaver(serde=Noting())
    tree = ag.parallel("p", [*(says(f"a{number}") for number in range(20)), asks("boss")])
    runner = ag.Runner(tree, checkpointer=saver)
    [*drive.run(runner, "Go.", thread_id="t")]
    noted: Any = saver.serde
    noted.states.clear()
    [*drive.resume(runner, "t", "Yes.")]
    assert noted.states.count(False) > 40
    assert noted.states.count(True) < 10
    assert gc.isenabled()


def test_it_collects_while_an_async_resume_waits() -> None:
    async def whole() -> list[bool]:
        saver = Looking()
        runner = await waiting(saver)
        saver.states.clear()
        _ = [each async for each in runner.aresume("t", "Yes.")]
        return saver.states

    states = asyncio.run(whole())
    assert states != []
    assert all(states)


@contextmanager
def decoding_in_a_thread() -> Iterator[None]:
    begun, ends = threading.Event(), threading.Event()

    def decode() -> None:
        with Decoding() as block:
            block.begin()
            begun.set()
            ends.wait()

    other = threading.Thread(target=decode)
    other.start()
    begun.wait()
    try:
        yield
    finally:
        ends.set()
        other.join()


def test_it_waits_until_the_last_of_two_threads_has_decoded() -> None:
    with ExitStack() as other:
        with Decoding() as block:
            block.begin()
            other.enter_context(decoding_in_a_thread())
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_decodes_after_its_block_has_ended_stops_nothing() -> None:
    with Decoding() as block:
        pass
    block.begin()
    assert gc.isenabled()


def test_a_forked_process_collects_while_a_thread_of_its_parent_decoded() -> None:
    with decoding_in_a_thread():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

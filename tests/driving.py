"""Runs a runner sync and async in one way, for tests of what must be the same in both."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agentgraph as ag


class Sync:
    run = staticmethod(ag.Runner.run)
    resume = staticmethod(ag.Runner.resume)


class Async:
    @staticmethod
    def run(runner: ag.Runner, *args: Any, **options: Any) -> Iterator[ag.AgentEvent]:
        return driven(runner.arun(*args, **options))

    @staticmethod
    def resume(runner: ag.Runner, *args: Any, **options: Any) -> Iterator[ag.AgentEvent]:
        return driven(runner.aresume(*args, **options))


def driven(events: AsyncIterator[ag.AgentEvent]) -> Iterator[ag.AgentEvent]:
    """Yield what an async iterator gives, in an event loop of its own."""

    async def following() -> ag.AgentEvent | None:
        return await anext(events, None)

    with asyncio.Runner() as loop:
        while (event := loop.run(following())) is not None:
            yield event


Drive = type[Sync] | type[Async]


def fresh(drive: Drive, path: Path, agent: Any, method: str, *args: Any, **options: Any) -> Any:
    """Return what a method of a new runner on a SQLite file gives, as a list."""
    if drive is Sync:
        with ag.sqlite_saver(path) as saver:
            return list(getattr(ag.Runner(agent, checkpointer=saver), method)(*args, **options))

    async def afresh() -> list[Any]:
        async with ag.async_sqlite_saver(path) as saver:
            runner = ag.Runner(agent, checkpointer=saver)
            return [event async for event in getattr(runner, f"a{method}")(*args, **options)]

    return asyncio.run(afresh())


def failing(
    events: Iterable[ag.AgentEvent], error: type[Exception]
) -> tuple[list[ag.AgentEvent], Exception]:
    """Return the events of a run that ends in an error, and the error."""
    told: list[ag.AgentEvent] = []
    with pytest.raises(error) as caught:
        told.extend(events)
    return told, caught.value

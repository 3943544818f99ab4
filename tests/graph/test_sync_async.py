"""Generators of calls: one code, run sync or async."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentgraph.graph.sync_async import Call, Calls, arun_calls, close, get_next, run_calls


async def ahalf(number: int) -> float:
    return 6 / number


def half(number: int) -> float:
    return 6 / number


def halves(*numbers: int) -> Calls[list[float | str]]:
    found: list[float | str] = []
    for number in numbers:
        try:
            found.append((yield Call(half, ahalf, (number,))))
        except ZeroDivisionError as error:
            found.append(str(error))
    return found


def run(calls: Any, step: Any = None) -> Any:
    return run_calls(calls, step)


def arun(calls: Any, step: Any = None) -> Any:
    return asyncio.run(arun_calls(calls, step))


@pytest.mark.parametrize("runs", [run, arun])
def test_results_are_sent_into_the_generator_and_errors_are_raised_there(
    runs: Callable[..., Any],
) -> None:
    assert runs(halves(2, 0, 3)) == [3, "division by zero", 2]
    with pytest.raises(ZeroDivisionError):
        runs(_given(Call(half, ahalf, (0,))))


@pytest.mark.parametrize("runs", [run, arun])
def test_what_is_yielded_and_no_call_is_handed_out_and_the_generator_can_be_run_on(
    runs: Callable[..., Any],
) -> None:
    calls = _given("event", Call(half, ahalf, (2,)), "next")
    assert [runs(calls) for _ in range(3)] == ["event", "next", ["event", 3, "next"]]
    stopped = _given("event")
    runs(stopped)
    with pytest.raises(KeyError):
        runs(stopped, lambda: stopped.throw(KeyError()))


@pytest.mark.parametrize("runs", [run, arun])
def test_a_stream_is_read_part_by_part_and_closed(runs: Callable[..., Any]) -> None:
    ended: list[str] = []

    def parts() -> Any:
        try:
            yield from "ab"
        finally:
            ended.append("sync")

    async def aparts() -> Any:
        try:
            yield "a"
            yield "b"
        finally:
            ended.append("async")

    def reading(stream: Any) -> Calls[list[str | None]]:
        first, second = (yield get_next(stream)), (yield get_next(stream))
        yield close(stream)
        return [first, second, (yield get_next(stream))]

    assert runs(reading(parts() if runs is run else aparts())) == ["a", "b", None]
    assert len(ended) == 1


def _given(*yielded: Any) -> Any:
    """Yield what is given, and return it, with the results of calls in their place."""
    found = []
    for each in yielded:
        result = yield each
        found.append(result if isinstance(each, Call) else each)
    return found

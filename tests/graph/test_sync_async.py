"""Coroutines of calls: one code, run sync or async."""

import ast
import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgraph.graph.sync_async import Call, arun_calls, awaiting, close, get_next, run_calls

ROOT = Path(__file__).parents[2]


async def ahalf(number: int) -> float:
    return 6 / number


def half(number: int) -> float:
    return 6 / number


async def halves(*numbers: int) -> list[float | str]:
    found: list[float | str] = []
    for number in numbers:
        try:
            found.append(await Call(half, ahalf, (number,)))
        except ZeroDivisionError as error:
            found.append(str(error))
    return found


def run(calls: Any, step: Any = None) -> Any:
    return run_calls(calls, step)


def arun(calls: Any, step: Any = None) -> Any:
    return asyncio.run(arun_calls(calls, step))


@pytest.mark.parametrize("runs", [run, arun])
def test_results_are_sent_into_the_coroutine_and_errors_are_raised_there(
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

    async def reading(stream: Any) -> list[str | None]:
        first, second = await get_next(stream), await get_next(stream)
        await close(stream)
        return [first, second, await get_next(stream)]

    assert runs(reading(parts() if runs is run else aparts())) == ["a", "b", None]
    assert len(ended) == 1


@pytest.mark.parametrize("runs", [run, arun])
def test_a_generator_that_produces_waits_for_coroutines(runs: Callable[..., Any]) -> None:
    def producing() -> Any:
        yield "event"
        try:
            yield from awaiting(third())
        except ZeroDivisionError:
            return (yield from awaiting(halves(2, 1)))

    calls = producing()
    assert [runs(calls), runs(calls)] == ["event", [3, 6]]


@pytest.mark.parametrize("runs", [run, arun])
def test_nothing_but_calls_can_be_awaited(runs: Callable[..., Any]) -> None:
    async def sleeps() -> None:
        await asyncio.sleep(0)

    with pytest.raises(TypeError, match=r"sleeps: None was awaited; await a Call in its place"):
        runs(sleeps())


def test_a_coroutine_that_is_never_awaited_fails_its_test(tmp_path: Path) -> None:
    test = tmp_path / "test_forgotten.py"
    test.write_text("async def calls(): ...\n\n\ndef test_forgets_it():\n    calls()\n")
    plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]  # pyproject names the latter
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), *plugins]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", *options, str(test)]
    ran = subprocess.run(command, capture_output=True, text=True, env=alone, cwd=tmp_path, check=False)
    assert ran.returncode == 1
    assert "coroutine 'calls' was never awaited" in ran.stdout


def test_no_call_is_made_and_dropped() -> None:
    """A coroutine that nobody awaits warns when it is collected; a `Call` does not."""
    texts = [path.read_text() for path in (ROOT / "agentgraph").rglob("*.py")]
    nodes = [node for text in texts if "sync" in text for node in ast.walk(ast.parse(text))]
    functions = [each for each in nodes if isinstance(each, ast.FunctionDef)]
    makers = {each.name for each in functions if _makes_one(each)}
    makers -= {each.name for each in functions if not _makes_one(each)}
    assert {"get_next", "tasks_call", "list_checkpoints"} <= makers
    statements = [each.value for each in nodes if isinstance(each, ast.Expr)]
    made = [ast.unparse(each.func) for each in statements if isinstance(each, ast.Call)]
    assert not {"Call", *makers} & set(made)


def _makes_one(function: ast.FunctionDef) -> bool:
    return function.returns is not None and ast.unparse(function.returns) == "Call"


async def third() -> float:
    return await Call(half, ahalf, (0,))


def _given(*yielded: Any) -> Any:
    """Yield what is given, and return it, with the results of calls in their place."""
    found = []
    for each in yielded:
        result = yield each
        found.append(result if isinstance(each, Call) else each)
    return found

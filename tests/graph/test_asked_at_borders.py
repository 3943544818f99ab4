"""Async functions asked where an agent has ended: asked once, and one that fails undoes nothing.

Those that are sync are in `test_borders.py`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asked_functions import KNOWN, UNKNOWN, Fn
from helpers import driven, failing, in_turn, lines, says, unvoided
from langgraph.types import interrupt

import agentgraph as ag

KINDS = (*KNOWN, *UNKNOWN)


def until(body: ag.Agent, fn: Fn, name: str = "l") -> ag.Agent:
    return ag.loop(name, [body], max_iterations=3, until=fn)


def judged(kind: Callable[[Fn], Fn]) -> tuple[ag.Agent, list[str]]:
    """Return a tree with functions of a kind that fail, ask and answer; and what was asked."""
    asked: list[str] = []

    def noting(name: str, *items: Any) -> Fn:
        answers = in_turn(*items)

        def fn(*given: Any) -> Any:
            asked.append(name)
            return answers(*given)

        return kind(fn)

    check = noting("check", KeyError("nokey"), "bad", None)
    inner = noting("inner", True, True)
    outer = noting("outer", KeyError("nokey"), lambda ctx: interrupt("Enough?") == "yes")
    body = ag.validated(says("w", "one", "two"), check)
    return ag.sequential("s", [until(until(body, inner, "i"), outer, "o"), says("z")]), asked


@pytest.mark.parametrize("place", ["memory", "file"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_is_asked_once_and_a_resume_asks_only_the_one_that_failed(
    tmp_path: Path, kind: Any, place: str
) -> None:
    tree, asked = judged(kind)
    saver = str(tmp_path / "t.db") if place == "file" else None
    with ag.Runner(tree, checkpointer=saver) as runner:
        heard, _ = failing(driven(runner.arun("Go.", thread_id="t")), KeyError)
        assert lines(heard) == ["s/o[0]/i[0]/w: one", "s/o[0]/i[0]/w: [error] KeyError('nokey')"]
        again, _ = failing(driven(runner.aresume("t")), KeyError)
        assert asked == ["check", "check", "check", "inner", "outer"]
        asked.clear()
        rest = list(driven(runner.aresume("t")))
        assert lines(rest) == ["s/o[0]/i[0]/w{1}: [asks] Enough?"]
        last = list(driven(runner.aresume("t", "yes")))
        assert lines(last) == ["s/z: z"]
        assert asked == ["outer", "outer"]
        every = unvoided([*heard, *again, *rest, *last])
        assert [e.cursor for e in asyncio.run(events_of(runner))] == [e.cursor for e in every]


async def events_of(runner: ag.Runner) -> list[ag.AgentEvent]:
    return [event async for event in runner.aevents("t")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_names_the_function_and_the_agent(kind: Any) -> None:
    def bug(*given: Any) -> Any:
        raise ValueError("bug")

    def of_check(*given: Any) -> Any:
        raise KeyError("bug")

    trees = [
        (until(says("w"), kind(bug)), "It was `until` of the loop 'l' that failed."),
        (ag.validated(says("w"), kind(of_check)), "It was a check of the agent 'w' that failed."),
    ]
    for tree, noted in trees:
        runner = ag.Runner(tree)
        events, error = failing(driven(runner.arun("Go.", thread_id="t")), Exception)
        assert noted in error.__notes__
        assert any("in the agent 'w'" in note for note in error.__notes__)
        assert [event.kind for event in events] == ["message", "error"]


def test_a_stop_while_a_function_is_awaited_keeps_the_words_before_it() -> None:
    asked: list[int] = []
    body = says("w", "one", "two")

    async def run() -> list[str]:
        begun = asyncio.Event()

        async def ends(ctx: ag.Context) -> bool:
            asked.append(1)
            begun.set()
            if len(asked) == 1:
                await asyncio.Event().wait()
            return True

        runner = ag.Runner(until(body, ends))

        async def stop() -> None:
            await begun.wait()
            await runner.astop("t")

        stopping = asyncio.create_task(stop())
        said = lines([event async for event in runner.arun("Go.", thread_id="t")])
        await stopping
        assert (await runner.athread("t")).status == "stopped"
        return said + lines([event async for event in runner.aresume("t")])

    assert asyncio.run(run()) == ["l[0]/w: one"]
    assert len(asked) == 2

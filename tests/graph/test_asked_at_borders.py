"""Async functions asked where an agent has ended: asked once, and one that fails undoes nothing.

Those that are sync are in `test_borders.py`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import driven, failing, in_turn, lines, says, unvoided
from helpers.asked_functions import KNOWN, UNKNOWN, Fn
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


class Waits:
    """A function that waits for what never comes the first time; then it answers.

    Attributes:
        begun: Is set once it waits.
        goes_on: Lets it go on.
        outcomes: What became of each call.
    """

    def __init__(self) -> None:
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.outcomes: list[str] = []

    async def __call__(self, *given: Any) -> bool:
        try:
            if not self.begun.is_set():
                self.begun.set()
                await asyncio.wait_for(self.goes_on.wait(), 20)  # a fault fails, and does not hang
        except BaseException as error:
            self.outcomes.append(type(error).__name__)
            raise
        self.outcomes.append("answered")
        return True


ASKING: dict[str, Callable[[Fn], ag.Agent]] = {
    "until": lambda fn: until(says("w", "one", "two"), fn),
    "check": lambda fn: ag.validated(says("w", "one", "two"), fn),
}
ASKED_BY = pytest.mark.parametrize("asking", ASKING)


@ASKED_BY
@pytest.mark.parametrize("left", ["closed", "cancelled"])
def test_a_run_that_is_left_cancels_the_function_and_keeps_the_words_before_it(
    asking: str, left: str
) -> None:
    async def run() -> list[str]:
        waits = Waits()
        runner = ag.Runner(ASKING[asking](waits))
        events = runner.arun("Go.", thread_id="t")
        heard: list[ag.AgentEvent] = []

        async def read() -> None:
            async for event in events:
                heard.append(event)

        reading = asyncio.create_task(read())
        await waits.begun.wait()
        if left == "closed":
            await events.aclose()
        else:
            reading.cancel()
        await asyncio.wait({reading})
        thread = await runner.athread("t")
        assert thread.status == "stopped"
        assert [each.text for each in thread.messages] == ["Go.", "one"]
        heard += [event async for event in runner.aresume("t")]
        said = [each.text for each in unvoided(heard)]
        assert said == [each.text for each in (await runner.athread("t")).messages[1:]] == ["one"]
        return waits.outcomes

    assert asyncio.run(run()) == ["CancelledError", "answered"]


@ASKED_BY
def test_a_branch_that_fails_cancels_the_function_and_keeps_the_words_before_it(asking: str) -> None:
    async def run() -> list[str]:
        waits = Waits()
        answers = in_turn(ValueError("failed"), "b")

        async def fn(ctx: ag.Context) -> Any:
            await waits.begun.wait()
            return answers()

        runner = ag.Runner(ag.parallel("p", [ASKING[asking](waits), ag.function_agent("b", fn)]))
        with pytest.raises(ValueError, match="failed"):
            _ = [event async for event in runner.arun("Go.", thread_id="t")]
        _ = [event async for event in runner.aresume("t")]
        thread = await runner.athread("t")
        assert thread.status == "done"
        assert [each.text for each in thread.messages] == ["Go.", "one", "b"]
        return waits.outcomes

    assert asyncio.run(run()) == ["CancelledError", "answered"]


@ASKED_BY
def test_a_stop_of_a_thread_waits_for_the_function_as_for_all_that_is_under_way(asking: str) -> None:
    async def run() -> list[str]:
        waits = Waits()
        runner = ag.Runner(ag.sequential("s", [ASKING[asking](waits), says("z")]))

        async def stop() -> None:
            await waits.begun.wait()
            await runner.astop("t")
            for _ in range(10):  # a cancellation would come first
                await asyncio.sleep(0)
            waits.goes_on.set()

        stopping = asyncio.create_task(stop())
        said = [event.text async for event in runner.arun("Go.", thread_id="t")]
        await stopping
        assert said == ["one"]
        assert (await runner.athread("t")).status == "stopped"
        assert [event.text async for event in runner.aresume("t")] == ["z"]
        return waits.outcomes

    assert asyncio.run(run()) == ["answered"]

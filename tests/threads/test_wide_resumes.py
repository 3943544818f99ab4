"""What a resume takes for each branch, item or tool call that has finished, beside one that asks."""

import asyncio
import gc
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from helpers import Drive, Sync, says
from helpers.decoding import Decoding
from langchain_core.messages import AIMessage
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.journal.saved import Saved
from agentgraph.testing import ScriptedChatModel

FEW, MANY = 40, 80

Look = Callable[[], None]


def items(count: int, look: Look) -> ag.Agent:
    def work(ctx: ag.Context) -> Any:
        if ctx.item.value:
            return "done"
        if not ctx.answered:
            return ag.Ask("Well?")
        look()
        return "answered"

    names = [*range(1, count + 1), 0]
    return ag.each("e", ag.function_agent("w", work), lambda ctx: names, output_key="out")


def branches(count: int, look: Look) -> ag.Agent:
    def boss(ctx: ag.Context) -> Any:
        if not ctx.answered:
            return ag.Ask("Well?")
        look()
        return "answered"

    return ag.parallel("p", [*(says(f"a{i}") for i in range(count)), ag.function_agent("boss", boss)])


def tool_calls(count: int, look: Look) -> ag.Agent:
    def find(word: str) -> str:
        """Find a word."""
        return word

    def ask(word: str) -> str:
        """Ask the user."""
        answer = interrupt(word)
        look()
        return str(answer)

    names = [("find", f"{number}") for number in range(count)] + [("ask", "x")]
    calls = [{"name": name, "args": {"word": word}, "id": f"{name}{word}"} for name, word in names]
    model = ScriptedChatModel(responses=[AIMessage("", tool_calls=calls), AIMessage("Done.")])
    return ag.chat_agent("c", model, tools=[find, ask])


KINDS = [items, branches, tool_calls]
READS = {items: 2, branches: 2, tool_calls: 3}
"""How often a result is decoded: at the start, by LangGraph, and by a tool call for its attempts."""


def resume(
    drive: Drive, place: Path | None, made: Any, count: int, look: Any, begin: Any = lambda _: None
) -> None:
    """Run to the question, and answer it; `look` is called while what asked goes on."""
    runner = ag.Runner(made(count, look), checkpointer=place and place / f"{count}.db")
    if drive is Sync:
        runner.invoke("Go.", thread_id="t")
        begin(runner)
        [*runner.resume("t", "Yes.")]
        return

    async def main() -> None:
        await runner.ainvoke("Go.", thread_id="t")
        begin(runner)
        _ = [each async for each in runner.aresume("t", "Yes.")]

    asyncio.run(main())


@pytest.fixture(params=["memory", "SQLite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path


@pytest.mark.parametrize("made", KINDS)
def test_what_has_finished_is_decoded_once_for_the_start_and_once_for_langgraph(
    drive: Drive, place: Path | None, made: Any
) -> None:
    def decoded(count: int) -> int:
        decoding: list[Decoding] = []
        counts: list[int] = []

        def begin(runner: ag.Runner) -> None:
            decoding.append(Decoding(runner))
            decoding[0].mark()

        resume(drive, place, made, count, lambda: counts.extend(decoding[0].counts), begin)
        return counts[0]

    assert decoded(MANY) - decoded(FEW) == READS[made] * (MANY - FEW)


@pytest.mark.parametrize("made", KINDS)
def test_a_resumed_run_holds_no_checkpoint(drive: Drive, place: Path | None, made: Any) -> None:
    held: list[int] = []

    def look() -> None:
        held.append(sum(type(each) is Saved for each in gc.get_objects()))

    resume(drive, place, made, FEW, look)
    assert held == [0]


def test_of_what_has_finished_a_gate_alone_is_made(drive: Drive) -> None:
    def futures(count: int) -> int:
        made = 0

        def note(frame: FrameType, event: str, _: object) -> None:
            nonlocal made
            made += event == "call" and frame.f_code is Future.__init__.__code__

        def begin(_: ag.Runner) -> None:
            threading.setprofile(note)
            sys.setprofile(note)

        try:
            resume(drive, None, items, count, lambda: None, begin)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return made

    assert futures(MANY) - futures(FEW) < 1.5 * (MANY - FEW)

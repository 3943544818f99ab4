"""What a turn said last, of agents that ran concurrently: the last as declared, not the slowest."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from helpers import Async, Drive, chat, fails, says, scripted
from langchain_core.callbacks import BaseCallbackHandler

import agentgraph as ag
from agentgraph.testing import call, calls

_SECOND = ("/second", "/second(1)", "/w(1)")


class Turn(BaseCallbackHandler):
    """Agents of which the first as declared speaks after the second has ended."""

    run_inline = True

    def __init__(self) -> None:
        self._ended, self._seconds = threading.Event(), set[Any]()

    def on_chain_start(self, *args: Any, run_id: Any, metadata: Any = None, **_: Any) -> None:
        if str((metadata or {}).get("agent_address")).endswith(_SECOND):
            self._seconds.add(run_id)

    def on_chain_end(self, outputs: Any, *, run_id: Any, **_: Any) -> None:
        if run_id in self._seconds:
            self._ended.set()

    def first(self) -> ag.Agent:
        return ag.function_agent("first", lambda ctx: self._late(), description="d")

    def second(self) -> ag.Agent:
        return ag.function_agent("second", lambda ctx: "second", description="d")

    def item(self) -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            return self._late() if ctx.item and ctx.item.number == 0 else "second"

        return ag.function_agent("w", fn)

    def _late(self) -> str:
        assert self._ended.wait(30)
        return "first"


def _quiet(turn: Turn) -> ag.Agent:
    async def fn(ctx: ag.Context) -> None:
        await asyncio.gather(ctx.run("first", "Go."), ctx.run("second", "Go."))

    return ag.function_agent("f", fn, agents=[turn.first(), turn.second()])


def _ends_by_tools(turn: Turn) -> ag.Agent:
    model = scripted(calls(call("first", request="Go."), call("second", request="Go.")))
    tools = [ag.agent_tool(turn.first()), ag.agent_tool(turn.second())]
    return ag.chat_agent("c", model, tools=tools, return_directly=["first", "second"])


KINDS: dict[str, Callable[[Turn], ag.Agent]] = {
    "parallel": lambda turn: ag.parallel("p", [turn.first(), turn.second()]),
    "in a sequence": lambda turn: ag.sequential(
        "s", [ag.parallel("p", [turn.first(), turn.second()]), ag.function_agent("z", lambda ctx: None)]
    ),
    "nested": lambda turn: ag.parallel("o", [ag.sequential("q", [turn.first()]), turn.second()]),
    "each": lambda turn: ag.each("e", turn.item(), lambda ctx: [1, 2], output_mode="full"),
    "each that joins nothing": lambda turn: ag.each(
        "e", turn.item(), lambda ctx: [1, 2], output_key="o"
    ),
    "workflow": lambda turn: ag.workflow("w", [turn.first(), turn.second()]),
    "calls": _quiet,
    "tools": _ends_by_tools,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_as_declared_has_the_last_word(kind: str, drive: Drive) -> None:
    turn = Turn()
    runner, config = ag.Runner(KINDS[kind](turn)), {"callbacks": [turn]}
    if drive is Async:
        result = asyncio.run(runner.ainvoke("Go.", config=config))
    else:
        result = runner.invoke("Go.", config=config)
    said = [event.text for event in result.events if event.text in ("first", "second")]
    assert said[0] == "second"
    assert "first" in said
    assert result.text == "second"
    assert result.message is not None
    assert result.message.text == "second"


def test_a_step_is_after_those_that_it_depends_on() -> None:
    steps = [ag.step(says("b"), depends_on=["a"]), says("a")]
    assert ag.Runner(ag.workflow("w", steps)).invoke("Go.").text == "b"


def test_time_decides_where_nothing_ran_concurrently() -> None:
    loop = ag.loop("l", [chat("a", "1", "2"), chat("b", "x", "y")], max_iterations=2)
    assert ag.Runner(loop).invoke("Go.").text == "y"


def test_what_was_discarded_is_not_the_last_word() -> None:
    worker = ag.function_agent("w", lambda ctx: "said")
    loser = ag.sequential("q", [says("x"), fails("b", times=9)])
    tree = ag.parallel("p", [worker, loser], on_error="first")
    assert ag.Runner(tree).invoke("Go.").text == "said"

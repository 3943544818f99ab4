"""Runs with middleware that are left: threads inside it are kept, what it awaits is cancelled."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from helpers import check_heard, scripted
from langchain.agents.middleware import AgentMiddleware

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


class Passing(AgentMiddleware[Any, Any, Any]):
    """Hands every call on, after what it awaits first."""

    def __init__(self, before: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self.before = before

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await self._wait()
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        await self._wait()
        return await handler(request)

    async def _wait(self) -> None:
        if self.before is not None:
            await self.before()


class Gate:
    """Keeps a function in its thread until it may end."""

    def __init__(self) -> None:
        self.inside, self.may_end, self.passed = threading.Event(), threading.Event(), 0

    def wait(self) -> str:
        self.inside.set()
        assert self.may_end.wait(20)
        self.passed += 1
        return "Done."


async def left(runner: ag.Runner, gate: Gate) -> list[str]:
    """Leave a run while a function waits in its thread, go on with it, and return what it said."""
    heard: list[ag.AgentEvent] = []

    async def reading() -> None:
        async with aclosing(runner.arun("Go.", thread_id="t")) as run:
            async for event in run:
                heard.append(event)

    read = asyncio.create_task(reading())
    await asyncio.to_thread(gate.inside.wait, 20)
    asyncio.get_running_loop().call_later(0.05, gate.may_end.set)
    read.cancel()
    await asyncio.wait({read})
    heard.extend([event async for event in runner.aresume("t")])
    again = [event async for event in runner.aevents("t")]
    check_heard(heard, again)
    return [event.text for event in again]


def says(name: str, log: list[str]) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        log.append(name)
        return name

    return ag.function_agent(name, fn)


@pytest.mark.parametrize("middleware", [[], [Passing()]], ids=["without", "with"])
def test_a_sync_model_of_an_async_run_that_is_left_is_asked_once(middleware: list[Any]) -> None:
    gate = Gate()
    model = scripted(lambda messages: gate.wait())
    writer = ag.chat_agent("writer", model, middleware=middleware)
    runner = ag.Runner(ag.sequential("s", [writer, ag.function_agent("last", lambda ctx: "Last.")]))
    assert asyncio.run(left(runner, gate)) == ["Done.", "Last."]
    assert (gate.passed, len(model.inputs)) == (1, 1)


@pytest.mark.parametrize("middleware", [[], [Passing()]], ids=["without", "with"])
def test_a_sync_tool_of_an_async_run_that_is_left_runs_once(middleware: list[Any]) -> None:
    gate = Gate()

    def pay() -> str:
        """Pay."""
        return gate.wait()

    model = scripted(calls(call("pay")), "Paid.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[pay], middleware=middleware))
    assert asyncio.run(left(runner, gate))[-1] == "Paid."
    assert gate.passed == 1


@pytest.mark.parametrize("middleware", [[], [Passing()]], ids=["without", "with"])
def test_a_thread_in_an_agent_as_a_tool_is_kept_when_the_run_is_left(middleware: list[Any]) -> None:
    gate, last = Gate(), []

    def fn(ctx: ag.Context) -> str:
        return gate.wait()

    inner = ag.sequential("inner", [ag.function_agent("payer", fn), says("after", last)])
    model = scripted(calls(call("inner", request="Pay.")), "Paid.")
    tools = [ag.agent_tool(inner, description="Pays.")]
    runner = ag.Runner(ag.chat_agent("writer", model, tools=tools, middleware=middleware))
    assert asyncio.run(left(runner, gate))[-1] == "Paid."
    assert (gate.passed, last) == (1, ["after"])


@pytest.mark.parametrize("around", ["model", "tool"])
def test_what_middleware_awaits_is_cancelled_at_once_and_runs_again(around: str) -> None:
    waiting = asyncio.Event()
    begun: list[str] = []

    async def once() -> None:
        begun.append("wait")
        if len(begun) == (1 if around == "model" else 2):
            waiting.set()
            await asyncio.Event().wait()

    model = scripted(calls(call("pay")), "Paid.")

    def pay() -> str:
        """Pay."""
        return "paid"

    runner = ag.Runner(ag.chat_agent("writer", model, tools=[pay], middleware=[Passing(once)]))

    async def whole() -> list[str]:
        async def reading() -> None:
            async with aclosing(runner.arun("Go.", thread_id="t")) as run:
                async for _ in run:
                    pass

        read = asyncio.create_task(reading())
        await waiting.wait()
        read.cancel()
        await asyncio.wait({read}, timeout=10)
        assert read.cancelled()
        return [event.text async for event in runner.aresume("t")]

    assert asyncio.run(whole())[-1] == "Paid."
    assert len(begun) == 4
    assert len(model.inputs) == 2


@pytest.mark.parametrize("kind", ["tool", "model"])
def test_what_a_thread_gave_is_kept_while_it_goes_out_through_a_wrap(kind: str) -> None:
    given, ran = threading.Event(), []

    class Slow(AgentMiddleware[Any, Any, Any]):
        """Waits behind what it wraps, until a branch beside it has failed."""

        async def _behind(self, result: Any) -> Any:
            if not given.is_set():
                given.set()
                await asyncio.sleep(0.1)
            return result

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            result = await handler(request)
            return await self._behind(result) if kind == "tool" else result

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            result = await handler(request)
            return await self._behind(result) if kind == "model" else result

    def act() -> str:
        """Act."""
        ran.append("act")
        return "Done."

    def script(messages: Any) -> Any:
        ran.append("model")
        return "Ended." if messages[-1].type == "tool" else calls(call("act"))

    def beside(ctx: ag.Context) -> str:
        assert given.wait(20)
        if "failed" not in ran:
            ran.append("failed")
            raise ValueError("beside")
        return "fine"

    model = ScriptedChatModel(responses=script)
    worker = ag.chat_agent("worker", model, tools=[act], middleware=[Slow()])
    runner = ag.Runner(ag.parallel("both", [worker, ag.function_agent("beside", beside)]))

    async def run() -> None:
        with pytest.raises(ValueError, match="beside"):
            async for _ in runner.arun("Go.", thread_id="t"):
                pass
        async for _ in runner.aresume("t"):
            pass

    asyncio.run(run())
    assert (ran.count("act"), ran.count("model")) == (1, 2)

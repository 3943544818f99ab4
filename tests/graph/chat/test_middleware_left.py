"""Async runs with middleware that are left: threads inside it are kept, what it awaits is cancelled."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from helpers import chat, check_heard, says
from langchain.agents.middleware import AgentMiddleware

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

PATIENCE = 20


async def nothing() -> None:
    pass


class Awaiting(AgentMiddleware[Any, Any, Any]):
    """Awaits something before and after each call."""

    def __init__(
        self,
        before: Callable[[], Awaitable[None]] = nothing,
        after: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__()
        self.before, self.after = before, after

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await self._around("model", request, handler)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await self._around("tool", request, handler)

    async def _around(self, kind: str, request: Any, handler: Any) -> Any:
        await self.before()
        result = await handler(request)
        if self.after is not None:
            await self.after(kind)
        return result


class Gate:
    """Keeps a function in its thread until it may end."""

    def __init__(self) -> None:
        self.inside, self.may_end, self.passed = threading.Event(), threading.Event(), 0

    def wait(self) -> str:
        self.inside.set()
        assert self.may_end.wait(PATIENCE)
        self.passed += 1
        return "Paid."


def model_waits(gate: Gate, **options: Any) -> ag.Agent:
    return ag.sequential("s", [chat("writer", lambda sent: gate.wait(), **options), says("last")])


def tool_waits(gate: Gate, **options: Any) -> ag.Agent:
    def pay() -> str:
        """Pay."""
        return gate.wait()

    return chat("writer", calls(call("pay")), "Done.", tools=[pay], **options)


def agent_as_a_tool_waits(gate: Gate, **options: Any) -> ag.Agent:
    inner = ag.sequential("inner", [ag.function_agent("payer", lambda ctx: gate.wait()), says("after")])
    tools = [ag.agent_tool(inner, description="Pays.")]
    return chat("writer", calls(call("inner", request="Pay.")), "Done.", tools=tools, **options)


async def turns() -> None:
    """Give the event loop so many turns that what was raised or cancelled has reached all tasks."""
    for _ in range(100):
        await asyncio.sleep(0)


async def leave(run: Any, when: Callable[[], Awaitable[Any]], heard: list[Any]) -> asyncio.Task[None]:
    """Read a run until something has happened, and then cancel its reader."""

    async def read() -> None:
        async for event in run:
            heard.append(event)

    reading = asyncio.create_task(read())
    await asyncio.wait_for(when(), PATIENCE)
    reading.cancel()
    await turns()
    return reading


@pytest.mark.parametrize("middleware", [[], [Awaiting()]], ids=["without middleware", "with"])
@pytest.mark.parametrize(
    ("tree", "texts"),
    [
        (model_waits, ["Paid.", "last"]),
        (tool_waits, ["", "Paid.", "Done."]),
        (agent_as_a_tool_waits, ["", "Paid.", "after", "after", "Done."]),
    ],
)
def test_a_thread_of_a_run_that_is_left_runs_once_and_its_result_is_kept(
    tree: Any, texts: list[str], middleware: Any
) -> None:
    gate, heard = Gate(), []
    runner = ag.Runner(tree(gate, middleware=middleware))

    async def whole() -> list[ag.AgentEvent]:
        run = runner.arun("Go.", thread_id="t")
        reading = await leave(run, lambda: asyncio.to_thread(gate.inside.wait, PATIENCE), heard)
        assert not reading.done()
        gate.may_end.set()
        await asyncio.wait({reading})
        await run.aclose()
        heard.extend([event async for event in runner.aresume("t")])
        return [event async for event in runner.aevents("t")]

    again = asyncio.run(whole())
    check_heard(heard, again)
    assert [event.text for event in again] == texts
    assert gate.passed == 1


@pytest.mark.parametrize("nth", [1, 2], ids=["around the model", "around a tool"])
def test_what_middleware_awaits_is_cancelled_at_once_and_runs_again(nth: int) -> None:
    waiting, begun = asyncio.Event(), []

    async def once() -> None:
        begun.append("wait")
        if len(begun) == nth:
            waiting.set()
            await asyncio.Event().wait()

    def pay() -> str:
        """Pay."""
        return "paid"

    agent = chat("writer", calls(call("pay")), "Done.", tools=[pay], middleware=[Awaiting(once)])
    runner = ag.Runner(agent)

    async def whole() -> list[str]:
        run = runner.arun("Go.", thread_id="t")
        reading = await leave(run, waiting.wait, [])
        await asyncio.wait({reading}, timeout=PATIENCE)
        assert reading.cancelled()
        await run.aclose()
        return [event.text async for event in runner.aresume("t")]

    assert asyncio.run(whole())[-1] == "Done."
    assert len(begun) == 4


@pytest.mark.parametrize("kind", ["tool", "model"])
def test_what_a_thread_gave_is_kept_while_middleware_awaits_something_after_it(kind: str) -> None:
    given, failed, ran = asyncio.Event(), asyncio.Event(), []

    async def wait_once(around: str) -> None:
        if around == kind and not given.is_set():
            given.set()
            await failed.wait()
            await turns()

    def act() -> str:
        """Act."""
        ran.append("act")
        return "Done."

    def script(sent: Any) -> Any:
        ran.append("model")
        return "Ended." if sent[-1].type == "tool" else calls(call("act"))

    async def beside(ctx: ag.Context) -> str:
        await given.wait()
        if failed.is_set():
            return "fine"
        failed.set()
        raise ValueError("beside")

    worker = ag.chat_agent(
        "worker",
        ScriptedChatModel(responses=script),
        tools=[act],
        middleware=[Awaiting(after=wait_once)],
    )
    runner = ag.Runner(ag.parallel("both", [worker, ag.function_agent("beside", beside)]))

    async def whole() -> None:
        with pytest.raises(ValueError, match="beside"):
            async for _ in runner.arun("Go.", thread_id="t"):
                pass
        async for _ in runner.aresume("t"):
            pass

    asyncio.run(whole())
    assert (ran.count("act"), ran.count("model")) == (1, 2)

"""Tools whose functions turn out to be async, and functions that LangChain calls itself."""

import asyncio
import functools
from typing import Any

import pytest
from helpers import Drive, chat, failing, lines, scripted
from helpers.asked_functions import Awaited
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import ScriptError, call, calls


async def slow(topic: str) -> str:
    """Search."""
    await asyncio.sleep(0)
    return f"3 books about {topic}"


@functools.wraps(slow)
def decorated(*args: Any, **options: Any) -> Any:
    return slow(*args, **options)


def no_coroutine(topic: str) -> Any:
    """Search."""
    return Awaited(f"3 books about {topic}")


async def signals(topic: str) -> list[Any]:
    """Search."""
    return [f"3 books about {topic}", ag.SetValues(found=3)]


@functools.wraps(signals)
def with_signals(*args: Any, **options: Any) -> Any:
    return signals(*args, **options)


@pytest.mark.parametrize("fn", [decorated, no_coroutine, with_signals])
def test_what_a_tool_returns_is_awaited_by_any_run(drive: Drive, fn: Any) -> None:
    fn.__name__ = "look"
    asking = calls(call("look", topic="bees"), call("look", topic="ants"))
    runner = ag.Runner(chat("c", asking, "Done.", tools=[fn]))
    said = lines(drive.run(runner, "Go.", thread_id="t"))
    assert sorted(each for each in said if "books" in each) == [
        "c: 3 books about ants",
        "c: 3 books about bees",
    ]
    assert runner.thread("t").values == ({"found": 3} if fn is with_signals else {})


def test_a_tool_is_awaited_on_the_event_loop_of_the_run() -> None:
    loops: list[Any] = []

    async def where() -> str:
        loops.append(asyncio.get_running_loop())
        return "here"

    def look() -> Any:
        """Look."""
        return where()

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        await ag.Runner(chat("c", calls(call("look")), "Done.", tools=[look])).ainvoke("Go.")

    asyncio.run(run())
    assert loops[0] is loops[1]


def test_an_awaited_failure_of_a_tool_goes_to_the_model(drive: Drive) -> None:
    async def fails() -> str:
        raise ValueError("closed")

    def look() -> Any:
        """Look."""
        return fails()

    said = lines(drive.run(ag.Runner(chat("c", calls(call("look")), "Done.", tools=[look])), "Go."))
    assert said[1].startswith("c: Error: ValueError('closed')")


@pytest.mark.parametrize(
    "history",
    [
        lambda count: ag.trimmed(1, token_counter=count),
        lambda count: ag.summarized(scripted("So."), 1, token_counter=count),
    ],
    ids=["trimmed", "summarized"],
)
def test_a_token_counter_that_turns_out_to_be_async_is_an_error(drive: Drive, history: Any) -> None:
    def count(messages: list[BaseMessage]) -> Any:
        return Awaited(len(messages))

    runner = ag.Runner(chat("c", "A.", history=history(count)))
    _, error = failing(drive.run(runner, "Go."), ag.InvalidOutputError)
    assert "is async, and LangChain calls it synchronously; pass a sync function" in str(error)


def test_a_strategy_that_handles_errors_in_a_coroutine_is_a_fault() -> None:
    class Town(BaseModel):
        name: str

    async def handle(error: Exception) -> str:
        return "again"

    schema: Any = ToolStrategy(Town, handle_errors=handle)  # type: ignore[arg-type]
    with pytest.raises(ag.InvalidAgentError, match="of its output_schema is async, and LangChain"):
        ag.Runner(chat("c", output_schema=schema))


def test_a_script_refuses_a_coroutine() -> None:
    async def reply(messages: list[BaseMessage]) -> str:
        return "So."

    with pytest.raises(ScriptError, match="response 1 of the script is <coroutine"):
        scripted(reply).invoke("Hi.")


def test_a_graph_without_a_runner_refuses_an_async_function_before_it_runs() -> None:
    ran: list[int] = []

    async def ends(ctx: ag.Context) -> bool:
        return True

    body = ag.function_agent("w", lambda ctx: ran.append(1))
    graph = ag.compile_agent(ag.loop("l", [body], max_iterations=2, until=ends))
    with pytest.raises(ag.AgentGraphError, match=r"^l: until=<function .* is async"):
        graph.invoke({"messages": "Go."})
    assert not ran
    asyncio.run(graph.ainvoke({"messages": "Go."}))
    assert ran == [1]

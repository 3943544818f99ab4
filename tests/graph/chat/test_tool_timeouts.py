"""How long calls of async tools may take."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from helpers import Drive, failing, scripted
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

import agentgraph as ag
from agentgraph.testing import call, calls

LONG = 60


class Ended:
    """Tools that take long or short, and what became of them."""

    def __init__(self) -> None:
        self.left: list[str] = []

    async def slow(self, name: str) -> str:
        """Take long."""
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            self.left.append(name)
            raise
        return name

    async def fast(self, name: str) -> str:
        """Take no time."""
        return name


def results(told: Any) -> list[str]:
    return sorted(event.text for event in told if isinstance(event.message, ToolMessage))


@pytest.mark.parametrize("timeout", [0.01, timedelta(milliseconds=10), {"slow": 0.01}])
@pytest.mark.parametrize("several", [[], [call("fast", name="b")]])
def test_a_call_that_takes_too_long_is_stopped_and_the_model_is_told(
    drive: Drive, timeout: Any, several: Any
) -> None:
    tools = Ended()
    model = scripted(calls(call("slow", name="a"), *several), "Done.")
    writer = ag.chat_agent("w", model, tools=[tools.slow, tools.fast], tool_timeout=timeout)
    told = list(drive.run(ag.Runner(writer), "Go."))
    error = "Error: TimeoutError('the tool took longer than 0.01 s')\n Please fix your mistakes."
    assert results(told) == [error, *["b"] * len(several)]
    assert tools.left == ["a"]
    assert told[-1].text == "Done."


def test_a_call_that_takes_too_long_may_fail_the_agent_and_is_tried_again(drive: Drive) -> None:
    tools = Ended()
    model = scripted(calls(call("slow", name="a")), "Done.")
    writer = ag.chat_agent("w", model, tools=[tools.slow], tool_timeout=0.01, on_tool_error="raise")
    runner = ag.Runner(writer)
    failing(drive.run(runner, "Go.", thread_id="t"), TimeoutError)
    failing(drive.resume(runner, "t"), TimeoutError)
    assert tools.left == ["a", "a"]


def test_a_timeout_of_the_tools_own_stays_what_it_is(drive: Drive) -> None:
    async def slow() -> str:
        """Time out."""
        raise TimeoutError("the library is slow")

    model = scripted(calls(call("slow")), "Done.")
    writer = ag.chat_agent("w", model, tools=[slow], tool_timeout=LONG)
    assert results(drive.run(ag.Runner(writer), "Go."))[0].startswith(
        "Error: TimeoutError('the library is slow')"
    )


def test_a_tool_with_retries_has_the_time_for_all_of_them(drive: Drive) -> None:
    tools = Ended()
    given = tool(tools.slow).with_retry(wait_exponential_jitter=False)
    model = scripted(calls(call("slow", name="a")), "Done.")
    writer = ag.chat_agent("w", model, tools=[given], tool_timeout={"slow": 0.01})
    assert "took longer" in results(drive.run(ag.Runner(writer), "Go."))[0]
    assert tools.left == ["a"]


def faults(**options: Any) -> tuple[str, ...]:
    def sync(name: str) -> str:
        """Give the name."""
        return name

    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.compile_agent(ag.chat_agent("w", scripted(), tools=[sync, Ended().fast], **options))
    return refused.value.faults


@pytest.mark.parametrize("timeout", [0, -1, "5", True, {"fast": 0}, timedelta(0)])
def test_what_is_no_time_is_a_fault(timeout: Any) -> None:
    given = timeout["fast"] if isinstance(timeout, dict) else timeout
    assert faults(tool_timeout=timeout) == (
        f"w: tool_timeout={given!r} is not a timeout; pass seconds above 0, or a timedelta",
    )


@pytest.mark.parametrize("name", ["sync", "nobody"])
def test_a_timeout_of_what_cannot_be_stopped_is_a_fault(name: str) -> None:
    assert faults(tool_timeout={name: 5}) == (
        f"w: tool_timeout names {name!r}, which is not one of its async tools (only an async call can "
        "be stopped): fast",
    )

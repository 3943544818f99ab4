"""Calls that go wrong, or run in turn or in great numbers, and what becomes of the thread then."""

import asyncio
import cProfile
import pstats
import threading
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pytest
from helpers import Disk, Drive, says, scripted
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import call, calls, transcript


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def echo(given: Any) -> str:
    """Give something back."""
    return f"got {type(given).__name__}"


HUGE = {
    "a huge number": (10**20, "Integer exceeds 64-bit range"),
    "a huge number inside": ({"a": [1, -(10**30)]}, "Integer exceeds 64-bit range"),
    "deep nesting": (deep(2000), "Recursion limit reached"),
    "half a character": ("\ud800", "a text in it has a lone surrogate, which is not a character"),
    "half a character as a key": (
        {"\ud800": 1},
        "string contains surrogates",
    ),
}


@pytest.mark.parametrize("kind", HUGE)
@pytest.mark.parametrize("place", ["memory", "disk"])
def test_an_argument_that_cannot_be_saved_goes_back_to_the_model(
    drive: Drive, tmp_path: Path, kind: str, place: str
) -> None:
    given, fault = HUGE[kind]
    ran: list[Any] = []

    def note(given: Any) -> str:
        """Note something."""
        ran.append(given)
        return "Noted."

    made = [call("note", given=given), call("note", given="1")]
    model = scripted(calls(*made), calls(call("note", given=2)), "Done.", "Again.")
    tree = ag.chat_agent("w", model, tools=[note])
    if place == "disk":
        disk = Disk(drive, tmp_path / "db")
        told = disk.run(tree)
        assert sorted(disk.events(tree), key=told.index) == told
    else:
        runner = ag.Runner(tree)
        told = list(drive.run(runner, "Go.", thread_id="t"))
        assert sorted(runner.events("t"), key=told.index) == told
        assert transcript(drive.run(runner, "More.", thread_id="t")) == ["w: Again."]
    results = [each.message for each in told if isinstance(each.message, ToolMessage)]
    assert ran == ["1", 2]
    refused = next(each for each in results if each.status == "error")
    assert refused.text == (
        f"Error: the arguments of note cannot be read: they cannot be saved ({fault}); give very large "
        "numbers as texts, and nest less. Call it again, with arguments that are a JSON object."
    )
    assert [message.type for message in model.inputs[1]] == ["human", "ai", "tool", "tool"]


def test_a_call_that_cannot_be_saved_is_not_kept_in_the_content_either(drive: Drive) -> None:
    block = {"type": "tool_use", "id": "1", "name": "echo", "input": {"given": 10**20}}
    message = AIMessage([{"type": "text", "text": "Look."}, block])
    message.tool_calls = [{**call("echo", given=10**20), "id": "1"}]
    broken = {"name": "echo", "args": '{"given": "\ud800', "id": "2", "error": None}
    message.invalid_tool_calls = [{**broken, "type": "invalid_tool_call"}]
    model = scripted(message, "Done.")
    told = list(drive.run(ag.Runner(ag.chat_agent("w", model, tools=[echo])), "Go."))
    kept = told[0].message
    assert isinstance(kept, AIMessage)
    assert kept.content == [{"type": "text", "text": "Look."}, {**block, "input": {}}]
    assert kept.tool_calls == []
    assert {each["id"]: each["args"] for each in kept.invalid_tool_calls} == {
        "1": '{"given": 100000000000000000000}',
        "2": '{"given": "\\ud800',
    }
    assert told[-1].text == "Done."


def test_an_argument_that_is_no_number_is_kept_as_it_is(drive: Drive, tmp_path: Path) -> None:
    model = scripted(calls(call("echo", given=float("nan"))), "Done.")
    told = Disk(drive, tmp_path / "db").run(ag.chat_agent("w", model, tools=[echo]))
    assert transcript(told)[1:] == ["w: got float", "w: Done."]


def test_where_nothing_is_saved_a_tool_may_be_given_anything() -> None:
    model = scripted(calls(call("echo", given=10**20)), "Done.")
    graph = ag.compile_agent(ag.chat_agent("w", model, tools=[echo]))
    assert graph.invoke({"messages": ["Go."]})["messages"][-2].text == "got int"


# calls in turn


class Notes(AgentState[Any]):
    notes: NotRequired[list[str]]


class Noting(AgentMiddleware[Any, Any, Any]):
    state_schema = Notes


def test_calls_in_turn_see_what_those_before_them_made_of_the_state_of_middleware(
    drive: Drive, tmp_path: Path
) -> None:
    def note(
        text: str,
        state: Annotated[dict[str, Any], InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Any:
        """Add a note."""
        notes = [*state.get("notes", ()), text]
        messages = [ToolMessage(f"{notes}", tool_call_id=tool_call_id)]
        return Command(update={"notes": notes, "messages": messages})

    made = calls(*(call("note", text=text) for text in "abc"))
    for several in (made, calls(call("note", text="d"))):
        model = scripted(several, calls(call("note", text="e")), "Done.")
        tree = ag.chat_agent("w", model, tools=[note], middleware=[Noting()], parallel_tools=False)
        told = list(drive.run(ag.Runner(tree), "Go."))
        results = [each.message.text for each in told if isinstance(each.message, ToolMessage)]
        assert results[-1].endswith("'e']")
        assert len(results[-1].split(",")) == len(results)


# agents as tools


def test_an_agent_with_a_shared_history_sees_the_request_once_and_no_open_call(drive: Drive) -> None:
    helper, boss = (
        scripted("Helped."),
        scripted(
            calls(call("helper", request="Help with bees."), call("echo", given=1), text="I ask."),
            "Done.",
        ),
    )
    agent = ag.chat_agent("helper", helper)
    tree = ag.sequential(
        "s",
        [
            says("first", "Before."),
            ag.chat_agent("boss", boss, tools=[ag.agent_tool(agent, history="shared"), echo]),
        ],
    )
    list(drive.run(ag.Runner(tree), "Go."))
    assert [message.text for message in helper.inputs[0]] == [
        "Go.",
        "[first] said: Before.",
        "[boss] said: I ask.",
        "Help with bees.",
    ]


def test_an_agent_with_a_shared_history_sees_the_calls_of_earlier_rounds(drive: Drive) -> None:
    helper = scripted("One.", "Two.")
    boss = scripted(
        calls(call("helper", request="First.")), calls(call("helper", request="Second.")), "Done."
    )
    agent = ag.chat_agent("helper", helper)
    tree = ag.chat_agent("boss", boss, tools=[ag.agent_tool(agent, history="shared")])
    list(drive.run(ag.Runner(tree), "Go."))
    assert [message.text for message in helper.inputs[1]] == [
        "Go.",
        '[boss] called helper({"request": "First."})',
        "[boss] helper returned: One.",
        "Second.",
    ]


# many calls


async def aecho(n: int) -> str:
    """Give a number back."""
    return str(n)


async def awrite(n: int) -> ag.SetValues:
    """Write a value."""
    return ag.SetValues(**{f"k{n}": n})


async def asee(n: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Look around."""
    return str(len(state["messages"]))


def functions_called(given: Any, count: int, **options: Any) -> int:
    """Return how many functions run for a message with so many calls: a count, not a time."""
    message = calls(*(call(given.__name__, n=n) for n in range(count)))
    agent = ag.chat_agent("w", scripted(message, "Done."), tools=[given], **options)
    runner = ag.Runner(agent, checkpointer=InMemorySaver())

    async def run() -> None:
        async for _ in runner.arun("Go.", thread_id="t"):
            pass

    with cProfile.Profile() as profile:
        asyncio.run(run())
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("parallel_tools", [True, False])
@pytest.mark.parametrize("given", [aecho, awrite, asee])
def test_many_calls_in_one_message_are_linear(given: Any, parallel_tools: bool) -> None:
    functions_called(given, 10, parallel_tools=parallel_tools)
    few, many = (functions_called(given, n, parallel_tools=parallel_tools) for n in (30, 300))
    assert many / few < 10 * 1.3


def test_the_input_of_an_agent_with_a_shared_history_is_the_request_alone(drive: Drive) -> None:
    helper = scripted("Helped.")
    boss = scripted(calls(call("helper", request="Help.")), "Done.")
    agent = ag.chat_agent("helper", helper, history="input")
    tree = ag.chat_agent("boss", boss, tools=[ag.agent_tool(agent, history="shared")])
    list(drive.run(ag.Runner(tree), "Go."))
    assert [message.text for message in helper.inputs[0]] == ["Help."]


# runs that are left


@pytest.mark.parametrize("parallel_tools", [True, False])
def test_an_async_run_that_is_left_runs_no_sync_tool_again(parallel_tools: bool) -> None:
    ran: list[str] = []
    left = threading.Event()

    def slow() -> str:
        """Wait until the run is left."""
        ran.append("slow")
        assert left.wait(5)
        return "slow"

    def fast() -> str:
        """Be fast."""
        ran.append("fast")
        return "fast"

    model = scripted(calls(call("fast"), call("slow")), "Done.")
    writer = ag.chat_agent("w", model, tools=[slow, fast], parallel_tools=parallel_tools)
    runner = ag.Runner(writer)

    async def leave() -> None:
        async with aclosing(runner.arun("Go.", thread_id="t")) as run:
            async for event in run:
                if event.text == "fast":
                    asyncio.get_running_loop().call_later(0.05, left.set)
                    break

    asyncio.run(leave())

    async def resume() -> list[ag.AgentEvent]:
        return [event async for event in runner.aresume("t")]

    assert asyncio.run(resume())[-1].text == "Done."
    assert sorted(ran) == ["fast", "slow"]


@pytest.mark.parametrize("parallel_tools", [True, False])
def test_a_turn_that_is_given_up_keeps_what_calls_came_to(drive: Drive, parallel_tools: bool) -> None:
    def ask(what: str) -> str:
        """Ask a person."""
        return str(interrupt(what))

    model = scripted(calls(call("echo", given=1), call("ask", what="Sure?")), "More.")
    runner = ag.Runner(ag.chat_agent("w", model, tools=[echo, ask], parallel_tools=parallel_tools))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.run(runner, "Leave it.", thread_id="t", drop_pending=True))
    results = [each.text for each in model.inputs[1] if isinstance(each, ToolMessage)]
    assert results == ["got int", "The call was not finished."]

"""The calls of one message: at once or in sequence, with odd ids or arguments, and left half done."""

import asyncio
import cProfile
import pstats
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import aclosing, closing
from typing import Annotated, Any, NotRequired

import pytest
from helpers import (
    Async,
    Disk,
    Drive,
    Sync,
    chat,
    check_heard,
    echo,
    failing,
    lines,
    results,
    scripted,
    tool,
    unreadable,
)
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState
from langgraph.runtime import get_runtime
from langgraph.types import Command

import agentgraph as ag
from agentgraph.testing import call, calls

SECONDS = 20
"""How long a test waits for what must come."""


# side by side


def test_the_calls_of_a_message_run_at_once(drive: Drive) -> None:
    together = threading.Barrier(3)

    def meet() -> str:
        """Wait for the others."""
        together.wait(SECONDS)
        return "met"

    writer = chat("w", calls(*(call("meet", n) for n in "123")), results, tools=[meet])
    assert lines(drive.run(ag.Runner(writer), "Go."))[-1] == (
        "w: 1 meet success: met | 2 meet success: met | 3 meet success: met"
    )


def test_async_calls_of_a_message_run_at_once() -> None:
    begun: list[int] = []
    all_begun = asyncio.Event()

    async def meet() -> str:
        """Wait for the others."""
        begun.append(1)
        if len(begun) == 3:
            all_begun.set()
        await asyncio.wait_for(all_begun.wait(), SECONDS)
        return "met"

    writer = chat("w", calls(*(call("meet", n) for n in "123")), results, tools=[meet])
    assert lines(Async.run(ag.Runner(writer), "Go."))[-1] == (
        "w: 1 meet success: met | 2 meet success: met | 3 meet success: met"
    )


def test_results_are_emitted_as_they_come_and_sent_in_the_order_of_the_calls(drive: Drive) -> None:
    fast_was_emitted = threading.Event()

    def slow() -> str:
        """Be slow."""
        assert fast_was_emitted.wait(SECONDS)
        return "slow"

    writer = chat(
        "w", calls(call("slow", "1"), call("fast", "2")), results, tools=[slow, tool("fast", "fast")]
    )
    runner, events = ag.Runner(writer), []
    for event in drive.run(runner, "Go.", thread_id="t"):
        events.append(event)
        if event.text == "fast":
            fast_was_emitted.set()
    assert lines(events) == [
        "w: [calls] slow({}), fast({})",
        "w: fast",
        "w: slow",
        "w: 1 slow success: slow | 2 fast success: fast",
    ]
    check_heard(events, list(runner.events("t")))


def test_a_resume_after_a_failure_runs_the_failed_call_alone(drive: Drive) -> None:
    other_was_emitted = threading.Event()
    ran: Counter[str] = Counter()

    def flaky() -> str:
        """Fail once."""
        ran["flaky"] += 1
        assert other_was_emitted.wait(SECONDS)
        if ran["flaky"] == 1:
            raise ConnectionError("down")
        return "up"

    def count() -> str:
        """Count."""
        ran["count"] += 1
        return "counted"

    def followed(events: Iterable[ag.AgentEvent]) -> Iterable[ag.AgentEvent]:
        for event in events:
            if event.text == "counted":
                other_was_emitted.set()
            yield event

    made = calls(call("flaky", "1"), call("count", "2"))
    writer = chat("writer", made, results, tools=[flaky, count], on_tool_error="raise")
    runner = ag.Runner(ag.sequential("s", [writer]))

    first, raised = failing(followed(drive.run(runner, "Go.", thread_id="t")), ConnectionError)
    assert lines(first)[1:] == ["s/writer: counted", "s/writer: [error] ConnectionError('down')"]
    assert raised.__notes__[:1] == ["This happened in the agent 'writer', at s/writer."]
    second = list(drive.resume(runner, "t"))
    assert lines(second) == ["s/writer: up", "s/writer: 1 flaky success: up | 2 count success: counted"]
    assert ran == {"flaky": 2, "count": 1}
    check_heard([*first, *second], list(runner.events("t")))


# in sequence


def test_calls_in_sequence_do_not_overlap(drive: Drive) -> None:
    alone = threading.Lock()

    async def step() -> str:
        """Take a step."""
        assert alone.acquire(blocking=False)
        await asyncio.sleep(0)
        alone.release()
        return "done"

    writer = chat(
        "w", calls(*(call("step", n) for n in "abc")), results, tools=[step], parallel_tools=False
    )
    assert lines(drive.run(ag.Runner(writer), "Go."))[1:] == [
        *["w: done"] * 3,
        "w: a step success: done | b step success: done | c step success: done",
    ]


class Notes(AgentState[Any]):
    a: NotRequired[str]
    b: NotRequired[str]
    c: NotRequired[str]
    d: NotRequired[str]


class Noting(AgentMiddleware[Any, Any, Any]):
    state_schema = Notes


def test_calls_in_sequence_see_what_earlier_ones_made_of_the_state_of_middleware(drive: Drive) -> None:
    def note(
        text: str,
        state: Annotated[dict[str, Any], InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Any:
        """Add a note."""
        seen = "".join(state.get(name, "") for name in "abcd")
        messages = [ToolMessage(f"{text} after {seen}", tool_call_id=tool_call_id)]
        return Command(update={text: text, "messages": messages})

    messages = [calls(*(call("note", text=text) for text in texts)) for texts in ("abc", "d", "a")]
    options: Any = {"tools": [note], "middleware": [Noting()], "parallel_tools": False}
    said = lines(drive.run(ag.Runner(chat("w", *messages, "Done.", **options)), "Go."))
    assert [line for line in said if "after" in line] == [
        "w: a after ",
        "w: b after a",
        "w: c after ab",
        "w: d after abc",
        "w: a after abcd",
    ]


# ids


def test_calls_without_ids_are_given_some(drive: Drive) -> None:
    made = AIMessage(
        "",
        tool_calls=[call("echo", None, text="a"), call("echo", "", text="b")],
        invalid_tool_calls=[unreadable("echo", "{", None)],
    )
    model = scripted(made, "Done.")
    runner = ag.Runner(ag.chat_agent("w", model, tools=[echo]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    said = events[0].message
    assert isinstance(said, AIMessage)
    ids = [each["id"] for each in (*said.tool_calls, *said.invalid_tool_calls)]
    assert len({*ids} - {None, ""}) == 3
    answers = [each for each in model.inputs[1] if isinstance(each, ToolMessage)]
    assert [each.tool_call_id for each in answers] == ids
    assert [each.text for each in answers][:2] == ["a", "b"]
    check_heard(events, list(runner.events("t")))


# arguments that cannot be saved


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


UNSAVED = {
    "a huge number": (10**20, "Integer exceeds 64-bit range"),
    "a huge number inside": ({"a": [1, -(10**30)]}, "Integer exceeds 64-bit range"),
    "deep nesting": (deep(2000), "Recursion limit reached"),
    "half a character": ("\ud800", "a text in it has a lone surrogate, which is not a character"),
    "half a character as a key": ({"\ud800": 1}, "string contains surrogates"),
}


def note(given: Any) -> str:
    """Note something."""
    return f"got {type(given).__name__}"


@pytest.mark.parametrize("kind", UNSAVED)
def test_an_argument_that_cannot_be_saved_goes_back_to_the_model(disk: Disk, kind: str) -> None:
    given, fault = UNSAVED[kind]
    made = calls(call("note", given=given), call("note", given="1"))
    tree = chat("w", made, results, "Again.", tools=[note], parallel_tools=False)
    assert disk.run(tree)[-1].text == (
        "2 note success: got str | 1 note error: Error: the arguments of note cannot be read: they "
        f"cannot be saved ({fault}); give very large numbers as texts, and nest less. Call it "
        "again, with arguments that are a JSON object."
    )
    assert lines(disk.run(tree, "More.")) == ["w: Again."]
    check_heard(disk.heard, disk.events(tree))


def test_an_argument_that_cannot_be_saved_is_not_in_the_content_either(drive: Drive) -> None:
    block = {"type": "tool_use", "id": "1", "name": "note", "input": {"given": 10**20}}
    message = AIMessage(
        [{"type": "text", "text": "Look."}, block],
        tool_calls=[call("note", "1", given=10**20)],
        invalid_tool_calls=[unreadable("note", '{"given": "\ud800', "2")],
    )
    first, *_, last = drive.run(ag.Runner(chat("w", message, "Done.", tools=[note])), "Go.")
    kept = first.message
    assert isinstance(kept, AIMessage)
    assert kept.content == [{"type": "text", "text": "Look."}, {**block, "input": {}}]
    assert kept.tool_calls == []
    assert {each["id"]: each["args"] for each in kept.invalid_tool_calls} == {
        "1": '{"given": 100000000000000000000}',
        "2": '{"given": "\\ud800',
    }
    assert last.text == "Done."


def test_an_argument_that_is_not_a_number_is_kept_as_it_is(disk: Disk) -> None:
    events = disk.run(chat("w", calls(call("note", given=float("nan"))), results, tools=[note]))
    assert events[-1].text == "1 note success: got float"


# without a runner


def test_where_nothing_is_saved_a_tool_may_be_given_anything() -> None:
    made = calls(call("note", given=10**20), call("note", given="a"))
    graph = ag.compile_agent(chat("w", made, results, tools=[note]))
    said = graph.invoke({"messages": ["Go."]})["messages"]
    assert said[-1].text == "1 note success: got int | 2 note success: got str"


# many calls


async def work(n: int, state: Annotated[dict[str, Any], InjectedState]) -> list[Any]:
    """Look around, and write a value."""
    return [f"{len(state['messages'])}", ag.SetValues(**{f"k{n}": n})]


def functions_called(count: int, **options: Any) -> int:
    """Return how many functions run for a message with so many calls: a count, not a time."""
    writer = chat(
        "w", calls(*(call("work", n=n) for n in range(count))), "Done.", tools=[work], **options
    )
    runner = ag.Runner(writer, checkpointer=InMemorySaver())
    with cProfile.Profile() as profile:
        list(Async.run(runner, "Go.", thread_id="t"))
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("parallel_tools", [True, False])
def test_the_work_for_many_calls_in_one_message_is_linear(parallel_tools: bool) -> None:
    functions_called(2, parallel_tools=parallel_tools)
    few, many = (functions_called(n, parallel_tools=parallel_tools) for n in (15, 150))
    assert many < 10 * few


# runs that are left


def leave(drive: Drive, runner: ag.Runner, inside: threading.Event) -> None:
    """Leave a run after the result of `fast`, while another tool runs in a thread."""
    if drive is Sync:
        with closing(runner.run("Go.", thread_id="t")) as run:
            assert any(event.text == "fast" for event in run)
            assert inside.wait(SECONDS)
        return

    async def aleave() -> None:
        async with aclosing(runner.arun("Go.", thread_id="t")) as run:
            async for event in run:
                if event.text == "fast":
                    assert await asyncio.to_thread(inside.wait, SECONDS)
                    return

    asyncio.run(aleave())


@pytest.mark.parametrize("parallel_tools", [True, False])
def test_a_run_that_is_left_between_two_results_runs_no_tool_again(
    drive: Drive, parallel_tools: bool
) -> None:
    inside, pause = threading.Event(), threading.Event()

    def slow() -> str:
        """Wait until the run is left."""
        control = get_runtime().control
        assert control is not None
        assert not inside.is_set()
        inside.set()
        for _ in range(SECONDS * 1000):
            if control.drain_requested:
                return "slow"
            pause.wait(0.001)
        raise AssertionError("the run was not left")

    made, fast = calls(call("fast", "1"), call("slow", "2")), tool("fast", "fast", "again")
    writer = chat("w", made, results, tools=[slow, fast], parallel_tools=parallel_tools)
    runner = ag.Runner(writer)
    leave(drive, runner, inside)
    last = list(drive.resume(runner, "t"))[-1]
    assert last.text == "1 fast success: fast | 2 slow success: slow"

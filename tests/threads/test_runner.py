"""What runners do with functions, failures, thread pools and stores; for more see `transcripts`."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from helpers import Drive, asks, failing, lines, says, yields
from langchain_core.messages import AIMessage

import agentgraph as ag


def test_an_async_function_runs_in_a_sync_run_inside_a_running_loop() -> None:
    async def fn(ctx: ag.Context) -> str:
        await asyncio.sleep(0)
        return "ok"

    async def main() -> Any:
        return ag.compile_agent(ag.function_agent("a", fn)).invoke({"messages": ["Go."]})

    assert asyncio.run(main())["messages"][-1].text == "ok"


def test_each_item_of_a_generator_is_read_before_the_next_is_made() -> None:
    read = threading.Event()

    def fn(ctx: ag.Context) -> Iterator[str]:
        for number in range(3):
            yield str(number)
            assert read.wait(10), "nobody reads it before the function ends"
            read.clear()

    for _ in ag.Runner(ag.function_agent("a", fn)).run("Go."):
        read.set()


def test_a_generator_is_closed_at_a_signal_and_its_messages_keep_their_ids(drive: Drive) -> None:
    closed = []

    def fn(ctx: ag.Context) -> Iterator[Any]:
        try:
            yield "Well."
            yield AIMessage("Bye.", id="mine")
            yield ag.Exit()
        finally:
            closed.append(True)

    _, said, left = drive.run(ag.Runner(ag.function_agent("a", fn)), "Go.")
    assert (said.id, left.kind, closed) == ("mine", "exit", [True])


def test_max_concurrency_bounds_how_many_branches_run_at_once(drive: Drive) -> None:
    running, most, pair, lock = 0, 0, threading.Barrier(2, timeout=10), threading.Lock()

    def fn(ctx: ag.Context) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pair.wait()
        with lock:
            running -= 1
        pair.wait()
        return "x"

    branches = [ag.function_agent(f"a{i}", fn) for i in range(6)]
    tree = ag.parallel("p", branches, max_concurrency=2)
    assert len(list(drive.run(ag.Runner(tree), "Go."))) == 6
    assert most == 2


@pytest.mark.parametrize(
    ("messages", "values", "message"),
    [
        (5, None, "5 cannot be read as messages"),
        (None, None, "None cannot be read as messages"),
        ([{"no": "message"}], None, "[{'no': 'message'}] cannot be read as messages"),
        ("Go.", 5, "values must be a mapping, got 5; pass a dict such as {'topic': 'bees'}"),
    ],
    ids=["a number", "nothing", "a dict that is not a message", "values that are not a mapping"],
)
def test_input_that_cannot_be_read_is_refused(messages: Any, values: Any, message: str) -> None:
    with pytest.raises(ag.AgentGraphError) as caught:
        ag.Runner(says("a")).run(messages, values=values)
    assert str(caught.value).startswith(message)


def test_a_failure_in_until_says_so_and_is_reported_at_the_agent_that_ran_last(drive: Drive) -> None:
    loop = ag.loop("l", [says("a")], max_iterations=2, until=lambda ctx: ctx.values["ok"])
    runner = ag.Runner(ag.sequential("s", [loop]))
    events, error = failing(drive.run(runner, "Go.", thread_id="t"), KeyError)
    assert lines(events) == ["s/l[0]/a: a", f"s/l[0]/a: [error] {error!r}"]
    assert str(error).startswith("s/l: ctx.values has no 'ok' (available: none)")
    assert list(runner.events("t")) == events
    assert error.__notes__[:2] == [
        "It was `until` of the loop 'l' that failed.",
        "This happened in the agent 'a', at s/l[0]/a.",
    ]
    assert list(drive.resume(runner, "t", values={"ok": True})) == []
    assert list(runner.events("t")) == events


def test_an_exception_that_is_raised_again_brings_no_question_of_another_run(drive: Drive) -> None:
    always_the_same = ValueError("no")

    agent = yields("f", [always_the_same])
    both = ag.parallel("both", [asks("h"), agent], on_error="wait")
    first, _ = failing(drive.run(ag.Runner(both), "Go."), ValueError)
    second, _ = failing(drive.run(ag.Runner(agent), "Go."), ValueError)
    assert sorted(event.kind for event in first) == ["error", "interrupted"]
    assert [event.kind for event in second] == ["error"]


def test_events_have_the_turn_the_step_and_the_time_of_what_happened(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", [says("a"), asks("h")]))
    began = time.time()
    events = [*drive.run(runner, "Go.", thread_id="t"), *drive.resume(runner, "t", "yes")]
    events += drive.run(runner, "Again.", thread_id="t")
    assert [event.turn for event in events] == [0, 0, 0, 1, 1]
    assert all(event.time and began - 1 < event.time < time.time() + 1 for event in events)
    next_nodes = {
        state.config["configurable"]["checkpoint_id"]: state.next
        for state in runner.graph.get_state_history({"configurable": {"thread_id": "t"}})
    }
    for event in events:
        checkpoint, _, node = str(event.step).partition(":")
        assert next_nodes[checkpoint] == (node,) == (event.agent_name,)
    assert list(runner.events("t")) == events

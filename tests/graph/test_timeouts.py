"""`timeout=` of leaves and steps: a clear error in async runs, refused in sync ones."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from helpers import Async, chat, failing, lines, retrying, says, scripted
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeTimeoutError
from langgraph.types import TimeoutPolicy

import agentgraph as ag
from agentgraph.testing import call, calls

SHORT, LONG = 0.05, 60
ENOUGH = 0.5
"""Seconds in which an agent that does nothing surely ends, and a test may wait for in vain."""


def slow(times: int = 1, **options: Any) -> ag.Agent:
    """Return a function agent that takes too long some times."""
    tries: list[int] = []

    async def fn(ctx: ag.Context) -> AsyncIterator[str]:
        tries.append(1)
        yield "Half."
        await asyncio.sleep(LONG if len(tries) <= times else 0)
        yield "Whole."

    return ag.function_agent("f", fn, **options)


def test_a_model_that_takes_too_long_is_a_clear_error_and_a_resume_tries_again() -> None:
    given_up, saver = threading.Event(), InMemorySaver()

    def wait(messages: list[BaseMessage]) -> str:
        given_up.wait(20)
        return "Late."

    def runner(timeout: Any, *script: Any) -> ag.Runner:
        tree = ag.sequential("s", [says("a"), chat("w", *script, timeout=timeout)])
        return ag.Runner(tree, checkpointer=saver)

    events = []
    with pytest.raises(NodeTimeoutError) as raised:
        for event in Async.run(runner(timedelta(seconds=SHORT), wait), "Go.", thread_id="t"):
            events.append(event)
            if event.kind == "error":
                given_up.set()
    assert str(raised.value).startswith("Node 'w' exceeded its run timeout of 0.050s (elapsed: 0.")
    assert raised.value.__notes__[0] == "This happened in the agent 'w', at s/w."
    assert lines(events) == ["s/a: a", f"s/w: [error] {raised.value!r}"]
    assert lines(Async.resume(runner(LONG, "In time."), "t")) == ["s/w: In time."]


@pytest.mark.parametrize("timeout", [SHORT, TimeoutPolicy(run_timeout=SHORT)], ids=repr)
def test_what_a_function_said_that_takes_too_long_is_discarded(timeout: Any) -> None:
    events, raised = failing(Async.run(ag.Runner(slow(timeout=timeout)), "Go."), NodeTimeoutError)
    assert lines(events) == ["f: Half.", "f: [discarded]", f"f: [error] {raised!r}"]


def test_an_idle_timeout_is_left_to_langgraph() -> None:
    agent = slow(timeout=TimeoutPolicy(idle_timeout=SHORT))
    _, raised = failing(Async.run(ag.Runner(agent), "Go."), NodeTimeoutError)
    assert "idle" in str(raised)


def test_a_retry_tries_again_after_a_timeout() -> None:
    events = Async.run(ag.Runner(slow(timeout=ENOUGH, retry=retrying())), "Go.")
    assert lines(events) == ["f: Half.", "f: [discarded]", "f: Half.", "f: Whole."]


def test_a_step_is_stopped_at_its_timeout_and_retried_if_its_policy_allows() -> None:
    step = ag.step(slow(timeout=None), timeout=SHORT)
    events, raised = failing(Async.run(ag.Runner(ag.workflow("w", [step])), "Go."), ag.StepFailedError)
    assert lines(events)[-1] == f"w/f: [error] {raised.__cause__!r}"
    assert isinstance(raised.__cause__, NodeTimeoutError)
    again = ag.step(slow(), timeout=timedelta(seconds=ENOUGH), retry=retrying())
    events = list(Async.run(ag.Runner(ag.workflow("w", [again])), "Go."))
    assert lines(events)[-1] == "w/f: Whole."


def test_a_timeout_that_is_not_reached_changes_nothing() -> None:
    tree = ag.sequential("s", [chat("w", "One.", timeout=LONG), slow(0, timeout=LONG)])
    assert lines(Async.run(ag.Runner(tree), "Go.")) == ["s/w: One.", "s/f: Half.", "s/f: Whole."]


def test_a_timeout_in_a_function_is_its_own_error() -> None:
    async def fn(ctx: ag.Context) -> str:
        raise TimeoutError("its own")

    runner = ag.Runner(ag.function_agent("f", fn, timeout=LONG))
    _, raised = failing(Async.run(runner, "Go."), TimeoutError)
    assert str(raised) == "its own"


def test_the_caller_of_an_agent_as_a_tool_reads_of_its_timeout() -> None:
    tools = [ag.agent_tool(slow(timeout=SHORT))]
    tree = chat("w", calls(call("f", request="x")), lambda seen: seen[-1].text[:60], tools=tools)
    *_, discarded, error, _, last = Async.run(ag.Runner(tree), "Go.")
    assert (discarded.kind, error.kind) == ("discarded", "error")
    assert last.text.startswith("Error: NodeTimeoutError(")


def timed(model: Any) -> ag.Agent:
    inner = ag.parallel("p", [ag.function_agent("f", lambda ctx: "f", timeout=LONG)])
    return ag.sequential("s", [says("a"), ag.chat_agent("w", model, timeout=LONG), inner])


def test_a_sync_run_or_resume_is_refused_before_anything_runs() -> None:
    model = scripted(ConnectionError("down"), "Now.")
    runner = ag.Runner(timed(model))
    refusal = (
        "w, f: timeout= needs arun and aresume: a sync call cannot be stopped; use these, or leave it "
        "out and set a timeout on the model"
    )
    with pytest.raises(ag.AgentGraphError) as caught:
        runner.run("Go.", thread_id="t")
    assert str(caught.value) == refusal
    failing(Async.run(runner, "Go.", thread_id="t"), ConnectionError)
    with pytest.raises(ag.AgentGraphError) as caught:
        runner.resume("t")
    assert str(caught.value) == refusal
    assert len(model.inputs) == 1
    assert lines(Async.resume(runner, "t")) == ["s/w: Now.", "s/p/f: f"]


def test_a_graph_without_a_runner_refuses_a_sync_run_at_the_agent() -> None:
    model = scripted("Never.")
    with pytest.raises(ag.AgentGraphError) as caught:
        ag.compile_agent(timed(model)).invoke({"messages": ["Go."]})
    assert str(caught.value) == (
        "s/w: timeout= needs arun() or ainvoke(): a sync call cannot be stopped; use these, or leave "
        "it out and set a timeout on the model"
    )
    assert model.inputs == []

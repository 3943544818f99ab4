"""Limits of models, steps and time, besides `tests/transcripts/limits.txt`; and what was spent."""

import asyncio
import time
import warnings
from threading import Barrier
from typing import Any

import pytest
from helpers import Drive, asks_model, chat, counted, failing, gives, invokes, says, scripted
from langchain.agents.middleware import before_model
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

THREAD: Any = {"configurable": {"thread_id": "t"}}


def leave(questions: Any) -> dict[str, bool]:
    return {each.id: True for each in questions}


def meets(barrier: Barrier, name: str) -> ag.Agent:
    """Return a function agent that calls a model as soon as others do."""

    def fn(ctx: ag.Context) -> str:
        barrier.wait(30)
        return str(scripted(f"{name}.").invoke("?").text)

    return ag.function_agent(name, fn)


def test_branches_that_reach_a_limit_at_the_same_instant_ask_once(drive: Drive) -> None:
    barrier = Barrier(3)
    tree = ag.parallel("p", [meets(barrier, name) for name in "abc"])
    limits = ag.Limits(model_calls=2, on_limit="ask")
    runner = ag.Runner(tree, limits=limits)
    list(drive.run(runner, "Go.", thread_id="t"))
    (question,) = runner.thread("t").pending
    assert question.value.endswith("which is 2 for a turn. May it be 2 more?")
    done = runner.thread("t").spent.by_agent
    assert sum(each.model_calls for each in done.values()) == 2


def test_of_three_that_wait_for_leave_all_go_on_after_one_yes(drive: Drive) -> None:
    tree = ag.parallel(
        "p", [ag.loop(f"l{n}", [chat(f"w{n}", "1", "2")], max_iterations=2) for n in "abc"]
    )
    runner = ag.Runner(tree, limits=ag.Limits(model_calls=3, on_limit="ask"))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert len(runner.thread("t").pending) == 1
    list(drive.resume(runner, "t", True))
    assert (runner.thread("t").status, runner.thread("t").spent.model_calls) == ("done", 6)


def test_of_two_tool_calls_side_by_side_one_asks(drive: Drive) -> None:
    together = calls(call("first", "1"), call("second", "2"))
    tools = [asks_model("first", "1"), asks_model("second", "2")]
    tree = chat("boss", together, "So.", tools=tools)
    runner = ag.Runner(tree, limits=ag.Limits(model_calls=1, on_limit="ask"))
    list(drive.run(runner, "Go.", thread_id="t"))
    for budget in (1, 2, 3):
        thread = runner.thread("t")
        assert (thread.spent.model_calls, len(thread.pending)) == (budget, 1)
        list(drive.resume(runner, "t", True))
    assert (runner.thread("t").status, runner.thread("t").spent.model_calls) == ("done", 4)


class _Ends(BaseException):
    pass


@pytest.mark.parametrize("kind", [_Ends, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_whatever_a_function_raises_what_it_spent_is_spent(drive: Drive, kind: Any) -> None:
    left = [kind("x")]

    def fn(ctx: ag.Context) -> str:
        said = str(scripted("Fine.").invoke("?").text)
        if left:
            raise left.pop()
        return said

    runner = ag.Runner(
        ag.sequential("s", [says("a"), ag.function_agent("f", fn)]), limits=ag.Limits(model_calls=9)
    )
    with pytest.raises(kind):
        list(drive.run(runner, "Go.", thread_id="t"))
    assert runner.thread("t").spent.model_calls == 1
    list(drive.resume(runner, "t"))
    assert (runner.thread("t").spent.model_calls, runner.thread("t").spent.steps) == (2, 2)


def test_a_bare_graph_asks_and_goes_on_by_a_command() -> None:
    tree = ag.parallel("p", [chat(name, name) for name in "abcd"], on_error="wait")
    limits = ag.Limits(model_calls=2, on_limit="ask")
    graph = ag.compile_agent(tree, limits=limits, checkpointer=InMemorySaver())
    (question,) = graph.invoke({"messages": ["Go."]}, THREAD)["__interrupt__"]
    given = graph.invoke(Command(resume={question.id: True}), THREAD)
    assert sorted(each.text for each in given["messages"][1:]) == ["a", "b", "c", "d"]


def test_one_question_of_a_bare_graph_takes_a_bare_answer() -> None:
    tree = ag.loop("l", [chat("w", "One.", "Two.")], max_iterations=2)
    limits = ag.Limits(model_calls=1, on_limit="ask")
    graph = ag.compile_agent(tree, limits=limits, checkpointer=InMemorySaver())
    assert graph.invoke({"messages": ["Go."]}, THREAD)["__interrupt__"]
    with pytest.raises(ag.LimitError):
        graph.invoke(Command(resume=False), THREAD)
    assert graph.invoke(None, THREAD)["__interrupt__"]
    assert graph.invoke(Command(resume=True), THREAD)["messages"][-1].text == "Two."


def test_without_a_saver_nobody_can_be_asked() -> None:
    graph = ag.compile_agent(
        ag.loop("l", [chat("w", "One.", "Two.")], max_iterations=2),
        limits=ag.Limits(model_calls=1, on_limit="ask"),
    )
    with pytest.raises(ag.LimitError):
        graph.invoke({"messages": ["Go."]})


def test_coroutines_are_cancelled_when_the_time_is_up_and_others_at_the_next_step() -> None:
    async def waits(ctx: ag.Context) -> str:
        await asyncio.sleep(60)
        return "Late."

    def sleeps(ctx: ag.Context) -> str:
        time.sleep(0.3)
        return "Slow."

    async def spent(fn: Any) -> ag.Spent:
        tree = ag.sequential("s", [ag.function_agent("a", fn), says("b")])
        runner = ag.Runner(tree, limits=ag.Limits(seconds=0.2))
        with pytest.raises(ag.LimitError) as caught:
            await runner.ainvoke("Go.", thread_id="t")
        assert (caught.value.limit, caught.value.value) == ("seconds", 0.2)
        return (await runner.athread("t")).spent

    cancelled, slept = asyncio.run(spent(waits)), asyncio.run(spent(sleeps))
    assert 0.2 <= cancelled.seconds < 30
    assert [*cancelled.by_agent] == ["a"]
    assert slept.seconds >= 0.3
    assert slept.by_agent["a"].seconds >= 0.3


def test_time_runs_once_for_agents_that_work_side_by_side() -> None:
    def sleeps(ctx: ag.Context) -> str:
        time.sleep(0.5)
        return "Slow."

    tree = ag.parallel("p", [ag.function_agent(name, sleeps) for name in "abcd"])
    spent = ag.Runner(tree, limits=ag.Limits(seconds=100)).invoke("Go.").spent
    assert 0.5 <= spent.seconds < sum(each.seconds for each in spent.by_agent.values())


def test_a_model_that_reports_no_tokens_warns_once_in_a_run() -> None:
    runner = ag.Runner(ag.loop("l", [chat("w", "1", "2", "3")], max_iterations=3))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        list(runner.run("Go.", limits=ag.Limits(tokens=5)))
    (one,) = [each for each in warned if "reports no tokens" in str(each.message)]
    assert str(one.message).startswith("l[0]/w: the model reports no tokens")


def test_a_compiled_tree_that_is_a_node_counts_for_the_agent_that_runs_it(drive: Drive) -> None:
    inner = ag.compile_agent(ag.sequential("s", [chat("x", "1"), chat("y", "2")]))
    tree = ag.sequential("t", [ag.graph_agent("g", inner), chat("z", "3")])
    runner = ag.Runner(tree)
    _, error = failing(
        drive.run(runner, "Go.", thread_id="t", limits=ag.Limits(model_calls=2)), ag.LimitError
    )
    assert error.address == "t/z"
    list(drive.resume(runner, "t", limits=ag.Limits(model_calls=3)))
    calls = {name: each.model_calls for name, each in runner.thread("t").spent.by_agent.items()}
    assert calls == {"g": 2, "z": 1}


@pytest.mark.parametrize("where", ["on the runner", "on the run"])
@pytest.mark.parametrize("around", ["a lane", "a branch", "an item", "a run", "a tree in it"])
def test_what_a_compiled_tree_spent_before_it_failed_is_told(
    drive: Drive, where: str, around: str
) -> None:
    asked: list[str] = []

    def answer(messages: Any) -> str:
        asked.append("asked")
        return "Hi."

    model = ScriptedChatModel(responses=answer, counts_tokens=True)
    rounds = ag.loop("l", [ag.chat_agent("c", model)], max_iterations=9)
    agent = ag.graph_agent("g", ag.compile_agent(rounds))
    tree = {
        "a lane": ag.sequential("s", [agent]),
        "a branch": ag.parallel("p", [ag.sequential("q", [agent]), says("z")]),
        "an item": ag.each("e", agent, lambda ctx: [1]),
        "a run": ag.function_agent("f", lambda ctx: str(ctx.run("g", "Go.")), agents=[agent]),
        "a tree in it": ag.graph_agent("o", ag.compile_agent(ag.sequential("i", [agent]))),
    }[around]
    two = ag.Limits(model_calls=2)
    runner = ag.Runner(tree, limits=two if where == "on the runner" else None)
    given = {"limits": two} if where == "on the run" else {}
    failing(drive.run(runner, "Go.", thread_id="t", **given), ag.LimitError)
    for limit in (3, 4):
        assert runner.thread("t").spent.model_calls == len(asked) == limit - 1
        limits = ag.Limits(model_calls=limit)
        failing(drive.resume(runner, "t", limits=limits), ag.LimitError)
    assert runner.thread("t").spent.model_calls == len(asked) == 4
    assert {"c", "l"}.isdisjoint(runner.thread("t").spent.by_agent)


def test_a_model_that_middleware_calls_counts_for_its_agent(drive: Drive) -> None:
    @before_model
    def looks(state: Any, runtime: Any) -> None:
        scripted("Fine.").invoke("Well?")

    runner = ag.Runner(chat("w", "One.", middleware=[looks]))
    list(drive.run(runner, "Go.", thread_id="t", limits=ag.Limits(model_calls=2)))
    assert runner.thread("t").spent.model_calls == 2


def test_limits_of_a_graph_in_a_graph_are_its_own_too() -> None:
    inner = ag.compile_agent(
        ag.loop("s", [chat("x", "1", "2", "3")], max_iterations=3), limits=ag.Limits(model_calls=2)
    )
    runner = ag.Runner(ag.graph_agent("g", inner), limits=ag.Limits(model_calls=10))
    with pytest.raises(ag.LimitError) as caught:
        runner.invoke("Go.", thread_id="t")
    assert (caught.value.value, caught.value.agent_name) == (2, "x")
    assert runner.thread("t").spent.model_calls == 2


def test_without_limits_it_is_said_what_the_events_show() -> None:
    tree = ag.sequential("s", [counted("a", "Two words."), gives("b", "Said.")])
    result = ag.Runner(tree).invoke("Go.")
    assert result.spent == ag.Spent(
        model_calls=1,
        tokens=3,
        steps=2,
        by_agent={"a": ag.Spent(model_calls=1, tokens=3, steps=1), "b": ag.Spent(steps=1)},
    )


def test_a_result_and_its_thread_say_the_same_and_turns_are_added() -> None:
    runner = ag.Runner(ag.sequential("s", [invokes("f", "1", "2"), chat("w", "3", "4")]))
    limits = ag.Limits(model_calls=10)
    first, second = (runner.invoke("Go.", thread_id="t", limits=limits) for _ in range(2))
    thread = runner.thread("t")
    assert [turn.spent for turn in thread.turns] == [first.spent, second.spent]
    assert (first.spent.model_calls, thread.spent.model_calls) == (3, 6)
    assert thread.spent.by_agent["f"].model_calls == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"model_calls": 0}, "Limits(model_calls=0): pass a whole number above 0, or None"),
        ({"seconds": -1}, "Limits(seconds=-1): pass a number above 0, or None"),
        ({"on_limit": "stop"}, "Limits(on_limit='stop'): choose one of: 'raise', 'ask'"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: Any, text: str) -> None:
    with pytest.raises(ag.AgentGraphError) as caught:
        ag.Limits(**options)
    assert str(caught.value).startswith(text)


LANES: dict[str, Any] = {
    "a branch": lambda leaf: ag.parallel("p", [leaf, says("z")]),
    "a branch of two": lambda leaf: ag.parallel(
        "p", [ag.sequential("s", [says("y"), leaf]), says("z")]
    ),
    "a step": lambda leaf: ag.workflow("f", [leaf]),
    "an item": lambda leaf: ag.each("e", leaf, lambda ctx: [1]),
    "a branch in a branch": lambda leaf: ag.parallel(
        "o", [ag.sequential("s", [says("y"), ag.parallel("p", [leaf, says("z")])]), says("x")]
    ),
}


@pytest.mark.parametrize("on_limit", ["raise", "ask"])
@pytest.mark.parametrize("where", LANES)
def test_what_a_leaf_spent_before_it_failed_counts_in_every_lane(
    drive: Drive, where: str, on_limit: Any
) -> None:
    fails = [ValueError("late")]

    def fn(ctx: ag.Context) -> str:
        text = str(scripted("Fine.").invoke("?").text)
        if fails:
            raise fails.pop()
        return text

    limits = ag.Limits(model_calls=2, on_limit=on_limit)
    runner = ag.Runner(LANES[where](ag.function_agent("w", fn)), limits=limits)
    with pytest.raises((ValueError, ag.StepFailedError)):
        list(drive.run(runner, "Go.", thread_id="t"))
    assert runner.thread("t").spent.by_agent["w"].model_calls == 1
    list(drive.resume(runner, "t"))
    spent = runner.thread("t").spent.by_agent["w"]
    assert (spent.model_calls, spent.steps) == (2, 1)


@pytest.mark.parametrize("where", ["alone", "later", *LANES])
def test_a_turn_that_was_given_up_keeps_what_its_last_step_spent(drive: Drive, where: str) -> None:
    def fn(ctx: ag.Context) -> str:
        scripted("Fine.").invoke("?")
        raise ValueError("late")

    leaf = ag.function_agent("w", fn)
    shapes = {"alone": lambda leaf: leaf, "later": lambda leaf: ag.sequential("s", [says("y"), leaf])}
    runner = ag.Runner({**shapes, **LANES}[where](leaf), limits=ag.Limits(model_calls=9))
    for _ in "12":
        with pytest.raises((ValueError, ag.StepFailedError)):
            list(drive.run(runner, "Go.", thread_id="t"))
    thread = runner.thread("t")
    assert [turn.spent.model_calls for turn in thread.turns] == [1, 1]
    assert thread.spent.by_agent["w"].model_calls == 2
    assert [runner.result("t", turn).spent for turn in (0, 1)] == [turn.spent for turn in thread.turns]

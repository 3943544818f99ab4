"""`Limits(cost=)`, and what `prices=` may return.

Random trees with limits of cost are in `tests/properties/test_limited_runs.py`.
"""

import asyncio
import decimal
import gc
import pickle
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Drive, chat, failing, retrying, says, scripted
from helpers.costs import CENT, Named, costs, named, per_token, table
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.testing import call, calls


def rounds(*texts: str, **options: Any) -> tuple[ag.Agent, Named]:
    model = Named(model="cheap", responses=[*texts])
    return ag.loop("l", [ag.chat_agent("w", model, **options)], max_iterations=len(texts)), model


def test_a_limit_of_cost_is_checked_before_each_call(drive: Drive) -> None:
    tree, model = rounds("a", "b", "c")
    runner = ag.Runner(tree, prices=table, limits=ag.Limits(cost=Decimal("0.05")))
    _, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.LimitError)
    assert str(error) == (
        "l[2]/w: the agent 'w' reached Limits.cost, which is 0.05 for a turn; if that is not enough, "
        "resume with higher limits, such as Limits(cost=Decimal('0.10'))"
    )
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (each.limit, each.value, type(each.value)) == ("cost", Decimal("0.05"), Decimal)
    assert len(model.inputs) == 2
    _, error = failing(drive.resume(runner, "t", limits=ag.Limits(cost=CENT)), ag.LimitError)
    list(drive.resume(runner, "t", limits=ag.Limits(cost=1)))
    assert runner.thread("t").spent.cost == Decimal("0.09")


def test_a_person_may_allow_the_same_cost_again(drive: Drive) -> None:
    tree, _ = rounds("a", "b", "c")
    limits = ag.Limits(cost=Decimal("0.02"), on_limit="ask")
    with decimal.localcontext(prec=1):
        runner = ag.Runner(tree, prices=table, limits=limits)
        list(drive.run(runner, "Go.", thread_id="t"))
        (question,) = runner.thread("t").pending
        assert question.value == (
            "The agent 'w' reached Limits.cost, which is 0.02 for a turn. May it be 0.02 more?"
        )
        list(drive.resume(runner, "t", True))
    (question,) = runner.thread("t").pending
    assert question.value.startswith("The agent 'w' reached Limits.cost, which is 0.04 for a turn.")
    _, error = failing(drive.resume(runner, "t", False), ag.LimitError)
    assert error.value == Decimal("0.04")


def test_the_limit_of_an_agent_is_its_failure_and_saved_exactly(drive: Drive, tmp_path: Path) -> None:
    tree, _ = rounds("a", "b", limits=ag.Limits(cost=CENT))
    both = ag.parallel(
        "p", [ag.sequential("s", [tree, says("x")]), named("z", "dear", "Done.")], on_error="wait"
    )
    with ag.Runner(both, prices=table, checkpointer=str(tmp_path / "t.db")) as runner:
        for _ in "12":
            events = drive.resume(runner, "t") if runner.thread("t").turns else None
            _, error = failing(events or drive.run(runner, "Go.", thread_id="t"), ag.LimitError)
            assert (error.limited, error.value) == ("w", CENT)
        assert costs(runner.thread("t").spent) == {"": Decimal("2.02"), "w": Decimal("0.02"), "z": 2}


@pytest.mark.parametrize("around", ["alone", "collect", "retry", "a tool"])
def test_a_model_without_a_price_is_not_called_under_a_limit(around: str) -> None:
    model = Named(model="free", responses=["a"] * 9)
    agent = ag.chat_agent("w", model, description="d", retry=retrying() if around == "retry" else None)
    tree: ag.Agent = agent
    if around == "collect":
        tree = ag.parallel("p", [agent, says("z")], on_error="collect")
    if around == "a tool":
        tree = named("b", "cheap", calls(call("w", request="x")), tools=[ag.agent_tool(agent)])
    runner = ag.Runner(tree, prices=table, limits=ag.Limits(cost=1))
    _, error = failing(runner.run("Go.", thread_id="t"), ag.AgentGraphError)
    where = {"collect": "p/w", "a tool": "b/w(0)"}.get(around, "w")
    assert str(error) == (
        f"{where}: the model 'free' has no price, so Limits(cost=) cannot bound it; return one from "
        "prices=, or run without cost="
    )
    assert model.inputs == []
    spent = runner.thread("t").spent
    assert (spent.by_agent["w"].model_calls, spent.by_agent["w"].cost) == (0, 0)


def test_a_model_that_reports_no_tokens_is_called_once_in_a_run_under_a_limit() -> None:
    model = scripted(*"abcdef")
    runner = ag.Runner(ag.loop("l", [ag.chat_agent("w", model)], max_iterations=9), prices=per_token)
    limits = ag.Limits(cost=1)
    _, error = failing(runner.run("Go.", thread_id="t", limits=limits), ag.AgentGraphError)
    assert str(error) == (
        "l[1]/w: the model 'ScriptedChatModel' reports no tokens (usage_metadata), so Limits(cost=) "
        "cannot bound it; let it report them, as ChatOpenAI(stream_usage=True) does, or run without "
        "cost="
    )
    failing(runner.resume("t", limits=limits), ag.AgentGraphError)
    assert len(model.inputs) == 2


@pytest.mark.parametrize("around", ["alone", "a function", "a tool"])
def test_async_runs_refuse_models_without_a_price_too(around: str) -> None:
    model = Named(model="free", responses=["a"] * 9)

    async def ask() -> str:
        """Ask."""
        return str((await model.ainvoke("?")).text)

    tree = {
        "alone": ag.chat_agent("w", model),
        "a function": ag.function_agent("w", lambda ctx: ask()),
        "a tool": named("w", "cheap", *[calls(call("ask"))] * 2, tools=[ask]),
    }[around]

    async def price(name: str, usage: Any) -> Decimal | None:
        return table(name, usage)

    for prices in (table, price):
        runner = ag.Runner(tree, prices=prices, limits=ag.Limits(cost=1))
        _, error = failing(Async.run(runner, "Go.", thread_id="t"), ag.AgentGraphError)
        assert str(error).startswith("w: the model 'free' has no price")
        assert model.inputs == []
        del error
        with (
            warnings.catch_warnings()
        ):  # LangChain drops the coroutines of callbacks after one that raises
            warnings.simplefilter("ignore")
            gc.collect()


@pytest.mark.parametrize("around", ["a function", "a coroutine", "a tool"])
def test_async_runs_await_the_price_of_a_model_that_is_called_synchronously(around: str) -> None:
    model = Named(model="cheap", responses=["Two words."] * 9)

    def ask() -> str:
        """Ask."""
        return str(model.invoke("?").text)

    async def asks(ctx: ag.Context) -> str:
        return ask()

    async def price(name: str, usage: Any) -> Decimal | None:
        await asyncio.sleep(0)
        return table(name, usage)

    tree = {
        "a function": ag.function_agent("w", lambda ctx: ask()),
        "a coroutine": ag.function_agent("w", asks),
        "a tool": named("w", "cheap", *[calls(call("ask")), "So."] * 2, tools=[ask]),
    }[around]
    runner = ag.Runner(tree, prices=price)
    list(Async.run(runner, "Go.", thread_id="t"))
    spent = runner.thread("t").spent
    assert spent.cost == spent.tokens * CENT > 0
    model.model = "free"
    runner = ag.Runner(tree, prices=price, limits=ag.Limits(cost=1))
    _, error = failing(Async.run(runner, "Go.", thread_id="t"), ag.AgentGraphError)
    assert str(error).startswith("w: the model 'free' has no price")
    assert runner.thread("t").spent.cost is None  # LangChain had made the call
    assert len(model.inputs) == 2


PRICES: dict[str, tuple[Any, str]] = {
    "float": (0.1, "returned 0.1 for the model 'cheap'; a float is not exact; return Decimal('0.1')"),
    "negative": (
        Decimal(-1),
        "returned Decimal('-1') for the model 'cheap'; return a Decimal of at least 0, or None if the "
        "price is not known",
    ),
    "not a number": (Decimal("NaN"), "returned Decimal('NaN') for the model 'cheap'; return a Decimal"),
    "a word": ("1", "returned '1' for the model 'cheap'; return a Decimal of at least 0"),
    "a truth": (True, "returned True for the model 'cheap'; return a Decimal of at least 0"),
    "an error": (
        KeyError("cheap"),
        "failed for the model 'cheap': KeyError('cheap'); fix it and resume",
    ),
}


@pytest.mark.parametrize("limits", [None, ag.Limits(cost=9)], ids=["no limit", "a limit"])
@pytest.mark.parametrize("kind", PRICES)
def test_a_price_that_is_none_ends_the_run(kind: str, limits: ag.Limits | None) -> None:
    answer, text = PRICES[kind]

    def price(model: str, usage: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    model = Named(model="cheap", responses=[*"abcdef"])
    agent = ag.chat_agent("w", model, retry=retrying(5))
    tree = ag.parallel("p", [agent, says("z")], on_error="collect")
    runner = ag.Runner(tree, prices=price, limits=limits)
    _, error = failing(runner.run("Go.", thread_id="t"), ag.AgentGraphError)
    assert str(error).startswith("p/w: prices=<function ")
    assert text in str(error)
    assert len(model.inputs) == (0 if limits else 1)
    spent = runner.thread("t").spent.by_agent["w"]
    assert (spent.model_calls, spent.cost) == ((0, 0) if limits else (1, None))
    mended = ag.Runner(tree, checkpointer=runner.saver, prices=table, limits=limits)
    list(mended.resume("t"))
    assert mended.thread("t").status == "done"


def test_a_tool_that_catches_the_error_of_prices_does_not_hide_it() -> None:
    def ask() -> str:
        """Ask."""
        try:
            return str(Named(model="free", responses=["x"]).invoke("?").text)
        except ag.AgentGraphError:
            return "Well."

    tree = named("w", "cheap", calls(call("ask")), "So.", tools=[ask])
    runner = ag.Runner(tree, prices=table, limits=ag.Limits(cost=9))
    _, error = failing(runner.run("Go."), ag.AgentGraphError)
    assert str(error).startswith("w: the model 'free' has no price")


BUDGET = ag.Limits(cost=Decimal("0.50"))
NEEDS = "needs prices; pass a function that returns the price of a reply: ag.Runner(tree, prices=fn)"
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "of a runner": (
        lambda: ag.Runner(says("a"), limits=BUDGET),
        f"Limits(cost=Decimal('0.50')) of the run {NEEDS}",
    ),
    "of an agent": (
        lambda: ag.Runner(chat("a", "1", limits=ag.Limits(cost=3))),
        f"Limits(cost=3) of the agent 'a' {NEEDS}",
    ),
    "of a run": (
        lambda: ag.Runner(says("a")).run("Go.", limits=BUDGET),
        f"Limits(cost=Decimal('0.50')) of the run {NEEDS}",
    ),
    "of a graph": (
        lambda: ag.compile_agent(says("a"), limits=BUDGET).invoke({"messages": ["Go."]}),
        f"Limits(cost=Decimal('0.50')) of the run {NEEDS}",
    ),
    "prices that are a table": (
        lambda: ag.Runner(says("a"), prices={"gpt-5": 1}),  # type: ignore[arg-type]
        "prices={'gpt-5': 1} is not a function; pass one that takes the name of a model and the usage "
        "of a reply, and returns a Decimal, or None",
    ),
    "a float": (
        lambda: ag.Limits(cost=0.5),  # type: ignore[arg-type]
        'Limits(cost=0.5): pass a Decimal above 0, such as Decimal("0.5"), or None to inherit the '
        "limit",
    ),
    "no number": (
        lambda: ag.Limits(cost=Decimal("NaN")),
        "Limits(cost=Decimal('NaN')): pass a Decimal above 0, such as Decimal(\"0.5\"), or None to "
        "inherit the limit",
    ),
    "nothing": (
        lambda: ag.Limits(cost=Decimal(0)),
        "Limits(cost=Decimal('0')): pass a Decimal above 0, such as Decimal(\"0.5\"), or None to "
        "inherit the limit",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused_before_anything_runs(what: str) -> None:
    make, text = REFUSED[what]
    with pytest.raises(ag.AgentGraphError) as caught:
        make()
    assert str(caught.value) == text


def test_prices_of_one_argument_are_refused() -> None:
    one: Any = lambda usage: Decimal(1)  # noqa: E731
    with pytest.raises(ag.AgentGraphError) as caught:
        ag.Runner(says("a"), prices=one)
    assert str(caught.value).endswith(
        "takes (usage); it takes two arguments, the name of a model and the usage of a reply"
    )


def test_a_graph_with_prices_bounds_a_tree_inside_it(drive: Drive) -> None:
    inner = ag.compile_agent(ag.loop("l", [named("w", "dear", "a", "b", "c")], max_iterations=3))
    runner = ag.Runner(ag.graph_agent("g", inner), prices=table, limits=ag.Limits(cost=3))
    _, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.LimitError)
    assert (error.limit, error.value) == ("cost", 3)
    assert costs(runner.thread("t").spent) == {"": 5, "g": 5}
    graph = ag.compile_agent(
        named("w", "dear", "a", "b"),
        prices=table,
        limits=ag.Limits(cost=1),
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    for _ in "12":  # each turn has the limit
        assert graph.invoke({"messages": ["Go."]}, config)["messages"]

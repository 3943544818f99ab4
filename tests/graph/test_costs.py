"""The cost of turns: `Runner(prices=)` and `Spent.cost`; the limits are in `test_cost_limits.py`."""

import asyncio
import decimal
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Drive, asks, chat, counted, failing, gives, retrying, says, scripted
from helpers.costs import CENT, Named, costs, named, per_token, ran, table
from helpers.decisions import Judge
from langchain.agents.middleware import AgentMiddleware, before_model
from langchain_core.caches import InMemoryCache
from langchain_core.decisions import Noul
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.testing import call, calls


def test_the_price_of_each_reply_is_asked_once_with_the_name_and_the_usage(drive: Drive) -> None:
    asked: list[tuple[str, int, int]] = []

    def price(model: str, usage: Any) -> Decimal:
        asked.append((model, usage["input_tokens"], usage["output_tokens"]))
        usage.clear()  # it has a usage of its own
        return CENT

    tree = ag.sequential("s", [named("a", "cheap", "One two."), named("b", "dear", "Three.")])
    runner = ag.Runner(tree, prices=price)
    spent = ran(drive, runner)
    assert asked == [("cheap", 1, 2), ("dear", 5, 1)]
    assert costs(spent) == {"": Decimal("0.02"), "a": CENT, "b": CENT}
    assert spent.tokens == runner.thread("t").usage.total["total_tokens"] == 9


def test_costs_are_exact_whatever_the_decimal_context_is(drive: Drive, tmp_path: Path) -> None:
    fine = Decimal("0.12345678901234567890123456789012345678901")
    tree = ag.loop("l", [counted("w", *"abc")], max_iterations=3)
    prices = iter([fine, Decimal("1E+12"), 7])
    with (
        decimal.localcontext(prec=3),
        ag.Runner(tree, checkpointer=str(tmp_path / "t.db"), prices=lambda *_: next(prices)) as runner,
    ):
        live = ran(drive, runner)
    whole = Decimal("1000000000007.12345678901234567890123456789012345678901")
    assert costs(live) == {"": whole, "w": whole}
    with ag.Runner(tree, checkpointer=str(tmp_path / "t.db")) as runner:
        assert runner.thread("t").spent == live
        assert type(runner.thread("t").spent.cost) is Decimal


def in_a_tool() -> ag.Agent:
    def ask() -> str:
        """Ask."""
        return str(Named(model="cheap", responses=["Two words."]).invoke("?").text)

    return named("w", "cheap", calls(call("ask")), "So.", tools=[ask])


def in_a_call() -> ag.Agent:
    helper = named("helper", "cheap", "Two words.", description="Helps.")
    return named("w", "cheap", calls(call("helper", request="x")), "So.", tools=[ag.agent_tool(helper)])


def in_middleware() -> ag.Agent:
    @before_model
    def looks(state: Any, runtime: Any) -> None:
        Named(model="cheap", responses=["Fine."]).invoke("Well?")

    return named("w", "cheap", "One.", middleware=[looks])


def with_fallbacks() -> ag.Agent:
    first = Named(model="dear", responses=[ValueError("down")])
    second = Named(model="cheap", responses=["Two words."])
    return ag.chat_agent("w", first.with_fallbacks([second]))


def summarized() -> ag.Agent:
    policy = ag.summarized(Named(model="cheap", responses=["Short."] * 9), 4)
    return ag.loop(
        "l", [named("w", "cheap", *["Some more words."] * 4, history=policy)], max_iterations=4
    )


def run_by_a_function() -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        return str([await ctx.run("w", "Go."), await ctx.run("w", "Again.")])

    worker = ag.chat_agent("w", Named(model="cheap", responses=lambda messages: "Done."))
    return ag.function_agent("f", fn, agents=[worker])


TREES: dict[str, Callable[[], ag.Agent]] = {
    "branches": lambda: ag.parallel("p", [named(name, "cheap", "One.") for name in "abc"]),
    "items": lambda: ag.each(
        "e", ag.chat_agent("w", Named(model="cheap", responses=lambda _: "x y")), lambda ctx: [*"abcd"]
    ),
    "a tool": in_a_tool,
    "an agent as a tool": in_a_call,
    "middleware": in_middleware,
    "fallbacks": with_fallbacks,
    "summaries": summarized,
    "a function": run_by_a_function,
    "a tree in a node": lambda: ag.graph_agent(
        "g",
        ag.compile_agent(ag.sequential("s", [named("x", "cheap", "1"), named("y", "cheap", "2 3")])),
    ),
    "a retry": lambda: named("w", "cheap", ValueError("once"), "Two words.", retry=retrying()),
}


@pytest.mark.parametrize("where", TREES)
def test_replies_cost_wherever_models_are_called(drive: Drive, where: str) -> None:
    runner = ag.Runner(TREES[where](), prices=table)
    spent = ran(drive, runner)
    assert spent.tokens
    assert spent.cost == spent.tokens * CENT
    assert {name: each.cost for name, each in spent.by_agent.items()} == {
        name: each.tokens * CENT for name, each in spent.by_agent.items()
    }


class Judged(AgentMiddleware[Any, Any, Any]):
    def __init__(self) -> None:
        self.classifier = Judge()

    def before_agent(self, state: object, runtime: object) -> None:
        self.classifier.invoke({"state": "Bees.", "questions": {"risky": Noul(instructions="Is it?")}})

    async def abefore_agent(self, state: object, runtime: object) -> None:
        await self.classifier.ainvoke(
            {"state": "Bees.", "questions": {"risky": Noul(instructions="Is it?")}}
        )


def test_a_decision_model_has_a_price_and_a_limit_of_cost(drive: Drive) -> None:
    def price(model: str, usage: Any) -> Decimal | None:
        return Decimal(3) if model == "judge" else None

    runner = ag.Runner(chat("w", "Done.", middleware=[Judged()]), prices=price)
    spent = ran(drive, runner)
    assert (spent.cost, spent.model_calls) == (None, 2)  # the chat model has no price
    runner = ag.Runner(counted("w", "Done.", middleware=[Judged()]), prices=lambda *_: Decimal(3))
    _, error = failing(drive.run(runner, "Go.", thread_id="t", limits=ag.Limits(cost=2)), ag.LimitError)
    assert (error.address, error.limit) == ("w", "cost")
    assert costs(runner.thread("t").spent) == {"": 3, "w": 3}


def test_a_reply_from_the_cache_of_langchain_costs_nothing(drive: Drive) -> None:
    cached = Named(model="dear", responses=["One.", "Two."], cache=InMemoryCache())
    tree = ag.parallel("p", [ag.chat_agent(name, cached, history="input") for name in "ab"])
    spent = ran(drive, ag.Runner(ag.sequential("s", [*tree.sub_agents]), prices=table))
    assert costs(spent) == {"": 2, "a": 2, "b": 0}


def test_a_reply_from_the_cache_of_a_model_that_reports_no_tokens_has_none(drive: Drive) -> None:
    cached = scripted("One.")
    cached.cache = InMemoryCache()
    tree = ag.sequential("s", [ag.chat_agent(name, cached, history="input") for name in "ab"])
    runner = ag.Runner(tree, prices=table)
    assert costs(ran(drive, runner)) == {"": None, "a": None, "b": 0}
    assert [event.usage for event in runner.events("t")] == [None, None]
    assert runner.thread("t").usage.by_agent == {}
    bare = ag.Runner(tree)
    assert bare.invoke("Go.").spent.tokens == 0


def test_without_a_price_or_a_usage_the_cost_is_not_known(drive: Drive) -> None:
    tree = ag.sequential("s", [named("a", "cheap", "1"), named("b", "free", "2"), says("z")])
    spent = ran(drive, ag.Runner(tree, prices=table))
    assert costs(spent) == {"": None, "a": Decimal("0.02"), "b": None, "z": 0}
    tree = ag.sequential("s", [named("a", "cheap", "1"), chat("b", "2")])
    spent = ran(drive, ag.Runner(tree, prices=per_token))
    assert costs(spent) == {"": None, "a": Decimal("0.02"), "b": None}


def test_a_reply_whose_price_was_not_awaited_has_an_unknown_cost() -> None:
    model, ended = Named(model="cheap", responses=["One."]), list[str]()

    async def ask(ctx: ag.Context) -> str:
        return str((await model.ainvoke("?")).text)

    async def slow(name: str, usage: Any) -> Decimal:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(name)
        return CENT

    runner = ag.Runner(ag.function_agent("w", ask), prices=slow, limits=ag.Limits(seconds=0.2))
    _, error = failing(Async.run(runner, "Go.", thread_id="t"), ag.LimitError)
    assert error.limit == "seconds"  # type: ignore[attr-defined]
    assert costs(runner.thread("t").spent) == {"": None, "w": None}
    assert ended == ["cheap"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_reply_whose_price_was_interrupted_has_an_unknown_cost(kind: Any) -> None:
    def ends(model: str, usage: Any) -> Decimal:
        raise kind

    runner = ag.Runner(counted("w", "One."), prices=ends)
    with pytest.raises(kind):
        list(runner.run("Go.", thread_id="t"))
    assert costs(runner.thread("t").spent) == {"": None, "w": None}


def test_turns_are_added_and_one_of_unknown_cost_makes_the_sum_unknown() -> None:
    runner = ag.Runner(counted("w", "1", "2 3", "4"), prices=per_token)
    first, second = (runner.invoke("Go.", thread_id="t").spent for _ in "12")
    both = first + second
    assert (runner.thread("t").spent, both.cost) == (both, both.tokens * CENT)
    assert sum([first, second], ag.Spent()) == both
    assert (first + ag.Spent(model_calls=1)).cost is None
    without = ag.Runner(counted("w", "5"), checkpointer=runner.saver)
    without.invoke("Go.", thread_id="t")
    assert [turn.spent.cost for turn in runner.thread("t").turns][2:] == [None]
    assert runner.thread("t").spent.cost is None


@pytest.mark.parametrize("limits", [None, ag.Limits(transfers=9), ag.Limits(steps=99)])
@pytest.mark.parametrize("is_priced", [(True, False), (False, True), (True, False, True)])
def test_a_turn_that_ran_in_part_without_prices_has_no_cost(
    drive: Drive, is_priced: tuple[bool, ...], limits: ag.Limits | None
) -> None:
    saver, rounds = InMemorySaver(), 2 * len(is_priced) - 1
    parts = [counted(f"w{n}", "1") if n % 2 == 0 else asks(f"q{n}") for n in range(rounds)]
    tree = ag.sequential("s", parts)
    for number, has_prices in enumerate(is_priced):
        prices = per_token if has_prices else None
        runner = ag.Runner(tree, checkpointer=saver, prices=prices, limits=limits)
        events = (
            drive.resume(runner, "t", "Well.") if number else drive.run(runner, "Go.", thread_id="t")
        )
        list(events)
    assert runner.thread("t").status == "done"
    assert runner.thread("t").spent.cost is None


def test_a_rewind_counts_the_cost_of_its_line_and_a_copy_keeps_it(drive: Drive) -> None:
    runner = ag.Runner(ag.loop("l", [counted("w", *"abcde")], max_iterations=3), prices=per_token)
    whole = ran(drive, runner)
    list(runner.rewind("t", "l[1]/w"))
    after = runner.thread("t").spent
    assert whole.cost == after.cost == whole.tokens * CENT == after.tokens * CENT
    runner.copy("t", "u")
    assert runner.thread("u").spent == after
    assert runner.prune("t", keep_turns=1, keep_lines=0)
    assert runner.thread("t").spent == after


def test_other_prices_later_change_nothing_that_was_saved() -> None:
    tree = ag.sequential("s", [counted("a", "1"), asks("boss"), counted("b", "2")])
    runner = ag.Runner(tree, prices=per_token)
    runner.invoke("Go.", thread_id="t")
    dearer = ag.Runner(tree, checkpointer=runner.saver, prices=lambda *_: Decimal(9))
    result = dearer.invoke(thread_id="t", answers="Yes.")
    assert costs(result.spent) == {"": Decimal("9.02"), "a": Decimal("0.02"), "b": 9, "boss": 0}
    assert dearer.thread("t").spent == runner.result("t").spent == result.spent


# the table of variants


def test_variants_show_what_they_cost_without_the_prefix(drive: Drive) -> None:
    tree = ag.loop("l", [named("w", "cheap", *"abcdefghi")], max_iterations=3)
    runner = ag.Runner(tree, prices=table)
    list(drive.run(runner, "Go.", thread_id="t"))
    dear = ag.Runner(ag.loop("l", [named("w", "dear", *"ab")], max_iterations=3), prices=table)
    free = ag.Runner(ag.loop("l", [named("w", "free", *"ab")], max_iterations=3), prices=table)
    bare = ag.Runner(ag.loop("l", [named("w", "cheap", *"ab")], max_iterations=3))
    variants = {
        "same": {},
        "dear": {"runner": dear},
        "free": {"runner": free},
        "bare": {"runner": bare},
    }
    forks = runner.fork_many("t", "l[1]/w", variants)
    rows = {row["variant"]: row for row in forks.rows}
    assert {name: (row["tokens"], row["cost"]) for name, row in rows.items()} == {
        "same": ("7", "0.07"),
        "dear": ("7", "7.00"),
        "free": ("7", "unknown"),
        "bare": ("7", "unknown"),
    }
    assert forks["dear"].spent.cost == Decimal("7.02")
    assert "<th>cost</th>" in forks._repr_html_()


def test_variants_of_a_thread_without_prices_have_their_own_cost() -> None:
    tree = ag.loop("l", [counted("w", *"abcdefghi")], max_iterations=3)
    runner = ag.Runner(tree)
    runner.invoke("Go.", thread_id="t")
    assert all("cost" not in row for row in runner.fork_many("t", "l[1]/w", {"same": {}}).rows)
    priced = {
        "priced": {
            "runner": ag.Runner(ag.loop("l", [counted("w", *"ab")], max_iterations=3), prices=per_token)
        }
    }
    forks = runner.fork_many("t", "l[1]/w", priced)
    assert [row["cost"] for row in forks.rows] == ["0.07"]
    assert forks["priced"].spent.cost is None  # of the whole turn


def test_a_failed_variant_shows_what_its_failed_step_cost() -> None:
    tree = ag.sequential("s", [says("a"), named("w", "cheap", "x")])
    runner = ag.Runner(tree, prices=table)
    runner.invoke("Go.", thread_id="t")

    def fails(ctx: ag.Context) -> str:
        Named(model="cheap", responses=["a b"]).invoke("?")
        raise ValueError("late")

    other = ag.Runner(ag.sequential("s", [says("a"), ag.function_agent("w", fails)]), prices=table)
    forks = runner.fork_many("t", "s/a", {"late": {"runner": other}})
    (row,) = forks.rows
    assert (row["status"], row["cost"]) == ("failed", "0.03")
    assert forks["late"].spent == other.thread("t-late").spent


def test_a_transfer_and_a_message_without_a_model_cost_nothing(drive: Drive) -> None:
    bob = gives("bob", AIMessage("Said.", usage_metadata=None))
    ann = named("ann", "cheap", calls(call("transfer_to_bob")), sub_agents=[bob])
    spent = ran(drive, ag.Runner(ann, prices=table))
    assert costs(spent)["bob"] == 0
    assert spent.cost == spent.tokens * CENT


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_async", [True, False], ids=["async prices", "sync prices"])
def test_prices_that_end_the_event_loop_end_the_run_first(
    error: type[BaseException], is_async: bool
) -> None:
    errors = [error()]

    def price(model: str, usage: Any) -> Decimal:
        if errors:
            raise errors.pop()
        return CENT

    async def aprice(model: str, usage: Any) -> Decimal:
        await asyncio.sleep(0)
        return price(model, usage)

    runner = ag.Runner(named("w", "cheap", "One.", "One."), prices=aprice if is_async else price)
    with pytest.raises(error):
        asyncio.run(runner.ainvoke("Go.", thread_id="t"))
    assert runner.thread("t").status == "stopped"
    assert asyncio.run(runner.ainvoke(thread_id="t")).text == "One."

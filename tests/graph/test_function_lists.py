"""A function agent may return or yield a list: each item is taken in order, as if it were yielded."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers import Disk, Drive, failing, lines, says
from langchain_core.messages import AIMessage

import agentgraph as ag

Items = Callable[[ag.Context], Any]


def returned(items: Items) -> Any:
    return lambda ctx: items(ctx)


def awaited(items: Items) -> Any:
    async def fn(ctx: ag.Context) -> Any:
        return items(ctx)

    return fn


def returned_by_a_generator(items: Items) -> Any:
    def fn(ctx: ag.Context) -> Any:
        return items(ctx)
        yield

    return fn


def yielded(items: Items) -> Any:
    def fn(ctx: ag.Context) -> Any:
        yield items(ctx)

    return fn


def yielded_by_a_coroutine(items: Items) -> Any:
    async def fn(ctx: ag.Context) -> Any:
        yield items(ctx)

    return fn


WAYS = [returned, awaited, returned_by_a_generator, yielded, yielded_by_a_coroutine]
ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@ways
def test_each_item_is_taken_in_order_up_to_one_that_ends_the_agent(disk: Disk, way: Any) -> None:
    def asking(ctx: ag.Context) -> Any:
        return [f"So {ctx.answer}."] if ctx.answered else ["Well.", ag.Ask("Print?"), "never"]

    items = ["one", None, ag.Custom({"n": 2}), ag.SetValues(topic="bees"), AIMessage("three")]
    gives: list[Items] = [
        lambda ctx: items,
        lambda ctx: (f"tuple of {ctx.values['topic']}",),
        lambda ctx: [],
        asking,
        lambda ctx: ["end", ag.Exit(), "never", object()],
        lambda ctx: "never",
    ]
    agents = [ag.function_agent(name, way(each)) for name, each in zip("abcdef", gives, strict=True)]
    tree = ag.sequential("s", agents)
    assert lines(disk.run(tree)) == [
        *["s/a: one", 's/a: [custom] {"n": 2}', "s/a: [values] topic", "s/a: three"],
        "s/b: tuple of bees",
        *["s/d: Well.", "s/d: [asks] Print?"],
    ]
    assert lines(disk.resume(tree, "no")) == ["s/d: So no.", "s/e: end", "s/e: [exit]"]
    assert disk.events(tree) == disk.heard


@ways
@pytest.mark.parametrize("wrong", [3, ["two"]], ids=repr)
def test_an_unknown_item_is_refused(drive: Drive, way: Any, wrong: Any) -> None:
    tree = ag.function_agent("a", way(lambda ctx: ["one", wrong]))
    _, error = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    assert str(error) == (
        f"a: the function returned {wrong!r}; return or yield a string, a LangChain message, Exit(), "
        "BreakLoop(), TransferTo(...), Ask(...), Custom(...), SetValues(...) or None, or a list of "
        "these"
    )


def test_the_annotation_of_a_list_names_what_its_items_may_do(drive: Drive) -> None:
    def stops(ctx: ag.Context) -> list[str | ag.Exit]:
        return ["one", ag.Exit()]

    def breaks(ctx: ag.Context) -> list[str]:
        return [ag.BreakLoop()]  # type: ignore[list-item]

    def run(fn: Any) -> Any:
        return drive.run(ag.Runner(ag.sequential("s", [ag.function_agent("a", fn), says("b")])), "Go.")

    assert lines(run(stops)) == ["s/a: one", "s/a: [exit]"]
    _, error = failing(run(breaks), ag.InvalidOutputError)
    assert str(error) == (
        "s/a: the function returned BreakLoop, which its return annotation does not name; add it, "
        "as in `-> str | BreakLoop`, so that the graph has an edge for it"
    )


def test_a_function_knows_how_often_it_has_asked(disk: Disk) -> None:
    def quiz(ctx: ag.Context) -> list[str | ag.Ask]:
        said = f"{ctx.asked} of 2: {ctx.answer}."
        return [said, ag.Ask(f"Question {ctx.asked + 1}?")] if ctx.asked < 2 else [said]

    inner = ag.function_agent("inner", quiz)
    tree = ag.sequential(
        "s",
        [
            ag.loop("twice", [ag.function_agent("quiz", quiz)], max_iterations=2),
            ag.each("all", inner, lambda ctx: ["a"]),
        ],
    )
    heard = disk.run(tree)
    while heard[-1].kind == "interrupted":
        heard = disk.resume(tree, f"answer {len(disk.heard)}")
    asked = [(event.address, event.text[:4]) for event in disk.heard if event.kind == "message"]
    at = ["s/twice[0]/quiz", "s/twice[1]/quiz", "s/all/inner(0)"]
    assert asked == [(address, f"{number} of") for address in at for number in range(3)]
    assert disk.events(tree) == disk.heard

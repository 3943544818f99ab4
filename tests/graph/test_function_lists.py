"""A function agent may return a list: each item is taken in order, as if it were yielded."""

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
ITEMS = ["one", None, ag.Custom({"n": 2}), ag.SetValues(topic="bees"), AIMessage("three")]
KINDS = (
    "a string, a LangChain message, Exit(), BreakLoop(), TransferTo(...), Ask(...), Custom(...), "
    "SetValues(...) or None, or a list of these"
)


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def agent(request: pytest.FixtureRequest) -> Callable[[Items], ag.Agent]:
    """Return a builder of function agents from a function that returns the items."""
    return lambda items: ag.function_agent("a", request.param(items))


@pytest.mark.parametrize(
    ("items", "heard"),
    [
        (ITEMS, ["s/a: one", 's/a: [custom] {"n": 2}', "s/a: three", "s/b: bees"]),
        (tuple(ITEMS), ["s/a: one", 's/a: [custom] {"n": 2}', "s/a: three", "s/b: bees"]),
        ([], ["s/b: None"]),
        (["one", ag.Exit(), "two", object()], ["s/a: one", "s/a: [exit]"]),
    ],
    ids=["a list", "a tuple", "an empty list", "nothing is taken after an item that ends the agent"],
)
def test_each_item_is_taken_in_order(disk: Disk, agent: Any, items: Any, heard: list[str]) -> None:
    after = ag.function_agent("b", lambda ctx: str(ctx.values.get("topic")))
    tree = ag.sequential("s", [agent(lambda ctx: items), after])
    assert lines(disk.run(tree)) == heard
    assert disk.events(tree) == disk.told


def test_items_before_a_question_are_kept(disk: Disk, agent: Any) -> None:
    tree = agent(lambda ctx: [f"So {ctx.answer}."] if ctx.answered else ["Well.", ag.Ask("Print?")])
    assert lines(disk.run(tree)) == ["a: Well.", "a: [asks] Print?"]
    assert lines(disk.resume(tree, "no")) == ["a: So no."]


@pytest.mark.parametrize("wrong", [3, ["two"]], ids=repr)
def test_an_unknown_item_is_refused(drive: Drive, agent: Any, wrong: Any) -> None:
    tree = agent(lambda ctx: ["one", wrong])
    _, error = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    assert str(error) == f"a: the function gave {wrong!r}; return or yield {KINDS}"


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
        "s/a: the function gave BreakLoop, which its return annotation does not name; add it, as in "
        "`-> str | BreakLoop`, so that the graph has an edge for it"
    )

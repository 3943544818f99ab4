"""A function agent may return a list: each item is taken in order, as if it were yielded."""

import pytest
from helpers import failing, fresh, says
from langchain_core.messages import AIMessage

import agentgraph as ag
from agentgraph.testing import transcript

ITEMS = ["one", None, ag.Custom({"n": 2}), ag.SetValues(topic="bees"), AIMessage("three")]


def plain(items):
    def fn(ctx):
        return items(ctx)

    return fn


def coroutine(items):
    async def fn(ctx):
        return items(ctx)

    return fn


def generator(items):
    def fn(ctx):
        return items(ctx)
        yield

    return fn


def yielding(items):
    def fn(ctx):
        yield items(ctx)

    return fn


def async_yielding(items):
    async def fn(ctx):
        yield items(ctx)

    return fn


WAYS = [plain, coroutine, generator, yielding, async_yielding]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def lister(request):
    """Return what makes a function agent of a function from a context to a list."""
    return lambda items: ag.function_agent("a", request.param(items))


def heard(drive, path, *agents):
    tree = ag.sequential("s", list(agents))
    told = transcript(fresh(drive, path, tree, "run", "Go.", thread_id="t"))
    assert transcript(fresh(drive, path, tree, "events", "t")) == told
    return told


@pytest.mark.parametrize("kind", [list, tuple])
def test_each_item_is_taken_in_order(drive, tmp_path, lister, kind):
    after = ag.function_agent("b", lambda ctx: ctx.values["topic"])
    assert heard(drive, tmp_path / "x.db", lister(lambda ctx: kind(ITEMS)), after) == [
        "s/a: one",
        's/a: [custom] {"n": 2}',
        "s/a: three",
        "s/a/b: bees",
    ]


def test_an_empty_list_is_nothing(drive, tmp_path, lister):
    assert heard(drive, tmp_path / "x.db", lister(lambda ctx: []), says("b")) == ["s/a/b: b"]


def test_nothing_is_taken_after_an_item_that_ends_the_agent(drive, tmp_path, lister):
    agent = lister(lambda ctx: ["one", ag.Exit(), "two", object()])
    assert heard(drive, tmp_path / "x.db", agent, says("b")) == ["s/a: one", "s/a: [exit]"]


def test_what_comes_before_a_question_is_kept(drive, tmp_path, lister):
    agent = lister(lambda ctx: [f"So {ctx.answer}."] if ctx.answered else ["Well.", ag.Ask("Print?")])
    path = tmp_path / "x.db"
    assert heard(drive, path, agent) == ["s/a: Well.", "s/a: [asks] Print?"]
    tree = ag.sequential("s", [agent])
    assert transcript(fresh(drive, path, tree, "resume", "t", "no")) == ["s/a: So no."]


def test_an_item_that_is_none_of_these_is_refused(drive, lister):
    for wrong in (3, ["two"]):
        agent = lister(lambda ctx, wrong=wrong: ["one", wrong])
        _, error = failing(drive.run(ag.Runner(agent), "Go."), ag.InvalidOutputError)
        assert str(error) == (
            f"a: the function gave {wrong!r}; return or yield a string, a LangChain message, Exit(), "
            "BreakLoop(), TransferTo(...), Ask(...), Custom(...), SetValues(...) or None, or a list of "
            "these"
        )


def test_an_annotated_list_may_do_what_its_items_may(drive):
    def stops(ctx) -> list[str | ag.Exit]:
        return ["one", ag.Exit()]

    def may_stop(ctx) -> list[ag.Exit]:
        return []

    def breaks(ctx) -> list[str]:
        return [ag.BreakLoop()]

    def ran(fn):
        return drive.run(ag.Runner(ag.sequential("s", [ag.function_agent("a", fn), says("b")])), "Go.")

    assert transcript(ran(stops)) == ["s/a: one", "s/a: [exit]"]
    assert transcript(ran(may_stop)) == ["s/a/b: b"]
    _, error = failing(ran(breaks), ag.InvalidOutputError)
    assert "the function gave BreakLoop, which its return annotation does not name" in str(error)

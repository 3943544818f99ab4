"""Trees that share a cache: what one agent said is never given as the words of another one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from helpers import Drive, foreign, lines, says, scripted
from helpers.cached import Cache
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langgraph.cache.memory import InMemoryCache
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import CachePolicy

import agentgraph as ag

pytestmark = pytest.mark.by_turns("drive")

Made = Callable[[str], ag.Agent]


@pytest.fixture
def cache() -> Cache:
    return InMemoryCache()


def function(said: str, **options: Any) -> ag.Agent:
    return ag.function_agent("desk", lambda ctx: said, cache_policy=CachePolicy(), **options)


def graph(built: Any, **options: Any) -> ag.Agent:
    return ag.graph_agent("desk", built, cache_policy=CachePolicy(), **options)


def runs(runnable: Any) -> ag.Agent:
    return ag.runnable_agent("desk", runnable, cache_policy=CachePolicy())


class Sayer:
    """An object with a method that is a function of a tree."""

    def __init__(self, text: str) -> None:
        self.text = text

    def say(self, ctx: ag.Context) -> str:
        return self.text


def say_by(text: str, ctx: ag.Context) -> str:
    return text


def by_default(said: str) -> ag.Agent:
    def fn(ctx: ag.Context, text: str = said) -> str:
        return text

    return ag.function_agent("desk", fn, cache_policy=CachePolicy())


def by_helper(said: str) -> ag.Agent:
    def helper() -> str:
        return said

    return ag.function_agent("desk", lambda ctx: helper(), cache_policy=CachePolicy())


def prompted(said: str) -> ag.Agent:
    """Return a graph of `create_agent` whose instruction alone differs, which its model repeats."""
    return graph(create_agent(scripted(lambda messages: messages[0].text), system_prompt=said))


def branching(said: str) -> ag.Agent:
    """Return a graph of the same nodes, of which another one is next."""
    builder = StateGraph(MessagesState)
    for each in ("A", "B"):
        builder.add_node(each, lambda state, each=each: {"messages": [AIMessage(each)]})
    builder.add_edge(START, said)
    builder.add_edge("A" if said == "B" else "B", "__end__")
    return graph(builder.compile())


def task(said: str) -> ag.Agent:
    @entrypoint()
    def answer(messages: Any) -> Any:
        return said

    return graph(answer, output=lambda result: result)


MADE: dict[str, Made] = {
    "a function": function,
    "a default": by_default,
    "a function that it calls": by_helper,
    "a partial": lambda said: ag.function_agent(
        "desk", partial(say_by, said), cache_policy=CachePolicy()
    ),
    "a method": lambda said: ag.function_agent("desk", Sayer(said).say, cache_policy=CachePolicy()),
    "a graph": lambda said: graph(foreign(lambda messages: said)),
    "the ways of a graph": branching,
    "a graph in a graph": lambda said: graph(
        foreign(
            lambda messages: foreign(lambda messages: said).invoke({"messages": messages})["messages"][
                -1:
            ]
        )
    ),
    "an entrypoint": task,
    "a model": lambda said: graph(create_agent(scripted(said))),
    "an instruction": prompted,
    "a tree": lambda said: graph(ag.compile_agent(ag.sequential("inner", [says("b"), function(said)]))),
    "a runnable": lambda said: runs(scripted(said)),
    "a prompt": lambda said: runs(
        ChatPromptTemplate([("system", said), ("placeholder", "{messages}")])
        | scripted(lambda messages: messages[0].text)
    ),
}


@pytest.mark.parametrize("kind", MADE)
def test_two_trees_of_the_same_names_have_entries_of_their_own(
    drive: Drive, cache: Cache, kind: str
) -> None:
    for _ in range(2):
        for said in ("A", "B"):
            runner = ag.Runner(ag.sequential("office", [MADE[kind](said)]), cache=cache)
            assert lines(drive.run(runner, "Go."))[-1] == f"office/desk: {said}"


@pytest.mark.parametrize("kind", MADE)
def test_a_tree_that_is_made_again_finds_what_it_said(drive: Drive, kind: str) -> None:
    kept = Counting()
    for _ in range(2):
        runner = ag.Runner(ag.sequential("office", [MADE[kind]("A")]), cache=kept)
        assert lines(drive.run(runner, "Go."))[-1] == "office/desk: A"
    assert kept.found == [False, True]


class Counting(InMemoryCache[Any]):
    """A cache that notes what was asked of it, and found."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[bool] = []

    def get(self, keys: Any) -> Any:
        given = super().get(keys)
        self.found.append(bool(given))
        return given

    async def aget(self, keys: Any) -> Any:
        return self.get(keys)


def test_trees_of_another_shape_have_entries_of_their_own(cache: Cache) -> None:
    left = ["1", "2", "3"]
    desk = ag.function_agent("desk", lambda ctx: left.pop(0), cache_policy=CachePolicy())
    trees = [
        ag.sequential("o", [desk]),
        ag.sequential("o", [desk, says("b")]),
        ag.parallel("o", [desk]),
    ]
    for _ in range(2):
        said = [ag.Runner(tree, cache=cache).invoke("Go.").events[0].text for tree in trees]
        assert said == ["1", "2", "3"]

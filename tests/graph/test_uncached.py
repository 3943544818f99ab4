"""What is not cached of an agent with a `cache_policy`: it runs again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Drive, asks, failing, in_turn, lines, retrying, says
from helpers.cached import Cache, Kept, Ran, Values, heard
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import CachePolicy, Command, interrupt

import agentgraph as ag

pytestmark = pytest.mark.by_turns("drive")


def test_without_a_cache_a_policy_does_nothing(drive: Drive, ran: Ran) -> None:
    def key_func(ctx: ag.Context) -> str:
        raise AssertionError

    runner = ag.Runner(ran.agent("a", cache_policy=CachePolicy(key_func=key_func)))
    assert [lines(heard(drive, runner, thread)) for thread in "12"] == [["a: a"]] * 2
    assert ran == ["a", "a"]


def test_without_a_policy_a_cache_does_nothing(drive: Drive, cache: Cache, ran: Ran) -> None:
    runner = ag.Runner(ran.agent("a", cache_policy=None), cache=cache)
    assert [lines(heard(drive, runner, thread)) for thread in "12"] == [["a: a"]] * 2
    assert ran == ["a", "a"]


def asks_once(ctx: ag.Context) -> Any:
    return f"So {ctx.answer}." if ctx.answered else ag.Ask("Well?")


def interrupts(ctx: ag.Context) -> str:
    return f"So {interrupt('Well?')}."


def graph_asks(messages: Any) -> str:
    return f"So {interrupt('Well?')}."


def asking(kind: str, ran: Ran) -> ag.Agent:
    if kind == "graph":
        return ran.graph("a", lambda messages: "Hm.", graph_asks)
    return ran.agent("a", "Hm.", asks_once if kind == "Ask" else interrupts)


@pytest.mark.parametrize("kind", ["Ask", "interrupt", "graph"])
@pytest.mark.parametrize("saver", ["memory", "sqlite"])
@pytest.mark.parametrize("in_branch", [False, True])
def test_an_activation_that_asks_is_not_cached(
    drive: Drive, tmp_path: Path, ran: Ran, kind: str, saver: str, in_branch: bool
) -> None:
    cache: Any = InMemoryCache()
    tree = asking(kind, ran)
    tree = ag.parallel("p", [tree, asks("b")]) if in_branch else tree
    at = "p/a" if in_branch else "a"
    for i, answer in enumerate(("yes", "no")):
        session = Kept(tree, drive, None if saver == "memory" else tmp_path / f"{i}.db", cache)
        asked = session.turn()
        assert {f"{at}: Hm.", f"{at}: [asks] Well?"} <= {*asked}
        assert f"{at}: So {answer}." in session.resume({at: answer})
    assert cache._cache == {}


@pytest.mark.parametrize("kind", ["Ask", "interrupt", "graph"])
@pytest.mark.parametrize("by_id", [False, True])
def test_a_bare_graph_does_not_cache_what_asked(ran: Ran, kind: str, by_id: bool) -> None:
    cache: Any = InMemoryCache()
    graph = ag.compile_agent(asking(kind, ran), cache=cache, checkpointer=InMemorySaver())
    for answer in ("yes", "no"):
        config: Any = {"configurable": {"thread_id": answer}}
        (question,) = graph.invoke({"messages": ["Go."]}, config)["__interrupt__"]
        resume = {question.id: answer} if by_id else answer
        said = graph.invoke(Command(resume=resume), config)["messages"]
        assert said[-1].text == f"So {answer}."
    assert cache._cache == {}


def test_a_question_that_waits_is_not_answered_by_the_cache(
    drive: Drive, cache: Cache, ran: Ran
) -> None:
    """Another thread, in which the agent does not ask, fills the cache under the same key."""

    def fn(ctx: ag.Context) -> str:
        is_first = ctx.config["configurable"]["thread_id"] == "1"
        return f"So {interrupt('Well?')}." if is_first else "No need."

    a = ran.agent("a", fn, cache_policy=CachePolicy(key_func=lambda ctx: "always"))
    runner = ag.Runner(ag.parallel("p", [a, asks("b")]), cache=cache)
    asked = [f"p/{name}: [asks] Well?" for name in "ab"]
    assert sorted(lines(drive.run(runner, "Go.", thread_id="1"))) == asked
    assert sorted(lines(drive.run(runner, "Go.", thread_id="2"))) == ["p/a: No need.", asked[1]]
    assert asked[0] in lines(drive.resume(runner, "1", {"p/b": "Hm."}))
    assert lines(drive.resume(runner, "1", {"p/a": "yes"})) == ["p/a: So yes."]
    assert sorted(lines(drive.run(runner, "Go.", thread_id="3"))) == ["p/a: No need.", asked[1]]
    assert ran == ["a"] * 4


@pytest.mark.parametrize("graph", [False, True])
def test_a_failure_is_not_cached(
    drive: Drive, cache: Cache, tmp_path: Path, ran: Ran, graph: bool
) -> None:
    fails_once = in_turn(ValueError("no"), "Yes.")
    a = ran.graph("a", lambda m: "Hm.", fails_once) if graph else ran.agent("a", "Hm.", fails_once)
    for i in range(3):
        session = Kept(ag.sequential("s", [says("b"), a]), drive, tmp_path / f"{i}.db", cache)
        if i == 0:
            with pytest.raises(ValueError, match="no"):
                session.turn()
            session.resume()
        else:
            session.turn()
    assert session.heard[-1].text == "Yes."
    assert lines(session.heard) == ["s/b: b", "s/a: Hm.", "s/a: Yes."]
    assert ran == ["a", "a"]


def test_a_run_that_is_left_caches_nothing_of_the_agent_under_way(cache: Cache, ran: Ran) -> None:
    async def waits_once(ctx: ag.Context) -> AsyncIterator[str]:
        ran.append("a")
        yield "Hm."
        if len(ran) == 1:
            await asyncio.Event().wait()
        yield "Yes."

    tree = ag.function_agent("a", waits_once, cache_policy=CachePolicy())
    session, events = Kept(tree, Async, None, cache), list[ag.AgentEvent]()
    session.follow("run", "Go.", thread_id="left", hear=events.append, left=1)
    assert lines(events) == ["a: Hm."]
    runner = ag.Runner(tree, cache=cache)
    assert [lines(heard(Async, runner, each)) for each in "12"] == [["a: Hm.", "a: Yes."]] * 2
    assert ran == ["a", "a"]


def test_a_value_that_a_reducer_refuses_is_not_cached(drive: Drive, cache: Cache, ran: Ran) -> None:
    a = ran.agent("a", ag.SetValues(log=5), "Hm.")
    runner = ag.Runner(a, cache=cache, values=Values)
    for thread in "12":
        failing(drive.run(runner, "Go.", thread_id=thread), ag.AgentGraphError)
    assert ran == ["a", "a"]


CHANGES: dict[str, Callable[[ag.Context], Any]] = {
    "removed": lambda ctx: RemoveMessage(id=ctx.entries[-1].message.id),
    "user's": lambda ctx: HumanMessage("*", id=ctx.entries[0].message.id),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_earlier_messages_is_not_cached(
    drive: Drive, cache: Cache, ran: Ran, change: str
) -> None:
    runner = ag.Runner(
        ag.sequential("s", [ran.agent("a"), ran.agent("b", CHANGES[change])]), cache=cache
    )
    miss, again = heard(drive, runner, "1"), heard(drive, runner, "2")
    assert lines(again) == lines(miss)
    assert ran == ["a", "b", "b"]


def test_a_try_that_succeeds_is_cached(cache: Cache, ran: Ran) -> None:
    def fails_once(given: Any) -> str:
        if ran.count("a") % 2:
            raise ValueError("no")
        return "Yes."

    for a in (
        ran.agent("a", "Hm.", fails_once, retry=retrying(), timeout=60),
        ran.graph("a", lambda m: "Hm.", fails_once, retry=retrying(), timeout=60),
    ):
        ran.clear()
        runner = ag.Runner(a, cache=cache)
        for thread in "12":
            assert lines(heard(Async, runner, thread)) == ["a: Hm.", "a: Yes."]
        assert ran == ["a", "a"]

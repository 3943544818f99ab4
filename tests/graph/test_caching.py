"""`cache_policy=`: an agent that is given the same again gives the same again, and does not run.

Cached graphs are in `test_cached_graphs.py`, what is not cached in `test_uncached.py`.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from helpers import Async, Drive, Sync, chat, failing, foreign, lines, notes, says, scripted
from helpers.cached import Cache, Kept, Ran, Values, heard, message
from langchain_core.caches import InMemoryCache as ModelCache
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, ToolMessage
from langgraph._internal._constants import CONFIG_KEY_CACHE
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_stream_writer
from langgraph.types import CachePolicy
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.graph.nodes.caching import canonical
from agentgraph.testing import call, calls

GIVEN: dict[str, list[Any]] = {
    "texts": ["One.", "Two."],
    "nothing": [None],
    "messages": [message(1), ToolMessage("hit", name="look", tool_call_id="1")],
    "chunks": [AIMessageChunk("Bees ", id="1"), AIMessageChunk("hum.", id="1"), "Yes."],
    "custom data between texts": ["One.", ag.Custom({"n": [1]}), "Two.", ag.Custom(None)],
    "LangGraph's writer": ["One.", lambda ctx: get_stream_writer()({"n": 1}), "Two."],
    "values": [ag.SetValues(topic="bees", n=[1]), "One.", ag.SetValues(n={"two": 2})],
    "merged values": [ag.SetValues(log=["a"]), "One.", ag.SetValues(log=["b"])],
    "an exit": ["One.", ag.Custom(1), ag.Exit(), "never"],
    "a break": ["One.", ag.BreakLoop(), "never"],
    "its message, changed": [AIMessage("One.", id="x"), AIMessage("Two.", id="x"), "Three."],
    "its message, removed": [AIMessage("One.", id="x"), "Two.", RemoveMessage(id="x")],
}
"""What an agent yields."""


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.by_turns("drive", "cache")
def test_a_hit_gives_what_the_miss_gave_under_new_ids(
    drive: Drive, cache: Cache, ran: Ran, given: str
) -> None:
    a = ran.agent("a", *GIVEN[given], output_key="out")
    tree = ag.sequential("s", [ag.loop("l", [a], max_iterations=1), notes("z", "out", "log", "n")])
    runner = ag.Runner(tree, values=Values, cache=cache)
    miss, hit = heard(drive, runner, "1"), heard(drive, runner, "2")
    assert ran == ["a"]
    assert lines(hit) == lines(miss)
    assert not {each.id for each in hit} & {each.id for each in miss}
    assert runner.thread("2").values == runner.thread("1").values


def test_what_a_function_returns_at_once_is_cached(drive: Drive, cache: Cache, ran: Ran) -> None:
    def fn(ctx: ag.Context) -> list[Any]:
        ran.append("a")
        changed = [AIMessage(text, id="x") for text in ("Two.", "Three.")]
        return ["One.", *changed, ag.SetValues(n=1), AIMessage("Four.", id="y"), RemoveMessage(id="y")]

    runner = ag.Runner(ag.function_agent("a", fn, cache_policy=CachePolicy()), cache=cache)
    first, second = (lines(heard(drive, runner, thread)) for thread in "12")
    assert first == second == ["a: One.", "a: Three.", "a: [values] n"]
    assert (ran, runner.thread("2").values) == (["a"], {"n": 1})


def test_cached_values_conflict_as_written_ones_do(drive: Drive, cache: Cache, ran: Ran) -> None:
    tree = ag.parallel("p", [ran.agent(name, ag.SetValues(topic=name)) for name in "ab"])
    runner = ag.Runner(tree, cache=cache)
    for thread in "12":
        _, error = failing(drive.run(runner, "Go.", thread_id=thread), ag.ValueConflictError)
        assert str(error).startswith("p: p/a wrote 'a' and p/b wrote 'b' as the value 'topic'")
    assert sorted(ran) == ["a", "b"]


def test_a_hit_uses_no_tokens_and_is_otherwise_whole(cache: Cache, ran: Ran) -> None:
    runner = ag.Runner(ran.agent("a", message(3)), cache=cache)
    results = [runner.invoke("Go.") for _ in range(2)]
    assert [result.usage.total["total_tokens"] for result in results] == [12, 0]
    hit = results[1].message
    assert isinstance(hit, AIMessage)
    assert (hit.content, hit.tool_calls) == (message(3).content, message(3).tool_calls)
    assert (hit.additional_kwargs, hit.response_metadata["model_name"]) == ({"more": [3]}, "m")


def called(agent: ag.Agent) -> ag.Agent:
    two = calls(call("a", request="One."), call("a", request="Two."))
    return chat("boss", *[two, "Done."] * 4, tools=[ag.agent_tool(agent)])


def below(agent: ag.Agent) -> ag.Agent:
    return chat("desk", *[calls(call("transfer_to_a"))] * 2, sub_agents=[agent, says("b")])


def planned(agent: ag.Agent) -> ag.Agent:
    steps = [{"name": each, "task": each, "depends_on": []} for each in ("one", "two")]
    planner = scripted(*[json.dumps({"steps": steps})] * 2)
    replanner = scripted(*['{"answer": "Done."}'] * 2)
    return ag.plan_execute("p", planner=planner, executor=agent, replanner=replanner, parallel=True)


PLACES: dict[str, tuple[Callable[[ag.Agent], ag.Agent], list[str]]] = {
    "branch": (lambda a: ag.parallel("p", [a, says("b")]), ["a"]),
    "step": (lambda a: ag.workflow("w", [says("b"), ag.step(a, depends_on=["b"])]), ["a"]),
    "tool": (called, ["a", "a"]),
    "each of several items": (planned, ["a", "a"]),
    "sub-agent": (below, ["a"]),
    "loop": (lambda a: ag.loop("l", [a], max_iterations=3), ["a", "a", "a"]),
    "two places": (lambda a: ag.sequential("s", [a, ag.parallel("p", [a, says("b")])]), ["a", "a"]),
    "checked": (lambda a: ag.validated(a, lambda text: None if text == "a" else "No."), ["a"]),
}
"""Where the agent `a` is, and what runs in the first of two runs."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.by_turns("drive", "cache")
def test_an_agent_is_cached_wherever_it_is(drive: Drive, cache: Cache, ran: Ran, place: str) -> None:
    tree, first = PLACES[place]
    runner = ag.Runner(tree(ran.agent("a")), cache=cache)
    miss, hit = heard(drive, runner, "1"), heard(drive, runner, "2")
    assert ran == first
    assert sorted(lines(hit)) == sorted(lines(miss))


def test_a_cached_transfer_hands_over(drive: Drive, cache: Cache, ran: Ran) -> None:
    a = ran.agent("a", "Hm.", ag.TransferTo("desk"))
    desk = chat("desk", *[calls(call("transfer_to_a")), "Bye."] * 2, sub_agents=[a])
    runner = ag.Runner(desk, cache=cache)
    miss, hit = heard(drive, runner, "1"), heard(drive, runner, "2")
    assert ran == ["a"]
    assert lines(hit) == lines(miss)
    assert lines(hit)[-3:] == ["desk[1]/a: Hm.", "desk[1]/a: [transfer_to] desk", "desk[2]: Bye."]


def test_a_cached_transfer_to_an_agent_that_is_gone_is_not_used(cache: Cache, ran: Ran) -> None:
    a = ran.agent("a", lambda ctx: ag.TransferTo("desk") if len(ran) == 1 else "Hm.")

    def said(*, returns: bool) -> list[str]:
        replies = [calls(call("transfer_to_a")), "Bye."]
        return run(chat("desk", *replies, sub_agents=[a], sub_agents_return=returns), cache)[3:]

    assert said(returns=False) == ["desk[1]/a: [transfer_to] desk", "desk[2]: Bye."]
    assert said(returns=True) == ["desk[1]/a: Hm.", "desk[2]: Bye."]


def test_until_is_asked_after_a_hit(drive: Drive, cache: Cache, ran: Ran) -> None:
    asked: list[str] = []

    def until(ctx: ag.Context) -> bool:
        asked.append(ctx.messages[-1].text)
        return ctx.iteration == 1

    draft = ran.agent("a", lambda ctx: f"Draft {ctx.iteration}.")
    runner = ag.Runner(ag.loop("l", [draft], max_iterations=9, until=until), cache=cache)
    assert lines(heard(drive, runner, "1")) == lines(heard(drive, runner, "2"))
    assert (ran, asked) == (["a", "a"], ["Draft 0.", "Draft 1."] * 2)


def test_a_check_is_made_after_a_hit(drive: Drive, cache: Cache, ran: Ran) -> None:
    tree = ag.validated(
        ran.agent("a", lambda ctx: f"Try {len(ran)}."), lambda text: None if "2" in text else "Again."
    )
    runner = ag.Runner(tree, cache=cache)
    miss, hit = heard(drive, runner, "1"), heard(drive, runner, "2")
    assert lines(hit) == lines(miss)
    assert [lines(hit)[0], lines(hit)[-1]] == ["a: Try 1.", "a{1}: Try 2."]
    assert ran == ["a", "a"]


def test_sync_and_async_runs_of_any_function_share_a_cache(cache: Cache, ran: Ran) -> None:
    def plain(ctx: ag.Context) -> str:
        ran.append("plain")
        return "Hm."

    async def coroutine(ctx: ag.Context) -> str:
        ran.append("coroutine")
        return "Hm."

    for fn in (plain, coroutine):
        cached = ag.agent(name="a", cache_policy=CachePolicy())(fn)
        runner = ag.Runner(cached, cache=cache)
        assert lines(heard(Async, runner, "1")) == lines(heard(Sync, runner, "2")) == ["a: Hm."]
    assert ran == ["plain", "coroutine"]


def test_a_runnable_is_cached_and_streamed_only_when_it_runs(drive: Drive, cache: Cache) -> None:
    runner = ag.Runner(
        ag.runnable_agent("a", scripted("Bees hum."), cache_policy=CachePolicy()), cache=cache
    )
    streamed = []
    for thread in "12":
        events = list(drive.run(runner, "Go.", thread_id=thread, stream=True))
        assert lines(events) == ["a: Bees hum."]
        streamed.append("".join(each.text for each in events if each.partial))
    assert streamed == ["Bees hum.", ""]


def run(tree: ag.Agent, cache: Any, text: Any = "Go.", **options: Any) -> list[str]:
    """Return the lines of a turn on a new thread of a new runner."""
    return lines(ag.Runner(tree, cache=cache).run(text, **options))


def test_the_default_key_is_the_messages_and_the_values(cache: Cache, ran: Ran) -> None:
    a = ran.agent("a", lambda ctx: f"run {len(ran)}")
    table = [
        ("Go.", {}, 1),
        ("Go.", {}, 1),
        (HumanMessage("Go.", id="7", response_metadata={"n": 1}), {}, 1),
        ("Stop.", {}, 2),
        (HumanMessage("Go.", name="Ada"), {}, 3),
        (["Go.", "Go."], {}, 4),
        ("Go.", {"topic": "bees", "n": {"one": 1, "two": [2]}}, 5),
        ("Go.", {"n": {"two": [2], "one": 1}, "topic": "bees"}, 5),
        ("Go.", {"topic": "bees"}, 6),
        ("Go.", {"topic": "1"}, 7),
        ("Go.", {"topic": 1}, 8),
        ("Go.", {"topic": {1: "a", "1": "b"}}, 9),
        ("Go.", {"topic": {"1": "b", 1: "a"}}, 9),
        ("Go.", {}, 1),
    ]
    for text, values, number in table:
        assert run(a, cache, text, values=values) == [f"a: run {number}"]


def test_history_chooses_the_messages_of_the_key(cache: Cache, ran: Ran) -> None:
    for history, times in (("input", 1), ("shared", 3)):
        ran.clear()
        words = says("b", "One.", "Two.", "Three.")
        tree = ag.loop(history, [ran.agent("a", history=history), words], max_iterations=3)
        run(tree, cache)
        assert ran == ["a"] * times


def test_the_key_of_a_later_turn_is_the_same_in_every_saver(
    drive: Drive, cache: Cache, tmp_path: Path, ran: Ran
) -> None:
    hit = ToolMessage("hit", name="look", tool_call_id="1")
    a = ran.agent("a", message(1), hit, ag.SetValues(log=["a"]))
    for path in (None, tmp_path / "1.db", tmp_path / "2.db"):
        session = Kept(ag.sequential("s", [says("b", "One."), a]), drive, path, cache)
        assert session.turn("Go.") == session.turn("Again.")
    assert ran == ["a", "a"]


@dataclass
class Point:
    names: set[str]


class Model(BaseModel):
    said: AIMessage


def test_equal_data_has_one_canonical_form() -> None:
    bees = "".join(["be", "es"])
    table: list[tuple[Any, Any]] = [
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
        ([bees, bees], ["bees", "be" + bees[2:]]),
        (("a",), ["a"]),
        (Point({"a", "b", "c"}), Point({"c", "b", "a"})),
        (Model(said=AIMessage("Hm.", id="1")), Model(said=AIMessage("Hm.", id="2"))),
    ]
    for one, other in table:
        assert canonical(one) == canonical(other)
    assert canonical(AIMessage("Hm.")) != canonical(HumanMessage("Hm."))
    assert canonical({"a"}) != canonical(["a"])


INNER = foreign(lambda messages: "Hm.")


@pytest.mark.parametrize("key", ["text", b"bytes", "", "\u00fc"])
def test_key_func_makes_the_key_of_a_context(drive: Drive, cache: Cache, ran: Ran, key: Any) -> None:
    asked: list[Any] = []

    def key_func(ctx: ag.Context) -> Any:
        asked.append([ctx.name, ctx.address, [each.text for each in ctx.messages], dict(ctx.values)])
        return key

    policy = CachePolicy(key_func=key_func)
    agents = [ran.agent("a", cache_policy=policy), ag.graph_agent("b", INNER, cache_policy=policy)]
    runner = ag.Runner(ag.sequential("s", agents), cache=cache)
    for text in ("One.", "Two."):
        list(drive.run(runner, text, values={"n": 1}))
    assert ran == ["a"]
    assert asked[:2] == [
        ["a", "s/a", ["One."], {"n": 1}],
        ["b", "s/b", ["One.", "[a] said: a"], {"n": 1}],
    ]
    assert len(asked) == 4


class Noted(InMemoryCache[Any]):
    """A cache that notes for how long it is to keep an entry."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[Any] = []

    def set(self, keys: Any) -> None:
        self.seconds += [ttl for _, ttl in keys.values()]
        super().set(keys)


def test_an_entry_is_kept_for_the_time_of_its_policy(drive: Drive, ran: Ran) -> None:
    for ttl in (None, 60, 1e-9):
        noted = Noted()
        runner = ag.Runner(ran.agent(f"a{ttl}", cache_policy=CachePolicy(ttl=ttl)), cache=noted)
        for thread in "12":
            heard(drive, runner, thread)
        assert noted.seconds == ([1e-9, 1e-9] if ttl == 1e-9 else [ttl])
    assert ran == ["aNone", "a60", "a1e-09", "a1e-09"]


def test_agents_and_trees_that_share_a_cache_do_not_mix_entries(cache: Cache, ran: Ran) -> None:
    def made(name: str, said: str) -> ag.Agent:
        return ran.agent(name, said)

    trees = [
        made("a", "1"),
        made("b", "2"),
        ag.sequential("s", [made("a", "3")]),
        ag.sequential("s", [made("b", "4"), says("z")]),
        ag.loop("s", [ag.sequential("t", [made("a", "5")])], max_iterations=1),
        ag.sequential("u", [ag.function_agent("a", lambda ctx: "6", cache_policy=CachePolicy())]),
        ag.graph_agent("a", foreign(lambda messages: "7"), cache_policy=CachePolicy()),
    ]
    first = [run(tree, cache) for tree in trees]
    assert [said[0][-1] for said in first] == ["1", "2", "3", "4", "5", "6", "7"]
    assert [run(tree, cache) for tree in trees] == first
    assert ran == ["a", "b", "a", "b", "a"]


class Odd:
    def __repr__(self) -> str:
        return "Odd()"


def test_what_cannot_be_a_key_or_an_entry_is_an_error_of_the_agent(cache: Cache, ran: Ran) -> None:
    def keyed(key: Any) -> ag.Agent:
        return ran.agent("a", cache_policy=CachePolicy(key_func=lambda ctx: key))

    message = AIMessage("Hm.", additional_kwargs={"odd": Odd()})
    loop: list[Any] = []
    loop.append(loop)
    unknown = "Type is not msgpack serializable: Odd"
    plain = "use plain data: texts, numbers, lists, dicts"
    no_key = "a: its cache_policy cannot make a key of what the agent is given"
    instead = f"{plain}; or pass CachePolicy(key_func=...)"
    table: list[tuple[ag.Agent, dict[str, Any], str]] = [
        (keyed(3), {}, "a: the key_func of its cache_policy returned 3; return a text, or bytes"),
        (keyed(None), {}, "a: the key_func of its cache_policy returned None; return a text, or bytes"),
        (ran.agent("a"), {"odd": Odd()}, f"{no_key} ({unknown}); {instead}"),
        (ran.agent("a"), {"odd": loop}, f"{no_key} (it is nested too deeply); {instead}"),
        (
            ran.agent("a", message),
            {},
            f"a: its output cannot be cached ({unknown[:-3]}AIMessage); {plain}; "
            "or leave out its cache_policy. The step can be tried again",
        ),
    ]
    for tree, values, text in table:
        graph = ag.compile_agent(tree, cache=cache)
        with pytest.raises(ag.AgentGraphError) as caught:
            graph.invoke({"messages": ["Go."], "values": values})
        assert str(caught.value).startswith(text)
    assert ran == ["a"]


def test_clear_cache_clears_agents_in_all_lanes(drive: Drive, cache: Cache, ran: Ran) -> None:
    steps = [ran.agent("b"), ag.parallel("p", [ran.agent("c"), says("d")]), called(ran.agent("a"))]
    graph = ag.compile_agent(ag.sequential("s", steps), cache=cache)
    found = []
    for nodes in (None, ["c"], ["b", "a"], None):
        graph.invoke({"messages": ["Go."]})
        if drive is Sync:
            graph.clear_cache(nodes)
        else:
            asyncio.run(graph.aclear_cache(nodes))
        found.append("".join(sorted(ran)))
        ran.clear()
    assert found == ["aabc", "aabc", "c", "aab"]


def test_the_cache_of_a_config_is_used_before_that_of_the_graph(cache: Cache, ran: Ran) -> None:
    graph = ag.compile_agent(ag.parallel("p", [ran.agent("a"), says("b")]), cache=InMemoryCache())
    config: Any = {"configurable": {CONFIG_KEY_CACHE: cache}}
    for given in (config, None, None, config):
        said = graph.invoke({"messages": ["Go."]}, given)["messages"]
        assert sorted(each.text for each in said) == ["Go.", "a", "b"]
    assert ran == ["a", "a"]


class Salted(JsonPlusSerializer):
    """A serializer that never gives the same bytes again, as one that encrypts."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = super().dumps_typed(obj)
        return kind, uuid4().bytes + data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return super().loads_typed((data[0], data[1][16:]))


def test_a_cache_may_encrypt(drive: Drive, ran: Ran) -> None:
    runner = ag.Runner(ran.agent("a"), cache=InMemoryCache(serde=Salted()))
    assert lines(heard(drive, runner, "1")) == lines(heard(drive, runner, "2")) == ["a: a"]
    assert ran == ["a"]


def test_a_cache_of_another_kind_is_refused(ran: Ran) -> None:
    for make in (ag.compile_agent, ag.Runner):
        with pytest.raises(ag.AgentGraphError) as caught:
            make(ran.agent("a"), cache=ModelCache())
        assert "is not a cache of LangGraph; pass one, such as langgraph.cache" in str(caught.value)


def test_a_graph_without_a_cache_has_none_to_clear(ran: Ran) -> None:
    with pytest.raises(ValueError, match="No cache is set"):
        ag.compile_agent(ran.agent("a")).clear_cache()


class Full(InMemoryCache[Any]):
    """A cache that cannot store anything."""

    def set(self, pairs: Any) -> None:
        raise OSError("disk full")

    async def aset(self, pairs: Any) -> None:
        self.set(pairs)


def test_a_cache_that_cannot_store_loses_no_work(drive: Drive, ran: Ran) -> None:
    agent = ran.agent("a", cache_policy=CachePolicy())
    runner = ag.Runner(agent, cache=Full())
    with pytest.warns(
        RuntimeWarning, match=r"a: the cache did not store the agent's output \(disk full"
    ):
        assert lines(drive.run(runner, "Go.", thread_id="t")) == ["a: a"]
    assert ran == ["a"]

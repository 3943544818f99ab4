"""What crosses a saver beside the values of a run has one type on both sides of a question, too."""

import time
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from helpers import asks, foreign, gives, middleware, same, scripted
from langchain.agents.middleware import AgentState
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send
from pydantic import BaseModel
from test_types_kept import GIVEN, Threads, check, is_async, threads
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls

__all__ = ["is_async", "threads"]


class Table(BaseModel):
    rows: int = 5


def told(result: Any, again: Any) -> list[list[Any]]:
    """Return what the messages of a run and of its thread carry, live and replayed."""
    return [
        [
            (each.message.additional_kwargs, getattr(each.message, "artifact", None))
            for each in events
            if each.kind == "message" and each.message.id in ("one", "two")
        ]
        for events in (result.events, again)
    ]


def test_messages_are_the_same_live_and_replayed(threads: Threads) -> None:
    read: list[Any] = []
    said = AIMessage("x", id="one", additional_kwargs={"at": (1, (2,)), "words": Counter("a")})
    look = ag.function_agent("look", lambda ctx: read.append(ctx.entries[-1].message.additional_kwargs))
    tree = ag.sequential("s", [gives("a", said), look, asks("h")])
    paused = threads.call(tree, "invoke", "Go.", thread_id="t")
    live, replayed = told(paused, threads.call(tree, "events", "t"))
    kept = [({"at": [1, [2]], "words": {"a": 1}}, None)]
    assert live == replayed == kept
    assert same(live, kept)
    assert same(read, [kept[0][0]])


@pytest.mark.parametrize("asked", [False, True], ids=["no pause", "a pause"])
def test_an_artifact_is_of_one_class_live_and_replayed(threads: Threads, asked: bool) -> None:
    rows: list[Any] = []

    def load() -> Any:
        """Load a table."""
        return ToolMessage("Loaded.", tool_call_id="1", artifact=Table(), id="two")

    def count(ctx: ag.Context[Any]) -> str:
        """Count."""
        rows.extend(each.artifact for each in ctx.messages if isinstance(each, ToolMessage))
        return "Counted."

    script = [calls(call("load", "1")), calls(call("count", "2")), "Done."]
    tree = ag.chat_agent(
        "clerk", scripted(*script), tools=[load, count], approve=["count"] if asked else []
    )
    options: Any = (
        {"values": None, "allow": [Table]} if threads.saver != "LangGraph's in memory" else {}
    )
    result = threads.call(tree, "invoke", "Go.", thread_id="t", runner=options)
    live, replayed = told(result, threads.call(tree, "events", "t", runner=options))
    if asked:
        answer = {"decisions": [{"type": "approve"}]}
        threads.call(tree, "invoke", thread_id="t", answers=answer, runner=options)
    assert live == replayed
    assert same([each for _, each in live], rows[:1])


def test_an_answer_has_one_type(threads: Threads) -> None:
    read: list[Any] = []

    def ask(ctx: Any) -> Any:
        if ctx.answered:
            read.append(ctx.answer)
        return "Done." if ctx.asked == 2 else ag.Ask(f"{ctx.asked}?")

    tree = ag.function_agent("f", ask)
    threads.call(tree, "invoke", "Go.", thread_id="t")
    given = {"at": (1, (2,))}
    for _ in range(2):
        threads.call(tree, "invoke", thread_id="t", answers=[given])
    assert same(read, [[{"at": [1, [2]]}]] * 2)


def test_a_default_has_one_type(threads: Threads) -> None:
    read: list[Any] = []

    def ask(ctx: Any) -> Any:
        read.extend([ctx.answer] if ctx.answered else [])
        return "Done." if ctx.answered else ag.Ask("?", timeout=0.01, default={"at": (1, (2,))})

    tree = ag.function_agent("f", ask)
    threads.call(tree, "invoke", "Go.", thread_id="t")
    time.sleep(0.02)
    done = threads.call(tree, "invoke", thread_id="t")
    assert same(read, [{"at": [1, [2]]}])
    events = [*done.events, *threads.call(tree, "events", "t")]
    defaults = [each.action.default for each in events if each.kind == "default"]
    assert same([each.answer for each in defaults], [{"at": [1, [2]]}] * 2)


def test_a_reply_has_one_type_over_a_question(threads: Threads) -> None:
    read: list[Any] = []

    def run(ctx: Any) -> Any:
        reply = ctx.run("w", "Go.")
        read.append((reply.values["place"], reply.values["other"], reply.data))
        return "Done." if ctx.answered else ag.Ask("Well?")

    worker = ag.function_agent(
        "w", lambda ctx: ["x", ag.SetValues(place=(1, 2), other=(3,), towns=GIVEN["towns"])]
    )
    tree = ag.function_agent("f", run, agents=[worker])
    threads.call(tree, "invoke", "Go.", thread_id="t")
    done = threads.call(tree, "invoke", thread_id="t", answers="yes")
    assert done.status == "done"
    assert same(read, [((1, 2), [3], None)] * 2)


class Rounds(AgentState[Any]):
    at: Any


def test_the_state_of_middleware_has_one_type_over_a_question(threads: Threads) -> None:
    read: list[Any] = []

    def before(state: Any) -> Any:
        read.append(state.get("at"))
        return {"at": (1, Counter("a"))}

    def look() -> str:
        """Look."""
        return "Looked."

    script = [calls(call("look", "1")), calls(call("look", "2")), "Done."]
    rounds = middleware(before_model=before, state=Rounds)
    tree = ag.chat_agent("c", scripted(*script), tools=[look], approve=["look"], middleware=[rounds])
    threads.call(tree, "invoke", "Go.", thread_id="t")
    for _ in range(2):
        answer = {"decisions": [{"type": "approve"}]}
        threads.call(tree, "invoke", thread_id="t", answers=answer)
    assert same(read, [None, [1, {"a": 1}], [1, {"a": 1}]])


def test_values_of_a_task_have_their_declared_types_over_a_question(threads: Threads) -> None:
    read: list[Any] = []

    def bob(ctx: Any) -> Any:
        read.append({name: ctx.values[name] for name in ("place", "votes", "walk", "plain")})
        return "Done." if ctx.answered else ag.Ask("Well?")

    given = {name: GIVEN[name] for name in ("place", "votes", "walk")}

    def hand() -> Any:
        """Hand over."""
        sent = Send("bob", {**given, "plain": (1,)})
        return Command(goto=sent, graph=Command.PARENT)

    ann = ag.chat_agent(
        "ann",
        scripted(calls(call("hand", "1")), "Ended."),
        tools=[hand],
        sub_agents=[ag.function_agent("bob", bob)],
    )
    threads.call(ann, "invoke", "Go.", thread_id="t")
    threads.call(ann, "invoke", thread_id="t", answers="yes")
    assert len(read) == 2
    for values in read:
        check(values, {**given, "plain": [1]})


class Sent(MessagesState):
    done: Annotated[list[str], lambda old, new: [*(old or []), *new]]


def test_what_a_flat_graph_sends_has_one_type_over_a_question(threads: Threads) -> None:
    read: list[Any] = []

    def work(state: Any) -> Any:
        from langgraph.types import interrupt

        read.append(state["at"])
        interrupt("Well?")
        return {"done": ["x"]}

    graph = StateGraph(Sent).add_node("begin", lambda state: {"messages": [AIMessage("Begun.")]})
    graph.add_node("work", work).add_edge(START, "begin")
    graph.add_conditional_edges("begin", lambda state: [Send("work", {"at": (1, (2,))})], ["work"])
    tree = ag.graph_agent("g", graph.compile(), flat=True)
    threads.call(tree, "invoke", "Go.", thread_id="t")
    done = threads.call(tree, "invoke", thread_id="t", answers="yes")
    assert done.status == "done"
    assert same(read, [[1, [2]]] * 2)


def test_a_value_that_settles_a_conflict_has_its_declared_type(threads: Threads) -> None:
    read: list[Any] = []
    branches = [gives(n, ag.SetValues(place=(i, i))) for i, n in enumerate("ab")]
    look = ag.function_agent("look", lambda ctx: read.append(ctx.values["place"]))
    tree = ag.sequential("s", [ag.parallel("p", branches), look, asks("h"), look])
    with pytest.raises(ag.ValueConflictError):
        threads.call(tree, "invoke", "Go.", thread_id="t")
    threads.call(tree, "resume", "t", values={"place": (5, 6)})
    threads.call(tree, "invoke", thread_id="t", answers="yes")
    assert same(read, [(5, 6)] * 2)


@dataclass
class Fragile:
    """A class whose objects cannot be saved: nobody allows it."""


def test_what_a_strict_file_refuses_is_refused_in_memory_in_the_same_words(tmp_path: Any) -> None:
    words = []
    for saver in (None, tmp_path / "x.db"):
        tree = gives("w", ag.SetValues(it=Fragile()))
        with ag.Runner(tree, checkpointer=saver) as runner:
            with pytest.raises(ag.InvalidOutputError) as refused:
                runner.invoke("Go.")
            words.append(str(refused.value))
            with pytest.raises(ag.AgentGraphError) as given:
                runner.invoke("Go.", values={"it": Fragile()})
            words.append(str(given.value))
    assert words[:2] == words[2:]


def test_messages_of_a_nested_graph_are_plain_at_once(threads: Threads) -> None:
    said = AIMessage("x", id="one", additional_kwargs={"at": (1,)})
    graph = foreign(lambda _: {"messages": [said]})
    tree = ag.sequential("s", [ag.graph_agent("g", graph), asks("h")])
    paused = threads.call(tree, "invoke", HumanMessage("Go."), thread_id="t")
    live, replayed = told(paused, threads.call(tree, "events", "t"))
    assert same(live, [({"at": [1]}, None)])
    assert same(replayed, live)


SURROGATE = "a\ud83dz"


def run_with_surrogate(ctx: Any) -> Any:
    return ctx.run("w", SURROGATE)


async def arun_with_surrogate(ctx: Any) -> Any:
    return await ctx.run("w", SURROGATE)


@pytest.mark.parametrize("function", [run_with_surrogate, arun_with_surrogate])
def test_a_request_that_cannot_be_saved_is_refused_where_it_is_made(
    threads: Threads, function: Any
) -> None:
    tree = ag.function_agent("f", function, agents=[asks("w")])
    with pytest.raises(ag.AgentGraphError, match=r"^f: ctx.run\('w'\): the request .* surrogate"):
        threads.call(tree, "invoke", "Go.", thread_id="t")


@pytest.mark.parametrize("data", [{"n": 10**30}, ["\ud800"]], ids=["a number", "a text"])
def test_custom_data_of_a_stream_writer_is_refused_where_it_is_written(
    threads: Threads, data: Any
) -> None:
    def write(ctx: Any) -> str:
        ctx.runtime.stream_writer(data)
        return "Done."

    tree = ag.function_agent("f", write)
    with pytest.raises(ag.InvalidOutputError, match=r"^f: custom data cannot be saved \("):
        threads.call(tree, "invoke", "Go.", thread_id="t")


class Alike(TypedDict):
    it: "list[tuple[int, ...] | list[int]]"


def test_members_of_a_union_that_a_saver_stores_alike_are_a_fault_before_the_run() -> None:
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.compile_agent(gives("w"), values=Alike)
    assert str(refused.value) == (
        "values: the field 'it' is declared as a union of `tuple[int, ...]` and `list[int]`, which a "
        "saver stores alike, so that a reader cannot distinguish them; declare one of them"
    )

"""Savers that keep less than LangGraph's: threads on them read, resume and rewind as on those."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from helpers import Async, Drive, Sync, asks, chat, failing, says
from helpers.databases import Databases
from helpers.lossy_savers import LosingSaver, LosingSerializer, PathKeySaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.journal.schema import RECORD
from agentgraph.testing import call, calls

YES = {"enum": ["yes", "no"]}


def asking(ctx: ag.Context) -> Any:
    return ag.Ask("Well?", response_schema=YES) if ctx.answer is None else f"It is {ctx.answer}."


def runs(ctx: ag.Context) -> str:
    return " ".join([str(ctx.run("sub", "One?")), str(ctx.run("sub", "Two?"))])


async def aruns(ctx: ag.Context) -> str:
    return " ".join([str(await ctx.run("sub", "One?")), str(await ctx.run("sub", "Two?"))])


def store(value: str) -> str:
    """Store a value."""
    return f"stored {value}"


def confirm(value: str) -> str:
    """Ask a person in a tool."""
    return str(interrupt(f"Store {value}?", response_schema=YES))


def _graph() -> Any:
    def node(state: MessagesState) -> Any:
        return {"messages": [("ai", str(interrupt("In the graph?", response_schema=YES)))]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile()


def _several(name: str) -> Any:
    return calls(call(name, value="a"), call(name, value="b"))


TREES: Mapping[str, Callable[[Drive], ag.Agent]] = {
    "root": lambda _: asks("h", response_schema=YES),
    "parallel": lambda _: ag.parallel("p", [says("a"), asks("one"), asks("two", response_schema=YES)]),
    "lanes": lambda _: ag.parallel(
        "p", [ag.sequential("q", [asks("one"), asks("two")]), ag.function_agent("f", asking)]
    ),
    "loop": lambda _: ag.loop("l", [says("a"), asks("h")], max_iterations=2),
    "workflow": lambda _: ag.workflow(
        "w", [ag.step(asks("one")), ag.step(says("b"), depends_on=["one"]), ag.step(asks("two"))]
    ),
    "each": lambda _: ag.each("e", asks("h"), lambda ctx: ["x", "y"]),
    "function": lambda _: ag.function_agent("f", asking),
    "runs": lambda drive: ag.function_agent(
        "f", runs if drive is Sync else aruns, agents=[asks("sub")]
    ),
    "approval": lambda _: chat("c", _several("store"), "Done.", tools=[store], approve=["store"]),
    "tool": lambda _: chat("c", _several("confirm"), "Done.", tools=[confirm]),
    "agent tool": lambda _: chat(
        "c", calls(call("h", request="Go.")), "Done.", tools=[ag.agent_tool(asks("h"))]
    ),
    "graph": lambda _: ag.parallel("p", [ag.graph_agent("g", _graph()), asks("h")]),
    "flat graph": lambda _: ag.graph_agent("g", _graph(), flat=True),
}


@contextmanager
def in_memory() -> Iterator[Any]:
    yield LosingSaver()


@contextmanager
def in_sqlite() -> Iterator[Any]:
    with sqlite3.connect(":memory:", check_same_thread=False) as connection:
        yield SqliteSaver(connection, serde=LosingSerializer())


def answer_to(question: ag.Interrupt) -> Any:
    if not isinstance(question.value, dict):
        return "yes"
    return {"decisions": [{"type": "approve"} for _ in question.value["action_requests"]]}


def thread_on(saver: Any, tree: ag.Agent, drive: Drive) -> list[Any]:
    """Run a tree to its end, one answer at a time, each by a new runner; return what that shows."""

    def about(events: Any) -> list[Any]:
        kept = [each for each in events if each.kind != "discarded"]
        return [(each.address, each.agent_name, each.kind, each.text) for each in kept]

    found = [about(drive.run(ag.Runner(tree, checkpointer=saver), "Go.", thread_id="t"))]
    for _ in range(9):
        if not (pending := ag.Runner(tree, checkpointer=saver).pending("t")):
            break
        found.append([(each.address, each.value, each.response_schema) for each in pending])
        answer = {pending[-1].id: answer_to(pending[-1])}
        found.append(about(drive.resume(ag.Runner(tree, checkpointer=saver), "t", answer)))
        found.append(about(ag.Runner(tree, checkpointer=saver).events("t")))
    return found


def in_order(found: list[Any]) -> list[Any]:
    return [sorted(each, key=repr) for each in found]  # branches end in any order


@pytest.mark.parametrize("drive", [Sync, Async])
@pytest.mark.parametrize("kind", TREES)
def test_a_saver_that_drops_the_schemas_of_questions_changes_nothing(kind: str, drive: Drive) -> None:
    expected = thread_on(InMemorySaver(), TREES[kind](drive), drive)
    with in_memory() as saver:
        assert in_order(thread_on(saver, TREES[kind](drive), drive)) == in_order(expected)


@pytest.mark.parametrize("kind", TREES)
def test_a_database_that_drops_the_schemas_of_questions_changes_nothing(kind: str) -> None:
    expected = thread_on(InMemorySaver(), TREES[kind](Sync), Sync)
    with in_sqlite() as saver:
        assert in_order(thread_on(saver, TREES[kind](Sync), Sync)) == in_order(expected)


def test_a_postgres_saver_that_drops_the_schemas_of_questions_changes_nothing(
    databases: Databases,
) -> None:
    expected = thread_on(InMemorySaver(), TREES["lanes"](Sync), Sync)
    with PostgresSaver.from_conn_string(databases.make()) as saver:
        saver.serde = LosingSerializer()
        assert in_order(thread_on(saver, TREES["lanes"](Sync), Sync)) == in_order(expected)


@pytest.mark.parametrize("drive", [Sync, Async])
def test_a_branch_that_ended_does_not_run_again_after_its_sibling_failed(drive: Drive) -> None:
    ran: list[str] = []

    def work(ctx: ag.Context) -> str:
        ran.append(ctx.address)
        return "worked"

    def fail(ctx: ag.Context) -> str:
        ran.append(ctx.address)
        if len(ran) < 3:
            raise ValueError("no line")
        return "mended"

    tree = ag.parallel(
        "p",
        [ag.function_agent("w", work), ag.sequential("q", [asks("h"), ag.function_agent("f", fail)])],
    )
    runner = ag.Runner(tree, checkpointer=LosingSaver())
    told = [*drive.run(runner, "Go.", thread_id="t")]
    events, _ = failing(drive.resume(runner, "t", "yes"), ValueError)
    told += [*events, *drive.resume(runner, "t")]
    assert sorted(ran) == ["p/q/f", "p/q/f", "p/w"]
    discarded = {each.address for each in told if each.kind == "discarded"}
    assert discarded <= {"p/q", "p/q/f", "p/q/h", "p"}
    assert {each.address for each in runner.events("t") if each.kind == "message"} >= {"p/w", "p/q/f"}


def test_an_answer_that_does_not_fit_is_refused_whatever_the_saver_drops() -> None:
    saver = LosingSaver()
    tree = asks("h", response_schema=YES)
    ag.Runner(tree, checkpointer=saver).invoke("Go.", thread_id="t")
    with pytest.raises(ag.InvalidAnswerError):
        ag.Runner(tree, checkpointer=saver).invoke(thread_id="t", answers="maybe")


@pytest.mark.parametrize("make", [LosingSaver, PathKeySaver])
@pytest.mark.parametrize("drive", [Sync, Async])
def test_a_thread_goes_back_to_a_question_on_such_a_saver(
    drive: Drive, make: Callable[[], Any]
) -> None:
    tree = ag.parallel("p", [asks("one"), ag.sequential("q", [asks("two"), asks("three")])])

    def story(saver: Any) -> list[Any]:
        runner = ag.Runner(tree, checkpointer=saver)
        [*drive.run(runner, "Go.", thread_id="t")]
        [*drive.resume(runner, "t", {"p/one": "1", "p/q/two": "2"})]
        [*drive.resume(runner, "t", "3")]
        runner.copy("t", "copy", at="p/q/three")
        copied = [(each.address, each.value) for each in runner.pending("copy")]
        [*runner.rewind("t", "p/q/two", answers="another")]
        again = [(each.address, each.value) for each in runner.pending("t")]
        [*drive.resume(runner, "t", "end")]
        return [copied, again, sorted((e.address, e.kind, e.text) for e in runner.events("t"))]

    assert story(make()) == story(InMemorySaver())


@pytest.mark.parametrize("drive", [Sync, Async])
@pytest.mark.parametrize("kind", TREES)
def test_all_writes_of_a_task_have_the_path_that_langgraph_uses(kind: str, drive: Drive) -> None:
    saver = PathKeySaver()
    thread_on(saver, TREES[kind](drive), drive)
    several = {task: paths for task, paths in saver.paths.items() if len(paths) > 1}
    assert several == {}


class Fatal(BaseException):
    pass


def test_a_failure_that_langgraph_does_not_save_has_the_path_of_its_task() -> None:
    def stop(ctx: ag.Context) -> str:
        raise Fatal

    saver = PathKeySaver()
    runner = ag.Runner(ag.function_agent("f", stop), checkpointer=saver)
    failing(runner.run("Go.", thread_id="t"), Fatal)  # type: ignore[arg-type]
    assert {"~__pregel_pull, f"} in saver.paths.values()


def records_in(saver: InMemorySaver) -> list[Any]:
    return [
        key for at in saver.writes.values() for key, (_, channel, *_) in at.items() if channel == RECORD
    ]


def test_langgraphs_savers_get_no_records_of_questions() -> None:
    saver = InMemorySaver()
    thread_on(saver, TREES["lanes"](Sync), Sync)
    assert records_in(saver) == []


def test_a_task_that_asks_again_has_one_record() -> None:
    saver = LosingSaver()
    tree = ag.parallel("p", [asks("one"), asks("two"), asks("three")])
    runner = ag.Runner(tree, checkpointer=saver)
    runner.invoke("Go.", thread_id="t")
    before = len(records_in(saver))
    runner.invoke(thread_id="t", answers={"p/one": "1"})
    runner.invoke(thread_id="t", answers={"p/two": "2"})
    assert len(records_in(saver)) == before


class Derived(InMemorySaver):
    """A saver that is not known, and keeps all."""


def moved(old: InMemorySaver, new: InMemorySaver) -> ag.Runner:
    """Return a runner on a saver to which a paused thread was moved from another one."""
    tree = TREES["lanes"](Sync)
    paused = ag.Runner(tree, checkpointer=old).invoke("Go.", thread_id="t")
    for name in ("storage", "writes", "blobs"):
        getattr(new, name).update(getattr(old, name))
    runner = ag.Runner(tree, checkpointer=new)
    assert runner.pending("t") == list(paused.pending)
    return runner


def test_a_thread_without_records_is_read_as_before() -> None:
    runner = moved(InMemorySaver(), Derived())
    assert runner.invoke(thread_id="t", answers={"p/q/one": "1"}).pending[0].address == "p/q/two"


def test_a_thread_with_records_is_read_by_a_saver_that_needs_none() -> None:
    runner = moved(Derived(), InMemorySaver())
    runner.invoke(thread_id="t", answers={"p/q/one": "1"})
    [*runner.rewind("t", "p/q/one", answers="another")]
    assert {each.address for each in runner.pending("t")} == {"p/q/two", "p/f"}


def test_a_record_that_makes_no_sense_is_left_alone() -> None:
    saver = Derived()
    runner = ag.Runner(asks("h", response_schema=YES), checkpointer=saver)
    paused = runner.invoke("Go.", thread_id="t")
    for at in saver.writes.values():
        for key, (task, channel, _, path) in [*at.items()]:
            if channel == RECORD:
                at[key] = task, channel, saver.serde.dumps_typed({"questions_of": 1}), path
    assert runner.pending("t") == list(paused.pending)


def test_a_compiled_graph_keeps_records_too() -> None:
    saver = LosingSaver()
    tree = TREES["lanes"](Sync)
    config: Any = {"configurable": {"thread_id": "t"}}
    ag.compile_agent(tree, checkpointer=saver).invoke({"messages": [("user", "Go.")]}, config)
    assert [each.address for each in ag.Runner(tree, checkpointer=saver).pending("t")] == [
        "p/q/one",
        "p/f",
    ]


def test_async_pending_reads_the_records() -> None:
    saver = LosingSaver()
    runner = ag.Runner(TREES["parallel"](Sync), checkpointer=saver)
    runner.invoke("Go.", thread_id="t")
    assert [each.address for each in asyncio.run(runner.apending("t"))] == ["p/one", "p/two"]


class LateWrites(InMemorySaver):
    """A saver that hides writes that come before their checkpoint, as `RedisSaver` does.

    Attributes:
        hides: Whether it does so now.
    """

    hides = False

    def put_writes(self, config: Any, *args: Any, **options: Any) -> None:
        if not self.hides or super().get_tuple(config) is not None:
            super().put_writes(config, *args, **options)


def test_a_thread_is_copied_on_a_saver_that_hides_writes_before_their_checkpoint() -> None:
    saver = LateWrites()
    runner = ag.Runner(TREES["lanes"](Sync), checkpointer=saver)
    runner.invoke("Go.", thread_id="t")
    saver.hides = True
    runner.copy("t", "u")
    saver.hides = False
    assert list(runner.pending("u")) == list(runner.pending("t"))

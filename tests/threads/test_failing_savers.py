"""A saver that fails in a run is nobody's failure, and what only looks like one is somebody's."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import pytest
from helpers import THREAD, Async, Drive, Sync, chat, lines, says, sent, tool, yields
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.graph.guarded_saver import GuardedSaver, Order, SaverFailure
from agentgraph.graph.internals import RETURN
from agentgraph.testing import call, calls

FULL = "database or disk is full"


class Breaking(InMemorySaver):
    """A saver that fails once a namespace that has a text in it is written.

    Attributes:
        at: The text; None while it works.
        stays: Whether it fails from then on.
    """

    at: str | None = None
    stays = False

    def put(self, config: RunnableConfig, *args: Any) -> RunnableConfig:
        self._use(config)
        return super().put(config, *args)

    def put_writes(self, config: RunnableConfig, *args: Any) -> None:
        self._use(config)
        super().put_writes(config, *args)

    def _use(self, config: RunnableConfig) -> None:
        if self.at is not None and self.at in config["configurable"].get("checkpoint_ns", ""):
            self.at = "" if self.stays else None
            raise sqlite3.OperationalError(FULL)


def breaking(at: str, *, stays: bool = False) -> Breaking:
    saver = Breaking()
    saver.at, saver.stays = at, stays
    return saver


def broken(events: Iterator[ag.AgentEvent]) -> tuple[list[str], ag.SaverError]:
    """Return what a run said before its saver failed, and the error."""
    said: list[ag.AgentEvent] = []
    with pytest.raises(ag.SaverError, match=FULL) as caught:
        said.extend(events)
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    return lines(said), caught.value


def inner() -> ag.Agent:
    return ag.sequential("inner", [says("i1"), says("i2")])


def calling(*tools: Any, **options: Any) -> ag.Agent:
    """Return a chat agent that calls its tools at once, and then says what it was sent."""
    named = [each.agent.name if isinstance(each, ag.AgentTool) else each.name for each in tools]
    asked = {"request": "Look."}
    made = calls(*(call(n, n, **(asked if n == "inner" else {})) for n in named))
    return chat("writer", made, sent, tools=tools, **options)


def test_a_failing_saver_is_not_told_to_a_model(drive: Drive) -> None:
    saver = breaking("|inner")
    runner = ag.Runner(calling(ag.agent_tool(inner())), checkpointer=saver)
    said, error = broken(drive.run(runner, "Go.", thread_id="t"))
    assert said == ['writer: [calls] inner({"request": "Look."})']
    assert (error.thread_id, error.path) == ("t", None)
    assert str(error) == (
        "thread 't': its saver Breaking failed with OperationalError: database or disk is full; try "
        "again when the saver works; what was saved before is kept"
    )
    assert lines(drive.resume(runner, "t"))[-1] == (
        "writer: human: Go. | ai:  | tool: i2"  # the model was told nothing else
    )


# What only looks like it.


def test_a_database_error_of_a_tool_is_told_to_the_model(drive: Drive) -> None:
    query = tool("query", sqlite3.OperationalError("no such table: bees"))
    said = lines(drive.run(ag.Runner(calling(query)), "Go."))
    assert said[1].startswith("writer: Error: OperationalError('no such table: bees')")


def test_a_database_error_of_a_function_is_that_agents(drive: Drive) -> None:
    said: list[ag.AgentEvent] = []
    runner = ag.Runner(ag.sequential("s", [yields("a", [sqlite3.OperationalError("no bees")])]))
    with pytest.raises(sqlite3.OperationalError):
        said.extend(drive.run(runner, "Go.", thread_id="t"))
    assert lines(said) == ["s/a: [error] OperationalError('no bees')"]
    assert runner.thread("t").status == "failed"


@pytest.mark.parametrize("shares", [False, True], ids=["a saver of its own", "the same saver"])
def test_the_saver_of_a_runner_in_a_tool_fails_the_tool(drive: Drive, shares: bool) -> None:
    """It is another run, which the tool may try again; the outer run ends if its own calls fail."""
    saver = breaking("research:")
    tree = ag.parallel("research", [ag.sequential("i", [says("i1"), says("i2")])])
    runner = ag.Runner(tree, checkpointer=saver)

    def research() -> str:
        """Research."""
        return runner.invoke("Look.", thread_id="inner").text

    tree = chat("writer", calls(call("research")), "Done.", tools=[research])
    outer = ag.Runner(tree, checkpointer=saver if shares else InMemorySaver())
    said = lines(drive.run(outer, "Go.", thread_id="t"))
    assert said[1].startswith("writer: Error: SaverError(\"thread 'inner': its saver Breaking failed")
    assert said[2:] == ["writer: Done."]


# What is swallowed.


def inner_graph() -> Any:
    """Return a graph of somebody else's, which saves where the run does."""
    builder = StateGraph(MessagesState)
    builder.add_node("one", lambda state: {"messages": ["one"]})
    return builder.add_edge(START, "one").compile()


def invoke_it(graph: Any, swallows: type[BaseException]) -> Callable[[ag.Context], str]:
    def work(ctx: ag.Context) -> str:
        try:
            return str(graph.invoke({"messages": []})["messages"][-1].text)
        except swallows:
            return "It did not work."

    return work


def gather_it(graph: Any, swallows: type[BaseException]) -> Callable[[ag.Context], Any]:
    async def work(ctx: ag.Context) -> str:
        (given,) = await asyncio.gather(graph.ainvoke({"messages": []}), return_exceptions=True)
        return "It did not work." if isinstance(given, swallows) else str(given["messages"][-1].text)

    return work


def group_it(graph: Any, swallows: type[BaseException]) -> Callable[[ag.Context], Any]:
    async def work(ctx: ag.Context) -> str:
        async with asyncio.TaskGroup() as group:
            given = group.create_task(graph.ainvoke({"messages": []}))
        return str(given.result()["messages"][-1].text)

    return work


@pytest.mark.parametrize("swallows", [Exception, BaseException])
@pytest.mark.parametrize("work", [invoke_it, gather_it, group_it])
@pytest.mark.parametrize("durability", ["Runner", "sync", "async"])
def test_a_run_does_not_go_on_past_a_swallowed_failure_of_its_saver(
    drive: Drive, durability: Any, work: Any, swallows: Any
) -> None:
    worker = ag.function_agent("worker", work(inner_graph(), swallows))
    tree, saver = ag.sequential("s", [worker, says("last")]), breaking("worker:")
    if durability == "Runner":
        runner = ag.Runner(tree, checkpointer=saver)
        assert broken(drive.run(runner, "Go.", thread_id="t"))[0] in (
            [],
            ["s/worker: It did not work."],
        )
        list(drive.resume(runner, "t"))
        assert lines(runner.events("t")) == ["s/worker: one", "s/last: last"]
        return
    graph = ag.compile_agent(tree, checkpointer=saver)
    with pytest.raises(ag.SaverError, match="thread 't': its saver Breaking failed") as caught:
        invoked(drive, graph, {"messages": ["Go."]}, durability)
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    state = invoked(drive, graph, None, durability)
    assert [each.text for each in state["messages"]] == ["Go.", "one", "last"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_failing_saver_leaves_a_graph_as_a_saver_error(drive: Drive, durability: Any) -> None:
    saver = breaking("", stays=True)
    graph = ag.compile_agent(ag.sequential("s", [says("a"), says("b")]), checkpointer=saver)
    assert graph.checkpointer is saver
    with pytest.raises(ag.SaverError, match="thread 't': its saver Breaking failed"):
        invoked(drive, graph, {"messages": ["Go."]}, durability)


def test_a_failing_saver_is_no_event_of_a_translated_stream() -> None:
    tree = ag.parallel("p", [inner()], on_error="collect")
    graph = ag.compile_agent(tree, checkpointer=breaking("inner"))
    parts = graph.stream(
        {"messages": ["Go."]},
        THREAD,
        stream_mode=["updates", "custom"],
        subgraphs=True,
        durability="sync",
        version="v2",
    )
    assert broken(ag.translate(tree, parts))[0] == []


def test_a_tree_that_is_a_node_of_a_graph_raises_the_error_of_the_graphs_saver(drive: Drive) -> None:
    saver = breaking("|p:")
    builder = StateGraph(MessagesState)
    builder.add_node("tree", ag.compile_agent(ag.parallel("p", [inner()], on_error="collect")))
    graph = builder.add_edge(START, "tree").compile(checkpointer=saver)
    with pytest.raises(ag.SaverError, match="thread 't': its saver Breaking failed"):
        invoked(drive, graph, {"messages": ["Go."]}, "sync")
    state = invoked(drive, graph, None, "sync")
    assert [each.text for each in state["messages"]] == ["Go.", "i1", "i2"]


def invoked(drive: Drive, graph: Any, given: Any, durability: Any) -> Any:
    if drive is Sync:
        return graph.invoke(given, THREAD, durability=durability)
    return asyncio.run(graph.ainvoke(given, THREAD, durability=durability))


class Late(InMemorySaver):
    """A saver that needs long for what the first item wrote, and then fails."""

    is_due = True

    def put_writes(self, config: RunnableConfig, writes: Any, *args: Any) -> None:
        if self._fails(writes):
            time.sleep(0.3)
            raise sqlite3.OperationalError(FULL)
        super().put_writes(config, writes, *args)

    async def aput_writes(self, config: RunnableConfig, writes: Any, *args: Any) -> None:
        if self._fails(writes):
            await asyncio.sleep(0.3)
            raise sqlite3.OperationalError(FULL)
        super().put_writes(config, writes, *args)

    def _fails(self, writes: Any) -> bool:
        fails = self.is_due and any(name == RETURN and "file 0" in str(each) for name, each in writes)
        self.is_due = self.is_due and not fails
        return fails


@pytest.mark.parametrize("graph", ["a runner", "a graph"])
def test_what_tasks_gave_is_saved_before_what_their_node_made_of_it(drive: Drive, graph: str) -> None:
    def read(ctx: ag.Context) -> ag.SetValues:
        return ag.SetValues(**{f"v{ctx.item.number}": f"file {ctx.item.number}"})

    tree = ag.sequential(
        "s", [ag.each("all", ag.function_agent("read", read), lambda ctx: ["a", "b"]), says("last")]
    )
    runner = ag.Runner(tree, checkpointer=Late())
    with pytest.raises(ag.SaverError, match=FULL):
        if graph == "a runner":
            list(drive.run(runner, "Go.", thread_id="t"))
        elif drive is Sync:
            runner.graph.invoke({"messages": [("user", "Go.")]}, THREAD)
        else:
            asyncio.run(runner.graph.ainvoke({"messages": [("user", "Go.")]}, THREAD))
    list(drive.resume(runner, "t"))
    said = lines(runner.events("t"))
    assert sorted(said) == ["s/all/read(0): [values] v0", "s/all/read(1): [values] v1", "s/last: last"]


# The guard itself.


class Old(InMemorySaver):
    """A saver from before writes had a path, with a name of its own for something."""

    table = "old"

    def put_writes(self, config: RunnableConfig, writes: Any, task_id: str) -> None:  # type: ignore[override]
        super().put_writes(config, writes, task_id)


def test_a_guarded_saver_is_a_saver_with_the_attributes_of_the_one_inside() -> None:
    old = Old()
    guard = GuardedSaver(old, "t")
    assert isinstance(guard, BaseCheckpointSaver)
    assert (guard.inner, guard.serde, guard.table, guard.config_specs) == (old, old.serde, "old", [])
    assert "task_path" not in signature(guard.put_writes).parameters
    assert "task_path" in signature(GuardedSaver(InMemorySaver()).put_writes).parameters
    assert "task_path" in signature(GuardedSaver(InMemorySaver()).aput_writes).parameters
    assert str(guard.get_next_version("1.0", None)).startswith("0" * 31 + "2.")
    with pytest.raises(AttributeError, match="nothing"):
        _ = guard.nothing


def test_a_guarded_saver_lists_and_deletes_as_the_one_inside() -> None:
    saver = InMemorySaver()
    list(ag.Runner(says("a"), checkpointer=saver).run("Go.", thread_id="t"))
    guard = GuardedSaver(saver, "t")

    async def listed() -> list[Any]:
        return [each async for each in guard.alist(None)]

    assert [*guard.list(None)] == asyncio.run(listed()) == [*saver.list(None)]
    assert guard.get(THREAD) == saver.get(THREAD)
    guard.delete_thread("t")
    assert [*guard.list(None)] == []


def test_a_sync_call_on_an_event_loop_does_not_wait_for_what_needs_the_loop() -> None:
    class Waiting(InMemorySaver):
        async def aput_writes(self, config: RunnableConfig, writes: Any, *args: Any) -> None:
            began.set()
            await ends.wait()

    began, ends = asyncio.Event(), asyncio.Event()
    guard = GuardedSaver(Waiting(), "t", order=Order())
    at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}}

    async def both() -> None:
        first = asyncio.create_task(guard.aput_writes(at, [], "1"))
        await began.wait()
        guard.put_writes(at, [("a", 1)], "2")
        ends.set()
        await first

    thread = threading.Thread(target=lambda: asyncio.run(both()), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waits for ever"


def test_a_guarded_saver_stays_failed_with_all_its_copies() -> None:
    saver = breaking("")
    saver.serde = JsonPlusSerializer(allowed_msgpack_modules=[])
    guard = GuardedSaver(saver, "t")
    copied = guard.with_allowlist([("tests", "Bee")])
    assert (copied.inner is saver, copied.serde is saver.serde) == (False, False)
    with pytest.raises(SaverFailure, match="thread 't': its saver Breaking failed"):
        copied.put(THREAD)
    with pytest.raises(SaverFailure, match="thread 't': its saver Breaking failed"):
        guard.get_tuple(THREAD)
    assert GuardedSaver(saver, "t").get_tuple(THREAD) is None


@pytest.mark.parametrize(
    "method", ["get_tuple", "get_delta_channel_history", "put", "put_writes", "list"]
)
def test_all_that_a_saver_raises_is_guarded(drive: Drive, method: str) -> None:
    class Failing(InMemorySaver):
        pass

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(28, FULL)

    async def afail(*_: Any, **__: Any) -> Any:
        raise OSError(28, FULL)

    async def alist(*_: Any, **__: Any) -> Any:
        raise OSError(28, FULL)
        yield

    setattr(Failing, method, fail)
    setattr(Failing, f"a{method}", alist if method == "list" else afail)
    guard = GuardedSaver(Failing(), "t")

    async def use(name: str) -> None:
        found = getattr(guard, name)(None)
        if name == "alist":
            await anext(found)
        await found

    with pytest.raises(SaverFailure) as caught:
        asyncio.run(use(f"a{method}")) if drive is Async else [*(getattr(guard, method)(None) or ())]
    error = caught.value.__cause__
    assert isinstance(error, ag.SaverError)
    assert isinstance(error.__cause__, OSError)
    with pytest.raises(SaverFailure):
        guard.check()


def test_a_value_that_cannot_be_saved_is_no_failure_of_the_saver() -> None:
    guard = GuardedSaver(InMemorySaver(), "t")
    at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}}
    with pytest.raises(TypeError, match="not msgpack serializable"):
        guard.put_writes(at, [("a", object())], "task")
    guard.check()

"""`threads()` lists every thread of a saver, also those that LangGraph ran with `durability="exit"`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Drive, Sync, asks, fails, says
from helpers.databases import Databases, saver_at
from helpers.lossy_savers import UnknownSaver
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

import agentgraph as ag
from agentgraph.journal.savers.opening import open_saver
from agentgraph.window.calls import Window

TREES = {
    "done": lambda: ag.sequential("s", [says("a"), says("b")]),
    "paused": lambda: ag.sequential("s", [says("a"), ag.parallel("p", [says("b"), asks("boss")])]),
    "failed": lambda: ag.sequential("s", [says("a"), fails("b", 9)]),
}
"""The trees, by how their first turn ends."""
KINDS = ("memory", "unknown", "file", "SQLite", "database", "PostgreSQL")


def ran(saver: Any, durability: Any) -> None:
    """Run a first turn of each tree on a thread with its name, and another graph's."""
    for name, tree in TREES.items():
        graph = ag.compile_agent(tree(), checkpointer=saver)
        with suppress(ValueError):
            graph.invoke({"messages": [("user", "Go.")]}, config(name), durability=durability)


async def aran(saver: Any, durability: Any) -> None:
    for name, tree in TREES.items():
        graph = ag.compile_agent(tree(), checkpointer=saver)
        with suppress(ValueError):
            await graph.ainvoke({"messages": [("user", "Go.")]}, config(name), durability=durability)


def config(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def listed(saver: Any) -> list[tuple[str, str]]:
    runner = ag.Runner(says("x"), checkpointer=saver)
    return [(each.thread_id, each.status) for each in runner.threads()]


@contextmanager
def opened(kind: str, place: Any) -> Iterator[Any]:
    """Open a saver for sync calls; all but LangGraph's for databases serve async ones too."""
    if kind in ("memory", "unknown"):
        yield InMemorySaver() if kind == "memory" else UnknownSaver()
    elif kind in ("file", "database"):
        with open_saver(place) as saver:
            yield saver
    else:
        classes: Any = {"SQLite": SqliteSaver, "PostgreSQL": PostgresSaver}
        with classes[kind].from_conn_string(str(place)) as saver:
            saver.setup()
            yield saver


@asynccontextmanager
async def aopened(kind: str, place: Any) -> AsyncIterator[Any]:
    classes: Any = {"SQLite": AsyncSqliteSaver, "PostgreSQL": AsyncPostgresSaver}
    if kind not in classes:
        with opened(kind, place) as saver:
            yield saver
        return
    async with classes[kind].from_conn_string(str(place)) as saver:
        await saver.setup()
        yield saver


async def alisted_of(kind: str, place: Any, durability: str) -> list[tuple[str, str]]:
    async with aopened(kind, place) as saver:
        await aran(saver, durability)
        every = await ag.Runner(says("x"), checkpointer=saver).athreads()
        return [(each.thread_id, each.status) for each in every]


def listed_of(kind: str, place: Any, durability: str) -> list[tuple[str, str]]:
    with opened(kind, place) as saver:
        ran(saver, durability)
        return listed(saver)


@pytest.mark.parametrize("drive", [Sync, Async])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_threads_are_listed_however_langgraph_saved_their_first_run(
    kind: str, durability: str, drive: Drive, tmp_path: Path, databases: Databases
) -> None:
    place = databases.make() if kind in ("database", "PostgreSQL") else tmp_path / "threads.db"
    if drive is Sync:
        found = listed_of(kind, place, durability)
    else:
        found = asyncio.run(alisted_of(kind, place, durability))
    assert found == [(name, name) for name in ("failed", "paused", "done")]


def test_a_thread_whose_only_run_saved_a_snapshot_at_its_exit_is_listed(tmp_path: Path) -> None:
    """After many steps LangGraph saves all of a state, and then nothing before it."""
    tree = ag.loop("l", [ag.function_agent("a", lambda ctx: ag.SetValues(n=1))], max_iterations=1100)
    with saver_at(tmp_path / "threads.db") as saver:
        graph = ag.compile_agent(tree, checkpointer=saver)
        graph.invoke({"messages": []}, {**config("t"), "recursion_limit": 2000}, durability="exit")
        assert len([*saver.list(None)]) in (1, 2)
        assert [each.thread_id for each in ag.Runner(tree, checkpointer=saver).threads()] == ["t"]


def old(saver: Any) -> tuple[Any, ...]:
    """Return the arguments of `put` for a thread "old" that has the form of another version."""
    saved = saver.get_tuple(config("done"))
    values = dict(saved.checkpoint["channel_values"])
    tree = values["position"]["tree"].partition(".")[2]
    checkpoint = saved.checkpoint | {"id": str(uuid6())}
    checkpoint["channel_values"] = {"position": {**values["position"], "tree": tree}}
    checkpoint["channel_versions"] = versions = {"position": "1"}
    at = {"configurable": {"thread_id": "old", "checkpoint_ns": ""}}
    return at, checkpoint, {"source": "input", "step": -1}, versions


def listed_with_old(kind: str, place: Any, *status: Any) -> list[ag.ThreadSummary]:
    with opened(kind, place) as saver:
        ran(saver, "sync")
        saver.put(*old(saver))
        return ag.Runner(says("x"), checkpointer=saver).threads(*status)


async def alisted_with_old(kind: str, place: Any, *status: Any) -> list[ag.ThreadSummary]:
    async with aopened(kind, place) as saver:
        await aran(saver, "sync")
        await saver.aput(*await asyncio.to_thread(old, saver))
        return await ag.Runner(says("x"), checkpointer=saver).athreads(*status)


@pytest.mark.parametrize("drive", [Sync, Async])
@pytest.mark.parametrize("kind", KINDS)
def test_a_thread_of_another_version_is_listed_beside_the_others(
    kind: str, drive: Drive, tmp_path: Path, databases: Databases
) -> None:
    place = databases.make() if kind in ("database", "PostgreSQL") else tmp_path / "threads.db"
    if drive is Sync:
        every = listed_with_old(kind, place)
    else:
        every = asyncio.run(alisted_with_old(kind, place))
    unreadable, *others = every
    assert [(each.thread_id, each.status, each.error) for each in others] == [
        (name, name, None) for name in ("failed", "paused", "done")
    ]
    assert (unreadable.thread_id, unreadable.status, unreadable.updated) == ("old", "unreadable", 0.0)
    assert unreadable.error is not None
    assert "saved in another form than this version of agentgraph reads" in unreadable.error
    assert "continue it with the version of agentgraph that saved it" in unreadable.error


@pytest.mark.parametrize("saver", [InMemorySaver, UnknownSaver])
def test_lists_and_windows_say_which_threads_cannot_be_read(saver: Any) -> None:
    made = saver()
    ran(made, "sync")
    made.put(*old(made))
    runner = ag.Runner(TREES["done"](), checkpointer=made)
    window = Window(runner, "threads")
    for status in (None, "unreadable", "paused"):
        rows = window.call("threads", {"status": status})["threads"]
        every = [(each.thread_id, each.status, each.error) for each in runner.threads(status)]
        assert [(row["thread_id"], row["status"], row["error"]) for row in rows] == every
    assert [each.thread_id for each in runner.threads("unreadable")] == ["old"]


def test_a_list_fails_if_the_saver_does(tmp_path: Path) -> None:
    with saver_at(tmp_path / "threads.db") as saver:
        ran(saver, "sync")
    with pytest.raises(ag.SaverError, match="use the runner while its saver is open"):
        ag.Runner(says("x"), checkpointer=saver).threads()


def test_the_window_lists_them_too(tmp_path: Path) -> None:
    with saver_at(tmp_path / "threads.db") as saver:
        ran(saver, "exit")
        window = Window(ag.Runner(TREES["done"](), checkpointer=saver), "threads")
        rows = window.call("threads", {})["threads"]
    assert [(row["thread_id"], row["status"]) for row in rows] == [
        (name, name) for name in ("failed", "paused", "done")
    ]


def test_a_thread_is_still_listed_after_a_turn_of_a_runner_on_it() -> None:
    saver = InMemorySaver()
    ran(saver, "exit")
    runner = ag.Runner(TREES["paused"](), checkpointer=saver)
    assert runner.invoke(thread_id="paused", answers="yes").status == "done"
    statuses = {each.thread_id: each.status for each in runner.threads()}
    assert statuses == {"done": "done", "paused": "done", "failed": "failed"}

"""Files and databases that agentgraph opens have an index of threads, which each save keeps up."""

import asyncio
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from helpers import asks, chat, fails, says
from helpers.databases import Databases, Place, saver_at
from langgraph.checkpoint.sqlite import SqliteSaver

import agentgraph as ag
from agentgraph.journal.savers import postgres_index
from agentgraph.journal.savers.sqlite import reading_saver

TREES: dict[str, Callable[[], ag.Agent]] = {
    "function": lambda: says("a"),
    "human": lambda: asks("boss"),
    "failure": lambda: ag.sequential("s", [says("a"), fails("b", 99)]),
    "chat": lambda: chat("c", "One.", "Two.", "Three."),
    "loop": lambda: ag.loop("l", [says("a"), asks("boss")], max_iterations=2),
    "parallel": lambda: ag.parallel("p", [says("a"), asks("boss"), asks("legal")]),
    "failing parallel": lambda: ag.parallel("p", [says("a"), asks("boss"), fails("b", 1)]),
    "each": lambda: ag.each("e", asks("boss"), lambda ctx: [1, 2], output_key="out"),
    "limits": lambda: ag.loop("l", [says("a")], max_iterations=9),
}
"""Trees by what they end with."""
FIRST: Any = {"configurable": {"thread_id": "first"}}


@pytest.fixture(params=["file", "database"])
def place(request: pytest.FixtureRequest, tmp_path: Path, databases: Databases) -> Place:
    return tmp_path / "threads.db" if request.param == "file" else databases.make()


def ask(place: Place, query: str) -> list[tuple[Any, ...]]:
    if isinstance(place, str):
        return Databases.ask(place, query)
    connection = sqlite3.connect(place)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.commit()
        connection.close()


def indexed(place: Place) -> dict[str, str]:
    """Return the statuses that the index has, by thread; empty where it has none."""
    return dict(ask(place, "SELECT thread_id, status FROM agentgraph_threads"))


def cloned(path: Path, number: int) -> None:
    """Make copies of the only thread of a file, each of which began later."""
    connection = sqlite3.connect(path)
    for table in ("checkpoints", "writes"):
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for clone in range(number):
            values = ["?" if name == "thread_id" else name for name in columns]
            values = [f"? || substr({v}, 9)" if v == "checkpoint_id" else v for v in values]
            connection.execute(
                f"INSERT INTO {table} SELECT {', '.join(values)} FROM {table} WHERE thread_id = 't'",
                (f"c{clone}", f"{clone:08x}") if columns.index("checkpoint_id") else (),
            )
    connection.commit()
    connection.close()


@pytest.mark.parametrize("kind", TREES)
def test_the_index_has_the_status_that_the_thread_tells_or_none(kind: str, place: Place) -> None:
    limits = ag.Limits(steps=3, on_limit="ask") if kind == "limits" else None
    with saver_at(place) as saver:
        runner = ag.Runner(TREES[kind](), checkpointer=saver, limits=limits)

        def check(*, is_known: bool) -> None:
            status = indexed(place)["t"]
            assert status in (runner.threads()[0].status, "")
            assert bool(status) == is_known, status
            listed = {each: [s.thread_id for s in runner.threads(each)] for each in STATUSES}
            assert listed == {each: ["t"] * (each == runner.thread("t").status) for each in STATUSES}

        with suppress(ValueError):
            runner.invoke("Go.", thread_id="t")
        check(is_known=True)
        for _ in range(2):
            if runner.thread("t").status == "done":
                break
            answers = {each.id: True for each in runner.pending("t")[:1]}
            with suppress(ValueError):
                runner.invoke(thread_id="t", **({"answers": answers} if answers else {}))
            check(is_known=True)
        next(runner.run("Again.", thread_id="t", drop_pending=True))  # left early
        check(is_known=False)


STATUSES = ("running", "paused", "failed", "stopped", "done", "unreadable")


def test_whatever_is_saved_after_a_run_empties_its_status(place: Place) -> None:
    tree = ag.sequential("s", [says("a"), asks("boss"), says("b")])
    with saver_at(place) as saver:
        runner = ag.Runner(tree, checkpointer=saver)
        runner.invoke("Go.", thread_id="t")
        assert indexed(place) == {"t": "paused"}
        runner.steer("t", "By the way.")  # a request changes nothing
        assert indexed(place) == {"t": "paused"}
        graph = ag.compile_agent(tree, checkpointer=saver)
        graph.update_state({"configurable": {"thread_id": "t"}}, {"values": {"n": 1}})
        assert indexed(place) == {"t": ""}
        runner.invoke(thread_id="t", answers="yes")
        assert indexed(place) == {"t": "done"}
        for _ in runner.rewind("t", "s/boss"):
            pass
        assert indexed(place) == {"t": "paused"}
        runner.copy("t", "copy")
        assert indexed(place) == {"t": "paused", "copy": ""}
        assert [each.thread_id for each in runner.threads("paused")] == ["copy", "t"]


def test_a_save_that_is_not_committed_changes_no_list(place: Place) -> None:
    """The index is written in the transaction of the save, so a kill finds both or none."""
    with saver_at(place) as saver:
        runner = ag.Runner(asks("boss"), checkpointer=saver)
        runner.invoke("Go.", thread_id="t")
        is_file = isinstance(place, Path)
        with closing(sqlite3.connect(place) if is_file else psycopg.connect(str(place))) as other:
            other.execute("DELETE FROM checkpoints")
            other.execute(f"DELETE FROM {'writes' if is_file else 'checkpoint_writes'}")
            assert [*other.execute("SELECT * FROM agentgraph_threads")] == []
            other.rollback()
        assert indexed(place) == {"t": "paused"}
        assert [each.thread_id for each in runner.threads("paused")] == ["t"]


def test_a_copy_has_no_status_in_the_index_while_it_is_made(place: Place) -> None:
    """The writes of a checkpoint are copied before it, and a kill may come between."""
    with saver_at(place) as saver:
        runner = ag.Runner(says("a"), checkpointer=saver)
        runner.invoke("Go.", thread_id="t")
        put, seen = saver.put, list[str | None]()

        def looks(*args: Any) -> Any:
            seen.append(indexed(place).get("copy"))
            return put(*args)

        saver.put = looks
        runner.copy("t", "copy")
        assert seen == [None, "", ""]
        assert indexed(place) == {"t": "done", "copy": ""}


def test_forks_are_listed_with_the_metadata_of_their_runs(place: Place) -> None:
    tree = ag.sequential("s", [says("a"), asks("boss"), says("b")])
    with saver_at(place) as saver:
        runner = ag.Runner(tree, checkpointer=saver)
        runner.invoke("Go.", thread_id="t", config={"metadata": {"user": "ann"}})
        runner.invoke(thread_id="t", answers="yes", config={"metadata": {"user": "bob"}})
        runner.fork_many("t", "s/boss", {"no": {"answers": "no"}, "yes": {"answers": "yes"}})
        every = ["t", "t-no", "t-yes"]
        assert sorted(each.thread_id for each in runner.threads("done")) == every
        assert sorted(each.thread_id for each in runner.threads(metadata={"user": "ann"})) == every
        assert [each.thread_id for each in runner.threads(metadata={"user": "bob"})] == ["t"]
        assert indexed(place) == dict.fromkeys(every, "done")


def test_threads_of_other_graphs_are_in_no_page(place: Place) -> None:
    from langgraph.graph import START, MessagesState, StateGraph

    builder = StateGraph(MessagesState).add_node("n", lambda state: {}).add_edge(START, "n")
    with saver_at(place) as saver:
        runner = ag.Runner(says("a"), checkpointer=saver)
        graph = builder.compile(checkpointer=saver)
        for number in range(3):
            runner.invoke("Go.", thread_id=f"t{number}")
            graph.invoke({"messages": []}, {"configurable": {"thread_id": f"other{number}"}})
        assert [each.thread_id for each in runner.threads(limit=2)] == ["t2", "t1"]
        assert [each.thread_id for each in runner.threads("done", limit=2)] == ["t2", "t1"]
        assert [each.thread_id for each in runner.threads(before="other1")] == ["t1", "t0"]


def test_a_file_without_an_index_is_given_one_and_langgraphs_savers_keep_it_up(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    tree = ag.sequential("s", [says("a"), asks("boss")])

    def graph_of(saver: Any) -> Any:
        return ag.compile_agent(tree, checkpointer=saver)

    def run(graph: Any, thread_id: str, user: str) -> None:
        config = {"configurable": {"thread_id": thread_id}, "metadata": {"user": user}}
        graph.invoke({"messages": "Go."}, config)

    with SqliteSaver.from_conn_string(str(path)) as theirs:
        run(graph_of(theirs), "before", "ann")
        with ag.sqlite_saver(path) as ours:
            runner = ag.Runner(tree, checkpointer=ours)
            assert [each.thread_id for each in runner.threads(metadata={"user": "ann"})] == ["before"]
            assert indexed(path) == {"before": ""}
            run(graph_of(theirs), "after", "bob")
            assert [each.thread_id for each in runner.threads("paused")] == ["after", "before"]
            assert [each.thread_id for each in runner.threads(metadata={"user": "bob"})] == ["after"]
            theirs.delete_thread("before")
            assert [each.thread_id for each in runner.threads()] == ["after"]
            assert ask(path, "SELECT * FROM agentgraph_metadata") == [("after", "user", "bob")]


def test_a_file_whose_tables_were_made_anew_gets_its_index_again(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    with ag.sqlite_saver(path) as saver:
        ag.Runner(says("a"), checkpointer=saver).invoke("Go.", thread_id="old")
    ask(path, "DROP TABLE writes")
    ask(path, "DROP TABLE checkpoints")
    with ag.sqlite_saver(path) as saver:
        runner = ag.Runner(says("a"), checkpointer=saver)
        runner.invoke("Go.", thread_id="new")
        assert [each.thread_id for each in runner.threads()] == ["new"]
        assert indexed(path) == {"new": "done"}


def test_a_file_whose_index_cannot_be_made_is_listed_without(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        ag.Runner(says("a"), checkpointer=saver).invoke("Go.", thread_id="old")
    ask(path, "CREATE VIEW agentgraph_threads AS SELECT 1")  # something else has its name
    with ag.sqlite_saver(path) as saver:
        runner = ag.Runner(asks("boss"), checkpointer=saver)
        runner.invoke("Go.", thread_id="new", config={"metadata": {"user": "ann"}})
        assert [each.thread_id for each in runner.threads(limit=1, before="new")] == ["old"]
        assert [each.thread_id for each in runner.threads("paused")] == ["new"]
        assert [each.thread_id for each in runner.threads(metadata={"user": "ann"})] == ["new"]

    async def listed() -> list[str]:
        async with ag.async_sqlite_saver(path) as saver:
            every = await ag.Runner(says("a"), checkpointer=saver).athreads(limit=5)
            return [each.thread_id for each in every]

    assert asyncio.run(listed()) == ["new", "old"]


@pytest.mark.parametrize("has_index", [True, False])
def test_a_file_that_may_only_be_read_is_listed(has_index: bool, tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    opened = ag.sqlite_saver if has_index else SqliteSaver.from_conn_string
    with opened(str(path)) as saver:
        for number in range(3):
            runner = ag.Runner(says("a"), checkpointer=saver)
            runner.invoke("Go.", thread_id=f"t{number}", config={"metadata": {"n": number}})
    with reading_saver(path) as saver:
        runner = ag.Runner(says("a"), checkpointer=saver)
        assert [each.thread_id for each in runner.threads(limit=2)] == ["t2", "t1"]
        assert [each.thread_id for each in runner.threads("done", before="t1")] == ["t0"]
        assert [each.thread_id for each in runner.threads(metadata={"n": 1})] == ["t1"]


def test_metadata_that_is_not_json_stops_no_run(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    with ag.sqlite_saver(path) as saver:
        runner = ag.Runner(says("a"), checkpointer=saver)
        for value in (float("nan"), "\ud800", "\0", 2**70, "x" * 10_000):
            runner.invoke("Go.", thread_id="t", config={"metadata": {"value": value}})
            if value == value:
                assert [each.thread_id for each in runner.threads(metadata={"value": value})] == ["t"]


def test_long_and_strange_metadata_is_found_in_a_database(databases: Databases) -> None:
    with ag.postgres_saver(databases.make()) as saver:
        runner = ag.Runner(says("a"), checkpointer=saver)
        for value in ("\0", 2**70, "x" * 10_000, "'; DROP", 1e300):
            config: Any = {"metadata": {"%s {x}": value}}
            runner.invoke("Go.", thread_id="t", config=config)
            assert [each.thread_id for each in runner.threads(metadata=config["metadata"])] == ["t"]


def test_a_user_with_rights_on_langgraphs_tables_alone_saves_and_lists(databases: Databases) -> None:
    url = databases.make()
    with ag.postgres_saver(url) as saver:
        ag.Runner(says("a"), checkpointer=saver).invoke("Go.", thread_id="one")
    name = f"guest_{os.getpid()}"
    Databases.ask(url, f"CREATE ROLE {name} LOGIN")
    tables = "checkpoints, checkpoint_writes, checkpoint_blobs, checkpoint_migrations"
    Databases.ask(url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {name}")
    try:
        with ag.postgres_saver(url.replace("postgres:", f"{name}:", 1)) as saver:
            with saver._pool.connection() as connection:
                user = connection.execute("SELECT current_user AS name").fetchone()
            assert user == {"name": name}
            runner = ag.Runner(says("a"), checkpointer=saver)
            runner.invoke("Go.", thread_id="two", config={"metadata": {"user": "ann"}})
            assert [each.thread_id for each in runner.threads(limit=5)] == ["two", "one"]
            assert [each.thread_id for each in runner.threads(metadata={"user": "ann"})] == ["two"]
        with ag.postgres_saver(url) as saver:
            runner = ag.Runner(says("a"), checkpointer=saver)
            assert [each.thread_id for each in runner.threads(metadata={"user": "ann"})] == ["two"]
    finally:
        Databases.ask(url, f"DROP OWNED BY {name}")
        Databases.ask(url, f"DROP ROLE {name}")


@pytest.fixture
def without_index(databases: Databases) -> str:
    """Give the URL of a database that has LangGraph's tables alone."""
    url = databases.make()
    for table in ("agentgraph_threads", "agentgraph_metadata"):
        Databases.ask(url, f"DROP TABLE {table}")
    for name in ("begun", "deleted", "written"):
        Databases.ask(url, f"DROP FUNCTION agentgraph_{name} CASCADE")
    return url


def test_a_database_is_opened_without_an_index_while_a_transaction_holds_its_tables(
    without_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_index, "LOCK_SECONDS", 0.1)
    with closing(psycopg.connect(without_index)) as other:
        other.execute("LOCK TABLE checkpoints IN ROW EXCLUSIVE MODE")
        with ag.postgres_saver(without_index) as saver:
            runner = ag.Runner(says("a"), checkpointer=saver)
            for number in range(2):
                runner.invoke("Go.", thread_id=f"t{number}")
            assert [each.thread_id for each in runner.threads("done", limit=1)] == ["t1"]
            assert [each.thread_id for each in runner.threads(before="t1")] == ["t0"]
    with ag.postgres_saver(without_index) as saver:
        runner = ag.Runner(says("a"), checkpointer=saver)
        assert [each.thread_id for each in runner.threads()] == ["t1", "t0"]
    assert indexed(without_index) == {"t0": "", "t1": ""}


def test_savers_that_open_a_database_at_the_same_time_make_one_index(without_index: str) -> None:
    url = without_index

    async def open_all() -> None:
        savers = [asyncio.to_thread(ag.postgres_saver, url) for _ in range(4)]
        for saver in await asyncio.gather(*savers):
            saver.close()

    asyncio.run(open_all())
    with ag.postgres_saver(url) as saver:
        ag.Runner(says("a"), checkpointer=saver).invoke("Go.", thread_id="t")
    assert indexed(url) == {"t": "done"}


def cost(saver: Any, call: Callable[[], object], counted: str = "") -> tuple[int, int]:
    """Return how many functions of Python's and statements of a file a call takes."""
    calls, statements = 0, list[str]()

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    saver.conn.set_trace_callback(statements.append)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        saver.conn.set_trace_callback(None)
    return calls, sum(counted in each for each in statements)


@pytest.fixture
def costs(tmp_path: Path) -> Callable[..., list[tuple[int, int]]]:
    """Give what returns the cost of a list in files of 100 and of 1,000 threads that are done."""

    def measured(**options: Any) -> list[tuple[int, int]]:
        found = []
        for number in (100, 1000):
            path = tmp_path / f"{number}.db"
            with ag.sqlite_saver(path) as saver:
                runner = ag.Runner(says("a"), checkpointer=saver)
                if not runner.threads(limit=1):
                    runner.invoke("Go.", thread_id="t", config={"metadata": {"user": "ann"}})
                    cloned(path, number - 1)
                first = runner.threads(limit=1)[0].thread_id
                given = {**options, **({"before": first} if "before" in options else {})}
                runner.threads(**given)  # fills caches
                found.append(cost(saver, partial(runner.threads, **given)))
        return found

    return measured


@pytest.mark.parametrize(
    "options",
    [
        {"limit": 50},
        {"limit": 50, "before": ""},
        {"limit": 50, "status": "done"},
        {"limit": 50, "status": "failed"},
        {"limit": 50, "metadata": {"user": "ann"}},
        {"limit": 50, "metadata": {"user": "bob"}},
    ],
    ids=json.dumps,
)
def test_a_page_costs_the_same_however_many_threads_there_are(costs: Any, options: Any) -> None:
    (few_calls, few), (many_calls, many) = costs(**options)
    assert few == many
    assert many_calls < 1.02 * few_calls + 20


def test_a_run_makes_no_transaction_for_the_index(tmp_path: Path) -> None:
    tree = ag.loop("l", [says("a")], max_iterations=20)
    found = []
    for has_index in (True, False):
        path = tmp_path / f"{has_index}.db"
        with ag.sqlite_saver(path) as saver:
            if not has_index:
                SqliteSaver.setup(saver)
            runner = ag.Runner(tree, checkpointer=saver)
            run = partial(runner.invoke, "Go.", thread_id="t", config={"metadata": {"user": "ann"}})
            run()
            names = ask(path, "SELECT name FROM sqlite_master")
            assert (("agentgraph_threads",) in names) == has_index
            found.append(cost(saver, run, "COMMIT")[1])
    assert found[0] == found[1] > 20


WITHOUT_DEADLINES = {
    "file": [
        *(f"DROP TRIGGER agentgraph_{name}" for name in ("begun", "deleted", "written")),
        "DROP INDEX agentgraph_threads_due",
        "ALTER TABLE agentgraph_threads DROP COLUMN deadline",
    ],
    "database": ["ALTER TABLE agentgraph_threads DROP COLUMN deadline"],
}
"""The statements that make of an index one of an earlier version."""


def test_an_answer_to_one_question_leaves_the_deadline_of_another_in_the_index(place: Place) -> None:
    askers = [ag.human("boss", "?", timeout=0.01, default="no"), ag.human("legal", "?", timeout=3600)]
    with saver_at(place) as saver:
        runner = ag.Runner(ag.parallel("p", [*askers, ag.human("ann", "?")]), checkpointer=saver)
        runner.invoke("Go.", thread_id="t")
        runner.answer("t", {"p/ann": "yes"})
        time.sleep(0.02)
        assert [each.thread_id for each in runner.threads("paused", due=True)] == ["t"]
        runner.advance("t")
        assert not runner.threads(due=True)
        runner.answer("t", {"p/legal": "yes"})
        assert ask(place, "SELECT deadline FROM agentgraph_threads") == [(None,)]


def test_overdue_threads_are_listed_by_an_index_that_learns_of_deadlines(place: Place) -> None:
    def run(saver: Any, thread_id: str, **options: Any) -> ag.Runner:
        tree = ag.parallel("p", [ag.human("boss", "?", **options), says("a")])
        runner = ag.Runner(tree, checkpointer=saver)
        runner.invoke("Go.", thread_id=thread_id)
        return runner

    with saver_at(place) as saver:
        for name, timeout in [("old", 0.01), ("answered", 0.01), ("due", 0.01), ("later", 3600)]:
            run(saver, name, timeout=timeout, default="no")
        runner = run(saver, "free")
        time.sleep(0.02)
        runner.invoke(thread_id="answered")
        found = runner.threads(due=True)
        assert [each.thread_id for each in found] == ["due", "old"]
        assert all(each.is_due and each.status == "paused" for each in found)
        assert [each.thread_id for each in runner.threads(due=True, limit=1, before="due")] == ["old"]
        assert [each.thread_id for each in runner.threads(due=False)] == ["free", "later", "answered"]
        stored = dict(ask(place, "SELECT thread_id, deadline FROM agentgraph_threads"))
        assert stored["due"] == pytest.approx(found[0].deadline, abs=1e-5)
        assert {name for name, at in stored.items() if at is None} == {"answered", "free"}
    for statement in WITHOUT_DEADLINES["database" if isinstance(place, str) else "file"]:
        ask(place, statement)
    with saver_at(place) as saver:
        runner = run(saver, "new", timeout=0.01)
        time.sleep(0.02)
        assert [each.thread_id for each in runner.threads(due=True)] == ["new", "due", "old"]
        assert dict(ask(place, "SELECT thread_id, deadline FROM agentgraph_threads"))["due"] == 0

"""Savers that fail: the error names the thread, the file, and what to do."""

import asyncio
import os
import sqlite3
import threading

import pytest
from helpers import Async, Sync, collect, fresh, says
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver

import agentgraph as ag
from agentgraph.threads.savers import is_of_database, saver_error

BYTES = b"no database, but a text that is longer than the header of one" * 20


def opened(drive, path):
    """Open a file with the saver of a driver."""
    if drive is Sync:
        ag.sqlite_saver(path).conn.close()
        return

    async def main():
        async with ag.async_sqlite_saver(path):
            pass

    asyncio.run(main())


def paths(tmp_path):
    """Return files that cannot be opened, and what is said of each."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_bytes(BYTES)
    look = "look whether its folder is there, and the file may be read and written"
    return {
        tmp_path / "no" / "x.db": f"unable to open database file; {look}",
        tmp_path / "folder": f"it is a directory; {look}",
        tmp_path
        / "notes.txt": "file is not a database; it is not a SQLite database: name another file, "
        "or put a copy in its place",
    }


def test_a_file_that_cannot_be_opened_is_named(drive, tmp_path):
    for path, said in paths(tmp_path).items():
        with pytest.raises(ag.SaverError) as caught:
            opened(drive, path)
        assert str(caught.value) == f"{path} cannot be opened as a SQLite file: {said}"
        assert caught.value.path == str(path)
        assert isinstance(caught.value.__cause__, sqlite3.Error)


def test_what_was_refused_leaves_no_thread_of_its_own_behind(tmp_path):
    for path in paths(tmp_path):
        with pytest.raises(ag.SaverError):
            opened(Async, path)
    left = [thread for thread in threading.enumerate() if "_connection_worker" in thread.name]
    for thread in left:
        thread.join(10)
    assert not any(thread.is_alive() for thread in left)


def test_an_async_saver_that_nobody_opened_says_so_at_its_first_use(tmp_path):
    (tmp_path / "notes.txt").write_bytes(BYTES)

    async def main():
        saver = ag.async_sqlite_saver(tmp_path / "notes.txt")
        runner = ag.Runner(says("a"), checkpointer=saver)
        for _ in range(2):
            with pytest.raises(ag.SaverError, match=r"notes.txt cannot be opened as a SQLite file"):
                await anext(runner.arun("Go."))
        await saver.conn.close()

    asyncio.run(main())


CALLS = [
    ("run", ("Go.",), {"thread_id": "monday"}),
    ("resume", ("monday",), {}),
    ("events", ("monday",), {}),
]


@pytest.mark.parametrize(("name", "arguments", "options"), CALLS, ids=[call[0] for call in CALLS])
def test_a_damaged_file_is_named_with_its_thread(drive, tmp_path, name, arguments, options):
    path = tmp_path / "x.db"
    tree = ag.sequential("s", [says("a", "x" * 20_000), ag.human("h", "?")])
    fresh(drive, path, tree, "run", "Go.", thread_id="monday")
    damage(path)
    with pytest.raises(ag.SaverError) as caught:
        collect([], drive, path, tree, name, *arguments, **options)
    kind = "SqliteSaver" if drive is Sync else "AsyncSqliteSaver"
    assert str(caught.value) == (
        f"thread 'monday': its saver {kind}, the file {path}, failed with DatabaseError: database disk "
        "image is malformed; the file is damaged: put a copy in its place, or start another file; what "
        "was saved before is kept"
    )
    assert (caught.value.thread_id, caught.value.path) == ("monday", str(path))
    assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)


def damage(path):
    """Overwrite all pages of a SQLite file but the first, which names the tables."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with open(path, "r+b") as file:
        file.seek(size)
        file.write(b"\xff" * (os.path.getsize(path) - size))


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    path = tmp_path / "x.db"
    sqlite3.connect(path).close()
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    with pytest.raises(ag.SaverError, match="the file cannot be written: change its permissions"):
        ag.Runner(says("a"), checkpointer=SqliteSaver(connection)).run("Go.", thread_id="t")
    connection.close()


def test_a_file_that_another_connection_holds_is_named(tmp_path):
    path = tmp_path / "x.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("CREATE TABLE held (it)")
    connection = sqlite3.connect(path, timeout=0, check_same_thread=False)
    with pytest.raises(ag.SaverError, match="another process holds the file: try again when that is"):
        ag.Runner(says("a"), checkpointer=SqliteSaver(connection)).run("Go.", thread_id="t")
    connection.close()
    holder.close()


def test_a_saver_that_was_closed_is_named(tmp_path):
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        runner = ag.Runner(says("a"), checkpointer=saver)
    with pytest.raises(ag.SaverError, match="use the runner while its saver is open"):
        runner.run("Go.", thread_id="t")

    async def main():
        async with ag.async_sqlite_saver(tmp_path / "x.db") as saver:
            runner = ag.Runner(says("a"), checkpointer=saver)
        await runner.apending("t")

    with pytest.raises(ag.SaverError, match="use the runner while its saver is open"):
        asyncio.run(main())


def test_a_lock_that_cannot_be_made_is_named(tmp_path):
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        (tmp_path / "x.db-lock").mkdir()
        runner = ag.Runner(says("a"), checkpointer=saver)
        with pytest.raises(ag.SaverError, match=r"x.db-lock cannot be opened: Is a directory"):
            runner.run("Go.", thread_id="t")


def test_a_sync_saver_refuses_async_calls_and_an_async_one_sync_calls(tmp_path):
    async def main():
        with ag.sqlite_saver(tmp_path / "x.db") as saver:
            with pytest.raises(ag.AgentGraphError) as caught:
                await anext(ag.Runner(says("a"), checkpointer=saver).arun("Go."))
            told = [str(caught.value)]
        async with ag.async_sqlite_saver(tmp_path / "x.db") as saver:
            with pytest.raises(ag.AgentGraphError) as caught:
                ag.Runner(says("a"), checkpointer=saver).run("Go.")
            return [*told, str(caught.value)]

    assert asyncio.run(main()) == [
        "SqliteSaver serves only run, query, resume, pending, events and watch: it has no async "
        "methods; call these, or use async_sqlite_saver() on the same file",
        "AsyncSqliteSaver serves only arun, aquery, aresume, apending, aevents and awatch: it runs on "
        "an event loop; call these, or use sqlite_saver() on the same file",
    ]


class Nothing(BaseCheckpointSaver):
    """A saver that has none of the methods."""


def test_a_saver_of_ones_own_is_asked_for_the_methods_that_it_lacks(drive):
    methods = "sync" if drive is Sync else "async"
    with pytest.raises(ag.AgentGraphError) as caught:
        list(drive.run(ag.Runner(says("a"), checkpointer=Nothing()), "Go."))
    assert str(caught.value).startswith("Nothing serves only ")
    assert str(caught.value).endswith(f"or use a saver that has {methods} methods")


def test_errors_of_a_database_that_an_agent_raised_are_not_the_savers(drive):
    error = sqlite3.OperationalError("no such table: bees")
    assert is_of_database(error)
    assert not is_of_database(ValueError("no"))

    def asks(ctx: ag.Context) -> str:
        raise error

    with pytest.raises(sqlite3.OperationalError):
        list(drive.run(ag.Runner(ag.function_agent("a", asks)), "Go."))
    assert not is_of_database(error)


def test_an_error_of_a_saver_carries_the_thread_and_the_file(tmp_path):
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        error = saver_error(sqlite3.OperationalError("disk I/O error"), saver, "monday")
    assert (error.thread_id, error.path) == ("monday", str(tmp_path / "x.db"))
    assert str(error).endswith(
        "disk I/O error; try again when the saver works; what was saved before is kept"
    )

"""The SQLite savers, and what is said when a saver fails."""

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, asks, collect, fresh, says
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

import agentgraph as ag
from agentgraph.graph.guarded_saver import saver_error

TREE = ag.sequential("s", [says("a"), asks("h")])
PRAGMAS = {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 30_000}


def test_a_sqlite_saver_is_fast_and_shares_its_file(tmp_path: Path) -> None:
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        found = {name: saver.conn.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}
    assert found == PRAGMAS


def test_an_async_sqlite_saver_is_fast_and_shares_its_file(tmp_path: Path) -> None:
    async def main() -> dict[str, Any]:
        found = {}
        async with ag.async_sqlite_saver(str(tmp_path / "x.db")) as saver:
            for name in PRAGMAS:
                async with saver.conn.execute(f"PRAGMA {name}") as cursor:
                    (found[name],) = await cursor.fetchone()  # type: ignore[misc]
        return found

    assert asyncio.run(main()) == PRAGMAS


def test_a_saver_may_be_opened_without_a_with_block(tmp_path: Path) -> None:
    saver = ag.sqlite_saver(tmp_path / "x.db")
    assert len(list(ag.Runner(TREE, checkpointer=saver).run("Go.", thread_id="t"))) == 2
    saver.conn.close()

    async def resumed(saver: Any) -> list[str]:
        events = ag.Runner(TREE, checkpointer=saver).aresume("t")
        texts = [event.kind async for event in events]
        await saver.conn.close()
        return texts

    async def awaited() -> list[str]:
        return await resumed(await ag.async_sqlite_saver(tmp_path / "x.db"))

    async def opened_by_its_first_use() -> list[str]:
        return await resumed(ag.async_sqlite_saver(tmp_path / "x.db"))

    for opened in (awaited, opened_by_its_first_use):
        assert asyncio.run(opened()) == ["discarded", "interrupted"]


INSERT = "INSERT INTO writes (thread_id, checkpoint_id, task_id, idx, channel) VALUES (?, ?, ?, ?, ?)"
ROW = ("t", "c", "k", 0, "x")


def cut_off(path: Path) -> Any:
    """Return the cursor of a write that the end of a sync saver cut off."""
    with ag.sqlite_saver(path) as saver:
        saver.setup()
        cursor = saver.conn.cursor()
        cursor.executemany(INSERT, [ROW])
        return cursor


async def acut_off(path: Path) -> Any:
    async with ag.async_sqlite_saver(path) as saver:
        cursor = await saver.conn.cursor()
        await cursor.executemany(INSERT, [ROW])
        return cursor


def test_a_closed_saver_leaves_no_lock_if_a_write_was_cut_off(drive: Drive, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    held = cut_off(path) if drive is Sync else asyncio.run(acut_off(path))
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert other.execute("SELECT count(*) FROM writes").fetchone() == (0,)
    del held


# Files that cannot be used.


def opened(drive: Drive, path: Path) -> None:
    if drive is Sync:
        ag.sqlite_saver(path).conn.close()
        return

    async def main() -> None:
        async with ag.async_sqlite_saver(path):
            pass

    asyncio.run(main())


def unusable(folder: Path) -> dict[Path, str]:
    """Return paths that cannot be opened, and what is said of each."""
    (folder / "folder").mkdir()
    (folder / "notes.txt").write_bytes(b"not a database, but longer than the header of one" * 20)
    look = "look whether its folder is there, and the file may be read and written"
    return {
        folder / "no" / "x.db": f"unable to open database file; {look}",
        folder / "folder": f"it is a directory; {look}",
        folder / "notes.txt": "file is not a database; it is not a SQLite database: name another file, "
        "or put a copy in its place",
    }


def test_a_file_that_cannot_be_opened_is_named_and_no_thread_of_the_process_is_left(
    drive: Drive, tmp_path: Path
) -> None:
    for path, why in unusable(tmp_path).items():
        with pytest.raises(ag.SaverError) as caught:
            opened(drive, path)
        assert str(caught.value) == f"{path} cannot be opened as a SQLite file: {why}"
        assert caught.value.path == str(path)
        assert isinstance(caught.value.__cause__, sqlite3.Error)
    left = [thread for thread in threading.enumerate() if "_connection_worker" in thread.name]
    for thread in left:
        thread.join(10)
    assert not any(thread.is_alive() for thread in left)


def test_an_async_saver_that_was_not_opened_fails_at_each_use(tmp_path: Path) -> None:
    *_, path = unusable(tmp_path)

    async def main() -> None:
        saver = ag.async_sqlite_saver(path)
        runner = ag.Runner(says("a"), checkpointer=saver)
        for _ in range(2):
            with pytest.raises(ag.SaverError, match=r"notes.txt cannot be opened as a SQLite file"):
                await anext(runner.arun("Go."))
        await saver.conn.close()

    asyncio.run(main())


def damage(path: Path) -> None:
    """Overwrite all pages of a SQLite file but the first, which names the tables."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with open(path, "r+b") as file:
        file.seek(size)
        file.write(b"\xff" * (os.path.getsize(path) - size))


def test_a_damaged_file_is_named_with_its_thread(drive: Drive, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    tree = ag.sequential("s", [says("a", "x" * 20_000), asks("h")])
    fresh(drive, path, tree, "run", "Go.", thread_id="monday")
    damage(path)
    run: dict[str, Any] = {"run": (["Go."], {"thread_id": "monday"})}
    for method in ("run", "resume", "events"):
        args, options = run.get(method, (["monday"], {}))
        with pytest.raises(ag.SaverError) as caught:
            collect([], drive, path, tree, method, *args, **options)
        kind = "SqliteSaver" if drive is Sync else "AsyncSqliteSaver"
        assert str(caught.value) == (
            f"thread 'monday': its saver {kind}, the file {path}, failed with DatabaseError: database "
            "disk image is malformed; the file is damaged: put a copy in its place, or start another "
            "file; what was saved before is kept"
        )
        assert (caught.value.thread_id, caught.value.path) == ("monday", str(path))
        assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "x.db").close()
    uri = f"file:{tmp_path / 'x.db'}?mode=ro"
    with (
        closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection,
        pytest.raises(ag.SaverError, match="the file cannot be written: change its permissions"),
    ):
        ag.Runner(says("a"), checkpointer=SqliteSaver(connection)).run("Go.", thread_id="t")


def test_a_file_that_another_connection_has_locked_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as holder,
        closing(sqlite3.connect(path, timeout=0, check_same_thread=False)) as connection,
    ):
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("CREATE TABLE held (it)")
        with pytest.raises(ag.SaverError, match="another process holds the file: try again when that"):
            ag.Runner(says("a"), checkpointer=SqliteSaver(connection)).run("Go.", thread_id="t")


@pytest.mark.parametrize("given", [5, True, b"x.db"], ids=["a number", "true", "bytes"])
def test_what_is_neither_a_saver_nor_a_path_is_refused(given: Any) -> None:
    with pytest.raises(
        ag.AgentGraphError, match="is neither a saver of LangGraph nor a path; pass one"
    ):
        ag.Runner(says("a"), checkpointer=given)


@pytest.mark.parametrize("opened", [ag.sqlite_saver, ag.async_sqlite_saver], ids=["sync", "async"])
def test_an_empty_path_is_refused(opened: Any) -> None:
    with pytest.raises(ag.SaverError, match="the path of a SQLite file is empty"):
        opened("")
    with pytest.raises(ag.SaverError, match="the path of a SQLite file is empty"):
        ag.Runner(says("a"), checkpointer="")


def test_a_saver_that_was_closed_is_named(tmp_path: Path) -> None:
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        runner = ag.Runner(says("a"), checkpointer=saver)
    with pytest.raises(ag.SaverError, match="use the runner while its saver is open"):
        runner.run("Go.", thread_id="t")

    async def main() -> None:
        async with ag.async_sqlite_saver(tmp_path / "x.db") as saver:
            runner = ag.Runner(says("a"), checkpointer=saver)
        await runner.apending("t")

    with pytest.raises(ag.SaverError, match="use the runner while its saver is open"):
        asyncio.run(main())


def test_any_other_error_of_a_saver_carries_the_thread_and_the_file(tmp_path: Path) -> None:
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        error = saver_error(sqlite3.OperationalError("disk I/O error"), saver, "monday")
    assert (error.thread_id, error.path) == ("monday", str(tmp_path / "x.db"))
    assert str(error).endswith(
        "disk I/O error; try again when the saver works; what was saved before is kept"
    )


class Lacking(InMemorySaver):
    """A saver that deletes nothing, and lists the checkpoints of one thread only."""

    def delete_thread(self, thread_id: str) -> None:
        raise NotImplementedError

    async def adelete_thread(self, thread_id: str) -> None:
        raise NotImplementedError("not offered here")

    def list(self, config: Any, **bounds: Any) -> Any:
        if config is None:
            raise ValueError("Runnable config must contain thread_id")
        return super().list(config, **bounds)


def test_what_a_saver_does_not_offer_is_reported_as_that() -> None:
    saver = Lacking()
    runner = ag.Runner(says("a"), checkpointer=saver)
    runner.invoke("Go.", thread_id="t")
    advice = "use a saver that does, such as ag.sqlite_saver(path)"
    with pytest.raises(ag.SaverError) as caught:
        runner.delete("t")
    assert str(caught.value) == f"thread 't': its saver Lacking does not offer delete_thread; {advice}"
    with pytest.raises(ag.SaverError, match=r"does not offer adelete_thread \(not offered here\); use"):
        asyncio.run(runner.adelete("t"))


def test_a_saver_that_lists_no_threads_is_reported_as_that() -> None:
    with pytest.raises(ValueError, match="must contain thread_id") as caught:
        Lacking().list(None)
    assert str(saver_error(caught.value, Lacking())) == (
        "the saver Lacking does not list threads (Runnable config must contain thread_id); keep the "
        "ids of threads yourself, or use a saver that lists them, such as ag.sqlite_saver(path)"
    )


def test_a_file_is_closed_once_no_other_thread_reads_it(tmp_path: Path) -> None:
    saver = ag.sqlite_saver(tmp_path / "t.db")
    closes = threading.Thread(target=saver.close)
    with saver.cursor() as cursor:
        closes.start()
        closes.join(0.2)
        assert closes.is_alive()
        assert cursor.execute("SELECT 1").fetchone() == (1,)
    closes.join(30)
    assert not closes.is_alive()
    with pytest.raises(sqlite3.ProgrammingError):
        saver.get_tuple({"configurable": {"thread_id": "t"}})

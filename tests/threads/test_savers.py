"""The SQLite savers, and the lock that keeps one run at a time on a thread."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

import agentgraph as ag
from agentgraph.threads.runs import lock_thread


def tree():
    return ag.sequential("s", [ag.function_agent("a", lambda ctx: "a"), ag.human("h", "?")])


def test_a_sqlite_saver_is_fast_and_shares_its_file(tmp_path):
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        assert saver.conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert saver.conn.execute("PRAGMA synchronous").fetchone() == (1,)
        assert saver.conn.execute("PRAGMA busy_timeout").fetchone() == (30_000,)


def test_an_async_sqlite_saver_is_fast_and_shares_its_file(tmp_path):
    async def main():
        async with ag.async_sqlite_saver(str(tmp_path / "x.db")) as saver:
            settings = []
            for pragma in ("journal_mode", "synchronous", "busy_timeout"):
                async with saver.conn.execute(f"PRAGMA {pragma}") as cursor:
                    settings.append((await cursor.fetchone())[0])
            return settings

    assert asyncio.run(main()) == ["wal", 1, 30_000]


def test_a_saver_is_used_without_a_with_block_too(tmp_path):
    saver = ag.sqlite_saver(tmp_path / "x.db")
    assert len(list(ag.Runner(tree(), checkpointer=saver).run("hi"))) == 2
    saver.conn.close()

    async def main():
        saver = await ag.async_sqlite_saver(tmp_path / "y.db")
        events = [e async for e in ag.Runner(tree(), checkpointer=saver).arun("hi")]
        await saver.conn.close()
        return events

    assert len(asyncio.run(main())) == 2


def test_an_async_saver_is_set_up_by_its_first_use(tmp_path):
    async def main():
        saver = ag.async_sqlite_saver(tmp_path / "y.db")
        events = [e async for e in ag.Runner(tree(), checkpointer=saver).arun("hi")]
        await saver.conn.close()
        return events

    assert len(asyncio.run(main())) == 2


def test_a_thread_paused_by_a_sync_saver_is_resumed_by_an_async_one(tmp_path):
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        list(ag.Runner(tree(), checkpointer=saver).run("hi", thread_id="t"))

    async def main():
        async with ag.async_sqlite_saver(tmp_path / "x.db") as saver:
            return [e.text async for e in ag.Runner(tree(), checkpointer=saver).aresume("t", "yes")]

    assert asyncio.run(main()) == ["yes"]


def test_a_thread_is_held_for_all_savers_of_one_file_and_for_no_other_thread(tmp_path):
    with ag.sqlite_saver(tmp_path / "x.db") as one, ag.sqlite_saver(tmp_path / "x.db") as two:
        with lock_thread(one, "t"):
            with pytest.raises(ag.ThreadBusyError), lock_thread(two, "t"):
                pass
            with lock_thread(two, "other"):
                pass
        with lock_thread(two, "t"):
            pass


def test_savers_in_memory_do_not_share_their_threads():
    with (
        ag.sqlite_saver(":memory:") as one,
        ag.sqlite_saver(":memory:") as two,
        lock_thread(one, "t"),
        lock_thread(two, "t"),
    ):
        pass


def test_a_closed_async_saver_leaves_no_lock_where_a_write_was_cut_off(tmp_path):
    async def cut_off():
        async with ag.async_sqlite_saver(tmp_path / "runs.db") as saver:
            cursor = await saver.conn.cursor()
            await cursor.executemany(INSERT, [("t", "c", "k", 0, "x")])
            return cursor

    held = asyncio.run(cut_off())
    check_free(tmp_path / "runs.db")
    del held


def test_a_closed_sync_saver_leaves_no_lock_where_a_write_was_cut_off(tmp_path):
    with ag.sqlite_saver(tmp_path / "runs.db") as saver:
        saver.setup()
        held = saver.conn.cursor()
        held.executemany(INSERT, [("t", "c", "k", 0, "x")])
    check_free(tmp_path / "runs.db")
    del held


INSERT = "INSERT INTO writes (thread_id, checkpoint_id, task_id, idx, channel) VALUES (?, ?, ?, ?, ?)"


def check_free(path):
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert other.execute("SELECT count(*) FROM writes").fetchone() == (0,)

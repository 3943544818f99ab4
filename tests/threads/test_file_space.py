"""The disk space of deleted threads goes back to the disk."""

import asyncio
from pathlib import Path

from helpers import Drive, Sync, says

import agentgraph as ag

TREE = ag.function_agent("a", lambda ctx: "x" * 1_000_000)


def size_of(path: Path) -> int:
    """Return the size of a file, with the log next to it."""
    beside = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (beside.stat().st_size if beside.exists() else 0)


def test_a_deleted_thread_gives_its_space_back_to_the_disk(drive: Drive, tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    runner = ag.Runner(TREE, checkpointer=path)
    list(drive.run(runner, "Go.", thread_id="small"))
    small = size_of(path)
    for _ in range(3):
        list(drive.run(runner, "Go.", thread_id="t"))
    assert size_of(path) > small + 3_000_000
    runner.delete("t") if drive is Sync else asyncio.run(runner.adelete("t"))
    assert size_of(path) < small + 200_000
    assert [each.thread_id for each in runner.threads()] == ["small"]


def test_an_async_saver_gives_space_back_too(tmp_path: Path) -> None:
    path = tmp_path / "t.db"

    async def main() -> None:
        async with ag.async_sqlite_saver(path) as saver:
            runner = ag.Runner(TREE, checkpointer=saver)
            await runner.ainvoke("Go.", thread_id="t")
            assert size_of(path) > 1_000_000
            await runner.adelete("t")
            assert size_of(path) < 200_000
            await ag.Runner(says("b"), checkpointer=saver).ainvoke("Go.", thread_id="t")

    asyncio.run(main())


def test_a_thread_is_deleted_while_another_process_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    runner = ag.Runner(TREE, checkpointer=path)
    runner.invoke("Go.", thread_id="t")
    with ag.sqlite_saver(path) as other:
        other.conn.execute("BEGIN")
        assert other.conn.execute("SELECT count(*) FROM checkpoints").fetchone() > (0,)
        runner.delete("t")
        assert size_of(path) > 1_000_000
        other.conn.rollback()
        runner.invoke("Go.", thread_id="u")
        runner.delete("u")
        assert size_of(path) < 200_000

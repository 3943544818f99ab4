"""Threads are locked: by one run at a time, in a process and on a SQLite file."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import Disk, Drive, says
from helpers.commands import Commands, wait_until

import agentgraph as ag
from agentgraph.journal.locks import ThreadLock


def test_a_run_locks_its_thread_alone_until_it_is_closed() -> None:
    runner = ag.Runner(ag.sequential("s", [says("a"), says("b")]))
    run = runner.run("Go.", thread_id="t")
    begins = {
        "call answer('t', ...) to answer its questions, ": lambda: runner.resume("t"),
        "": lambda: runner.run("Go.", thread_id="t"),
    }
    for advice, begin in begins.items():
        with pytest.raises(ag.ThreadBusyError) as caught:
            begin()
        assert str(caught.value) == (
            f"thread 't' is busy: another run is active on it; {advice}wait for its end (an iterator "
            "that was left early ends when it is closed), or use another thread_id"
        )
    assert len(list(runner.run("Go.", thread_id="other"))) == 2
    run.close()
    assert len(list(runner.run("Go.", thread_id="t"))) == 2


@contextmanager
def _locked(saver: object, thread_id: str) -> Iterator[None]:
    lock = ThreadLock(saver, thread_id)
    lock.acquire()
    yield
    lock.release()


def test_a_thread_is_locked_for_all_savers_of_its_file_and_no_other_thread_is(tmp_path: Path) -> None:
    with ag.sqlite_saver(tmp_path / "x.db") as one, ag.sqlite_saver(tmp_path / "x.db") as two:
        with _locked(one, "t"):
            with pytest.raises(ag.ThreadBusyError), _locked(two, "t"):
                pass
            with _locked(two, "other"):
                pass
        with _locked(two, "t"):
            pass


def test_savers_in_memory_do_not_share_their_threads() -> None:
    with (
        ag.sqlite_saver(":memory:") as one,
        ag.sqlite_saver(":memory:") as two,
        _locked(one, "t"),
        _locked(two, "t"),
    ):
        pass


def test_a_lock_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        (tmp_path / "x.db-lock").mkdir()
        with pytest.raises(ag.SaverError) as caught:
            ag.Runner(says("a"), checkpointer=saver).run("Go.", thread_id="t")
    assert str(caught.value) == (
        f"{tmp_path / 'x.db-lock'} cannot be opened: Is a directory; by this file processes know that "
        "they share a thread, so its folder must be one that may be written to"
    )
    assert caught.value.path == str(tmp_path / "x.db")


def _lock_files(folder: Path) -> list[str]:
    """Return the lock files in a folder that this process has open."""
    gc.collect()
    opened = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
    names = [os.readlink(each) for each in opened if os.path.islink(each)]
    return [each for each in names if each.endswith("-lock") and each.startswith(str(folder))]


def test_a_lock_file_is_closed_when_nothing_uses_its_database_any_more(
    drive: Drive, tmp_path: Path
) -> None:
    for number in range(20):
        Disk(drive, tmp_path / f"{number}.db").run(says("a"))
    wait_until(lambda: not _lock_files(tmp_path))  # threads that end hold what they had for a moment
    with ag.sqlite_saver(tmp_path / "1.db") as one, ag.sqlite_saver(tmp_path / "1.db") as two:
        for saver in (one, two):
            ag.Runner(says("a"), checkpointer=saver).invoke("Go.", thread_id="t")
        assert len(_lock_files(tmp_path)) == 1
    del one, two, saver
    wait_until(lambda: not _lock_files(tmp_path))  # threads that end hold what they had for a moment


IS_LOCKED = """
import agentgraph as ag
from agentgraph.journal.locks import is_locked
with ag.sqlite_saver("x.db") as saver:
    print(is_locked(saver, "t"))
"""


def test_a_lock_outlives_its_saver_and_others_of_its_file(program: Commands) -> None:
    (program.folder / "asks.py").write_text(IS_LOCKED)
    one = ag.sqlite_saver(program.folder / "x.db")
    lock = ThreadLock(one, "t")
    lock.acquire()
    one.close()
    del one
    for _ in range(2):
        with ag.sqlite_saver(program.folder / "x.db") as other:
            ag.Runner(says("a"), checkpointer=other).invoke("Go.", thread_id="other")
        del other
        gc.collect()
        assert program("asks.py").out == "True\n"
    lock.release()
    assert program("asks.py").out == "False\n"


def test_a_lock_that_is_left_in_a_circle_is_released_once(tmp_path: Path) -> None:
    """The garbage collector may close the file before it releases the lock."""
    for _ in range(3):
        lock = ThreadLock(saver := ag.sqlite_saver(tmp_path / "x.db"), "t")
        lock.holder = [lock, saver]
        lock.acquire()
        saver.close()
        del lock, saver
        assert _lock_files(tmp_path) == []

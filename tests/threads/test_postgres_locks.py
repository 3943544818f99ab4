"""Threads in PostgreSQL are locked by one run at a time, over processes; who loses a lock stops."""

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from helpers import Async, Drive, Sync, asks, lines, says, unvoided
from helpers.commands import Commands, wait_until
from helpers.databases import Databases, cut_locks
from locking_process import TREE

import agentgraph as ag
from agentgraph.journal.locks import ThreadLock
from agentgraph.journal.savers import postgres_locks

PROGRAM = str(Path(__file__).with_name("locking_process.py"))
HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"


def calls(runner: ag.Runner) -> dict[str, Callable[[], Any]]:
    """Return calls that need a thread for themselves."""
    return {
        "run": lambda: runner.run("Go.", thread_id="t"),
        "resume": lambda: runner.resume("t"),
        "arun": lambda: asyncio.run(runner.ainvoke("Go.", thread_id="t")),
        "rewind": lambda: runner.rewind("t", "s/a"),
        "delete": lambda: runner.delete("t"),
        "adelete": lambda: asyncio.run(runner.adelete("t")),
        "copy": lambda: runner.copy("t", "other"),
        "copy to": lambda: runner.copy("other", "t"),
        "fork_many": lambda: runner.fork_many("t", "s/a", {"x": {}}),
    }


def test_a_run_of_another_process_is_seen_and_its_thread_is_busy(program: Commands, url: str) -> None:
    running = program.start(PROGRAM, url, "t")
    running.said("hanging")
    with ag.Runner(TREE, checkpointer=url) as runner:
        assert runner.thread("t").status == asyncio.run(runner.athread("t")).status == "running"
        assert [each.thread_id for each in runner.threads("running")] == ["t"]
        for call in calls(runner).values():
            with pytest.raises(ag.ThreadBusyError):
                call()
        assert Databases.ask(url, HELD) == [(1,)]
        (program.folder / "go").touch()
        assert running.wait().lines == ["s/a: a", "hanging", "s/b: b", "s/c: "]
        assert (runner.thread("t").status, Databases.ask(url, HELD)) == ("paused", [(0,)])


def test_a_thread_of_a_killed_process_is_resumed_at_once(program: Commands, url: str) -> None:
    running = program.start(PROGRAM, url, "t")
    running.said("hanging")
    with ag.Runner(TREE, checkpointer=url) as runner:
        running.signal(signal.SIGKILL)
        assert running.wait().code == -signal.SIGKILL
        ran = ag.Runner(
            ag.sequential("s", [says("a", "twice"), says("b"), asks("c")]), checkpointer=runner.saver
        )
        assert lines(ran.resume("t"))[-2:] == ["s/b: b", "s/c: [asks] Well?"]
        assert lines(ran.events("t")) == ["s/a: a", "s/b: b", "s/c: [asks] Well?"]


class Cut:
    """A tree in which the locks of a database are cut once, in the step of a branch or the root."""

    def __init__(self, url: str, *, in_branch: bool, on_error: str) -> None:
        self.url, self.ended, self.is_cut = url, Counter[str](), False
        first, *rest = (ag.function_agent(name, self.act) for name in ("a", "b", "c", "d"))
        if in_branch:
            branch = ag.sequential("x", rest[:2])
            rest[:2] = [ag.parallel("p", [branch, says("y")], on_error=on_error)]
        self.tree = ag.sequential("s", [first, *rest])

    def act(self, ctx: ag.Context) -> str:
        self.ended[ctx.address] += 1
        if ctx.address.endswith("b") and not self.is_cut:
            self.is_cut = True
            assert cut_locks(self.url) == 1
        return ctx.address


@pytest.mark.parametrize("drive", [Sync, Async])
@pytest.mark.parametrize(
    ("in_branch", "on_error"), [(False, "fail"), (True, "fail"), (True, "collect")]
)
def test_a_run_that_loses_its_lock_stops_and_is_resumed(
    url: str, drive: Drive, in_branch: bool, on_error: str
) -> None:
    cut = Cut(url, in_branch=in_branch, on_error=on_error)
    heard: list[ag.AgentEvent] = []
    with ag.Runner(cut.tree, checkpointer=url) as runner:
        with pytest.raises(ag.SaverError) as caught:
            heard.extend(drive.run(runner, "Go.", thread_id="t"))
        assert isinstance(caught.value.__cause__, psycopg.OperationalError)
        assert caught.value.thread_id == "t"
        assert "does not hold the lock of this run any more" in str(caught.value)
        assert "error" not in {event.kind for event in heard}
        assert runner.thread("t").status == "stopped"
        heard += drive.resume(runner, "t")
        assert runner.thread("t").status == "done"
        assert unvoided(heard) == list(runner.events("t"))
    b = "s/p/x/b" if in_branch else "s/b"
    c = "s/p/x/c" if in_branch else "s/c"
    assert cut.ended == {"s/a": 1, b: 2, c: 1, "s/d": 1}


def test_a_run_whose_thread_another_run_has_taken_meanwhile_writes_nothing(url: str) -> None:
    tree, same = ag.sequential("s", [says("a"), says("b"), asks("c")]), f"{url}&port=5432"
    with ag.Runner(tree, checkpointer=url) as one, ag.Runner(tree, checkpointer=same) as two:
        assert one.saver.thread_locks.key != two.saver.thread_locks.key  # this process cannot tell
        run = one.run("Go.", thread_id="t")
        next(run)
        with pytest.raises(ag.ThreadBusyError):
            two.resume("t")
        assert cut_locks(url) == 1
        assert lines(two.resume("t"))[-1] == "s/c: [asks] Well?"
        before = two.thread("t")
        with pytest.raises(ag.SaverError, match="does not hold the lock"):
            list(run)
        assert two.thread("t") == before


def test_a_save_does_not_ask_the_server_for_the_lock_each_time(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_locks, "VERIFIED_SECONDS", 3600.0)
    asked = "SELECT query FROM pg_stat_activity, pg_locks WHERE locktype = 'advisory' AND granted "
    asked += "AND pg_locks.pid = pg_stat_activity.pid"
    queries = list[str]()

    def fn(ctx: ag.Context) -> str:
        queries.extend(query for (query,) in Databases.ask(url, asked))
        return str(ctx.iteration)

    with ag.Runner(
        ag.loop("l", [ag.function_agent("a", fn)], max_iterations=20), checkpointer=url
    ) as r:
        r.invoke("Go.", thread_id="t")
    assert ["pg_try_advisory_lock" in query for query in queries] == [True] * 20


def test_all_runs_of_a_saver_end_when_its_locks_are_lost_and_the_next_run_has_new_ones(
    url: str,
) -> None:
    tree = ag.sequential("s", [says("a"), says("b")])
    with ag.Runner(tree, checkpointer=url) as runner:
        runs = [runner.run("Go.", thread_id=name) for name in ("one", "other")]
        for run in runs:
            next(run)
        assert cut_locks(url) == 2  # one connection holds both
        assert lines(runner.run("Go.", thread_id="new")) == ["s/a: a", "s/b: b"]
        for run in runs:
            with pytest.raises(ag.SaverError, match="does not hold the lock of this run any more"):
                list(run)
        assert [runner.advance(name).status for name in ("one", "other")] == ["done", "done"]
        assert Databases.ask(url, HELD) == [(0,)]


CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
HELD_AND_CONNECTIONS = f"SELECT ({HELD}), ({CONNECTIONS})"
"""Asked at once: the server may still count the connection of a question that was asked before."""


def test_a_hundred_runs_at_a_time_have_one_connection_for_all_locks(url: str) -> None:
    tree = ag.sequential("s", [says("a"), says("b")])
    with (
        ag.postgres_saver(url, max_connections=2) as saver,
        ag.Runner(tree, checkpointer=saver) as runner,
    ):
        runs = [runner.run("Go.", thread_id=f"t{number}") for number in range(100)]
        for run in runs:
            next(run)
        assert Databases.ask(url, HELD_AND_CONNECTIONS) == [(100, 2)]
        assert [lines(run) for run in runs] == [["s/b: b"]] * 100
        assert Databases.ask(url, HELD) == [(0,)]


def test_a_session_that_does_not_hold_its_lock_any_more_is_found_out(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under a pooler that gives each transaction another connection to the server."""
    monkeypatch.setattr(postgres_locks, "VERIFIED_SECONDS", 0.0)
    with ag.Runner(ag.sequential("s", [says("a"), says("b")]), checkpointer=url) as runner:
        run = runner.run("Go.", thread_id="t")
        next(run)
        session, _ = runner.saver.thread_locks.session()
        session._connection.execute("SELECT pg_advisory_unlock_all()")
        with pytest.raises(ag.SaverError, match="pooler in its transaction mode"):
            list(run)


@pytest.mark.parametrize("way", ["closed", "dropped", "ended", "refused"])
@pytest.mark.parametrize("drive", [Sync, Async])
def test_a_lock_is_free_once_its_run_has_ended(url: str, drive: Drive, way: str) -> None:
    with ag.Runner(ag.sequential("s", [says("a"), asks("b")]), checkpointer=url) as runner:
        for _ in range(3):
            match way:
                case "refused":
                    with pytest.raises(ag.UnknownThreadError):
                        drive.resume(runner, "nobody").__next__()
                    runner.invoke("Go.", thread_id="t", drop_pending=True)
                case "ended":
                    list(drive.run(runner, "Go.", thread_id="t", drop_pending=True))
                case _:
                    run = drive.run(runner, "Go.", thread_id="t", drop_pending=True)
                    next(run)
                    if way == "closed":
                        run.close()
                    del run
            assert Databases.ask(url, HELD) == [(0,)]
            assert runner.thread("t").status == (
                "stopped" if way in ("closed", "dropped") else "paused"
            )


class Elsewhere:
    """Locks of threads that another session holds, while a saver tries for long to take them."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_locks, "_NOTICED", (10_000, 0.001))
        self._url = url

    @contextmanager
    def holding(self, saver: Any, threads: Sequence[str]) -> Iterator[None]:
        with psycopg.connect(self._url, autocommit=True) as session:
            for thread in threads:
                session.execute("SELECT pg_advisory_lock(%s)", [saver.thread_locks.number(thread)])
            yield

    def wait_for(self, sessions: int) -> None:
        """Wait until so many sessions have tried to take a lock."""
        trying = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
        trying += "query LIKE 'SELECT pg_try_advisory_lock%'"
        wait_until(lambda: Databases.ask(self._url, trying) == [(sessions,)])


def test_a_cancelled_wait_for_a_lock_leaves_none(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, threads = Elsewhere(url, monkeypatch), [f"t{number}" for number in range(20)]

    async def cancelled(saver: Any) -> None:
        locks = [ThreadLock(saver, thread) for thread in threads]
        with elsewhere.holding(saver, threads):
            tasks = [asyncio.create_task(lock.aacquire()) for lock in locks]
            await asyncio.to_thread(elsewhere.wait_for, 1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for lock in locks:
                lock.release()

    with ag.postgres_saver(url) as saver:
        asyncio.run(cancelled(saver))
        saver.thread_locks.executor.shutdown()  # which waits for those who still try
        wait_until(lambda: Databases.ask(url, HELD) == [(0,)])
        assert not any(saver.thread_locks.is_taken(thread) for thread in threads)


def test_a_lock_that_is_released_while_it_is_taken_is_free(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Elsewhere(url, monkeypatch)
    with ag.postgres_saver(url) as saver:
        lock = ThreadLock(saver, "t")
        taking = threading.Thread(target=lock.acquire)
        with elsewhere.holding(saver, "t"):
            taking.start()
            elsewhere.wait_for(1)
            lock.release()
        taking.join()
        wait_until(lambda: Databases.ask(url, HELD) == [(0,)])
        again = ThreadLock(saver, "t")
        again.acquire()
        again.release()


def test_an_exception_of_a_signal_handler_while_a_lock_is_taken_leaves_none(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Elsewhere(url, monkeypatch)

    def interrupt() -> None:
        elsewhere.wait_for(1)
        signal.raise_signal(signal.SIGINT)

    with ag.postgres_saver(url) as saver:
        with elsewhere.holding(saver, "t"):
            lock, interrupting = ThreadLock(saver, "t"), threading.Thread(target=interrupt)
            interrupting.start()
            with pytest.raises(KeyboardInterrupt):
                lock.acquire()
            interrupting.join()
            lock.release()
        wait_until(lambda: Databases.ask(url, HELD) == [(0,)])
        again = ThreadLock(saver, "t")
        again.acquire()
        again.release()


def test_schemas_of_a_database_have_threads_of_their_own(url: str) -> None:
    Databases.ask(url, "CREATE SCHEMA one")
    tree = ag.sequential("s", [says("a"), says("b")])
    with (
        ag.Runner(tree, checkpointer=url) as runner,
        ag.Runner(tree, checkpointer=f"{url}&options=-csearch_path%3Done") as other,
    ):
        run, beside = (each.run("Go.", thread_id="t") for each in (runner, other))
        assert lines(run) == lines(beside) == ["s/a: a", "s/b: b"]
        runner.delete("t")
        assert (runner.thread("t").status, other.thread("t").status) == ("new", "done")


def test_processes_that_open_an_empty_database_at_once_all_open_it(databases: Databases) -> None:
    url, errors = databases.make(of="template0"), list[BaseException]()

    def begin() -> None:
        try:
            with ag.Runner(says("a"), checkpointer=url) as runner:
                runner.query("Go.").close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    indexes = "SELECT count(*) FROM pg_index WHERE indexrelid::regclass::text LIKE 'checkpoint%'"
    assert Databases.ask(url, f"{indexes} AND indisvalid") == [(7,)]


def test_a_server_that_gives_no_more_connections_is_named(databases: Databases) -> None:
    url = databases.make(of="template0")
    name = url.partition("?")[0].rpartition("/")[2]
    Databases.ask(url, "DROP ROLE IF EXISTS few")
    Databases.ask(url, "CREATE ROLE few LOGIN CONNECTION LIMIT 2")
    Databases.ask(url, f"ALTER DATABASE {name} OWNER TO few")
    tree = ag.sequential("s", [says("a"), says("b")])
    with ag.Runner(tree, checkpointer=url.replace("//postgres:@", "//few@")) as runner:
        taken = psycopg.connect(url.replace("//postgres:@", "//few@"))
        with taken, pytest.raises(ag.SaverError) as caught:
            runner.invoke("Go.", thread_id="t")  # the saver itself has one connection
        assert 'too many connections for role "few"; have fewer processes' in str(caught.value)
        assert "max_connections" in str(caught.value)
        few = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'few'"
        wait_until(lambda: Databases.ask(url, few) == [(1,)])
        assert runner.invoke("Go.", thread_id="t").status == "done"


def test_a_run_waits_for_one_that_is_closing(url: str) -> None:
    inside, may_end = threading.Event(), threading.Event()

    def wait(ctx: ag.Context) -> str:
        inside.set()
        assert may_end.wait(20)
        return "slow"

    async def closing(runner: ag.Runner) -> list[str]:
        run = await runner.arun("Go.", thread_id="t")
        reader = asyncio.create_task(anext(run))
        await asyncio.to_thread(inside.wait, 20)
        reader.cancel()
        await asyncio.sleep(0)
        later = asyncio.create_task(runner.ainvoke(thread_id="t"))
        await asyncio.sleep(0.05)
        may_end.set()
        await asyncio.gather(reader, return_exceptions=True)
        return lines((await later).events)

    tree = ag.sequential("s", [ag.function_agent("slow", wait), says("last")])
    with ag.Runner(tree, checkpointer=url) as runner:
        assert asyncio.run(closing(runner))[-1] == "s/last: last"

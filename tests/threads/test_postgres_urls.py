"""A PostgreSQL database opened by its URL: for sync and async calls, strictly, showing no password."""

import asyncio
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from helpers import Async, Drive, Sync, asks, lines, says
from helpers.commands import Commands, wait_until
from helpers.databases import Databases
from helpers.pooler import Pooler

import agentgraph as ag
from agentgraph.journal.savers import postgres
from agentgraph.journal.savers.opening import MAX_CONNECTIONS
from agentgraph.journal.savers.urls import is_database_url, without_password

TREE = ag.sequential("s", [ag.parallel("p", [says("a"), asks("boss")]), says("c")])
OTHERS = """
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
SECRET = "s3cr3t@/:#"


def test_one_runner_serves_sync_and_async_calls_on_any_event_loop(url: str) -> None:
    with ag.Runner(TREE, checkpointer=url.replace("postgresql://", "postgres://")) as runner:
        assert runner.invoke("Go.", thread_id="t").status == "paused"
        assert [each.address for each in asyncio.run(runner.apending("t"))] == ["s/p/boss"]
        assert asyncio.run(runner.ainvoke(thread_id="t", answers="yes")).text == "c"
        assert asyncio.run(runner.athread("t")) == runner.thread("t")

        async def several() -> list[str]:
            begun = [runner.ainvoke("Go.", thread_id=f"t{number}") for number in range(20)]
            return [each.status for each in await asyncio.gather(*begun)]

        assert asyncio.run(several()) == ["paused"] * 20
        assert len(runner.threads("paused")) == 20
    for call in (runner.pending, lambda name: asyncio.run(runner.apending(name))):
        with pytest.raises(ag.SaverError, match="use the runner while its saver is open"):
            call("t")
    with ag.postgres_saver(url) as saver:
        assert ag.Runner(TREE, checkpointer=saver).thread("t").status == "done"
        ag.Runner(TREE, checkpointer=saver).close()  # a saver that was passed stays open
        assert ag.Runner(TREE, checkpointer=saver).thread("t").status == "done"


@pytest.mark.parametrize("drive", [Sync, Async])
def test_a_run_whose_runner_is_closed_ends_and_its_thread_is_free(url: str, drive: Drive) -> None:
    tree = ag.sequential("s", [says("a"), says("b")])
    runner = ag.Runner(tree, checkpointer=url)
    run = drive.run(runner, "Go.", thread_id="t")
    assert next(run).text == "a"
    runner.close()
    with pytest.raises(ag.SaverError, match="use the runner while its saver is open"):
        list(run)
    with ag.Runner(tree, checkpointer=url) as again:
        assert again.thread("t").status == "stopped"
        assert lines(drive.resume(again, "t"))[-1] == "s/b: b"


def test_a_saver_opens_few_connections_and_closes_all(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_IDLE_SECONDS", 0.2)
    mine = f"SELECT count(*) {OTHERS}"
    with ag.Runner(TREE, checkpointer=url) as runner:

        async def several() -> None:
            await asyncio.gather(*(runner.ainvoke("Go.") for _ in range(30)))

        asyncio.run(several())
        assert 2 <= Databases.ask(url, mine)[0][0] <= MAX_CONNECTIONS
        wait_until(lambda: Databases.ask(url, mine) == [(2,)])  # those that are not needed close
    wait_until(lambda: Databases.ask(url, mine) == [(0,)])


def test_calls_at_once_do_not_wait_for_each_other(url: str) -> None:
    """While one call holds a connection for long, others are served."""
    with ag.postgres_saver(url) as saver, saver.conn.connection() as busy:
        busy.execute("SELECT 1")
        runner = ag.Runner(TREE, checkpointer=saver)
        assert runner.invoke("Go.", thread_id="t").status == "paused"


REFUSED = {
    "another scheme": ("mysql://ann@h/runs", "URL that begins with mysql://; pass postgresql://"),
    "sqlite's": ("sqlite:///runs.db", "or the path of a file for SQLite"),
    "an @ too many": (f"postgresql://ann:{SECRET}@h/runs", "as urllib.parse.quote does"),
    "a slash": ("postgresql://ann:s3cr3t/x@h/runs", "as urllib.parse.quote does"),
    "an odd port": ("postgresql://ann:s3cr3t", "cannot be opened"),
    "bad percents": ("postgresql://ann:s3cr3t%zz@h/runs", "postgresql://ann@h/runs cannot be read"),
    "a parameter": ("postgresql://ann:s3cr3t@h/runs?s3cr3t=1", "parameters as libpq names them"),
    "a question mark": (
        "postgresql://ann:s3cr3t?@127.0.0.1:1/runs",
        "postgresql://ann@127.0.0.1:1/runs",
    ),
    "no server": (
        f"postgresql://ann:{quote(SECRET, safe='')}@127.0.0.1:1/runs",
        "postgresql://ann@127.0.0.1:1/runs cannot be opened: connection failed",
    ),
    "no database": ("", "/nowhere?host="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_url_that_cannot_be_opened_is_named_without_its_password(name: str, postgres: str) -> None:
    url, named = REFUSED[name]
    url = url or postgres.replace(
        "postgres:@/postgres?", f"postgres:{quote(SECRET, safe='')}@/nowhere?"
    )
    for opens in (lambda: ag.Runner(TREE, checkpointer=url), lambda: ag.postgres_saver(url)):
        with pytest.raises(ag.AgentGraphError) as caught:
            opens()
        assert named in str(caught.value)
        chain: Any = caught.value
        while chain is not None:
            assert "s3cr3t" not in repr(chain)
            assert SECRET not in repr(chain)
            chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://ann:pw@h:5432/runs?sslmode=require", "postgres://ann@h:5432/runs"),
        ("postgresql://ann:pw@h1:1,h2:2/runs", "postgresql://ann@h1:1,h2:2/runs"),
        ("postgresql:///runs?host=/tmp&password=pw&port=1", "postgresql:///runs?host=/tmp&port=1"),
        ("postgresql://[::1]:5432/runs", "postgresql://[::1]:5432/runs"),
        ("postgresql://ann:pw", "postgresql://ann/"),
        ("runs.db", "runs.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown
    assert is_database_url(url) == (url != "runs.db")


@dataclass
class Own:
    number: int


def test_a_database_is_read_strictly(url: str) -> None:
    tree = ag.function_agent("a", lambda ctx: ag.SetValues(own=Own(1)))
    with ag.Runner(tree, checkpointer=url) as runner, pytest.raises(ag.AgentGraphError, match="allow="):
        runner.invoke("Go.", thread_id="t")
    with ag.Runner(tree, checkpointer=url, allow=[Own]) as runner:
        assert runner.invoke("Go.", thread_id="u").values == {"own": Own(1)}
    with ag.postgres_saver(url) as saver, pytest.raises(ag.SaverError, match="are not read from files"):
        ag.Runner(says("a"), checkpointer=saver).thread("u")


def test_a_runner_goes_on_after_a_restart_of_the_server(url: str) -> None:
    """All of its idle connections were ended: none of them is used, and no call fails."""
    every = f"SELECT count(pg_terminate_backend(pid, 5000)) {OTHERS}"
    with ag.Runner(TREE, checkpointer=url) as runner:

        async def several() -> None:
            await asyncio.gather(*(runner.ainvoke("Go.") for _ in range(10)))

        asyncio.run(several())
        assert Databases.ask(url, every)[0][0] > 3
        assert runner.invoke("Go.", thread_id="t").status == "paused"
        assert lines(runner.resume("t", "yes"))[-1] == "s/c: c"


def test_a_database_whose_disk_is_gone_in_mid_run_is_nobodys_failure(url: str) -> None:
    """Its tables are: what the server refuses is named with the database, and a way out."""
    ran = Counter[str]()

    def fn(ctx: ag.Context) -> str:
        ran["b"] += 1
        if ran["b"] == 1:
            Databases.ask(url, "ALTER TABLE checkpoints RENAME TO gone")
        return "b"

    tree = ag.sequential("s", [says("a"), ag.function_agent("b", fn), says("c")])
    with ag.Runner(tree, checkpointer=url) as runner:
        with pytest.raises(ag.SaverError) as caught:
            runner.invoke("Go.", thread_id="t")
        assert f"the database {without_password(url)}, failed with UndefinedTable" in str(caught.value)
        assert isinstance(caught.value.__cause__, psycopg.Error)
        Databases.ask(url, "ALTER TABLE gone RENAME TO checkpoints")
        assert lines(runner.resume("t"))[-1] == "s/c: c"


def test_a_user_without_rights_uses_tables_that_are_there_and_creates_none(
    databases: Databases,
) -> None:
    ready, empty = databases.make(), databases.make(of="template0")
    Databases.ask(ready, "DROP ROLE IF EXISTS reader")
    Databases.ask(ready, "CREATE ROLE reader LOGIN")
    Databases.ask(ready, "GRANT ALL ON ALL TABLES IN SCHEMA public TO reader")
    with ag.Runner(TREE, checkpointer=ready.replace("//postgres:@", "//reader@")) as runner:
        assert runner.invoke("Go.", thread_id="t").status == "paused"
    with pytest.raises(
        ag.SaverError, match="permission denied for schema public; have its owner open it"
    ):
        ag.postgres_saver(empty.replace("//postgres:@", "//reader@"))
    Databases.ask(ready, "DROP OWNED BY reader")


def test_packages_that_are_missing_are_named_and_none_is_loaded_for_nothing() -> None:
    code = [
        "import sys, agentgraph as ag",
        "ag.Runner(ag.human('h', 'Well?')).invoke('Go.', thread_id='t')",
        "print([name for name in sys.modules if name.startswith('psycopg')])",
        "sys.modules['psycopg'] = None",
        "try: ag.Runner(ag.human('h', 'Well?'), checkpointer='postgresql://h/runs')",
        "except ag.SaverError as error: print(error)",
    ]
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    first, second = ended.stdout.splitlines()
    assert first == "[]"
    assert second.startswith("PostgreSQL needs packages that are not installed (")
    assert second.endswith("): pip install 'langgraph-agentgraph[postgres]'")


def test_the_command_line_takes_a_url_and_shows_no_password(command: Commands, url: str) -> None:
    Path(command.folder / "tree.py").write_text(
        "import agentgraph as ag\n"
        "says = ag.function_agent('says', lambda ctx: 'A draft.')\n"
        "tree = ag.sequential('s', [says, ag.human('boss', 'Print it?')])\n"
    )
    secret = url.replace("postgres:@", "postgres:s3cr3t@")
    at = "tree.py:tree", "t"
    run = command("run", at[0], "Go.", "--thread", "t", "--db", secret, "--no-input")
    assert (run.code, run.lines) == (3, ["s/says: A draft.", "s/boss: [asks] Print it?"])
    shown = without_password(url)
    assert f"thread t in {shown} waits" in run.err
    assert f"resume tree.py:tree t --db '{shown}'" in run.err
    listed = command("threads", at[0], "--db", secret)
    assert listed.out.startswith("t  paused")
    resumed = command("resume", *at, "--db", secret, "--answer", "yes")
    assert f"Done: thread t, saved in {shown}." in resumed.err
    copied = command("copy", *at, "u", "--db", secret)
    deleted = command("delete", *at, "--db", secret)
    assert [copied.out, deleted.out] == [
        f"Copied: thread t to u in {shown}.\n",
        f"Deleted: thread t in {shown}.\n",
    ]
    refused = command("events", "tree.py:tree", "t", "--db", f"{secret}&nothing=1")
    assert (refused.code, "cannot be read as the URL" in refused.err) == (2, True)
    wrong = command("threads", at[0], "--db", "mysql://ann:s3cr3t@h/runs")
    assert (wrong.code, "begins with mysql://" in wrong.err) == (2, True)
    for ended in (run, listed, resumed, copied, deleted, refused, wrong):
        assert "s3cr3t" not in ended.out + ended.err


def test_a_pooler_that_keeps_no_sessions_is_refused(url: str, tmp_path: Path) -> None:
    folder = url.rpartition("host=")[2]
    with Pooler(tmp_path, f"{folder}/.s.PGSQL.5432") as pooler:
        through = url.replace(folder, str(pooler.folder))
        with psycopg.connect(through, autocommit=True) as one:
            assert one.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(ag.SaverError, match="a pooler in its transaction mode is before"):
            ag.Runner(says("a"), checkpointer=through)


@pytest.mark.parametrize("most", [1, 0, 2.5, "many", True])
def test_a_saver_needs_two_connections(url: str, most: Any) -> None:
    with pytest.raises(ag.AgentGraphError, match=r"max_connections=.* pass an integer of at least 2"):
        ag.postgres_saver(url, max_connections=most)

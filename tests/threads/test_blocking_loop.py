"""A sync run on an event loop is refused where it would wait for an async run that needs the loop."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import says

import agentgraph as ag

CALLS: dict[str, Callable[[ag.Runner], object]] = {
    "invoke": lambda runner: runner.invoke("Go.", thread_id="inner"),
    "run": lambda runner: list(runner.run("Go.", thread_id="inner")),
    "rewind": lambda runner: list(runner.rewind("before", "inner")),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_sync_run_beside_an_async_one_on_its_file_is_refused_at_once(
    call: str, tmp_path: Path
) -> None:
    path, seen = tmp_path / "runs.db", list[Any]()
    with ag.Runner(says("inner"), checkpointer=path) as other:
        other.invoke("Go.", thread_id="before")

        async def work(ctx: ag.Context) -> str:
            try:
                CALLS[call](other)
            except ag.AgentGraphError as error:
                seen.append(str(error))
            return (await asyncio.to_thread(other.invoke, "Go.", thread_id=ctx.address)).text

        async def main() -> list[str]:
            async with ag.async_sqlite_saver(path) as saver:
                branches = [ag.function_agent(name, work) for name in "ab"]
                runner = ag.Runner(ag.parallel("p", branches), checkpointer=saver)
                return [event.text async for event in runner.arun("Go.", thread_id="t")]

        assert asyncio.run(main()) == ["inner", "inner"]
        thread = "before" if call == "rewind" else "inner"
        message = (
            f"thread {thread!r}: a sync run on the event loop would block the async run on thread 't', "
            "for which it waits: both use one file; await arun() or ainvoke(), or call it in a thread: "
            "await asyncio.to_thread(runner.invoke, ...)"
        )
        assert seen == [message, message]
        assert other.thread("inner").status == "new"  # nothing of it is left locked


def test_a_sync_run_on_a_loop_goes_on_where_nothing_on_the_loop_holds_its_file(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with ag.async_sqlite_saver(tmp_path / "async.db") as saver:
            run = ag.Runner(says("a"), checkpointer=saver).arun("Go.", thread_id="t")
            await anext(run)
            with ag.Runner(says("b"), checkpointer=tmp_path / "other.db") as other:
                texts = [other.invoke("Go.", thread_id="t").text]
            await run.aclose()
            with ag.Runner(says("c"), checkpointer=tmp_path / "async.db") as same:
                texts.append(same.invoke("Go.", thread_id="u").text)
        with ag.Runner(says("d"), checkpointer=tmp_path / "async.db") as both:
            run = both.arun("Go.", thread_id="v")
            await anext(run)
            texts.append(both.invoke("Go.", thread_id="w").text)
            await run.aclose()
        return texts

    assert asyncio.run(main()) == ["b", "c", "d"]

"""A program that runs a workflow and dies just when the failure of its step `bad` is saved.

The steps note in a ledger what they do; some are still running then. The step `bad` waits for them, and
`DEATHS` says which. When the thread is resumed nothing hangs and nothing dies.
"""

import asyncio
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from helpers import emit
from langgraph.types import RetryPolicy

import agentgraph as ag
from agentgraph.errors import StepFailedError


class Death(NamedTuple):
    """When the process dies, besides that the failure of `bad` is saved.

    Attributes:
        hangs: What is running then, in the workflow.
        saved: How many results of lanes are saved before `bad` fails.
    """

    hangs: tuple[str, ...]
    saved: int = 1


DEATHS = {
    "leaf": Death(("c", "d")),
    "coroutine": Death(("c", "d")),
    "sequence": Death(("c/c1",)),
    "branches": Death(("c/c2",), saved=2),
    "items": Death(("c/work(1:y)",), saved=3),  # the list of items is one
    "chosen": Death(("c/c2",)),
    "nested": Death(("c/undo_j",), saved=4),
    "asking": Death(("c/boss",)),
    "loop": Death(("c",), saved=5),
    "retried": Death(("c",)),
}


def ledger() -> list[str]:
    return (FOLDER / "ledger").read_text().splitlines()


def saved_results() -> int:
    with closing(sqlite3.connect(FOLDER / "t.db", timeout=30)) as database:
        query = "SELECT COUNT(*) FROM writes WHERE channel = '__return__'"
        return int(database.execute(query).fetchone()[0])


def note(line: str) -> None:
    with (FOLDER / "ledger").open("a") as file:
        file.write(f"{line}\n")


def act(at: str) -> bool:
    """Note that an agent starts; return whether it is to hang."""
    note(f"start {at}")
    if IS_RESUMED and TREE == "retried" and ledger().count(f"start {at}") == 2:
        raise ValueError("try again")
    return not IS_RESUMED and at.removeprefix("l[1]/") in [f"wf/{each}" for each in DEATHS[TREE].hangs]


def says(name: str) -> ag.Agent:
    """Return an agent that says its name, and hangs where its tree is to."""

    def fn(ctx: ag.Context) -> str:
        time.sleep(60 * act(ctx.address))
        note(f"end {ctx.address}")
        return name

    async def afn(ctx: ag.Context) -> str:
        await asyncio.sleep(60 * act(ctx.address))
        note(f"end {ctx.address}")
        return name

    return ag.function_agent(name, afn if TREE == "coroutine" else fn)


def asks(name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> ag.Ask:
        time.sleep(60 * act(ctx.address))
        return ag.Ask("Well?")

    return ag.function_agent(name, fn)


def fails(name: str) -> ag.Agent:
    """Return an agent that fails; `bad` once the others are where they are to be."""

    def fn(ctx: ag.Context) -> str:
        if ctx.address.startswith("l[0]"):
            return name
        note(f"start {ctx.address}")
        around, death = ctx.address.removesuffix(name), DEATHS[TREE]
        until = time.monotonic() + 30
        while name == "bad" and not (
            {f"start {around}{each}" for each in death.hangs} <= {*ledger()}
            and saved_results() >= death.saved
        ):
            assert time.monotonic() < until, ledger()
            time.sleep(0.01)
        raise ValueError(name)

    return ag.function_agent(name, fn)


def workflow(c: ag.Agent, *beside: ag.Agent, **options: Any) -> ag.Agent:
    """Return a step that is done, one that fails, one that may be running, and one that needs it."""
    steps = [
        ag.step(says("a"), compensate=says("undo_a")),
        fails("bad"),
        ag.step(c, compensate=says("undo_c"), **options),
        ag.step(says("late"), depends_on=[c.name], compensate=says("undo_late")),
    ]
    return ag.workflow("wf", [*steps, *beside], on_error=ON_ERROR)


def leaf() -> ag.Agent:
    return workflow(says("c"), says("d"))


def sequence() -> ag.Agent:
    return workflow(ag.sequential("c", [says("c1"), says("c2")]))


def branches() -> ag.Agent:
    return workflow(ag.parallel("c", [says("c1"), says("c2")]))


def items() -> ag.Agent:
    return workflow(ag.each("c", says("work"), lambda ctx: ["x", "y"], key=str, output_key="out"))


def chosen() -> ag.Agent:
    return workflow(ag.switch("c", lambda ctx: "two", {"one": says("c1"), "two": says("c2")}))


def nested() -> ag.Agent:
    """Return a workflow one of whose steps is a workflow that is being undone."""
    first = ag.step(says("i"), compensate=says("undo_i"))
    second = ag.step(says("j"), depends_on=["i"], compensate=says("undo_j"))
    return workflow(ag.workflow("c", [first, second, ag.step(fails("worse"), depends_on=["j"])]))


def asking() -> ag.Agent:
    return workflow(ag.sequential("c", [says("c1"), asks("boss")]))


def loop() -> ag.Agent:
    return ag.loop("l", [workflow(says("c"))], max_iterations=2)


def retried() -> ag.Agent:
    return workflow(
        says("c"), retry=RetryPolicy(max_attempts=2, initial_interval=0.01, retry_on=ValueError)
    )


TREES: dict[str, Callable[[], ag.Agent]] = {
    "leaf": leaf,
    "coroutine": leaf,
    "sequence": sequence,
    "branches": branches,
    "items": items,
    "chosen": chosen,
    "nested": nested,
    "asking": asking,
    "loop": loop,
    "retried": retried,
}


def dies_after(put: Callable[..., Any]) -> Callable[..., Any]:
    def putting(config: Any, writes: Any, *args: Any) -> Any:
        saved = put(config, writes, *args)
        if asyncio.iscoroutine(saved):
            return asaving(saved, writes)
        die(writes)
        return saved

    async def asaving(saved: Any, writes: Any) -> None:
        await saved
        die(writes)

    return putting


def die(writes: Any) -> None:
    failed = [each for name, each in writes if name == "__return__" and "failed" in each]
    if failed and not IS_RESUMED and "bad" in failed[0]["failed"]:
        os.kill(os.getpid(), signal.SIGKILL)


async def arun(tree: ag.Agent) -> None:
    async with ag.async_sqlite_saver(FOLDER / "t.db") as saver:
        saver.aput_writes = dies_after(saver.aput_writes)  # type: ignore[method-assign]
        runner = ag.Runner(tree, checkpointer=saver)
        async for event in runner.aresume("t") if IS_RESUMED else runner.arun("Go.", thread_id="t"):
            emit(event)


def run(tree: ag.Agent) -> None:
    with ag.sqlite_saver(FOLDER / "t.db") as saver:
        saver.put_writes = dies_after(saver.put_writes)  # type: ignore[method-assign]
        runner = ag.Runner(tree, checkpointer=saver)
        for event in runner.resume("t") if IS_RESUMED else runner.run("Go.", thread_id="t"):
            emit(event)


def main(tree: ag.Agent) -> None:
    try:
        if MODE == "async":
            asyncio.run(arun(tree))
        else:
            run(tree)
    except StepFailedError as error:
        (FOLDER / "error").write_text(str(error))
    with ag.sqlite_saver(FOLDER / "t.db") as saver:
        runner = ag.Runner(tree, checkpointer=saver)
        again = [json.dumps(each.to_dict()) for each in runner.events("t")]
        (FOLDER / "pending").write_text(str(runner.pending("t")))
    (FOLDER / "again").write_text("\n".join(again))


if __name__ == "__main__":
    folder, TREE, MODE, ON_ERROR, method = sys.argv[1:]
    FOLDER, IS_RESUMED = Path(folder), method == "resume"
    main(TREES[TREE]())

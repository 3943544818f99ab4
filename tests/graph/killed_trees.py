"""A program that runs trees of agents which note what they do in a ledger; one of them hangs.

It writes the events as lines of JSON to its output, those of the thread to the file `again`, and a
failure of the run to the file `error`.
"""

import asyncio
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from helpers import emit
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.cache.sqlite import SqliteCache
from langgraph.types import CachePolicy

import agentgraph as ag
from agentgraph.errors import StepFailedError
from agentgraph.testing import ScriptedChatModel, call, calls

FAILED = 3


def note(line: str) -> None:
    with LEDGER.open("a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


def wait_for_saved(number: int) -> None:
    """Wait until LangGraph has saved so many results of tasks and messages of nodes."""
    end = time.monotonic() + 30
    while True:
        with closing(sqlite3.connect(FOLDER / "runs.db", timeout=30)) as database:
            query = "SELECT COUNT(*) FROM writes WHERE channel IN ('__return__', 'messages')"
            if database.execute(query).fetchone()[0] >= number:
                return
        assert time.monotonic() < end
        time.sleep(0.01)


def act(name: str) -> None:
    """Note what starts and ends; the one that is to hang waits until the others are saved."""
    note(f"start {name}")
    if name == HANG_AT and not (FOLDER / "go").exists():
        wait_for_saved(SAVED)
        (FOLDER / "hanging").touch()
        time.sleep(60)
    note(f"end {name}")


def step(name: str, *, after: int = 0, error: str = "", undoes: str = "", **options: Any) -> ag.Agent:
    """Return an agent that says its name, or fails; before that it waits until so much is saved."""

    def fn(ctx: ag.Context) -> str:
        assert not undoes or ctx.messages[-1].text == f"[{undoes}] said: {undoes}"
        wait_for_saved(after)
        act(ctx.address)
        if error:
            raise ValueError(error)
        return name

    return ag.function_agent(name, fn, **options)


def quick(n: int) -> str:
    """A tool."""
    act(f"quick-{n}")
    return f"quick {n}"


def slow(n: int) -> str:
    """A tool that is to hang."""
    act(f"slow-{n}")
    return f"slow {n}"


TOOLS: list[Any] = [quick, slow]
ROUNDS = [calls(call("quick", n=0)), calls(call("quick", n=1), call("slow", n=2))]


def model(name: str, *rounds: AIMessage) -> ScriptedChatModel:
    """Return a model that makes the calls of its rounds, by how often it has replied."""

    def reply(messages: list[BaseMessage]) -> Any:
        asked = sum(isinstance(message, AIMessage) for message in messages)
        act(f"{name}-{asked}")
        return rounds[asked] if asked < len(rounds) else f"{name} is done"

    return ScriptedChatModel(responses=reply)


def loop() -> ag.Agent:
    return ag.loop("l", [step("a"), step("b")], max_iterations=3)


def cached() -> ag.Agent:
    """Return a loop whose first agent is given the same in each iteration."""
    policy: Any = CachePolicy()
    a = step("a", history="input", cache_policy=policy)
    return ag.loop("l", [a, step("b", cache_policy=policy)], max_iterations=3)


def agents() -> ag.Agent:
    deep = model("deep", calls(call("quick", n=3), call("slow", n=4)))
    inner = ag.sequential("inner", [step("i1"), ag.chat_agent("deep", deep, tools=TOOLS)])
    outer = model("writer", calls(call("quick", n=1), call("inner", request="Look.")))
    return ag.chat_agent("writer", outer, tools=[quick, ag.agent_tool(inner)])


def foreign() -> ag.Agent:
    made = create_agent(model("made", *ROUNDS), TOOLS)
    return ag.sequential("s", [step("before"), ag.graph_agent("made", made)])


async def _in_order(ctx: ag.Context) -> Any:
    """Run two agents, ask nobody, run one whose failure is caught, two side by side, and one more."""
    said = [await ctx.run("one", "x"), await ctx.run("two", "x", key="k")]
    try:
        await ctx.run("bad", "x")
    except ValueError as error:
        said.append(str(error))
    said += await asyncio.gather(*(ctx.run("pair", each, key=each) for each in "ab"))
    return " ".join([*said, await ctx.run("last", "x")])


def running() -> ag.Agent:
    pair = ag.sequential("pair", [step("p"), step("q")])
    agents = [step("one"), step("two"), step("bad", error="no"), pair, step("last")]
    return ag.sequential("s", [ag.function_agent("flow", _in_order, agents=agents), step("z")])


def undoable(error: str = "") -> ag.Agent:
    """Return a -> (b, c) -> d -> e; of b and c the one that hangs ends last, else c."""
    last = HANG_AT[-1] if HANG_AT in ("wf/b", "wf/c") else "c"
    needs = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    steps = [
        ag.step(
            step(name, after=5 * (name == last)),
            depends_on=before,
            compensate=step(f"undo_{name}", undoes=name),
        )
        for name, before in needs.items()
    ]
    return ag.workflow("wf", [*steps, ag.step(step("e", error=error), depends_on=["d"])])


def failing() -> ag.Agent:
    return undoable("no")


def undone_in_two() -> ag.Agent:
    undo = ag.sequential("undo", [step("u1"), step("u2")])
    failed = ag.step(step("e", error="no"), depends_on=["a"])
    return ag.workflow("wf", [ag.step(step("a"), compensate=undo), failed])


TREES: list[Callable[[], ag.Agent]] = [
    *[loop, cached, agents, foreign, running],
    *[undoable, failing, undone_in_two],
]


def runner(tree: ag.Agent, saver: Any) -> ag.Runner:
    return ag.Runner(tree, checkpointer=saver, cache=SqliteCache(path=str(FOLDER / "cache.db")))


async def arun(tree: ag.Agent, method: str, *args: str, **options: str) -> None:
    async with ag.async_sqlite_saver(FOLDER / "runs.db") as saver:
        async for event in getattr(runner(tree, saver), f"a{method}")(*args, **options):
            emit(event)


def run(tree: ag.Agent, method: str, *args: str, **options: str) -> None:
    with ag.sqlite_saver(FOLDER / "runs.db") as saver:
        for event in getattr(runner(tree, saver), method)(*args, **options):
            emit(event)


def main(name: str, method: str, mode: str) -> int:
    tree = next(make for make in TREES if make.__name__ == name)()
    given: Any = ("Go.",) if method == "run" else ("t",)
    options = {"thread_id": "t"} if method == "run" else {}
    try:
        if mode == "async":
            asyncio.run(arun(tree, method, *given, **options))
        else:
            run(tree, method, *given, **options)
    except StepFailedError as error:
        (FOLDER / "error").write_text(str(error))
        return FAILED
    finally:
        with ag.sqlite_saver(FOLDER / "runs.db") as saver:
            again = ag.Runner(tree, checkpointer=saver).events("t")
            lines = "".join(f"{json.dumps(event.to_dict())}\n" for event in again)
        (FOLDER / "again").write_text(lines)
    return 0


if __name__ == "__main__":
    folder, name, method, mode, HANG_AT, saved = sys.argv[1:]
    FOLDER, SAVED = Path(folder), int(saved)
    LEDGER = FOLDER / "ledger"
    sys.exit(main(name, method, mode))

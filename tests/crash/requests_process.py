"""Runs a turn that is steered and stopped in a process that kills itself after a save.

`helpers.forking` forks a process for each job, which calls `act`.
"""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.dying import die_after_saves

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

Act = Callable[[], None]
HM = "Hm."


def note(folder: Path, line: str) -> None:
    """Note in the ledger of a folder what is done in the world."""
    with (folder / "ledger").open("a") as file:
        file.write(f"{line}\n")


def tree(folder: Path, act: Act) -> ag.Agent:
    """Return a tree with calls, branches and models; `act` is called in its first tool."""

    def does(name: str) -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            note(folder, name)
            return name

        return ag.function_agent(name, fn)

    def first() -> str:
        """Does something."""
        act()
        note(folder, "first")
        return "first"

    def second() -> str:
        """Does something."""
        note(folder, "second")
        return "second"

    def reply(messages: Any) -> Any:
        results = [each.text for each in messages if each.type == "tool"]
        if not results:
            return calls(call("first", id="1"), call("second", id="2"))
        return "done"

    talk = ag.chat_agent("talk", ScriptedChatModel(responses=[reply] * 9), tools=[first, second])
    said = ScriptedChatModel(responses=["Well."] * 9)
    branch = ag.sequential("branch", [does("x"), ag.chat_agent("says", said)])
    return ag.sequential("s", [talk, ag.parallel("p", [branch, does("y")]), does("z")])


def act(folder: str, after: int, requests: str, drive: str, place: str) -> None:
    """Begin a turn, or go on with it, up to its end; die after so many saves.

    Args:
        folder: Where the file and the ledger are.
        after: After how many saves it dies; 0 for never.
        requests: "here" if the first tool steers and stops the run; "there" if it waits for another
            process to do so; empty for a run without requests.
        drive: "sync" or "async".
        place: Where the thread is kept: a SQLite file, or the URL of a database.
    """
    at = Path(folder)
    die_after_saves(after)
    with ag.Runner(tree(at, lambda: request()), checkpointer=place) as runner:

        def request() -> None:
            if (at / "requested").exists() or (at / "begun").exists():
                return
            if requests == "here":
                (at / "begun").touch()
                runner.steer("t", HM)
                (at / "requested").touch()
                runner.stop("t")
            elif requests == "there":
                (at / "ready").touch()
                wait_for(lambda: (at / "requested").exists())
                run = runner.engine.thread("t")
                wait_for(lambda: is_stopped(run))

        begin = {"messages": "Go."} if runner.thread("t").status == "new" else {}
        if drive == "sync":
            runner.invoke(thread_id="t", **begin)
        else:
            asyncio.run(runner.ainvoke(thread_id="t", **begin))
    os._exit(0)


def is_stopped(thread: Any) -> bool:
    from agentgraph.threads.live.active_run import active_run_on

    run = active_run_on(thread.saver, thread.thread_id)
    return run is not None and run.is_stopped


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)

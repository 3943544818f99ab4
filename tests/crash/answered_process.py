"""A process whose run is answered while it works, by itself or by another process, and that dies.

`helpers.forking` forks a process for each job, which calls `act`.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from helpers.answering import gathering
from helpers.dying import die_after_saves

import agentgraph as ag

PATIENCE = 30.0
ASKERS = "abd"
"""The agents that ask."""
SAID = [
    "a: a 1?!",
    "b: b 0?!",
    "c ended",
    "d: d 0?!",
    "d: d 0?! | e ended",
    "e ended",
    "last",
    "slow ended",
]
"""The messages of a run that has ended, sorted."""


def tree(folder: Path) -> ag.Agent:
    """Return branches of which one waits until those that ask have ended, as one of two calls does."""

    def asker(name: str, times: int) -> ag.Agent:
        def fn(ctx: ag.Context) -> object:
            if ctx.asked < times:
                return ag.Ask(f"{name} {ctx.asked}?")
            (folder / name).touch()
            return f"{name}: {ctx.answer}"

        return ag.function_agent(name, fn)

    def waiting(name: str, askers: str) -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            until = time.monotonic() + PATIENCE
            while not all((folder / each).exists() for each in askers):
                assert time.monotonic() < until, "no answer was taken while it ran"
                time.sleep(0.002)
            return f"{name} ended"

        return ag.function_agent(name, fn)

    inner = ag.parallel("in", [asker("b", 1), ag.function_agent("c", lambda ctx: "c ended")])
    calls = gathering(asker("d", 1), waiting("e", "d"))
    branches = ag.parallel("p", [waiting("slow", ASKERS), asker("a", 2), inner, calls])
    return ag.sequential("s", [branches, ag.function_agent("last", lambda ctx: "last")])


def answer_all(runner: ag.Runner, thread: str, is_over: Callable[[], bool], answered: set[str]) -> None:
    """Answer each question as soon as it waits; `answered` gets the ids of those that are saved."""
    while not is_over():
        with suppress(ag.UnknownThreadError, ag.UnknownInterruptError, ag.ThreadBusyError):
            for each in runner.pending(thread):
                runner.answer(thread, {each.id: f"{each.value}!"})
                answered.add(each.id)
        time.sleep(0.002)


def act(folder: str, place: str, thread: str, after: int, answers: bool) -> None:
    """Run the tree on a thread, and die.

    Args:
        folder: Where the branches leave their marks.
        place: Where the threads are: a SQLite file, or the URL of a database.
        thread: The thread.
        after: After how many saves this process dies.
        answers: Whether it answers the questions.
    """
    die_after_saves(after)
    with ag.Runner(tree(Path(folder)), checkpointer=place) as runner:
        if answers:
            over = threading.Event()
            arguments = (runner, thread, over.is_set, set[str]())
            threading.Thread(target=answer_all, args=arguments, daemon=True).start()
        runner.invoke("Go.", thread_id=thread)
    os._exit(0)


def texts(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return the messages of events, sorted."""
    return sorted(each.text for each in events if each.kind == "message")

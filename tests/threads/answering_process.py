"""Processes that answer questions at the same time, or die while they answer and resume.

`helpers.forking` forks a process for each job, which calls `act`.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from helpers import says
from helpers.dying import die_after_saves

import agentgraph as ag

LEGAL, BOSS = "s/review/legal", "s/review/boss"


def tree() -> ag.Agent:
    legal = ag.human("legal", "Allowed?", response_schema=bool)
    boss = ag.human("boss", "Print it?", response_schema=Literal["yes", "no"])
    return ag.sequential("s", [ag.parallel("review", [legal, boss]), says("printer", "Printed.")])


def branches(slow: Callable[[], object]) -> ag.Agent:
    """Return a tree with a branch that asks, and one that calls a function."""
    desk = ag.sequential("desk", [ag.human("boss", "Print it?"), says("then", "Then.")])
    return ag.parallel("p", [ag.function_agent("slow", lambda ctx: f"{slow()}"), desk])


def note(folder: str, line: str) -> None:
    """Add a line at once: other processes add theirs."""
    at = os.open(Path(folder) / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(at, f"{line}\n".encode())
    os.close(at)


def act(
    folder: str,
    place: str,
    threads: int = 0,
    workers: int = 0,
    thread: str = "",
    after: int = 0,
    hangs: bool = False,
) -> None:
    """Answer the boss on some threads in several processes, or answer all and resume, and die.

    Args:
        folder: Where the ledger is: each line has a thread, an answer, and what came of it.
        place: Where the threads are: a SQLite file, or the URL of a database.
        threads: How many threads are answered.
        workers: In how many processes.
        thread: The thread that is answered and resumed.
        after: After how many saves this process dies; a file says that the answers are stored.
        hangs: Whether it runs a turn of another tree on that thread, in which a branch never ends.
    """
    if hangs:
        with ag.Runner(branches(threading.Event().wait), checkpointer=place) as runner:
            runner.invoke("Go.", thread_id=thread)
    if thread:
        die_after_saves(after)
        with ag.Runner(tree(), checkpointer=place) as runner:
            runner.answer(thread, {LEGAL: True, BOSS: "yes"})
            (Path(folder) / thread).touch()
            runner.invoke(thread_id=thread)
        os._exit(0)
    children = [os.fork() or _answer(folder, place, threads, number) for number in range(workers)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]
    os._exit(max(codes))


def _answer(folder: str, place: str, threads: int, number: int) -> int:
    answer = ("yes", "no")[number % 2]
    with ag.Runner(tree(), checkpointer=place) as runner:
        for thread in (f"t{each}" for each in range(threads)):
            try:
                runner.answer(thread, {BOSS: answer})
                note(folder, f"{thread} {answer} taken")
            except ag.AgentGraphError as error:
                note(folder, f"{thread} {answer} {type(error).__name__}")
    os._exit(0)

"""A program whose four processes run turns on threads of one database: `many_processes.py URL COUNT`.

Each runs a turn on every thread, in an order of its own, unless another one runs there; it notes
the begin and the end of each step in the file `ledger`, and the threads that were busy in `busy`.
"""

import os
import random
import sys
import traceback
from pathlib import Path

import agentgraph as ag

PROCESSES = 4


def note(file: str, line: str) -> None:
    """Add a line at once: other processes add theirs."""
    at = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(at, f"{line}\n".encode())
    os.close(at)


def act(ctx: ag.Context) -> str:
    thread_id = ctx.config["configurable"]["thread_id"]
    note("ledger", f"{thread_id} begin")
    note("ledger", f"{thread_id} end")
    return str(os.getpid())


def work(url: str, count: int, number: int) -> None:
    tree = ag.sequential("s", [ag.function_agent(name, act) for name in "ab"])
    names = [f"t{each}" for each in range(count)]
    random.Random(number).shuffle(names)
    with ag.Runner(tree, checkpointer=url) as runner:
        for name in names:
            try:
                runner.invoke("Go.", thread_id=name)
            except ag.ThreadBusyError:
                note("busy", name)


def main(url: str, count: int) -> int:
    children = []
    for number in range(PROCESSES):
        if (child := os.fork()) == 0:
            try:
                work(url, count, number)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    Path("busy").touch()
    return sum(os.waitpid(child, 0)[1] for child in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))

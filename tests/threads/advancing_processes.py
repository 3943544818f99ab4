"""A program whose processes advance turns at random, and die: `advancing_processes.py URL CALLS SEED`.

Each of the processes makes calls on threads of one database; another one takes the place of one that
died, and makes the rest of its calls. The file `ledger` has each step of an agent that began, `deaths`
each step in which a process killed itself.
"""

import os
import random
import signal
import sys
import traceback

import agentgraph as ag

WORKERS, THREADS, TURNS = 8, 50, 4
DIES = 0.02
"""How often a process dies in a step."""
_dice = random.Random()


def note(file: str, line: str) -> None:
    """Add a line at once: other processes add theirs."""
    at = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(at, f"{line}\n".encode())
    os.close(at)


def does(name: str, dies: float) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        thread_id = ctx.config["configurable"]["thread_id"]
        turn = sum(each.type == "human" and each.text.startswith("Go") for each in ctx.messages)
        note("ledger", f"{thread_id} {turn} {name}")
        if _dice.random() < dies:
            note("deaths", f"{thread_id} {turn} {name}")
            os.kill(os.getpid(), signal.SIGKILL)
        return name

    return ag.function_agent(name, fn)


def tree(dies: float = 0.0) -> ag.Agent:
    first, left, right, last = (does(name, dies) for name in ("first", "left", "right", "last"))
    pair = ag.parallel("pair", [left, right])
    return ag.sequential("s", [first, pair, ag.human("boss", "Sure?"), last])


def call(runner: ag.Runner, thread_id: str, turn: int) -> None:
    turn_id, text = f"turn {turn}", f"Go {turn}."
    try:
        found = runner.advance(thread_id, text, turn_id=turn_id)
        if found.pending and _dice.random() < 0.7:
            runner.advance(thread_id, text, turn_id=turn_id, answers={found.pending[0].id: "yes"})
    except (ag.TurnOpenError, ag.PendingInterruptError):
        return  # the turn before has not ended


def work(url: str, calls: int, seed: str) -> None:
    _dice.seed(seed)
    with ag.Runner(tree(DIES), checkpointer=url) as runner:
        for _ in range(calls):
            call(runner, f"t{_dice.randrange(THREADS)}", _dice.randrange(TURNS))


def begin(url: str, calls: int, seed: str) -> int:
    if (child := os.fork()) == 0:
        try:
            work(url, calls, seed)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def main(url: str, calls: int, seed: str) -> int:
    each = calls // WORKERS
    left = {begin(url, each, f"{seed} {number}"): each for number in range(WORKERS)}
    failed, again = 0, 0
    while left:
        child, status = os.wait()
        calls = left.pop(child)
        if os.WIFSIGNALED(status):
            again += 1
            left[begin(url, max(1, calls // 2), f"{seed} again {again}")] = max(1, calls // 2)
        failed += status != 0 and not os.WIFSIGNALED(status)
    with ag.Runner(tree(), checkpointer=url) as runner:
        for died in runner.threads("stopped"):
            runner.advance(died.thread_id)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))

"""A program that runs a tree in which a branch decides, and kills itself after one of its saves."""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.dying import die_after_saves

import agentgraph as ag


def tree(name: str, ledger: Path) -> ag.Agent:
    """Return a tree whose agents note in a file when they start."""

    def does(agent: str, seconds: float, said: object) -> ag.Agent:
        def fn(ctx: ag.Context) -> Any:
            with ledger.open("a") as file:
                file.write(f"{agent}\n")
            time.sleep(seconds)
            return said

        return ag.function_agent(agent, fn)

    def three(end: object) -> list[ag.Agent]:
        slow = ag.sequential("c", [does("c1", 0.05, "c1"), does("c2", 0.3, "c2")])
        return [does("a", 0, "a"), does("b", 0.15, end), slow]

    cancelled, last = three(["b", ag.Exit(cancel=True, reason="b")]), does("last", 0, "last")

    def accept(reply: ag.Reply) -> bool:
        with ledger.open("a") as file:
            file.write(f"judged_{reply}\n")
        return reply == "b"

    trees: dict[str, Callable[[], ag.Agent]] = {
        "accepted": lambda: ag.parallel("p", three("b"), on_error="first", accept=accept),
        "cancelled": lambda: ag.parallel("p", cancelled),
        "cancelled twice": lambda: ag.parallel(
            "o", [ag.parallel("p", cancelled), does("d", 0.5, "d")], on_error="collect"
        ),
    }
    return ag.sequential("root", [trees[name](), last])


def main() -> None:
    """Run the tree of the arguments: folder, name, mode, number of the last save."""
    folder, name, mode, saves = Path(sys.argv[1]), *sys.argv[2:]
    die_after_saves(int(saves))
    made, path = tree(name, folder / "ledger"), str(folder / "threads.db")

    async def arun() -> None:
        async with ag.Runner(made, checkpointer=path) as runner:
            await runner.ainvoke("Go.", thread_id="t")

    if mode == "async":
        asyncio.run(arun())
    else:
        with ag.Runner(made, checkpointer=path) as runner:
            runner.invoke("Go.", thread_id="t")


if __name__ == "__main__":
    main()

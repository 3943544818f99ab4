"""A program that runs wide trees in processes which kill themselves, and prints what ran twice.

`python wide_process.py FOLDER COUNT KILLS KIND MODE` prints how the processes ended as JSON, and for
each killed one how many leaves had ended, and how many ran once more.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

AT_ONCE = 4


class Ledger:
    """Notes what began and ended in a file, and kills the process after so many ends."""

    def __init__(self, path: Path, count: int, last: int) -> None:
        self.path, self.count, self.left = path, count, last
        self._lock = threading.Lock()

    def note(self, *words: object) -> None:
        with self._lock:
            self.left -= words[0] == "end"
            with self.path.open("a") as file:
                file.write(" ".join(map(str, words)) + "\n")
            if words[0] == "end" and self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def do(self, name: object) -> str:
        self.note("start", name)
        time.sleep(0.001)
        self.note("end", name)
        return f"{name} is done"

    async def ado(self, name: object) -> str:
        self.note("start", name)
        await asyncio.sleep(0.001)
        self.note("end", name)
        return f"{name} is done"

    def agent(self, name: str, *, is_async: bool) -> ag.Agent:
        async def afn(ctx: ag.Context) -> str:
            return await self.ado(ctx.address)

        return ag.function_agent(name, afn if is_async else lambda ctx: self.do(ctx.address))


def over(ledger: Ledger) -> Callable[[ag.Context], list[int]]:
    return lambda ctx: [*range(ledger.count)]


def each(ledger: Ledger, worker: ag.Agent, **options: Any) -> ag.Agent:
    return ag.each("all", worker, over(ledger), **options)


def chats(ledger: Ledger, is_async: bool) -> ag.Agent:
    def reply(messages: list[BaseMessage]) -> str:
        return ledger.do(messages[-1].text)

    worker = ag.chat_agent("w", ScriptedChatModel(responses=reply))
    return each(ledger, worker, input=lambda ctx: str(ctx.item.number), max_concurrency=AT_ONCE)


def asking(ledger: Ledger, is_async: bool) -> ag.Agent:
    """Return an each of which two items ask, and wait for an answer."""

    def ask(ctx: ag.Context) -> str | ag.Ask:
        said = ledger.do(ctx.address)
        return ag.Ask("Well?") if ctx.item.number in (3, 60) else said

    async def aask(ctx: ag.Context) -> str | ag.Ask:
        said = await ledger.ado(ctx.address)
        return ag.Ask("Well?") if ctx.item.number in (3, 60) else said

    return each(ledger, ag.function_agent("w", aask if is_async else ask), max_concurrency=AT_ONCE)


def pairs(ledger: Ledger, is_async: bool) -> ag.Agent:
    steps = [ledger.agent(name, is_async=is_async) for name in "ab"]
    return each(ledger, ag.sequential("pair", steps), max_concurrency=AT_ONCE)


def agents(ledger: Ledger, is_async: bool) -> list[ag.Agent]:
    return [ledger.agent(f"w{n}", is_async=is_async) for n in range(ledger.count)]


def tools(ledger: Ledger, is_async: bool) -> ag.Agent:
    def work(number: int) -> str:
        """Work."""
        return ledger.do(number)

    async def awork(number: int) -> str:
        """Work."""
        return await ledger.ado(number)

    awork.__name__ = "work"
    wide = calls(*(call("work", str(n), number=n) for n in range(ledger.count)))
    model = ScriptedChatModel(responses=lambda messages: wide if len(messages) == 1 else "Done.")
    return ag.chat_agent("c", model, tools=[awork if is_async else work])


def running(ledger: Ledger, is_async: bool) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        every = (ctx.run("w", str(n), key=n) for n in range(ledger.count))
        return str(len(await asyncio.gather(*every)))

    return ag.function_agent("flow", fn, agents=[ledger.agent("w", is_async=is_async)])


KINDS: dict[str, tuple[Callable[[Ledger, bool], ag.Agent], int]] = {
    "each": (lambda ledger, is_async: each(ledger, ledger.agent("w", is_async=is_async)), 32),
    "sync each on a loop": (lambda ledger, _: each(ledger, ledger.agent("w", is_async=False)), 32),
    "bounded each": (
        lambda ledger, is_async: each(
            ledger, ledger.agent("w", is_async=is_async), max_concurrency=AT_ONCE
        ),
        AT_ONCE,
    ),
    "each that asks": (asking, AT_ONCE),
    "chats": (chats, AT_ONCE),
    "pairs": (pairs, AT_ONCE),
    "parallel": (lambda ledger, is_async: ag.parallel("all", agents(ledger, is_async)), 64),
    "bounded parallel": (
        lambda ledger, is_async: ag.parallel("all", agents(ledger, is_async), max_concurrency=AT_ONCE),
        AT_ONCE,
    ),
    "workflow": (
        lambda ledger, is_async: ag.workflow("all", list(map(ag.step, agents(ledger, is_async)))),
        64,
    ),
    "tools": (tools, 32),
    "ctx.run": (running, 32),
}
"""The trees, and how many leaves run at once in each."""


def play(kind: str, mode: str, path: Path, ledger: Ledger, *, is_first: bool) -> None:
    tree = KINDS[kind][0](ledger, mode == "async")
    if mode == "sync":
        with ag.Runner(tree, checkpointer=path) as runner:
            _ = runner.invoke("Go.", thread_id="t") if is_first else runner.invoke(thread_id="t")
        return

    async def aplay() -> None:
        async with ag.Runner(tree, checkpointer=path) as runner:
            _ = await (
                runner.ainvoke("Go.", thread_id="t") if is_first else runner.ainvoke(thread_id="t")
            )

    asyncio.run(aplay())


def boot(kind: str, mode: str, folder: Path, count: int, number: int, last: int) -> int:
    """Run or resume in a process of its own, and return how that ended."""
    if (pid := os.fork()) == 0:
        code = 1
        try:
            ledger = Ledger(folder / f"ledger{number}", count, last)
            play(kind, mode, folder / "runs.db", ledger, is_first=number == 0)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def campaign(folder: Path, count: int, kills: Sequence[int], kind: str, mode: str) -> dict[str, Any]:
    """Kill a run after some ends, and return what ran again after each kill."""
    codes = [boot(kind, mode, folder, count, n, last) for n, last in enumerate([*kills, 0])]
    noted = [
        [line.split(" ", 1) for line in (folder / f"ledger{n}").read_text().splitlines()]
        for n in range(len(codes))
    ]
    began = [{name for word, name in lines if word == "start"} for lines in noted]
    ended = [sum(word == "end" for word, _ in lines) for lines in noted]
    again = [len(one & set().union(*began[n + 1 :])) for n, one in enumerate(began[:-1])]
    left = set().union(*began)
    return {"codes": codes, "ended": ended, "again": again, "leaves": len(left), "most": KINDS[kind][1]}


if __name__ == "__main__":
    base, number, deaths, kind, mode = sys.argv[1:]
    print(json.dumps(campaign(Path(base), int(number), json.loads(deaths), kind, mode)))

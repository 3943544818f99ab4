"""Runs requests of random trees in processes that kill themselves when something was saved or told.

Run as a program, it forks a process for each job that a line of standard input describes.
"""

import asyncio
import json
import os
import pickle
import signal
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from building import build, declared
from conversations import EXPECTED
from forking import serve
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from record import Record

import agentgraph as ag


class _From(Counter[str]):
    """Counts from a number on."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first

    def __missing__(self, key: str) -> int:
        return self._first


class _Death:
    """Kills the process behind so many saves or events."""

    def __init__(self, left: int) -> None:
        self._left = left

    def near(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def act(folder: str, number: int, mode: str, dies: str, behind: int) -> None:
    """Make a request of a folder; write what is told, and in the end what it failed with."""
    at = Path(folder)
    case, method, arguments, options = pickle.loads((at / "request").read_bytes())
    record = Record(saw=defaultdict(lambda: [None] * number), tried=_From(number))  # type: ignore[list-item]
    agent, values = build(case.tree, record), declared(case.tree)
    death = _Death(behind)
    _die_at_saves(death if dies == "saved" else _Death(0))
    heard = death if dies == "told" else _Death(0)
    with (at / f"told-{number}").open("w") as told:

        def tell(event: ag.AgentEvent) -> None:
            print(json.dumps(event.to_dict()), file=told, flush=True)
            heard.near()

        def run() -> None:
            with ag.sqlite_saver(at / "threads.db") as saver:
                runner = ag.Runner(agent, checkpointer=saver, values=values)
                for event in getattr(runner, method)(*arguments, **options):
                    tell(event)

        async def arun() -> None:
            async with ag.async_sqlite_saver(at / "threads.db") as saver:
                runner = ag.Runner(agent, checkpointer=saver, values=values)
                async for event in getattr(runner, f"a{method}")(*arguments, **options):
                    tell(event)

        error: Exception | None = None
        try:
            asyncio.run(arun()) if mode == "async" else run()
        except EXPECTED as failed:
            error = failed
    names = list(error.names) if isinstance(error, ag.ValueConflictError) else []
    (at / "ended").write_text(json.dumps({"failed": error is not None, "conflict": names}))


def _die_at_saves(death: _Death) -> None:
    """Make the savers of this process count what they have saved."""
    for kind, name in ((SqliteSaver, "put"), (SqliteSaver, "put_writes")):
        setattr(kind, name, _counted(getattr(kind, name), death))
    for name in ("aput", "aput_writes"):
        setattr(AsyncSqliteSaver, name, _acounted(getattr(AsyncSqliteSaver, name), death))


def _counted(saves: Any, death: _Death) -> Any:
    def saved(*args: Any, **options: Any) -> Any:
        result = saves(*args, **options)
        death.near()
        return result

    return saved


def _acounted(saves: Any, death: _Death) -> Any:
    async def saved(*args: Any, **options: Any) -> Any:
        result = await saves(*args, **options)
        death.near()
        return result

    return saved


if __name__ == "__main__":
    serve(act)

"""Prunes a thread in a process that may die before one of the statements of its database."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from helpers.pruned import KINDS

import agentgraph as ag

KIND = "graphs in branches"


def dying(after: int) -> Callable[..., None]:
    """Return a function that kills this process at a call after so many."""
    calls = [0]

    def call(*_: object) -> None:
        calls[0] += 1
        if calls[0] > after:
            os.kill(os.getpid(), signal.SIGKILL)

    return call


def act(place: str, after: int, is_async: bool) -> None:
    call, tree = dying(after), KINDS[KIND]()
    if place.startswith("postgresql:"):
        _count_in_database(call)
        ag.Runner(tree, checkpointer=place).prune("t", keep_turns=1, keep_lines=0)
    elif is_async:
        asyncio.run(_aprune(tree, Path(place), call))
    else:
        with ag.sqlite_saver(place) as saver:
            saver.conn.set_trace_callback(_changing(call))
            ag.Runner(tree, checkpointer=saver).prune("t", keep_turns=1, keep_lines=0)


async def _aprune(tree: ag.Agent, path: Path, call: Callable[..., None]) -> None:
    async with ag.async_sqlite_saver(path) as saver:
        await saver.conn.set_trace_callback(_changing(call))
        await ag.Runner(tree, checkpointer=saver).aprune("t", keep_turns=1, keep_lines=0)


def _changing(call: Callable[..., None]) -> Callable[[str], None]:
    """Return a function that calls another one for each statement of a transaction, and after it.

    SQLite reports a statement once more for each trigger that it fires.
    """
    last = [""]

    def traced(statement: str) -> None:
        if statement.startswith("BEGIN") or (last[0] and last[0] != statement):
            last[0] = statement
            call()

    return traced


def _count_in_database(call: Callable[..., None]) -> None:
    """Count the statements that change something, and the ends of transactions."""
    for name in ("execute", "executemany"):
        original = getattr(psycopg.Cursor, name)

        def counted(self: Any, query: Any, *args: Any, _original: Any = original, **more: Any) -> Any:
            if not str(query).lstrip().upper().startswith("SELECT"):
                call()
            return _original(self, query, *args, **more)

        setattr(psycopg.Cursor, name, counted)
    original_exit = psycopg.Transaction.__exit__

    def ended(self: Any, *args: Any) -> Any:
        call()
        result = original_exit(self, *args)
        call()
        return result

    psycopg.Transaction.__exit__ = ended  # type: ignore[method-assign]

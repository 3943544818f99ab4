"""When each thread of a saver began, as LangGraph's savers tell without decoding anything."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from agentgraph.graph.open_types import Saver
from agentgraph.graph.sync_async import Call

_BEGUN = """
WITH RECURSIVE threads(id) AS (
    SELECT min(thread_id) FROM checkpoints
    UNION ALL
    SELECT (SELECT min(thread_id) FROM checkpoints WHERE thread_id > threads.id)
    FROM threads WHERE threads.id IS NOT NULL
)
SELECT id, began FROM (
    SELECT id, (
        SELECT min(checkpoint_id) FROM checkpoints
        WHERE thread_id = threads.id AND checkpoint_ns = ''
    ) AS began FROM threads
) AS begun WHERE began IS NOT NULL
"""
"""The threads, and the first checkpoint of each: one by one, from the index."""

Begun = list[tuple[str, str]]
"""Threads, and the ids of their first checkpoints."""


def begun_threads(saver: Saver) -> Call | None:
    """Return the call that returns the threads of a saver as `Begun`; None if it cannot tell them."""
    for kind in type(saver).__mro__:
        if kind.__module__.startswith("langgraph.checkpoint."):
            if ask := _SYNC.get(kind.__name__):
                return _in_thread(partial(ask, saver))
            if aask := _ASYNC.get(kind.__name__):
                return Call(_sync_call, aask, (saver,))
    return None


def _in_thread(ask: Callable[[], Begun]) -> Call:
    async def asked() -> Begun:
        return await asyncio.to_thread(ask)

    return Call(ask, asked)


def _in_memory(saver: Any) -> Begun:
    roots = [(thread_id, [*saved.get("", ())]) for thread_id, saved in [*saver.storage.items()]]
    return [(thread_id, min(ids)) for thread_id, ids in roots if ids]


def _in_file(saver: Any) -> Begun:
    with saver.cursor(transaction=False) as cursor:
        return [*cursor.execute(_BEGUN)]


async def _in_async_file(saver: Any) -> Begun:
    await saver.setup()
    async with saver.lock, saver.conn.execute(_BEGUN) as cursor:
        return [(thread_id, began) async for thread_id, began in cursor]


def _in_database(saver: Any) -> Begun:
    with saver._cursor() as cursor:
        return [(each["id"], each["began"]) for each in cursor.execute(_BEGUN)]


async def _in_async_database(saver: Any) -> Begun:
    async with saver._cursor() as cursor:
        await cursor.execute(_BEGUN)
        return [(each["id"], each["began"]) async for each in cursor]


def _sync_call(saver: Saver) -> Begun:
    raise NotImplementedError(f"{type(saver).__name__} supports async calls only")


_SYNC = {"InMemorySaver": _in_memory, "SqliteSaver": _in_file, "PostgresSaver": _in_database}
_ASYNC = {"AsyncSqliteSaver": _in_async_file, "AsyncPostgresSaver": _in_async_database}
"""What asks LangGraph's savers, by the names of their classes: their packages may not be installed."""

"""What LangGraph's savers tell by their indexes, without decoding anything.

When each thread began, and in which namespaces of a thread graphs keep their states.
"""

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

_KEPT = """
SELECT DISTINCT checkpoint_ns FROM checkpoints
WHERE thread_id = {} AND checkpoint_ns <> '' AND replace(checkpoint_ns, ':', '') = checkpoint_ns
"""
"""The namespaces of a thread that name no tasks."""

_LANGGRAPHS = "langgraph.checkpoint."
_KNOWN = ("InMemorySaver", "SqliteSaver", "PostgresSaver", "AsyncSqliteSaver", "AsyncPostgresSaver")

Rows = list[tuple[str, ...]]


def begun_threads(saver: Saver) -> Call | None:
    """Return the call for all threads and their first checkpoints; None if a saver cannot tell."""

    def in_memory(saver: Any) -> Rows:
        roots = [(thread, [*saved.get("", ())]) for thread, saved in [*saver.storage.items()]]
        return [(thread, min(ids)) for thread, ids in roots if ids]

    return _query_call(saver, in_memory, _BEGUN)


def kept_namespaces(saver: Saver, thread_id: str) -> Call | None:
    """Return the call for the namespaces of a thread without tasks; None if a saver cannot tell."""

    def in_memory(saver: Any) -> Rows:
        return [(each,) for each in [*saver.storage.get(thread_id, ())] if each and ":" not in each]

    return _query_call(saver, in_memory, _KEPT, thread_id)


def _query_call(
    saver: Saver, in_memory: Callable[[Any], Rows], query: str, *arguments: str
) -> Call | None:
    """Return the call that asks a saver; its package may not be installed, so it is known by name."""
    names = [each.__name__ for each in type(saver).__mro__ if each.__module__.startswith(_LANGGRAPHS)]
    match next((each for each in names if each in _KNOWN), None):
        case "InMemorySaver":
            return _in_thread(partial(in_memory, saver))
        case "SqliteSaver":
            return _in_thread(partial(_in_file, saver, query.format("?"), arguments))
        case "PostgresSaver":
            return _in_thread(partial(_in_database, saver, query.format("%s"), arguments))
        case "AsyncSqliteSaver":
            return Call(_sync_call, _in_async_file, (saver, query.format("?"), arguments))
        case "AsyncPostgresSaver":
            return Call(_sync_call, _in_async_database, (saver, query.format("%s"), arguments))
    return None


def _in_thread(ask: Callable[[], Rows]) -> Call:
    async def asked() -> Rows:
        return await asyncio.to_thread(ask)

    return Call(ask, asked)


def _in_file(saver: Any, query: str, arguments: tuple[str, ...]) -> Rows:
    with saver.cursor(transaction=False) as cursor:
        return [*cursor.execute(query, arguments)]


async def _in_async_file(saver: Any, query: str, arguments: tuple[str, ...]) -> Rows:
    await saver.setup()
    async with saver.lock, saver.conn.execute(query, arguments) as cursor:
        return [row async for row in cursor]


def _in_database(saver: Any, query: str, arguments: tuple[str, ...]) -> Rows:
    with saver._cursor() as cursor:
        return [tuple(row.values()) for row in cursor.execute(query, arguments)]


async def _in_async_database(saver: Any, query: str, arguments: tuple[str, ...]) -> Rows:
    async with saver._cursor() as cursor:
        await cursor.execute(query, arguments)
        return [tuple(row.values()) async for row in cursor]


def _sync_call(saver: Saver, *_: object) -> Rows:
    raise NotImplementedError(f"{type(saver).__name__} supports async calls only")

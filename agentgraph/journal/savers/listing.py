"""Facts that LangGraph's savers return by their indexes, without decoding anything.

When each thread began, and in which namespaces of a thread graphs keep their states.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from agentgraph.graph.open_types import Saver
from agentgraph.graph.sync_async import Call
from agentgraph.journal.saved import MARK_VERSION, REQUESTS

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
WHERE thread_id = {thread_id} AND checkpoint_ns <> ''
AND replace(checkpoint_ns, ':', '') = checkpoint_ns
"""
"""The namespaces of a thread that name no tasks."""

_LANGGRAPHS = "langgraph.checkpoint."
_KNOWN = ("InMemorySaver", "SqliteSaver", "PostgresSaver", "AsyncSqliteSaver", "AsyncPostgresSaver")

Rows = list[tuple[str, ...]]
_NO_VALUES: Mapping[str, object] = {}


def begun_threads(saver: Saver) -> Call | None:
    """Return the call for all threads and their first checkpoints; None if a saver cannot tell."""

    def in_memory(saver: Any) -> Rows:
        roots = [(thread, [*saved.get("", ())]) for thread, saved in [*saver.storage.items()]]
        return [(thread, _began(saver, thread, ids)) for thread, ids in roots if ids]

    return query_call(saver, in_memory, _BEGUN)


def _began(saver: Any, thread_id: str, ids: Iterable[str]) -> str:
    """Return the id of the first checkpoint of a thread in memory, also if that was pruned."""
    mark = saver.blobs.get((thread_id, REQUESTS, "began", MARK_VERSION))
    return min(ids) if mark is None else str(saver.serde.loads_typed(mark))


def kept_namespaces(saver: Saver, thread_id: str) -> Call | None:
    """Return the call for the namespaces of a thread without tasks; None if a saver cannot tell."""

    def in_memory(saver: Any) -> Rows:
        return [(each,) for each in [*saver.storage.get(thread_id, ())] if each and ":" not in each]

    return query_call(saver, in_memory, _KEPT, {"thread_id": thread_id})


def query_call(
    saver: Saver,
    in_memory: Callable[[Any], Rows] | None,
    query: str,
    values: Mapping[str, object] = _NO_VALUES,
    *,
    in_database: str = "",
) -> Call | None:
    """Return the call that asks a saver; its package may not be installed, so it is known by name.

    Args:
        saver: The saver.
        in_memory: Asks a saver in memory; None if such a saver cannot tell.
        query: The query, with the names of values in braces.
        values: The values.
        in_database: The query for PostgreSQL, if it is another one.
    """
    in_file = query.format(**{name: f":{name}" for name in values})
    in_database = (in_database or query).format(**{name: f"%({name})s" for name in values})
    match kind_of(saver):
        case "InMemorySaver" if in_memory is not None:
            return _in_thread(partial(in_memory, saver))
        case "SqliteSaver":
            return _in_thread(partial(_in_file, saver, in_file, values))
        case "PostgresSaver":
            return _in_thread(partial(_in_database, saver, in_database, values))
        case "AsyncSqliteSaver":
            return Call(_sync_call, _in_async_file, (saver, in_file, values))
        case "AsyncPostgresSaver":
            return Call(_sync_call, _in_async_database, (saver, in_database, values))
    return None


def kind_of(saver: Saver) -> str | None:
    """Return which of LangGraph's own savers a saver is, or is derived from; None for others."""
    names = [each.__name__ for each in type(saver).__mro__ if each.__module__.startswith(_LANGGRAPHS)]
    return next((each for each in names if each in _KNOWN), None)


def _in_thread(ask: Callable[[], Rows]) -> Call:
    async def asked() -> Rows:
        return await asyncio.to_thread(ask)

    return Call(ask, asked)


def _in_file(saver: Any, query: str, values: Mapping[str, object]) -> Rows:
    with saver.cursor(transaction=False) as cursor:
        return [*cursor.execute(query, values)]


async def _in_async_file(saver: Any, query: str, values: Mapping[str, object]) -> Rows:
    await saver.setup()
    async with saver.lock, saver.conn.execute(query, values) as cursor:
        return [row async for row in cursor]


def _in_database(saver: Any, query: str, values: Mapping[str, object]) -> Rows:
    with saver._cursor() as cursor:
        return [tuple(row.values()) for row in cursor.execute(query, values)]


async def _in_async_database(saver: Any, query: str, values: Mapping[str, object]) -> Rows:
    async with saver._cursor() as cursor:
        await cursor.execute(query, values)
        return [tuple(row.values()) async for row in cursor]


def _sync_call(saver: Saver, *_: object) -> Rows:
    raise NotImplementedError(f"{type(saver).__name__} supports async calls only")

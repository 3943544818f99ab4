"""Removes a part of a thread from its saver, in one transaction: after a kill it is there, or gone.

A saver in memory gets the rest of the thread in one assignment. Other savers than LangGraph's own
cannot do either: of them only whole threads are removed.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, cast

from langgraph.checkpoint.base import (
    ChannelVersions,
    CheckpointMetadata,
    empty_checkpoint,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph.graph.open_types import Saver
from agentgraph.graph.sync_async import Call
from agentgraph.journal.saved import MARK, MARK_VERSION, REQUESTS, Saved
from agentgraph.journal.savers.listing import kind_of
from agentgraph.journal.schema import PrunedMark
from agentgraph.journal.thread_config import config_of

Statement = tuple[str, Sequence[object]]


class Pruning(NamedTuple):
    """The task of a saver that prunes a thread.

    Attributes:
        thread_id: The thread.
        gone: The checkpoints that go with their writes, each as its namespace and its id.
        whole: The checkpoints that are saved again, in their own places; none has one before it, but
            those that keep theirs.
        used: The versions of channels that stay: namespace, channel, version.
    """

    thread_id: str
    gone: Sequence[tuple[str, str]]
    whole: Sequence[Saved]
    used: Collection[tuple[str, str, object]]


def mark_of(thread_id: str, mark: PrunedMark) -> Saved:
    """Return the mark of a pruned thread as a checkpoint in the namespace of the requests."""
    checkpoint = empty_checkpoint()
    checkpoint["id"], checkpoint["ts"] = MARK, datetime.now(UTC).isoformat()
    checkpoint["channel_values"] = {**mark}
    checkpoint["channel_versions"] = dict.fromkeys(mark, MARK_VERSION)
    metadata = cast(CheckpointMetadata, {"source": "pruned", "step": 1, "parents": {}})
    return Saved(config_of(thread_id, REQUESTS, MARK), checkpoint, metadata)


def pruning_call(saver: Saver, pruning: Pruning) -> Call | None:
    """Return the call that prunes a thread; None if a saver has no transactions."""
    match kind_of(saver):
        case "InMemorySaver":
            return _in_thread(partial(_prune_memory, cast(InMemorySaver, saver), pruning))
        case "SqliteSaver":
            return _in_thread(partial(_prune_file, saver, pruning))
        case "PostgresSaver":
            return _in_thread(partial(_prune_database, saver, pruning))
        case "AsyncSqliteSaver":
            return Call(_refused, _aprune_file, (saver, pruning))
        case "AsyncPostgresSaver":
            return Call(_refused, _aprune_database, (saver, pruning))
    return None


def prunes(saver: Saver) -> bool:
    """Return whether a saver can remove a part of a thread."""
    return kind_of(saver) is not None


def _in_thread(prune: Any) -> Call:
    return Call(prune, partial(asyncio.to_thread, prune))


def _refused(saver: Saver, pruning: Pruning) -> None:
    raise NotImplementedError(f"{type(saver).__name__} supports async calls only")


def _prune_memory(saver: InMemorySaver, pruning: Pruning) -> None:
    """Prune a thread in memory; readers of other threads get the old checkpoints, or the new ones."""
    thread_id, new = pruning.thread_id, InMemorySaver(serde=saver.serde)
    for config, saved, versions in _puts(pruning):
        new.put(config, saved.checkpoint, saved.metadata, versions)
    for key, blob in new.blobs.items():
        if blob[0] != "empty":
            saver.blobs[key] = blob
    gone = {*pruning.gone}
    rest: dict[str, dict[str, Any]] = defaultdict(dict)
    for namespace, several in [*saver.storage[thread_id].items()]:
        if there := {id_: e for id_, e in [*several.items()] if (namespace, id_) not in gone}:
            rest[namespace] = there
    for namespace, whole in new.storage[thread_id].items():
        rest[namespace].update(whole)
    saver.storage[thread_id] = rest
    for namespace, id_ in gone:
        saver.writes.pop((thread_id, namespace, id_), None)
    for key in [*saver.blobs]:
        thread, *used = key
        if thread == thread_id and used[0] != REQUESTS and tuple(used) not in pruning.used:
            saver.blobs.pop(key, None)


def _puts(pruning: Pruning) -> Iterator[tuple[Any, Saved, ChannelVersions]]:
    """Yield the checkpoints to save, each with its config and the versions of its channels."""
    for saved in pruning.whole:
        before = (saved.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        config = config_of(pruning.thread_id, saved.namespace, before)
        yield config, saved, saved.checkpoint["channel_versions"]


def _prune_file(saver: Any, pruning: Pruning) -> None:
    has_index, own = getattr(saver, "has_index", False), (pruning.thread_id,)
    with saver.lock:
        saver.setup()
        connection = saver.conn
        connection.commit()
        try:
            connection.execute("BEGIN IMMEDIATE")
            status = connection.execute(_STATUS, own).fetchone() if has_index else None
            for statement, values in _in_file(saver, pruning, status):
                connection.execute(statement, values)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise


async def _aprune_file(saver: Any, pruning: Pruning) -> None:
    await saver.setup()
    async with saver.lock:
        await saver.conn.commit()
        try:
            await saver.conn.execute("BEGIN IMMEDIATE")
            status = None
            if getattr(saver, "has_index", False):
                async with saver.conn.execute(_STATUS, (pruning.thread_id,)) as cursor:
                    status = await cursor.fetchone()
            for statement, values in _in_file(saver, pruning, status):
                await saver.conn.execute(statement, values)
            await saver.conn.commit()
        except BaseException:
            await saver.conn.rollback()
            raise


_STATUS = "SELECT status FROM agentgraph_threads WHERE thread_id = ?"
_GONE = """
thread_id = ? AND (checkpoint_ns, checkpoint_id) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
)
"""
_PUT = """
INSERT OR REPLACE INTO checkpoints (
    thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
) VALUES (?, ?, ?, ?, ?, ?, ?)
"""


def _in_file(saver: Any, pruning: Pruning, status: Sequence[object] | None) -> Iterator[Statement]:
    """Yield the statements of the transaction in a SQLite file.

    Args:
        saver: The saver.
        pruning: The task.
        status: The status of the thread in the index, which stays; None without an index.
    """
    thread_id, ids = pruning.thread_id, json.dumps(pruning.gone)
    yield f"DELETE FROM writes WHERE {_GONE}", (thread_id, ids)
    yield f"DELETE FROM checkpoints WHERE {_GONE}", (thread_id, ids)
    for config, saved, _ in _puts(pruning):
        metadata = json.dumps(get_checkpoint_metadata(config, saved.metadata), ensure_ascii=False)
        own = thread_id, saved.namespace, saved.id, config["configurable"].get("checkpoint_id")
        form = saver.serde.dumps_typed(saved.checkpoint)
        yield _PUT, (*own, *form, metadata.encode("utf-8", "ignore"))
    if status is not None:
        yield "UPDATE agentgraph_threads SET status = ? WHERE thread_id = ?", (*status, thread_id)


_GONE_THERE = """
thread_id = %s AND (checkpoint_ns, checkpoint_id) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""
_UNUSED = """
WITH used AS (
    SELECT DISTINCT checkpoint_ns, key, value
    FROM checkpoints, jsonb_each_text(checkpoint -> 'channel_versions') WHERE thread_id = %s
)
DELETE FROM checkpoint_blobs AS blob WHERE thread_id = %s AND NOT EXISTS (
    SELECT 1 FROM used WHERE used.checkpoint_ns = blob.checkpoint_ns AND used.key = blob.channel
    AND used.value = blob.version
)
"""


_STATUS_THERE = """
SELECT status, has_table_privilege('agentgraph_threads', 'UPDATE') AS may_set
FROM agentgraph_threads WHERE thread_id = %s
"""
_SET_THERE = "UPDATE agentgraph_threads SET status = %s WHERE thread_id = %s"


def _in_database(pruning: Pruning) -> list[Statement]:
    """Return the statements that come before the checkpoints that are saved again in PostgreSQL."""
    thread_id = pruning.thread_id
    gone = thread_id, [each[0] for each in pruning.gone], [each[1] for each in pruning.gone]
    return [
        (f"DELETE FROM checkpoint_writes WHERE {_GONE_THERE}", gone),
        (f"DELETE FROM checkpoints WHERE {_GONE_THERE}", gone),
    ]


def _after(pruning: Pruning) -> list[Statement]:
    """Return the statements after these: LangGraph's save leaves the parent that was there."""
    thread_id, orphans = pruning.thread_id, [e for e in pruning.whole if e.parent_config is None]
    keys = thread_id, [e.namespace for e in orphans], [e.id for e in orphans]
    return [
        (f"UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE {_GONE_THERE}", keys),
        (_UNUSED, (thread_id, thread_id)),
    ]


def _prune_database(saver: Any, pruning: Pruning) -> None:
    from langgraph.checkpoint.postgres import PostgresSaver

    check_lock = getattr(getattr(saver, "thread_locks", None), "check", None)
    if check_lock is not None:  # else the transaction could be that of a run that lost its lock
        check_lock(pruning.thread_id)
    thread_id, has_index = pruning.thread_id, getattr(saver, "has_index", False)
    with saver._cursor() as cursor, cursor.connection.transaction():
        status = cursor.execute(_STATUS_THERE, (thread_id,)).fetchone() if has_index else None
        for statement, values in _in_database(pruning):
            cursor.execute(statement, values)
        within = PostgresSaver(cursor.connection, serde=saver.serde)
        for config, saved, versions in _puts(pruning):
            within.put(config, saved.checkpoint, saved.metadata, versions)
        for statement, values in _after(pruning):
            cursor.execute(statement, values)
        if status is not None and status["may_set"]:
            cursor.execute(_SET_THERE, (status["status"], thread_id))


async def _aprune_database(saver: Any, pruning: Pruning) -> None:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    async with saver._cursor() as cursor, cursor.connection.transaction():
        for statement, values in _in_database(pruning):
            await cursor.execute(statement, values)
        within = AsyncPostgresSaver(cursor.connection, serde=saver.serde)
        for config, saved, versions in _puts(pruning):
            await within.aput(config, saved.checkpoint, saved.metadata, versions)
        for statement, values in _after(pruning):
            await cursor.execute(statement, values)

"""Calls of runners on SQLite files whose stored values were changed."""

import asyncio
import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import ormsgpack

import agentgraph as ag
from helpers import Drive, Sync

CALLS: dict[str, tuple[Any, ...]] = {
    "threads": (),
    "thread": ("t",),
    "pending": ("t",),
    "events": ("t",),
    "resume": ("t", "yes"),
    "run": ("Again.",),
    "invoke": ("Again.",),
    "copy": ("t", "u"),
    "delete": ("t",),
}
"""The calls of a runner on a thread "t", with what they are passed."""
_COLUMNS = {"checkpoints": "checkpoint", "writes": "value", "metadata": "metadata"}
_MSGPACK = ormsgpack.OPT_NON_STR_KEYS
_ODD = (None, 5, -1, "x", "", [], {}, [1], {"a": 1}, True, 1.5, 10**12)


def call_on(drive: Drive, path: Path, tree: ag.Agent, name: str, **options: Any) -> Any:
    """Return the result of a call of a new runner on a file; an iterator as a list."""
    more = {"thread_id": "t"} if name in ("run", "invoke") else {}
    with ag.Runner(tree, checkpointer=path, **options) as runner:
        if drive is Sync:
            given = getattr(runner, name)(*CALLS[name], **more)
            return list(given) if name in ("run", "resume", "events") else given

        async def acalled() -> Any:
            given = getattr(runner, f"a{name}")(*CALLS[name], **more)
            return [each async for each in given] if hasattr(given, "__anext__") else await given

        return asyncio.run(acalled())


def rewrite(path: Path, table: str, change: Callable[[bytes], Any], row: int | None = None) -> None:
    """Change what a table of a file stores, in one row or in all."""
    column, table = _COLUMNS[table], "checkpoints" if table == "metadata" else table
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute(f"SELECT rowid, {column} FROM {table} ORDER BY rowid").fetchall()
        for number, value in [rows[row % len(rows)]] if row is not None else rows:
            sets = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
            connection.execute(sets, (change(value), number))


def damage(path: Path, seed: int) -> None:
    """Change one stored value of a file: bytes of it, or an element of what it holds."""
    drawn = random.Random(seed)
    table = drawn.choice(["checkpoints", "checkpoints", "writes", "writes", "metadata"])

    def changed(value: bytes) -> Any:
        if drawn.random() < 0.5:
            return _with_other_bytes(drawn, value)
        if table == "metadata":
            return json.dumps(_with_other_element(drawn, json.loads(value)))
        return _packed(_with_other_element(drawn, _unpacked(value)))

    rewrite(path, table, changed, row=-drawn.randrange(1, 9))


def _with_other_bytes(drawn: random.Random, value: bytes) -> bytes | None:
    if not value or drawn.random() < 0.1:
        return None
    data = bytearray(value)
    for _ in range(drawn.choice([1, 3])):
        data[drawn.randrange(len(data))] = drawn.randrange(256)
    return bytes(data[: drawn.randrange(len(data))] if drawn.random() < 0.1 else data)


class _Object(NamedTuple):
    code: int
    parts: Any


def _unpacked(packed: bytes) -> Any:
    def unpacked(code: int, inner: bytes) -> Any:
        return _Object(code, _unpacked(inner))

    return ormsgpack.unpackb(packed, ext_hook=unpacked, option=_MSGPACK) if packed else None


def _packed(value: Any) -> bytes:
    def part(value: _Object) -> ormsgpack.Ext:
        return ormsgpack.Ext(value.code, _packed(value.parts))

    return ormsgpack.packb(value, default=part, option=_MSGPACK)


def _with_other_element(drawn: random.Random, value: Any, depth: int = 0) -> Any:
    """Return data with one element, however deep inside, replaced or left out."""
    goes_in, goes = depth == 0 or drawn.random() < 0.85, drawn.random() < 0.1
    if isinstance(value, _Object) and goes_in:
        return _Object(value.code, _with_other_element(drawn, value.parts, depth + 1))
    if isinstance(value, dict | list | tuple) and value and goes_in:
        items = dict(value) if isinstance(value, dict) else dict(enumerate(value))
        at = drawn.choice(list(items))
        new = {} if goes else {at: _with_other_element(drawn, items[at], depth + 1)}
        items = {key: new.get(key, each) for key, each in items.items() if not (goes and key == at)}
        return items if isinstance(value, dict) else list(items.values())
    return drawn.choice(_ODD)

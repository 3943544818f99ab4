"""Files from strangers: they run no code, what they hold is read or refused, and refused when written."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import ormsgpack
import pytest
from helpers import Async, Drive, Sync, asks, foreign, gives, says, scripted
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import BaseModel
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.graph.named_types import named_types
from agentgraph.graph.strict import StrictSerializer

TREE = ag.sequential("s", [says("a"), ag.parallel("p", [asks("h"), says("b")])])
PACKING = ormsgpack.OPT_NON_STR_KEYS
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
"""The calls of a runner on a thread, with what they are passed."""


def called(drive: Drive, path: Path, tree: ag.Agent, name: str, **options: Any) -> Any:
    """Return what a call of a new runner on a file gives; what it yields as a list."""
    more = {"thread_id": "t"} if name in ("run", "invoke") else {}
    with ag.Runner(tree, checkpointer=path, **options) as runner:
        if drive is Sync:
            given = getattr(runner, name)(*CALLS[name], **more)
            return list(given) if name in ("run", "resume", "events") else given

        async def acalled() -> Any:
            given = getattr(runner, f"a{name}")(*CALLS[name], **more)
            return [each async for each in given] if hasattr(given, "__anext__") else await given

        return asyncio.run(acalled())


def paused(path: Path, tree: ag.Agent = TREE) -> None:
    with ag.Runner(tree, checkpointer=path) as runner:
        runner.invoke("Go.", thread_id="t")


def rewritten(path: Path, table: str, column: str, change: Callable[[bytes], Any]) -> None:
    """Change the values in a column of a file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
        for row, value in rows:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (change(value), row))


# Code.


def payload(code: int, folder: Path) -> ormsgpack.Ext:
    """Return an object that makes a folder if LangGraph's default reads it."""
    parts: dict[int, Any] = {
        0: ("os", "mkdir", str(folder)),
        1: ("os", "mkdir", [str(folder)]),
        2: ("os", "mkdir", {"path": str(folder)}),
        4: ("os", "mkdir", {"path": str(folder)}),
        5: ("os", "mkdir", {"path": str(folder)}, "model_validate_json"),
    }
    return ormsgpack.Ext(code, ormsgpack.packb(parts[code]))


def hostile(packed: bytes, evil: ormsgpack.Ext, table: str) -> bytes:
    """Return a stored value with an object more: in a checkpoint, or after a write."""
    if table == "writes":
        return ormsgpack.packb([evil])
    saved = ormsgpack.unpackb(packed, ext_hook=ormsgpack.Ext, option=PACKING)
    saved["channel_values"]["values"] = {"more": [evil]}
    return ormsgpack.packb(saved, option=PACKING)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("table", ["checkpoints", "writes"])
def test_a_strangers_file_runs_no_code(drive: Drive, tmp_path: Path, table: str, name: str) -> None:
    path, column = tmp_path / "x.db", {"checkpoints": "checkpoint", "writes": "value"}[table]
    codes = (0, 1, 2, 4, 5)
    made = [tmp_path / f"made by {code}" for code in codes]
    paused(path)
    evil = ormsgpack.packb([payload(code, folder) for code, folder in zip(codes, made, strict=True)])
    first = payload(0, made[0])
    JsonPlusSerializer().loads_typed(("msgpack", evil))
    assert all(folder.is_dir() for folder in made), "the objects are harmless here"
    for folder in made:
        folder.rmdir()

    rewritten(path, table, column, lambda packed: hostile(packed, first, table))
    try:
        called(drive, path, TREE, name)
    except ag.SaverError as error:
        assert "objects of os.mkdir are not read from files unless that is allowed" in str(error)
        assert error.path == str(path)
    else:
        assert name == "delete" or table == "writes"
    for code in codes:
        with pytest.raises(ValueError, match=r"objects of os\.mkdir"):
            StrictSerializer({}).loads_typed(("msgpack", ormsgpack.packb(payload(code, made[0]))))
    assert not any(folder.exists() for folder in made)

"""Files whose stored values are malformed: every call gives a result, or an error that says so.

`AGENTGRAPH_EXAMPLES=5000` damages a file so often for each call.
"""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Drive, Sync, asks, chat, echo, gives, says
from helpers.fuzzed import CALLS, call_on, damage, rewrite

import agentgraph as ag
from agentgraph.testing import call, calls

pytestmark = pytest.mark.by_turns("drive")

EXAMPLES = int(os.environ.get("AGENTGRAPH_EXAMPLES", "30"))


def tree() -> ag.Agent:
    wrote = gives("f", ag.Custom({"n": 1}), ag.SetValues(x=1), "Y.")
    lane = ag.sequential("lane", [says("b"), asks("second")])
    return ag.sequential(
        "s",
        [
            ag.loop("l", [says("a"), wrote], max_iterations=2),
            chat("c", calls(call("echo", text="q")), "Done.", tools=[echo]),
            ag.parallel("p", [asks("first"), lane]),
            says("z"),
        ],
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a thread that waits for one of two answers."""
    path = tmp_path_factory.mktemp("whole") / "x.db"
    with ag.Runner(tree(), checkpointer=path) as runner:
        runner.invoke("Go.", thread_id="t", values={"v": [1, {"q": "w"}]})
        runner.invoke(thread_id="t", answers={"s/p/first": "yes"})
    return path


@pytest.mark.parametrize("name", [name for name in CALLS if name != "invoke"])
def test_every_call_gives_a_result_or_an_error_of_ours(name: str, whole: Path, tmp_path: Path) -> None:
    outcomes: dict[str, int] = {}
    for seed in range(EXAMPLES):
        path = Path(shutil.copy(whole, tmp_path / f"{seed}.db"))
        damage(path, seed)
        drive = Async if seed % 3 == 0 else Sync
        try:
            call_on(drive, path, tree(), name)
            outcome = "result"
        except ag.AgentGraphError as error:
            outcome = type(error).__name__
        except Exception as error:
            error.add_note(f"this was {name} on the file that damage(path, {seed}) made")
            raise
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert outcomes.keys() <= {"result", "SaverError", "PendingInterruptError", "UnknownInterruptError"}
    assert name in ("threads", "delete") or outcomes["SaverError"]


def test_a_damaged_thread_is_listed_as_such_beside_the_others(drive: Drive, tmp_path: Path) -> None:
    for thread in "ut":
        with ag.Runner(tree(), checkpointer=tmp_path / "x.db") as runner:
            runner.invoke("Go.", thread_id=thread)
    found: set[str] = set()
    for seed in range(EXAMPLES):
        path = Path(shutil.copy(tmp_path / "x.db", tmp_path / f"{seed}.db"))
        damage(path, seed)
        damaged, other = call_on(drive, path, tree(), "threads")
        assert (damaged.thread_id, other.thread_id, other.status) == ("t", "u", "paused")
        assert (damaged.status == "unreadable") == (damaged.error is not None), damaged
        assert "try again" not in (damaged.error or "")
        found.add(damaged.status)
    assert found >= {"paused", "unreadable"}


def test_a_version_in_a_lane_that_is_no_number_is_malformed(
    drive: Drive, whole: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copy(whole, tmp_path / "x.db"))
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute(
            "SELECT rowid, checkpoint FROM checkpoints WHERE checkpoint_ns != ''"
        ).fetchall()
        for rowid, data in rows:
            damaged = data.replace(b"0000000000000000", b"0000000000D00000", 1)
            connection.execute(
                "UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?", (damaged, rowid)
            )
    assert rows
    with pytest.raises(ag.SaverError, match="malformed: the versions"):
        call_on(drive, path, tree(), "resume")


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("threads", "delete")])
@pytest.mark.parametrize(
    ("table", "value", "fault"),
    [
        pytest.param("checkpoints", b"\xc1", "malformed: a value", id="no msgpack"),
        pytest.param("checkpoints", None, "malformed: a value", id="null"),
        pytest.param("checkpoints", b"\x91\x01", "malformed: a checkpoint", id="a list"),
        pytest.param("metadata", b"[1", "JSONDecodeError", id="no JSON"),
        pytest.param("metadata", b"[1]", "malformed: the metadata of a checkpoint", id="JSON list"),
    ],
)
def test_the_error_says_what_is_malformed(
    drive: Drive, tmp_path: Path, table: str, value: Any, fault: str, name: str
) -> None:
    path = tmp_path / "x.db"
    agent = asks("h")
    call_on(drive, path, agent, "run")
    rewrite(path, table, lambda _: value)
    with pytest.raises(ag.SaverError, match=fault) as caught:
        call_on(drive, path, agent, name)
    assert caught.value.thread_id == "t"


def test_a_thread_that_cannot_be_read_can_be_deleted(drive: Drive, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    call_on(drive, path, asks("h"), "run")
    rewrite(path, "checkpoints", lambda _: b"\xc1")
    call_on(drive, path, asks("h"), "delete")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
    with pytest.raises(ag.UnknownThreadError):
        call_on(drive, path, asks("h"), "delete")


@pytest.mark.parametrize("position", ["next", 5, ["a"], {"next": 5, "cursor": [], "tree": "x"}])
def test_a_position_of_another_form_is_found(drive: Drive, tmp_path: Path, position: Any) -> None:
    path, agent = tmp_path / "x.db", asks("h")
    call_on(drive, path, agent, "run")
    with ag.sqlite_saver(path) as saver:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        saved = saver.get_tuple(config)
        assert saved is not None
        saved.checkpoint["channel_values"]["position"] = position
        saver.put(saved.parent_config or config, saved.checkpoint, saved.metadata, {})
    for name in ("pending", "resume", "events", "thread"):
        with pytest.raises(ag.SaverError, match="malformed: the position of an agent"):
            call_on(drive, path, agent, name)

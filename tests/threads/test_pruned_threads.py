"""`prune` over several threads: old ones, busy ones, wrong arguments, and the space of the file."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers import Session, asks, says
from helpers.databases import Databases
from helpers.lossy_savers import UnknownSaver
from helpers.pruned import read, run
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

import agentgraph as ag
from agentgraph.agents.tools import long_running

TREE = ag.function_agent("a", lambda ctx: f"after {len(ctx.messages)}")
EMPTY = ag.Pruned()


def ids(runner: ag.Runner) -> set[str]:
    return {each.thread_id for each in runner.threads()}


@pytest.mark.parametrize("method", ["prune", "aprune"])
def test_threads_that_are_done_and_old_are_removed(saver: Any, drive: Any, method: str) -> None:
    session = Session(TREE, drive, saver if isinstance(saver, Path) else None)
    for name in "ab":
        run(session, "run", "Go.", thread_id=name)
    assert read(session, "prune", older_than=3600).threads == 0
    assert read(session, "prune", older_than=timedelta(hours=1)).threads == 0
    time.sleep(0.01)
    assert read(session, "prune", "a", older_than=0.001).threads == 1
    assert [each.thread_id for each in read(session, "threads")] == ["b"]
    assert read(session, "prune", older_than=0, keep_turns=1).threads == 1
    assert read(session, "threads") == []


def test_a_thread_that_waits_is_never_removed(saver: Any) -> None:
    fails = True

    def fn(ctx: ag.Context) -> Any:
        if "fail" in ctx.messages[-1].text and fails:
            raise ValueError("No.")
        return ag.Ask("Well?") if "ask" in ctx.messages[-1].text and not ctx.answered else "Done."

    runner = ag.Runner(ag.function_agent("a", fn), checkpointer=saver)
    runner.invoke("ask", thread_id="paused")
    with pytest.raises(ValueError, match="No"):
        runner.invoke("fail", thread_id="failed")
    runner.invoke("Go.", thread_id="queued")
    runner.steer("queued", "Wait.")
    runner.invoke("Go.", thread_id="done")
    assert runner.prune(older_than=0).threads == 1
    assert ids(runner) == {"paused", "failed", "queued"}


def test_a_thread_that_waits_for_a_late_result_is_not_removed(saver: Any) -> None:
    from agentgraph.testing import ScriptedChatModel, call, calls

    def order(item: str) -> str:
        """Order an item."""
        return "Ordered."

    model = ScriptedChatModel(responses=[calls(call("order", item="tea")), "It comes."])
    tree = ag.chat_agent("a", model, tools=[long_running(order)])
    runner = ag.Runner(tree, checkpointer=saver)
    runner.invoke("Go.", thread_id="t")
    assert len(runner.thread("t").open_calls) == 1
    assert runner.prune(older_than=0).threads == 0
    assert ids(runner) == {"t"}


def test_a_busy_thread_is_skipped_or_an_error_if_it_is_named(saver: Any) -> None:
    tree = ag.sequential("s", [says("a"), says("b")])
    runner = ag.Runner(tree, checkpointer=saver)
    for name in ("busy", "free"):
        for _ in range(3):
            runner.invoke("Go.", thread_id=name)
    with runner.run("Go.", thread_id="busy") as events:
        next(events)
        pruned = runner.prune(keep_turns=1)
        assert (pruned.turns, pruned.skipped) == (2, ("busy",))
        assert "skipped: busy" in str(pruned)
        with pytest.raises(ag.ThreadBusyError, match="thread 'busy' is busy"):
            runner.prune("busy", keep_turns=1)
    assert len(runner.thread("busy").turns) == 4


def test_threads_of_another_tree_are_left_alone(saver: Any) -> None:
    other = ag.Runner(ag.sequential("o", [asks("h"), says("z")]), checkpointer=saver)
    for text in ("One.", "Two."):
        assert [*other.run(text, thread_id="t", drop_pending=True)]
    runner = ag.Runner(TREE, checkpointer=saver)
    assert runner.prune(keep_turns=1).skipped == ("t",)
    with pytest.raises(ag.TreeChangedError):
        runner.prune("t", keep_turns=1)
    assert len(other.thread("t").turns) == 2


WRONG = [
    ({}, "prune() has nothing to remove; pass keep_turns=, keep_lines= or older_than="),
    ({"keep_turns": 0}, "keep_turns=0 is out of range; pass an integer of at least 1"),
    ({"keep_turns": -1}, "keep_turns=-1 is out of range"),
    ({"keep_turns": True}, "keep_turns=True is out of range"),
    ({"keep_turns": "3"}, "keep_turns='3' is out of range"),
    ({"keep_lines": -1}, "keep_lines=-1 is out of range; pass an integer of at least 0"),
    ({"older_than": -1}, "older_than=-1 is not a time; pass seconds, at least 0, or a timedelta"),
    ({"older_than": float("nan")}, "older_than=nan is not a time"),
    ({"older_than": "1d"}, "older_than='1d' is not a time"),
    ({"older_than": timedelta(days=-1)}, "is not a time"),
]


@pytest.mark.parametrize(("options", "text"), WRONG)
def test_arguments_that_make_no_sense_remove_nothing(options: Any, text: str, drive: Any) -> None:
    session = Session(TREE, drive)
    run(session, "run", "Go.", thread_id="t")
    run(session, "run", "Go.", thread_id="t")
    before = session.thread()
    for named in ((), ("t",)):
        with pytest.raises(ag.AgentGraphError) as caught:
            read(session, "prune", *named, **options)
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)
    assert session.thread() == before


def test_an_unknown_thread_is_an_error(saver: Any) -> None:
    runner = ag.Runner(TREE, checkpointer=saver)
    with pytest.raises(ag.UnknownThreadError, match="thread 'x' is not known"):
        runner.prune("x", keep_turns=1)
    with pytest.raises(ag.AgentGraphError, match="thread_id must be a non-empty string"):
        runner.prune("", keep_turns=1)
    assert runner.prune(keep_turns=1, older_than=0, keep_lines=0).threads == 0


def test_other_savers_remove_whole_threads_only() -> None:
    runner = ag.Runner(TREE, checkpointer=UnknownSaver(), unfit="warn")
    runner.invoke("Go.", thread_id="t")
    runner.invoke("Go.", thread_id="t")
    for options in ({"keep_turns": 1}, {"keep_lines": 0}, {"older_than": 0, "keep_turns": 1}):
        with pytest.raises(ag.AgentGraphError, match="UnknownSaver removes whole threads only"):
            runner.prune(**options)  # type: ignore[arg-type]
    assert len(runner.thread("t").turns) == 2
    assert runner.prune(older_than=0).threads == 1


def test_an_old_file_gives_space_back_once_it_was_compacted(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteSaver.from_conn_string(str(path)) as old:
        old.setup()
    large = ag.function_agent("a", lambda ctx: "x" * 500_000)
    runner = ag.Runner(large, checkpointer=path)
    for name in "abcd":
        runner.invoke("Go.", thread_id=name)
    with runner.run("Go.", thread_id="d") as events:
        next(events)
        with pytest.raises(ag.ThreadBusyError, match="a run is active on thread 'd', so the file"):
            runner.prune(compact=True)
    runner.delete("a")
    assert path.stat().st_size > 4 * 500_000
    pruned = runner.prune(compact=True)
    assert pruned.bytes is not None
    assert pruned.bytes > 400_000
    size = path.stat().st_size
    pruned = runner.prune("b", older_than=0)
    assert pruned.threads == 1
    assert path.stat().st_size < size - 400_000
    assert ids(runner) == {"c", "d"}


def test_only_files_are_compacted(databases: Databases) -> None:
    for checkpointer in (InMemorySaver(), databases.make()):
        runner = ag.Runner(TREE, checkpointer=checkpointer)
        with pytest.raises(ag.AgentGraphError, match="has no file that agentgraph opened"):
            runner.prune(compact=True)


def test_lists_know_a_pruned_thread_as_before(saver: Any) -> None:
    runner = ag.Runner(TREE, checkpointer=saver)
    for number in range(3):
        runner.invoke("Go.", thread_id="t", config={"metadata": {"user": "ann", f"n{number}": number}})
    runner.invoke("Go.", thread_id="u")
    before = runner.threads()
    runner.prune("t", keep_turns=1)
    assert runner.threads() == before
    assert runner.threads("done") == before
    for metadata in ({"user": "ann"}, {"n0": 0}, {"n2": 2}):
        assert [each.thread_id for each in runner.threads(metadata=metadata)] == ["t"]


def test_a_result_reads_as_a_sentence() -> None:
    assert str(EMPTY) == "Removed: 0 threads, 0 turns, 0 older lines and 0 checkpoints"
    pruned = ag.Pruned(1, 2, 1, 3000, 2_900_000, ("a", "b"))
    text = "Removed: 1 thread, 2 turns, 1 older line and 3,000 checkpoints; 2.9 MB given back"
    assert str(pruned) == f"{text} to the disk; skipped: a, b"
    assert str(ag.Pruned(skipped="abcdefghijklm")).endswith(
        "skipped: a, b, c, d, e, f, g, h, i, j and 3 more"
    )

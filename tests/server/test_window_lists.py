"""The window's list of threads: pages, and searches that read a bounded number of threads."""

from pathlib import Path
from typing import Any

import pytest
from helpers import asks, says
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.window import calls
from agentgraph.window.calls import Window
from agentgraph.window.trees import Trees


@pytest.fixture(params=["memory", "file"])
def window(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Give a window on ten threads, of which the odd ones wait for an answer."""
    saver: Any = InMemorySaver() if request.param == "memory" else tmp_path / "threads.db"
    with ag.Runner(says("a"), checkpointer=saver) as runner:
        paused = ag.Runner(asks("boss"), checkpointer=runner.saver)
        for number in range(10):
            (paused if number % 2 else runner).invoke(f"Word {number}.", thread_id=f"t{number}")
        yield Window(runner, "threads")


def listed(window: Window, **arguments: Any) -> tuple[list[str], int, bool]:
    """Return the ids of a list, the total, and whether there may be more, of all trees by default."""
    data = window.call("threads", {"others": True, **arguments})
    return [row["thread_id"] for row in data["threads"]], data["total"], data.get("more", False)


def test_pages_of_all_threads_follow_each_other(window: Window) -> None:
    assert listed(window, limit=4) == (["t9", "t8", "t7", "t6"], 10, False)
    assert listed(window, limit=4, before="t6")[0] == ["t5", "t4", "t3", "t2"]
    assert listed(window, limit=4, before="t2")[0] == ["t1", "t0"]
    with pytest.raises(ag.UnknownThreadError, match="before='none' is not a thread of this saver"):
        listed(window, before="none")


def test_pages_of_a_status_are_full_and_say_whether_there_are_more(window: Window) -> None:
    assert listed(window, status="paused", limit=2) == (["t9", "t7"], 2, True)
    assert listed(window, status="paused", limit=2, before="t7") == (["t5", "t3"], 2, True)
    assert listed(window, status="paused", before="t4") == (["t3", "t1"], 2, False)
    window.runner.delete("t9")
    ag.Runner(asks("boss"), checkpointer=window.runner.saver).invoke(thread_id="t7", answers="yes")
    assert listed(window, status="paused", limit=2) == (["t5", "t3"], 2, True)
    assert listed(window, status="done")[0] == ["t8", "t7", "t6", "t4", "t2", "t0"]


def test_texts_are_searched_in_the_newest_threads_alone(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listed(window, search="word 1") == (["t1"], 1, False)
    monkeypatch.setattr(calls, "_SEARCHED", 3)
    monkeypatch.setattr(calls, "_SEARCHED_A_ROW", 2)
    assert listed(window, search="word 8", limit=1) == (["t8"], 1, True)
    assert listed(window, search="word 1", limit=2) == ([], 0, True)
    assert listed(window, search="word 1", limit=5) == (["t1"], 1, False)
    assert listed(window, search="T1", limit=2) == (["t1"], 1, True)  # ids of all threads
    assert listed(window, search="word 1", limit=2, before="t4") == (["t1"], 1, False)


def test_a_status_reads_none_of_the_threads_that_have_another(tmp_path: Path) -> None:
    with ag.Runner(says("a"), checkpointer=tmp_path / "threads.db") as runner:
        for number in range(20):
            runner.invoke("Go.", thread_id=f"t{number}")
        ag.Runner(asks("boss"), checkpointer=runner.saver).invoke("Go.", thread_id="asks")
        for number in range(20, 40):
            runner.invoke("Go.", thread_id=f"t{number}")
        window = Window(runner, "threads")
        assert listed(window, status="paused") == (["asks"], 1, False)
        assert [*window._overviews] == ["asks"]


def test_threads_of_other_trees_are_left_out(window: Window) -> None:
    assert window.call("threads", {"others": False, "limit": 3}) | {"threads": 0} == {
        "threads": 0,
        "total": 7,  # three were found to be another tree's
        "others": True,
    }
    assert listed(window, others=False) == (["t8", "t6", "t4", "t2", "t0"], 5, False)
    assert listed(window, others=False, status="paused") == ([], 0, False)
    rows = window.call("threads", {"others": True, "limit": 2})["threads"]
    assert [row["tree"] for row in rows] == ["boss", "a"]
    grown = ag.sequential("a", [ag.function_agent("first", lambda ctx: "One."), says("b")])
    trees = Trees({"old": window.runner, "new": ag.Runner(grown, checkpointer=window.runner.saver)}, "")
    trees.window("new").runner.invoke("Go.", thread_id="new")
    assert [listed(each, others=False)[1] for each in trees.windows.values()] == [5, 1]
    assert [trees.window_of(each).name for each in ("new", "t0", "t1")] == ["new", "old", "old"]
    lone = Window(window.runner, "")  # a tree that has changed keeps its threads
    assert listed(lone, others=False)[0][0] == "new"

"""What the first picture of a thread reads does not grow with the thread."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import wait_until
from langgraph.checkpoint.sqlite import SqliteSaver

import agentgraph as ag
from agentgraph.window.calls import Window
from agentgraph.window.updates import thread_updates

LONG, LONGER = 600, 1200


class Reads:
    """Counts the checkpoints that a saver reads, and how often it is asked for any."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        get, listed = SqliteSaver.get_tuple, SqliteSaver.list

        def counted_get(*args: Any) -> Any:
            self.count += 1
            return get(*args)

        def counted_list(*args: Any, **options: Any) -> Iterator[Any]:
            self.count += 1
            for each in listed(*args, **options):
                self.count += 1
                yield each

        monkeypatch.setattr(SqliteSaver, "get_tuple", counted_get)
        monkeypatch.setattr(SqliteSaver, "list", counted_list)

    def of(self, window: Window, name: str, **arguments: Any) -> int:
        """Return what a call of the page reads."""
        before = self.count
        window.call(name, arguments)
        return self.count - before


def talk_of(steps: int) -> ag.Agent:
    turns = [ag.function_agent(name, lambda ctx: "Hm.") for name in ("ann", "bob")]
    return ag.loop("talk", turns, max_iterations=steps // 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def begun(path: Path, steps: int) -> None:
    config: Any = {"recursion_limit": steps + 10}
    with ag.Runner(talk_of(steps), checkpointer=path, config=config) as runner:
        assert runner.invoke("Go.", thread_id="t").status == "done"


def pictures(path: Path, reads: Reads, steps: int) -> list[int]:
    """Return what the calls of a first picture read, and then those of a page that comes back."""
    with ag.Runner(talk_of(steps), checkpointer=path) as runner:
        window = Window(runner, "talk")
        upto = window.call("timeline", {"thread_id": "t"})["upto"]
        talk = window.call("conversation", {"thread_id": "t"})
        return [
            reads.of(Window(runner, "talk"), "threads"),
            reads.of(Window(runner, "talk"), "thread", thread_id="t"),
            reads.of(window, "timeline", thread_id="t"),
            reads.of(window, "timeline", thread_id="t", since=upto),
            reads.of(window, "timeline", thread_id="t", since="1"),
            reads.of(window, "lines", thread_id="t"),
            reads.of(window, "conversation", thread_id="t"),
            reads.of(window, "conversation", thread_id="t", since=talk["upto"]),
            reads.of(window, "conversation", thread_id="t", before=talk["begin"], steps=10),
        ]


def test_a_first_picture_reads_no_more_of_a_longer_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for steps in (LONG, LONGER):
        begun(tmp_path / f"{steps}.db", steps)
    reads = Reads(monkeypatch)
    long, longer = (pictures(tmp_path / f"{n}.db", reads, n) for n in (LONG, LONGER))
    assert long == longer
    assert long[3] < 50


def test_nothing_is_read_of_a_thread_that_has_not_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(path, 10)
    reads = Reads(monkeypatch)
    with ag.Runner(talk_of(10), checkpointer=path) as runner:
        window = Window(runner, "talk")
        assert reads.of(window, "thread", thread_id="t") > 10
        before = reads.count
        for _ in range(50):
            window.version("t")
        assert reads.count == before
        assert reads.of(window, "thread", thread_id="t") < 5
        assert reads.of(window, "threads") < 5


async def heard(window: Window, since: str | None, count: int) -> list[Any]:
    told = []
    async for each in thread_updates(window, "t", since):
        told.append(each)
        if len(told) == count:
            break
    return told


def test_what_several_pages_lack_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(path, 10)
    reads = Reads(monkeypatch)

    async def pages(count: int) -> int:
        with ag.Runner(talk_of(10), checkpointer=path) as runner:
            window = Window(runner, "talk")
            before = reads.count
            told = await asyncio.gather(*(heard(window, None, 2) for _ in range(count)))
            assert all(each == told[0] for each in told)
            return reads.count - before

    one, ten = asyncio.run(pages(1)), asyncio.run(pages(10))
    assert ten < one + 9 * 5


def test_what_a_branch_saves_in_memory_is_noticed() -> None:
    """The root has no new checkpoint before all branches have ended."""
    opened, asked = threading.Event(), threading.Event()
    slow = ag.function_agent("slow", lambda ctx: str(opened.wait(60)))
    ann = ag.function_agent("ann", lambda ctx: "Hi.")
    bob = ag.function_agent("bob", lambda ctx: str(asked.wait(60)))
    steps = ag.sequential("steps", [ann, bob, ag.function_agent("last", lambda ctx: "Bye.")])
    with ag.Runner(ag.parallel("both", [slow, steps])) as runner:
        window = Window(runner, "both")
        runner.start("Go.", thread_id="t")

        def bars() -> list[str]:
            thread = window.call("thread", {"thread_id": "t"})
            told = window.call("timeline", {"thread_id": "t"})["bars"] if thread["updated"] else []
            return [bar["address"] for bar in told]

        wait_until(lambda: "both/steps/bob" in bars())
        before = window.version("t")
        asked.set()
        wait_until(lambda: "both/steps/last" in bars())
        assert window.version("t") != before
        assert window.call("thread", {"thread_id": "t"})["status"] == "running"
        opened.set()
        wait_until(lambda: window.call("thread", {"thread_id": "t"})["status"] == "done")

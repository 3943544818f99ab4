"""Followers get each event once and in order, wherever they begin, and whatever becomes of the run."""

import asyncio
import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, asks, fails, says
from helpers.commands import wait_until
from helpers.decoding import Decoding
from helpers.followed_trees import TREES, Follower, check_adds_up, converse, follow
from helpers.forking import Forker
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

import agentgraph as ag
from agentgraph.graph.sync_async import Call, run_calls
from agentgraph.journal.requests import put_request
from agentgraph.testing import ScriptError
from agentgraph.threads.live.active_run import active_run_on
from agentgraph.threads.live.following import followed

KEPT = pytest.mark.parametrize("kept", ["memory", "file"])


def runner_of(tree: ag.Agent, kept: str, folder: Path) -> ag.Runner:
    return ag.Runner(tree, checkpointer=folder / "threads.db" if kept == "file" else None)


@KEPT
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.by_turns("drive", "kept")
def test_a_follower_after_any_cursor_gets_exactly_what_it_lacks(
    tree: str, kept: str, drive: Drive, tmp_path: Path
) -> None:
    with runner_of(TREES[tree](), kept, tmp_path) as runner:
        told: list[ag.AgentEvent] = []
        converse(drive, runner, told.append)
        again = list(runner.events("t"))
        check_adds_up(list(follow(drive, runner, None)), again)
        for number, event in enumerate(told, 1):
            rest = list(follow(drive, runner, event.cursor))
            check_adds_up([*told[:number], *rest], again)


@KEPT
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.by_turns("drive", "kept")
def test_followers_that_join_at_any_moment_get_each_event_once(
    tree: str, kept: str, drive: Drive, tmp_path: Path
) -> None:
    """Before each event two followers join: one that has nothing, and one that has all before it."""
    with runner_of(TREES[tree](), kept, tmp_path) as runner:
        told: list[ag.AgentEvent] = []
        followers: list[Follower] = []

        def join() -> None:
            if active_run_on(runner.saver, "t"):  # an async run begins when it is asked for an event
                followers.extend([Follower(drive, runner), Follower(drive, runner, told)])

        converse(drive, runner, told.append, join, turns=1)
        again = list(runner.events("t"))
        for follower in followers:
            got = follower.end()
            rest = list(follow(drive, runner, got[-1].cursor if got else None))
            check_adds_up([*got, *rest], again)


@pytest.fixture
def forks(forker: Forker) -> Forker:
    return forker.of("followed_process")


EXAMPLES = int(os.environ.get("AGENTGRAPH_EXAMPLES", "0"))
"""In how many trees processes are killed after each save; 0 for a few, after some."""
KILLED = [name for name in TREES if EXAMPLES or name in ("branches", "agents as tools")]


@pytest.mark.parametrize("tree", KILLED)
@pytest.mark.by_turns("drive")
def test_followers_of_processes_that_are_killed_lose_nothing(
    tree: str, drive: Drive, forks: Forker, tmp_path: Path
) -> None:
    """Each process dies after some saves, up to one that ends; all cursors that readers got will do."""
    for after in range(2, 40, 1 if EXAMPLES else 7):
        folder = tmp_path / str(after)
        folder.mkdir()
        if not _dies(tree, drive, forks, folder, after):
            break
    assert after > 2, "no process died"


def _dies(tree: str, drive: Drive, forks: Forker, folder: Path, after: int) -> bool:
    """Follow processes up to the end of the turn; return whether the first one died."""
    readers: list[list[ag.AgentEvent]] = []
    polled: list[ag.AgentEvent] = []
    codes: list[int] = []
    with ag.Runner(TREES[tree](), checkpointer=folder / "threads.db") as runner:
        for number in range(12):
            forks.start(folder=str(folder), number=number, tree=tree, after=after if number < 2 else 0)
            waiting = Watching(drive, runner, polled)
            codes.append(forks.wait())
            waiting.end()
            lines = (folder / f"heard-{number}").read_text().splitlines(keepends=True)
            heard = [each for each in lines if each.endswith("\n")]
            before = readers[-1] if readers else []
            readers.append([*before, *(ag.AgentEvent.from_dict(json.loads(each)) for each in heard)])
            if runner.thread("t").status == "done":
                break
        again = list(runner.events("t"))
        polled += follow(drive, runner, polled[-1].cursor if polled else None)
        check_adds_up(polled, again)
        for heard_so_far in readers:
            for end in range(len(heard_so_far) + 1):
                held = heard_so_far[:end]
                rest = follow(drive, runner, held[-1].cursor if held else None)
                check_adds_up([*held, *rest], again, grow=False)
    return codes[0] == -signal.SIGKILL


class Watching:
    """Follows the thread of another process, again and again, and goes on after what it has."""

    def __init__(self, drive: Drive, runner: ag.Runner, got: list[ag.AgentEvent]) -> None:
        self._over = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._watch, args=(drive, runner, got))
        self._thread.start()

    def _watch(self, drive: Drive, runner: ag.Runner, got: list[ag.AgentEvent]) -> None:
        try:
            while not self._over.wait(0.01):
                with suppress(ag.UnknownThreadError):
                    got.extend(follow(drive, runner, got[-1].cursor if got else None))
        except BaseException as error:
            self._failed.append(error)

    def end(self) -> None:
        self._over.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self._failed:
            raise self._failed[0]


@KEPT
@pytest.mark.parametrize("tree", ["sequence", "branches", "tools", "loops", "questions"])
@pytest.mark.by_turns("drive", "kept")
def test_after_a_rewind_a_follower_gets_the_new_line(
    tree: str, kept: str, drive: Drive, tmp_path: Path
) -> None:
    with runner_of(TREES[tree](), kept, tmp_path) as runner:
        told: list[ag.AgentEvent] = []
        converse(drive, runner, told.append, turns=1)
        visit = runner.visits("t")[-1]
        joined: list[Follower] = []
        with suppress(ScriptError):  # a script has no more replies: the run fails
            run = runner.rewind("t", visit.address, stream=True)
            joined.append(Follower(drive, runner, told))
            for event in run:
                told.append(event)
                joined.append(Follower(drive, runner, told))
                joined.append(Follower(drive, runner))
        again = list(runner.events("t"))
        for follower in joined:
            got = follower.end()
            rest = list(follow(drive, runner, got[-1].cursor if got else None))
            check_adds_up([*got, *rest], again)
        for number, event in enumerate(told, 1):
            rest = list(follow(drive, runner, event.cursor))
            check_adds_up([*told[:number], *rest], again)


@KEPT
@pytest.mark.parametrize("tree", ["branches", "retries in branches", "questions", "loops"])
@pytest.mark.by_turns("drive", "kept")
def test_a_follower_that_reconnects_at_random_gets_each_event_once(
    tree: str, kept: str, drive: Drive, tmp_path: Path
) -> None:
    chance = random.Random(7)
    with runner_of(TREES[tree](), kept, tmp_path) as runner:
        got: list[ag.AgentEvent] = []
        over = threading.Event()

        def reconnecting() -> None:
            while not over.is_set():
                with suppress(ag.UnknownThreadError):
                    events = follow(drive, runner, got[-1].cursor if got else None)
                    got.extend(islice(events, chance.randrange(1, 4)))
                    events.close()  # type: ignore[attr-defined]

        thread = threading.Thread(target=reconnecting)
        thread.start()
        converse(drive, runner, lambda _: None)
        over.set()
        thread.join(30)
        got += follow(drive, runner, got[-1].cursor if got else None)
        check_adds_up([each for each in got if not each.partial], runner.events("t"))


@KEPT
@pytest.mark.parametrize("after", ["", "x", "1-2-3", "-1", "1.5", 7, "\u0661"])
def test_what_is_no_cursor_is_refused_at_the_call(after: Any, kept: str, tmp_path: Path) -> None:
    async def refused(runner: ag.Runner) -> None:
        with pytest.raises(ag.AgentGraphError, match="is not a cursor"):
            await runner.afollow("t", after)

    with runner_of(says("a"), kept, tmp_path) as runner:
        list(runner.run("Go.", thread_id="t"))
        with pytest.raises(ag.AgentGraphError, match="is not a cursor"):
            runner.follow("t", after)
        asyncio.run(refused(runner))


@KEPT
def test_an_unknown_thread_is_not_followed(kept: str, tmp_path: Path) -> None:
    async def refused(runner: ag.Runner) -> None:
        with pytest.raises(ag.UnknownThreadError):
            await runner.afollow("t")

    with runner_of(says("a"), kept, tmp_path) as runner:
        with pytest.raises(ag.UnknownThreadError):
            runner.follow("t")
        asyncio.run(refused(runner))


@KEPT
def test_a_follower_that_is_closed_leaves_the_run_alone(
    kept: str, drive: Drive, tmp_path: Path
) -> None:
    with runner_of(ag.sequential("s", [says("a"), says("b")]), kept, tmp_path) as runner:
        run = runner.run("Go.", thread_id="t")
        events: Any = follow(drive, runner, None)
        first = next(run)
        assert next(events).id == first.id
        events.close()
        assert [each.text for each in run] == ["b"]


@KEPT
def test_a_follower_is_closed_while_it_waits(kept: str, tmp_path: Path) -> None:
    """By another thread, and by another task; whoever reads it finds it at its end."""
    with runner_of(ag.sequential("s", [says("a"), says("b")]), kept, tmp_path) as runner:
        run = runner.run("Go.", thread_id="t")
        events = runner.follow("t")
        got: list[Any] = []
        reader = threading.Thread(target=lambda: got.extend(events))
        reader.start()
        wait_until(lambda: active_run_on(runner.saver, "t").feed.subscribers)  # type: ignore[union-attr]
        events.close()
        reader.join(30)
        assert not reader.is_alive()
        assert got == []

        async def closed() -> None:
            later = await runner.afollow("t")
            reads = asyncio.create_task(anext(later, None))  # type: ignore[arg-type]
            await asyncio.sleep(0.01)
            with pytest.raises(ag.AgentGraphError, match="asked for already"):
                await anext(later)
            await later.aclose()
            assert await asyncio.wait_for(reads, 30) is None

        asyncio.run(closed())
        assert [each.text for each in run] == ["a", "b"]
        assert not active_run_on(runner.saver, "t")


@KEPT
def test_the_error_of_a_run_is_the_last_that_a_follower_gets(
    kept: str, drive: Drive, tmp_path: Path
) -> None:
    with runner_of(ag.sequential("s", [says("a"), fails("b", 9)]), kept, tmp_path) as runner:
        run = runner.run("Go.", thread_id="t")
        joined = Follower(drive, runner)
        with pytest.raises(ValueError, match="b failed"):
            list(run)
        assert [each.text or each.error for each in joined.end()] == [
            "a",
            "ValueError('b failed, time 1')",
        ]
        assert [each.kind for each in follow(drive, runner, None)] == ["message", "error"]


@KEPT
def test_a_run_that_begins_while_a_follower_reads_is_followed(kept: str, tmp_path: Path) -> None:
    """A branch of it has saved what it said after something that another one has not saved yet."""
    early, late = threading.Event(), threading.Event()

    def first(ctx: ag.Context) -> Iterator[str]:
        yield "first"
        early.set()
        assert late.wait(30)

    def second(ctx: ag.Context) -> str:
        assert early.wait(30)
        return "second"

    fork = ag.parallel("p", [ag.function_agent("a", first), ag.function_agent("b", second)])
    with runner_of(ag.sequential("s", [asks("boss"), fork]), kept, tmp_path) as runner:
        list(runner.run("Go.", thread_id="t"))
        thread, told, got = runner.engine.thread("t"), list[ag.AgentEvent](), list[ag.AgentEvent]()
        reader = threading.Thread(target=lambda: told.extend(runner.resume("t", "yes")))

        def ends_later() -> None:
            wait_until(lambda: active_run_on(runner.saver, "t").feed.subscribers)  # type: ignore[union-attr]
            late.set()

        def interleaved() -> Any:
            following = followed(thread, None)
            step: Any = following.send((yield next(following)))  # it stands at rest
            reader.start()
            wait_until(lambda: "second" in [each.text for each in runner.events("t")])
            threading.Thread(target=ends_later).start()
            with suppress(StopIteration):
                while True:
                    if isinstance(step, ag.AgentEvent):
                        got.append(step)
                    step = following.send((yield step) if isinstance(step, Call) else None)

        run_calls(interleaved())
        reader.join(30)
        assert "first" in [each.text for each in got]
        check_adds_up(got, runner.events("t"))


def test_a_reader_that_comes_back_reads_no_more_where_a_thread_is_longer(
    drive: Drive, tmp_path: Path
) -> None:
    counts = []
    for laps in (20, 120):
        tree = ag.loop("l", [says("a"), says("b")], max_iterations=laps)
        with ag.Runner(tree, checkpointer=tmp_path / f"{laps}.db") as runner:
            told = list(drive.run(runner, "Go.", thread_id="t"))
            decoding = Decoding(runner)
            for before in (1, 5, len(told)):
                decoding.mark()
                rest = list(follow(drive, runner, told[-before].cursor))
                assert rest == told[len(told) - before + 1 :]
            counts.append(decoding.counts)
    (short, short_more, short_all), (long, long_more, long_all) = counts
    assert (long, long_more) == (short, short_more)
    assert long_all > 4 * short_all


@pytest.mark.parametrize("kept", ["a database", "our file"])
def test_a_message_for_a_run_hides_no_events_from_who_comes_back(kept: str, tmp_path: Path) -> None:
    tree = ag.loop("talk", [says("a")], max_iterations=60)
    opened = SqliteSaver.from_conn_string if kept == "a database" else ag.sqlite_saver
    with opened(str(tmp_path / "runs.db")) as saver:
        runner = ag.Runner(tree, checkpointer=saver)
        events = list(runner.run("Go.", thread_id="t"))
        message = [HumanMessage("Hm.", id="1")]
        runner.engine.read(put_request, "t", "steer", messages=message)
        assert len(list(runner.follow("t", after=events[9].cursor))) == 50
        assert len([bar for bar in runner.timeline("t", last=40).bars if bar.agent_name == "a"]) == 40

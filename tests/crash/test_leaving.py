"""Runs that are left or cancelled after each of their events, and gone on with at once.

However a run is left: the thread is free, nothing is left running, no function that ended runs twice,
and in the end the thread gives what a run gives that nobody left.
"""

import asyncio
import gc
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from campaign import EXAMPLES, Watched, World, by_lane, ended, in_turn, slug
from leaving import (
    ANSWER,
    ASYNC,
    SYNC,
    UNBEGUN,
    Count,
    afinish,
    asks_for_the_next,
    check_file,
    check_tasks,
    finish,
    heard,
    is_cancelled,
    turns,
)
from left_trees import TREES, Tree

import agentgraph as ag

STEP = 1 if EXAMPLES else 43
"""Runs are left after each event; without examples, after a few."""
SYNC_WAYS, ASYNC_WAYS = ("sync-memory", "sync-sqlite"), ("async-memory", "async-sqlite")
async_ways = pytest.mark.parametrize("way", ASYNC_WAYS)


class Left:
    """A tree with its world and its thread, and what both are when nobody leaves."""

    def __init__(self, tree: str, way: str, folder: Path) -> None:
        self.tree, self.way, self.folder = TREES[tree], way, folder
        whole, self.whole = self.begun()
        self.whole.gate.set()
        whole.use(finish, afinish)
        self.wanted = by_lane(whole.events())

    def begun(self) -> tuple[Watched, World]:
        """Return a new thread and its world."""
        world, folder = World(), self.folder / str(len([*self.folder.iterdir()]))
        folder.mkdir()
        return Watched(self.tree.build(world), self.way, folder), world

    def check(self, driven: Watched, world: World, *, again: tuple[str, ...] = ()) -> None:
        """Check that all was done, once where it had ended, and is reported as if nobody had left."""
        done = {name: times for name, times in world.done.items() if name not in again}
        assert done == {name: n for name, n in self.whole.done.items() if name not in again}
        assert all(n <= world.done[name] <= n + 1 for name, n in self.whole.done.items())
        assert by_lane(driven.events()) == self.wanted


def leave_nothing(runner: ag.Runner) -> None:
    raise AssertionError("this is driven the other way")


def begins(tree: Tree, run: Any, resume: Any) -> list[Callable[[], Any]]:
    """Return how the calls of a conversation begin: the run, and where it asks, its resume."""
    first = partial(run, "Go.", thread_id="t")
    return [first, partial(resume, "t", ANSWER)] if tree.asks else [first]


def check_idle(driven: Watched, world: World) -> None:
    running = +world.running
    assert not running, f"still running: {running}"
    check_file(driven.path)


def check_unbegun(world: World, thread: ag.Thread) -> None:
    assert not world.done
    assert thread == ag.Thread("t", "new")


@pytest.mark.parametrize(("tree", "how", "way"), in_turn(TREES, SYNC, SYNC_WAYS, every=9))
def test_a_run_that_is_left_goes_on_at_once(tree: str, how: str, way: str, tmp_path: Path) -> None:
    case, leave_at = Left(tree, way, tmp_path), 0
    while leaves(case, how, leave_at):
        leave_at += STEP


def leaves(case: Left, how: str, leave_at: int) -> bool:
    """Leave a run after so many events and go on; return whether it had so many."""
    driven, world = case.begun()
    count = Count(leave_at, world, case.tree)

    def leave(runner: ag.Runner) -> None:
        for make in begins(case.tree, runner.run, runner.resume):
            SYNC[how](make, count)
            if count.left:
                break
        check_idle(driven, world)
        if leave_at == 0 and how in UNBEGUN:
            check_unbegun(world, runner.thread("t"))
        finish(runner)

    driven.use(leave, leave_nothing)
    case.check(driven, world)
    return count.left


@pytest.mark.parametrize(("tree", "how", "way"), in_turn(TREES, ASYNC, ASYNC_WAYS, every=9))
def test_an_async_run_that_is_left_goes_on_at_once(
    tree: str, how: str, way: str, tmp_path: Path
) -> None:
    case, leave_at = Left(tree, way, tmp_path), 0
    while aleaves(case, how, leave_at):
        leave_at += STEP


def aleaves(case: Left, how: str, leave_at: int) -> bool:
    driven, world = case.begun()
    count = Count(leave_at, world, case.tree)
    complaints: list[Any] = []

    async def leave(runner: ag.Runner) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        for make in begins(case.tree, runner.arun, runner.aresume):
            await ASYNC[how](make, count)
            if count.left:
                break
        if how != "drop":
            check_tasks()
            check_idle(driven, world)
        if leave_at == 0 and how in UNBEGUN:
            check_unbegun(world, await runner.athread("t"))
        await afinish(runner)
        await turns()
        check_tasks()

    driven.use(leave_nothing, leave)
    gc.collect()
    assert not complaints, f"left after {leave_at} events"
    case.check(driven, world, again=case.tree.again)
    return count.left


GATED = [name for name, tree in TREES.items() if tree.held_at and name not in ("coroutines", "hook")]


@async_ways
@pytest.mark.parametrize("tree", GATED, ids=slug)
def test_a_second_cancel_does_not_wait_for_a_thread(tree: str, way: str, tmp_path: Path) -> None:
    case = Left(tree, way, tmp_path)
    driven, world = case.begun()
    in_flight: list[str] = []

    async def cancelled_twice(runner: ag.Runner) -> None:
        count = Count(case.tree.held_at, world, case.tree)
        consumer = await asks_for_the_next(partial(runner.arun, "Go.", thread_id="t"), count)
        consumer.cancel()
        await turns(20)
        assert not consumer.done(), "the first cancel does not wait for the thread"
        consumer.cancel()
        done, _ = await asyncio.wait([consumer], timeout=5)
        in_flight.extend(+world.running)
        assert done, "the second cancel waits"
        assert not world.gate.is_set()
        world.gate.set()
        await afinish(runner)

    try:
        driven.use(leave_nothing, cancelled_twice)
    finally:
        world.gate.set()
    twice = {name for name, times in world.done.items() if times > case.whole.done[name]}
    assert twice <= {*in_flight, *case.tree.again}
    assert all(world.done[name] <= times + 1 for name, times in case.whole.done.items())


def is_busy(begin: Callable[[], Any]) -> None:
    with pytest.raises(ag.ThreadBusyError, match="'t' is busy"):
        begin()


@pytest.mark.parametrize("way", SYNC_WAYS)
def test_a_run_holds_its_thread_from_the_call_until_it_is_closed_or_dropped(
    way: str, tmp_path: Path
) -> None:
    case = Left("until", way, tmp_path)
    driven, world = case.begun()

    def held(runner: ag.Runner) -> None:
        run: Any = runner.run("Go.", thread_id="t")
        is_busy(lambda: runner.run("Go.", thread_id="t"))
        next(run)
        is_busy(lambda: list(runner.resume("t")))
        run.close()
        run = runner.resume("t")
        is_busy(lambda: runner.resume("t"))
        del run
        finish(runner)

    driven.use(held, leave_nothing)
    case.check(driven, world)


@async_ways
def test_an_async_run_that_is_held_open_is_busy_until_it_is_closed(way: str, tmp_path: Path) -> None:
    case = Left("until", way, tmp_path)
    driven, world = case.begun()

    async def held(runner: ag.Runner) -> None:
        run: Any = runner.arun("Go.", thread_id="t")
        await anext(run)
        with pytest.raises(ag.ThreadBusyError, match="'t' is busy"):
            await heard(runner.aresume("t"))
        await run.aclose()
        await afinish(runner)

    driven.use(leave_nothing, held)
    case.check(driven, world)


@pytest.mark.parametrize(
    ("tree", "way"),
    [
        (tree, way)
        for n, tree in enumerate(TREES)
        for way in (ASYNC_WAYS if EXAMPLES else [ASYNC_WAYS[n // 2 % 2]])
        if EXAMPLES or n % 2 == 0
    ],
)
def test_a_run_may_be_cancelled_again_and_again(tree: str, way: str, tmp_path: Path) -> None:
    """Each call is cancelled after its first event, until one comes to the end."""
    case = Left(tree, way, tmp_path)
    driven, world = case.begun()

    async def again_and_again(runner: ag.Runner) -> None:
        await is_cancelled(partial(runner.arun, "Go.", thread_id="t"), Count(1, world, case.tree))
        for _ in range(20):
            count = Count(1, world)
            await is_cancelled(partial(runner.aresume, "t"), count)
            check_tasks()
            if not count.left:
                break
        await afinish(runner)

    driven.use(leave_nothing, again_and_again)
    case.check(driven, world, again=case.tree.again)


def test_what_hangs_is_found_out() -> None:
    """The helper of all campaigns returns what was raised, and reports what has not ended."""
    over = threading.Event()
    assert isinstance(ended(lambda: 1 / 0), ZeroDivisionError)
    with pytest.raises(AssertionError, match="it hangs"):
        ended(lambda: over.wait(20), patience=0.01)
    over.set()

"""Runs that are left or cancelled after each of their events, and gone on with at once.

However a run is left: the thread is free, nothing is left running, no function that ended runs twice,
and in the end the thread tells what a run tells that nobody left.
"""

import asyncio
import gc
import threading
from collections.abc import Callable
from functools import partial
from itertools import count as counting
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from campaign import EXAMPLES, Way, by_lane, case, ended, shown, slug, thinned, valid
from leaving import (
    ANSWER,
    ASYNC,
    SYNC,
    Count,
    World,
    afinish,
    check_file,
    check_tasks,
    consumed,
    drained,
    finish,
    is_cancelled,
    turns,
    waits,
)
from left_trees import TREES, Tree

import agentgraph as ag

SAVERS = ("memory", "sqlite")
STEP = 1 if EXAMPLES else 2
"""Runs are left after each event; without examples, after each second one."""


def cases(leavers: Any, kind: str) -> list[Any]:
    """Return trees and ways to leave, in memory or on a file: every fourth pair; with examples all."""
    numbered = product(enumerate(TREES), enumerate(leavers))
    if EXAMPLES:
        every = [case(tree, how, f"{kind}-{at}") for (_, tree), (_, how) in numbered for at in SAVERS]
        return thinned(every)
    return [
        case(tree, how, f"{kind}-{SAVERS[(row + column) // 4 % 2]}")
        for (row, tree), (column, how) in numbered
        if (row + column) % 4 == 0
    ]


@pytest.mark.parametrize(("tree", "how", "way"), cases(SYNC, "sync"))
def test_a_run_that_is_left_goes_on_at_once(tree: str, how: str, way: str, tmp_path: Path) -> None:
    wanted, whole = undisturbed(TREES[tree], Way(way, tmp_path / "whole"))
    for leave_at in counting(0, STEP):
        driven, world = new_way(way, tmp_path / str(leave_at)), World()
        count, agent = counter(leave_at, TREES[tree], world), TREES[tree].build(world)
        failed = driven.drive(
            agent, partial(left, SYNC[how], TREES[tree], count, driven), leave_nothing
        )
        assert failed is None, f"left after {leave_at} events: {shown(failed)}"
        check_end(driven, agent, world, wanted, whole, TREES[tree], count, is_async=False)
        if not count.left:
            break


def left(leave: Callable[..., None], tree: Tree, count: Count, driven: Way, runner: ag.Runner) -> None:
    for make in begins(tree, runner.run, runner.resume):
        leave(make, count)
        if count.left:
            break
    running = +count.world.running
    assert not running, f"still running: {running}"
    check_file(driven.path)
    count.heard += finish(runner)


@pytest.mark.parametrize(("tree", "how", "way"), cases(ASYNC, "async"))
def test_an_async_run_that_is_left_goes_on_at_once(
    tree: str, how: str, way: str, tmp_path: Path
) -> None:
    wanted, whole = undisturbed(TREES[tree], Way(way, tmp_path / "whole"))
    for leave_at in counting(0, STEP):
        driven, world = new_way(way, tmp_path / str(leave_at)), World()
        count, agent = counter(leave_at, TREES[tree], world), TREES[tree].build(world)
        complaints: list[Any] = []
        leaving = partial(aleft, ASYNC[how], TREES[tree], count, driven, how == "drop", complaints)
        failed = driven.drive(agent, leave_nothing, leaving)
        gc.collect()
        assert failed is None, f"left after {leave_at} events: {shown(failed)}"
        told = sorted({str(what["message"]) for what in complaints})
        assert not told, f"left after {leave_at} events: the event loop complains: {told}"
        check_end(driven, agent, world, wanted, whole, TREES[tree], count, is_async=True)
        if not count.left:
            break


async def aleft(
    leave: Callable[..., Any],
    tree: Tree,
    count: Count,
    driven: Way,
    dropped: bool,
    complaints: list[Any],
    runner: ag.Runner,
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    for make in begins(tree, runner.arun, runner.aresume):
        await leave(make, count)
        if count.left:
            break
    if not dropped:
        running = +count.world.running
        assert not running, f"still running: {running}"
        check_tasks()
        check_file(driven.path)
    count.heard += await afinish(runner)
    await turns()
    check_tasks()


def counter(leave_at: int, tree: Tree, world: World) -> Count:
    return Count(leave_at, world, tree.held_at, tree.waiting)


def begins(tree: Tree, run: Any, resume: Any) -> list[Callable[[], Any]]:
    """Return how the calls of a conversation begin: the run, and where it asks, its resume."""
    first = partial(run, "Go.", thread_id="t")
    return [first, partial(resume, "t", ANSWER)] if tree.asks else [first]


def leave_nothing(runner: ag.Runner) -> None:
    raise AssertionError("this is driven the other way")


def new_way(name: str, folder: Path) -> Way:
    folder.mkdir()
    return Way(name, folder)


def undisturbed(tree: Tree, driven: Way) -> tuple[Any, World]:
    """Return what a run tells that nobody leaves, and what it does in the world."""
    world = World()
    world.gate.set()
    driven.folder.mkdir()
    agent = tree.build(world)
    assert driven.drive(agent, finish, afinish) is None
    return lines(driven.events(agent)), world


def lines(events: list[ag.AgentEvent]) -> dict[str, list[Any]]:
    return {lane: [line[:-1] for line in told] for lane, told in by_lane(valid(events)).items()}


def check_end(
    driven: Way,
    agent: ag.Agent,
    world: World,
    wanted: Any,
    whole: World,
    tree: Tree,
    count: Count,
    *,
    is_async: bool,
) -> None:
    """Check that all was done, once where it had ended, and is told as if nobody had left."""
    at = f"left after {count.leave_at} events"
    again = set(tree.again) if is_async else set()
    once = {name: times for name, times in whole.ended.items() if name not in again}
    ended = {name: times for name, times in world.ended.items() if name not in again}
    assert ended == once, f"{at}: what ended ran again: {ended}"
    assert all(times <= world.ended[name] <= times + 1 for name, times in whole.ended.items()), at
    again_told = driven.events(agent)
    assert lines(again_told) == wanted, f"{at}: events() tells something else"


GATED = [name for name, tree in TREES.items() if tree.held_at and name not in ("coroutines", "hook")]


@pytest.mark.parametrize("way", ["async-memory", "async-sqlite"])
@pytest.mark.parametrize("tree", GATED, ids=slug)
def test_a_second_cancel_does_not_wait_for_a_thread(tree: str, way: str, tmp_path: Path) -> None:
    spec, world, driven = TREES[tree], World(), Way(way, tmp_path)
    agent = spec.build(world)
    count = counter(spec.held_at, spec, world)
    in_flight: list[str] = []

    async def cancelled_twice(runner: ag.Runner) -> None:
        reached = asyncio.Event()
        make = partial(runner.arun, "Go.", thread_id="t")
        consumer = asyncio.create_task(consumed(make, count, reached))
        await waits(consumer, reached)
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
        failed = driven.drive(agent, leave_nothing, cancelled_twice)
    finally:
        world.gate.set()
    assert failed is None, shown(failed)
    _, whole = undisturbed(spec, Way(way, tmp_path / "whole"))
    twice = {name for name, times in world.ended.items() if times > whole.ended[name]}
    assert twice <= {*in_flight, *spec.again}
    assert all(world.ended[name] <= times + 1 for name, times in whole.ended.items())


@pytest.mark.parametrize("way", ["sync-memory", "sync-sqlite"])
def test_a_run_that_is_held_open_is_busy_until_it_is_closed(way: str, tmp_path: Path) -> None:
    world, driven = World(), Way(way, tmp_path)
    world.gate.set()
    agent = TREES["functions"].build(world)

    def held_open(runner: ag.Runner) -> None:
        run: Any = runner.run("Go.", thread_id="t")
        next(run)
        with pytest.raises(ag.ThreadBusyError, match="'t' is busy"):
            list(runner.resume("t"))
        run.close()
        finish(runner)

    assert driven.drive(agent, held_open, leave_nothing) is None
    assert set(world.ended.values()) == {1}


@pytest.mark.parametrize("way", ["sync-memory", "sync-sqlite"])
def test_a_run_holds_its_thread_from_the_call_until_it_is_dropped(way: str, tmp_path: Path) -> None:
    world, driven = World(), Way(way, tmp_path)
    agent = TREES["sequence"].build(world)

    def called(runner: ag.Runner) -> None:
        run: Any = runner.run("Go.", thread_id="t")
        with pytest.raises(ag.ThreadBusyError, match="'t' is busy"):
            runner.run("Go.", thread_id="t")
        del run
        finish(runner)

    failed = driven.drive(agent, called, leave_nothing)
    assert failed is None, shown(failed)
    assert set(world.ended.values()) == {1}


@pytest.mark.parametrize("way", ["async-memory", "async-sqlite"])
def test_an_async_run_that_is_held_open_is_busy_until_it_is_closed(way: str, tmp_path: Path) -> None:
    world, driven = World(), Way(way, tmp_path)
    world.gate.set()
    agent = TREES["functions"].build(world)

    async def held_open(runner: ag.Runner) -> None:
        run: Any = runner.arun("Go.", thread_id="t")
        await anext(run)
        with pytest.raises(ag.ThreadBusyError, match="'t' is busy"):
            await drained(runner.aresume("t"))
        await run.aclose()
        await afinish(runner)

    assert driven.drive(agent, leave_nothing, held_open) is None
    assert set(world.ended.values()) == {1}


@pytest.mark.parametrize("way", ["async-memory", "async-sqlite"])
@pytest.mark.parametrize("tree", TREES, ids=slug)
def test_a_run_may_be_cancelled_again_and_again(tree: str, way: str, tmp_path: Path) -> None:
    """Each call is cancelled behind its first event, until one comes to the end."""
    spec, world, driven = TREES[tree], World(), Way(way, tmp_path)
    agent = spec.build(world)
    heard: list[ag.AgentEvent] = []

    async def again_and_again(runner: ag.Runner) -> None:
        first = counter(1, spec, world)
        await is_cancelled(partial(runner.arun, "Go.", thread_id="t"), first)
        heard.extend(first.heard)
        for _ in range(20):
            resumed = Count(1, world)
            await is_cancelled(partial(runner.aresume, "t"), resumed)
            heard.extend(resumed.heard)
            check_tasks()
            if not resumed.left:
                break
        heard.extend(await afinish(runner))

    failed = driven.drive(agent, leave_nothing, again_and_again)
    assert failed is None, shown(failed)
    wanted, whole = undisturbed(spec, Way(way, tmp_path / "whole"))
    assert {n: world.ended[n] for n in whole.ended if n not in spec.again} == {
        n: times for n, times in whole.ended.items() if n not in spec.again
    }
    again = driven.events(agent)
    assert lines(again) == wanted


def test_what_hangs_is_found_out() -> None:
    """The helper of all campaigns tells what was raised, and what has not ended."""
    over = threading.Event()
    assert isinstance(ended(lambda: 1 / 0), ZeroDivisionError)
    with pytest.raises(AssertionError, match="it hangs"):
        ended(lambda: over.wait(20), patience=0.01)
    over.set()

"""Runs in the background: who calls them, and what is known of them before they have saved anything."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from helpers import says

import agentgraph as ag

TENANT = contextvars.ContextVar("TENANT", default="nobody")
clerk = ag.function_agent("clerk", lambda ctx: TENANT.get())
tree = ag.sequential(
    "s", [clerk, ag.human("boss", "Go on?"), ag.each("all", clerk, lambda ctx: [1, 2])]
)
SAID = ["ada", "yes", "ada", "ada"]


@pytest.fixture(autouse=True)
def of_ada() -> Iterator[None]:
    token = TENANT.set("ada")
    yield
    TENANT.reset(token)


def told(runner: ag.Runner, thread_id: str) -> list[str]:
    return [event.text for event in runner.follow(thread_id) if event.text and not event.partial]


def test_a_run_in_the_background_has_the_context_of_who_began_it() -> None:
    runner = ag.Runner(tree, max_running=1)
    runner.start("Go.", thread_id="t")
    told(runner, "t")
    runner.start(thread_id="t", answers="yes")
    assert told(runner, "t") == SAID
    variants = {"a": {"answers": "A"}, "b": {"answers": "B"}}
    for name, thread_id in runner.start_many("t", "s/boss", variants).items():
        assert told(runner, thread_id) == ["ada", name.upper(), "ada", "ada"]


def test_a_task_in_the_background_has_it_too() -> None:
    async def both() -> list[str]:
        runner = ag.Runner(tree)
        await runner.astart("Go.", thread_id="t")
        _ = [event async for event in runner.afollow("t")]
        await runner.astart(thread_id="t", answers="yes")
        return [event.text async for event in runner.afollow("t") if event.text]

    assert asyncio.run(both()) == SAID


def test_a_turn_that_waits_has_the_context_of_who_wants_it() -> None:
    gate = threading.Event()

    def fn(ctx: ag.Context) -> str:
        assert gate.wait(20)
        return TENANT.get()

    runner = ag.Runner(ag.function_agent("a", fn), max_running=2)
    runner.start("One.", thread_id="t")
    token = TENANT.set("bob")
    runner.start("Two.", thread_id="t", while_running="queue")
    TENANT.reset(token)
    gate.set()
    assert told(runner, "t") == ["ada", "bob"]


def test_a_run_that_a_function_begins_may_wait_for_the_run_around() -> None:
    around = Future[None]()

    def fn(ctx: ag.Context) -> str:
        if ctx.config["configurable"].get("is_inner"):
            around.result(20)
            return TENANT.get()
        runner.start("Go.", thread_id="inner", config={"configurable": {"is_inner": True}})
        return "begun"

    runner = ag.Runner(ag.function_agent("a", fn))
    assert runner.invoke("Go.", thread_id="outer").text == "begun"
    around.set_result(None)
    assert told(runner, "inner") == ["ada"]


READS: dict[str, tuple[Callable[[ag.Runner], Any], Callable[[Any], bool]]] = {
    "pending": (lambda runner: runner.pending("t"), lambda found: found == []),
    "events": (lambda runner: list(runner.events("t")), lambda found: found == []),
    "visits": (lambda runner: runner.visits("t"), lambda found: found == []),
    "timeline": (lambda runner: runner.timeline("t").bars, lambda found: found == []),
    "timeline, since": (
        lambda runner: runner.timeline("t", since=runner.timeline("t").upto, last=3).bars,
        lambda found: found == [],
    ),
    "thread": (lambda runner: runner.thread("t").status, lambda found: found == "running"),
    "threads": (
        lambda runner: [(each.thread_id, each.status) for each in runner.threads()],
        lambda found: found == [("t", "running")],
    ),
    "threads that run": (
        lambda runner: [each.thread_id for each in runner.threads("running")],
        lambda found: found == ["t"],
    ),
    "threads that are done": (lambda runner: runner.threads("done"), lambda found: found == []),
    "steer": (lambda runner: len(runner.steer("t", "Be brief.")), lambda found: found == 1),
    "stop": (lambda runner: runner.stop("t"), lambda found: found is None),
}
AREADS: dict[str, Callable[[ag.Runner], Any]] = {
    "pending": lambda runner: runner.apending("t"),
    "events": lambda runner: runner.aevents("t"),
    "visits": lambda runner: runner.avisits("t"),
    "timeline": lambda runner: runner.atimeline("t"),
    "thread": lambda runner: runner.athread("t"),
    "threads": lambda runner: runner.athreads(),
    "steer": lambda runner: runner.asteer("t", "Be brief."),
    "stop": lambda runner: runner.astop("t"),
}


@pytest.mark.parametrize("place", ["memory", "SQLite"])
@pytest.mark.parametrize("read", READS)
def test_a_thread_is_known_as_soon_as_a_run_has_it(read: str, place: str, tmp_path: Path) -> None:
    """The run holds its thread, and has not begun: nobody has asked for its first event."""
    options = {"checkpointer": tmp_path / "runs.db"} if place == "SQLite" else {}
    with ag.Runner(says("a"), **options) as runner:  # type: ignore[arg-type]
        run = runner.run("Go.", thread_id="t")
        call, is_right = READS[read]
        found = call(runner)
        assert is_right(found), found
        if read != "stop":
            assert list(run)[-1].text == "a"
        run.close()


@pytest.mark.parametrize("read", AREADS)
def test_a_thread_is_known_as_soon_as_a_task_has_it(read: str) -> None:
    async def reads() -> None:
        runner = ag.Runner(says("a"))
        await runner.astart("Go.", thread_id="t")
        await AREADS[read](runner)
        said = [event.text async for event in runner.afollow("t")]
        assert said[-1:] == ["a"] * (read != "stop")

    asyncio.run(reads())


def test_another_runner_on_the_file_knows_it_too(tmp_path: Path) -> None:
    first, second = (ag.Runner(says("a"), checkpointer=tmp_path / "runs.db") for _ in range(2))
    run = first.run("Go.", thread_id="t")
    assert (second.pending("t"), second.visits("t"), second.thread("t").status) == ([], [], "running")
    run.close()
    first.close()
    second.close()


def test_a_thread_whose_run_was_closed_before_it_began_is_unknown() -> None:
    runner = ag.Runner(says("a"))
    runner.run("Go.", thread_id="t").close()
    for read in (runner.pending, runner.visits, runner.timeline, runner.stop):
        with pytest.raises(ag.UnknownThreadError):
            read("t")
    assert runner.threads() == []

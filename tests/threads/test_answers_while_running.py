"""Answers while a run works: the branch that asked continues, and others are not disturbed."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from helpers import unvoided
from helpers.answering import (
    PATIENCE,
    Running,
    Steps,
    Work,
    answering,
    calling,
    gathering,
    in_threads,
    question_in,
)
from helpers.drives import Async, Sync
from langchain.agents.middleware import ToolRetryMiddleware

import agentgraph as ag
from agentgraph.journal.locks import holders

RETRYING = [ToolRetryMiddleware(max_retries=1)]
TREES: dict[str, tuple[int, Callable[[Work], ag.Agent]]] = {
    "a function": (1, lambda work: ag.parallel("p", [work.slow(), work.asker()])),
    "interrupt": (1, lambda work: ag.parallel("p", [work.slow(), work.interrupting()])),
    "a human": (
        1,
        lambda work: ag.parallel(
            "p", [work.slow(), ag.sequential("q", [ag.human("h", "h 0?"), work.ends()])]
        ),
    ),
    "a loop": (
        2,
        lambda work: ag.parallel(
            "p", [work.slow(), ag.loop("l", [work.asker(times=1)], max_iterations=2)]
        ),
    ),
    "a graph": (1, lambda work: ag.parallel("p", [work.slow(), work.graph()])),
    "an inner branch": (
        1,
        lambda work: ag.parallel(
            "p", [work.slow(), ag.parallel("in", [work.slow("inner"), work.asker()])]
        ),
    ),
    "inner branches that all ask": (
        2,
        lambda work: ag.parallel(
            "p", [work.slow(), ag.parallel("in", [work.asker("b"), work.asker()])]
        ),
    ),
    "items": (2, lambda work: ag.each("e", work.item(), over=lambda ctx: ["slow", "x", "y"])),
    "steps": (
        1,
        lambda work: ag.workflow(
            "w",
            [
                work.slow(),
                work.asker(is_last=False),
                ag.step(work.ends(), depends_on=["a"]),
            ],
        ),
    ),
    "steps that may be undone": (
        1,
        lambda work: ag.workflow(
            "w", [work.slow(), ag.step(work.asker(), compensate=ag.human("undo", "undo?"))]
        ),
    ),
    "the first": (
        1,
        lambda work: ag.parallel(
            "p", [work.slow(), ag.sequential("q", [work.asker(), work.slow("b")])], on_error="first"
        ),
    ),
    "agents in one round": (1, lambda work: calling(work.asker("helper"), work.slow("other"))),
    "tools in one round of a branch": (
        1,
        lambda work: ag.parallel("p", [work.slow(), calling(work.tool(), work.slow("other"))]),
    ),
    "a parallel as a tool": (
        1,
        lambda work: calling(ag.parallel("in", [work.asker(), work.slow("inner")]), work.slow("other")),
    ),
    "an agent as a tool": (
        1,
        lambda work: ag.parallel("p", [work.slow(), calling(work.asker("helper"))]),
    ),
    "wrapped agents in one round": (
        1,
        lambda work: calling(work.asker("helper"), work.slow("other"), middleware=RETRYING),
    ),
    "wrapped tools in one round of a branch": (
        1,
        lambda work: ag.parallel(
            "p", [work.slow(), calling(work.tool(), work.slow("other"), middleware=RETRYING)]
        ),
    ),
    "a wrap that asks, too": (
        1,
        lambda work: calling(
            work.asker("helper", is_last=False), work.slow(), middleware=[work.wrap("helper")]
        ),
    ),
    "calls of one function": (1, lambda work: gathering(work.asker(), work.slow())),
    "calls in threads": (2, lambda work: in_threads(work.asker("b"), work.asker(), work.slow())),
    "calls of a branch that all ask": (
        2,
        lambda work: ag.parallel("p", [work.slow(), gathering(work.asker("b"), work.asker())]),
    ),
    "a parallel in a call": (
        1,
        lambda work: gathering(ag.parallel("in", [work.asker(), work.slow("inner")]), work.slow()),
    ),
    "a function in a call": (
        1,
        lambda work: in_threads(
            ag.sequential("q", [gathering(work.asker(), ag.function_agent("b", lambda ctx: "b"))]),
            work.slow(),
        ),
    ),
}


@pytest.fixture(params=["sync in memory", "async in a file", "async in memory", "sync in a file"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Running:
    drive, _, *_, kind = request.param.split()
    place = tmp_path / "t.db" if kind == "file" else None
    return Running(ag.human("boss", "?"), Sync if drive == "sync" else Async, place)


def asking(work: Work, **options: Any) -> ag.Agent:
    return ag.parallel("p", [work.slow(), work.asker(times=1)], **options)


def texts(events: Iterable[ag.AgentEvent]) -> list[str]:
    return sorted(each.text for each in events if each.kind == "message")


def refused(error: type[Exception], *call: Any) -> Steps:
    """Make a call that is to raise an error."""
    with pytest.raises(error):
        yield call


def check_replay(running: Running, events: Sequence[ag.AgentEvent]) -> None:
    gone = {each for event in events if event.action for each in event.action.discarded}
    rest = [each for each in events if each.id not in gone and each.kind != "discarded"]
    assert rest == running.events()


@pytest.mark.parametrize("kind", TREES)
def test_a_branch_continues_with_its_answer_while_others_run(running: Running, kind: str) -> None:
    askers, tree = TREES[kind]
    running.tree = tree(Work(running.drive, askers))
    asked: list[str] = []

    def on(event: ag.AgentEvent) -> Steps:
        if one := question_in(event):
            asked.append(one.id)
            yield "answer", {one.id: f"yes {len(asked)}"}
            yield from refused(ag.UnknownInterruptError, "answer", {one.id: "no"})
            pending = yield ("pending",)
            assert one.id not in [each.id for each in pending]

    events = running.run("Go.", thread_id="t", on=on)
    thread = running.thread()
    assert (thread.status, thread.pending, thread.answered) == ("done", [], ())
    assert len(asked) == len({*asked})
    if kind != "the first":
        assert not [each for each in events if each.kind == "discarded"]
    check_replay(running, events)


def test_a_bare_answer_is_for_the_only_question(running: Running) -> None:
    work = Work(running.drive, askers=2)
    running.tree = ag.parallel("p", [work.slow(), *(work.asker(each, times=1) for each in "ab")])
    seen: list[str] = []

    def on(event: ag.AgentEvent) -> Steps:
        seen.extend([event.address] if question_in(event) else [])
        if question_in(event) and len(seen) == 2:
            yield from refused(ag.UnknownInterruptError, "answer", "yes")
            yield "answer", {"p/a": "1"}
            yield "answer", "2"

    assert texts(running.run("Go.", thread_id="t", on=on)) == ["a: 1", "b: 2", "slow ended"]


def test_what_is_refused_saves_nothing(running: Running) -> None:
    work = Work(running.drive)
    agent = ag.function_agent(
        "a", lambda ctx: (ctx.answer and (work.end() or f"a: {ctx.answer}")) or ag.Ask("?", bool)
    )
    running.tree = ag.parallel("p", [work.slow(), agent])

    def on(event: ag.AgentEvent) -> Steps:
        if one := question_in(event):
            yield from refused(ag.InvalidAnswerError, "answer", {one.id: "perhaps"})
            yield from refused(ag.InvalidAnswerError, "answer", {one.id: object()})
            yield from refused(ag.InvalidAnswerError, "answer", {})
            yield from refused(ag.UnknownInterruptError, "answer", {"p/b": True})
            assert [each.id for each in (yield ("pending",))] == [one.id]
            yield "answer", {one.id: True}

    assert texts(running.run("Go.", thread_id="t", on=on)) == ["a: True", "slow ended"]


def test_a_question_of_the_root_pauses_the_run_and_its_answer_is_kept(running: Running) -> None:
    running.tree = ag.sequential("s", [ag.human("boss", "?"), ag.human("legal", "?")])
    running.run("Go.", thread_id="t", on=answering())
    thread = running.thread()
    assert (thread.status, thread.pending) == ("stopped", [])
    assert [(each.question.address, each.answer) for each in thread.answered] == [("s/boss", "yes")]
    with pytest.raises(ag.UnknownInterruptError):
        running.call("resume", "t", {"s/boss": "no"})
    running.run("t", method="resume", on=answering("no"))
    running.run("t", method="resume", on=answering())
    assert (running.thread().status, texts(running.events())) == ("done", ["no", "yes"])


@pytest.mark.parametrize("on_error", ["fail", "wait", "collect"])
def test_an_answer_stays_when_a_sibling_fails(running: Running, on_error: Any) -> None:
    work = Work(running.drive)

    def fails(ctx: ag.Context) -> str:
        work.wait()
        raise ValueError("no")

    more = [ag.function_agent("f", fails), work.asker(times=1), ag.human("h", "?")]
    running.tree = ag.parallel("p", more, on_error=on_error)

    def on(event: ag.AgentEvent) -> Steps:
        if (one := question_in(event)) and event.address == "p/a":
            yield "answer", {one.id: "yes"}

    with nullcontext() if on_error == "collect" else pytest.raises(ValueError, match="no"):
        running.run("Go.", thread_id="t", on=on)
    assert running.thread().status == ("paused" if on_error == "collect" else "failed")
    assert [each.address for each in running.pending()] == ["p/h"]
    assert "a: yes" in texts(running.events())


def test_the_question_of_a_loser_needs_no_answer(running: Running) -> None:
    asked, go = list[str](), threading.Event()

    def wins(ctx: ag.Context) -> str:
        assert go.wait(30)
        return "won"

    def on(event: ag.AgentEvent) -> Steps:
        if one := question_in(event):
            asked.append(one.id)
            go.set()
        if event.kind == "discarded":
            yield from refused(ag.UnknownInterruptError, "answer", {asked[0]: "yes"})

    first = ag.parallel("p", [ag.function_agent("w", wins), ag.human("h", "?")], on_error="first")
    running.tree = ag.sequential("s", [first, ag.function_agent("z", lambda ctx: "z")])
    events = running.run("Go.", thread_id="t", on=on)
    assert "discarded" in [each.kind for each in events]
    assert running.thread().status == "done"


def test_an_answered_branch_waits_for_a_place(running: Running) -> None:
    order, answered = list[str](), threading.Event()

    def waits(ctx: ag.Context) -> str:
        assert answered.wait(30)
        order.append("b")
        return "b"

    last = ag.function_agent("c", lambda ctx: order.append("c") or "c")
    asker = ag.sequential(
        "q", [ag.human("h", "?"), ag.function_agent("a", lambda ctx: order.append("a") or "a")]
    )
    running.tree = ag.parallel("p", [asker, ag.function_agent("b", waits), last])

    def on(event: ag.AgentEvent) -> Steps:
        yield from answering()(event)
        answered.set()

    running.run("Go.", thread_id="t", on=on, config={"max_concurrency": 1})
    assert (order, running.thread().status) == (["b", "a", "c"], "done")


@pytest.mark.parametrize("kind", ["items", "steps"])
def test_a_lane_has_its_input_after_the_branch_around_it_waited(running: Running, kind: str) -> None:
    seen, answered, may_end = list[str](), threading.Event(), threading.Event()

    def fn(ctx: ag.Context) -> Iterator[object]:
        if not ctx.asked:
            yield ag.Ask("well?")
            return
        if ctx.answer == "first":
            yield ag.Custom("continues")
            assert may_end.wait(PATIENCE)
        seen.append(ctx.messages[-1].text)
        if ctx.answer == "second":
            may_end.set()

    def other(ctx: ag.Context) -> Iterator[object]:
        while not may_end.wait(0.01):
            yield ag.Custom("waits")

    one, two = (ag.function_agent(name, fn) for name in ("one", "two"))
    lanes = {
        "items": ag.each("in", one, lambda ctx: [1, 2], input=lambda ctx: "do it"),
        "steps": ag.workflow("in", [ag.step(each, input=lambda ctx: "do it") for each in (one, two)]),
    }
    running.tree = ag.parallel("p", [ag.function_agent("other", other), lanes[kind]])
    asked: list[str] = []

    def on(event: ag.AgentEvent) -> Steps:
        if question := question_in(event):
            asked.append(question.id)
        elif event.agent_name == "other":  # all three wait: both lanes, and the branch around them
            if [len(run.desk.parked) for run in holders()] == [3] and not answered.is_set():
                answered.set()
                yield "answer", {asked[0]: "first"}
        elif event.kind == "custom":
            yield "answer", {asked[1]: "second"}

    running.run("Go.", thread_id="t", on=on)
    assert seen == ["do it", "do it"]


def test_a_stopped_run_leaves_an_answer_to_the_next_one(running: Running) -> None:
    go, asked = threading.Event(), dict[str, str]()

    def waits(ctx: ag.Context) -> str:
        assert go.wait(30)
        return "waited"

    steps = ag.sequential("q", [ag.function_agent("w", waits), ag.function_agent("x", lambda ctx: "x")])
    running.tree = ag.parallel("p", [steps, ag.human("h", "?"), ag.human("i", "?")])

    def on(event: ag.AgentEvent) -> Steps:
        if one := question_in(event):
            asked[event.address] = one.id
        if one and len(asked) == 2:
            yield ("stop",)
            yield "answer", {asked["p/h"]: "yes"}
            go.set()

    running.run("Go.", thread_id="t", on=on)
    assert "x" not in texts(running.events())
    assert [each.address for each in running.pending()] == ["p/i"]
    running.call("resume", "t", "no")
    assert texts(running.events()) == ["no", "waited", "x", "yes"]


def test_visits_of_an_answered_branch_can_be_gone_back_to(running: Running) -> None:
    work = Work(running.drive)
    branches = ag.parallel("p", [work.slow(), work.asker(times=2)])
    running.tree = ag.sequential("s", [branches, ag.function_agent("z", lambda ctx: "z")])
    running.run("Go.", thread_id="t", on=answering())
    visits = running.visits()
    for visit in visits:
        running.call("rewind", "t", visit.step if visit.address != "s/p" else visit.address)
        while pending := running.pending():
            running.call("resume", "t", {each.id: "again" for each in pending})
        assert running.thread().status == "done"
        assert texts(running.events())[1:] == ["slow ended", "z"]


def test_the_question_of_a_branch_that_fails_after_its_answer_stays(running: Running) -> None:
    work = Work(running.drive)

    def fn(ctx: ag.Context) -> object:
        if not ctx.asked:
            return ag.Ask("a 0?")
        work.end()
        raise ValueError("no")

    branches = [work.slow(), ag.function_agent("a", fn)]
    running.tree = ag.parallel("p", branches, on_error="collect")
    heard = running.run("Go.", thread_id="t", on=answering())
    assert unvoided(heard) == running.events()
    assert [each.address for each in heard if question_in(each)] == ["p/a"]
    assert next(each.kind for each in running.events() if each.address == "p/a") == "interrupted"


def test_a_copy_up_to_a_visit_asks_as_a_rewind_does(running: Running) -> None:
    running.tree = asking(Work(running.drive))
    running.run("Go.", thread_id="t", on=answering())
    for number, visit in enumerate(running.visits()):
        running.call("copy", "t", f"c{number}", at=visit.step)
        running.call("resume", f"c{number}")
        copied = running.use(
            lambda r, n=number: r.thread(f"c{n}"), lambda r, n=number: r.athread(f"c{n}")
        )
        running.call("rewind", "t", visit.step)
        rewound = running.thread()
        assert (copied.status, [*copied.answered]) == (rewound.status, [])


def test_a_question_that_a_resume_asks_again_stays_on_the_thread(running: Running) -> None:
    """The saver still has that of the run before, which is discarded, when its answer comes."""

    def quick() -> str:
        """Return at once."""
        return "quick"

    calls = calling(quick, Work(running.drive).tool(), parallel_tools=False)
    running.tree = ag.parallel("p", [ag.human("h", "h 0?"), calls])

    def on(event: ag.AgentEvent) -> Steps:
        if question_in(event) and event.address == "p/h":
            yield "answer", {"p/h": "yes"}
        elif event.address == "p/h" and event.text:
            yield "answer", {"p/c": "yes"}

    heard = running.call("run", "Go.", thread_id="t")
    heard += running.run("t", on=on, method="resume")
    while running.pending():
        heard += running.call("resume", "t", {running.pending()[0].id: "yes"})
    assert unvoided(heard) == running.events()


def test_one_of_many_answers_at_once_is_taken() -> None:
    outcomes: list[str] = []

    async def race() -> None:
        runner = ag.Runner(asking(Work(Async)))

        async def answer(number: int, asked: ag.Interrupt) -> None:
            try:
                await runner.aanswer("t", {asked.id: number})
                outcomes.append(f"a: {number}")
            except ag.UnknownInterruptError:
                outcomes.append("refused")

        said: list[str] = []
        async for event in runner.arun("Go.", thread_id="t"):
            said.append(event.text)
            if asked := question_in(event):
                await asyncio.gather(*(answer(number, asked) for number in range(8)))
        assert sorted(outcomes)[1:] == ["refused"] * 7
        assert sorted(outcomes)[0] in said

    asyncio.run(race())


def test_a_sync_answer_would_block_the_event_loop_of_the_run() -> None:
    async def main() -> None:
        runner = ag.Runner(asking(Work(Async)))
        async for event in runner.arun("Go.", thread_id="t"):
            if asked := question_in(event):
                with pytest.raises(ag.AgentGraphError, match="await aanswer"):
                    runner.answer("t", {asked.id: "yes"})
                await runner.aanswer("t", {asked.id: "yes"})

    asyncio.run(main())


def test_an_answer_that_is_cancelled_leaves_its_question_open() -> None:
    """A resume that has no place for the branch yet has not asked again when the answer comes."""
    may_end = asyncio.Event()

    async def slow(ctx: ag.Context) -> str:
        await may_end.wait()
        return "slow ended"

    first = ag.sequential("s", [ag.human("h", "h 0?"), ag.function_agent("slow", slow)])
    runner = ag.Runner(ag.parallel("p", [first, ag.human("a", "a 0?")], max_concurrency=1))

    async def main() -> None:
        await runner.ainvoke("Go.", thread_id="t")
        async with asyncio.timeout(PATIENCE):
            async for event in runner.aresume("t", {"p/s/h": "yes"}):
                if event.address == "p/s/h":
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(runner.aanswer("t", {"p/a": "no"}), 0.1)
                    may_end.set()
        assert [each.address for each in await runner.apending("t")] == ["p/a"]
        assert (await runner.ainvoke(thread_id="t", answers={"p/a": "yes"})).status == "done"

    asyncio.run(main())


def test_a_resume_of_a_busy_thread_names_answer(running: Running) -> None:
    running.tree = asking(Work(running.drive))

    def on(event: ag.AgentEvent) -> Steps:
        if one := question_in(event):
            with pytest.raises(ag.ThreadBusyError, match=re.escape("call answer('t', ...) to answer")):
                yield "resume", "yes"
            yield "answer", {one.id: "yes"}

    running.run("Go.", thread_id="t", on=on)


def test_advance_knows_the_answer_that_a_branch_took(running: Running) -> None:
    running.tree = ag.sequential("s", [asking(Work(running.drive)), ag.human("boss", "?")])

    def on(event: ag.AgentEvent) -> Steps:
        if (one := question_in(event)) and event.address == "s/p/a":
            yield "answer", {one.id: "yes"}

    running.run("Go.", thread_id="t", on=on)
    with pytest.raises(ag.UnknownInterruptError):
        running.call("advance", "t", answers={"s/p/a": "no"})
    result = running.call("advance", "t", answers={"s/p/a": "yes", "s/boss": "b"})
    assert (result.status, result.text) == ("done", "b")

"""A deadline that passes while other branches work: the branch that asked continues in the same run."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Session, Sync, says, scripted
from helpers.answering import gathering

import agentgraph as ag
from agentgraph.testing import call, calls

NO: dict[str, Any] = {"default": "no"}


class Work:
    """A branch that works until the test releases it, or for too long."""

    def __init__(self, drive: Any) -> None:
        self.released = threading.Event()
        work = self._work if drive is Sync else self._awork
        self.agent = ag.function_agent("work", work)

    def _work(self, ctx: ag.Context) -> str:
        self.released.wait(30)
        return "Worked."

    async def _awork(self, ctx: ag.Context) -> str:
        async with asyncio.timeout(30):
            while not self.released.is_set():
                await asyncio.sleep(0.01)
        return "Worked."


def boss(**options: Any) -> ag.Agent:
    return ag.human("boss", "Print it?", timeout=0.1, **options)


def called(**options: Any) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        return f"It is {await ctx.run('boss', 'Ask.')}."

    return ag.function_agent("fn", fn, agents=[boss(**options)])


def inside(*agents: ag.Agent) -> ag.Agent:
    return ag.sequential("lane", [*agents, says("after", "After.")])


TREES: dict[str, Callable[..., ag.Agent]] = {
    "branch": lambda work, **o: ag.parallel("p", [boss(**o), work]),
    "lane": lambda work, **o: ag.parallel("p", [inside(boss(**o)), work]),
    "nested": lambda work, **o: ag.parallel("p", [ag.parallel("q", [inside(boss(**o))]), work]),
    "call": lambda work, **o: ag.parallel("p", [called(**o), work]),
    "calls": lambda work, **o: gathering(boss(**o), work),
    "step": lambda work, **o: ag.workflow("w", [boss(**o), work]),
    "item": lambda work, **o: ag.each(
        "e", ag.switch("s", lambda ctx: ctx.item.value, {1: boss(**o), 2: work}), lambda ctx: [1, 2]
    ),
}


@pytest.fixture(params=["sync in memory", "async in a file", "async in memory", "sync in a database"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    kind = request.param.split()[-1]
    at = request.getfixturevalue("url") if kind == "database" else {"file": tmp_path / "t.db"}.get(kind)
    return Session(says("none"), Sync if request.param[:4] == "sync" else Async, at)


def run(session: Session, make: Callable[..., ag.Agent], until: str, **options: Any) -> list[str]:
    """Run a tree, release its work at an event of the boss, and return its events as text."""
    work, heard = Work(session.drive), list[ag.AgentEvent]()
    session.tree = make(work.agent, **options)

    def hear(event: ag.AgentEvent) -> None:
        heard.append(event)
        if (event.agent_name, event.kind) == ("boss", until):
            work.released.set()

    session.follow("run", "Go.", thread_id="t", hear=hear)
    gone = {each for event in heard if event.action for each in event.action.discarded}
    left = [each for each in heard if each.id not in gone and each.kind != "discarded"]
    replayed = [(each.id, each.kind) for each in session.events()]
    assert replayed == [(each.id, each.kind) for each in left]
    return [f"{each.agent_name} {each.kind}" for each in heard]


@pytest.mark.by_turns("session")
@pytest.mark.parametrize("name", TREES)
def test_a_branch_takes_its_default_while_others_work(session: Session, name: str) -> None:
    heard = run(session, TREES[name], "message", **NO)
    assert heard.index("boss default") < heard.index("boss message") < heard.index("work message")
    assert (session.thread().status, session.pending()) == ("done", [])
    with pytest.raises(ag.UnknownInterruptError, match="'no' is the answer"):
        question = next(each for each in session.events() if each.kind == "interrupted")
        session.follow("resume", "t", {question.id: "yes"}, hear=lambda event: None)


@pytest.mark.by_turns("session")
def test_a_branch_fails_while_others_work(session: Session) -> None:
    def collecting(work: ag.Agent) -> ag.Agent:
        return ag.parallel("p", [boss(), work], on_error="collect")

    heard = run(session, collecting, "error")
    assert heard.index("boss error") < heard.index("work message")
    assert session.thread().status == "done"


@pytest.mark.by_turns("session")
@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_approvals_are_rejected_while_others_work(session: Session, mode: Any) -> None:
    def pay(usd: int) -> str:
        """Pay."""
        return "Paid."

    def clerk(work: ag.Agent) -> ag.Agent:
        model = scripted(calls(call("pay", "1", usd=3), call("pay", "2", usd=4)), "Well.")
        options: Any = {"approve": ["pay"], "interrupt_mode": mode, "approve_timeout": 0.1}
        boss = ag.chat_agent("boss", model, tools=[pay], **options)
        return ag.parallel("p", [boss, work])

    heard = run(session, clerk, "default")
    assert heard.count("boss default") == (1 if mode == "batched" else 2)
    assert heard.index("boss default") < heard.index("work message")
    results = [each.text for each in session.events() if each.message and each.message.type == "tool"]
    assert all("before the deadline" in each for each in results)
    assert len(results) == 2


LATE = pytest.raises(ag.UnknownInterruptError, match="'no' is the answer")


@pytest.mark.by_turns("session")
def test_an_answer_in_time_counts_and_a_late_one_is_rejected(session: Session) -> None:
    work = Work(session.drive)
    slow = ag.human("slow", "Well?", timeout=3600, default=None)
    session.tree = ag.parallel("p", [slow, boss(**NO), work.agent])

    def consume(runner: ag.Runner) -> None:
        for event in runner.run("Go.", thread_id="t"):
            if event.kind == "default":
                with LATE:
                    runner.answer("t", {"p/boss": "yes"})
                runner.answer("t", {"p/slow": "yes"})
            elif event.agent_name == "slow" and event.text:
                work.released.set()

    async def aconsume(runner: ag.Runner) -> None:
        async for event in runner.arun("Go.", thread_id="t"):
            if event.kind == "default":
                with LATE:
                    await runner.aanswer("t", {"p/boss": "yes"})
                await runner.aanswer("t", {"p/slow": "yes"})
            elif event.agent_name == "slow" and event.text:
                work.released.set()

    session.use(consume, aconsume)
    texts = {each.agent_name: each.text for each in session.events() if each.message}
    assert texts == {"slow": "yes", "boss": "no", "work": "Worked."}


def test_a_run_pauses_where_only_questions_are_left() -> None:
    runner = ag.Runner(ag.parallel("p", [ag.human("boss", "?", timeout=3600), says("a")]))
    assert runner.invoke("Go.", thread_id="t").status == "paused"

"""What may run at the same time does: no branch, step or item waits for what it does not depend on."""

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Iterable

import pytest

import agentgraph as ag

PATIENCE = 30.0
KINDS = pytest.mark.parametrize("asynchronous", [False, True], ids=["threads", "coroutines"])


class Meeting:
    """Where agents wait for each other: one that is never met fails its agent."""

    def __init__(self, *, asynchronous: bool) -> None:
        self.asynchronous = asynchronous
        self._begun: dict[str, threading.Event] = defaultdict(threading.Event)

    def agent(self, name: str, until: Iterable[str] = ()) -> ag.Agent:
        """Make an agent that ends only when all others that it names have begun."""

        def fn(ctx) -> str:
            return self.meet(name, until)

        async def afn(ctx) -> str:
            return await self.ameet(name, until)

        return ag.function_agent(name, afn if self.asynchronous else fn)

    def meet(self, name: str, until: Iterable[str]) -> str:
        self._begun[name].set()
        missed = [other for other in until if not self._begun[other].wait(PATIENCE)]
        assert not missed, f"{name} waited for {missed}"
        return name

    async def ameet(self, name: str, until: Iterable[str]) -> str:
        self._begun[name].set()
        async with asyncio.timeout(PATIENCE):
            for other in until:
                while not self._begun[other].is_set():
                    await asyncio.sleep(0.001)
        return name


def said(drive, tree: ag.Agent) -> set[str]:
    return {event.text for event in drive.run(ag.Runner(tree), "Go.")}


@KINDS
def test_fifty_branches_run_at_once(drive, asynchronous):
    meeting, names = Meeting(asynchronous=asynchronous), [f"a{i}" for i in range(50)]
    tree = ag.parallel("p", [meeting.agent(name, names) for name in names])
    assert said(drive, tree) == {*names}


@KINDS
def test_branches_do_not_wait_for_each_other_at_every_step(drive, asynchronous):
    meeting = Meeting(asynchronous=asynchronous)
    x = ag.sequential("x", [meeting.agent("a", ["d"]), meeting.agent("b")])
    y = ag.sequential("y", [meeting.agent("c"), meeting.agent("d", ["b"])])
    assert said(drive, ag.parallel("p", [x, y])) == {*"abcd"}


@KINDS
def test_the_steps_in_the_middle_of_a_diamond_run_at_once(drive, asynchronous):
    meeting = Meeting(asynchronous=asynchronous)
    tree = ag.workflow(
        "wf",
        [
            meeting.agent("a"),
            ag.step(meeting.agent("b", ["c"]), depends_on=["a"]),
            ag.step(meeting.agent("c", ["b"]), depends_on=["a"]),
            ag.step(meeting.agent("d"), depends_on=["b", "c"]),
        ],
    )
    assert said(drive, tree) == {*"abcd"}


@KINDS
def test_two_chains_of_steps_do_not_wait_for_each_other(drive, asynchronous):
    meeting = Meeting(asynchronous=asynchronous)
    waits_for = {"a1": ["b3"], "a2": [], "a3": [], "b1": [], "b2": [], "b3": ["a3"]}
    before = {name: [f"{name[0]}{int(name[1]) - 1}"] for name in waits_for if name[1] != "1"}
    steps = [
        ag.step(meeting.agent(name, others), depends_on=before.get(name, []))
        for name, others in waits_for.items()
    ]
    assert said(drive, ag.workflow("wf", steps)) == {*waits_for}


@KINDS
def test_twenty_steps_between_two_run_at_once(drive, asynchronous):
    meeting, middle = Meeting(asynchronous=asynchronous), [f"m{i}" for i in range(20)]
    tree = ag.workflow(
        "wf",
        [
            meeting.agent("first"),
            *(ag.step(meeting.agent(name, middle), depends_on=["first"]) for name in middle),
            ag.step(meeting.agent("last"), depends_on=middle),
        ],
    )
    assert said(drive, tree) == {"first", "last", *middle}


@KINDS
def test_the_steps_in_the_middle_of_a_plan_run_at_once(drive, asynchronous):
    meeting, waits_for = Meeting(asynchronous=asynchronous), {"b": ["c"], "c": ["b"]}
    depends_on = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    steps = [{"name": name, "task": name, "depends_on": each} for name, each in depends_on.items()]

    def executor(ctx) -> str:
        return meeting.meet(ctx.values["step"], waits_for.get(ctx.values["step"], ()))

    async def aexecutor(ctx) -> str:
        return await meeting.ameet(ctx.values["step"], waits_for.get(ctx.values["step"], ()))

    tree = ag.plan_execute(
        "pe",
        planner=ag.function_agent("planner", lambda ctx: json.dumps({"steps": steps})),
        executor=ag.function_agent("executor", aexecutor if asynchronous else executor),
        replanner=ag.function_agent("replanner", lambda ctx: json.dumps({"answer": "done"})),
        parallel=True,
    )
    assert {*"abcd"} <= said(drive, tree)

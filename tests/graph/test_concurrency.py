"""Branches, steps and items that may run at the same time do: each waits only for its dependencies."""

import asyncio
import json
import threading
from collections.abc import Iterable, Mapping, Sequence

import pytest
from helpers import Drive, says

import agentgraph as ag

PATIENCE = 30.0


class Meeting:
    """Where agents wait for each other; an agent fails if one that it waits for does not begin."""

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async
        self._begun: dict[str, threading.Event] = {}

    def begun(self, step: str) -> threading.Event:
        """Return the event that an agent has begun; many threads ask at once for one that is new."""
        return self._begun.setdefault(step, threading.Event())

    def agent(self, name: str, until: Iterable[str] = (), **others: Iterable[str]) -> ag.Agent:
        """Return an agent that ends when all that it names have begun.

        If there is a value `step`, the agent is that step, and `others` says for what it waits.
        """

        def fn(ctx: ag.Context) -> str:
            step = ctx.values.get("step", name)
            self.begun(step).set()
            missed = [each for each in waits(step) if not self.begun(each).wait(PATIENCE)]
            assert not missed, f"{step} waited for {missed}"
            return str(step)

        async def afn(ctx: ag.Context) -> str:
            step = ctx.values.get("step", name)
            self.begun(step).set()
            async with asyncio.timeout(PATIENCE):
                while not all(self.begun(each).is_set() for each in waits(step)):
                    await asyncio.sleep(0.001)
            return str(step)

        def waits(step: str) -> Iterable[str]:
            return until if step == name else others.get(step, ())

        return ag.function_agent(name, afn if self.is_async else fn)

    def steps(self, needs: Mapping[str, Sequence[str]], waits: Mapping[str, Sequence[str]]) -> ag.Agent:
        """Return a workflow of agents, each with those that it needs, and those that it waits for."""
        made = (self.agent(name, waits.get(name, ())) for name in needs)
        return ag.workflow("w", [ag.step(each, depends_on=needs[each.name]) for each in made])


@pytest.fixture(params=["in threads", "as coroutines"])
def meeting(request: pytest.FixtureRequest) -> Meeting:
    return Meeting(is_async=request.param == "as coroutines")


def said(drive: Drive, tree: ag.Agent) -> set[str]:
    return {event.text for event in drive.run(ag.Runner(tree), "Go.")}


def test_fifty_branches_run_at_once(drive: Drive, meeting: Meeting) -> None:
    names = [f"a{i}" for i in range(50)]
    assert said(drive, ag.parallel("p", [meeting.agent(name, names) for name in names])) == {*names}


def test_branches_do_not_wait_for_each_other_at_every_step(drive: Drive, meeting: Meeting) -> None:
    x = ag.sequential("x", [meeting.agent("a", ["d"]), meeting.agent("b")])
    y = ag.sequential("y", [meeting.agent("c"), meeting.agent("d", ["b"])])
    assert said(drive, ag.parallel("p", [x, y])) == {*"abcd"}


def test_chains_of_steps_do_not_wait_for_each_other(drive: Drive, meeting: Meeting) -> None:
    needs = {"a1": [], "a2": ["a1"], "a3": ["a2"], "b1": [], "b2": ["b1"], "b3": ["b2"]}
    tree = meeting.steps(needs, {"a1": ["b3"], "b3": ["a3"]})
    assert said(drive, tree) == {*needs}


def test_twenty_steps_between_two_run_at_once(drive: Drive, meeting: Meeting) -> None:
    middle = [f"m{i}" for i in range(20)]
    needs = {"first": [], **{name: ["first"] for name in middle}, "last": middle}
    assert said(drive, meeting.steps(needs, dict.fromkeys(middle, middle))) == {*needs}


def test_the_steps_in_the_middle_of_a_plan_run_at_once(drive: Drive, meeting: Meeting) -> None:
    needs = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    plan = {"steps": [{"name": n, "task": n, "depends_on": each} for n, each in needs.items()]}
    tree = ag.plan_execute(
        "pe",
        planner=says("planner", json.dumps(plan)),
        executor=meeting.agent("executor", b=["c"], c=["b"]),
        replanner=says("replanner", '{"answer": "done"}'),
        parallel=True,
    )
    assert said(drive, tree) >= {*"abcd"}

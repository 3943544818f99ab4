"""Branches, steps and items that may run at the same time do: each waits only for its dependencies."""

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest
from helpers import Drive

import agentgraph as ag

PATIENCE = 30.0


class Meeting:
    """Where agents wait for each other; an agent fails if one that it waits for does not begin."""

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async
        self._begun: dict[str, threading.Event] = defaultdict(threading.Event)

    def agent(self, name: str, until: Iterable[str] = ()) -> ag.Agent:
        """Return an agent that ends when all others that it names have begun."""
        return self.planned(name, {name: until})

    def planned(self, name: str, until: Mapping[str, Iterable[str]]) -> ag.Agent:
        """Return an agent that does one of several steps, by the value `step`, else by its name."""

        def fn(ctx: ag.Context) -> str:
            step = ctx.values.get("step", name)
            self._begun[step].set()
            missed = [each for each in until.get(step, ()) if not self._begun[each].wait(PATIENCE)]
            assert not missed, f"{step} waited for {missed}"
            return str(step)

        async def afn(ctx: ag.Context) -> str:
            step = ctx.values.get("step", name)
            self._begun[step].set()
            async with asyncio.timeout(PATIENCE):
                while not all(self._begun[each].is_set() for each in until.get(step, ())):
                    await asyncio.sleep(0.001)
            return str(step)

        return ag.function_agent(name, afn if self.is_async else fn)


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
    waits_for = {"a1": ["b3"], "a2": [], "a3": [], "b1": [], "b2": [], "b3": ["a3"]}
    before = {name: [f"{name[0]}{int(name[1]) - 1}"] for name in waits_for if name[1] != "1"}
    steps = [
        ag.step(meeting.agent(name, others), depends_on=before.get(name, []))
        for name, others in waits_for.items()
    ]
    assert said(drive, ag.workflow("w", steps)) == {*waits_for}


def test_twenty_steps_between_two_run_at_once(drive: Drive, meeting: Meeting) -> None:
    middle = [f"m{i}" for i in range(20)]
    steps = [
        meeting.agent("first"),
        *(ag.step(meeting.agent(name, middle), depends_on=["first"]) for name in middle),
        ag.step(meeting.agent("last"), depends_on=middle),
    ]
    assert said(drive, ag.workflow("w", steps)) == {"first", "last", *middle}


def test_the_steps_in_the_middle_of_a_plan_run_at_once(drive: Drive, meeting: Meeting) -> None:
    depends_on = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    steps = [{"name": name, "task": name, "depends_on": each} for name, each in depends_on.items()]
    tree = ag.plan_execute(
        "pe",
        planner=ag.function_agent("planner", lambda ctx: json.dumps({"steps": steps})),
        executor=meeting.planned("executor", {"b": ["c"], "c": ["b"]}),
        replanner=ag.function_agent("replanner", lambda ctx: json.dumps({"answer": "done"})),
        parallel=True,
    )
    assert {*"abcd"} <= said(drive, tree)

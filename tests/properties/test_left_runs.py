"""Random trees whose runs are left and resumed: all ends as in a run that is not left."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import specs
from comparison import addresses, expected_events, name_at, plain, settled, whole
from conversations import MOST_RESUMES, Case, Thread
from helpers import Drive, unvoided
from hypothesis import event, given
from lanes import Lane
from record import rendered
from test_spine import DRIVES, cases, share

import agentgraph as ag

MOST_LEAVES = 8
"""How often a run is left at most, so that it ends."""


def _leave_again_and_again(thread: Thread) -> None:
    """Run a turn to its end, closing it at random."""
    choices = thread.choices
    left: int | None = choices.randint(1, 12)  # one that is left before its first event has not begun
    events = thread.run("hello", left=left)
    for n in range(MOST_RESUMES):
        questions = thread.pending()
        if len(events) != left and not questions:
            event(f"left {min(n, 5)} times, {min(thread.record.cut.total(), 3)} calls cut")
            return
        left = choices.randint(0, 12) if n < MOST_LEAVES else None
        events = thread.answer_some(questions, left=left)
    raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")


def check_unbroken(thread: Thread, again: list[ag.AgentEvent], lane: Lane) -> None:
    """Compare what the thread gives and keeps, and what ran, with a run that was not left."""
    case, record, state = thread.case, thread.record, thread.state()
    lane.write(case.values)
    expected = [each for each in expected_events(case.tree, lane, "hello") if each.kept]
    assert [plain(each) for each in settled(again, expected)] == expected
    assert rendered(state["messages"]) == [said.message for said in lane.history]
    assert state["values"] == lane.values
    assert record.ran == lane.ran
    assert addresses(thread.passed, lane) == lane.visited
    assert record.noted >= lane.noted
    functions = {spec.name for spec in specs.walk(case.tree) if isinstance(spec, specs.Function)}
    ended = {at: sights for at, sights in record.saw.items() if name_at(at) in functions}
    assert ended == {at: sights for at, sights in lane.saw.items() if name_at(at) in functions}
    called = Counter({at: len(sights) for at, sights in record.saw.items()})
    assert called >= Counter({at: len(sights) for at, sights in lane.saw.items() if at in called})


def calmed(case: Case, *more: str) -> Case:
    """Return a case in which nothing fails: a model or a failing call that is cut short would count.

    Args:
        case: The case.
        more: What else no middleware does.
    """
    return replace(case, tree=_calm(case.tree, ("fail", *more)))


def _calm(spec: Any, without: Sequence[str]) -> Any:
    calm_one = partial(_calm, without=without)
    match spec:
        case specs.Chat():
            scripts = tuple(tuple(map(_without_errors, script)) for script in spec.scripts)
            agents = tuple((calm_one(agent), history) for agent, history in spec.agents)
            subs = tuple(map(calm_one, spec.sub_agents))
            stack = tuple(each for each in spec.middleware if each.does not in without)
            calm = {"fails": 0, "scripts": scripts, "agents": agents, "sub_agents": subs}
            return replace(spec, **calm, middleware=stack)
        case specs.Function():
            scripts = tuple(tuple(c for c in script if not c.fails) for script in spec.scripts)
            return replace(spec, scripts=scripts)
        case specs.Checked():
            return replace(spec, agent=calm_one(spec.agent))
        case specs.Switch():
            return replace(spec, sub_agents=tuple(map(calm_one, spec.sub_agents)), fails=0)
        case specs.Each():
            return replace(spec, agent=calm_one(spec.agent), fails=0)
        case specs.Flow():
            return replace(spec, agents=tuple((calm_one(agent), how) for agent, how in spec.agents))
        case specs.Workflow():
            return replace(spec, steps=tuple(replace(s, agent=calm_one(s.agent)) for s in spec.steps))
        case specs.Human():
            return spec
    return replace(spec, sub_agents=tuple(map(calm_one, spec.sub_agents)))


def _without_errors(calls: Iterable[specs.Does]) -> tuple[specs.Does, ...]:
    """Return the tool calls of a message without what fails in them."""
    return tuple((name, tuple(i for i in does if i[0] != "error")) for name, does in calls)


@share(0.2)
@given(cases().map(calmed), DRIVES)
def test_a_run_that_is_left_and_resumed_ends_as_if_it_was_not(case: Case, drive: Drive) -> None:
    thread = Thread(case, drive)
    _leave_again_and_again(thread)
    again = thread.events()
    assert unvoided(whole(thread.heard)) == again
    if again:
        check_unbroken(thread, again, Lane())

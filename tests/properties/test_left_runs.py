"""Random trees whose runs are left and resumed, held against the reference of a run that is not."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextlib import aclosing, closing
from dataclasses import replace
from itertools import islice
from typing import Any
from uuid import uuid4

import specs
from building import build, declared
from comparison import expected_events, name_at, plain, settled, whole
from conversations import MOST_RESUMES, Case, as_argument, some_of
from helpers import standing
from hypothesis import event, given
from lanes import Lane
from record import Record, rendered
from test_spine import cases, share

import agentgraph as ag

MOST_LEAVES = 8
"""How often a run is left at most, so that it ends."""

Request = tuple[str, tuple[Any, ...], dict[str, Any], int | None]
"""A method of a runner with its arguments, and behind how many events it is left."""
Talk = Generator[Request, Any, list[ag.AgentEvent]]
"""Gives the events of the thread in the end."""


def _talk(case: Case, record: Record) -> Talk:
    """Run a turn to its end, leaving it at random; return what the thread tells of it then.

    That is what the readers heard, each up to where it left, without what was void later.
    """
    choices, thread_id = random.Random(case.seed), str(uuid4())
    options: dict[str, Any] = {"stream": case.stream}
    left = choices.randint(1, 12)  # a run that is left before its first event may not have begun
    given = {"thread_id": thread_id, "values": case.values, **options}
    told = yield "run", ("hello",), given, left
    heard = [*told]
    for n in range(MOST_RESUMES):
        was_left = left is not None and len(told) == left
        questions = yield "pending", (thread_id,), {}, None
        if not was_left and not questions:
            event(f"left {min(n, 5)} times, {min(record.cut.total(), 3)} calls cut")
            again = list((yield "events", (thread_id,), {}, None))
            assert standing(whole(heard)) == again
            return again
        left = choices.randint(0, 12) if n < MOST_LEAVES else None
        answers = as_argument(some_of(questions, choices), questions, choices)
        told = yield "resume", (thread_id, *answers), options, left
        heard += told
    raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")


def _held(talk: Talk, runner: ag.Runner) -> list[ag.AgentEvent]:
    """Hold a conversation with sync methods; what they give is closed where it is left."""
    given: Any = None
    while True:
        try:
            method, arguments, options, left = talk.send(given)
        except StopIteration as end:
            return list(end.value)
        given = getattr(runner, method)(*arguments, **options)
        if method in ("run", "resume"):
            with closing(given) as events:
                given = list(islice(events, left))


async def _aheld(talk: Talk, runner: ag.Runner) -> list[ag.AgentEvent]:
    """Hold a conversation with async methods."""
    given: Any = None
    while True:
        try:
            method, arguments, options, left = talk.send(given)
        except StopIteration as end:
            return list(end.value)
        given = getattr(runner, f"a{method}")(*arguments, **options)
        if method == "pending":
            given = await given
        elif method == "events":
            given = [each async for each in given] if isinstance(given, AsyncIterator) else await given
        else:
            async with aclosing(given) as events:
                given = await _first(events, left)


async def _first(events: AsyncIterator[ag.AgentEvent], left: int | None) -> list[ag.AgentEvent]:
    told: list[ag.AgentEvent] = []
    while left is None or len(told) < left:
        if (one := await anext(events, None)) is None:
            break
        told.append(one)
    return told


def _check(case: Case, record: Record, again: list[ag.AgentEvent], state: dict[str, Any]) -> None:
    """Compare what the thread tells and keeps, and what ran, with a run that was not left."""
    lane = Lane()
    lane.write(case.values)
    expected = [each for each in expected_events(case.tree, lane, "hello") if each.kept]
    assert [plain(each) for each in settled(again, expected)] == expected
    assert rendered(state["messages"]) == [said.message for said in lane.history]
    assert state["values"] == lane.values
    assert record.ran == lane.ran
    assert record.noted >= lane.noted
    functions = {spec.name for spec in specs.walk(case.tree) if isinstance(spec, specs.Function)}
    ended = {at: sights for at, sights in record.saw.items() if name_at(at) in functions}
    assert ended == {at: sights for at, sights in lane.saw.items() if name_at(at) in functions}
    called = {at: len(sights) for at, sights in record.saw.items()}
    assert Counter(called) >= Counter(
        {at: len(sights) for at, sights in lane.saw.items() if at in called}
    )


def calmed(case: Case) -> Case:
    """Return a case in which nothing fails: a model or a failing call that is cut short would count."""
    return replace(case, tree=_calm(case.tree))


def _calm(spec: Any) -> Any:
    match spec:
        case specs.Chat():
            scripts = tuple(tuple(map(_without_errors, script)) for script in spec.scripts)
            agents = tuple((_calm(agent), history) for agent, history in spec.agents)
            subs = tuple(map(_calm, spec.sub_agents))
            stack = tuple(each for each in spec.middleware if each.does != "fail")
            calm = {"fails": 0, "scripts": scripts, "agents": agents, "sub_agents": subs}
            return replace(spec, **calm, middleware=stack)
        case specs.Function():
            scripts = tuple(tuple(c for c in script if not c.fails) for script in spec.scripts)
            return replace(spec, scripts=scripts)
        case specs.Checked():
            return replace(spec, agent=_calm(spec.agent))
        case specs.Workflow():
            return replace(spec, steps=tuple(replace(s, agent=_calm(s.agent)) for s in spec.steps))
        case specs.Human():
            return spec
    return replace(spec, sub_agents=tuple(map(_calm, spec.sub_agents)))


def _without_errors(calls: Iterable[specs.Does]) -> tuple[specs.Does, ...]:
    """Return the tool calls of a message without what fails in them."""
    return tuple((name, tuple(i for i in does if i[0] != "error")) for name, does in calls)


def _state(runner: ag.Runner, again: list[ag.AgentEvent]) -> dict[str, Any]:
    return dict(runner.graph.get_state({"configurable": {"thread_id": again[0].thread_id}}).values)


@share(0.04)
@given(cases().map(calmed))
def test_a_run_that_is_left_and_resumed_ends_as_if_it_was_not(case: Case) -> None:
    _try(case, _held)


@share(0.04)
@given(cases().map(calmed))
def test_an_async_run_that_is_left_and_resumed_ends_as_if_it_was_not(case: Case) -> None:
    _try(case, lambda talk, runner: asyncio.run(_aheld(talk, runner)))


def _try(case: Case, hold: Callable[[Talk, ag.Runner], list[ag.AgentEvent]]) -> None:
    record = Record()
    runner = ag.Runner(build(case.tree, record), values=declared(case.tree))
    again = hold(_talk(case, record), runner)
    if again:
        _check(case, record, again, _state(runner, again))

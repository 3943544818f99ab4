"""Random trees beside which several write undeclared values: conflicts are told, and settled."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import specs
from building import build, declared
from comparison import check
from conversations import Case, aheld, held, talk
from hypothesis import event, given
from hypothesis import strategies as st
from record import Record
from test_spine import cases, share

import agentgraph as ag

WRITTEN = ({"u": "1"}, {"u": "2"}, {"u": "@"}, {"u": "1", "w": "@"}, {"w": "1"})
"""What one may write; `@` stands for its address, which no other has."""

Wrap = Callable[[specs.Spec, list[dict[str, str]]], specs.Spec]


def _writer(name: str, values: dict[str, str], kind: Any = "function") -> specs.Function:
    return specs.Function(name, kind, ((specs.Call((("values", values),)),),))


def _branches(tree: specs.Spec, values: list[dict[str, str]]) -> specs.Spec:
    left = specs.Sequential("left", (tree, _writer("one", values[0], "async function")))
    return specs.Parallel("beside", (left, *_others(values)))


def _steps(tree: specs.Spec, values: list[dict[str, str]]) -> specs.Spec:
    """Return steps of which the last depends on the first, so that these two are not side by side."""
    left = specs.Sequential("left", (tree, _writer("one", values[0])))
    two, three = _others(values)
    return specs.Workflow("beside", (specs.Step(left), specs.Step(two), specs.Step(three, ("left",))))


def _others(values: list[dict[str, str]]) -> list[specs.Function]:
    return [_writer("two", values[1]), _writer("three", values[2], "async generator")]


def _calls(tree: specs.Spec, values: list[dict[str, str]], *, parallel: bool = True) -> specs.Spec:
    """Return a chat agent that calls a tool twice and an agent that writes, in one message."""
    does = tuple(("act", (("values", each),)) for each in values[:2])
    script = ((*does, ("three", ()), ("three", ())),)
    agents = ((_writer("three", values[2]), "input"),)
    chat = specs.Chat(
        "beside", scripts=(script,), tools=("act",), agents=agents, parallel_tools=parallel
    )
    return specs.Sequential("around", (tree, chat))


def _calls_in_order(tree: specs.Spec, values: list[dict[str, str]]) -> specs.Spec:
    return _calls(tree, values, parallel=False)


def _wrapped(case: Case, wrap: Wrap, values: list[dict[str, str]]) -> Case:
    """Return a case whose tree writes twice, and tells what it sees then."""
    reader = _writer("reader", {})
    return replace(case, tree=specs.Loop("twice", (wrap(case.tree, values), reader), 2))


wrapped = st.builds(
    _wrapped,
    cases(),
    st.sampled_from((_branches, _steps, _calls, _calls_in_order)),
    st.lists(st.sampled_from(WRITTEN), min_size=3, max_size=3),
)


def _check(case: Case, record: Record, heard: Any) -> None:
    """Compare all but the conflicts with a run that settled them, and these with what it settled."""
    told = [each for turn in heard.turns for each in turn.events if _is_conflict(each)]
    for turn in heard.turns:
        turn.events = [each for each in turn.events if not _is_conflict(each)]
    heard.replayed = [each for each in heard.replayed if not _is_conflict(each)]
    lane = check(case, record, heard)
    assert [each.address for each in told] == lane.conflicts
    event(f"{len(told)} conflicts")


def _is_conflict(event: ag.AgentEvent) -> bool:
    return bool(event.error and event.error.startswith("ValueConflictError"))


@share(0.03)
@given(wrapped)
def test_undeclared_values_written_side_by_side_conflict_until_settled(case: Case) -> None:
    record = Record()
    runner = ag.Runner(build(case.tree, record), values=declared(case.tree))
    _check(case, record, held(talk(case), lambda: nullcontext(runner)))


@share(0.03)
@given(wrapped)
def test_undeclared_values_written_side_by_side_conflict_until_settled_async(case: Case) -> None:
    record = Record()
    runner = ag.Runner(build(case.tree, record), values=declared(case.tree))
    _check(case, record, asyncio.run(aheld(talk(case), lambda: nullcontext(runner))))

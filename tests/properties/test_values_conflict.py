"""Random trees beside which several write undeclared values: conflicts are reported, and settled."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import specs
from comparison import check
from conversations import Case, Thread, hold
from helpers import Drive
from hypothesis import event, given
from hypothesis import strategies as st
from test_spine import DRIVES, cases, share

import agentgraph as ag

WRITTEN = ({"u": "1"}, {"u": "2"}, {"u": "@"}, {"u": "1", "w": "@"}, {"w": "1"})
"""What one may write; `@` stands for its address, which no other has."""

Values = list[dict[str, str]]
Wrap = Callable[[specs.Spec, Values], specs.Spec]


def _writer(name: str, values: dict[str, str], kind: Any = "function") -> specs.Function:
    return specs.Function(name, kind, ((specs.Call((("values", values),)),),))


def _branches(tree: specs.Spec, values: Values) -> specs.Spec:
    left = specs.Sequential("left", (tree, _writer("one", values[0], "async function")))
    return specs.Parallel("beside", (left, *_others(values)))


def _steps(tree: specs.Spec, values: Values) -> specs.Spec:
    """Return steps of which the last depends on the first, so that these two are not side by side."""
    left = specs.Sequential("left", (tree, _writer("one", values[0])))
    two, three = _others(values)
    return specs.Workflow("beside", (specs.Step(left), specs.Step(two), specs.Step(three, ("left",))))


def _others(values: Values) -> list[specs.Function]:
    return [_writer("two", values[1]), _writer("three", values[2], "async generator")]


def _calls(tree: specs.Spec, values: Values, *, parallel: bool = True) -> specs.Spec:
    """Return a chat agent that calls a tool twice and an agent that writes, in one message."""
    does = tuple(("act", (("values", each),)) for each in values[:2])
    agents = ((_writer("three", values[2]), "input"),)
    script = ((*does, ("three", ()), ("three", ())),)
    chat = specs.Chat(
        "beside", scripts=(script,), tools=("act",), agents=agents, parallel_tools=parallel
    )
    return specs.Sequential("outer", (tree, chat))


def _calls_in_order(tree: specs.Spec, values: Values) -> specs.Spec:
    return _calls(tree, values, parallel=False)


def _is_conflict(event: ag.AgentEvent) -> bool:
    return bool(event.error and event.error.startswith("ValueConflictError"))


WRAPS = st.sampled_from((_branches, _steps, _calls, _calls_in_order))


@share(0.08)
@given(cases(), WRAPS, st.lists(st.sampled_from(WRITTEN), min_size=3, max_size=3), DRIVES)
def test_undeclared_values_written_side_by_side_conflict_until_settled(
    case: Case, wrap: Wrap, values: Values, drive: Drive
) -> None:
    """The tree writes twice, and a reader sees what was settled."""
    tree = specs.Loop("twice", (wrap(case.tree, values), _writer("reader", {})), 2)
    thread = Thread(replace(case, tree=tree), drive)
    hold(thread)
    lane = check(thread, ignored=_is_conflict)
    conflicts = [each.address for each in thread.heard if _is_conflict(each)]
    assert conflicts == lane.conflicts
    event(f"{len(conflicts)} conflicts")

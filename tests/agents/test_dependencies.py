"""Steps that depend on steps: their faults, and the order in which they can run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgraph.agents.dependencies import dependency_faults, in_order, upstream

DIAMOND = {"d": ["b", "c"], "c": ["a"], "b": ["a"], "a": []}
CIRCLE = "the steps {} wait for each other; take one 'depends_on' out"
UNKNOWN = "the step '{}' depends on '{}', which is not a step; choose one of: 'a', 'b'"


@pytest.mark.parametrize(
    ("depends_on", "faults"),
    [
        (DIAMOND, []),
        ({"a": ["a"]}, [CIRCLE.format("'a' -> 'a'")]),
        ({"x": [], "a": ["b"], "b": ["c"], "c": ["a"]}, [CIRCLE.format("'a' -> 'b' -> 'c' -> 'a'")]),
        ({"a": [], "b": ["a", "y"]}, [UNKNOWN.format("b", "y")]),
        (
            {"a": ["a", "x"], "b": ["y"]},
            [UNKNOWN.format("a", "x"), UNKNOWN.format("b", "y"), CIRCLE.format("'a' -> 'a'")],
        ),
    ],
)
def test_all_faults_are_found(depends_on: dict[str, list[str]], faults: list[str]) -> None:
    assert list(dependency_faults(list(depends_on), depends_on)) == faults


def test_a_name_of_several_steps_is_a_fault() -> None:
    assert list(dependency_faults(["a", "b", "a"], {"a": [], "b": ["a"]})) == [
        "2 steps are named 'a'; give each its own name"
    ]


def test_dependencies_come_first_and_otherwise_the_declared_order() -> None:
    assert in_order(DIAMOND) == ["a", "b", "c", "d"]
    assert in_order({"z": ["b"], "a": [], "b": ["c"], "c": []}) == ["c", "b", "z", "a"]
    chain = {f"s{i}": [f"s{i + 1}"] if i < 4999 else [] for i in range(5000)}
    assert in_order(chain) == [*chain][::-1]


def test_upstream_is_all_that_must_be_done_before() -> None:
    assert [upstream(DIAMOND, name) for name in "dba"] == [{"a", "b", "c"}, {"a"}, set()]
    assert upstream({"a": ["b"], "b": ["a", "x"]}, "a") == {"a", "b", "x"}


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Draw steps without circles, in an order that is not the one in which they can run."""
    count = draw(st.integers(1, 8))
    needs = [draw(st.sets(st.integers(0, n - 1))) if n else set() for n in range(count)]
    order = draw(st.permutations(range(count)))
    return {f"s{n}": sorted(f"s{each}" for each in needs[n]) for n in order}


@given(graphs(), st.data())
def test_each_step_comes_once_and_after_all_upstream_and_a_circle_is_a_fault(
    depends_on: dict[str, list[str]], data: st.DataObject
) -> None:
    order = in_order(depends_on)
    assert sorted(order) == sorted(depends_on)
    for name in order:
        assert upstream(depends_on, name) <= set(order[: order.index(name)])
    assert list(dependency_faults(order, depends_on)) == []
    last = data.draw(st.sampled_from(sorted(depends_on)))
    first = data.draw(st.sampled_from(sorted({last, *upstream(depends_on, last)})))
    closed = {**depends_on, first: [*depends_on[first], last]}
    assert len(list(dependency_faults(list(closed), closed))) == 1

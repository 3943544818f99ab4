"""Steps that depend on steps: their faults, and the order in which they can run."""

from hypothesis import given
from hypothesis import strategies as st

from agentgraph.agents.dependencies import dependency_faults, in_order, upstream

DIAMOND = {"d": ["b", "c"], "c": ["a"], "b": ["a"], "a": []}


def faults(**depends_on: list[str]) -> list[str]:
    return list(dependency_faults(list(depends_on), depends_on))


def test_steps_without_faults_have_none():
    assert faults(**DIAMOND) == []


def test_a_step_that_waits_for_itself():
    assert faults(a=["a"]) == ["the steps 'a' -> 'a' wait for each other; take one 'depends_on' out"]


def test_three_steps_that_wait_for_each_other_are_told_in_the_order_of_the_waiting():
    assert faults(x=[], a=["b"], b=["c"], c=["a"]) == [
        "the steps 'a' -> 'b' -> 'c' -> 'a' wait for each other; take one 'depends_on' out"
    ]


def test_a_name_that_is_no_step():
    assert faults(a=[], b=["a", "y"]) == [
        "the step 'b' depends on 'y', which is not a step; there are: 'a', 'b'"
    ]


def test_a_name_that_several_steps_have():
    assert list(dependency_faults(["a", "b", "a", "a"], {"a": [], "b": ["a"]})) == [
        "3 steps are named 'a'; give each a name of its own"
    ]


def test_all_faults_are_told_at_once():
    assert faults(a=["a", "x"], b=["y"]) == [
        "the step 'a' depends on 'x', which is not a step; there are: 'a', 'b'",
        "the step 'b' depends on 'y', which is not a step; there are: 'a', 'b'",
        "the steps 'a' -> 'a' wait for each other; take one 'depends_on' out",
    ]


def test_what_is_depended_on_comes_first_and_else_the_declared_order():
    assert in_order(DIAMOND) == ["a", "b", "c", "d"]
    assert in_order({"a": [], "b": [], "c": []}) == ["a", "b", "c"]
    assert in_order({"z": ["b"], "a": [], "b": ["c"], "c": []}) == ["c", "b", "z", "a"]


def test_a_chain_of_any_length_is_put_in_order() -> None:
    chain = {f"s{i}": [f"s{i + 1}"] if i < 4999 else [] for i in range(5000)}
    assert in_order(chain) == [*chain][::-1]


def test_upstream_is_all_that_must_be_done_before():
    assert upstream(DIAMOND, "d") == {"a", "b", "c"}
    assert upstream(DIAMOND, "b") == {"a"}
    assert upstream(DIAMOND, "a") == set()


def test_upstream_of_steps_that_wait_for_each_other_ends():
    assert upstream({"a": ["b"], "b": ["a", "x"]}, "a") == {"a", "b", "x"}


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Draw steps without circles, in an order that is not the one in which they can run."""
    count = draw(st.integers(1, 8))
    needs = [draw(st.sets(st.integers(0, n - 1))) if n else set() for n in range(count)]
    order = draw(st.permutations(range(count)))
    return {f"s{n}": sorted(f"s{each}" for each in needs[n]) for n in order}


@given(graphs())
def test_every_order_has_each_step_once_and_behind_all_that_are_upstream(depends_on):
    order = in_order(depends_on)
    assert sorted(order) == sorted(depends_on)
    for name in order:
        assert upstream(depends_on, name) <= set(order[: order.index(name)])
    assert list(dependency_faults(list(depends_on), depends_on)) == []


@given(graphs(), st.data())
def test_a_dependency_that_closes_a_circle_is_always_told(depends_on, data):
    last = data.draw(st.sampled_from(sorted(depends_on)))
    first = data.draw(st.sampled_from(sorted({last, *upstream(depends_on, last)})))
    closed = {**depends_on, first: [*depends_on[first], last]}
    assert len(list(dependency_faults(list(closed), closed))) == 1

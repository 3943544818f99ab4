"""Run paths: immutable sequences that share their beginnings."""

import copy
import pickle
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgraph import RunPath, RunStep

steps = st.builds(RunStep, st.sampled_from("abc"), st.none() | st.integers(0, 2))
several_steps = st.lists(steps, max_size=60).map(tuple)


def path_of(names: str) -> RunPath:
    return RunPath(RunStep(name) for name in names)


def path_of_length(length: int) -> RunPath:
    return RunPath(RunStep("a", i) for i in range(length))


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of the module `work` runs: its cost, on any machine."""
    lines = 0

    def count(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count if frame.f_globals["__name__"] == RunPath.__module__ else None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def bytes_of(make: Callable[[], object]) -> int:
    """Return how much memory is held by what `make` returns."""
    tracemalloc.start()
    try:
        made = make()
        held, _ = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return held


def test_a_path_without_steps_is_empty():
    path = RunPath()
    assert (len(path), tuple(path), path.names, str(path), bool(path)) == (0, (), (), "", False)


def test_append_returns_a_path_with_one_more_step():
    path = RunPath().append(RunStep("report")).append(RunStep("writer", 2))
    assert tuple(path) == (RunStep("report"), RunStep("writer", 2))


def test_append_leaves_the_path_that_it_is_called_on_as_it_was():
    path = path_of("ab")
    path.append(RunStep("c"))
    assert path.names == ("a", "b")


def test_two_paths_can_grow_from_one():
    trunk = path_of("ab")
    left, right = trunk.append(RunStep("c")), trunk.append(RunStep("d"))
    assert (left.names, right.names) == (("a", "b", "c"), ("a", "b", "d"))


def test_names_and_text_tell_the_agents_from_first_to_last():
    path = RunPath([RunStep("report"), RunStep("writer", 0), RunStep("refine", 1)])
    assert path.names == ("report", "writer", "refine")
    assert str(path) == "report/writer/refine"
    assert repr(path) == "RunPath('report/writer/refine')"


def test_the_iteration_of_a_step_is_none_unless_told():
    assert RunStep("writer") == RunStep("writer", None)
    assert RunStep("writer") != RunStep("writer", 0)


def test_a_path_can_be_made_from_another_path():
    assert RunPath(path_of("abc")) == path_of("abc")


@given(several_steps)
def test_a_path_has_the_length_and_the_order_of_its_steps(these):
    path = RunPath(these)
    assert len(path) == len(these)
    assert tuple(path) == these
    assert tuple(reversed(path)) == these[::-1]
    assert path.names == tuple(step.agent_name for step in these)
    assert bool(path) is bool(these)


@given(several_steps, st.integers(-70, 70))
def test_an_index_finds_what_it_finds_in_a_tuple(these, index):
    path = RunPath(these)
    if -len(these) <= index < len(these):
        assert path[index] == these[index]
    else:
        with pytest.raises(IndexError):
            path[index]


@given(several_steps, st.slices(60))
def test_a_slice_is_the_path_of_that_slice_of_a_tuple(these, part):
    sliced = RunPath(these)[part]
    assert isinstance(sliced, RunPath)
    assert tuple(sliced) == these[part]
    assert sliced == RunPath(these[part])


@given(several_steps, steps)
def test_a_path_finds_and_counts_steps_as_a_tuple_does(these, step):
    path = RunPath(these)
    assert (step in path) == (step in these)
    assert path.count(step) == these.count(step)
    if step in these:
        assert path.index(step) == these.index(step)


def test_an_index_out_of_range_is_refused():
    with pytest.raises(IndexError) as refused:
        path_of("ab")[2]
    assert str(refused.value) == "a run path of 2 steps has no step 2"
    with pytest.raises(IndexError) as refused:
        path_of("ab")[-3]
    assert str(refused.value) == "a run path of 2 steps has no step -3"


@given(several_steps, several_steps)
def test_paths_are_equal_as_tuples_are_however_they_were_built(these, those):
    grown = RunPath()
    for step in those:
        grown = grown.append(RunStep(step.agent_name, step.iteration))
    assert (RunPath(these) == grown) == (these == those)
    assert RunPath(those) == grown
    assert hash(RunPath(those)) == hash(grown)


def test_paths_built_apart_are_one_key():
    assert len({path_of("abc"), path_of("ab").append(RunStep("c")), RunPath(list(path_of("abc")))}) == 1


def test_a_step_tells_paths_apart_by_name_iteration_and_place():
    several = [
        RunPath(),
        path_of("a"),
        path_of("aa"),
        path_of("ab"),
        path_of("ba"),
        RunPath([RunStep("a", 0)]),
        RunPath([RunStep("a", 1)]),
        RunPath([RunStep("a/b")]),
    ]
    assert len(set(several)) == len(several)


def test_a_path_equals_no_tuple_and_no_text():
    path = path_of("ab")
    assert path != tuple(path)
    assert path != path.names
    assert path != "a/b"


@given(several_steps, several_steps, st.integers(0, 60))
def test_starts_with_says_what_it_says_of_tuples(these, those, length):
    path = RunPath(these)
    assert path.starts_with(RunPath(those)) == (these[: len(those)] == those)
    assert path.starts_with(RunPath(these[:length]))
    grown = RunPath((*these[:length], *those))
    assert grown.starts_with(path) == ((*these[:length], *those)[: len(these)] == these)


def test_starts_with_compares_steps_and_never_names_by_prefix():
    assert not RunPath([RunStep("writer2")]).starts_with(RunPath([RunStep("writer")]))
    assert not RunPath([RunStep("a", 1)]).starts_with(RunPath([RunStep("a", 0)]))
    assert not path_of("abc").starts_with(path_of("b"))
    assert not path_of("ab").starts_with(path_of("abc"))


def test_a_path_cannot_be_changed():
    path = path_of("ab")
    with pytest.raises(TypeError):
        path[0] = RunStep("c")
    with pytest.raises(TypeError):
        del path[0]
    with pytest.raises(AttributeError):
        path.names = ("c",)
    with pytest.raises(AttributeError):
        path.note = "mine"
    with pytest.raises(AttributeError):
        path[0].agent_name = "c"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_is_the_path_itself(copied):
    path = path_of("abc")
    assert copied(path) is path
    assert copied([path])[0] is path


@given(several_steps)
def test_a_path_comes_back_from_pickle(these):
    path = RunPath(these)
    again = pickle.loads(pickle.dumps(path))
    assert again == path
    assert hash(again) == hash(path)
    assert tuple(again) == these


def test_paths_that_are_pickled_together_are_equal_afterwards():
    trunk = path_of("ab")
    again = pickle.loads(pickle.dumps([trunk, trunk.append(RunStep("c"))]))
    assert again[1].starts_with(again[0])


def test_a_path_of_50_000_steps_is_pickled_copied_compared_and_dropped_without_recursion():
    path = path_of_length(50_000)
    again = pickle.loads(pickle.dumps(path))
    assert again == path
    assert copy.deepcopy(path) == path
    assert copy.copy(path) == path
    assert len(path.names) == len(str(path).split("/")) == 50_000
    assert path[25_000] == RunStep("a", 25_000)
    del path, again


def test_appending_costs_the_same_at_any_length():
    path, costs = RunPath(), []
    for i in range(2_000):
        step = RunStep("a", i)
        costs.append(lines_run(lambda path=path, step=step: path.append(step)))
        path = path.append(step)
    assert len(set(costs)) == 1


def test_testing_a_prefix_does_not_cost_the_length():
    def cost(length: int) -> int:
        path = path_of_length(length)
        prefixes = [path_of_length(length * percent // 100) for percent in (0, 7, 53)]
        return max(lines_run(lambda prefix=prefix: path.starts_with(prefix)) for prefix in prefixes)

    assert cost(100_000) < 5 * cost(1_000)


def test_an_index_does_not_cost_the_length():
    def cost(length: int) -> int:
        path = path_of_length(length)
        return max(lines_run(lambda i=i: path[i]) for i in range(0, length, length // 100))

    assert cost(100_000) < 5 * cost(1_000)


def test_the_paths_of_all_events_of_a_run_take_memory_by_the_step():
    def all_paths(length: int) -> Callable[[], object]:
        def make() -> list[RunPath]:
            paths = [RunPath()]
            for i in range(length):
                paths.append(paths[-1].append(RunStep("a", i)))
            return paths

        return make

    assert bytes_of(all_paths(10_000)) / 10_000 < 1.3 * bytes_of(all_paths(1_000)) / 1_000

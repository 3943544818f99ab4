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


@given(several_steps, steps, st.integers(-70, 70), st.slices(60))
def test_a_path_does_what_a_tuple_of_its_steps_does(
    these: tuple[RunStep, ...], step: RunStep, index: int, part: slice
) -> None:
    path = RunPath(these)
    assert (len(path), bool(path), tuple(path), tuple(reversed(path))) == (
        len(these),
        bool(these),
        these,
        these[::-1],
    )
    assert path.names == tuple(step.agent_name for step in these)
    assert (step in path, path.count(step)) == (step in these, these.count(step))
    if step in these:
        assert path.index(step) == these.index(step)
    if -len(these) <= index < len(these):
        assert path[index] == these[index]
    else:
        with pytest.raises(IndexError) as refused:
            path[index]
        assert str(refused.value) == f"a run path of {len(these)} steps has no step {index}"
    assert path[part] == RunPath(these[part])
    assert RunPath(path) == copy.copy(path) == pickle.loads(pickle.dumps(path)) == path


@given(several_steps, several_steps)
def test_paths_are_equal_as_tuples_are_however_they_were_built(
    these: tuple[RunStep, ...], those: tuple[RunStep, ...]
) -> None:
    grown = RunPath()
    for step in those:
        grown = grown.append(RunStep(step.agent_name, step.iteration))
    assert (RunPath(these) == grown) == (these == those)
    assert RunPath(those) == grown
    assert hash(RunPath(those)) == hash(pickle.loads(pickle.dumps(grown))) == hash(grown)


@given(several_steps, several_steps, st.integers(0, 60))
def test_starts_with_says_what_it_says_of_tuples(
    these: tuple[RunStep, ...], those: tuple[RunStep, ...], length: int
) -> None:
    path, grown = RunPath(these), (*these[:length], *those)
    assert path.starts_with(RunPath(those)) == (these[: len(those)] == those)
    assert path.starts_with(RunPath(these[:length]))
    assert RunPath(grown).starts_with(path) == (grown[: len(these)] == these)


def test_two_paths_can_grow_from_one() -> None:
    trunk = path_of("ab")
    left, right = trunk.append(RunStep("c")), trunk.append(RunStep("d", 2))
    assert [tuple(path) for path in (trunk, left, right)] == [
        (RunStep("a"), RunStep("b")),
        (RunStep("a"), RunStep("b"), RunStep("c", None)),
        (RunStep("a"), RunStep("b"), RunStep("d", 2)),
    ]


def test_a_path_shows_as_the_names_of_its_agents() -> None:
    path = RunPath([RunStep("report"), RunStep("writer", 0)])
    assert (str(path), repr(path)) == ("report/writer", "RunPath('report/writer')")
    assert (str(RunPath()), repr(RunPath())) == ("", "RunPath('')")


def test_paths_differ_by_name_iteration_and_place_and_equal_nothing_else() -> None:
    of_step = [RunPath([RunStep("a", iteration)]) for iteration in (0, 1)]
    several = [RunPath(), *map(path_of, ("a", "aa", "ab", "ba")), *of_step, RunPath([RunStep("a/b")])]
    assert len(set(several)) == len(several)
    assert not [path for path in several if path in (tuple(path), path.names, str(path))]
    assert not RunPath([RunStep("writer2")]).starts_with(RunPath([RunStep("writer")]))


def test_a_path_cannot_be_changed() -> None:
    path: Any = path_of("ab")
    with pytest.raises(TypeError):
        path[0] = RunStep("c")
    with pytest.raises(TypeError):
        del path[0]
    for attribute in ("names", "note"):
        with pytest.raises(AttributeError):
            setattr(path, attribute, ())
    with pytest.raises(AttributeError):
        path[0].agent_name = "c"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_is_the_path_itself(copied: Callable[[Any], Any]) -> None:
    path = path_of("abc")
    assert copied(path) is path
    assert copied([path])[0] is path


def test_a_long_path_is_pickled_compared_and_dropped_without_recursion() -> None:
    length = 10 * sys.getrecursionlimit()
    path = path_of_length(length)
    again = pickle.loads(pickle.dumps(path))
    assert again == path
    assert len(str(path).split("/")) == length
    del path, again


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


def test_appending_costs_the_same_at_any_length() -> None:
    path, costs = RunPath(), set()
    for number in range(2_000):
        step = RunStep("a", number)
        costs.add(lines_run(lambda path=path, step=step: path.append(step)))
        path = path.append(step)
    assert len(costs) == 1


def test_an_index_and_a_prefix_cost_the_logarithm_of_the_length() -> None:
    def cost(length: int) -> int:
        path = path_of_length(length)
        prefixes = [path_of_length(length * percent // 100) for percent in (0, 7, 53)]
        works: list[Callable[[], object]] = [
            *(lambda i=i: path[i] for i in range(0, length, length // 100)),
            *(lambda prefix=prefix: path.starts_with(prefix) for prefix in prefixes),
        ]
        return max(map(lines_run, works))

    assert cost(20_000) < 3 * cost(500)


def test_the_paths_of_all_events_of_a_run_take_memory_by_the_step() -> None:
    def bytes_by_step(length: int) -> float:
        tracemalloc.start()
        try:
            paths = [RunPath()]
            for number in range(length):
                paths.append(paths[-1].append(RunStep("a", number)))
            return tracemalloc.get_traced_memory()[0] / length
        finally:
            tracemalloc.stop()

    assert bytes_by_step(10_000) < 1.3 * bytes_by_step(1_000)

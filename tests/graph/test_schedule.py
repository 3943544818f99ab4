"""When lanes may begin, told with plain futures: gates that open, and what the lanes come to."""

from concurrent.futures import Future

import pytest
from langgraph.errors import GraphDrained, GraphInterrupt
from langgraph.types import Interrupt

from agentgraph.graph.failures import Failure, asked_beside, failures, mark_failure
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.stopping import Stop

CLOCK = iter(range(1_000_000))


def done(**what):
    future = Future()
    result = {"messages": [], "values": {}, "signal": None, "finished": next(CLOCK)}
    future.set_result({**result, **what})
    return future


def raised(error):
    future = Future()
    future.set_exception(error)
    return future


def failed(text="no", at="p/a"):
    error = ValueError(text)
    mark_failure(error, at, at.rpartition("/")[2])
    return raised(error)


def asked(*ids):
    return raised(GraphInterrupt([Interrupt(value="?", id=each) for each in ids]))


def cancelled():
    future = Future()
    future.cancel()
    return future


def schedule(*needs, **options):
    made = Schedule(needs, Stop(), **options)
    made.note({})
    return made


def state(made):
    """Return a word for each gate: open, shut, or ended."""
    words = {True: "ended", False: "open"}
    return [words[gate.exception() is not None] if gate.done() else "shut" for gate in made.gates]


def test_lanes_that_need_nothing_begin_at_once():
    assert state(schedule((), ())) == ["open", "open"]


def test_a_lane_begins_when_all_that_it_needs_is_done_and_no_later():
    made = schedule((), (), (0,), (0, 1))
    assert state(made) == ["open", "open", "shut", "shut"]
    made.note({0: done()})
    assert state(made) == ["open", "open", "open", "shut"]
    made.note({1: done()})
    assert state(made) == ["open"] * 4


def test_a_lane_does_not_begin_behind_one_that_asks_while_the_others_go_on():
    made = schedule((), (), (0,), (1,))
    made.note({0: asked("q")})
    assert state(made) == ["open", "open", "shut", "shut"]
    made.note({1: done()})
    assert state(made) == ["open", "open", "shut", "open"]


def test_when_nothing_runs_any_more_the_others_end_in_a_way_that_a_resume_calls_them_again():
    made = schedule((), (0,))
    made.note({0: asked("q")})
    assert state(made) == ["open", "ended"]
    assert isinstance(made.gates[1].exception(), GraphDrained)
    made.note({1: raised(made.gates[1].exception())})
    with pytest.raises(GraphInterrupt) as caught:
        made.finished()
    assert [one.id for one in caught.value.args[0]] == ["q"]


def test_at_most_so_many_run_at_once_in_declared_order():
    made = schedule((), (), (), at_once=1)
    assert state(made) == ["open", "shut", "shut"]
    made.note({0: done()})
    assert state(made) == ["open", "open", "shut"]
    made.note({1: done()})
    assert state(made) == ["open", "open", "open"]


def test_one_that_asks_leaves_its_place_to_the_next():
    made = schedule((), (), at_once=1)
    made.note({0: asked("q")})
    assert state(made) == ["open", "open"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_results_stand_in_declared_order_whatever_ended_first(order):
    made = schedule((), (), ())
    for number in order:
        made.note({number: done(values={"n": number})})
    assert [result["values"]["n"] for result in made.finished().values()] == [0, 1, 2]


def test_results_that_a_resume_finds_again_open_what_needs_them():
    made = Schedule([(), (0,), (1,)], Stop())
    made.note({0: done(), 1: done()})
    assert state(made) == ["open"] * 3
    made.note({2: done()})
    assert list(made.finished()) == [0, 1, 2]


def test_one_that_fails_stops_the_others_and_is_raised():
    made = schedule((), (), (0,))
    made.note({0: failed()})
    assert made.control.drain_requested
    assert state(made) == ["open", "open", "shut"]
    made.note({1: raised(GraphDrained("stopped"))})
    assert state(made) == ["open", "open", "ended"]
    made.note({2: raised(GraphDrained("not begun"))})
    with pytest.raises(ValueError, match="no"):
        made.finished()


def test_with_wait_the_others_are_not_stopped():
    made = schedule((), (), on_error="wait")
    made.note({0: failed()})
    assert not made.control.drain_requested
    made.note({1: done()})
    with pytest.raises(ValueError, match="no"):
        made.finished()


def test_with_wait_in_steps_none_begins_any_more():
    made = schedule((), (), (1,), on_error="wait", in_steps=True)
    made.note({0: failed()})
    assert state(made) == ["open", "open", "ended"]
    assert not made.control.drain_requested


@pytest.mark.parametrize("on_error", ["fail", "wait"])
def test_all_failures_are_told_with_the_first_of_the_order_and_the_questions_beside(on_error):
    made = schedule((), (), (), on_error=on_error)
    made.note({2: failed("late", "p/c"), 0: failed("early", "p/a"), 1: asked("q")})
    with pytest.raises(ValueError, match="early") as caught:
        made.finished()
    assert failures(caught.value) == [
        Failure("p/a", "ValueError('early')"),
        Failure("p/c", "ValueError('late')"),
    ]
    assert [one.id for one in asked_beside(caught.value)] == ["q"]


def test_failures_that_are_results_do_not_stop_what_collects():
    made = schedule((), (), on_error="collect")
    made.note({0: done(failed="ValueError('no')")})
    assert not made.control.drain_requested
    made.note({1: done()})
    assert [result.get("failed") for result in made.finished().values()] == ["ValueError('no')", None]


def test_a_failure_that_is_a_result_stops_the_steps_too_and_those_not_begun_are_not_missed():
    made = schedule((), (), (0,), in_steps=True)
    made.note({0: done(failed="ValueError('no')")})
    assert made.control.drain_requested
    assert state(made) == ["open", "open", "ended"]
    made.note({1: raised(GraphDrained("stopped")), 2: raised(made.gates[2].exception())})
    assert list(made.finished()) == [0]


def test_a_question_beside_a_failure_that_is_final_is_not_asked_any_more():
    made = schedule((), (), in_steps=True, is_final=True)
    held = made.hold(1)
    made.note({0: done(failed="ValueError('no')")})
    made.note({1: raised(held.exception())})
    assert list(made.finished()) == [0]


def test_where_the_others_are_awaited_a_question_beside_a_final_failure_is_asked_first():
    made = schedule((), (), on_error="wait", in_steps=True)
    made.note({1: asked("q"), 0: done(failed="ValueError('no')")})
    with pytest.raises(GraphInterrupt):
        made.finished()


@pytest.mark.parametrize("signal", ["exit", "break_loop"])
def test_behind_a_signal_running_steps_finish_and_no_other_begins(signal):
    made = schedule((), (), (0,), (1,), in_steps=True)
    made.note({0: done(signal=signal)})
    assert state(made) == ["open", "open", "ended", "ended"]
    assert not made.control.drain_requested
    made.note({1: done(), **{n: raised(made.gates[n].exception()) for n in (2, 3)}})
    assert list(made.finished()) == [0, 1]


def test_behind_a_signal_all_branches_of_a_parallel_begin():
    made = schedule((), (), at_once=1)
    made.note({0: done(signal="exit")})
    assert state(made) == ["open", "open"]


def test_the_first_success_decides_and_the_others_are_stopped():
    made = schedule((), (), (), on_error="first")
    made.note({0: failed()})
    assert not made.is_decided
    made.note({2: done(values={"n": 2})})
    assert made.is_decided
    assert made.control.drain_requested
    made.note({1: cancelled()})
    assert list(made.finished()) == [2]
    assert made.failures() == [Failure("p/a", "ValueError('no')")]


def test_of_two_successes_that_a_resume_finds_the_one_that_ended_first_stands():
    made = schedule((), (), on_error="first")
    early, late = done(), done()
    made.note({0: late, 1: early})
    assert list(made.finished()) == [1]


def test_those_not_begun_do_not_begin_behind_the_first_success():
    made = schedule((), (), on_error="first", at_once=1)
    made.note({0: done()})
    assert state(made) == ["open", "ended"]
    made.note({1: raised(made.gates[1].exception())})
    assert list(made.finished()) == [0]


def test_the_next_begins_where_one_failed_and_one_runs_at_a_time():
    made = schedule((), (), on_error="first", at_once=1)
    made.note({0: failed()})
    assert state(made) == ["open", "open"]
    made.note({1: done()})
    assert list(made.finished()) == [1]


def test_where_all_fail_that_might_be_first_all_failures_are_raised_as_one():
    made = schedule((), (), on_error="first")
    made.note({0: failed("a", "p/a")})
    made.note({1: failed("b", "p/b")})
    with pytest.raises(ValueError, match="a") as caught:
        made.finished()
    assert failures(caught.value) == [
        Failure("p/a", "ValueError('a')"),
        Failure("p/b", "ValueError('b')"),
    ]


def test_one_that_asks_may_still_be_first_where_the_others_failed():
    made = schedule((), (), on_error="first")
    made.note({0: failed(), 1: asked("q")})
    with pytest.raises(GraphInterrupt):
        made.finished()


def test_a_run_that_is_stopped_from_outside_leaves_no_gate_shut_and_says_so():
    made = schedule((), (), (0, 1))
    made.control.request_drain("the run was left")
    made.note({0: done()})
    assert state(made) == ["open", "open", "shut"]
    made.note({1: raised(GraphDrained("left"))})
    assert state(made) == ["open", "open", "ended"]
    made.note({2: raised(made.gates[2].exception())})
    with pytest.raises(GraphDrained, match="left"):
        made.finished()


def test_closing_twice_changes_nothing():
    made = schedule((), (0,))
    made.close()
    made.close()
    assert state(made) == ["open", "ended"]


def test_one_question_of_several_lanes_is_asked_once():
    made = schedule((), ())
    made.note({0: asked("q", "r"), 1: asked("q")})
    with pytest.raises(GraphInterrupt) as caught:
        made.finished()
    assert [one.id for one in caught.value.args[0]] == ["q", "r"]


def test_a_lane_that_had_begun_before_another_one_ended_all_begins_again():
    made = Schedule([(), ()], Stop(), in_steps=True)
    made.note({0: done(signal="exit")})
    assert state(made) == ["open", "open"]


def test_a_lane_that_could_begin_only_behind_the_end_of_all_does_not():
    made = Schedule([(), (), (1,)], Stop(), in_steps=True)
    made.note({0: done(signal="exit"), 1: done()})
    assert state(made) == ["open", "open", "ended"]


def test_with_first_a_question_is_held_until_it_is_known_whether_it_is_needed():
    made = schedule((), (), on_error="first")
    held = made.hold(0)
    assert made.wake.done()
    made.note({})
    assert not held.done()
    made.note({1: done()})
    assert isinstance(held.exception(), GraphDrained)


def test_with_first_a_question_is_asked_when_nothing_else_runs():
    made = schedule((), (), on_error="first")
    held = made.hold(0)
    made.note({1: failed()})
    assert held.done()
    assert held.exception() is None


def test_with_first_a_question_that_comes_too_late_is_not_asked():
    made = schedule((), (), on_error="first")
    made.note({1: done()})
    held = made.hold(0)
    made.note({})
    assert isinstance(held.exception(), GraphDrained)


def test_else_a_question_is_not_held():
    assert schedule((), ()).hold(0).done()


def test_where_a_failure_is_final_a_resume_begins_nothing_again():
    made = Schedule([(), ()], Stop(), in_steps=True, is_final=True)
    made.note({1: done(failed="ValueError('no')")})
    assert state(made)[0] == "ended"

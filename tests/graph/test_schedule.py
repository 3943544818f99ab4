"""When lanes begin, and how they end: the scheduler with plain futures.

The first line of a case says for each lane which lanes it needs (`-` for none), in parentheses how the
schedule was made, and the state at the start (none for a resume, where results come at once). Each
other line says how lanes ended, and the state after that; the last one is the outcome. The state has a
word for each gate (open, shut, or ended: the lane does not run), and `stop` if running lanes are being
stopped.
"""

import json
from concurrent.futures import Future
from typing import Any

import pytest
from langgraph.errors import GraphDrained, GraphInterrupt
from langgraph.types import Interrupt

from agentgraph.graph.failures import asked_beside, failures, mark_failure
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.stopping import Stop

CASES = """
lanes that need nothing begin at once
    - -: open open
    0 done, 1 done: open open
    results 0 1

a lane begins when all that it needs is done
    - - 0 0,1 0,0: open open shut shut shut
    0 done: open open open shut open
    1 done: open open open open open
    2 done, 4 done, 3 done: open open open open open
    results 0 1 2 3 4

lanes that need one that asks do not begin, and the others continue
    - - 0 1: open open shut shut
    0 asks q: open open shut shut
    1 done: open open shut open
    3 done: open open ended open
    2 left: open open ended open
    asks q

at most so many run at once, in declared order
    - - - (1 at once): open shut shut
    0 done: open open shut
    1 asks q: open open open
    2 done: open open open
    asks q

a ready lane of a lower number begins first
    - - 0 - (2 at once): open open shut shut
    0 done: open open open shut
    1 done: open open open open
    2 done, 3 done: open open open open
    results 0 1 2 3

saved results of a resume open what needs them
    - 0 1:
    0 done, 1 done: open open open
    2 done: open open open
    results 0 1 2

a lane that had begun before an exit begins again
    - - (steps):
    0 exit: open open
    1 done: open open
    results 0 1

a lane that could begin only after an exit does not begin
    - - 1 (steps):
    0 exit, 1 done: open open ended
    2 left: open open ended
    results 0 1

a failure stops the others and is raised
    - - 0: open open shut
    0 fails: open open shut stop
    1 left: open open ended stop
    2 left: open open ended stop
    raises 0

with wait, the others are not stopped
    - - (wait): open open
    0 fails: open open
    1 done: open open
    raises 0

with wait, no other step begins
    - - 1 (wait, steps): open open shut
    0 fails: open open ended
    1 done, 2 left: open open ended
    raises 0

all failures are raised with the first of the order, and the questions
    - - -: open open open
    2 fails, 0 fails, 1 asks q: open open open stop
    raises 0 2 and asks q

with wait, too
    - - - (wait): open open open
    2 fails, 0 fails, 1 asks q: open open open
    raises 0 2 and asks q

an error that is not an Exception comes before others and stops all, whatever on_error is
    - - - (first): open open open
    0 fails: open open open
    1 exits the process: open open open stop
    2 done: open open open stop
    raises 1 0

a failure that is a saved result does not stop a parallel that collects
    - - (collect): open open
    0 saved failure: open open
    1 done: open open
    results 0 1

a failure that is a saved result stops steps, and those that did not begin are not missed
    - - 0 (steps): open open shut
    0 saved failure: open open ended stop
    1 left, 2 left: open open ended stop
    results 0

a resume after a final failure begins nothing
    - - (steps, final):
    1 saved failure: ended shut stop
    0 left: ended shut stop
    results 1

a resume records a final failure before results that ended earlier
    - - 0 (steps, final):
    0 done, 1 saved failure: ended shut ended stop
    2 left: ended shut ended stop
    results 0 1

with wait, a question is asked before a saved failure ends the workflow
    - - (wait, steps): open open
    1 asks q, 0 saved failure: open open
    asks q

after a signal running steps finish, and no other begins
    - - 0 1 (steps): open open shut shut
    0 break_loop: open open ended ended
    1 done, 2 left, 3 left: open open ended ended
    results 0 1

after a signal all branches of a parallel begin
    - - (1 at once): open shut
    0 exit: open open
    1 done: open open
    results 0 1

the first success decides, and the others are stopped
    - - - (first): open open open
    0 fails: open open open
    2 done: open open open stop
    1 cancelled: open open open stop
    results 2

of two saved successes the earlier one decides
    - - (first):
    1 done, 0 done: open open stop
    results 1

with one at a time, the next begins after a failure, and none after the first success
    - - - (first, 1 at once): open shut shut
    0 fails: open open shut
    1 done: open open ended stop
    2 left: open open ended stop
    results 1

if none is first, all failures are raised as one
    - - (first): open open
    1 fails: open open
    0 fails: open open
    raises 0 1

a lane that asks may still be first, if the others failed
    - - (first): open open
    0 fails, 1 asks q: open open
    asks q

a run that is stopped from outside ends all gates
    - - 0,1: open open shut
    0 done: open open shut
    1 left: open open ended
    2 left: open open ended
    is drained

a cancelled lane is drained
    - 0: open shut
    0 cancelled: open ended
    1 left: open ended
    is drained

one question of several lanes is asked once
    - -: open open
    0 asks q r, 1 asks q: open open
    asks q r
"""

CLOCK = iter(range(1_000_000))


def ended(number: int, how: str) -> Future[Any]:
    """Return the future of a lane that ended."""
    future: Future[Any] = Future()
    match how.split():
        case ["cancelled"]:
            future.cancel()
        case ["left"]:
            future.set_exception(GraphDrained("left"))
        case ["asks", *ids]:
            future.set_exception(GraphInterrupt([Interrupt(value="?", id=each) for each in ids]))
        case ["fails"] | ["exits", *_]:
            error = SystemExit(1) if how.startswith("exits") else ValueError("no")
            future.set_exception(mark_failure(error, f"p/{number}", str(number)))
        case [*_, kind]:
            result = {
                "signal": kind if kind in ("exit", "break_loop") else None,
                "finished": next(CLOCK),
            }
            future.set_result(result | ({"failed": "no"} if kind == "failure" else {}))
    return future


def state(schedule: Schedule) -> str:
    def word(gate: Future[None]) -> str:
        return "shut" if not gate.done() else "ended" if gate.exception() else "open"

    stop = ["stop"] * schedule.control.drain_requested
    return " ".join([*map(word, schedule.gates), *stop])


def outcome(schedule: Schedule) -> str:
    try:
        return " ".join(["results", *map(str, schedule.finished())])
    except GraphDrained:
        return "is drained"
    except GraphInterrupt as paused:
        return " ".join(["asks", *(one.id for one in paused.args[0])])
    except BaseException as error:
        raised = ["raises", *(each.address.removeprefix("p/") for each in failures(error))]
        asked = ["and asks", *(one.id for one in asked_beside(error))]
        return " ".join([*raised, *(asked if len(asked) > 1 else [])])


def made(head: str) -> Schedule:
    """Return the schedule that the first line of a case describes, without the state."""
    lanes, _, options = head.partition(" (")
    needs = [[int(n) for n in each.split(",") if n != "-"] for each in lanes.split()]
    words = options.removesuffix(")").split(", ")
    return Schedule(
        needs,
        Stop(),
        on_error=next((each for each in ("wait", "collect", "first") if each in words), "fail"),
        in_steps="steps" in words,
        is_final="final" in words,
        at_once=next((int(each[0]) for each in words if each.endswith("at once")), None),
    )


@pytest.mark.parametrize("case", CASES.strip().split("\n\n"), ids=lambda case: case.split("\n")[0])
def test_a_schedule(case: str) -> None:
    _, first, *changes, wanted = map(str.strip, case.split("\n"))
    head, _, start = first.partition(":")
    schedule = made(head)
    if start:
        schedule.record({})
        assert state(schedule) == start.strip()
    for change in changes:
        told, _, after = change.partition(": ")
        lanes = [each.split(" ", 1) for each in told.split(", ")]
        schedule.record({int(number): ended(int(number), how) for number, how in lanes})
        assert (told, state(schedule)) == (told, after)
    assert outcome(schedule) == wanted


def test_lanes_that_wait_at_their_gates_are_ended_once() -> None:
    schedule = made("- 0")
    assert schedule.arrive(1) is schedule.gates[1]
    assert [each.done() for each in schedule.arrived] == [False, True]
    schedule.record({})
    schedule.close()
    schedule.close()
    assert state(schedule) == "open ended"


class TestAQuestion:
    def test_is_not_held_unless_another_lane_may_decide(self) -> None:
        assert made("- -").hold(0).done()
        assert made("- - (wait, final)").hold(0).done()

    @pytest.mark.parametrize(
        ("options", "other", "is_asked"),
        [("first", "done", False), ("first", "fails", True), ("steps, final", "saved failure", False)],
        ids=["the other wins", "the other fails", "the other fails for good"],
    )
    def test_is_held_until_it_is_known_to_be_needed(
        self, options: str, other: str, is_asked: bool
    ) -> None:
        schedule = made(f"- - ({options})")
        schedule.record({})
        held = schedule.hold(0)
        assert schedule.wake.done()
        schedule.record({})
        assert not schedule.wake.done()
        assert not held.done()
        schedule.record({1: ended(1, other)})
        assert (held.exception() is None) is is_asked
        if not is_asked:
            schedule.record({0: ended(0, "left")})
            assert outcome(schedule) == "results 1"

    def test_that_comes_too_late_is_not_asked(self) -> None:
        schedule = made("- - (first)")
        schedule.record({1: ended(1, "done")})
        held = schedule.hold(0)
        schedule.record({})
        assert isinstance(held.exception(), GraphDrained)

    def test_is_asked_when_held_lanes_take_all_the_threads_that_others_need(self) -> None:
        schedule = made("- - (first)")
        calls = schedule.steps(slots=1)
        assert next(calls) == 0
        calls.send(Future())
        held = schedule.hold(0)
        schedule.record({})
        assert held.result() is None


def test_steps_call_those_with_saved_results_and_as_many_others_as_may_wait() -> None:
    """The order of calls, and what the node waits for: its own numbers, whatever ends first."""
    schedule = made("- - 0 1 (1 at once)")
    saved, running = ended(0, "done"), [Future() for _ in range(4)]
    called: list[Any] = []
    futures: dict[int, Future[Any]] = {0: saved, 1: running[1], 2: running[2], 3: running[3]}
    calls = schedule.steps()
    step = next(calls)
    for _ in range(20):
        if isinstance(step, int):
            called.append(step)
            step = calls.send(futures[step])
            continue
        called.append(f"waits for {len(step)}")
        pending = next(n for n in called if isinstance(n, int) and not futures[n].done())
        futures[pending].set_result({"signal": None, "finished": next(CLOCK)})
        try:
            step = next(calls)
        except StopIteration:
            break
    assert json.dumps(called) == '[0, 1, "waits for 1", 2, "waits for 1", 3, "waits for 1"]'
    assert outcome(schedule) == "results 0 1 2 3"

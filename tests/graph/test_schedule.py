"""When lanes begin, and how they end: the scheduler with plain futures."""

from concurrent.futures import Future
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langgraph.errors import GraphDrained, GraphInterrupt
from langgraph.types import Interrupt

from agentgraph.graph.failures import concurrent_questions, failures, mark_failure
from agentgraph.graph.nodes.concurrency import Room
from agentgraph.graph.nodes.desk import Desk
from agentgraph.graph.nodes.parking import Parked
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.stopping import Stop

CASES = Path(__file__).with_name("schedules.txt").read_text().strip().split("\n\n")[2:]
CLOCK = count()


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
        case ["parks", *ids]:
            future.set_exception(Parked([Interrupt(value="?", id=each) for each in ids]))
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


def word(gate: Future[None]) -> str:
    return "shut" if not gate.done() else "ended" if gate.exception() else "open"


def state(schedule: Schedule) -> str:
    lanes = map(word, schedule.gates)
    stop = ["stop"] * schedule.control.drain_requested
    return " ".join([*lanes, *stop, *["wakes"] * schedule.wake.done()])


def outcome(schedule: Schedule) -> str:
    try:
        return " ".join(["results", *map(str, schedule.finished())])
    except GraphDrained:
        return "is drained"
    except GraphInterrupt as paused:
        return " ".join(["asks", *(one.id for one in paused.args[0])])
    except BaseException as error:
        raised = ["raises", *(each.address.removeprefix("p/") for each in failures(error))]
        asked = ["and asks", *(one.id for one in concurrent_questions(error))]
        return " ".join([*raised, *(asked if len(asked) > 1 else [])])


def made(head: str) -> Schedule:
    """Return the schedule that the first line of a case describes, without the state."""
    lanes, _, options = head.partition(" (")
    needs = [[int(n) for n in each.split(",") if n != "-"] for each in lanes.split()]
    words = options.removesuffix(")").split(", ")
    control = Stop()
    control.desk = Desk()
    control.desk.open(())
    return Schedule(
        needs,
        control,
        on_error=next((each for each in ("wait", "collect", "first") if each in words), "fail"),
        in_steps="steps" in words,
        is_final="final" in words,
        is_over="over" in words,
        at_once=next((int(each[0]) for each in words if each.endswith("at once")), 32),
    )


def desk_of(schedule: Schedule) -> Desk:
    assert schedule.control.desk is not None
    return schedule.control.desk


def answer(desk: Desk, what: str, question: str) -> None:
    match what:
        case "claimed":
            assert desk.claim([question])
        case "answered":
            desk.deliver([question])
        case "released":
            desk.release([question])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.split("\n")[0])
def test_a_schedule(case: str) -> None:
    _, first, *changes, wanted = map(str.strip, case.split("\n"))
    head, _, start = first.partition(":")
    schedule, checks = made(head), ExitStack()
    if start:
        schedule.record({})
        assert state(schedule) == start.strip()
    for change in changes:
        acts, _, after = change.partition(": ")
        lanes = {int(each[0]): each[2:] for each in acts.split(", ") if each[0].isdigit()}
        match acts.split():
            case ["claimed" | "answered" | "released" as what, question]:
                answer(desk_of(schedule), what, question)
            case ["checking"]:
                checks.enter_context(desk_of(schedule).reading())
            case ["checked"]:
                checks.close()
            case _:
                schedule.record({number: ended(number, how) for number, how in lanes.items()})
        assert (acts, state(schedule)) == (acts, after)
    assert outcome(schedule) == wanted


def test_lanes_that_wait_at_their_gates_are_ended_once() -> None:
    schedule = made("- 0")
    assert schedule.arrive(1) is schedule.gates[1]
    assert [each.done() for each in schedule.arrived] == [False, True]
    schedule.record({})
    schedule.close()
    schedule.close()
    assert state(schedule) == "open ended"


def test_a_node_calls_lanes_with_saved_results_and_as_many_others_as_may_run_and_waits_for_these() -> (
    None
):
    schedule = made("- - 0 1 (1 at once)")
    futures: list[Future[Any]] = [ended(0, "done"), *(Future() for _ in range(3))]
    acts: list[Any] = []
    calls = schedule.steps(Room(32))
    step = next(calls)
    while len(acts) < 20:
        acts.append(step if isinstance(step, int) else "waits")
        if isinstance(step, int):
            step = calls.send(futures[step])
            continue
        running = next(n for n in acts if isinstance(n, int) and not futures[n].done())
        futures[running].set_result({"signal": None, "finished": next(CLOCK)})
        try:
            step = next(calls)
        except StopIteration:
            break
    assert acts == [0, 1, "waits", 2, "waits", 3, "waits"]
    assert outcome(schedule) == "results 0 1 2 3"


def test_a_run_takes_no_answer_before_it_has_begun_and_after_it_has_ended() -> None:
    """A run that begins with answers has its thread for itself before its desk knows of them."""
    desk = Desk()
    assert desk.claim(["q"]) is None
    desk.open(["q"])
    assert (desk.claim(["q"]), desk.claim(["r"])) == (None, {"r": True})
    desk.close()
    assert desk.claim(["s"]) is None

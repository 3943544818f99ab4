"""Branches of which the first accepted one wins: `parallel(on_error="first", accept=...)`."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deciding_process import tree as deciding
from helpers import (
    THREAD,
    Async,
    Drive,
    asks,
    failing,
    fails,
    fresh,
    lines,
    says,
    unvoided,
)
from helpers.commands import Commands, wait_until

import agentgraph as ag

PROGRAM = Path(__file__).with_name("deciding_process.py")
PATIENCE = 20


def either(accept: Callable[..., Any], *branches: ag.Agent) -> ag.Agent:
    return ag.parallel("p", branches, on_error="first", accept=accept)


def after(event: threading.Event, name: str, text: str) -> ag.Agent:
    """Return an agent that says something once an event is set; async runs call it in a thread."""

    def fn(ctx: ag.Context) -> str:
        assert event.wait(PATIENCE)
        return text

    return ag.function_agent(name, fn)


def is_good(reply: ag.Reply) -> bool:
    return "good" in reply


async def is_good_later(reply: ag.Reply) -> bool:
    await asyncio.sleep(0)
    return "good" in reply


def test_the_first_accepted_reply_wins(drive: Drive, tmp_path: Path) -> None:
    judged = threading.Event()

    def accept(reply: ag.Reply) -> bool:
        judged.set()
        return is_good(reply)

    tree = ag.sequential("s", [either(accept, says("a", "bad"), after(judged, "b", "good")), says("c")])
    events = fresh(drive, tmp_path / "threads.db", tree, "run", "Go.", thread_id="t")
    assert lines(unvoided(events)) == ["s/p/b: good", "s/c: c"]
    again = fresh(drive, tmp_path / "threads.db", tree, "events", "t")
    assert lines(again) == ["s/p/b: good", "s/c: c"]
    assert judged.is_set()


def test_an_async_function_is_awaited() -> None:
    tree = either(is_good_later, says("a", "bad"), says("b", "good"))
    result = asyncio.run(ag.Runner(tree).ainvoke("Go."))
    assert result.text == "good"


def test_replies_are_judged_one_after_the_other_as_they_end(drive: Drive) -> None:
    seen: list[str] = []
    running = threading.Lock()
    steps = {"a": threading.Event(), "b": threading.Event()}

    def accept(reply: ag.Reply) -> bool:
        with running:
            seen.append(reply)
        steps.get(reply, threading.Event()).set()
        return reply == "c"

    branches = [after(steps["b"], "c", "c"), after(steps["a"], "b", "b"), says("a"), fails("d")]
    runner = ag.Runner(either(accept, *branches))
    [*drive.run(runner, "Go.", thread_id="t")]
    assert seen == ["a", "b", "c"]
    assert runner.result("t").text == "c"


def test_the_reply_has_what_the_branch_said_and_wrote(drive: Drive) -> None:
    replies: list[ag.Reply] = []

    def accept(reply: ag.Reply) -> bool:
        replies.append(reply)
        reply.values["x"].append(2)
        reply.messages[0].content = "changed"
        return True

    branch = ag.function_agent("a", lambda ctx: ["one", ag.SetValues(x=[1]), "two"], output_key="y")
    runner = ag.Runner(either(accept, branch))
    [*drive.run(runner, "Go.", thread_id="t")]
    (reply,) = replies
    assert (reply, reply.data, len(reply.messages)) == ("two", "two", 2)
    assert runner.thread("t").values == {"x": [1], "y": "two"}
    assert [each.text for each in runner.events("t") if each.kind == "message"] == ["one", "two"]


def test_a_rejected_reply_is_retracted_before_the_others_end(drive: Drive) -> None:
    over = threading.Event()
    tree = either(is_good, says("a", "bad"), after(over, "b", "good"))
    for event in drive.run(ag.Runner(tree), "Go.", thread_id="t"):
        if event.kind == "discarded":
            over.set()
    assert over.is_set()


def test_nobody_else_sees_a_rejected_reply(drive: Drive) -> None:
    seen: list[str] = []

    def look(ctx: ag.Context) -> None:
        seen.extend(message.text for message in ctx.messages)

    worker = ag.function_agent("a", lambda ctx: ["bad", ag.SetValues(x=1), ag.Exit(cancel=True)])
    rejected = threading.Event()

    def accept(reply: ag.Reply) -> bool:
        rejected.set()
        return is_good(reply)

    tree = ag.sequential(
        "s", [either(accept, worker, after(rejected, "b", "good")), ag.function_agent("look", look)]
    )
    runner = ag.Runner(tree)
    [*drive.run(runner, "Go.", thread_id="t")]
    assert (len(seen), "bad" in " ".join(seen), runner.thread("t").values) == (2, False, {})


def test_none_accepted_is_an_error_with_all_replies(drive: Drive) -> None:
    asked: list[str] = []

    def accept(reply: ag.Reply) -> bool:
        asked.append(reply)
        return False

    runner = ag.Runner(either(accept, says("a", "one"), fails("b", times=1), says("c", "two")))
    events, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.NoneAcceptedError)
    assert isinstance(error, ag.NoneAcceptedError)
    assert (error.address, error.replies) == ("p", {"a": "one", "c": "two"})
    assert error.errors == {"b": "ValueError('b failed, time 1')"}
    assert [each.address for each in unvoided(events)] == ["p/b", "p"]
    assert runner.thread("t").status == "failed"
    events, _ = failing(drive.resume(runner, "t"), ag.NoneAcceptedError)
    assert sorted(asked) == ["b", "one", "two"]  # only what failed ran and was judged again


def test_if_all_failed_it_is_the_first_failure(drive: Drive) -> None:
    asked = list[str]()
    runner = ag.Runner(either(asked.append, fails("a"), fails("b")))
    _, error = failing(drive.run(runner, "Go."), ValueError)
    assert (str(error), asked) == ("a failed, time 1", [])


def test_a_branch_whose_reply_cannot_be_judged_has_failed(drive: Drive) -> None:
    def accept(reply: ag.Reply) -> bool:
        if reply == "odd":
            raise KeyError(reply)
        return True

    runner = ag.Runner(either(accept, says("a", "odd"), says("b", "even")))
    [*drive.run(runner, "Go.", thread_id="t")]
    assert runner.result("t").text == "even"
    _, error = failing(drive.run(ag.Runner(either(accept, says("a", "odd"))), "Go."), KeyError)
    assert "It was `accept` of the agent 'p' that failed." in error.__notes__


def test_a_branch_that_waits_for_a_person_is_neither(drive: Drive) -> None:
    runner = ag.Runner(either(is_good, says("a", "bad"), asks("b", "Well?")))
    [*drive.run(runner, "Go.", thread_id="t")]
    assert [each.address for each in runner.pending("t")] == ["p/b"]
    assert lines(drive.resume(runner, "t", "good")) == ["p/b: good"]
    assert runner.thread("t").status == "done"


@pytest.mark.parametrize("on_error", ["fail", "wait", "collect"])
def test_it_needs_on_error_first(on_error: Any) -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.Runner(ag.parallel("p", [says("a")], on_error=on_error, accept=is_good))
    assert f"p: accept= needs on_error='first', but on_error={on_error!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("accept", "fault"),
    [
        (True, "p: accept=True is not a function; pass one that takes a reply"),
        (lambda: True, "it takes one argument, a Reply"),
    ],
)
def test_what_cannot_be_asked_is_a_fault(accept: Any, fault: str) -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.Runner(either(accept, says("a")))
    assert fault in str(caught.value)


def test_a_new_turn_after_none_was_accepted_does_not_see_them(drive: Drive) -> None:
    runner = ag.Runner(either(is_good, says("a", "bad", "bad"), says("b", "bad")))
    failing(drive.run(runner, "Go.", thread_id="t"), ag.NoneAcceptedError)
    failing(drive.run(runner, "Again.", thread_id="t"), ag.NoneAcceptedError)
    assert [each.text for each in runner.graph.get_state(THREAD).values["messages"]] == [
        "Go.",
        "Again.",
    ]


@pytest.mark.parametrize("saves", [4, 6, 7, 8, 9, 11])
def test_a_verdict_outlives_its_process(
    drive: Drive, program: Commands, tmp_path: Path, saves: int
) -> None:
    ledger, mode = tmp_path / "ledger", "async" if drive is Async else "sync"
    program.start(str(PROGRAM), str(tmp_path), "accepted", mode, str(saves)).wait()
    before = ledger.read_text().split()
    tree = deciding("accepted", ledger)
    fresh(drive, tmp_path / "threads.db", tree, "resume", "t")
    again = ledger.read_text().split()[len(before) :]
    events = fresh(drive, tmp_path / "threads.db", tree, "events", "t")
    assert [each.text for each in events if each.kind == "message"] == ["b", "last"]
    if "judged_b" in before and "b" not in again:  # the verdict was saved
        assert not {"c1", "c2", "a", "judged_a", "judged_b"} & {*again}


class Halt(BaseException):
    """An exception that is not an `Exception`."""


@pytest.mark.parametrize("error", [ValueError, Halt])
def test_what_is_told_is_told_again_where_a_judge_fails(
    drive: Drive, tmp_path: Path, error: type[BaseException]
) -> None:
    faults = [error("cannot judge")]

    def accept(reply: ag.Reply) -> bool:
        if faults and reply == "good a":
            raise faults.pop()
        return is_good(reply)

    tree = ag.sequential("s", [either(accept, says("a", "good a"), says("b", "bad")), says("last")])
    with ag.Runner(tree, checkpointer=tmp_path / "t.db") as runner:
        heard: list[ag.AgentEvent] = []
        with pytest.raises((error, ag.NoneAcceptedError)):
            heard.extend(drive.run(runner, "Go.", thread_id="t"))
        heard += drive.resume(runner, "t")
        assert unvoided(heard) == list(runner.events("t"))
        assert runner.result("t").text == "last"


def test_a_run_that_is_left_has_no_verdict_on_those_that_have_not_begun(tmp_path: Path) -> None:
    judging, may_judge = threading.Event(), threading.Event()

    def accept(reply: ag.Reply) -> bool:
        judging.set()
        assert may_judge.wait(PATIENCE)
        return is_good(reply)

    branches = [says("a", "bad"), says("b", "good")]
    tree = ag.parallel("p", branches, on_error="first", accept=accept, max_concurrency=1)
    with ag.Runner(tree, checkpointer=tmp_path / "t.db") as runner:
        run: Any = runner.run("Go.", thread_id="t")
        heard = [next(run)]
        assert judging.wait(PATIENCE)
        closing = threading.Thread(target=run.close)
        closing.start()
        wait_until(lambda: run._execution.is_closed)
        may_judge.set()
        closing.join(PATIENCE)
        heard += runner.resume("t")
        assert "error" not in {each.kind for each in heard}
        assert unvoided(heard) == list(runner.events("t"))
        assert runner.result("t").text == "good"

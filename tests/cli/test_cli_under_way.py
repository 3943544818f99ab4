"""Runs that are stopped and steered from elsewhere, and commands that find a thread busy."""

import threading
import time
from typing import Literal

import pytest
from cli_agents import REFUSED, STOPPED
from helpers.commands import PATIENCE, Commands, Running, wait_until

import agentgraph as ag
from agentgraph.threads.live import watcher

pytestmark = pytest.mark.usefixtures("agents")


def hanging(command: Commands) -> Running:
    """Return a run of which a branch runs on until the file `go` exists."""
    running = command.start("run", "agents.py:hanging", "bees", "--thread", "t")
    wait_until((command.folder / "hanging").exists)
    running.said("pair/other: two\n")
    return running


@pytest.fixture
def runner(command: Commands) -> ag.Runner:
    """Return a runner of this process for the file of the commands."""
    return ag.Runner(ag.human("any", "?"), checkpointer=command.folder / "agentgraph.db")


def test_a_run_is_stopped_by_another_process(command: Commands, runner: ag.Runner) -> None:
    running = hanging(command)
    with runner:
        runner.stop("t")
        time.sleep(4 * watcher.SECONDS)  # the run looks that often at what is wanted of it
    (command.folder / "go").touch()
    stopped = running.wait()
    assert (stopped.code, stopped.lines[-1]) == (STOPPED, "hanging/pair/hanger: went on")
    assert stopped.err.splitlines()[-1].startswith("Stopped. Resume: ")
    assert command.follow(stopped.continue_command).lines == ["hanging/last: three"]


def test_a_thread_at_rest_is_not_stopped_and_keeps_what_is_sent(command: Commands) -> None:
    command("run", "agents.py:chat", "go", "--thread", "t", "--values", '{"topic": "bees"}')
    assert command("stop", "agents.py:chat", "t").lines == [
        "Nothing runs on thread t in agentgraph.db."
    ]
    sent = command("steer", "agents.py:chat", "t", "And ants?")
    assert sent.lines == ["Sent to the next run on thread t in agentgraph.db."]
    assert "Queued: And ants?" in command("show", "agents.py:chat", "t").lines
    command("run", "agents.py:chat", "Well?", "--thread", "t", "--values", '{"topic": "bees"}')
    shown = command("show", "agents.py:chat", "t").lines
    assert shown.index("user: And ants?") < shown.index("user: Well?")
    for name, *more in (("stop",), ("steer", "Hm.")):
        refused = command(name, "agents.py:chat", "nobody", *more)
        assert refused.code == REFUSED
        assert "thread 'nobody' is not known to this saver" in refused.err


def test_a_run_continues_with_the_answer_of_another_process(command: Commands) -> None:
    may_end = threading.Event()
    hanger = ag.function_agent("hanger", lambda ctx: f"went on: {may_end.wait(PATIENCE)}")
    boss = ag.human("boss", "Print it?", response_schema=Literal["yes", "no"], output_key="word")
    desk = ag.sequential("desk", [boss, ag.function_agent("last", lambda ctx: "three")])
    tree = ag.parallel("deciding", [hanger, desk])
    with ag.Runner(tree, checkpointer=command.folder / "agentgraph.db") as runner:
        runner.start("bees", thread_id="t")
        wait_until(lambda: runner.pending("t"))
        answered = command("answer", "agents.py:deciding", "t", "yes")
        assert (answered.code, answered.lines) == (
            0,
            ["Answered: the run on thread t in agentgraph.db continues."],
        )
        assert "three" in (each.text for each in runner.follow("t"))
        may_end.set()
        assert runner.wait("t") == "done"


def test_a_run_waits_for_a_busy_thread(command: Commands) -> None:
    db = command.folder / "agentgraph.db"
    tree = ag.function_agent("echo", lambda ctx: ctx.messages[-1].text)
    with ag.Runner(tree, checkpointer=db) as mine:
        busy = mine.run("first", thread_id="t")
        refused = command("run", "agents.py:echo", "second", "--thread", "t")
        assert refused.code == REFUSED
        assert "is busy" in refused.err
        options = ("--thread", "t", "--while-running", "queue")
        waiting = command.start("run", "agents.py:echo", "second", *options)
        wait_until(lambda: [each.text for each in mine.thread("t").queued] == ["second"])
        assert [event.text for event in busy] == ["first"]
        assert waiting.wait().lines == ["echo: second"]
        assert [[m.text for m in turn.messages] for turn in mine.thread("t").turns] == [
            ["first"],
            ["second"],
        ]

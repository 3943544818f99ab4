"""`agentgraph advance`: a turn as far as it goes, and all threads whose runs died."""

import json
import signal

import pytest
from cli_agents import FAILED, PAUSED, REFUSED, STOPPED, killed
from helpers.commands import Commands, wait_until

pytestmark = pytest.mark.usefixtures("agents")


def test_a_turn_begins_waits_and_ends_and_each_command_may_be_repeated(command: Commands) -> None:
    begin = ("advance", "agents.py:asking", "t", "--turn-id", "one", "--message", "Bees.")
    for _ in range(2):
        paused = command(*begin)
        assert (paused.code, paused.lines) == (PAUSED, ["t  paused  one"])
    for _ in range(2):
        done = command(*begin, "--answers", '{"asking/boss": "yes"}')
        assert (done.code, done.lines) == (0, ["t  done  yes"])
    assert (command.folder / "ledger").read_text().split() == ["first", "printer"]
    refused = command(*begin, "--answers", '{"asking/boss": "no"}')
    assert refused.code == REFUSED
    assert "was answered otherwise" in refused.err


def test_all_threads_whose_runs_died_continue_and_no_others(command: Commands) -> None:
    killed(command, "alone", "died")
    killed(command, "hanging", "other")
    command("run", "agents.py:failing", "bees", "--thread", "failed")
    command("run", "agents.py:asking", "bees", "--thread", "waits", "--no-input")
    running = command.start("run", "agents.py:alone", "bees", "--thread", "stopped")
    wait_until((command.folder / "hanging").exists)
    running.signal(signal.SIGINT)
    (command.folder / "go").touch()
    assert running.wait().code in (0, STOPPED)
    for found in ([{"thread_id": "died", "status": "done", "text": "went on"}], []):
        swept = command("advance", "agents.py:alone", "--all", "--json")
        assert (swept.code, [*map(json.loads, swept.lines)]) == (0, found)
        assert swept.err == "Skipped: thread other was run by another tree.\n"


def test_all_overdue_threads_continue_and_are_listed(command: Commands) -> None:
    for thread, tree in [("one", "hurried"), ("two", "hurried"), ("waits", "asking")]:
        command("run", f"agents.py:{tree}", "bees", "--thread", thread, "--no-input")
    listed = command("threads", "agents.py:hurried", "--due")
    assert [line.split()[:2] for line in listed.lines] == [["two", "paused"], ["one", "paused"]]
    assert all(line.endswith(", which has passed") for line in listed.lines)
    lines = ["two  done  no", "one  done  no"]
    for found in (lines, []):
        swept = command("advance", "agents.py:hurried", "--all")
        assert (swept.code, swept.lines, swept.err) == (0, found, "")
    assert "[default] no" in command("events", "agents.py:hurried", "one").out


def test_a_failed_thread_is_tried_again_by_its_name(command: Commands) -> None:
    command("run", "agents.py:failing", "bees", "--thread", "t")
    failed = command("advance", "agents.py:failing", "t")
    assert (failed.code, failed.lines) == (FAILED, ["t  failed  ValueError: the printer is jammed"])
    (command.folder / "mended").touch()
    done = command("advance", "agents.py:failing", "t")
    assert (done.code, done.lines) == (0, ["t  done  three"])


def test_a_turn_begins_with_values_and_the_command_may_be_repeated(command: Commands) -> None:
    begin = ("advance", "agents.py:chat", "t", "--turn-id", "one", "--message", "Go.")
    for _ in range(2):
        done = command(*begin, "--values", '{"topic": "bees"}')
        assert (done.code, done.lines) == (0, ["t  done  told: About bees."])
    assert command(*begin, "--values", '{"topic": "wasps"}').code == REFUSED


@pytest.mark.parametrize("option", [("--message", "Go."), ("--values", "{}")])
def test_what_begins_a_turn_needs_its_name(command: Commands, option: tuple[str, str]) -> None:
    refused = command("advance", "agents.py:asking", "t", *option)
    assert refused.code == REFUSED
    assert "pass --turn-id, such as --turn-id night" in refused.err
    assert not (command.folder / "agentgraph.db").exists()


@pytest.mark.parametrize(
    "args", [(), ("t", "--all"), ("--all", "--turn-id", "one"), ("--all", "--values", '{"a": 1}')]
)
def test_a_thread_or_all_is_named(command: Commands, args: tuple[str, ...]) -> None:
    refused = command("advance", "agents.py:asking", *args)
    assert refused.code == REFUSED
    assert "name a THREAD with its options, or pass --all alone" in refused.err
